/* SPDX-License-Identifier: Apache-2.0
 * wisp_calibrate: runs a model on texts, fits a predictor to each layer, chooses the thresholds of
 * all neurons together, and writes the model with all of it. Native only. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "base/number_text.h"
#include "calibrate/collect.h"
#include "calibrate/compensation.h"
#include "calibrate/fit.h"
#include "calibrate/gates.h"
#include "calibrate/neurons.h"
#include "calibrate/write_calibrated.h"
#include "formats/schema.h"
#include "host/file.h"
#include "native/open_path.h"

enum { DEFAULT_TOKENS = 32768, MOST_RANK = 1024 };

/* The default sparsity with ReLU, and with activations if most neurons contribute something. */
static const float relu_sparsity = 0.84f, default_sparsity = 0.7f;

struct calibration {
    const wisp_calibrate_options *options;
    struct predictor_formats formats;
    const wisp_model *model;
    struct pool *team;
    struct arena arena; /* for what is below; each layer has an arena of its own */
    size_t n_layers;
    struct layer *layers; /* [n_layers] */
    struct predictor_set tokens, texts;
};

/* ---- stages, which run for each layer, some layers at a time -------------------------------- */

struct layer_stage {
    const char *name;
    wisp_status (*run)(struct calibration *c, size_t layer, struct arena *scratch,
                       wisp_error *error);
    struct calibration *calibration;
    atomic_size_t done; /* layers */
};

static void show_progress(const wisp_calibrate_options *o, const struct layer_stage *stage,
                          size_t done, size_t layers) {
    if (o->progress)
        o->progress(o->context, stage->name, done, layers);
}

static wisp_status run_stage(void *context, uint32_t member, size_t layer, size_t end,
                             wisp_error *error) {
    struct layer_stage *stage = context;
    struct calibration *c = stage->calibration;
    struct arena scratch = {0};
    (void)end;
    const wisp_status status = stage->run(c, layer, &scratch, error);
    arena_release(&scratch);
    const size_t done = atomic_fetch_add(&stage->done, 1) + 1;
    if (member == 0)
        show_progress(c->options, stage, done, c->n_layers);
    return status;
}

static wisp_status each_layer(struct calibration *c, const char *name,
                              wisp_status (*run)(struct calibration *c, size_t layer,
                                                 struct arena *scratch, wisp_error *error),
                              wisp_error *error) {
    struct layer_stage stage = {.name = name, .run = run, .calibration = c};
    struct pool_work work = {.items = c->n_layers, .run = run_stage, .context = &stage};
    show_progress(c->options, &stage, 0, c->n_layers);
    return pool_each(c->team, pool_size(c->team), &work, error);
}

static wisp_status fit_layer(struct calibration *c, size_t l, struct arena *scratch,
                             wisp_error *error) {
    const struct fit_options options = {.rank = c->options->rank,
                                        .computed = 1 - c->options->sparsity,
                                        .steps = FIT_STEPS,
                                        .seed = c->options->seed + l};
    struct layer *layer = &c->layers[l];
    struct layer_fit *fit = &c->tokens.fits[l];
    TRY(layer_study_neurons(layer, scratch, error));
    arena_release(scratch);
    TRY(predictor_fit(layer, &options, scratch, &fit->trained, error));
    arena_release(scratch);
    return layer_find_gains(layer, &c->formats, fit, &c->tokens.gains[l], scratch, error);
}

/* Fits the predictor for whole texts. It stays the regression: there are so few texts that training
 * would learn them by heart.
 * */
static wisp_status fit_layer_to_texts(struct calibration *c, size_t l, struct arena *scratch,
                                      wisp_error *error) {
    const struct fit_options options = {.rank = c->options->rank,
                                        .computed = 1 - c->options->sparsity};
    struct layer layer;
    struct layer_fit *fit = &c->texts.fits[l];
    TRY(layer_with_text_means(&c->layers[l], scratch, &layer, error));
    TRY(predictor_fit(&layer, &options, scratch, &fit->trained, error));
    return layer_find_gains(&layer, &c->formats, fit, &c->texts.gains[l], scratch, error);
}

static wisp_status compensate_layer(struct calibration *c, size_t l, struct arena *scratch,
                                    wisp_error *error) {
    const struct predictor_set *set = &c->tokens;
    const float *thresholds = set->thresholds + l * c->layers->intermediate_size;
    return compensation_fit(&c->layers[l], thresholds, set->price, &set->fits[l], scratch, error);
}

/* ---- all layers together -------------------------------------------------------------------- */

static wisp_status read_weights(const wisp_model *model, size_t l, const char *matrix, size_t rows,
                                size_t row_length, struct arena *arena, float **values,
                                wisp_error *error) {
    char name[TENSOR_NAME_BYTES];
    float *loaded = NULL;
    ARENA_TAKE(arena, *values, rows * row_length, error);
    layer_tensor_name(name, l, matrix, TENSOR_WEIGHT);
    const wisp_status status =
        directory_load_floats(&model->dir, name, rows, row_length, &loaded, error);
    if (status == WISP_OK)
        memcpy(*values, loaded, rows * row_length * sizeof **values);
    memory_free(loaded);
    return status;
}

