/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/gates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "base/number_text.h"
#include "calibrate/gate_histogram.h"
#include "formats/schema.h"
#include "models/ffn_dense.h"
#include "models/ffn_gate.h"
#include "models/network.h"

enum { DEFAULT_TOKENS = 32768, LEAST_TOKENS = 64, HELD_OUT_EVERY = 8, NEEDED_PART = 5 };

static const float shares[GATE_LEVELS] = {0.05f, 0.1f, 0.2f, 0.3f, 0.4f,  0.5f,
                                          0.6f,  0.7f, 0.8f, 0.9f, 0.95f, 1};
static const float default_sparsity = 0.5f;

static const float thresholds[WISP_GATE_THRESHOLDS] = {0.001f, 0.003f, 0.01f, 0.03f, 0.1f, 0.3f, 1};

/* ---- watching layers ------------------------------------------------------------------------ */

/* Watches the products of one layer. The first run counts the outputs of W_up; the second one
 * keeps the gates of the tokens of a pass until W_down reads the contributions. */
struct watcher {
    struct gate_calibration *c;
    size_t layer;
    double *squares;                /* [neurons]: of the outputs of W_up */
    float *gates, *ones;            /* [most_tokens, neurons]: f(W_gate x); [neurons] */
    float *contributions;           /* [neurons] */
    const float *norms;             /* [neurons]: the lengths of columns of W_down */
    struct gate_histogram *counted; /* the histogram that the text counts for */
    struct linear_tap up, gate, down;
};

/* Keeps the rows of x [m, hidden_size], as far as there is room. */
static void keep_inputs(const struct watcher *w, struct gate_inputs *all, const float *x,
                        size_t m) {
    const size_t size = w->c->model->network.config.hidden_size;
    if (!all)
        return;
    struct gate_inputs *own = &all[w->layer];
    m = smaller(m, own->capacity - own->n);
    memcpy(own->x + own->n * size, x, m * size * sizeof *x);
    own->n += m;
}

static void see_up(void *context, const float *x, const float *y, size_t m) {
    const struct watcher *w = context;
    keep_inputs(w, w->c->predictors.fitted_inputs, x, m);
    for (size_t i = 0; i < m * w->c->neurons; i++)
        w->squares[i % w->c->neurons] += (double)y[i] * (double)y[i];
}

static void see_gate(void *context, const float *x, const float *y, size_t m) {
    const struct watcher *w = context;
    const size_t n = w->c->neurons;
    if (w->counted == w->c->held_out + w->layer)
        keep_inputs(w, w->c->predictors.held_out_inputs, x, m);
    memcpy(w->gates, y, m * n * sizeof *y);
    for (size_t t = 0; t < m; t++) {
        for (size_t i = 0; i < n; i++)
            w->ones[i] = 1;
        ffn_dense_activate(&w->c->model->network, w->ones, w->gates + t * n, n);
    }
}

static void see_down(void *context, const float *x, const float *y, size_t m) {
    const struct watcher *w = context;
    const size_t n = w->c->neurons;
    const float *weights = w->c->weights + w->layer * n;
    (void)y;
    for (size_t t = 0; t < m; t++, x += n) {
        const float *gates = w->gates + t * n;
        for (size_t i = 0; i < n; i++)
            w->contributions[i] = fabsf(x[i]) * w->norms[i];
        const float least = gathered_select(w->contributions, n, n / NEEDED_PART);
        for (size_t i = 0; i < n; i++) {
            const double size = (double)w->contributions[i];
            const float gate = fabsf(gates[i]);
            gate_histogram_add(w->counted, gate * weights[i], size * size,
                               w->contributions[i] >= least && size > 0);
            for (size_t j = 0; j < WISP_GATE_THRESHOLDS; j++)
                w->c->above[w->layer][j] += gate > thresholds[j];
        }
    }
}

/* ---- running -------------------------------------------------------------------------------- */

struct run {
    struct gate_calibration *c;
    wisp_session *session;
    struct watcher *watchers; /* [layers] */
    const char *stage;
    const wisp_text *texts;
    size_t n, most_tokens;
    int32_t *ids; /* [most_tokens] */
};

/* Runs the texts that are not used up by `tokens`. Returns their tokens in *seen. */
static wisp_status run_texts(struct run *r, bool held_out_too, size_t *seen, wisp_error *error) {
    const wisp_calibrate_options *o = r->c->options;
    float *logits = NULL;
    wisp_status status = WISP_OK;
    *seen = 0;
    if (!(logits = malloc(r->c->model->network.config.vocabulary_size * sizeof *logits)))
        return fail_memory(error, sizeof *logits);
    for (size_t i = 0; i < r->n && *seen < o->tokens && status == WISP_OK; i++) {
        const bool held_out = i % HELD_OUT_EVERY == HELD_OUT_EVERY - 1;
        size_t n;
        if (o->progress)
            o->progress(o->context, r->stage, i, r->n);
        if (o->cancelled && o->cancelled(o->context))
            status = fail(error, WISP_ERROR_CANCELLED, NULL, NULL, "cancelled");
        if (status != WISP_OK || (held_out && !held_out_too))
            continue;
        status = wisp_tokenize(r->c->model, r->texts[i], r->ids, r->most_tokens, &n, error);
        n = smaller(n, r->most_tokens);
        for (size_t l = 0; l < r->c->layers; l++)
            r->watchers[l].counted = (held_out ? r->c->held_out : r->c->fitted) + l;
        if (status == WISP_OK && n > 0)
            status = wisp_next_logits(r->session, r->ids, n, logits, error);
        *seen += held_out ? 0 : n;
    }
    if (status == WISP_OK && o->progress)
        o->progress(o->context, r->stage, r->n, r->n);
    free(logits);
    return status;
}

