/* SPDX-License-Identifier: Apache-2.0 */
#include "models/feed_forward_block.h"

#include <string.h>

#include "base/checked.h"
#include "base/clock.h"

static size_t mask_words(const struct network *network) {
    return sparse_mask_words(network->config.intermediate_size);
}

static bool can_lack_neurons(const struct network *network) {
    return COLD_NEURONS_MAY_BE_ABSENT && network->neurons.cold;
}

struct feed_forward_work feed_forward_take(const struct network *network,
                                           const struct pass_size *size, struct workspace *space,
                                           struct pass *pass) {
    struct feed_forward_work work = {0};
    const size_t words = mask_words(network);
    const bool by_text = network->sparse_by_text, may_be_absent = can_lack_neurons(network);
    const struct batch *batch = pass ? &pass->batch : NULL;
    if (!by_text && !may_be_absent)
        return work;
    work.masks =
        workspace_take(space, by_text ? size->texts : size->tokens, words, sizeof *work.masks);
    work.chosen = workspace_take(space, 1, size->tokens, sizeof *work.chosen);
    for (size_t i = 0; batch && i < batch->texts; i++)
        for (size_t t = batch->starts[i]; t < batch->starts[i + 1]; t++)
            work.chosen[t] = work.masks + (by_text ? i : t) * words;
    if (!may_be_absent)
        return work;
    work.inner = workspace_take(space, by_text ? 0 : size->tokens, network->predictor_rank,
                                sizeof *work.inner);
    uint64_t *places = workspace_take(space, 2, words, sizeof *places);
    if (pass)
        pass->hold = (struct neuron_hold){.places = places, .absent = places + words};
    return work;
}

size_t feed_forward_inner_size(const struct model_config *config) {
    return (size_t)config->intermediate_size * (config_is_gated(config) ? 2 : 1);
}

size_t feed_forward_workspace_bytes(const struct network *network, size_t tokens) {
    const struct model_config *c = &network->config;
    const size_t dense =
        linear_workspace_bytes(tokens, larger(c->hidden_size, c->intermediate_size));
    if (!network->sparse)
        return dense;
    return larger(dense, sparse_ffn_workspace_bytes(c->hidden_size, c->intermediate_size,
                                                    network->predictor_rank, c->activation));
}

/* Applies the activation to n products of W_up and, where the layer is gated, of W_gate. The result
 * replaces the products of W_gate in a gated layer, and else those of W_up. */
static void activate(const struct network *network, float *up, float *gate, size_t n) {
    const struct kernels *kernels = network->kernels;
    switch (network->config.activation) {
    case ACTIVATION_GELU:
        kernels->gelu(up, n);
        break;
    case ACTIVATION_RELU:
        kernels->relu(up, n);
        break;
    case ACTIVATION_GATED_SILU:
        kernels->silu_mul(gate, up, n);
        break;
#ifdef DECODER_KERNELS
    case ACTIVATION_GELU_TANH:
        kernels->gelu_tanh(up, n);
        break;
    case ACTIVATION_RELU_SQUARED:
        kernels->relu(up, n);
        kernels->multiply(up, up, n);
        break;
    case ACTIVATION_GATED_RELU:
        kernels->relu(gate, n);
        kernels->multiply(gate, up, n);
        break;
    case ACTIVATION_GATED_RELU_SQUARED:
        kernels->relu(gate, n);
        kernels->multiply(gate, gate, n);
        kernels->multiply(gate, up, n);
        break;
    case ACTIVATION_GATED_GELU_TANH:
        kernels->gelu_tanh(gate, n);
        kernels->multiply(gate, up, n);
        break;
#else
    default:
        break;
#endif
    }
}

/* Computes y = W_down activation(W_up x), or y = W_down (activation(W_gate x) * W_up x) where the
 * layer is gated, for tokens [first, first + n) of the batch. */
