/* SPDX-License-Identifier: Apache-2.0 */
#include "models/pass.h"

#include "base/checked.h"

/* Members compute multiples of TOKENS_STEP tokens, because dense layers take longer per row if
 * they multiply fewer rows at a time. */
enum { TOKENS_STEP = 4 };

/* Attention asks the hook again after about this many multiplications, but not before it has
 * computed MIN_QUERIES queries. */
static const uint64_t PRODUCTS_AT_ONCE = UINT64_C(1) << 30;
enum { MIN_QUERIES = 32 };

/* No block has this position. */
static const uint32_t NO_POSITION = UINT32_MAX;

static struct cursor cursor_at(uint32_t position, uint32_t layers) {
    const uint32_t pool = 1 + 2 * layers;
    if (position == 0)
        return (struct cursor){0, PASS_EMBED};
    if (position >= pool)
        return (struct cursor){layers, position == pool ? PASS_OUTPUT : PASS_END};
    return (struct cursor){(position - 1) / 2, position % 2 ? PASS_ATTENTION : PASS_FEED_FORWARD};
}

static uint32_t position_of(struct cursor at) {
    switch (at.block) {
    case PASS_EMBED:
        return 0;
    case PASS_ATTENTION:
    case PASS_OUTPUT:
        return 1 + 2 * at.layer;
    case PASS_FEED_FORWARD:
    case PASS_END:
        break;
    }
    return 2 + 2 * at.layer; /* PASS_END has the number of layers, as PASS_OUTPUT has */
}

struct cursor pass_cursor(const struct pass *pass) {
    return cursor_at(pass->position, pass->network->config.layers);
}

size_t pass_tokens_each(size_t tokens, uint32_t members) {
    return round_up((tokens + members - 1) / members, TOKENS_STEP);
}

struct pass_tokens pass_tokens(const struct pass *pass, uint32_t member) {
    if (pass->by_outputs)
        return (struct pass_tokens){0, pass->tokens};
    const size_t each = pass_tokens_each(pass->tokens, pass->members);
    const size_t first = smaller(member * each, pass->tokens);
    return (struct pass_tokens){first, smaller(each, pass->tokens - first)};
}

struct text_slice pass_text_slice(const struct pass *pass, size_t i, struct pass_tokens own) {
    const size_t start = pass->batch.starts[i], end = pass->batch.starts[i + 1];
    return (struct text_slice){.start = start,
                               .tokens = end - start,
                               .first = larger(start, own.first) - start,
                               .end = larger(start, smaller(end, own.first + own.n)) - start};
}

wisp_status pass_apply_linear(const struct pass *pass, struct cursor at, const struct linear *layer,
                              const float *x, size_t n, float *y, struct workspace scratch,
                              wisp_error *error) {
    for (size_t done = 0; done < n; done += PASS_TILE_TOKENS) {
        TRY(pass_ask_hook(pass, at, done, error));
        linear_apply(layer, x + done * layer->k, smaller(n - done, PASS_TILE_TOKENS),
                     y + done * layer->n, scratch);
    }
    return WISP_OK;
}

struct pass_outputs pass_share(const struct pass *pass, uint32_t member, size_t items,
                               size_t step) {
    const size_t steps = (items + step - 1) / step;
    const size_t each = (steps + pass->members - 1) / pass->members * step;
    const size_t first = smaller(member * each, items);
    return (struct pass_outputs){first, smaller(each, items - first)};
}

struct pass_outputs pass_apply_outputs(const struct pass *pass, uint32_t member,
                                       const struct linear *layer, const float *x, size_t tokens,
                                       float *y, struct workspace scratch) {
    const struct pass_outputs own =
        pass_share(pass, member, layer->n, layer->kind->panel(layer->kernels));
    linear_apply_outputs(layer, x, tokens, y, own.first, own.n, scratch);
    return own;
}

