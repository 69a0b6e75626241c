/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/statistics.h"
#include "calibrate/matrix.h"

enum {
    BATCH = 512,
    PART = 256,            /* tokens whose sizes are held at a time */
    SAMPLED = 1024,        /* tokens from which it is told which sizes are large */
    STRIDE = 17,           /* of whose sizes every so many are looked at */
    WANT_BYTES = 128 << 20 /* for wants, at most: of more tokens a part is fitted to */
};

static const float most_weight = 100; /* of one token's loss, in units of the mean */
static const float least_weight = 0.2f;
static const float absent_weight = 0.7f; /* of tokens that do not want the neuron */

/* How much a token wants a neuron: 0 for not at all. */
typedef uint8_t want;

struct fit {
    const struct fit_task *task;
    size_t tokens; /* that are fitted to, evenly spread */
    want *wants;   /* [tokens, wide] */
    uint64_t random;
    struct predictor *to;
    bool p_stays;
    int steps;
    float threshold;    /* sizes above it are wanted */
    float mean_square;  /* of the sizes */
    float weights[256]; /* of each want in the loss */
};

static size_t random_below(uint64_t *state, size_t n) {
    return (size_t)((random_next(state) >> 32) * n >> 32);
}

/* ---- what is wanted ------------------------------------------------------------------------- */

/* Rows first .. first + n of `tokens` that are spread evenly over `all`. */
static void take_rows(const struct fit *f, const float *all, size_t first, size_t n, size_t tokens,
                      float *rows) {
    const size_t hidden = f->task->hidden;
    for (size_t t = 0; t < n; t++)
        memcpy(rows + t * hidden, all + (first + t) * f->task->tokens / tokens * hidden,
               hidden * sizeof *rows);
}

/* Of such rows what is seen, [n, hidden], and their sizes [n, wide]. */
static wisp_status take_part(const struct fit *f, size_t first, size_t n, size_t tokens,
                             float *seen, float *sizes, wisp_error *error) {
    const struct fit_task *task = f->task;
    take_rows(f, task->x, first, n, tokens, seen);
    TRY(task->sizes(task->layer, seen, n, sizes, error));
    take_rows(f, task->seen, first, n, tokens, seen);
    return WISP_OK;
}

/* The threshold that the wanted share of sizes is above, from a sample; and their mean square. */
static wisp_status measure_sizes(struct fit *f, float *x, float *sizes, wisp_error *error) {
    const size_t wide = f->task->wide, tokens = f->tokens < SAMPLED ? f->tokens : SAMPLED;
    float *sample = malloc((tokens * wide / STRIDE + SAMPLED) * sizeof *sample);
    double squares = 0;
    size_t used = 0;
    wisp_status status = sample ? WISP_OK : fail_memory(error, tokens * wide / STRIDE);
    for (size_t first = 0; first < tokens && status == WISP_OK; first += PART) {
        const size_t n = tokens - first < PART ? tokens - first : PART;
        status = take_part(f, first, n, tokens, x, sizes, error);
        for (size_t i = 0; i < n * wide && status == WISP_OK; i += STRIDE) {
            sample[used++] = sizes[i];
            squares += (double)sizes[i] * (double)sizes[i];
        }
    }
    if (status == WISP_OK) {
        f->threshold = quantile_below(sample, used, 1 - (double)f->task->wanted);
        f->mean_square = squares > 0 ? (float)(squares / (double)used) : 1;
    }
    free(sample);
    return status;
}

/* Wants are as fine for small weights as for large ones: in steps of their roots. */
static void weigh_wants(struct fit *f) {
    f->weights[0] = absent_weight;
    for (int i = 1; i < 256; i++) {
        const float root = (float)(i - 1) / 254;
        f->weights[i] = most_weight * root * root + least_weight;
    }
}

static want want_of(const struct fit *f, float size) {
    if (!(size > f->threshold))
        return 0;
    const float root = sqrtf(fminf(size * size / (f->mean_square * most_weight), 1));
    return (want)(1 + (int)(254 * root + 0.5f));
}

/* ---- reduced-rank start --------------------------------------------------------------------- */

