/* SPDX-License-Identifier: Apache-2.0 */
#include "sparse/fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "sparse/matrix.h"

enum { STEPS = 600, BATCH = 512, SAMPLE = 1 << 16 };

static const float most_weight = 20; /* of one token's loss, in units of the mean */
static const float least_weight = 0.2f;
static const float absent_weight = 0.7f; /* of tokens that do not want the quad */

struct fit {
    const struct kernels *kernels;
    const float *x, *sizes;
    size_t tokens;
    uint64_t random;
    struct predictor *to;
    float threshold;   /* sizes above it are wanted */
    float mean_square; /* of the sizes */
};

static size_t random_below(uint64_t *state, size_t n) {
    return (size_t)((random_next(state) >> 32) * n >> 32);
}

static int by_size(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* The threshold that the wanted share of sizes is above, from a sample; and their mean square. */
static bool measure_sizes(struct fit *f, float wanted) {
    float *sample = malloc(SAMPLE * sizeof *sample);
    double squares = 0;
    if (!sample)
        return false;
    for (size_t i = 0; i < SAMPLE; i++) {
        sample[i] = f->sizes[random_below(&f->random, f->tokens * f->to->quads)];
        squares += (double)sample[i] * (double)sample[i];
    }
    qsort(sample, SAMPLE, sizeof *sample, by_size);
    f->threshold = sample[(size_t)((1 - (double)wanted) * (SAMPLE - 1))];
    f->mean_square = squares > 0 ? (float)(squares / (double)SAMPLE) : 1;
    free(sample);
    return true;
}

/* ---- reduced-rank start --------------------------------------------------------------------- */

/* Means of the columns of x [rows, n]. */
static void column_means(const float *x, size_t rows, size_t n, double *means) {
    for (size_t j = 0; j < n; j++)
        means[j] = 0;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < n; j++)
            means[j] += (double)x[i * n + j] / (double)rows;
}

struct regression {
    double *xx, *xy, *h, *fitted, *v; /* [hidden, hidden], [hidden, quads] twice, [quads, quads],
                                         [quads, rank] */
    double *x_mean, *y_mean;
};

/* Sums of products about the means, with a ridge. */
static void centre(const struct fit *f, const struct regression *r) {
    const size_t n = f->to->hidden, m = f->to->quads;
    double trace = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++)
            r->xx[i * n + j] -= (double)f->tokens * r->x_mean[i] * r->x_mean[j];
        for (size_t j = 0; j < m; j++)
            r->xy[i * m + j] -= (double)f->tokens * r->x_mean[i] * r->y_mean[j];
        trace += r->xx[i * n + i];
    }
    for (size_t i = 0; i < n; i++)
        r->xx[i * n + i] += 0.01 * trace / (double)n + 1e-9;
}

/* The products H^T X^T X H of the fitted values [quads, quads]. */
static void fitted_products(const struct fit *f, const struct regression *r) {
    const size_t n = f->to->hidden, m = f->to->quads;
    for (size_t i = 0; i < m * m; i++)
        r->fitted[i] = 0;
    /* X^T X H = X^T Y, but for the ridge, which only shrinks. */
    for (size_t c = 0; c < n; c++)
        for (size_t i = 0; i < m; i++)
            for (size_t j = 0; j < m; j++)
                r->fitted[i * m + j] += r->h[c * m + i] * r->xy[c * m + j];
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < i; j++)
            r->fitted[i * m + j] = r->fitted[j * m + i] =
                (r->fitted[i * m + j] + r->fitted[j * m + i]) / 2;
}

/* P = H V, Q = V^T, scaled so that logits start with a spread of some units. */
static void start_from(const struct fit *f, const struct regression *r) {
    struct predictor *to = f->to;
    const size_t n = to->hidden, m = to->quads, rank = to->rank;
    const double scale = 4 / sqrt((double)f->mean_square);
    for (size_t j = 0; j < rank; j++) {
        double bias = 0;
        for (size_t c = 0; c < n; c++) {
            double sum = 0;
            for (size_t i = 0; i < m; i++)
                sum += r->h[c * m + i] * r->v[i * rank + j];
            to->p[c * rank + j] = (float)(sum * scale / 4);
            bias -= r->x_mean[c] * sum * scale / 4;
        }
        to->p_bias[j] = (float)bias;
        for (size_t i = 0; i < m; i++)
            to->q[j * m + i] = (float)(4 * r->v[i * rank + j]);
    }
    for (size_t i = 0; i < m; i++)
        to->q_bias[i] = -1.5f;
}

