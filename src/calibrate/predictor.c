/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/predictor.h"

#include <stdlib.h>
#include <string.h>

#include "calibrate/matrix.h"

wisp_status predictor_open(size_t hidden, size_t wide, size_t rank, struct predictor *predictor,
                           wisp_error *error) {
    struct predictor *p = predictor;
    *p = (struct predictor){.hidden = hidden,
                            .wide = wide,
                            .rank = rank,
                            .p = malloc(hidden * rank * sizeof *p->p),
                            .p_bias = malloc(rank * sizeof *p->p_bias),
                            .q = malloc(rank * wide * sizeof *p->q),
                            .q_bias = malloc(wide * sizeof *p->q_bias)};
    return p->p && p->p_bias && p->q && p->q_bias
               ? WISP_OK
               : fail_memory(error, (hidden + wide) * rank * sizeof *p->p);
}

void predictor_release(struct predictor *predictor) {
    free(predictor->p);
    free(predictor->p_bias);
    free(predictor->q);
    free(predictor->q_bias);
    *predictor = (struct predictor){0};
}

wisp_status predictor_inner(const struct kernels *kernels, const struct predictor *p,
                            const float *x, size_t tokens, float *h, wisp_error *error) {
    if (!matrix_multiply(kernels, x, p->p, h, tokens, p->rank, p->hidden))
        return fail_memory(error, p->hidden * p->rank * sizeof *h);
    for (size_t i = 0; i < tokens; i++)
        kernels->add(h + i * p->rank, p->p_bias, p->rank);
    return WISP_OK;
}

wisp_status predictor_logits(const struct kernels *kernels, const struct predictor *p, size_t first,
                             size_t n, const float *h, size_t tokens, float *logits,
                             wisp_error *error) {
    if (!matrix_multiply_columns(kernels, h, p->q + first, p->wide, logits, tokens, n, p->rank))
        return fail_memory(error, p->rank * n * sizeof *h);
    for (size_t i = 0; i < tokens; i++)
        kernels->add(logits + i * n, p->q_bias + first, n);
    return WISP_OK;
}

void predictor_rows(const float *w, size_t n, size_t k, float *rows) {
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < k; j++)
            rows[j * n + i] = w[i * k + j];
}

/* What is left of w [n, k] when its columns have been rows of a file. */
static wisp_status round_columns(const float *w, size_t n, size_t k,
                                 const struct block_format *format, float *rounded,
                                 wisp_error *error) {
    const size_t bytes = n * k / format->elements * format->bytes;
    float *rows = calloc(n, k * sizeof *rows);
    void *stored = malloc(bytes);
    const bool good = rows && stored;
    if (good) {
        predictor_rows(w, n, k, rows);
        format->quantise(rows, n * k, stored);
        format->dequantise(stored, n * k, rows);
        predictor_rows(rows, k, n, rounded);
    }
    free(rows);
    free(stored);
    return good ? WISP_OK : fail_memory(error, n * k * sizeof *rows);
}

wisp_status predictor_round(const struct predictor *from, const struct predictor_formats *formats,
                            struct predictor *to, wisp_error *error) {
    TRY(predictor_open(from->hidden, from->wide, from->rank, to, error));
    memcpy(to->p_bias, from->p_bias, from->rank * sizeof *to->p_bias);
    memcpy(to->q_bias, from->q_bias, from->wide * sizeof *to->q_bias);
    TRY(round_columns(from->p, from->hidden, from->rank, formats->p, to->p, error));
    return round_columns(from->q, from->rank, from->wide, formats->q, to->q, error);
}
