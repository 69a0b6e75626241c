/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/collect.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "layers/mean.h"
#include "models/pass.h"

enum { BATCH_TOKENS = 256, LEAST_TOKENS = 64 };

static const uint32_t NO_MEAN = UINT32_MAX;

/* Where a token's inputs go: a row of x, or of held_out, or nowhere. */
struct place {
    uint32_t row;
    bool kept, held_out;
};

struct collection {
    const wisp_model *model;
    const wisp_calibrate_options *options;
    struct layer_sample *samples;
    size_t texts;
    int32_t *ids;         /* of all texts, one after the other */
    size_t *starts;       /* [texts + 1] */
    struct place *places; /* [tokens] */
    uint32_t *means;      /* [texts]: the row of each text's mean, or NO_MEAN */
    atomic_size_t next;   /* text */
    atomic_bool failed;
    wisp_error error; /* of the worker that failed first */
};

static wisp_status tokenize_all(struct collection *c, const wisp_text *texts, wisp_error *error) {
    const size_t most = c->model->max_tokens;
    size_t used = 0, capacity = 0;
    for (size_t i = 0; i < c->texts; i++) {
        if (used + most > capacity) {
            capacity = 2 * (used + most);
            int32_t *moved = realloc(c->ids, capacity * sizeof *moved);
            if (!moved)
                return fail_memory(error, capacity * sizeof *moved);
            c->ids = moved;
        }
        c->starts[i] = used;
        used += tokenizer_encode(c->model->tokenizer, texts[i], most, c->ids + used, NULL);
    }
    c->starts[c->texts] = used;
    return WISP_OK;
}

/* A number from 0 to below 1 that depends on the seed and the token's place. */
static double chance(uint64_t seed, uint64_t token) {
    return (double)(random_mix(seed * random_step + token) >> 11) * 0x1p-53;
}

static bool is_held_out(size_t text) {
    return text % HELD_OUT_EVERY == HELD_OUT_EVERY - 1;
}

/* What is kept of all texts, in rows. */
struct kept {
    size_t tokens, held_out, means;
};

/* Keeps about as many tokens as asked for, evenly over the texts, and the means of their texts. */
static void choose_places(struct collection *c, struct kept *kept) {
    const size_t total = c->starts[c->texts];
    const double fitted = (double)(total * (HELD_OUT_EVERY - 1)) / (double)HELD_OUT_EVERY;
    const double share = (double)c->options->tokens / (fitted > 1 ? fitted : 1);
    *kept = (struct kept){0};
    for (size_t i = 0; i < c->texts; i++) {
        size_t *count = is_held_out(i) ? &kept->held_out : &kept->tokens;
        const size_t before = *count;
        for (size_t t = c->starts[i]; t < c->starts[i + 1]; t++) {
            const bool is_kept = chance(c->options->seed, t) < share && *count < c->options->tokens;
            c->places[t] = (struct place){(uint32_t)*count, is_kept, is_held_out(i)};
            *count += is_kept;
        }
        c->means[i] = c->options->sentence && *count > before ? (uint32_t)kept->means++ : NO_MEAN;
    }
}

/* Which of the means is each kept token's. */
static void number_texts(const struct collection *c, struct layer_sample *s) {
    for (size_t i = 0; i < c->texts; i++)
        for (size_t t = c->starts[i]; t < c->starts[i + 1]; t++) {
            const struct place place = c->places[t];
            if (place.kept)
                (place.held_out ? s->held_out_texts : s->texts)[place.row] = c->means[i];
        }
}

static wisp_status make_room_for_texts(const struct collection *c, const struct kept *kept,
                                       size_t row, struct layer_sample *s, wisp_error *error) {
    s->means = malloc(kept->means * row);
    s->texts = malloc(kept->tokens * sizeof *s->texts);
    s->held_out_texts = malloc(kept->held_out * sizeof *s->texts + 1);
    if (!s->means || !s->texts || !s->held_out_texts)
        return fail_memory(error, kept->means * row);
    number_texts(c, s);
    return WISP_OK;
}

static wisp_status make_room(struct collection *c, const struct kept *kept, wisp_error *error) {
    const struct model_config *config = &c->model->network.config;
    const size_t row = config->hidden_size * sizeof(float);
    for (size_t l = 0; l < config->layers; l++) {
        struct layer_sample *s = &c->samples[l];
        s->tokens = kept->tokens;
        s->held_out_tokens = kept->held_out;
        s->x = malloc(kept->tokens * row);
        s->held_out = malloc(kept->held_out * row + 1);
        if (!s->x || !s->held_out)
            return fail_memory(error, (kept->tokens + kept->held_out) * row);
        if (kept->means > 0)
            TRY(make_room_for_texts(c, kept, row, s, error));
    }
    return WISP_OK;
}

/* ---- running -------------------------------------------------------------------------------- */

struct observed {
    struct collection *c;
    size_t first, end; /* texts */
};