size_t pass_queries_at_once(const struct pass *pass, size_t keys, size_t queries) {
    const struct model_config *c = &pass->network->config;
    const uint64_t products = 2 * (uint64_t)keys * c->heads * c->head_size; /* of a query */
    return smaller(queries, larger((size_t)(PRODUCTS_AT_ONCE / products), MIN_QUERIES));
}

/* Returns the choice, or full attention if there is none. */
static struct attention_choice choice_or_default(struct attention_choice choice,
                                                 const struct network *network) {
    return choice.prefill ? choice : attention_default(!config_embeds(&network->config));
}

wisp_status pass_check_attention(const struct network *network,
                                 const struct attention_choice *choice, wisp_error *error) {
    for (uint32_t l = 0; l < network->config.layers; l++) {
        struct attention_shape shape;
        if (config_is_conv(&network->config, l))
            continue;
        network->architecture->attention(network, l, &shape);
        const char *name = attention_refuses(choice, &shape);
        if (name)
            return fail(error, WISP_ERROR_UNSUPPORTED, network->dir->file, "attention",
                        "%s does not compute what tokens see in layer %u", name, l);
    }
    return WISP_OK;
}

size_t pass_attention_bytes(const struct network *network, const struct pass_size *size) {
    size_t bytes = 0;
    for (uint32_t l = 0; l < network->config.layers; l++) {
        struct attention_shape shape;
        if (config_is_conv(&network->config, l))
            continue;
        network->architecture->attention(network, l, &shape);
        bytes = larger(bytes, attention_workspace_bytes(&size->attention, network->kernels, &shape,
                                                        size->longest));
    }
    return bytes;
}

size_t pass_workspace_bytes(const struct network *network, const struct pass_size *size) {
    struct workspace measured = {0};
    struct pass_size all = *size;
    all.attention = choice_or_default(size->attention, network);
    network->architecture->take(network, &all, &measured, NULL);
    return measured.used;
}

void pass_begin(struct pass *pass, struct workspace *space) {
    const struct batch *batch = &pass->batch;
    if (pass->members == 0)
        pass->members = 1;
    pass->attention = choice_or_default(pass->attention, pass->network);
    struct pass_size size = {.texts = batch->texts,
                             .attention = pass->attention,
                             .tokens = batch->starts[batch->texts],
                             .members = pass->members,
                             .by_outputs = pass->by_outputs};
    for (size_t i = 0; i < batch->texts; i++)
        size.longest = larger(size.longest, batch->starts[i + 1] - batch->starts[i] +
                                                (batch->caches ? batch->caches[i]->length : 0));
    pass->tokens = size.tokens;
    pass->position = 0;
    pass->looked_up = 0;
    pass->hold = (struct neuron_hold){0};
    pass->network->architecture->take(pass->network, &size, space, pass);
}

void pass_barrier(const struct pass *pass, uint32_t member, struct cursor at) {
    if (!pass->team)
        return;
    pool_barrier(pass->team, pass->members);
    pass_mark(pass, member, at, STAGE_WAIT);
}

void pass_mark(const struct pass *pass, uint32_t member, struct cursor at, enum stage stage) {
    const bool in_layer = at.block == PASS_ATTENTION || at.block == PASS_FEED_FORWARD;
    trace_mark(pass->member[member].trace, stage, in_layer ? (int)at.layer : NO_LAYER);
}

/* Keeps the first error of a run. */
static void keep_error(struct pass *pass, const wisp_error *error) {
    if (!atomic_exchange(&pass->has_error, true))
        pass->error = *error;
}

wisp_status pass_ask_hook(const struct pass *pass, struct cursor at, size_t done,
                          wisp_error *error) {
    if (done == 0 || !pass->hook || pass->tokens <= PASS_TILE_TOKENS)
        return WISP_OK;
    return pass->hook(pass->hook_context, at, NULL, error);
}

