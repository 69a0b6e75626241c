/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "protocol.h"

/* The runner repeats short calls for at least this many seconds. */
static const double ENOUGH_SECONDS = 0.15;
enum { MOST_CALLS = 1000 };

/* Finds the string value of `key` in a line that the driver wrote. json.dumps puts one space after
 * the colon, and no value of the driver holds a quote or a backslash. */
static void take_field(const char *line, const char *key, char *value, size_t capacity) {
    char pattern[32];
    snprintf(pattern, sizeof pattern, "\"%s\": \"", key);
    const char *start = strstr(line, pattern);
    const char *end = start ? strchr(start + strlen(pattern), '"') : NULL;
    value[0] = '\0';
    if (!end)
        return;
    start += strlen(pattern);
    const size_t length = (size_t)(end - start);
    if (length >= capacity || memchr(start, '\\', length))
        give_up("a value is too long or has a backslash");
    memcpy(value, start, length);
    value[length] = '\0';
}

bool next_command(struct command *command) {
    static char line[8192];
    if (!fgets(line, sizeof line, stdin))
        return false;
    take_field(line, "do", command->verb, sizeof command->verb);
    take_field(line, "workload", command->workload, sizeof command->workload);
    take_field(line, "to", command->to, sizeof command->to);
    return strcmp(command->verb, "quit") != 0;
}

double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void answer(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    fflush(stdout);
}

_Noreturn void give_up(const char *message) {
    fputs("{\"error\": \"", stdout);
    for (const char *c = message; *c; c++) {
        if (*c == '"' || *c == '\\')
            putchar('\\');
        putchar((unsigned char)*c < ' ' ? ' ' : *c);
    }
    answer("\"}");
    exit(EXIT_FAILURE);
}

static int compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void answer_warmed(void (*call)(void *context), void *context) {
    const double start = seconds_now();
    call(context);
    answer("{\"settings\": {}, \"seconds\": %.9f}", seconds_now() - start);
}

void answer_timed(void (*call)(void *context), void *context) {
    static double seconds[MOST_CALLS];
    const double first = seconds_now();
    int calls = 0;
    do {
        const double start = seconds_now();
        call(context);
        seconds[calls++] = seconds_now() - start;
    } while (calls < MOST_CALLS && seconds_now() - first < ENOUGH_SECONDS);
    qsort(seconds, (size_t)calls, sizeof seconds[0], compare_doubles);
    answer("{\"seconds\": %.9f, \"calls\": %d}", seconds[calls / 2], calls);
}
