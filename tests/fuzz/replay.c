/* SPDX-License-Identifier: Apache-2.0
 * Runs a fuzz target, without libFuzzer, once on each file of the given folders:
 *     replay_gguf tests/fuzz/corpus/gguf */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

/* The file that runs. */
static char path[512];

/* Says which file it was, and lets the signal end the program. */
static void name_file(int number) {
    static const char before[] = "the input is ";
    signal(number, SIG_DFL);
    if (write(STDERR_FILENO, before, sizeof before - 1) > 0 &&
        write(STDERR_FILENO, path, strlen(path)) > 0)
        (void)!write(STDERR_FILENO, "\n", 1);
    raise(number);
}

static void run_file(void) {
    size_t size = 0;
    FILE *file = fopen(path, "rb");
    struct stat info;
    if (!file || fstat(fileno(file), &info) != 0) {
        perror(path);
        exit(1);
    }
    /* Exactly as large as the input, so that sanitizers see reads beyond it. */
    uint8_t *data = malloc((size_t)info.st_size);
    if (data)
        size = fread(data, 1, (size_t)info.st_size, file);
    fclose(file);
    if (size != (size_t)info.st_size) {
        fprintf(stderr, "%s: cannot read\n", path);
        exit(1);
    }
    LLVMFuzzerTestOneInput(data, size);
    free(data);
}

int main(int argc, char **argv) {
    size_t files = 0;
    signal(SIGABRT, name_file);
    for (int i = 1; i < argc; i++) {
        struct dirent **entries;
        const int n = scandir(argv[i], &entries, NULL, alphasort);
        if (n < 0) {
            perror(argv[i]);
            return 1;
        }
        for (int e = 0; e < n; e++) {
            snprintf(path, sizeof path, "%s/%s", argv[i], entries[e]->d_name);
            if (*entries[e]->d_name != '.') {
                run_file();
                files++;
            }
            free(entries[e]);
        }
        free(entries);
    }
    printf("%s: %zu inputs\n", argv[0], files);
    return files > 0 ? 0 : 1;
}
