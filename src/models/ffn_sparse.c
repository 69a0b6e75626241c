/* SPDX-License-Identifier: Apache-2.0
 * Sparse feed-forward layers in a pass (sparse/ffn.h): choosing neurons, and waiting for those that
 * are absent. */
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "models/feed_forward_block.h"

static size_t mask_words(const struct network *network) {
    return sparse_mask_words(network->config.intermediate_size);
}

static bool can_lack_neurons(const struct network *network) {
    return COLD_NEURONS_MAY_BE_ABSENT && network->neurons.cold;
}

/* ---- the weights ---------------------------------------------------------------------------- */

static bool takes(const struct network *network, const struct sparse_plan *plan, uint32_t layer) {
    (void)network, (void)layer;
    return plan && !plan->by_gate;
}

static wisp_status open_store(struct network *network, const struct sparse_plan *plan,
                              wisp_error *error) {
    const struct model_config *c = &network->config;
    const struct directory *dir = network->dir;
    const struct sparse_shape shape = {.layers = c->layers,
                                       .hidden_size = c->hidden_size,
                                       .intermediate_size = c->intermediate_size,
                                       .activation = c->activation,
                                       .unbiased = !c->has_bias,
                                       .bare = c->has_bare_neurons};
    TRY(neuron_store_open(&network->neurons, dir, plan, &shape, network->kernels, error));
    if (COLD_NEURONS_MAY_BE_ABSENT && dir->residency.lacks_neurons)
        return neuron_cold_open(&network->neurons, dir->residency.in_frames, error);
    return WISP_OK;
}

static wisp_status load(struct network *network, const struct sparse_plan *plan, uint32_t layer,
                        struct tensor_cache *cache, wisp_error *error) {
    struct neuron_store *store = &network->neurons;
    struct sparse_ffn *ffn = &network->feed_forward[layer].sparse;
    if (!store->layer)
        TRY(open_store(network, plan, error));
    TRY(sparse_ffn_load(ffn, store, plan, layer, cache, error));
    network->resident_bytes += ffn->bytes + store->layer[layer].bytes;
    return WISP_OK;
}

static void release(const struct network *network, uint32_t layer) {
    sparse_ffn_release(&network->feed_forward[layer].sparse);
}

/* ---- parts that rest ------------------------------------------------------------------------ */

static void part(const struct network *network, uint32_t layer, enum rest_part which,
                 struct weight_part *about) {
    const struct sparse_ffn *ffn = &network->feed_forward[layer].sparse;
    const struct neuron_layer *neurons = ffn->neurons;
    if (which == REST_THRESHOLDS) {
        weight_part_add(about, ffn->thresholds,
                        ffn->levels * ffn->intermediate_size * sizeof *ffn->thresholds);
    } else if (which == REST_DENSE && neurons && !network->neurons.by_rows) {
        const size_t all = neurons->intermediate_size, row = neurons->hidden_size * sizeof(float);
        weight_part_add_linear(about, &neurons->dense);
        weight_part_add(about, neurons->down, all * neurons->row_bytes);
        weight_part_add(about, neurons->column_scale, all * sizeof *neurons->column_scale);
        weight_part_add(about, neurons->row_scale, row);
        weight_part_add(about, neurons->base, row);
        about->bytes = neurons->bytes;
    } else if (which == REST_CHOICE && network->neurons.cold) {
        weight_part_add_linear(about, &ffn->p);
        weight_part_add_linear(about, &ffn->q);
    } else if (which == REST_COMPENSATION && network->neurons.cold) {
        weight_part_add_linear(about, &ffn->compensation);
    }
}

static wisp_status read_part(const struct network *network, uint32_t layer, enum rest_part which,
                             wisp_error *error) {
    struct sparse_ffn *ffn = &network->feed_forward[layer].sparse;
    const bool by_text = network->neurons.by_text;
    struct tensor_cache cache = {0};
    if (which == REST_THRESHOLDS)
        return sparse_ffn_read_thresholds(ffn, network->dir, by_text, layer, error);
    if (which == REST_CHOICE)
        return sparse_ffn_read_choice(ffn, network->dir, by_text, layer, error);
    if (which == REST_COMPENSATION)
        return sparse_ffn_read_compensation(ffn, network->dir, layer, error);
    if (which != REST_DENSE || network->neurons.by_rows)
        return WISP_OK;
    const wisp_status status = neuron_store_load_layer(&network->neurons, layer, &cache, error);
    tensor_cache_release(&cache);
    return status;
}

