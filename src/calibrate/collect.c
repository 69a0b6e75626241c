/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/collect.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "layers/mean.h"
#include "models/pass.h"

enum { BATCH_TOKENS = 256, LEAST_TOKENS = 64 };

static const uint32_t NO_MEAN = UINT32_MAX;

/* The row of x, or of held_out, that a token's input is kept in, if it is kept. */
struct place {
    uint32_t row;
    bool is_kept, is_held_out;
};

struct collection {
    const wisp_model *model;
    const wisp_calibrate_options *options;
    struct layer *layers;
    size_t n_layers, texts;
    struct arena arena;
    int32_t *ids;             /* tokens of all texts, one after the other */
    size_t *starts;           /* [texts + 1]: text i is ids[starts[i] .. starts[i + 1]) */
    struct place *places;     /* [tokens] */
    uint32_t *means;          /* [texts]: the row of text_means of each text, or NO_MEAN */
    struct workspace *spaces; /* one for each member of the team */
};

static wisp_status tokenize_all(struct collection *c, const wisp_text *texts, wisp_error *error) {
    const size_t most = c->model->max_tokens;
    size_t used = 0, capacity = 0;
    ARENA_TAKE(&c->arena, c->starts, c->texts + 1, error);
    for (size_t i = 0; i < c->texts; i++) {
        if (used + most > capacity) {
            capacity = 2 * (used + most);
            int32_t *moved = realloc(c->ids, capacity * sizeof *moved);
            if (!moved)
                return fail_memory(error, capacity * sizeof *moved);
            c->ids = moved;
        }
        c->starts[i] = used;
        size_t tokens;
        TRY(tokenizer_encode(c->model->tokenizer, texts[i], most, c->ids + used, &tokens, NULL,
                             error));
        used += tokens;
    }
    c->starts[c->texts] = used;
    return WISP_OK;
}

/* Chooses about as many tokens as are asked for, evenly over the texts, and makes room for their
 * inputs and for the means of their texts. */
static wisp_status choose_tokens(struct collection *c, wisp_error *error) {
    const size_t total = c->starts[c->texts], most = c->options->tokens;
    const size_t hidden_size = c->layers->hidden_size;
    const double fitted = (double)(total * (HELD_OUT_EVERY - 1)) / (double)HELD_OUT_EVERY;
    const double probability = (double)most / (fitted > 1 ? fitted : 1);
    size_t tokens = 0, held_out = 0, means = 0;
    ARENA_TAKE(&c->arena, c->places, total, error);
    ARENA_TAKE(&c->arena, c->means, c->texts, error);
    for (size_t i = 0; i < c->texts; i++) {
        const bool is_held_out = i % HELD_OUT_EVERY == HELD_OUT_EVERY - 1;
        size_t *count = is_held_out ? &held_out : &tokens;
        const size_t before = *count;
        for (size_t t = c->starts[i]; t < c->starts[i + 1]; t++) {
            /* A number from 0 to below 1, which depends on the seed and the token's number
             * alone. */
            const uint64_t bits = random_mix(c->options->seed * random_step + t);
            const bool is_kept = (double)(bits >> 11) * 0x1p-53 < probability && *count < most;
            c->places[t] = (struct place){(uint32_t)*count, is_kept, is_held_out};
            *count += is_kept;
        }
        c->means[i] = c->options->sentence && *count > before ? (uint32_t)means++ : NO_MEAN;
    }
    if (tokens < LEAST_TOKENS)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "texts",
                    "%zu texts with %zu tokens to fit to; at least %d are needed", c->texts, tokens,
                    LEAST_TOKENS);

    uint32_t *text_of = NULL, *held_out_text_of = NULL;
    if (means > 0) {
        ARENA_TAKE(c->layers->arena, text_of, tokens, error);
        ARENA_TAKE(c->layers->arena, held_out_text_of, held_out, error);
        for (size_t i = 0; i < c->texts; i++)
            for (size_t t = c->starts[i]; t < c->starts[i + 1]; t++)
                if (c->places[t].is_kept)
                    (c->places[t].is_held_out ? held_out_text_of : text_of)[c->places[t].row] =
                        c->means[i];
    }
    for (size_t l = 0; l < c->n_layers; l++) {
        struct layer *layer = &c->layers[l];
        layer->tokens = tokens;
        layer->held_out_tokens = held_out;
        ARENA_TAKE(layer->arena, layer->x, tokens * hidden_size, error);
        ARENA_TAKE(layer->arena, layer->held_out, held_out * hidden_size, error);
        layer->predictor_x = layer->x;
        layer->predictor_held_out = layer->held_out;
        if (means > 0)
            ARENA_TAKE(layer->arena, layer->text_means, means * hidden_size, error);
        layer->text_of = text_of;
        layer->held_out_text_of = held_out_text_of;
    }
    return WISP_OK;
}

