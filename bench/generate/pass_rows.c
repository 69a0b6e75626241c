/* SPDX-License-Identifier: Apache-2.0
 * How long a pass takes that adds several tokens to one text, as one does that verifies drafts:
 *
 *     build/bench/pass_rows MODEL THREADS PROMPT_TOKENS [PASSES]
 *
 * Prints for each number of tokens the least and the median milliseconds of a pass, which computes
 * the logits behind each token, and how many times those of one token that is. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "engine/generation.h"

enum { MOST = 17, MOST_PASSES = 400 };

static wisp_error error;

static void expect(wisp_status status) {
    if (status == WISP_OK)
        return;
    fprintf(stderr, "%s\n", error.message);
    exit(1);
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    static double seconds[MOST + 1][MOST_PASSES];
    wisp_session_options options = {0};
    wisp_model *model;
    wisp_session *session;
    int32_t ids[1024];
    if (argc < 4 || argc > 5) {
        fputs("usage: pass_rows MODEL THREADS PROMPT_TOKENS [PASSES]\n", stderr);
        return 2;
    }
    options.threads = (uint32_t)strtoul(argv[2], NULL, 10);
    const size_t prompt = strtoul(argv[3], NULL, 10);
    const size_t passes = argc > 4 ? strtoul(argv[4], NULL, 10) : 40;
    if (prompt == 0 || prompt > 1000 || passes == 0 || passes > MOST_PASSES)
        return 2;
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        ids[i] = (int32_t)(300 + i * 7919 % 20000);
    expect(wisp_model_open(argv[1], NULL, &model, &error));
    expect(wisp_session_open(model, &options, &session, &error));
    expect(generation_open(session, 1, &error));
    struct sequence *sequence = &session->generation->sequences[0];
    const float *logits;
    const struct addition first = {sequence, ids, prompt, true};
    expect(generation_pass(session, &first, 1, false, &logits, &error));
    for (size_t p = 0; p < passes; p++) /* in turn, so that all meet the same disturbances */
        for (size_t n = 1; n <= MOST; n++) {
            const struct addition addition = {sequence, ids + p, n, false};
            const double start = clock_seconds();
            expect(generation_pass(session, &addition, 1, true, &logits, &error));
            seconds[n][p] = clock_seconds() - start;
            sequence_rewind(sequence, prompt, false);
        }
    puts("tokens  least ms  median ms  of one token's median");
    for (size_t n = 1; n <= MOST; n++) {
        qsort(seconds[n], passes, sizeof **seconds, by_size);
        printf("%6zu  %8.2f  %9.2f  %.2f\n", n, 1e3 * seconds[n][0], 1e3 * seconds[n][passes / 2],
               seconds[n][passes / 2] / seconds[1][passes / 2]);
    }
    wisp_session_close(session);
    wisp_model_close(model);
    return 0;
}