wisp_status pass_wake_part(struct pass *pass, uint32_t member, struct cursor at,
                           enum rest_part part, wisp_error *error) {
    wisp_error failure;
    if (member == 0) {
        pass->awake = rest_wake(pass->network, part, at.layer, &failure) == WISP_OK;
        if (!pass->awake)
            keep_error(pass, &failure);
    } else if (member == 1) {
        rest_wake_next(pass->network, part, at.layer);
    }
    pass_barrier(pass, member, at);
    if (pass->awake)
        return WISP_OK;
    *error = pass->error;
    return error->status;
}

void pass_sleep_part(const struct pass *pass, uint32_t member, struct cursor at,
                     enum rest_part part) {
    pass_barrier(pass, member, at);
    if (member == 0)
        rest_sleep(pass->network, part, at.layer);
}

wisp_status pass_join_status(struct pass *pass, uint32_t member, struct cursor at,
                             wisp_status status, wisp_error *error) {
    return pass->tokens <= PASS_TILE_TOKENS ? status : pass_agree(pass, member, at, status, error);
}

wisp_status pass_agree(struct pass *pass, uint32_t member, struct cursor at, wisp_status status,
                       wisp_error *error) {
    if (status != WISP_OK) {
        keep_error(pass, error);
        atomic_store(&pass->failed_at, position_of(at));
    }
    pass_barrier(pass, member, at);
    if (status == WISP_OK && atomic_load(&pass->failed_at) == position_of(at)) {
        *error = pass->error;
        return error->status;
    }
    return status;
}

/* Runs blocks as one member of the team until the pass ends or stops. */
static void run_member(void *context, uint32_t member) {
    struct pass *pass = context;
    const struct network *network = pass->network;
    const uint32_t end = 2 + 2 * network->config.layers;
    uint32_t position = pass->position;
    struct trace *trace = pass->member[member].trace;
    if (member > 0 && trace)
        trace_start(trace);
    for (; position < end; position++) {
        const struct cursor at = cursor_at(position, network->config.layers);
        wisp_error error;
        /* Member 0 writes the hook's answer as a position, not as a flag: a slow member may read it
         * when member 0 has already been stopped before the next block, and must still run this
         * one. Failures carry their position for the same reason. */
        if (member == 0 && pass->hook &&
            pass->hook(pass->hook_context, at, pass->x, &error) != WISP_OK) {
            keep_error(pass, &error);
            atomic_store(&pass->stop_before, position);
        }
        pass_barrier(pass, member, at);
        if (position >= atomic_load(&pass->stop_before) || position > atomic_load(&pass->failed_at))
            break;
        if (network->architecture->step(pass, member, at, &error) != WISP_OK) {
            keep_error(pass, &error);
            atomic_store(&pass->failed_at, position);
        }
    }
    if (member == 0)
        pass->position = position;
}

wisp_status pass_run(struct pass *pass, wisp_error *error) {
    atomic_store(&pass->stop_before, NO_POSITION);
    atomic_store(&pass->failed_at, NO_POSITION);
    atomic_store(&pass->has_error, false);
    if (pass->team)
        pool_run(pass->team, pass->members, run_member, pass);
    else
        run_member(pass, 0);
    const uint32_t failed_at = atomic_load(&pass->failed_at);
    if (failed_at < pass->position)
        pass->position = failed_at;
    const bool stopped = atomic_load(&pass->has_error);
    if (!stopped || pass->error.status != WISP_NEED_RANGES)
        pass_give_up(pass);
    if (stopped && error)
        *error = pass->error;
    return stopped ? pass->error.status : WISP_OK;
}

void pass_give_up(struct pass *pass) {
    if (COLD_NEURONS_MAY_BE_ABSENT && pass->hold.held)
        neuron_hold_end(&pass->network->neurons, &pass->hold);
    if (COLD_NEURONS_MAY_BE_ABSENT && pass->looked_up < pass->tokens)
        token_embedding_let_go(&pass->network->tokens);
}