/* Sums over tokens; then xx is the factor L of what it was, xy L^-1 times that. */
struct regression {
    double *xx, *xy, *part;        /* [hidden, hidden], [hidden, wide] twice */
    double *x_sum, *y_sum;         /* [hidden], [wide] */
    double *products, *v, *fitted; /* [hidden, hidden], [hidden, rank], [rank, wide] */
};

static void close_regression(struct regression *r) {
    free(r->xx);
    free(r->xy);
    free(r->part);
    free(r->x_sum);
    free(r->y_sum);
    free(r->products);
    free(r->v);
    free(r->fitted);
}

static wisp_status open_regression(const struct fit_task *task, struct regression *r,
                                   wisp_error *error) {
    const size_t n = task->hidden, m = task->wide, larger = n > m ? n : m;
    *r = (struct regression){.xx = calloc(n * n, sizeof(double)),
                             .xy = calloc(n * m, sizeof(double)),
                             .part = malloc(n * larger * sizeof(double)),
                             .x_sum = calloc(n, sizeof(double)),
                             .y_sum = calloc(m, sizeof(double)),
                             .products = malloc(n * n * sizeof(double)),
                             .v = malloc(n * task->rank * sizeof(double)),
                             .fitted = calloc(task->rank * m, sizeof(double))};
    if (r->xx && r->xy && r->part && r->x_sum && r->y_sum && r->products && r->v && r->fitted)
        return WISP_OK;
    return fail_memory(error, n * m * sizeof(double));
}

static void add_columns(const float *x, size_t rows, size_t n, double *sums) {
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < n; j++)
            sums[j] += (double)x[i * n + j];
}

static bool add_products(const struct fit *f, const struct regression *r, const float *x,
                         const float *sizes, size_t tokens) {
    const size_t n = f->task->hidden, m = f->task->wide;
    const struct kernels *kernels = f->task->kernels;
    if (!matrix_gram(kernels, x, x, r->part, n, n, tokens))
        return false;
    for (size_t i = 0; i < n * n; i++)
        r->xx[i] += r->part[i];
    if (!matrix_gram(kernels, x, sizes, r->part, n, m, tokens))
        return false;
    for (size_t i = 0; i < n * m; i++)
        r->xy[i] += r->part[i];
    add_columns(x, tokens, n, r->x_sum);
    add_columns(sizes, tokens, m, r->y_sum);
    return true;
}

/* Goes through all tokens: wants, and the sums that a regression needs (NULL: none). */
static wisp_status read_sizes(struct fit *f, const struct regression *r, float *x, float *sizes,
                              wisp_error *error) {
    const size_t m = f->task->wide;
    for (size_t first = 0; first < f->tokens; first += PART) {
        const size_t n = f->tokens - first < PART ? f->tokens - first : PART;
        TRY(take_part(f, first, n, f->tokens, x, sizes, error));
        if (r && !add_products(f, r, x, sizes, n))
            return fail_memory(error, f->task->hidden * m * sizeof(float));
        for (size_t i = 0; i < n * m; i++)
            f->wants[first * m + i] = want_of(f, sizes[i]);
    }
    return WISP_OK;
}

/* Sums of products become those about the means, with a ridge. */
static void centre(const struct fit *f, const struct regression *r) {
    const size_t n = f->task->hidden, m = f->task->wide;
    const double tokens = (double)f->tokens;
    double trace = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++)
            r->xx[i * n + j] -= r->x_sum[i] * r->x_sum[j] / tokens;
        for (size_t j = 0; j < m; j++)
            r->xy[i * m + j] -= r->x_sum[i] * r->y_sum[j] / tokens;
        trace += r->xx[i * n + i];
    }
    for (size_t i = 0; i < n; i++)
        r->xx[i * n + i] += 0.01 * trace / (double)n + 1e-9;
}

/* products = a a^T of a [n, m] */
static void outer_products(const double *a, size_t n, size_t m, double *products) {
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++) {
            double sum = 0;
            for (size_t c = 0; c < m; c++)
                sum += a[i * m + c] * a[j * m + c];
            products[i * n + j] = products[j * n + i] = sum;
        }
}

