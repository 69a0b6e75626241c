/* SPDX-License-Identifier: Apache-2.0
 * The forward pass of Llama, Qwen2 and Qwen3, top to bottom. llama_load.c reads the weights, and
 * decoder.h has the parts of the pass that other decoders have too. Norms stand before blocks: s->h
 * are the hidden states, and s->x is their norm, which the next block reads. */
#include "models/llama.h"

#include "formats/schema.h"
#include "models/decoder_config.h"
#include "text/codec.h"

/* Runs the member's part of one block of the pass. */
static wisp_status llama_step(struct pass *pass, uint32_t member, struct cursor at,
                              wisp_error *error) {
    const struct model_config *c = &pass->network->config;
    const struct llama_weights *w = pass->network->weights;
    const struct llama_layer *layer = &w->layer[at.layer];
    const bool last = at.layer + 1 == c->layers;

    switch (at.block) {
    case BLOCK_EMBED: /* member 0 looks up all tokens: that is quick */
        if (member > 0)
            break;
        TRY(decoder_look_up(pass, error));
        decoder_normalize(pass, (struct pass_tokens){0, pass->tokens}, w->layer[0].attention_norm);
        pass_mark(pass, member, at, STAGE_LOOK_UP);
        break;

    case BLOCK_ATTENTION: /* h = h + W_o attention(W_q x, W_k x, W_v x) */
        TRY(decoder_attention_run(pass, member, at, &layer->attention, &w->common.rope, error));
        decoder_add_and_norm(pass, member, at, layer->feed_forward_norm);
        break;

    case BLOCK_FEED_FORWARD: /* h = h + feed_forward(x) */
        TRY(decoder_feed_forward(pass, member, at, error));
        decoder_add_and_norm(pass, member, at,
                             last ? w->common.output_norm : w->layer[at.layer + 1].attention_norm);
        break;

    case BLOCK_OUTPUT:
        TRY(decoder_logits(pass, member, at, &w->common.logits, error));
        pass_mark(pass, member, at, STAGE_LOGITS);
        break;

    case BLOCK_END:
        break;
    }
    return WISP_OK;
}

/* Reads the hyper-parameters of any of the three. A file without gates must name an activation of
 * ungated layers. */
static wisp_status read_decoder(const struct config_reader *r) {
    static const struct named_activation gated[] = {{"silu", ACTIVATION_GATED_SILU},
                                                    {"relu", ACTIVATION_GATED_RELU},
                                                    {"relu2", ACTIVATION_GATED_RELU_SQUARED}};
    static const struct named_activation ungated[] = {{"relu", ACTIVATION_RELU},
                                                      {"relu2", ACTIVATION_RELU_SQUARED}};
    TRY(decoder_read_sizes(r));
    TRY(config_read_norm_epsilon(r, "attention.layer_norm_rms_epsilon"));
    if (decoder_has_gates(r))
        TRY(decoder_read_activation(r, gated, sizeof gated / sizeof *gated));
    else
        TRY(decoder_read_activation(r, ungated, sizeof ungated / sizeof *ungated));
    TRY(decoder_read_window(r, 0));
    TRY(decoder_refuse_caps(r));
    return decoder_read_rope(r);
}

/* llama.cpp's value for files that have none. */
static const float USUAL_ROPE_THETA = 10000;

static wisp_status llama_read_config(const struct directory *dir, struct model_config *config,
                                     wisp_error *error) {
    const struct config_reader r = {dir, architecture_llama.name, config, error};
    *config = (struct model_config){.activation = ACTIVATION_GATED_SILU,
                                    .rope_theta = USUAL_ROPE_THETA,
                                    .rope_pairs = ROPE_NEIGHBOURS};
    return read_decoder(&r);
}

static wisp_status qwen2_read_config(const struct directory *dir, struct model_config *config,
                                     wisp_error *error) {
    const struct config_reader r = {dir, architecture_qwen2.name, config, error};
    *config = (struct model_config){.activation = ACTIVATION_GATED_SILU,
                                    .rope_theta = USUAL_ROPE_THETA,
                                    .rope_pairs = ROPE_HALVES,
                                    .has_qkv_bias = true};
    return read_decoder(&r);
}

static wisp_status qwen3_read_config(const struct directory *dir, struct model_config *config,
                                     wisp_error *error) {
    const struct config_reader r = {dir, architecture_qwen3.name, config, error};
    *config = (struct model_config){.activation = ACTIVATION_GATED_SILU,
                                    .rope_theta = USUAL_ROPE_THETA,
                                    .rope_pairs = ROPE_HALVES,
                                    .has_qk_norm = true};
    return read_decoder(&r);
}

static const char *const tensors[] = {"token_embd", "output_norm",        "output",
                                      "rope_freqs", "rope_factors_short", "rope_factors_long",
                                      NULL};
static const char *const layer_tensors[] = {
    "attn_q_norm", "attn_k_norm", "attn_norm",     "attn_q",      "attn_k",        "attn_v",
    "attn_output", "ffn_norm",    TENSOR_FFN_GATE, TENSOR_FFN_UP, TENSOR_FFN_DOWN, NULL};
enum { QWEN3_ONLY = 2 }; /* the first names */

#define DECODER(its_name, its_read_config, its_layer_tensors)                                      \
    {.name = (its_name),                                                                           \
     .generates = true,                                                                            \
     .open_codec = codec_open,                                                                     \
     .by_outputs = true,                                                                           \
     .tensors = tensors,                                                                           \
     .layer_tensors = (its_layer_tensors),                                                         \
     .read_config = (its_read_config),                                                             \
     .load = llama_load,                                                                           \
     .load_layer = llama_load_layer,                                                               \
     .release = llama_release,                                                                     \
     .take = decoder_take,                                                                         \
     .rope = decoder_rope,                                                                         \
     .step = llama_step}

const struct architecture architecture_llama =
    DECODER("llama", llama_read_config, layer_tensors + QWEN3_ONLY);
const struct architecture architecture_qwen2 =
    DECODER("qwen2", qwen2_read_config, layer_tensors + QWEN3_ONLY);
const struct architecture architecture_qwen3 = DECODER("qwen3", qwen3_read_config, layer_tensors);