/* Reads a bias [n], or zeros if the layer has none. */
static wisp_status read_bias(const wisp_model *model, size_t l, const char *matrix, bool has_bias,
                             size_t n, struct arena *arena, float **values, wisp_error *error) {
    const struct linear_source source = {.dir = &model->dir, .unbiased = !has_bias, .n = n};
    char name[TENSOR_NAME_BYTES];
    ARENA_TAKE(arena, *values, n, error);
    layer_tensor_name(name, l, matrix, TENSOR_BIAS);
    return linear_bias(&source, name, *values, error);
}

static wisp_status open_predictors(struct calibration *c, size_t layers, size_t width,
                                   struct predictor_set *set, wisp_error *error) {
    ARENA_TAKE(&c->arena, set->fits, layers, error);
    ARENA_TAKE(&c->arena, set->gains, layers, error);
    ARENA_TAKE(&c->arena, set->thresholds, layers * width, error);
    ARENA_TAKE(&c->arena, set->level_thresholds, layers * CALIBRATED_LEVELS * width, error);
    return WISP_OK;
}

/* Reads the weights of all layers, and makes room for their predictors. */
static wisp_status open_layers(struct calibration *c, wisp_error *error) {
    const wisp_model *model = c->model;
    const struct model_config *config = &model->network.config;
    const size_t n = config->layers, hidden_size = config->hidden_size;
    const size_t width = config->intermediate_size;
    struct arena *arenas;
    ARENA_TAKE(&c->arena, c->layers, n, error);
    ARENA_TAKE(&c->arena, arenas, n, error);
    TRY(open_predictors(c, n, width, &c->tokens, error));
    TRY(open_predictors(c, n, width, &c->texts, error));
    for (size_t i = 0; i < n; i++) {
        struct layer *l = &c->layers[i];
        *l = (struct layer){.arena = &arenas[i],
                            .kernels = model->network.kernels,
                            .hidden_size = hidden_size,
                            .intermediate_size = width,
                            .activation = config->activation,
                            .cancelled = c->options->cancelled,
                            .context = c->options->context};
        c->n_layers = i + 1;
        if (config_is_gated(config))
            TRY(read_weights(model, i, TENSOR_FFN_GATE, width, hidden_size, l->arena, &l->gate,
                             error));
        TRY(read_weights(model, i, TENSOR_FFN_UP, width, hidden_size, l->arena, &l->up, error));
        TRY(read_bias(model, i, TENSOR_FFN_UP, config_biases_neurons(config), width, l->arena,
                      &l->up_bias, error));
        TRY(read_weights(model, i, TENSOR_FFN_DOWN, hidden_size, width, l->arena, &l->down, error));
        TRY(read_bias(model, i, TENSOR_FFN_DOWN, config->has_bias, hidden_size, l->arena,
                      &l->down_bias, error));
    }
    return WISP_OK;
}

/* Finds the price of each level and of the default share, and the thresholds that follow. */
static void choose_thresholds(const struct calibration *c, struct predictor_set *set) {
    const size_t width = c->layers->intermediate_size;
    for (size_t i = 0; i < CALIBRATED_LEVELS; i++) {
        const float price = gains_price(set->gains, c->n_layers, calibrated_shares[i]);
        for (size_t l = 0; l < c->n_layers; l++)
            gains_thresholds(&set->gains[l], price,
                             set->level_thresholds + (l * CALIBRATED_LEVELS + i) * width);
    }
    set->price = gains_price(set->gains, c->n_layers, 1 - c->options->sparsity);
    for (size_t l = 0; l < c->n_layers; l++)
        gains_thresholds(&set->gains[l], set->price, set->thresholds + l * width);
}

static wisp_status report_layer(const struct calibration *c, size_t l, struct arena *scratch,
                                wisp_error *error) {
    const struct layer *layer = &c->layers[l];
    const size_t width = layer->intermediate_size;
    wisp_calibrated_layer found = {.rank = c->options->rank,
                                   .sparsity = c->options->sparsity,
                                   .frequency = layer->frequency,
                                   .magnitude = layer->magnitude,
                                   .neurons = width,
                                   .hot = layer->hot};
    TRY(layer_measure(layer, &c->tokens.fits[l], c->tokens.thresholds + l * width, scratch,
                      &found.lowrank, error));
    if (c->options->sentence) {
        struct layer with_means;
        TRY(layer_with_text_means(layer, scratch, &with_means, error));
        TRY(layer_measure(&with_means, &c->texts.fits[l], c->texts.thresholds + l * width, scratch,
                          &found.sentence, error));
    }
    c->options->layer(c->options->context, (uint32_t)l, &found);
    return WISP_OK;
}