/* The hook of the passes: x are a layer's inputs. */
static wisp_status keep_inputs(void *context, struct cursor at, const float *x, wisp_error *error) {
    const struct observed *o = context;
    const struct layer_sample *s = &o->c->samples[at.layer];
    const struct network *network = &o->c->model->network;
    (void)error;
    if (at.block != BLOCK_FEED_FORWARD)
        return WISP_OK;
    const size_t size = network->config.hidden_size, *starts = o->c->starts + o->first;
    for (size_t t = 0; t < o->c->starts[o->end] - *starts; t++) {
        const struct place place = o->c->places[*starts + t];
        float *rows = place.held_out ? s->held_out : s->x;
        if (place.kept)
            memcpy(rows + place.row * size, x + t * size, size * sizeof *x);
    }
    for (size_t i = 0; i < o->end - o->first; i++) {
        const uint32_t row = o->c->means[o->first + i];
        if (row != NO_MEAN)
            mean_of_rows(network->kernels, x + (starts[i] - *starts) * size,
                         starts[i + 1] - starts[i], size, s->means + row * size);
    }
    return WISP_OK;
}

static wisp_status run_texts(struct collection *c, size_t first, size_t end,
                             struct workspace *space, wisp_error *error) {
    const struct network *network = &c->model->network;
    const size_t n = end - first, tokens = c->starts[end] - c->starts[first];
    const struct pass_size most = {
        .texts = n, .tokens = tokens, .longest = c->model->max_tokens, .members = 1};
    size_t *starts = malloc((n + 1) * sizeof *starts);
    float *rows = malloc(n * network->config.hidden_size * sizeof *rows);
    wisp_status status = starts && rows
                             ? workspace_reserve(space, pass_workspace_bytes(network, &most), error)
                             : fail_memory(error, n * sizeof *rows);
    if (status == WISP_OK) {
        struct observed observed = {.c = c, .first = first, .end = end};
        for (size_t i = 0; i <= n; i++)
            starts[i] = c->starts[first + i] - c->starts[first];
        struct pass pass = {
            .network = network,
            .batch = {.texts = n, .ids = c->ids + c->starts[first], .starts = starts},
            .rows = rows,
            .hook = keep_inputs,
            .hook_context = &observed};
        pass_begin(&pass, space);
        status = pass_run(&pass, error);
    }
    free(starts);
    free(rows);
    return status;
}

/* The next texts [*first, *end): some that make a batch. */
static bool take_texts(struct collection *c, size_t *first, size_t *end) {
    *first = atomic_load(&c->next);
    do {
        if (*first >= c->texts)
            return false;
        for (*end = *first + 1;
             *end < c->texts && c->starts[*end + 1] - c->starts[*first] <= BATCH_TOKENS;)
            ++*end;
    } while (!atomic_compare_exchange_weak(&c->next, first, *end));
    return true;
}

static void work(void *context, uint32_t member) {
    struct collection *c = context;
    const wisp_calibrate_options *o = c->options;
    struct workspace space = {0};
    size_t first, end;
    while (!atomic_load(&c->failed) && take_texts(c, &first, &end)) {
        wisp_error error;
        if (run_texts(c, first, end, &space, &error) != WISP_OK &&
            !atomic_exchange(&c->failed, true))
            c->error = error;
        if (member == 0 && o->progress)
            o->progress(o->context, "texts", end, c->texts);
        if (o->cancelled && o->cancelled(o->context) && !atomic_exchange(&c->failed, true))
            set_error(&c->error, WISP_ERROR_CANCELLED, NULL, NULL, "cancelled");
    }
    workspace_release(&space);
}

static wisp_status collect(struct collection *c, struct pool *team, const wisp_text *texts,
                           wisp_error *error) {
    struct kept kept;
    TRY(tokenize_all(c, texts, error));
    c->places = malloc(c->starts[c->texts] * sizeof *c->places + 1);
    c->means = malloc(c->texts * sizeof *c->means + 1);
    if (!c->places || !c->means)
        return fail_memory(error, c->starts[c->texts] * sizeof *c->places);
    choose_places(c, &kept);
    if (kept.tokens < LEAST_TOKENS)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "texts",
                    "%zu texts with %zu tokens to fit to, where at least %d are needed", c->texts,
                    kept.tokens, LEAST_TOKENS);
    TRY(make_room(c, &kept, error));
    pool_run(team, pool_size(team), work, c);
    if (!atomic_load(&c->failed))
        return WISP_OK;
    if (error)
        *error = c->error;
    return c->error.status;
}

wisp_status collect_inputs(const wisp_model *model, struct pool *team,
                           const wisp_calibrate_options *options, const wisp_text *texts, size_t n,
                           struct layer_sample *samples, wisp_error *error) {
    struct collection c = {.model = model,
                           .options = options,
                           .samples = samples,
                           .texts = n,
                           .starts = malloc((n + 1) * sizeof *c.starts)};
    const wisp_status status =
        c.starts ? collect(&c, team, texts, error) : fail_memory(error, (n + 1) * sizeof *c.starts);
    free(c.ids);
    free(c.starts);
    free(c.places);
    free(c.means);
    return status;
}
