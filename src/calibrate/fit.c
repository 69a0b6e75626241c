/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/fit.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/random.h"
#include "base/statistics.h"
#include "calibrate/matrix.h"

enum {
    BATCH = 512,           /* tokens of one step of Adam */
    PART = 256,            /* tokens whose contributions are held at a time */
    SAMPLED = 1024,        /* tokens from which it is found which contributions are large, */
    STRIDE = 17,           /* by looking at every 17th of them */
    NEED_BYTES = 128 << 20 /* at most; if tokens would take more, a part of them is fitted to */
};

/* Weights in the loss of a token that needs a neuron, in units of the mean squared contribution,
 * and of one that does not need it. */
static const float most_weight = 100, least_weight = 0.2f, unneeded_weight = 0.7f;

struct fit {
    const struct layer *layer;
    const struct fit_options *options;
    struct predictor *predictor;
    struct arena *scratch;
    size_t tokens; /* that are fitted to, evenly spread over the layer's */
    /* [tokens, intermediate_size]: 0 if the token does not need the neuron, else 1 to 255, from
     * which `weights` gives its weight in the loss. Steps of the weights' square roots are even, so
     * that small weights are as fine as large ones. */
    uint8_t *needs;
    float weights[256];
    float limit;       /* contributions above it are needed */
    float mean_square; /* of the contributions */
    float *x, *sizes;  /* [PART, hidden_size], [PART, intermediate_size]: what is worked on */
};

/* Copies rows [first, first + n) of `tokens` rows that are evenly spread over the layer's. */
static void take_rows(const struct layer *l, const float *from, size_t first, size_t n,
                      size_t tokens, float *rows) {
    for (size_t t = 0; t < n; t++)
        memcpy(rows + t * l->hidden_size, from + (first + t) * l->tokens / tokens * l->hidden_size,
               l->hidden_size * sizeof *rows);
}

/* Finds `limit` and `mean_square` from a sample, and the weights. */
static wisp_status measure_sizes(struct fit *f, wisp_error *error) {
    const struct layer *l = f->layer;
    const size_t width = l->intermediate_size, tokens = smaller(f->tokens, SAMPLED);
    double squares = 0;
    size_t used = 0;
    float *sample;
    ARENA_TAKE(f->scratch, sample, tokens * width / STRIDE + SAMPLED, error);
    for (size_t first = 0; first < tokens; first += PART) {
        const size_t n = smaller(tokens - first, PART);
        take_rows(l, l->x, first, n, tokens, f->x);
        TRY(layer_contributions(l, 0, width, f->x, n, f->sizes, error));
        for (size_t i = 0; i < n * width; i += STRIDE) {
            sample[used++] = f->sizes[i];
            squares += (double)f->sizes[i] * (double)f->sizes[i];
        }
    }
    f->limit = quantile_below(sample, used, 1 - (double)f->options->computed);
    /* Contributions of less than 1e-19 count as none: their square is not a normal float, and
     * others are divided by it. */
    const float mean_square = used > 0 ? (float)(squares / (double)used) : 0;
    f->mean_square = mean_square >= FLT_MIN ? mean_square : 1;
    f->weights[0] = unneeded_weight;
    for (int i = 1; i < 256; i++) {
        const float root = (float)(i - 1) / 254;
        f->weights[i] = most_weight * root * root + least_weight;
    }
    return WISP_OK;
}

/* ---- reduced-rank regression ---------------------------------------------------------------- */

/* Sums over the tokens of products of x, what the predictor reads, and y, the contributions. */
struct sums {
    double *xx, *xy; /* [hidden_size, hidden_size], [hidden_size, intermediate_size] */
    double *x, *y;   /* [hidden_size], [intermediate_size] */
};

/* Goes through all tokens once: fills `needs`, and the sums about the means. */
static wisp_status read_tokens(struct fit *f, struct sums *sums, wisp_error *error) {
    const struct layer *l = f->layer;
    const size_t n = l->hidden_size, m = l->intermediate_size;
    double *part;
    ARENA_TAKE(f->scratch, part, n * larger(n, m), error);
    for (size_t first = 0; first < f->tokens; first += PART) {
        const size_t rows = smaller(f->tokens - first, PART);
        take_rows(l, l->x, first, rows, f->tokens, f->x);
        TRY(layer_contributions(l, 0, m, f->x, rows, f->sizes, error));
        take_rows(l, l->predictor_x, first, rows, f->tokens, f->x);
        TRY(matrix_gram(l->kernels, f->x, f->x, part, n, n, rows, error));
        for (size_t i = 0; i < n * n; i++)
            sums->xx[i] += part[i];
        TRY(matrix_gram(l->kernels, f->x, f->sizes, part, n, m, rows, error));
        for (size_t i = 0; i < n * m; i++)
            sums->xy[i] += part[i];
        for (size_t i = 0; i < rows * n; i++)
            sums->x[i % n] += (double)f->x[i];
        for (size_t i = 0; i < rows * m; i++) {
            const float size = f->sizes[i];
            const float root = sqrtf(fminf(size * size / (f->mean_square * most_weight), 1));
            const bool is_needed = size > f->limit;
            f->needs[first * m + i] = is_needed ? (uint8_t)(1 + (int)(254 * root + 0.5f)) : 0;
            sums->y[i % m] += (double)size;
        }
    }
    const double tokens = (double)f->tokens;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++)
            sums->xx[i * n + j] -= sums->x[i] * sums->x[j] / tokens;
        for (size_t j = 0; j < m; j++)
            sums->xy[i * m + j] -= sums->x[i] * sums->y[j] / tokens;
    }
    return WISP_OK;
}

