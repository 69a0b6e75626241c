/* SPDX-License-Identifier: Apache-2.0
 * The logits of a decoder as a filter, for tests/oracle/decoders.py and quantise.py.
 *
 *     logits_driver MODEL KERNELS THREADS [COMPUTE [PREDICTOR SPARSITY]]
 *
 * Reads a sequence of token ids from standard input, 32-bit little-endian numbers, and writes the
 * logits [ids, vocabulary_size] that follow each, as little-endian floats. COMPUTE is f32 (the
 * default) or int8. A SPARSITY of 0 leaves that of the model, or none. */
#include <stdio.h>
#include <stdlib.h>

#include "wisp.h"

enum { MOST_IDS = 4096 };

static int report(const wisp_error *error) {
    fprintf(stderr, "logits_driver: %s\n", error->message);
    return 1;
}

int main(int argc, char **argv) {
    static int32_t ids[MOST_IDS];
    wisp_model *model;
    wisp_session *session;
    wisp_model_info info;
    wisp_error error;
    wisp_compute compute = WISP_COMPUTE_F32;
    wisp_predictor predictor = WISP_PREDICTOR_AUTO;
    if (argc < 4 || argc > 7 || argc == 6 || (argc >= 5 && !wisp_compute_find(argv[4], &compute)) ||
        (argc == 7 && !wisp_predictor_find(argv[5], &predictor))) {
        fputs("usage: logits_driver MODEL KERNELS THREADS [COMPUTE [PREDICTOR SPARSITY]]\n",
              stderr);
        return 2;
    }
    const wisp_model_options options = {
        .compute = compute, .kernels = argv[2], .predictor = predictor};
    /* Peers do not round keys and values to int8. */
    const wisp_session_options how = {.threads = (uint32_t)atoi(argv[3]),
                                      .cache_type = WISP_CACHE_F32};
    const size_t n = fread(ids, sizeof *ids, MOST_IDS, stdin);
    if (wisp_model_open(argv[1], &options, &model, &error) != WISP_OK)
        return report(&error);
    if (wisp_session_open(model, &how, &session, &error) != WISP_OK)
        return report(&error);
    if (argc == 7 && atof(argv[6]) > 0 &&
        wisp_session_set_sparsity(session, (float)atof(argv[6]), &error) != WISP_OK)
        return report(&error);
    wisp_model_get_info(model, &info);
    const size_t values = n * info.vocabulary_size;
    float *logits = malloc(values * sizeof *logits);
    if (!logits || wisp_logits(session, ids, n, logits, &error) != WISP_OK)
        return logits ? report(&error) : 1;
    const size_t written = fwrite(logits, sizeof *logits, values, stdout);
    free(logits);
    wisp_session_close(session);
    wisp_model_close(model);
    return written == values && fflush(stdout) == 0 ? 0 : 1;
}
