/* SPDX-License-Identifier: Apache-2.0
 * wisp_calibrate: runs a model on texts, fits each layer's predictor, shares the thresholds out
 * and writes the model with all of it. Native only. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/pool.h"
#include "calibrate/collect.h"
#include "calibrate/compensation.h"
#include "calibrate/share.h"
#include "calibrate/write_calibrated.h"
#include "formats/schema.h"
#include "host/file.h"
#include "native/open_path.h"

enum { DEFAULT_TOKENS = 32768, MOST_RANK = 1024 };

/* With ReLU, and where most neurons contribute something. */
static const float relu_sparsity = 0.84f, default_sparsity = 0.7f;

struct calibration {
    const wisp_calibrate_options *options;
    struct predictor_formats formats;
    wisp_model *model;
    struct pool *team;
    struct layer_sample *samples; /* [layers] */
    size_t layers;
    struct calibrated_predictors tokens, texts;
    const char *stage;
    wisp_status (*work)(struct calibration *c, size_t l, wisp_error *error); /* for each layer */
    atomic_size_t next, done;
    atomic_bool failed;
    wisp_error error; /* of the layer that failed first */
};

static bool is_cancelled(const wisp_calibrate_options *o) {
    return o->cancelled && o->cancelled(o->context);
}

static void show(const wisp_calibrate_options *o, const char *stage, size_t done, size_t total) {
    if (o->progress)
        o->progress(o->context, stage, done, total);
}

/* ---- layers --------------------------------------------------------------------------------- */

static wisp_status read_weights(const wisp_model *model, size_t l, const char *matrix, size_t rows,
                                size_t row_length, float **values, wisp_error *error) {
    char name[TENSOR_NAME_BYTES];
    layer_tensor_name(name, l, matrix, TENSOR_WEIGHT);
    return directory_load_floats(&model->dir, name, rows, row_length, values, error);
}

/* A bias, or zeros where the model has none. */
static wisp_status read_bias(const wisp_model *model, size_t l, const char *matrix, size_t n,
                             float **values, wisp_error *error) {
    const struct linear_source source = {
        .dir = &model->dir, .unbiased = !model->network.config.has_bias, .n = n};
    char name[TENSOR_NAME_BYTES];
    layer_tensor_name(name, l, matrix, TENSOR_BIAS);
    *values = memory_allocate(n * sizeof **values);
    return *values ? linear_bias(&source, name, *values, error)
                   : fail_memory(error, n * sizeof **values);
}

static wisp_status open_sample(const struct calibration *c, size_t l, struct layer_sample *s,
                               wisp_error *error) {
    const wisp_model *model = c->model;
    const struct model_config *config = &model->network.config;
    s->kernels = model->network.kernels;
    s->hidden = config->hidden_size;
    s->wide = config->intermediate_size;
    s->activation = config->activation;
    s->stopped = c->options->cancelled;
    s->context = c->options->context;
    if (config->activation == ACTIVATION_GATED_SILU)
        TRY(read_weights(model, l, TENSOR_FFN_GATE, s->wide, s->hidden, &s->gate, error));
    TRY(read_weights(model, l, TENSOR_FFN_UP, s->wide, s->hidden, &s->up, error));
    TRY(read_bias(model, l, TENSOR_FFN_UP, s->wide, &s->up_bias, error));
    TRY(read_weights(model, l, TENSOR_FFN_DOWN, s->hidden, s->wide, &s->down, error));
    return read_bias(model, l, TENSOR_FFN_DOWN, s->hidden, &s->down_bias, error);
}

static void release_sample(struct layer_sample *s) {
    memory_free(s->gate);
    memory_free(s->up);
    memory_free(s->up_bias);
    memory_free(s->down);
    memory_free(s->down_bias);
    free(s->x);
    free(s->held_out);
    free(s->means);
    free(s->texts);
    free(s->held_out_texts);
    *s = (struct layer_sample){0};
}

static wisp_status fit_layer(struct calibration *c, size_t l, wisp_error *error) {
    const wisp_calibrate_options *o = c->options;
    struct layer_fit *fit = &c->tokens.fits[l];
    TRY(layer_fit(&c->samples[l], o->rank, 1 - o->sparsity, o->seed + l, fit, error));
    return o->shared_p ? WISP_OK : layer_weigh(&c->samples[l], &c->formats, fit, error);
}