/* Sets the lengths of the columns of W_down. */
static wisp_status find_norms(const struct gate_calibration *c, size_t layer, float *norms,
                              wisp_error *error) {
    const struct network *network = &c->model->network;
    const size_t size = network->config.hidden_size;
    char name[TENSOR_NAME_BYTES];
    float *down = NULL;
    layer_tensor_name(name, layer, TENSOR_FFN_DOWN, TENSOR_WEIGHT);
    const wisp_status status =
        directory_load_floats(network->dir, name, size, c->neurons, &down, error);
    for (size_t i = 0; i < c->neurons && status == WISP_OK; i++) {
        double sum = 0;
        for (size_t j = 0; j < size; j++)
            sum += (double)down[j * c->neurons + i] * (double)down[j * c->neurons + i];
        norms[i] = (float)sqrt(sum);
    }
    memory_free(down);
    return status;
}

/* Lets the watchers see a layer's products, of W_up or of the two others. */
static void watch(struct run *r, bool up, bool others) {
    for (size_t l = 0; l < r->c->layers; l++) {
        struct feed_forward *f = &r->c->model->network.feed_forward[l];
        f->up.tap = up ? &r->watchers[l].up : NULL;
        f->gate.tap = others ? &r->watchers[l].gate : NULL;
        f->down.tap = others ? &r->watchers[l].down : NULL;
    }
}

static wisp_status run_both(struct run *r, const float *norms, wisp_error *error) {
    const struct gate_calibration *c = r->c;
    size_t tokens;
    watch(r, true, false);
    r->stage = "scores";
    TRY(run_texts(r, false, &tokens, error));
    if (tokens < LEAST_TOKENS)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "texts",
                    "%zu texts with %zu tokens to fit to; at least %d are needed", r->n, tokens,
                    LEAST_TOKENS);
    for (size_t i = 0; i < c->layers * c->neurons; i++)
        c->weights[i] = norms[i] * (float)sqrt(r->watchers->squares[i] / (double)tokens);
    watch(r, false, true);
    r->stage = "thresholds";
    return run_texts(r, true, &tokens, error);
}

static wisp_status open_watchers(struct run *r, struct arena *arena, float **norms,
                                 wisp_error *error) {
    struct gate_calibration *c = r->c;
    const size_t n = c->neurons;
    double *squares;
    float *gates, *ones, *contributions;
    ARENA_TAKE(arena, r->watchers, c->layers, error);
    ARENA_TAKE(arena, squares, c->layers * n, error);
    ARENA_TAKE(arena, *norms, c->layers * n, error);
    ARENA_TAKE(arena, gates, PASS_TILE_TOKENS * n, error);
    ARENA_TAKE(arena, ones, n, error);
    ARENA_TAKE(arena, contributions, n, error);
    for (size_t l = 0; l < c->layers; l++) {
        struct watcher *w = &r->watchers[l];
        *w = (struct watcher){.c = c,
                              .layer = l,
                              .squares = squares + l * n,
                              .gates = gates,
                              .ones = ones,
                              .contributions = contributions,
                              .norms = *norms + l * n,
                              .up = {see_up, w},
                              .gate = {see_gate, w},
                              .down = {see_down, w}};
        TRY(find_norms(c, l, *norms + l * n, error));
    }
    return WISP_OK;
}

/* Sets the levels of all layers, each of which computes the same share: if one score served all
 * layers, the first ones would compute too little (docs/sparse.md). */
static void find_levels(const struct gate_calibration *c) {
    for (size_t l = 0; l < c->layers; l++)
        for (size_t i = 0; i < GATE_LEVELS; i++)
            c->levels[l * GATE_LEVELS + i] =
                shares[i] < 1 ? gate_histogram_least(&c->fitted[l], (double)shares[i]) : 0;
}

