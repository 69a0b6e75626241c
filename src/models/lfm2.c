/* SPDX-License-Identifier: Apache-2.0
 * The forward pass of LFM2, top to bottom, and its weights. */
#include "models/lfm2.h"

#include <string.h>

#include "base/memory.h"
#include "layers/conv_state.h"
#include "models/decoder_config.h"
#include "models/linears.h"
#include "models/norms_load.h"

/* ---- the pass ------------------------------------------------------------------------------- */

/* The inputs of a convolution, `size` floats for each token: `rows` are those of a text's `tokens`
 * in this pass, `stride` floats apart. The first tap is that of the token `back` tokens before.
 * `before` are the inputs of so many tokens before the pass, which the state keeps one behind the
 * other; NULL: there are none. */
struct inputs {
    const float *rows, *before;
    size_t stride, size, back, tokens;
};

/* Returns the input that tap k of token t reads; NULL if it is outside the text. */
static const float *input_at(const struct inputs *in, size_t t, size_t k) {
    const size_t place = t + k; /* counted from the first token that a tap could read */
    if (place < in->back)
        return in->before ? in->before + place * in->size : NULL;
    return place - in->back < in->tokens ? in->rows + (place - in->back) * in->stride : NULL;
}

/* Writes the state after token t, which is the inputs of the last tokens, the oldest first, to all
 * places where it is kept. */
static void keep_states(const struct conv_state *state, size_t layer, const struct inputs *in,
                        size_t t, size_t added) {
    float *to;
    for (size_t i = 0; (to = conv_state_place(state, layer, state->length + t + 1, added, i)); i++)
        for (size_t k = 1; k <= in->back; k++, to += in->size)
            memcpy(to, input_at(in, t, k), in->size * sizeof *to);
}

/* Computes context = c * (the sum of the taps times the inputs that they read) for the member's
 * tokens, text by text, and keeps states. Taps read the last inputs or, if tokens see all others,
 * those around the token. */
static void convolve(const struct pass *pass, uint32_t member, struct cursor at) {
    const struct model_config *c = &pass->network->config;
    const struct lfm2_weights *w = pass->network->weights;
    const float *taps = w->layer[at.layer].taps;
    const struct decoder_state *s = pass->state;
    const size_t size = c->hidden_size, stride = 3 * size, conv = config_conv_layer(c, at.layer);
    const struct pass_tokens own = decoder_tokens(pass, member);
    for (size_t i = 0; i < pass->batch.texts; i++) {
        const struct text_slice slice = pass_text_slice(pass, i, own);
        const struct conv_state *state = pass->batch.states ? pass->batch.states[i] : NULL;
        const struct inputs in = {.rows = s->inner + slice.start * stride + 2 * size,
                                  .before = state ? conv_state_values(state, conv) : NULL,
                                  .stride = stride,
                                  .size = size,
                                  .back = c->sees_all ? c->conv_taps / 2 : c->conv_taps - 1,
                                  .tokens = slice.tokens};
        for (size_t t = slice.first; t < slice.end; t++) {
            const float *gate = s->inner + (slice.start + t) * stride + size;
            float *restrict y = s->context + (slice.start + t) * size;
            memset(y, 0, size * sizeof *y);
            for (size_t k = 0; k < c->conv_taps; k++) {
                const float *restrict x = input_at(&in, t, k), *tap = taps + k * size;
                for (size_t j = 0; x && j < size; j++)
                    y[j] += tap[j] * x[j];
            }
            pass->network->kernels->multiply(y, gate, size);
            if (state)
                keep_states(state, conv, &in, t, slice.tokens);
        }
    }
}

/* Computes the member's part of y = W_out (c * conv(b * x)), if W_in gives b, c and x of each
 * token. */
static wisp_status short_convolution(struct pass *pass, uint32_t member, struct cursor at,
                                     const struct lfm2_layer *layer, wisp_error *error) {
    const struct decoder_state *s = pass->state;
    const struct kernels *kernels = pass->network->kernels;
    const size_t size = pass->network->config.hidden_size;
    const struct pass_tokens own = decoder_tokens(pass, member);
    TRY(pass_wake(pass, member, at, REST_ATTENTION, error));
    wisp_status status = decoder_linear(pass, member, at, &layer->in, s->x, s->inner, error);
    decoder_end_stage(pass, member, at, STAGE_QKV);
    for (size_t t = own.first; t < own.first + own.n; t++) {
        float *row = s->inner + t * 3 * size;
        kernels->multiply(row + 2 * size, row, size);
    }
    pass_mark(pass, member, at, STAGE_QKV);
    pass_barrier(pass, member, at); /* a token reads inputs of tokens of other members */
    convolve(pass, member, at);
    decoder_end_stage(pass, member, at, STAGE_ATTENTION);
    if (status == WISP_OK)
        status = decoder_linear(pass, member, at, &layer->out, s->context, s->y, error);
    decoder_end_stage(pass, member, at, STAGE_ATTENTION_OUTPUT);
    pass_sleep(pass, member, at, REST_ATTENTION);
    return pass_join_status(pass, member, at, status, error);
}