/* Sets P and Q to the reduced-rank regression. Let L L^T = X^T X and M = L^-1 X^T Y. The least
 * squares map from x to y is L^-T M. The map of the wanted rank that is nearest to it is L^-T V V^T
 * M, where V holds the first left singular vectors of M. P becomes L^-T V and Q becomes V^T M,
 * scaled so that columns of Q start with a length of 4 and logits with a spread of some units. */
static wisp_status start_from_regression(struct fit *f, wisp_error *error) {
    struct predictor *p = f->predictor;
    const size_t n = p->hidden_size, m = p->intermediate_size, rank = p->rank;
    struct sums sums = {0};
    double *products, *v, *fitted, trace = 0;
    ARENA_TAKE(f->scratch, sums.xx, n * n, error);
    ARENA_TAKE(f->scratch, sums.xy, n * m, error);
    ARENA_TAKE(f->scratch, sums.x, n, error);
    ARENA_TAKE(f->scratch, sums.y, m, error);
    ARENA_TAKE(f->scratch, products, n * n, error);
    ARENA_TAKE(f->scratch, v, n * rank, error);
    ARENA_TAKE(f->scratch, fitted, rank * m, error);
    TRY(read_tokens(f, &sums, error));

    for (size_t i = 0; i < n; i++)
        trace += sums.xx[i * n + i];
    for (size_t i = 0; i < n; i++) /* a ridge */
        sums.xx[i * n + i] += 0.01 * trace / (double)n + 1e-9;
    matrix_factor(sums.xx, n);
    matrix_solve_lower(sums.xx, sums.xy, n, m);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++) {
            double sum = 0;
            for (size_t c = 0; c < m; c++)
                sum += sums.xy[i * m + c] * sums.xy[j * m + c];
            products[i * n + j] = products[j * n + i] = sum;
        }
    TRY(matrix_eigenvectors(products, n, rank, v, error));
    for (size_t c = 0; c < n; c++)
        for (size_t j = 0; j < rank; j++)
            for (size_t i = 0; i < m; i++)
                fitted[j * m + i] += v[c * rank + j] * sums.xy[c * m + i];
    matrix_solve_upper(sums.xx, v, n, rank);

    for (size_t j = 0; j < rank; j++) {
        double bias = 0, squares = 0;
        for (size_t i = 0; i < m; i++)
            squares += fitted[j * m + i] * fitted[j * m + i];
        const double length = sqrt(squares), scale = length / sqrt((double)f->mean_square);
        for (size_t c = 0; c < n; c++) {
            p->p[c * rank + j] = (float)(v[c * rank + j] * scale);
            bias -= sums.x[c] / (double)f->tokens * v[c * rank + j] * scale;
        }
        p->p_bias[j] = (float)bias;
        for (size_t i = 0; i < m; i++)
            p->q[j * m + i] = length > 0 ? (float)(4 * fitted[j * m + i] / length) : 0;
    }
    for (size_t i = 0; i < m; i++)
        p->q_bias[i] = -1.5f;
    return WISP_OK;
}

/* ---- Adam ----------------------------------------------------------------------------------- */

/* Parameters with their gradient and its moments. */
struct parameters {
    float *values;
    size_t n;
    float *gradient, *mean, *square;
};

static wisp_status open_parameters(struct parameters *p, float *values, size_t n,
                                   struct arena *scratch, wisp_error *error) {
    p->values = values;
    p->n = n;
    ARENA_TAKE(scratch, p->gradient, n, error);
    ARENA_TAKE(scratch, p->mean, n, error);
    ARENA_TAKE(scratch, p->square, n, error);
    return WISP_OK;
}

static void update(struct parameters *p, int step, float rate) {
    const float keep_mean = 0.9f, keep_square = 0.999f;
    const float mean_part = 1 - powf(keep_mean, (float)step);
    const float square_part = 1 - powf(keep_square, (float)step);
    for (size_t i = 0; i < p->n; i++) {
        const float d = p->gradient[i];
        p->mean[i] = keep_mean * p->mean[i] + (1 - keep_mean) * d;
        p->square[i] = keep_square * p->square[i] + (1 - keep_square) * d * d;
        p->values[i] -=
            rate * (p->mean[i] / mean_part) / (sqrtf(p->square[i] / square_part) + 1e-8f);
    }
}