static bool start_reduced(const struct fit *f) {
    const size_t n = f->to->hidden, m = f->to->quads, rank = f->to->rank;
    struct regression r = {.xx = malloc(n * n * sizeof(double)),
                           .xy = malloc(n * m * sizeof(double)),
                           .h = malloc(n * m * sizeof(double)),
                           .fitted = malloc(m * m * sizeof(double)),
                           .v = malloc(m * rank * sizeof(double)),
                           .x_mean = malloc(n * sizeof(double)),
                           .y_mean = malloc(m * sizeof(double))};
    bool good = r.xx && r.xy && r.h && r.fitted && r.v && r.x_mean && r.y_mean &&
                matrix_gram(f->kernels, f->x, f->x, r.xx, n, n, f->tokens) &&
                matrix_gram(f->kernels, f->x, f->sizes, r.xy, n, m, f->tokens);
    if (good) {
        column_means(f->x, f->tokens, n, r.x_mean);
        column_means(f->sizes, f->tokens, m, r.y_mean);
        centre(f, &r);
        memcpy(r.h, r.xy, n * m * sizeof *r.h);
        matrix_solve(r.xx, r.h, n, m);
        fitted_products(f, &r);
        good = matrix_eigenvectors(r.fitted, m, rank, r.v);
    }
    if (good)
        start_from(f, &r);
    free(r.xx);
    free(r.xy);
    free(r.h);
    free(r.fitted);
    free(r.v);
    free(r.x_mean);
    free(r.y_mean);
    return good;
}

/* ---- Adam ----------------------------------------------------------------------------------- */

/* One group of parameters with its gradient and the moments of that. */
struct group {
    float *values;
    size_t n;
    float *gradient, *mean, *square;
};

static void update(struct group *g, int step, float rate) {
    const float keep_mean = 0.9f, keep_square = 0.999f;
    const float mean_part = 1 - powf(keep_mean, (float)step);
    const float square_part = 1 - powf(keep_square, (float)step);
    for (size_t i = 0; i < g->n; i++) {
        const float d = g->gradient[i];
        g->mean[i] = keep_mean * g->mean[i] + (1 - keep_mean) * d;
        g->square[i] = keep_square * g->square[i] + (1 - keep_square) * d * d;
        g->values[i] -=
            rate * (g->mean[i] / mean_part) / (sqrtf(g->square[i] / square_part) + 1e-8f);
    }
}

/* What one step works in. */
struct step {
    float *x, *h, *z, *dh; /* [BATCH, hidden], [BATCH, rank], [BATCH, quads], [BATCH, rank] */
    double *sums;          /* the largest gradient's */
    size_t *chosen;        /* [BATCH] */
    struct group groups[4];
};

enum { GROUP_P, GROUP_P_BIAS, GROUP_Q, GROUP_Q_BIAS, GROUPS };

static void forward(struct fit *f, struct step *s, bool *good) {
    const struct predictor *to = f->to;
    for (size_t i = 0; i < BATCH; i++) {
        s->chosen[i] = random_below(&f->random, f->tokens);
        memcpy(s->x + i * to->hidden, f->x + s->chosen[i] * to->hidden, to->hidden * sizeof *s->x);
    }
    *good = *good && matrix_multiply(f->kernels, s->x, to->p, s->h, BATCH, to->rank, to->hidden);
    for (size_t i = 0; i < BATCH * to->rank; i++)
        s->h[i] += to->p_bias[i % to->rank];
    *good = *good && matrix_multiply(f->kernels, s->h, to->q, s->z, BATCH, to->quads, to->rank);
}

/* z becomes the loss's derivative by it. */
static void differentiate(const struct fit *f, struct step *s) {
    const size_t m = f->to->quads;
    for (size_t i = 0; i < BATCH; i++)
        for (size_t j = 0; j < m; j++) {
            const float size = f->sizes[s->chosen[i] * m + j];
            const bool is_wanted = size > f->threshold;
            const float weight = fminf(size * size / f->mean_square, most_weight) + least_weight;
            float *z = &s->z[i * m + j];
            const float chance = 1 / (1 + expf(-(*z + f->to->q_bias[j])));
            *z = (chance - (is_wanted ? 1.0f : 0.0f)) * (is_wanted ? weight : absent_weight) /
                 (float)(BATCH * m);
        }
}

static void sum_columns(const float *x, size_t rows, size_t n, float *sums) {
    memset(sums, 0, n * sizeof *sums);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < n; j++)
            sums[j] += x[i * n + j];
}

static bool gradient_of_product(const struct fit *f, const float *x, const float *dy, size_t m,
                                size_t n, struct step *s, float *gradient) {
    if (!matrix_gram(f->kernels, x, dy, s->sums, m, n, BATCH))
        return false;
    for (size_t i = 0; i < m * n; i++)
        gradient[i] = (float)s->sums[i];
    return true;
}

static bool backward(const struct fit *f, struct step *s) {
    const struct predictor *to = f->to;
    const size_t n = to->hidden, m = to->quads, rank = to->rank;
    sum_columns(s->z, BATCH, m, s->groups[GROUP_Q_BIAS].gradient);
    const bool good = gradient_of_product(f, s->h, s->z, rank, m, s, s->groups[GROUP_Q].gradient) &&
                      matrix_multiply_transposed(f->kernels, s->z, to->q, s->dh, BATCH, rank, m) &&
                      gradient_of_product(f, s->x, s->dh, n, rank, s, s->groups[GROUP_P].gradient);
    sum_columns(s->dh, BATCH, rank, s->groups[GROUP_P_BIAS].gradient);
    return good;
}

