/* SPDX-License-Identifier: Apache-2.0
 * Times texts natively on one thread: time MODEL KERNELS PREDICTOR AT_ONCE < TEXTS prints the
 * milliseconds of processor time that the lines of TEXTS take with AT_ONCE lines in each call, and
 * how many of them feed-forward layers take. A first run, which warms up, does not count. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "wisp.h"

enum { MOST_TEXTS = 4096, MOST_BYTES = 1 << 24, USAGE = 2 };

static _Noreturn void give_up(const char *what) {
    fprintf(stderr, "time: %s\n", what);
    exit(EXIT_FAILURE);
}

static void check(wisp_status status, const wisp_error *error) {
    if (status != WISP_OK)
        give_up(error->message);
}

/* Reads the lines of standard input, which point into a buffer that is never freed. */
static size_t read_texts(wisp_text *texts) {
    static char bytes[MOST_BYTES];
    const size_t size = fread(bytes, 1, sizeof bytes, stdin);
    size_t n = 0;
    for (size_t at = 0; at < size; n++) {
        const char *end = memchr(bytes + at, '\n', size - at);
        if (n == MOST_TEXTS || !end)
            give_up("too many texts, or a last line without an end");
        texts[n] = (wisp_text){.bytes = bytes + at, .length = (size_t)(end - (bytes + at))};
        at += texts[n].length + 1;
    }
    return n;
}

/* Returns the milliseconds of all feed-forward layers since the session was opened. */
static double feed_forward(const wisp_session *session) {
    wisp_layer_stats stats;
    double seconds = 0;
    for (uint32_t layer = 0; wisp_session_get_layer_stats(session, layer, &stats); layer++)
        seconds += stats.seconds;
    return 1e3 * seconds;
}

static double milliseconds(wisp_session *session, const wisp_text *texts, size_t n, size_t at_once,
                           float *rows) {
    struct timespec start, end;
    wisp_error error;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
    for (size_t i = 0; i < n; i += at_once) {
        const size_t here = n - i < at_once ? n - i : at_once;
        check(wisp_embed(session, texts + i, here, NULL, rows, &error), &error);
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    return 1e3 * (double)(end.tv_sec - start.tv_sec) + 1e-6 * (double)(end.tv_nsec - start.tv_nsec);
}

int main(int argc, char **argv) {
    static wisp_text texts[MOST_TEXTS];
    wisp_model *model;
    wisp_session *session;
    wisp_model_info info;
    wisp_error error;
    if (argc != 5) {
        fputs("usage: time MODEL KERNELS PREDICTOR AT_ONCE < TEXTS\n", stderr);
        return USAGE;
    }
    wisp_model_options options = {.kernels = argv[2]};
    if (!wisp_predictor_find(argv[3], &options.predictor))
        give_up("no such predictor");
    const size_t n = read_texts(texts), at_once = strtoul(argv[4], NULL, 10);
    check(wisp_model_open(argv[1], &options, &model, &error), &error);
    check(wisp_session_open(model, NULL, &session, &error), &error);
    wisp_model_get_info(model, &info);
    float *rows = malloc((n + 1) * info.hidden_size * sizeof *rows);
    if (!rows || at_once == 0)
        give_up("no texts at once");
    milliseconds(session, texts, n, at_once, rows);
    const double before = feed_forward(session);
    const double all = milliseconds(session, texts, n, at_once, rows);
    printf("%.3f %.3f\n", all, feed_forward(session) - before);
    free(rows);
    wisp_session_close(session);
    wisp_model_close(model);
    return EXIT_SUCCESS;
}