/* With L L^T the products of x, the fitted sizes are those of L^-T (L^-1 X^T Y), and of all maps
 * of the wanted rank L^-T V (V^T L^-1 X^T Y) is nearest, V being the first left singular vectors of
 * what is in brackets. */
static bool reduce(const struct fit *f, const struct regression *r) {
    const size_t n = f->task->hidden, m = f->task->wide, rank = f->task->rank;
    matrix_factor(r->xx, n);
    matrix_solve_lower(r->xx, r->xy, n, m);
    outer_products(r->xy, n, m, r->products);
    if (!matrix_eigenvectors(r->products, n, rank, r->v))
        return false;
    for (size_t c = 0; c < n; c++)
        for (size_t j = 0; j < rank; j++)
            for (size_t i = 0; i < m; i++)
                r->fitted[j * m + i] += r->v[c * rank + j] * r->xy[c * m + i];
    matrix_solve_upper(r->xx, r->v, n, rank);
    return true;
}

/* Scaled so that rows of Q start with a length of 4, and logits with a spread of some units. */
static void start_from(const struct fit *f, const struct regression *r) {
    struct predictor *to = f->to;
    const size_t n = to->hidden, m = to->wide, rank = to->rank;
    for (size_t j = 0; j < rank; j++) {
        double bias = 0, squares = 0;
        for (size_t i = 0; i < m; i++)
            squares += r->fitted[j * m + i] * r->fitted[j * m + i];
        const double length = sqrt(squares), scale = length / sqrt((double)f->mean_square);
        for (size_t c = 0; c < n; c++) {
            to->p[c * rank + j] = (float)(r->v[c * rank + j] * scale);
            bias -= r->x_sum[c] / (double)f->tokens * r->v[c * rank + j] * scale;
        }
        to->p_bias[j] = (float)bias;
        for (size_t i = 0; i < m; i++)
            to->q[j * m + i] = length > 0 ? (float)(4 * r->fitted[j * m + i] / length) : 0;
    }
    for (size_t i = 0; i < m; i++)
        to->q_bias[i] = -1.5f;
}

static wisp_status regress(struct fit *f, float *x, float *sizes, wisp_error *error) {
    struct regression r;
    wisp_status status = open_regression(f->task, &r, error);
    if (status == WISP_OK)
        status = read_sizes(f, &r, x, sizes, error);
    if (status == WISP_OK) {
        centre(f, &r);
        if (reduce(f, &r))
            start_from(f, &r);
        else
            status = fail_memory(error, f->task->hidden * f->task->rank * sizeof(double));
    }
    close_regression(&r);
    return status;
}

static wisp_status start(struct fit *f, wisp_error *error) {
    float *x = malloc(PART * f->task->hidden * sizeof *x);
    float *sizes = malloc(PART * f->task->wide * sizeof *sizes);
    wisp_status status = x && sizes ? measure_sizes(f, x, sizes, error)
                                    : fail_memory(error, PART * f->task->wide * sizeof *sizes);
    weigh_wants(f);
    if (status == WISP_OK)
        status = f->p_stays ? read_sizes(f, NULL, x, sizes, error) : regress(f, x, sizes, error);
    free(x);
    free(sizes);
    return status;
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
    float *x, *h, *z, *dh; /* [BATCH, hidden], [BATCH, rank], [BATCH, wide], [BATCH, rank] */
    double *sums;          /* the largest gradient's */
    size_t *chosen;        /* [BATCH] */
    struct group groups[4];
};

enum { GROUP_P, GROUP_P_BIAS, GROUP_Q, GROUP_Q_BIAS, GROUPS };

static void forward(struct fit *f, struct step *s, bool *good) {
    const struct predictor *to = f->to;
    for (size_t i = 0; i < BATCH; i++) {
        s->chosen[i] = random_below(&f->random, f->tokens);
        take_rows(f, f->task->seen, s->chosen[i], 1, f->tokens, s->x + i * to->hidden);
    }
    *good =
        *good && matrix_multiply(f->task->kernels, s->x, to->p, s->h, BATCH, to->rank, to->hidden);
    for (size_t i = 0; i < BATCH * to->rank; i++)
        s->h[i] += to->p_bias[i % to->rank];
    *good =
        *good && matrix_multiply(f->task->kernels, s->h, to->q, s->z, BATCH, to->wide, to->rank);
}