/* Runs the model on texts and finds the weights and levels of all layers. */
static wisp_status gates_calibrate(struct gate_calibration *c, struct arena *arena,
                                   const wisp_text *texts, size_t n, wisp_error *error) {
    struct run r = {.c = c, .texts = texts, .n = n, .most_tokens = c->model->max_tokens};
    float *norms;
    c->shares = shares;
    ARENA_TAKE(arena, c->weights, c->layers * c->neurons, error);
    ARENA_TAKE(arena, c->levels, c->layers * GATE_LEVELS, error);
    ARENA_TAKE(arena, c->fitted, c->layers, error);
    ARENA_TAKE(arena, c->held_out, c->layers, error);
    ARENA_TAKE(arena, c->above, c->layers, error);
    ARENA_TAKE(arena, r.ids, r.most_tokens, error);
    if (c->options->rank > 0)
        TRY(gate_predictors_open(c, arena, error));
    TRY(open_watchers(&r, arena, &norms, error));
    TRY(wisp_session_open(c->model, NULL, &r.session, error));
    const wisp_status status = run_both(&r, norms, error);
    watch(&r, false, false);
    wisp_session_close(r.session);
    if (status == WISP_OK)
        find_levels(c);
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static wisp_status complete_options(struct gate_calibration *c, wisp_calibrate_options *o,
                                    wisp_error *error) {
    const size_t size = c->model->network.config.hidden_size;
    const char *embeds = o->sentence       ? "sentence"
                         : o->one_sparsity ? "one_sparsity"
                         : o->hot != 0     ? "hot"
                         : o->hot_bytes    ? "hot_bytes"
                         : o->hot_tokens   ? "hot_tokens"
                                           : NULL;
    if (embeds)
        return fail(error, WISP_ERROR_UNSUPPORTED, NULL, embeds,
                    "it is for models that embed, and this one generates");
    if (o->sparsity == 0)
        o->sparsity = default_sparsity;
    if (!(o->sparsity > 0 && o->sparsity < 1))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "sparsity", "%s is not between 0 and 1",
                    number_text((double)o->sparsity, 6).text);
    if (o->tokens == 0)
        o->tokens = DEFAULT_TOKENS;
    if (o->rank > 0)
        return predictor_choose(o->rank, smaller(size, ffn_gate_most_rank(c->neurons)), size,
                                o->predictor_type, &c->predictors.formats, error);
    if (o->predictor_type)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "predictor_type",
                    "a model that generates has predictors only if a rank is given");
    return WISP_OK;
}

static void report(const struct gate_calibration *c) {
    for (size_t l = 0; l < c->layers && c->options->gates; l++) {
        const struct gate_histogram *h =
            c->held_out[l].neurons > 0 ? &c->held_out[l] : &c->fitted[l];
        const double all = (double)(c->fitted[l].neurons + c->held_out[l].neurons);
        wisp_calibrated_gate levels[GATE_LEVELS];
        wisp_calibrated_gates found = {.level = levels, .levels = GATE_LEVELS};
        for (size_t i = 0; i < GATE_LEVELS; i++) {
            const float least = c->levels[l * GATE_LEVELS + i];
            const struct gate_outcome outcome = gate_histogram_above(h, least);
            levels[i] = (wisp_calibrated_gate){.share = c->shares[i],
                                               .least = least,
                                               .active = outcome.active,
                                               .recall = outcome.recall,
                                               .loss = outcome.loss};
        }
        for (size_t i = 0; i < WISP_GATE_THRESHOLDS; i++)
            found.above[i] = c->above[l][i] / all;
        memcpy(found.threshold, thresholds, sizeof thresholds);
        c->options->gates(c->options->context, (uint32_t)l, &found);
    }
}

wisp_status calibrate_gates(wisp_model *model, const char *input, const char *output,
                            const wisp_text *texts, size_t n, const wisp_calibrate_options *options,
                            wisp_error *error) {
    const struct model_config *config = &model->network.config;
    wisp_calibrate_options o = *options;
    struct arena arena = {0};
    struct gate_calibration c = {.options = &o,
                                 .model = model,
                                 .layers = config->layers,
                                 .neurons = config->intermediate_size};
    wisp_status status = complete_options(&c, &o, error);
    if (status == WISP_OK && config->experts.count > 0)
        status = fail(error, WISP_ERROR_UNSUPPORTED, input, "expert_count",
                      "layers of %u experts are not calibrated", config->experts.count);
    if (status == WISP_OK &&
        (!config_is_gated(config) || config->has_bias || config->has_sub_norms ||
         !gathered_sizes_fit(config->hidden_size, config->intermediate_size)))
        status =
            fail(error, WISP_ERROR_UNSUPPORTED, input, "general.architecture",
                 "of models that generate only those with gated layers without biases and norms "
                 "within, whose "
                 "hidden_size (here %u) and intermediate_size (%u) are multiples of %d, can "
                 "be calibrated",
                 config->hidden_size, config->intermediate_size, GATHER_BLOCK);
    if (status == WISP_OK)
        status = gates_calibrate(&c, &arena, texts, n, error);
    if (status == WISP_OK)
        report(&c);
    if (status == WISP_OK && o.rank > 0)
        status = gate_predictors_fit(&c, &arena, error);
    if (status == WISP_OK)
        status = gates_write(&c, input, output, error);
    gate_predictors_release(&c);
    arena_release(&arena);
    wisp_model_close(model);
    return status;
}