static wisp_status lfm2_step(struct pass *pass, uint32_t member, struct cursor at,
                             wisp_error *error) {
    const struct model_config *c = &pass->network->config;
    const struct lfm2_weights *w = pass->network->weights;
    const struct lfm2_layer *layer = &w->layer[at.layer];
    const bool last = at.layer + 1 == c->layers;

    switch (at.block) {
    case PASS_EMBED: /* member 0 looks up all tokens: that is quick */
        if (member > 0)
            break;
        TRY(decoder_look_up(pass, error));
        decoder_normalize(pass, (struct pass_tokens){0, pass->tokens}, w->layer[0].operator_norm);
        pass_mark(pass, member, at, STAGE_LOOK_UP);
        break;

    case PASS_ATTENTION: /* h = h + operator(x) */
        if (config_is_conv(c, at.layer))
            TRY(short_convolution(pass, member, at, layer, error));
        else
            TRY(decoder_attention_run(pass, member, at, &layer->attention, &w->common.rope, error));
        decoder_add_and_norm(pass, member, at, NULL, layer->feed_forward_norm);
        break;

    case PASS_FEED_FORWARD: /* h = h + feed_forward(x) */
        TRY(decoder_feed_forward(pass, member, at, error));
        decoder_add_and_norm(pass, member, at, NULL,
                             last ? w->common.output_norm : w->layer[at.layer + 1].operator_norm);
        break;

    case PASS_OUTPUT:
        TRY(decoder_output(pass, member, at, &w->common.logits, error));
        break;

    case PASS_END:
        break;
    }
    return WISP_OK;
}

/* ---- the weights ---------------------------------------------------------------------------- */

static size_t lfm2_linears(const struct network *network, uint32_t l, struct linear_entry *out) {
    const size_t size = network->config.hidden_size;
    struct lfm2_weights *w = network->weights;
    if (l == network->config.layers)
        return decoder_logits_linear(network, &w->common.logits, out);
    if (!config_is_conv(&network->config, l))
        return decoder_attention_linears(&network->config, &w->layer[l].attention, out);
    out[0] = (struct linear_entry){.linear = &w->layer[l].in,
                                   .names = {"shortconv.in_proj"},
                                   .n = 3 * size,
                                   .k = size,
                                   .block = PASS_ATTENTION};
    out[1] = (struct linear_entry){.linear = &w->layer[l].out,
                                   .names = {"shortconv.out_proj"},
                                   .n = size,
                                   .k = size,
                                   .block = PASS_ATTENTION,
                                   .role = LINEAR_ENDS};
    return 2;
}

static wisp_status lfm2_load(struct network *network, wisp_error *error) {
    struct lfm2_weights *w = network->weights;
    return decoder_weights_load(network, "token_embd_norm.weight", &w->common, error);
}

/* Loads the taps, which the file has as [hidden_size, conv_taps]. */
static wisp_status load_taps(struct network *network, uint32_t l, float **taps, wisp_error *error) {
    const size_t size = network->config.hidden_size, count = network->config.conv_taps;
    char name[TENSOR_NAME_BYTES];
    float *rows = NULL;
    layer_tensor_name(name, l, "shortconv.conv", TENSOR_WEIGHT);
    wisp_status status = directory_load_floats(network->dir, name, size, count, &rows, error);
    if (status == WISP_OK && !(*taps = memory_allocate(size * count * sizeof **taps)))
        status = fail_memory(error, size * count * sizeof **taps);
    for (size_t i = 0; status == WISP_OK && i < size * count; i++)
        (*taps)[i % count * size + i / count] = rows[i];
    memory_free(rows);
    network->resident_bytes += size * count * sizeof **taps;
    return status;
}

static wisp_status lfm2_load_layer(struct network *network, uint32_t l, wisp_error *error) {
    const size_t size = network->config.hidden_size;
    struct lfm2_layer *layer = &((struct lfm2_weights *)network->weights)->layer[l];
    TRY(load_layer_rms_norm(network, l, "attn_norm", size, &layer->operator_norm, error));
    TRY(load_layer_rms_norm(network, l, "ffn_norm", size, &layer->feed_forward_norm, error));
    if (!config_is_conv(&network->config, l))
        return decoder_attention_load(network, l, &layer->attention, error);
    return load_taps(network, l, &layer->taps, error);
}

