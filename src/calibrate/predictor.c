/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/predictor.h"

#include <string.h>

#include "base/checked.h"
#include "calibrate/matrix.h"
#include "formats/directory.h"

wisp_status predictor_choose(size_t rank, size_t most, size_t hidden_size, const char *type,
                             struct predictor_formats *formats, wisp_error *error) {
    if (rank > most)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "rank", "%zu; this model allows 1 to %zu",
                    rank, most);
    if (rank > PREDICTOR_BLOCK && rank % PREDICTOR_BLOCK != 0 && !type) {
        const size_t more = round_up(rank, PREDICTOR_BLOCK);
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "rank",
                    "%zu is not a multiple of %d, in which q8_0 stores matrices: %zu takes no "
                    "longer, and predictors of type f32 may have any rank",
                    rank, PREDICTOR_BLOCK, more <= most ? more : more - PREDICTOR_BLOCK);
    }
    formats->p = type ? block_format_by_name(type) : block_format_fitting(BLOCK_Q8_0, hidden_size);
    formats->q = type ? formats->p : block_format_fitting(BLOCK_Q8_0, rank);
    const struct block_format *format = formats->p;
    if (!format ||
        (format->id != BLOCK_F32 && format->id != BLOCK_Q8_0 && format->id != BLOCK_Q4_0))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "predictor_type",
                    "%.32s is not one of f32, q8_0, q4_0", type);
    if (type && (hidden_size % format->elements != 0 || rank % format->elements != 0))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "predictor_type",
                    "rows of %zu and %zu values are not whole blocks of %s, which have %u",
                    hidden_size, rank, format->name, format->elements);
    return WISP_OK;
}

wisp_status predictor_open(size_t hidden_size, size_t intermediate_size, size_t rank,
                           struct arena *arena, struct predictor *p, wisp_error *error) {
    *p = (struct predictor){
        .hidden_size = hidden_size, .intermediate_size = intermediate_size, .rank = rank};
    ARENA_TAKE(arena, p->p, hidden_size * rank, error);
    ARENA_TAKE(arena, p->p_bias, rank, error);
    ARENA_TAKE(arena, p->q, rank * intermediate_size, error);
    ARENA_TAKE(arena, p->q_bias, intermediate_size, error);
    return WISP_OK;
}

wisp_status predictor_inner(const struct kernels *kernels, const struct predictor *p,
                            const float *x, size_t tokens, float *h, wisp_error *error) {
    TRY(matrix_multiply(kernels, x, p->p, p->rank, h, tokens, p->rank, p->hidden_size, error));
    for (size_t i = 0; i < tokens; i++)
        kernels->add(h + i * p->rank, p->p_bias, p->rank);
    return WISP_OK;
}

wisp_status predictor_logits(const struct kernels *kernels, const struct predictor *p, size_t first,
                             size_t n, const float *h, size_t tokens, float *logits,
                             wisp_error *error) {
    TRY(matrix_multiply(kernels, h, p->q + first, p->intermediate_size, logits, tokens, n, p->rank,
                        error));
    for (size_t i = 0; i < tokens; i++)
        kernels->add(logits + i * n, p->q_bias + first, n);
    return WISP_OK;
}

/* Rounds w [n, k] as a file of the format rounds it, whose rows are the columns of w. */
static wisp_status round_columns(const float *w, size_t n, size_t k,
                                 const struct block_format *format, float *rounded,
                                 wisp_error *error) {
    struct arena scratch = {0};
    float *rows = arena_allocate(&scratch, n * k * sizeof *rows);
    void *stored = arena_allocate(&scratch, n * k / format->elements * format->bytes);
    const bool has_memory = rows && stored;
    if (has_memory) {
        matrix_transpose(w, n, k, rows);
        format->quantise(rows, n * k, stored);
        format->dequantise(stored, n * k, rows);
        matrix_transpose(rows, k, n, rounded);
    }
    arena_release(&scratch);
    return has_memory ? WISP_OK : fail_memory(error, n * k * sizeof *rows);
}

static wisp_status check_finite(const struct predictor *p, wisp_error *error) {
    if (all_finite(p->p, p->hidden_size * p->rank) && all_finite(p->p_bias, p->rank) &&
        all_finite(p->q, p->rank * p->intermediate_size) &&
        all_finite(p->q_bias, p->intermediate_size))
        return WISP_OK;
    return fail(error, WISP_ERROR_FORMAT, NULL, NULL,
                "a layer's predictor is not finite: weights of the model are not, or too large");
}

wisp_status predictor_round(const struct predictor *p, const struct predictor_formats *formats,
                            struct arena *arena, struct predictor *stored, wisp_error *error) {
    TRY(predictor_open(p->hidden_size, p->intermediate_size, p->rank, arena, stored, error));
    memcpy(stored->p_bias, p->p_bias, p->rank * sizeof *p->p_bias);
    memcpy(stored->q_bias, p->q_bias, p->intermediate_size * sizeof *p->q_bias);
    TRY(round_columns(p->p, p->hidden_size, p->rank, formats->p, stored->p, error));
    TRY(round_columns(p->q, p->rank, p->intermediate_size, formats->q, stored->q, error));
    return check_finite(stored, error);
}