static wisp_status refit_layer(struct calibration *c, size_t l, wisp_error *error) {
    const wisp_calibrate_options *o = c->options;
    struct layer_fit *fit = &c->tokens.fits[l];
    TRY(layer_refit(&c->samples[l], 1 - o->sparsity, o->seed + l, fit, error));
    return layer_weigh(&c->samples[l], &c->formats, fit, error);
}

static wisp_status fit_texts(struct calibration *c, size_t l, wisp_error *error) {
    const wisp_calibrate_options *o = c->options;
    struct layer_fit *fit = &c->texts.fits[l];
    struct layer_sample seeing;
    wisp_status status = layer_see_texts(&c->samples[l], &seeing, error);
    if (status == WISP_OK)
        status = layer_fit_texts(&seeing, &c->tokens.fits[l], o->rank, 1 - o->sparsity, fit, error);
    if (status == WISP_OK)
        status = layer_weigh(&seeing, &c->formats, fit, error);
    layer_forget_texts(&seeing);
    return status;
}

static void take_layers(void *context, uint32_t member) {
    struct calibration *c = context;
    size_t l;
    while (!atomic_load(&c->failed) && (l = atomic_fetch_add(&c->next, 1)) < c->layers) {
        wisp_error error;
        if (c->work(c, l, &error) != WISP_OK && !atomic_exchange(&c->failed, true))
            c->error = error;
        const size_t done = atomic_fetch_add(&c->done, 1) + 1;
        if (member == 0)
            show(c->options, c->stage, done, c->layers);
    }
}

static wisp_status each_layer(struct calibration *c, const char *stage,
                              wisp_status (*work)(struct calibration *c, size_t l,
                                                  wisp_error *error),
                              wisp_error *error) {
    const uint32_t threads = pool_size(c->team);
    c->stage = stage;
    c->work = work;
    atomic_store(&c->next, 0);
    atomic_store(&c->done, 0);
    show(c->options, stage, 0, c->layers);
    pool_run(c->team, threads < c->layers ? threads : (uint32_t)c->layers, take_layers, c);
    if (!atomic_load(&c->failed))
        return WISP_OK;
    if (error)
        *error = c->error;
    return c->error.status;
}

/* ---- thresholds and the report -------------------------------------------------------------- */

static const float shares[CALIBRATED_LEVELS] = {0.06f, 0.08f, 0.1f, 0.13f, 0.16f, 0.2f, 0.25f,
                                                0.3f,  0.35f, 0.4f, 0.5f,  0.6f,  0.7f, 0.8f};

/* The gains of all layers side by side, borrowed. */
static struct gains *all_gains(const struct calibrated_predictors *p, size_t layers) {
    struct gains *gains = malloc(layers * sizeof *gains);
    for (size_t l = 0; gains && l < layers; l++)
        gains[l] = p->fits[l].gains;
    return gains;
}

static wisp_status share_out(const struct calibration *c, struct calibrated_predictors *p,
                             wisp_error *error) {
    const size_t wide = p->fits[0].wide;
    struct gains *gains = all_gains(p, c->layers);
    p->thresholds = malloc(c->layers * CALIBRATED_LEVELS * wide * sizeof(float));
    if (!gains || !p->thresholds) {
        free(gains);
        return fail_memory(error, c->layers * CALIBRATED_LEVELS * wide * sizeof(float));
    }
    for (size_t i = 0; i < CALIBRATED_LEVELS; i++) {
        const float price = gains_price(gains, c->layers, shares[i]);
        for (size_t l = 0; l < c->layers; l++)
            gains_thresholds(&gains[l], price, p->thresholds + (l * CALIBRATED_LEVELS + i) * wide);
    }
    p->price = gains_price(gains, c->layers, 1 - c->options->sparsity);
    free(gains);
    return WISP_OK;
}

/* The thresholds of a layer at the default share; NULL without memory. */
static float *default_thresholds(const struct calibrated_predictors *p, size_t l) {
    const struct gains *gains = &p->fits[l].gains;
    float *thresholds = malloc(gains->neurons * sizeof *thresholds);
    if (thresholds)
        gains_thresholds(gains, p->price, thresholds);
    return thresholds;
}