static void release_part(const struct network *network, uint32_t layer, enum rest_part which) {
    struct sparse_ffn *ffn = &network->feed_forward[layer].sparse;
    if (which == REST_THRESHOLDS) {
        memory_free(ffn->thresholds);
        ffn->thresholds = NULL;
    } else if (which == REST_DENSE && !network->neurons.by_rows) {
        neuron_store_release_layer(&network->neurons, layer);
    } else if (which == REST_CHOICE) {
        linear_release(&ffn->p);
        linear_release(&ffn->q);
    } else if (which == REST_COMPENSATION) {
        linear_release(&ffn->compensation);
    }
}

/* ---- working memory ------------------------------------------------------------------------- */

static size_t workspace_bytes(const struct network *network, size_t tokens) {
    const struct model_config *c = &network->config;
    (void)tokens;
    return sparse_ffn_workspace_bytes(c->hidden_size, c->intermediate_size, network->neurons.rank,
                                      c->activation);
}

static void take(const struct network *network, const struct pass_size *size,
                 struct workspace *space, struct pass *pass, struct feed_forward_work *work) {
    const size_t words = mask_words(network);
    const bool by_text = network->neurons.by_text, may_be_absent = can_lack_neurons(network);
    const struct batch *batch = pass ? &pass->batch : NULL;
    if (!by_text && !may_be_absent)
        return;
    work->masks =
        workspace_take(space, by_text ? size->texts : size->tokens, words, sizeof *work->masks);
    work->chosen = workspace_take(space, 1, size->tokens, sizeof *work->chosen);
    for (size_t i = 0; batch && i < batch->texts; i++)
        for (size_t t = batch->starts[i]; t < batch->starts[i + 1]; t++)
            work->chosen[t] = work->masks + (by_text ? i : t) * words;
    if (!may_be_absent)
        return;
    work->inner = workspace_take(space, by_text ? 0 : size->tokens, network->neurons.rank,
                                 sizeof *work->inner);
    uint64_t *places = workspace_take(space, 2, words, sizeof *places);
    if (pass)
        pass->hold = (struct neuron_hold){.places = places, .absent = places + words};
}

/* ---- the pass ------------------------------------------------------------------------------- */

/* Returns the thresholds of a layer; NULL if no predictor runs. */
static const float *thresholds_of(const struct pass *pass, struct cursor at) {
    return pass->thresholds
               ? pass->thresholds + (size_t)at.layer * pass->network->config.intermediate_size
               : NULL;
}

/* Chooses the neurons for each text whose first token the member computes. The predictor takes the
 * mean hidden state of a text, some of whose tokens other members compute. The barrier keeps those
 * members from changing hidden states, and from using the masks, before all masks are written. */
static void choose_by_text(struct pass *pass, uint32_t member, struct cursor at,
                           const struct feed_forward_work *work, const float *thresholds,
                           struct workspace space) {
    const struct pass_tokens tokens = pass_tokens(pass, member);
    const struct batch *batch = &pass->batch;
    size_t first = 0;
    while (first < batch->texts && batch->starts[first] < tokens.first)
        first++;
    size_t end = first;
    while (end < batch->texts && batch->starts[end] < tokens.first + tokens.n)
        end++;
    sparse_ffn_choose(&pass->network->feed_forward[at.layer].sparse, thresholds, pass->x,
                      batch->starts + first, end - first,
                      work->masks + first * mask_words(pass->network), space);
    pass_mark(pass, member, at, STAGE_FFN_SPARSE);
    pass_barrier(pass, member, at);
}

/* Removes absent neurons from the masks, and counts them. Text i has tokens starts[i] to starts[i +
 * 1] - 1, and each of them the mask that `chosen` points to. */
static void skip_absent(const struct pass *pass, const struct feed_forward_work *work) {
    const bool by_text = pass->network->neurons.by_text;
    const size_t words = mask_words(pass->network);
    const struct batch *batch = &pass->batch;
    for (size_t i = 0; i < batch->texts && pass->hold.n_absent > 0; i++) {
        const size_t first = batch->starts[i], tokens = batch->starts[i + 1] - first;
        for (size_t k = 0; k < (by_text ? 1 : tokens); k++) {
            uint64_t *mask = work->masks + (by_text ? i : first + k) * words;
            for (size_t w = 0; w < words; w++) {
                const int absent = __builtin_popcountll(mask[w] & pass->hold.absent[w]);
                if (pass->skipped)
                    pass->skipped[i] += (uint64_t)absent * (by_text ? tokens : 1);
                mask[w] &= ~pass->hold.absent[w];
            }
        }
    }
}

