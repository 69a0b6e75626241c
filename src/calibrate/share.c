/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/share.h"

#include <stdlib.h>
#include <string.h>

#include "calibrate/matrix.h"

static const double ridge = 1e-4; /* of the mean variance of an input */

/* Matrices in double precision, row by row; n is `hidden`, r the rank. */
struct sharing {
    size_t n, r, wide;
    double *means, *covariances; /* [layers, n], [layers, n, n]: of each layer's x */
    double *factor;              /* [n, n]: L of L L^T, their mean */
    double *needs;               /* [n, n]: how the logits depend on x, of all layers */
    double *p, *p_bias;          /* [n, r], [r]: shared */
    double *work[2];             /* [n, n] */
    double *q, *own;             /* [r, wide], [n, wide] */
};

/* y [m, n] = x [m, k] w [k, n] */
static void multiply(const double *x, const double *w, size_t m, size_t n, size_t k, double *y) {
    memset(y, 0, m * n * sizeof *y);
    for (size_t i = 0; i < m; i++)
        for (size_t c = 0; c < k; c++)
            for (size_t j = 0; j < n; j++)
                y[i * n + j] += x[i * k + c] * w[c * n + j];
}

/* y [m, n] = x [k, m]^T w [k, n] */
static void multiply_turned(const double *x, const double *w, size_t m, size_t n, size_t k,
                            double *y) {
    memset(y, 0, m * n * sizeof *y);
    for (size_t c = 0; c < k; c++)
        for (size_t i = 0; i < m; i++)
            for (size_t j = 0; j < n; j++)
                y[i * n + j] += x[c * m + i] * w[c * n + j];
}

static bool find_covariance(const struct layer_sample *s, double *mean, double *covariance) {
    const size_t n = s->hidden;
    double trace = 0;
    memset(mean, 0, n * sizeof *mean);
    for (size_t t = 0; t < s->tokens; t++)
        for (size_t i = 0; i < n; i++)
            mean[i] += (double)s->x[t * n + i] / (double)s->tokens;
    if (!matrix_gram(s->kernels, s->x, s->x, covariance, n, n, s->tokens))
        return false;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++)
            covariance[i * n + j] = covariance[i * n + j] / (double)s->tokens - mean[i] * mean[j];
        trace += covariance[i * n + i];
    }
    for (size_t i = 0; i < n; i++)
        covariance[i * n + i] += ridge * trace / (double)n + 1e-9;
    return true;
}

/* needs += (Q P)^T Q P */
static bool add_needs(const struct predictor *p, const struct sharing *s) {
    const size_t n = s->n, r = s->r;
    double *products = malloc(r * r * sizeof *products), *inputs = malloc(n * r * sizeof *inputs);
    const bool good = products && inputs;
    for (size_t i = 0; i < r && good; i++)
        for (size_t j = 0; j < r; j++) {
            double sum = 0;
            for (size_t c = 0; c < s->wide; c++)
                sum += (double)p->q[i * s->wide + c] * (double)p->q[j * s->wide + c];
            products[i * r + j] = sum;
        }
    for (size_t i = 0; i < n && good; i++)
        for (size_t j = 0; j < r; j++) {
            double sum = 0;
            for (size_t c = 0; c < r; c++)
                sum += (double)p->p[i * r + c] * products[c * r + j];
            inputs[i * r + j] = sum;
        }
    for (size_t i = 0; i < n && good; i++)
        for (size_t j = 0; j < n; j++)
            for (size_t c = 0; c < r; c++)
                s->needs[i * n + j] += inputs[i * r + c] * (double)p->p[j * r + c];
    free(products);
    free(inputs);
    return good;
}

static bool gather(const struct layer_sample *samples, const struct layer_fit *fits, size_t layers,
                   const struct sharing *s) {
    const size_t n = s->n;
    memset(s->factor, 0, n * n * sizeof *s->factor);
    memset(s->needs, 0, n * n * sizeof *s->needs);
    for (size_t l = 0; l < layers; l++) {
        double *covariance = s->covariances + l * n * n;
        if (!find_covariance(&samples[l], s->means + l * n, covariance) ||
            !add_needs(&fits[l].trained, s))
            return false;
        for (size_t i = 0; i < n * n; i++)
            s->factor[i] += covariance[i] / (double)layers;
    }
    return true;
}