static wisp_status calibrate(struct calibration *c, const char *input, const char *output,
                             const wisp_text *texts, size_t n, wisp_error *error) {
    const wisp_calibrate_options *o = c->options;
    TRY(open_layers(c, error));
    uint32_t *token_counts;
    ARENA_TAKE(&c->arena, token_counts, c->model->network.config.vocabulary_size, error);
    TRY(collect_inputs(c->model, c->team, o, texts, n, c->layers, token_counts, error));
    TRY(each_layer(c, "layers", fit_layer, error));
    choose_thresholds(c, &c->tokens);
    if (o->sentence) {
        TRY(each_layer(c, "sentences", fit_layer_to_texts, error));
        choose_thresholds(c, &c->texts);
    }
    TRY(each_layer(c, "compensation", compensate_layer, error));
    for (size_t l = 0; l < c->n_layers; l++) {
        struct arena scratch = {0};
        if (o->cancelled && o->cancelled(o->context))
            return fail(error, WISP_ERROR_CANCELLED, output, NULL, "cancelled");
        if (!o->layer)
            continue;
        const wisp_status status = report_layer(c, l, &scratch, error);
        arena_release(&scratch);
        TRY(status);
    }
    const struct calibrated calibrated = {.n_layers = c->n_layers,
                                          .layers = c->layers,
                                          .tokens = &c->tokens,
                                          .texts = o->sentence ? &c->texts : NULL,
                                          .formats = c->formats,
                                          .token_counts = token_counts,
                                          .input = &c->model->dir,
                                          .share = 1 - o->sparsity,
                                          .one_level = o->one_sparsity,
                                          .hot = o->hot,
                                          .hot_bytes = o->hot_bytes,
                                          .hot_tokens = o->hot_tokens};
    return write_calibrated(input, output, &calibrated, error);
}

/* ---- options -------------------------------------------------------------------------------- */

/* Checks the options and puts defaults instead of what is 0. */
static wisp_status complete_options(wisp_calibrate_options *o, const struct layer *shape,
                                    struct predictor_formats *formats, wisp_error *error) {
    enum { MOST_DEFAULT_RANK = 256 };
    const size_t hidden_size = shape->hidden_size;
    const size_t most = smaller(smaller(hidden_size, shape->intermediate_size), MOST_RANK);
    if (o->rank == 0) {
        /* A third of the inputs' number, in whole blocks of Q8_0 and at most 256: what a larger
         * rank gains in quality it loses in time (docs/sparse.md). */
        const size_t third = round_up(larger(hidden_size / 3, 1), PREDICTOR_BLOCK);
        o->rank = (uint32_t)smaller(smaller(third, MOST_DEFAULT_RANK), most);
    }
    if (o->sparsity == 0)
        o->sparsity = shape->activation == ACTIVATION_RELU ? relu_sparsity : default_sparsity;
    if (o->tokens == 0)
        o->tokens = DEFAULT_TOKENS;
    if (!(o->sparsity > 0 && o->sparsity < 1))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "sparsity", "%s is not between 0 and 1",
                    number_text((double)o->sparsity, 6).text);
    if (o->hot != 0 && !(o->hot > 0 && o->hot <= 1))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "hot", "%s is not above 0 and at most 1",
                    number_text((double)o->hot, 6).text);
    if (o->hot != 0 && o->hot_bytes > 0)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "hot", "hot_bytes is also set");

    return predictor_choose(o->rank, most, hidden_size, o->predictor_type, formats, error);
}

static wisp_status refuse_experts(const wisp_model *model, wisp_error *error) {
    const uint32_t experts = model->network.config.experts.count;
    return experts == 0 ? WISP_OK
                        : fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "model",
                               "layers of %u experts are not calibrated", experts);
}

wisp_status wisp_calibrate(const char *input, const char *output, const wisp_text *texts, size_t n,
                           const wisp_calibrate_options *options, wisp_error *error) {
    const wisp_model_options dense = {.compute = WISP_COMPUTE_F32,
                                      .predictor = WISP_PREDICTOR_DENSE};
    wisp_calibrate_options o = options ? *options : (wisp_calibrate_options){0};
    struct calibration c = {.options = &o};
    wisp_model *model;
    TRY(require(input, "input", error));
    TRY(require(output, "output", error));
    TRY(require_texts(texts, n, error));
    if (o.threads > POOL_MAX_THREADS)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "threads", "%u is more than %d", o.threads,
                    POOL_MAX_THREADS);
    TRY(file_check_output(output, error));
    TRY(wisp_model_open(input, &dense, &model, error));
    if (!config_embeds(&model->network.config))
        return calibrate_gates(model, input, output, texts, n, &o, error);
    c.model = model;
    const struct layer shape = {.hidden_size = model->network.config.hidden_size,
                                .intermediate_size = model->network.config.intermediate_size,
                                .activation = model->network.config.activation};
    wisp_status status = refuse_experts(model, error);
    if (status == WISP_OK)
        status = complete_options(&o, &shape, &c.formats, error);
    if (status == WISP_OK)
        status = pool_open(o.threads ? o.threads : 1, &c.team, error);
    if (status == WISP_OK)
        status = calibrate(&c, input, output, texts, n, error);
    for (size_t l = 0; l < c.n_layers; l++)
        arena_release(c.layers[l].arena);
    arena_release(&c.arena);
    if (c.team)
        pool_close(c.team);
    wisp_model_close(model);
    return status;
}