static wisp_status compensate_layer(struct calibration *c, size_t l, wisp_error *error) {
    const struct calibrated_predictors *p = &c->tokens;
    float *thresholds = default_thresholds(p, l);
    const wisp_status status =
        thresholds ? compensation_fit(&c->samples[l], thresholds, p->price, &p->fits[l], error)
                   : fail_memory(error, p->fits[l].wide * sizeof *thresholds);
    free(thresholds);
    return status;
}

static wisp_status measure(const struct layer_sample *sample, const struct calibrated_predictors *p,
                           size_t l, wisp_calibrated_quality *quality, wisp_error *error) {
    float *thresholds = default_thresholds(p, l);
    const wisp_status status = thresholds
                                   ? layer_measure(sample, &p->fits[l], thresholds, quality, error)
                                   : fail_memory(error, p->fits[l].wide * sizeof *thresholds);
    free(thresholds);
    return status;
}

static wisp_status measure_texts(const struct calibration *c, size_t l,
                                 wisp_calibrated_quality *quality, wisp_error *error) {
    struct layer_sample seeing;
    wisp_status status = layer_see_texts(&c->samples[l], &seeing, error);
    if (status == WISP_OK)
        status = measure(&seeing, &c->texts, l, quality, error);
    layer_forget_texts(&seeing);
    return status;
}

static wisp_status report_layer(const struct calibration *c, size_t l, wisp_error *error) {
    const struct layer_fit *fit = &c->tokens.fits[l];
    wisp_calibrated_layer layer = {.rank = c->options->rank,
                                   .sparsity = c->options->sparsity,
                                   .frequency = fit->frequency,
                                   .magnitude = fit->magnitude,
                                   .neurons = fit->wide,
                                   .hot = fit->hot};
    TRY(measure(&c->samples[l], &c->tokens, l, &layer.lowrank, error));
    if (c->options->sentence)
        TRY(measure_texts(c, l, &layer.sentence, error));
    c->options->layer(c->options->context, (uint32_t)l, &layer);
    return WISP_OK;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static wisp_status calibrate(struct calibration *c, const char *input, const char *output,
                             const wisp_text *texts, size_t n, wisp_error *error) {
    const wisp_calibrate_options *o = c->options;
    TRY(collect_inputs(c->model, c->team, o, texts, n, c->samples, error));
    for (size_t l = 0; l < c->layers; l++)
        TRY(open_sample(c, l, &c->samples[l], error));
    TRY(each_layer(c, "layers", fit_layer, error));
    if (o->shared_p) {
        TRY(predictors_share(c->samples, c->tokens.fits, c->layers, error));
        TRY(each_layer(c, "sharing", refit_layer, error));
    }
    TRY(share_out(c, &c->tokens, error));
    if (o->sentence) {
        TRY(each_layer(c, "sentences", fit_texts, error));
        TRY(share_out(c, &c->texts, error));
    }
    TRY(each_layer(c, "compensation", compensate_layer, error));
    if (is_cancelled(o))
        return fail(error, WISP_ERROR_CANCELLED, output, NULL, "cancelled");
    for (size_t l = 0; l < c->layers && o->layer; l++)
        TRY(report_layer(c, l, error));
    const struct calibrated result = {.tokens = &c->tokens,
                                      .texts = o->sentence ? &c->texts : NULL,
                                      .layers = c->layers,
                                      .formats = c->formats,
                                      .shared_p = o->shared_p,
                                      .shares = shares,
                                      .share = 1 - o->sparsity,
                                      .centered =
                                          c->model->network.config.activation == ACTIVATION_GELU};
    return write_calibrated(input, output, &result, error);
}

static wisp_status open_predictors(struct calibrated_predictors *p, size_t layers,
                                   wisp_error *error) {
    p->fits = calloc(layers, sizeof *p->fits);
    return p->fits ? WISP_OK : fail_memory(error, layers * sizeof *p->fits);
}

static void release_predictors(struct calibrated_predictors *p, size_t layers) {
    for (size_t l = 0; p->fits && l < layers; l++)
        layer_fit_release(&p->fits[l]);
    free(p->fits);
    free(p->thresholds);
}

static wisp_status run(const wisp_calibrate_options *options,
                       const struct predictor_formats *formats, wisp_model *model,
                       const char *input, const char *output, const wisp_text *texts, size_t n,
                       wisp_error *error) {
    struct calibration c = {.options = options,
                            .formats = *formats,
                            .model = model,
                            .layers = model->network.config.layers};
    TRY(pool_open(options->threads ? options->threads : 1, &c.team, error));
    c.samples = calloc(c.layers, sizeof *c.samples);
    wisp_status status = c.samples ? open_predictors(&c.tokens, c.layers, error)
                                   : fail_memory(error, c.layers * sizeof *c.samples);
    if (status == WISP_OK)
        status = open_predictors(&c.texts, c.layers, error);
    if (status == WISP_OK)
        status = calibrate(&c, input, output, texts, n, error);
    for (size_t l = 0; c.samples && l < c.layers; l++)
        release_sample(&c.samples[l]);
    free(c.samples);
    release_predictors(&c.tokens, c.layers);
    release_predictors(&c.texts, c.layers);
    pool_close(c.team);
    return status;
}

/* The largest rank that makes sense. */
static uint32_t most_rank(const wisp_model *model) {
    const struct model_config *config = &model->network.config;
    const uint32_t hidden = config->hidden_size, wide = config->intermediate_size;
    const uint32_t limit = hidden < wide ? hidden : wide;
    return limit < MOST_RANK ? limit : MOST_RANK;
}

/* A third of the inputs' number, in whole blocks of Q8_0 and at most 256: what a larger one gains
 * in quality it loses in time (docs/sparse.md). */
static uint32_t default_rank(const wisp_model *model) {
    enum { BLOCK = 32, LARGEST = 256 };
    const uint32_t hidden = model->network.config.hidden_size, most = most_rank(model);
    const uint32_t third = (hidden / 3 + BLOCK - 1) / BLOCK * BLOCK;
    const uint32_t rank = third < LARGEST ? third : LARGEST;
    return rank < most ? rank : most;
}

static wisp_status check_options(const wisp_calibrate_options *o, uint32_t most,
                                 wisp_error *error) {
    if (o->rank > most)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "rank", "%u, where this model allows 1 to %u",
                    o->rank, most);
    if (!(o->sparsity > 0 && o->sparsity < 1))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "sparsity", "%g is not between 0 and 1",
                    (double)o->sparsity);
    return WISP_OK;
}