/* Chooses the neurons of all tokens, unless that was done before the pass stopped here, and holds
 * them. Returns the same status to all members: WISP_NEED_RANGES if neurons are absent that are
 * not to be skipped. */
static wisp_status hold_neurons(struct pass *pass, uint32_t member, struct cursor at,
                                const struct feed_forward_work *work, const float *thresholds,
                                struct workspace space, wisp_error *error) {
    const struct network *network = pass->network;
    const struct sparse_ffn *ffn = &network->feed_forward[at.layer].sparse;
    const struct pass_tokens own = pass_tokens(pass, member);
    const size_t words = mask_words(network), size = network->config.hidden_size;
    const bool goes_on = pass->hold.held && pass->hold.layer == at.layer;
    struct neuron_hold *hold = &pass->hold;
    if (!goes_on) {
        TRY(pass_wake(pass, member, at, REST_CHOICE, error));
        if (network->neurons.by_text) {
            choose_by_text(pass, member, at, work, thresholds, space);
        } else {
            sparse_ffn_predict(ffn, thresholds, pass->x + own.first * size, own.n,
                               work->masks + own.first * words, work->inner + own.first * ffn->rank,
                               space);
            pass_mark(pass, member, at, STAGE_FFN_SPARSE);
            pass_barrier(pass, member, at);
        }
        pass_sleep(pass, member, at, REST_CHOICE);
    }
    if (member == 0 && goes_on) {
        neuron_hold_count(&network->neurons, hold);
    } else if (member == 0) {
        neuron_hold_end(&network->neurons, hold); /* all members have computed the layer before */
        memset(hold->places, 0, words * sizeof *hold->places);
        const size_t masks = network->neurons.by_text ? pass->batch.texts : pass->tokens;
        for (size_t i = 0; i < masks * words; i++)
            hold->places[i % words] |= work->masks[i];
        if (!network->neurons.by_text)
            neuron_cold_keep(&network->neurons, at.layer, work->masks, masks);
        neuron_hold_begin(&network->neurons, at.layer, pass->skip_absent, hold);
        if (pass->skip_absent)
            skip_absent(pass, work);
    }
    pass_barrier(pass, member, at);
    if (hold->n_absent == 0 || pass->skip_absent)
        return WISP_OK;
    return fail(error, WISP_NEED_RANGES, network->dir->file, NULL,
                "%zu neurons of layer %u are absent: wisp_session_needs says which bytes they are",
                hold->n_absent, at.layer);
}

static wisp_status prepare(struct pass *pass, uint32_t member, struct cursor at,
                           const struct feed_forward_work *work, struct workspace space,
                           wisp_error *error) {
    const float *thresholds = thresholds_of(pass, at);
    if (can_lack_neurons(pass->network))
        return hold_neurons(pass, member, at, work, thresholds, space, error);
    if (pass->network->neurons.by_text)
        choose_by_text(pass, member, at, work, thresholds, space);
    return WISP_OK;
}

static enum rest_part needs(const struct network *network) {
    return network->neurons.by_rows ? REST_COMPENSATION : REST_DENSE;
}

static wisp_status run(struct pass *pass, uint32_t member, struct cursor at,
                       const struct feed_forward_work *work, const struct ffn_rows *rows,
                       struct workspace space, wisp_error *error) {
    const struct sparse_ffn *sparse = &pass->network->feed_forward[at.layer].sparse;
    struct sparse_counts *all = pass->member[member].counts, unused = {0};
    struct sparse_choice choice = {.thresholds = thresholds_of(pass, at)};
    (void)error;
    if (work->chosen)
        choice.masks = work->chosen + rows->first;
    if (work->inner)
        choice.inner = work->inner + rows->first * sparse->rank;
    sparse_ffn_apply(sparse, choice, rows->x, rows->n, rows->y, space,
                     all ? all + at.layer : &unused);
    pass_mark(pass, member, at, STAGE_FFN_SPARSE);
    return WISP_OK;
}

const struct ffn_kind ffn_sparse = {.name = "sparse",
                                    .takes = takes,
                                    .load = load,
                                    .release = release,
                                    .part = part,
                                    .read_part = read_part,
                                    .release_part = release_part,
                                    .workspace_bytes = workspace_bytes,
                                    .take = take,
                                    .prepare = prepare,
                                    .needs = needs,
                                    .run = run};
