/* SPDX-License-Identifier: Apache-2.0
 * The forward pass of Gemma 2 and 3, top to bottom. gemma_load.c reads the weights, and decoder.h
 * has the parts of the pass that other decoders have too. Norms stand before and after blocks: s->h
 * are the hidden states, and s->x is their norm, which the next block reads. */
#include "models/gemma.h"

#include <math.h>

#include "formats/schema.h"
#include "models/decoder_config.h"
#include "text/codec.h"

/* Computes h = h + rms_norm(y) and x = rms_norm(h) for the member's tokens. `post` is the weight of
 * the norm that ends a block, `next` the weight of the norm before the next block. */
static void add_and_norm(const struct pass *pass, uint32_t member, struct cursor at,
                         const float *post, const float *next) {
    const struct model_config *c = &pass->network->config;
    const struct decoder_state *s = pass->state;
    const struct pass_tokens own = decoder_tokens(pass, member);
    const size_t size = c->hidden_size, first = own.first * size;
    pass->network->kernels->rms_norm(s->y + first, post, c->norm_epsilon, own.n, size,
                                     s->y + first);
    decoder_add_and_norm(pass, member, at, next);
}

/* Runs the member's part of one block of the pass. */
static wisp_status gemma_step(struct pass *pass, uint32_t member, struct cursor at,
                              wisp_error *error) {
    const struct model_config *c = &pass->network->config;
    const struct gemma_weights *w = pass->network->weights;
    const struct gemma_layer *layer = &w->layer[at.layer];
    const struct decoder_state *s = pass->state;
    const bool last = at.layer + 1 == c->layers;
    const float embedding_scale = sqrtf((float)c->hidden_size);

    switch (at.block) {
    case BLOCK_EMBED: /* member 0 looks up all tokens: that is quick */
        if (member > 0)
            break;
        TRY(decoder_look_up(pass, error));
        for (size_t i = 0; i < pass->tokens * c->hidden_size; i++)
            s->h[i] *= embedding_scale;
        decoder_normalize(pass, (struct pass_tokens){0, pass->tokens}, w->layer[0].attention_norm);
        pass_mark(pass, member, at, STAGE_LOOK_UP);
        break;

    case BLOCK_ATTENTION: /* h = h + norm(W_o attention(W_q x, W_k x, W_v x)) */
        TRY(decoder_attention_run(pass, member, at, &layer->attention, &w->common.rope, error));
        add_and_norm(pass, member, at, layer->attention_post_norm, layer->feed_forward_norm);
        break;

    case BLOCK_FEED_FORWARD: /* h = h + norm(feed_forward(x)) */
        TRY(decoder_feed_forward(pass, member, at, error));
        add_and_norm(pass, member, at, layer->feed_forward_post_norm,
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

/* Reads the hyper-parameters of either version. Every `pattern`-th layer sees all tokens. The
 * largest model of each version, which has `largest` layers, scales scores by 1 / sqrt(hidden_size
 * / heads) rather than 1 / sqrt(head_size); llama.cpp's files have no key for that. */
static wisp_status read_gemma(const struct config_reader *r, uint32_t pattern, uint32_t largest) {
    static const struct named_activation activations[] = {
        {"gelu_pytorch_tanh", ACTIVATION_GATED_GELU_TANH}, {"relu", ACTIVATION_GATED_RELU}};
    struct model_config *c = r->config;
    TRY(decoder_read_sizes(r));
    char key[CONFIG_KEY_BYTES];
    const bool given = directory_find_metadata(r->dir, config_key(r, "attention.scale", key));
    if (!given && c->layers == largest)
        c->attention_scale = 1 / sqrtf((float)c->hidden_size / (float)c->heads);
    TRY(config_read_norm_epsilon(r, "attention.layer_norm_rms_epsilon"));
    TRY(decoder_read_activation(r, activations, sizeof activations / sizeof *activations));
    TRY(decoder_read_window(r, pattern));
    TRY(decoder_read_caps(r));
    return decoder_read_rope(r);
}

/* Where the file has no bounds of scores and logits or no window, those of all Gemma 2 models are
 * used, as llama.cpp does. */
static wisp_status gemma2_read_config(const struct directory *dir, struct model_config *config,
                                      wisp_error *error) {
    const struct config_reader r = {dir, architecture_gemma2.name, config, error};
    *config = (struct model_config){.activation = ACTIVATION_GATED_GELU_TANH,
                                    .rope_theta = 10000,
                                    .rope_pairs = ROPE_HALVES,
                                    .attention_cap = 50,
                                    .logit_cap = 30,
                                    .window = 4096};
    return read_gemma(&r, 2, 46);
}

static wisp_status gemma3_read_config(const struct directory *dir, struct model_config *config,
                                      wisp_error *error) {
    const struct config_reader r = {dir, architecture_gemma3.name, config, error};
    *config = (struct model_config){.activation = ACTIVATION_GATED_GELU_TANH,
                                    .rope_pairs = ROPE_HALVES,
                                    .has_qk_norm = true,
                                    .local_rope_theta = 10000};
    TRY(read_gemma(&r, 6, 62));
    return decoder_read_local_theta(&r);
}

static const char *const tensors[] = {"token_embd", "output_norm", "output", NULL};
#define LAYER_TENSORS                                                                              \
    "attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "post_attention_norm",   \
        "post_ffw_norm", TENSOR_FFN_GATE, TENSOR_FFN_UP, TENSOR_FFN_DOWN
static const char *const gemma2_layer_tensors[] = {LAYER_TENSORS, NULL};
static const char *const gemma3_layer_tensors[] = {LAYER_TENSORS, "attn_q_norm", "attn_k_norm",
                                                   NULL};

#define GEMMA(its_name, its_read_config, its_layer_tensors)                                        \
    {.name = (its_name),                                                                           \
     .generates = true,                                                                            \
     .open_codec = codec_open,                                                                     \
     .by_outputs = true,                                                                           \
     .tensors = tensors,                                                                           \
     .layer_tensors = (its_layer_tensors),                                                         \
     .read_config = (its_read_config),                                                             \
     .load = gemma_load,                                                                           \
     .load_layer = gemma_load_layer,                                                               \
     .release = gemma_release,                                                                     \
     .take = decoder_take,                                                                         \
     .rope = decoder_rope,                                                                         \
     .step = gemma_step}

const struct architecture architecture_gemma2 =
    GEMMA("gemma2", gemma2_read_config, gemma2_layer_tensors);
const struct architecture architecture_gemma3 =
    GEMMA("gemma3", gemma3_read_config, gemma3_layer_tensors);