/* In Q8_0 where rows are whole blocks of it, unless told otherwise. */
static wisp_status find_formats(const char *name, const wisp_model *model, uint32_t rank,
                                struct predictor_formats *formats, wisp_error *error) {
    const uint32_t hidden = model->network.config.hidden_size;
    formats->p = name ? block_format_by_name(name) : block_format_fitting(BLOCK_Q8_0, hidden);
    formats->q = name ? formats->p : block_format_fitting(BLOCK_Q8_0, rank);
    const struct block_format *format = formats->p;
    if (!format ||
        (format->id != BLOCK_F32 && format->id != BLOCK_Q8_0 && format->id != BLOCK_Q4_0))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "predictor_type",
                    "%.32s is not one of f32, q8_0, q4_0", name);
    if (name && (hidden % format->elements != 0 || rank % format->elements != 0))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "predictor_type",
                    "rows of %u and %u values are not whole blocks of %s, which have %u", hidden,
                    rank, format->name, format->elements);
    return WISP_OK;
}

wisp_status wisp_calibrate(const char *input, const char *output, const wisp_text *texts, size_t n,
                           const wisp_calibrate_options *options, wisp_error *error) {
    const wisp_model_options dense = {.compute = WISP_COMPUTE_F32,
                                      .predictor = WISP_PREDICTOR_DENSE};
    wisp_calibrate_options o = options ? *options : (wisp_calibrate_options){0};
    wisp_model *model;
    TRY(wisp_model_open(input, &dense, &model, error));
    const uint32_t most = most_rank(model);
    if (o.rank == 0)
        o.rank = default_rank(model);
    if (o.sparsity == 0)
        o.sparsity =
            model->network.config.activation == ACTIVATION_RELU ? relu_sparsity : default_sparsity;
    if (o.tokens == 0)
        o.tokens = DEFAULT_TOKENS;
    struct predictor_formats formats;
    wisp_status status = check_options(&o, most, error);
    if (status == WISP_OK)
        status = find_formats(o.predictor_type, model, o.rank, &formats, error);
    if (status == WISP_OK)
        status = run(&o, &formats, model, input, output, texts, n, error);
    wisp_model_close(model);
    return status;
}
