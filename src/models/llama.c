/* SPDX-License-Identifier: Apache-2.0
 * The forward pass of Llama, Qwen2 and Qwen3, top to bottom, and their weights, which other
 * families share. decoder.h has the parts of the pass that other decoders have too. Norms are
 * before blocks, after them or both: s->h are the hidden states, and s->x is what the next block
 * reads: their norm, or without such a norm a copy. */
#include "models/llama.h"

#include "base/memory.h"
#include "models/linears.h"
#include "models/norms_load.h"

/* Runs the member's part of one block of the pass. */
wisp_status llama_step(struct pass *pass, uint32_t member, struct cursor at, wisp_error *error) {
    const struct model_config *c = &pass->network->config;
    const struct llama_weights *w = pass->network->weights;
    const struct llama_layer *layer = &w->layer[at.layer];
    const bool last = at.layer + 1 == c->layers;

    switch (at.block) {
    case PASS_EMBED: /* member 0 looks up all tokens: that is quick */
        if (member > 0)
            break;
        TRY(decoder_look_up(pass, error));
        decoder_normalize(pass, (struct pass_tokens){0, pass->tokens}, w->layer[0].attention_norm);
        pass_mark(pass, member, at, STAGE_LOOK_UP);
        break;

    case PASS_ATTENTION: /* h = h + W_o attention(W_q x, W_k x, W_v x) */
        TRY(decoder_attention_run(pass, member, at, &layer->attention, &w->common.rope, error));
        decoder_add_and_norm(pass, member, at, layer->attention_post_norm,
                             layer->feed_forward_norm);
        break;

    case PASS_FEED_FORWARD: /* h = h + feed_forward(x) */
        TRY(decoder_feed_forward(pass, member, at, error));
        decoder_add_and_norm(pass, member, at, layer->feed_forward_post_norm,
                             last ? w->common.output_norm : w->layer[at.layer + 1].attention_norm);
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

size_t llama_linears(const struct network *network, uint32_t l, struct linear_entry *out) {
    struct llama_weights *w = network->weights;
    if (l == network->config.layers)
        return decoder_logits_linear(network, &w->common.logits, out);
    return decoder_attention_linears(&network->config, &w->layer[l].attention, out);
}

wisp_status llama_load(struct network *network, wisp_error *error) {
    struct llama_weights *w = network->weights;
    return decoder_weights_load(network, "output_norm.weight", &w->common, error);
}

wisp_status llama_load_layer(struct network *network, uint32_t l, wisp_error *error) {
    const size_t size = network->config.hidden_size;
    struct llama_layer *layer = &((struct llama_weights *)network->weights)->layer[l];
    TRY(decoder_attention_load(network, l, &layer->attention, error));
    const enum norm_places places = network->config.norms;
    const struct {
        const char *name;
        float **weight;
        enum norm_places absent; /* if the places are these */
    } norms[] = {{"attn_norm", &layer->attention_norm, NORMS_AFTER},
                 {"post_attention_norm", &layer->attention_post_norm, NORMS_BEFORE},
                 {"ffn_norm", &layer->feed_forward_norm, NORMS_AFTER},
                 {"post_ffw_norm", &layer->feed_forward_post_norm, NORMS_BEFORE}};
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        if (places != norms[i].absent)
            TRY(load_layer_rms_norm(network, l, norms[i].name, size, norms[i].weight, error));
    return WISP_OK;
}

void llama_release(struct network *network) {
    struct llama_weights *w = network->weights;
    for (size_t l = 0; l < network->config.layers; l++) {
        struct llama_layer *layer = &w->layer[l];
        decoder_attention_release(&layer->attention);
        memory_free(layer->attention_norm);
        memory_free(layer->attention_post_norm);
        memory_free(layer->feed_forward_norm);
        memory_free(layer->feed_forward_post_norm);
    }
    decoder_weights_release(&w->common);
}

/* ---- the hyper-parameters ------------------------------------------------------------------- */

wisp_status llama_read_decoder(const struct config_reader *r) {
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

static wisp_status llama_read_config(const struct directory *dir, struct model_config *config,
                                     wisp_error *error) {
    const struct config_reader r = {dir, architecture_llama.name, config, error};
    *config = (struct model_config){.activation = ACTIVATION_GATED_SILU,
                                    .rope_theta = LLAMA_USUAL_THETA,
                                    .rope_pairs = ROPE_NEIGHBOURS};
    return llama_read_decoder(&r);
}

static wisp_status qwen2_read_config(const struct directory *dir, struct model_config *config,
                                     wisp_error *error) {
    const struct config_reader r = {dir, architecture_qwen2.name, config, error};
    *config = (struct model_config){.activation = ACTIVATION_GATED_SILU,
                                    .rope_theta = LLAMA_USUAL_THETA,
                                    .rope_pairs = ROPE_HALVES,
                                    .has_qkv_bias = true};
    return llama_read_decoder(&r);
}

static wisp_status qwen3_read_config(const struct directory *dir, struct model_config *config,
                                     wisp_error *error) {
    const struct config_reader r = {dir, architecture_qwen3.name, config, error};
    *config = (struct model_config){.activation = ACTIVATION_GATED_SILU,
                                    .rope_theta = LLAMA_USUAL_THETA,
                                    .rope_pairs = ROPE_HALVES,
                                    .has_qk_norm = true};
    return llama_read_decoder(&r);
}

const char *const llama_tensors[] = {"token_embd", "output_norm",        "output",
                                     "rope_freqs", "rope_factors_short", "rope_factors_long",
                                     NULL};
static const char *const layer_tensors[] = {"attn_norm", "ffn_norm", LLAMA_LAYER_TENSORS, NULL};
static const char *const qwen3_layer_tensors[] = {"attn_norm",   "ffn_norm",          "attn_q_norm",
                                                  "attn_k_norm", LLAMA_LAYER_TENSORS, NULL};

const struct architecture architecture_llama = {LLAMA_PAGE,
                                                .name = "llama",
                                                .tensors = llama_tensors,
                                                .layer_tensors = layer_tensors,
                                                .on_devices = true,
                                                .read_config = llama_read_config};
const struct architecture architecture_qwen2 = {LLAMA_PAGE,
                                                .name = "qwen2",
                                                .tensors = llama_tensors,
                                                .layer_tensors = layer_tensors,
                                                .on_devices = true,
                                                .read_config = qwen2_read_config};
const struct architecture architecture_qwen3 = {LLAMA_PAGE,
                                                .name = "qwen3",
                                                .tensors = llama_tensors,
                                                .layer_tensors = qwen3_layer_tensors,
                                                .on_devices = true,
                                                .judges = true,
                                                .read_config = qwen3_read_config};