/* ---- running -------------------------------------------------------------------------------- */

struct observed {
    const struct collection *c;
    size_t first, end; /* texts */
};

/* The hook of the passes. Keeps the rows of x, the inputs of a layer, that were chosen, and the
 * means over texts that were. */
static wisp_status keep_inputs(void *context, struct cursor at, const float *x, wisp_error *error) {
    const struct observed *o = context;
    const struct collection *c = o->c;
    const struct layer *l = &c->layers[at.layer];
    (void)error;
    if (at.block != PASS_FEED_FORWARD || !x)
        return WISP_OK;
    const size_t size = l->hidden_size, start = c->starts[o->first];
    for (size_t t = start; t < c->starts[o->end]; t++)
        if (c->places[t].is_kept)
            memcpy((c->places[t].is_held_out ? l->held_out : l->x) + c->places[t].row * size,
                   x + (t - start) * size, size * sizeof *x);
    for (size_t i = o->first; i < o->end; i++)
        if (c->means[i] != NO_MEAN)
            mean_of_rows(l->kernels, x + (c->starts[i] - start) * size,
                         c->starts[i + 1] - c->starts[i], size, l->text_means + c->means[i] * size);
    return WISP_OK;
}

static wisp_status forward(const struct collection *c, size_t first, size_t end,
                           struct workspace *space, struct arena *scratch, wisp_error *error) {
    const struct network *network = &c->model->network;
    const size_t n = end - first;
    const struct pass_size most = {.texts = n,
                                   .tokens = c->starts[end] - c->starts[first],
                                   .longest = c->model->max_tokens,
                                   .members = 1};
    struct observed observed = {c, first, end};
    size_t *starts;
    float *rows;
    ARENA_TAKE(scratch, starts, n + 1, error);
    ARENA_TAKE(scratch, rows, n * c->layers->hidden_size, error);
    for (size_t i = 0; i <= n; i++)
        starts[i] = c->starts[first + i] - c->starts[first];
    TRY(workspace_reserve(space, pass_workspace_bytes(network, &most), error));
    struct pass pass = {.network = network,
                        .batch = {.texts = n, .ids = c->ids + c->starts[first], .starts = starts},
                        .rows = rows,
                        .hook = keep_inputs,
                        .hook_context = &observed};
    pass_begin(&pass, space);
    return pass_run(&pass, error);
}

/* Returns the end of the batch that begins with text `first`: it has at most BATCH_TOKENS tokens,
 * or is one text. */
static size_t batch_end(const void *context, size_t first) {
    const struct collection *c = context;
    size_t end = first + 1;
    while (end < c->texts && c->starts[end + 1] - c->starts[first] <= BATCH_TOKENS)
        end++;
    return end;
}

static wisp_status run_batch(void *context, uint32_t member, size_t first, size_t end,
                             wisp_error *error) {
    const struct collection *c = context;
    const wisp_calibrate_options *o = c->options;
    struct arena scratch = {0};
    const wisp_status status = forward(c, first, end, &c->spaces[member], &scratch, error);
    arena_release(&scratch);
    if (member == 0 && o->progress)
        o->progress(o->context, "texts", end, c->texts);
    if (status == WISP_OK && o->cancelled && o->cancelled(o->context))
        return fail(error, WISP_ERROR_CANCELLED, NULL, NULL, "cancelled");
    return status;
}

static wisp_status collect(struct collection *c, struct pool *team, const wisp_text *texts,
                           wisp_error *error) {
    struct pool_work work = {
        .items = c->texts, .group_end = batch_end, .run = run_batch, .context = c};
    TRY(tokenize_all(c, texts, error));
    TRY(choose_tokens(c, error));
    ARENA_TAKE(&c->arena, c->spaces, pool_size(team), error);
    /* The other threads may take all batches before this one takes any. */
    if (c->options->progress)
        c->options->progress(c->options->context, "texts", 0, c->texts);
    const wisp_status status = pool_each(team, pool_size(team), &work, error);
    for (uint32_t i = 0; i < pool_size(team); i++)
        workspace_release(&c->spaces[i]);
    return status;
}

wisp_status collect_inputs(const wisp_model *model, struct pool *team,
                           const wisp_calibrate_options *options, const wisp_text *texts, size_t n,
                           struct layer *layers, uint32_t *token_counts, wisp_error *error) {
    struct collection c = {.model = model,
                           .options = options,
                           .layers = layers,
                           .n_layers = model->network.config.layers,
                           .texts = n};
    const wisp_status status = collect(&c, team, texts, error);
    for (size_t i = 0; status == WISP_OK && i < c.starts[n]; i++)
        token_counts[c.ids[i]]++;
    free(c.ids);
    arena_release(&c.arena);
    return status;
}