static void run_dense(struct pass *pass, uint32_t member, struct cursor at, size_t first, size_t n,
                      float *inner, float *y, struct workspace space) {
    const struct network *network = pass->network;
    const struct feed_forward *layer = &network->feed_forward[at.layer];
    const float *x = pass->x + first * network->config.hidden_size;
    const size_t values = n * network->config.intermediate_size;
    linear_apply(&layer->up, x, n, inner, space);
    if (config_is_gated(&network->config))
        linear_apply(&layer->gate, x, n, inner + values, space);
    pass_mark(pass, member, at, STAGE_FFN_UP);
    activate(network, inner, inner + values, values);
    pass_mark(pass, member, at, STAGE_ACTIVATION);
    linear_apply(&layer->down, inner + (config_is_gated(&network->config) ? values : 0), n, y,
                 space);
    pass_mark(pass, member, at, STAGE_FFN_DOWN);
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
    const bool by_text = pass->network->sparse_by_text;
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
 * them. Returns the same status to all members: WISP_NEED_RANGES where neurons are absent that are
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
        if (network->sparse_by_text) {
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
        const size_t masks = network->sparse_by_text ? pass->batch.texts : pass->tokens;
        for (size_t i = 0; i < masks * words; i++)
            hold->places[i % words] |= work->masks[i];
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

wisp_status feed_forward_run(struct pass *pass, uint32_t member, struct cursor at,
                             const struct feed_forward_work *work, float *inner, float *y,
                             struct workspace space, wisp_error *error) {
    const struct network *network = pass->network;
    const struct sparse_ffn *sparse = &network->feed_forward[at.layer].sparse;
    const size_t hidden_size = network->config.hidden_size;
    const struct pass_tokens own = pass_tokens(pass, member);
    struct sparse_counts *all = pass->member[member].counts, unused = {0};
    struct sparse_counts *counts = all ? all + at.layer : &unused;
    struct sparse_choice choice = {0};
    const enum rest_part weights = network->neurons.by_rows ? REST_COMPENSATION : REST_DENSE;
    const double start = clock_seconds();
    wisp_status status = WISP_OK;
    if (pass->thresholds)
        choice.thresholds = pass->thresholds + (size_t)at.layer * network->config.intermediate_size;
    if (can_lack_neurons(network))
        status = hold_neurons(pass, member, at, work, choice.thresholds, space, error);
    else if (network->sparse_by_text)
        choose_by_text(pass, member, at, work, choice.thresholds, space);
    if (status == WISP_OK)
        status = pass_wake(pass, member, at, weights, error);
    const bool awake = status == WISP_OK; /* of all members, or of none */
    for (size_t done = 0; done < own.n && status == WISP_OK; done += PASS_PART_TOKENS) {
        const size_t first = own.first + done, n = smaller(own.n - done, PASS_PART_TOKENS);
        float *part = y + done * hidden_size;
        status = pass_ask_hook(pass, at, done, error);
        if (status != WISP_OK)
            break;
        if (!network->sparse) {
            run_dense(pass, member, at, first, n, inner, part, space);
            continue;
        }
        if (work->chosen)
            choice.masks = work->chosen + first;
        if (work->inner)
            choice.inner = work->inner + first * sparse->rank;
        sparse_ffn_apply(sparse, choice, pass->x + first * hidden_size, n, part, space, counts);
        pass_mark(pass, member, at, STAGE_FFN_SPARSE);
    }
    if (awake)
        pass_sleep(pass, member, at, weights);
    counts->seconds += clock_seconds() - start;
    return status;
}

void feed_forward_run_outputs(struct pass *pass, uint32_t member, struct cursor at, float *inner,
                              float *y, struct workspace space) {
    const struct network *network = pass->network;
    const struct feed_forward *layer = &network->feed_forward[at.layer];
    const size_t size = network->config.intermediate_size, tokens = pass->tokens;
    const bool gated = config_is_gated(&network->config);
    float *gate = inner + tokens * size;
    const struct pass_outputs own =
        pass_apply_outputs(pass, member, &layer->up, pass->x, tokens, inner, space);
    if (gated)
        pass_apply_outputs(pass, member, &layer->gate, pass->x, tokens, gate, space);
    pass_mark(pass, member, at, STAGE_FFN_UP);
    /* Where their panels differ, W_up and W_gate are split at other outputs, so that other members
     * compute some gates of the neurons that this one activates. */
    if (gated &&
        layer->up.kind->panel(network->kernels) != layer->gate.kind->panel(network->kernels))
        pass_barrier(pass, member, at);
    for (size_t t = 0; t < tokens && own.n > 0; t++) {
        const size_t at_token = t * size + own.first;
        activate(network, inner + at_token, gated ? gate + at_token : NULL, own.n);
    }
    pass_mark(pass, member, at, STAGE_ACTIVATION);
    pass_barrier(pass, member, at);
    pass_apply_outputs(pass, member, &layer->down, gated ? gate : inner, tokens, y, space);
    pass_mark(pass, member, at, STAGE_FFN_DOWN);
}
