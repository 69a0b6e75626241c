/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/attention.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/number_text.h"
#include "host/file.h"

enum { DEFAULT_WINDOW = 4096, LEAST_WINDOW = 256, DEFAULT_WINDOWS = 2, DEFAULT_NEEDLES = 6 };

static const float default_loss = 0.01f, default_bound = 0.1f;

/* Models of fewer parameters are small ones. */
static const uint64_t small_parameters = 1000000000;

wisp_status attention_progress(const struct attention_calibration *c, const char *stage,
                               size_t done, size_t total, wisp_error *error) {
    const wisp_calibrate_attention_options *o = c->options;
    if (o->cancelled && o->cancelled(o->context))
        return fail(error, WISP_ERROR_CANCELLED, NULL, NULL, "cancelled");
    if (o->progress)
        o->progress(o->context, stage, done, total);
    return WISP_OK;
}

wisp_status attention_session(const struct attention_calibration *c, const char *policies,
                              wisp_session **session, wisp_error *error) {
    const wisp_session_options options = {.threads = c->options->threads,
                                          .cache_type = c->options->cache_type,
                                          .attention = policies};
    TRY(wisp_session_open(c->model, &options, session, error));
    const wisp_status status = generation_open(*session, 1, error);
    if (status != WISP_OK)
        wisp_session_close(*session);
    return status;
}

/* ---- texts ---------------------------------------------------------------------------------- */

/* Converts the texts, each and a line feed, until there are `most` tokens. */
static wisp_status encode_texts(struct attention_calibration *c, const wisp_text *texts, size_t n,
                                size_t most, size_t *count, wisp_error *error) {
    int32_t *ids;
    ARENA_TAKE(&c->arena, ids, most, error);
    c->ids = ids;
    *count = 0;
    for (size_t i = 0; i < n && *count < most; i++) {
        struct token_list list = {0}, line = {0};
        wisp_status status = codec_encode(c->model->codec, texts[i], *count == 0, &list, error);
        if (status == WISP_OK)
            status = codec_encode(c->model->codec, wisp_text_of("\n"), false, &line, error);
        const struct token_list *const parts[] = {&list, &line};
        for (size_t p = 0; p < 2 && status == WISP_OK; p++) {
            const size_t taken = smaller(parts[p]->count, most - *count);
            memcpy(ids + *count, parts[p]->ids, taken * sizeof *ids);
            *count += taken;
        }
        free(list.ids);
        free(line.ids);
        TRY(status);
    }
    return WISP_OK;
}

/* Makes windows of the texts, as long as is asked for or they allow. */
static wisp_status open_texts(struct attention_calibration *c, const wisp_text *texts, size_t n,
                              wisp_error *error) {
    const size_t most = c->model->network.config.max_positions;
    size_t count;
    if (c->options->window > most)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "window",
                    "%u tokens are more than the model's context of %zu", c->options->window, most);
    c->window = c->options->window ? c->options->window : smaller(DEFAULT_WINDOW, most);
    TRY(encode_texts(c, texts, n, 2 * c->windows * c->window, &count, error));
    if (!c->options->window)
        c->window = smaller(c->window, count / (2 * c->windows));
    if (c->window < LEAST_WINDOW || count < 2 * c->windows * c->window)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "texts",
                    "they have %zu tokens, but %zu windows of at least %zu are needed", count,
                    2 * c->windows, larger(c->window, LEAST_WINDOW));
    ARENA_TAKE(&c->arena, c->hidden, c->window, error);
    return WISP_OK;
}

/* ---- the whole ------------------------------------------------------------------------------ */

/* Checks the options and puts defaults instead of what is 0. */
static wisp_status complete_options(wisp_calibrate_attention_options *o, wisp_error *error) {
    enum { MOST_WINDOWS = 64 };
    o->windows = o->windows ? o->windows : DEFAULT_WINDOWS;
    o->needles = o->needles ? o->needles : DEFAULT_NEEDLES;
    o->loss = o->loss != 0 ? o->loss : default_loss;
    o->bound = o->bound != 0 ? o->bound : default_bound;
    if (o->window && o->window < LEAST_WINDOW)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "window", "%u is less than %d", o->window,
                    LEAST_WINDOW);
    if (o->windows > MOST_WINDOWS)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "windows", "%u is more than %d", o->windows,
                    MOST_WINDOWS);
    if (o->needles > MOST_NEEDLES)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "needles", "%u is more than %d", o->needles,
                    MOST_NEEDLES);
    if (!(o->loss > 0 && o->loss < 1))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "loss", "%s is not between 0 and 1",
                    number_text((double)o->loss, 6).text);
    if (!(o->bound < 1))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "bound", "%s is not below 1",
                    number_text((double)o->bound, 6).text);
    return WISP_OK;
}

static wisp_status calibrate(struct attention_calibration *c, const char *input, const char *output,
                             const wisp_text *texts, size_t n, wisp_error *error) {
    wisp_model_info info;
    wisp_model_get_info(c->model, &info);
    c->small = info.parameters < small_parameters;
    if (config_embeds(&c->model->network.config))
        return fail(error, WISP_ERROR_UNSUPPORTED, input, "general.architecture",
                    "policies of attention are for models that generate text");
    TRY(open_texts(c, texts, n, error));
    TRY(attention_learn(c, error));
    TRY(attention_put(c, &c->model->dir, error)); /* from which `learned` is tried */
    TRY(attention_find_choice(c, error));
    return attention_write(c, input, output, error);
}

wisp_status wisp_calibrate_attention(const char *input, const char *output, const wisp_text *texts,
                                     size_t n, const wisp_calibrate_attention_options *options,
                                     wisp_error *error) {
    const wisp_model_options dense = {.predictor = WISP_PREDICTOR_DENSE};
    wisp_calibrate_attention_options o = options ? *options : (wisp_calibrate_attention_options){0};
    struct attention_calibration c = {.options = &o};
    TRY(require(input, "input", error));
    TRY(require(output, "output", error));
    TRY(require_texts(texts, n, error));
    TRY(complete_options(&o, error));
    TRY(file_check_output(output, error));
    TRY(wisp_model_open(input, &dense, &c.model, error));
    c.windows = o.windows;
    c.needles = o.needles;
    const wisp_status status = calibrate(&c, input, output, texts, n, error);
    arena_release(&c.arena);
    wisp_model_close(c.model);
    return status;
}