/* z becomes the loss's derivative by it. */
static void differentiate(const struct fit *f, struct step *s) {
    const size_t m = f->to->wide;
    for (size_t i = 0; i < BATCH; i++) {
        const want *wants = f->wants + s->chosen[i] * m;
        float *z = s->z + i * m;
        for (size_t j = 0; j < m; j++) {
            const float chance = 1 / (1 + expf(-(z[j] + f->to->q_bias[j])));
            z[j] = (chance - (wants[j] ? 1.0f : 0.0f)) * f->weights[wants[j]] / (float)BATCH;
        }
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
    if (!matrix_gram(f->task->kernels, x, dy, s->sums, m, n, BATCH))
        return false;
    for (size_t i = 0; i < m * n; i++)
        gradient[i] = (float)s->sums[i];
    return true;
}

static bool backward(const struct fit *f, struct step *s) {
    const struct predictor *to = f->to;
    const size_t n = to->hidden, m = to->wide, rank = to->rank;
    sum_columns(s->z, BATCH, m, s->groups[GROUP_Q_BIAS].gradient);
    if (!gradient_of_product(f, s->h, s->z, rank, m, s, s->groups[GROUP_Q].gradient))
        return false;
    if (f->p_stays)
        return true;
    if (!matrix_multiply_transposed(f->task->kernels, s->z, to->q, s->dh, BATCH, rank, m))
        return false;
    sum_columns(s->dh, BATCH, rank, s->groups[GROUP_P_BIAS].gradient);
    return gradient_of_product(f, s->x, s->dh, n, rank, s, s->groups[GROUP_P].gradient);
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
    const size_t n = to->hidden, m = to->wide, rank = to->rank;
    const size_t most = n > m ? n : m;
    *s = (struct step){.x = malloc(BATCH * n * sizeof(float) + 1), /* never of 0 bytes */
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

static wisp_status descend(struct fit *f, wisp_error *error) {
    const float fastest = 1.5e-2f, slowest = 6e-5f;
    const struct fit_task *task = f->task;
    struct step s;
    bool good = open_step(f->to, &s), stopped = false;
    for (int step = 1; step <= f->steps && good && !stopped; step++) {
        const float rate = slowest + fastest * (1 - (float)step / (float)f->steps);
        forward(f, &s, &good);
        if (good) {
            differentiate(f, &s);
            good = backward(f, &s);
        }
        for (int i = f->p_stays ? GROUP_Q : GROUP_P; i < GROUPS && good; i++)
            update(&s.groups[i], step, rate);
        stopped = task->stopped && task->stopped(task->context);
    }
    close_step(&s);
    if (stopped)
        return fail(error, WISP_ERROR_CANCELLED, NULL, NULL, "cancelled");
    return good ? WISP_OK : fail_memory(error, BATCH * task->wide * sizeof(float));
}

static wisp_status fit(const struct fit_task *task, bool p_stays, struct predictor *to,
                       wisp_error *error) {
    const size_t most = WANT_BYTES / task->wide;
    struct fit f = {.task = task,
                    .tokens = task->tokens < most ? task->tokens : most,
                    .random = task->seed,
                    .to = to,
                    .p_stays = p_stays,
                    .steps = p_stays ? task->steps / 2 : task->steps};
    f.wants = malloc(f.tokens * task->wide);
    wisp_status status = f.wants ? start(&f, error) : fail_memory(error, f.tokens * task->wide);
    if (status == WISP_OK)
        status = descend(&f, error);
    free(f.wants);
    return status;
}

wisp_status predictor_fit(const struct fit_task *task, struct predictor *to, wisp_error *error) {
    wisp_status status = predictor_open(task->hidden, task->wide, task->rank, to, error);
    if (status == WISP_OK)
        status = fit(task, false, to, error);
    if (status != WISP_OK)
        predictor_release(to);
    return status;
}

wisp_status predictor_refit(const struct fit_task *task, struct predictor *to, wisp_error *error) {
    return fit(task, true, to, error);
}