/* Sets sums [n] to the sum of the rows of x [BATCH, n]. */
static void sum_columns(const float *x, size_t n, float *sums) {
    memset(sums, 0, n * sizeof *sums);
    for (size_t i = 0; i < BATCH; i++)
        for (size_t j = 0; j < n; j++)
            sums[j] += x[i * n + j];
}

static wisp_status descend(struct fit *f, wisp_error *error) {
    const float fastest = 1.5e-2f, slowest = 6e-5f; /* rates */
    const struct layer *l = f->layer;
    const struct kernels *kernels = l->kernels;
    const struct predictor *to = f->predictor;
    const size_t n = to->hidden_size, m = to->intermediate_size, rank = to->rank;
    struct parameters p, p_bias, q, q_bias;
    float *x, *h, *z, *dh; /* [BATCH, n], [BATCH, rank], [BATCH, m], [BATCH, rank] */
    double *gram;          /* a gradient, of P or Q */
    size_t chosen[BATCH];
    uint64_t random = f->options->seed;
    ARENA_TAKE(f->scratch, x, BATCH * n, error);
    ARENA_TAKE(f->scratch, h, BATCH * rank, error);
    ARENA_TAKE(f->scratch, z, BATCH * m, error);
    ARENA_TAKE(f->scratch, dh, BATCH * rank, error);
    ARENA_TAKE(f->scratch, gram, larger(n, m) * rank, error);
    TRY(open_parameters(&p, to->p, n * rank, f->scratch, error));
    TRY(open_parameters(&p_bias, to->p_bias, rank, f->scratch, error));
    TRY(open_parameters(&q, to->q, rank * m, f->scratch, error));
    TRY(open_parameters(&q_bias, to->q_bias, m, f->scratch, error));

    for (int step = 1; step <= f->options->steps; step++) {
        if (l->cancelled && l->cancelled(l->context))
            return fail(error, WISP_ERROR_CANCELLED, NULL, NULL, "cancelled");

        /* h = P x + p and z = Q h for tokens that are drawn by chance. */
        for (size_t i = 0; i < BATCH; i++) {
            chosen[i] = (size_t)((random_next(&random) >> 32) * f->tokens >> 32);
            take_rows(l, l->predictor_x, chosen[i], 1, f->tokens, x + i * n);
        }
        TRY(matrix_multiply(kernels, x, to->p, rank, h, BATCH, rank, n, error));
        for (size_t i = 0; i < BATCH * rank; i++)
            h[i] += to->p_bias[i % rank];
        TRY(matrix_multiply(kernels, h, to->q, m, z, BATCH, m, rank, error));

        /* z becomes the loss's derivative by the logits z + q. */
        for (size_t i = 0; i < BATCH; i++) {
            const uint8_t *needs = f->needs + chosen[i] * m;
            for (size_t j = 0; j < m; j++) {
                const float chance = 1 / (1 + expf(-(z[i * m + j] + to->q_bias[j])));
                z[i * m + j] =
                    (chance - (needs[j] ? 1.0f : 0.0f)) * f->weights[needs[j]] / (float)BATCH;
            }
        }

        /* Back through Q, then through P. */
        sum_columns(z, m, q_bias.gradient);
        TRY(matrix_gram(kernels, h, z, gram, rank, m, BATCH, error));
        for (size_t i = 0; i < rank * m; i++)
            q.gradient[i] = (float)gram[i];
        TRY(matrix_multiply_transposed(kernels, z, to->q, dh, BATCH, rank, m, error));
        sum_columns(dh, rank, p_bias.gradient);
        TRY(matrix_gram(kernels, x, dh, gram, n, rank, BATCH, error));
        for (size_t i = 0; i < n * rank; i++)
            p.gradient[i] = (float)gram[i];

        const float rate = slowest + fastest * (1 - (float)step / (float)f->options->steps);
        update(&p, step, rate);
        update(&p_bias, step, rate);
        update(&q, step, rate);
        update(&q_bias, step, rate);
    }
    return WISP_OK;
}

wisp_status predictor_fit(struct layer *l, const struct fit_options *options, struct arena *scratch,
                          struct predictor *predictor, wisp_error *error) {
    const size_t width = l->intermediate_size;
    struct fit f = {.layer = l,
                    .options = options,
                    .predictor = predictor,
                    .scratch = scratch,
                    .tokens = smaller(l->tokens, NEED_BYTES / width)};
    TRY(predictor_open(l->hidden_size, width, options->rank, l->arena, predictor, error));
    ARENA_TAKE(scratch, f.needs, f.tokens * width, error);
    ARENA_TAKE(scratch, f.x, PART * l->hidden_size, error);
    ARENA_TAKE(scratch, f.sizes, PART * width, error);
    TRY(measure_sizes(&f, error));
    TRY(start_from_regression(&f, error));
    return descend(&f, error);
}