static void lfm2_release(struct network *network) {
    struct lfm2_weights *w = network->weights;
    for (size_t l = 0; l < network->config.layers; l++) {
        struct lfm2_layer *layer = &w->layer[l];
        decoder_attention_release(&layer->attention);
        memory_free(layer->taps);
        memory_free(layer->operator_norm);
        memory_free(layer->feed_forward_norm);
    }
    decoder_weights_release(&w->common);
}

/* Reads the hyper-parameters beyond those that the config has. */
static wisp_status read_config(const struct config_reader *r) {
    enum { MOST_TAPS = 64 };
    static const struct named_activation gated[] = {{"silu", ACTIVATION_GATED_SILU}};
    uint32_t *taps = &r->config->conv_taps;
    char key[CONFIG_KEY_BYTES];
    TRY(metadata_u32(r->dir, config_key(r, "shortconv.l_cache", key), taps, r->error));
    if (*taps < 2 || *taps > MOST_TAPS)
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, key, "%u is not between 2 and %d",
                    *taps, MOST_TAPS);
    TRY(decoder_read_sizes(r));
    TRY(config_read_norm_epsilon(r, "attention.layer_norm_rms_epsilon"));
    TRY(decoder_read_activation(r, gated, 1));
    TRY(decoder_read_window(r, 0));
    TRY(decoder_refuse_caps(r));
    return decoder_read_rope(r);
}

/* llama.cpp's base of rotary positions for files that have none. */
#define USUAL_THETA 1e6f

static wisp_status lfm2_read_config(const struct directory *dir, struct model_config *config,
                                    wisp_error *error) {
    const struct config_reader r = {dir, architecture_lfm2.name, config, error};
    *config = (struct model_config){.activation = ACTIVATION_GATED_SILU,
                                    .rope_theta = USUAL_THETA,
                                    .rope_pairs = ROPE_HALVES,
                                    .has_qk_norm = true};
    return read_config(&r);
}

static wisp_status lfm2moe_read_config(const struct directory *dir, struct model_config *config,
                                       wisp_error *error) {
    const struct config_reader r = {dir, architecture_lfm2moe.name, config, error};
    *config = (struct model_config){.activation = ACTIVATION_GATED_SILU,
                                    .rope_theta = USUAL_THETA,
                                    .rope_pairs = ROPE_HALVES,
                                    .has_qk_norm = true,
                                    .has_experts = true,
                                    .experts = {.gate = EXPERTS_SIGMOID, .normalised = true}};
    TRY(read_config(&r));
    config->experts.has_bias = decoder_has_choice_bias(&r);
    return WISP_OK;
}

static const char *const tensors[] = {"token_embd", "token_embd_norm",    "output",
                                      "rope_freqs", "rope_factors_short", "rope_factors_long",
                                      NULL};
#define LAYER_TENSORS                                                                              \
    "attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "attn_q_norm", "attn_k_norm",        \
        "shortconv.in_proj", "shortconv.conv", "shortconv.out_proj", "ffn_norm", TENSOR_FFN_GATE,  \
        TENSOR_FFN_UP, TENSOR_FFN_DOWN

static const char *const layer_tensors[] = {LAYER_TENSORS, NULL};
static const char *const expert_layer_tensors[] = {LAYER_TENSORS,
                                                   TENSOR_ROUTER,
                                                   TENSOR_ROUTER_CHOICE,
                                                   TENSOR_GATE_EXPERTS,
                                                   TENSOR_UP_EXPERTS,
                                                   TENSOR_DOWN_EXPERTS,
                                                   NULL};

/* The members of a struct architecture that both have. */
#define LFM2_PAGE                                                                                  \
    .generates = true, .by_outputs = true, .norms_first = true, .tensors = tensors,                \
    .weights_bytes = sizeof(struct lfm2_weights), .layer_bytes = sizeof(struct lfm2_layer),        \
    .linears = lfm2_linears, .load = lfm2_load, .load_layer = lfm2_load_layer,                     \
    .release = lfm2_release, .attention = decoder_attention_shape, .take = decoder_take,           \
    .rope = decoder_rope, .step = lfm2_step

const struct architecture architecture_lfm2 = {
    LFM2_PAGE, .name = "lfm2", .layer_tensors = layer_tensors, .read_config = lfm2_read_config};
const struct architecture architecture_lfm2moe = {LFM2_PAGE, .name = "lfm2moe",
                                                  .layer_tensors = expert_layer_tensors,
                                                  .read_config = lfm2moe_read_config};