static bool open_group(struct group *g, float *values, size_t n) {
    g->values = values;
    g->n = n;
    g->gradient = calloc(n, sizeof(float));
    g->mean = calloc(n, sizeof(float));
    g->square = calloc(n, sizeof(float));
    return g->gradient && g->mean && g->square;
}

static bool open_step(const struct predictor *to, struct step *s) {
    const size_t n = to->hidden, m = to->quads, rank = to->rank;
    const size_t most = n > m ? n : m;
    *s = (struct step){.x = malloc(BATCH * n * sizeof(float)),
                       .h = malloc(BATCH * rank * sizeof(float)),
                       .z = malloc(BATCH * m * sizeof(float)),
                       .dh = malloc(BATCH * rank * sizeof(float)),
                       .sums = malloc(most * rank * sizeof(double)),
                       .chosen = malloc(BATCH * sizeof(size_t))};
    bool good = s->x && s->h && s->z && s->dh && s->sums && s->chosen;
    good = open_group(&s->groups[GROUP_P], to->p, n * rank) && good;
    good = open_group(&s->groups[GROUP_P_BIAS], to->p_bias, rank) && good;
    good = open_group(&s->groups[GROUP_Q], to->q, rank * m) && good;
    return open_group(&s->groups[GROUP_Q_BIAS], to->q_bias, m) && good;
}

static void close_step(struct step *s) {
    for (int i = 0; i < GROUPS; i++) {
        free(s->groups[i].gradient);
        free(s->groups[i].mean);
        free(s->groups[i].square);
    }
    free(s->x);
    free(s->h);
    free(s->z);
    free(s->dh);
    free(s->sums);
    free(s->chosen);
}

static wisp_status descend(struct fit *f, const struct fit_task *task, wisp_error *error) {
    const float fastest = 3e-3f, slowest = 6e-5f;
    struct step s;
    bool good = open_step(f->to, &s), stopped = false;
    for (int step = 1; step <= STEPS && good && !stopped; step++) {
        const float rate = slowest + fastest * (1 - (float)step / (float)STEPS);
        forward(f, &s, &good);
        if (good) {
            differentiate(f, &s);
            good = backward(f, &s);
        }
        for (int i = 0; i < GROUPS && good; i++)
            update(&s.groups[i], step, rate);
        stopped = task->stopped && task->stopped(task->context);
    }
    close_step(&s);
    if (stopped)
        return fail(error, WISP_ERROR_CANCELLED, NULL, NULL, "cancelled");
    return good ? WISP_OK : fail_memory(error, BATCH * f->to->hidden * sizeof(float));
}

wisp_status predictor_fit(const struct fit_task *task, struct predictor *to, wisp_error *error) {
    const size_t hidden = task->hidden, quads = task->quads, rank = task->rank;
    struct fit f = {.kernels = task->kernels,
                    .x = task->x,
                    .sizes = task->sizes,
                    .tokens = task->tokens,
                    .random = task->seed,
                    .to = to};
    *to = (struct predictor){.hidden = hidden,
                             .quads = quads,
                             .rank = rank,
                             .p = malloc(hidden * rank * sizeof(float)),
                             .p_bias = malloc(rank * sizeof(float)),
                             .q = malloc(rank * quads * sizeof(float)),
                             .q_bias = malloc(quads * sizeof(float))};
    const bool good = to->p && to->p_bias && to->q && to->q_bias &&
                      measure_sizes(&f, task->wanted) && start_reduced(&f);
    const wisp_status status = good ? descend(&f, task, error)
                                    : fail_memory(error, (hidden + quads) * (hidden + quads) * 8);
    if (status != WISP_OK)
        predictor_release(to);
    return status;
}

wisp_status predictor_apply(const struct kernels *kernels, const struct predictor *to,
                            const float *x, size_t tokens, float *h, float *logits,
                            wisp_error *error) {
    bool good = matrix_multiply(kernels, x, to->p, h, tokens, to->rank, to->hidden);
    for (size_t i = 0; i < tokens * to->rank && good; i++)
        h[i] += to->p_bias[i % to->rank];
    good = good && matrix_multiply(kernels, h, to->q, logits, tokens, to->quads, to->rank);
    for (size_t i = 0; i < tokens * to->quads && good; i++)
        logits[i] += to->q_bias[i % to->quads];
    return good ? WISP_OK : fail_memory(error, (to->hidden + to->quads) * to->rank * sizeof *h);
}

void predictor_release(struct predictor *predictor) {
    free(predictor->p);
    free(predictor->p_bias);
    free(predictor->q);
    free(predictor->q_bias);
    *predictor = (struct predictor){0};
}