/* Logits M x of inputs L e, e being white, are M L e; of all maps of rank r, M L V V^T is nearest
 * to M L, V being the first eigenvectors of L^T M^T M L: so h = V^T e = V^T L^-1 x. */
static bool find_shared(size_t layers, const struct sharing *s) {
    const size_t n = s->n, r = s->r;
    matrix_factor(s->factor, n);
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++)
            s->factor[i * n + j] = 0;
    multiply(s->needs, s->factor, n, n, n, s->work[0]);
    multiply_turned(s->factor, s->work[0], n, n, n, s->work[1]);
    if (!matrix_eigenvectors(s->work[1], n, r, s->p))
        return false;
    matrix_solve_upper(s->factor, s->p, n, r);
    memset(s->p_bias, 0, r * sizeof *s->p_bias);
    for (size_t i = 0; i < layers * n; i++)
        for (size_t j = 0; j < r; j++)
            s->p_bias[j] -= s->means[i] * s->p[i % n * r + j] / (double)layers;
    return true;
}

/* Q P of one layer, turned: own [n, wide]. */
static void own_map(const struct predictor *p, const struct sharing *s) {
    memset(s->own, 0, s->n * s->wide * sizeof *s->own);
    for (size_t i = 0; i < s->n; i++)
        for (size_t c = 0; c < s->r; c++)
            for (size_t j = 0; j < s->wide; j++)
                s->own[i * s->wide + j] +=
                    (double)p->p[i * s->r + c] * (double)p->q[c * s->wide + j];
}

/* The Q that with the shared P comes nearest to the layer's logits, whose means stay. */
static void fit_q(struct predictor *p, size_t layer, const struct sharing *s) {
    const size_t n = s->n, r = s->r, wide = s->wide;
    const double *covariance = s->covariances + layer * n * n, *mean = s->means + layer * n;
    double *seen = s->work[0], *products = s->work[1]; /* [r, n], [r, r] */
    own_map(p, s);
    multiply_turned(s->p, covariance, r, n, n, seen);
    multiply(seen, s->p, r, r, n, products);
    multiply(seen, s->own, r, wide, n, s->q);
    matrix_solve(products, s->q, r, wide);
    for (size_t j = 0; j < wide; j++) {
        double bias = (double)p->q_bias[j];
        for (size_t c = 0; c < r; c++)
            bias += (double)p->p_bias[c] * (double)p->q[c * wide + j] -
                    s->p_bias[c] * s->q[c * wide + j];
        for (size_t i = 0; i < n; i++) {
            double both = s->own[i * wide + j];
            for (size_t c = 0; c < r; c++)
                both -= s->p[i * r + c] * s->q[c * wide + j];
            bias += mean[i] * both;
        }
        p->q_bias[j] = (float)bias;
    }
    for (size_t i = 0; i < r * wide; i++)
        p->q[i] = (float)s->q[i];
    for (size_t i = 0; i < n * r; i++)
        p->p[i] = (float)s->p[i];
    for (size_t i = 0; i < r; i++)
        p->p_bias[i] = (float)s->p_bias[i];
}

wisp_status predictors_share(const struct layer_sample *samples, struct layer_fit *fits,
                             size_t layers, wisp_error *error) {
    const size_t n = fits->trained.hidden, r = fits->trained.rank, wide = fits->trained.wide;
    const size_t floats = layers * (n + n * n) + 4 * n * n + n * r + r + r * wide + n * wide;
    double *all = malloc(floats * sizeof *all);
    if (!all)
        return fail_memory(error, floats * sizeof *all);
    struct sharing s = {.n = n, .r = r, .wide = wide, .means = all};
    s.covariances = s.means + layers * n;
    s.factor = s.covariances + layers * n * n;
    s.needs = s.factor + n * n;
    s.work[0] = s.needs + n * n;
    s.work[1] = s.work[0] + n * n;
    s.p = s.work[1] + n * n;
    s.p_bias = s.p + n * r;
    s.q = s.p_bias + r;
    s.own = s.q + r * wide;
    const bool good = gather(samples, fits, layers, &s) && find_shared(layers, &s);
    for (size_t l = 0; l < layers && good; l++)
        fit_q(&fits[l].trained, l, &s);
    free(all);
    return good ? WISP_OK : fail_memory(error, n * n * sizeof *all);
}
