/* SPDX-License-Identifier: Apache-2.0
 * The forward pass of GPT-2, top to bottom. gpt2_load.c reads the weights, and decoder.h has the
 * parts of the pass that other decoders have too. Norms stand before blocks: s->h are the hidden
 * states, and s->x is their norm, which the next block reads. */
#include "models/gpt2.h"

#include <string.h>

#include "formats/schema.h"
#include "models/decoder_config.h"
#include "text/codec.h"

/* Positions have embeddings, so queries and keys are not rotated. */
static const struct rope no_rope = {0};

/* Computes h = h + y and x = layer_norm(h) for some tokens. */
static void add_and_norm(const struct pass *pass, struct pass_tokens own, const struct norm *norm) {
    const struct model_config *c = &pass->network->config;
    const struct kernels *kernels = pass->network->kernels;
    const struct decoder_state *s = pass->state;
    const size_t at = own.first * c->hidden_size, values = own.n * c->hidden_size;
    memcpy(s->x + at, s->h + at, values * sizeof *s->x);
    kernels->layer_norm(s->x + at, s->y + at, norm->weight, norm->bias, c->norm_epsilon, own.n,
                        c->hidden_size); /* it adds y, but does not keep the sum */
    kernels->add(s->h + at, s->y + at, values);
}

/* Copies the embedding of each token's position to y. */
static void look_up_positions(const struct pass *pass) {
    const struct gpt2_weights *w = pass->network->weights;
    const struct decoder_state *s = pass->state;
    const size_t size = pass->network->config.hidden_size;
    for (size_t i = 0; i < pass->batch.texts; i++) {
        const size_t start = pass->batch.starts[i], tokens = pass->batch.starts[i + 1] - start;
        memcpy(s->y + start * size, w->position_embedding + pass->batch.caches[i]->length * size,
               tokens * size * sizeof *s->y);
    }
}

/* Runs the member's part of one block of the pass. */
static wisp_status gpt2_step(struct pass *pass, uint32_t member, struct cursor at,
                             wisp_error *error) {
    const struct gpt2_weights *w = pass->network->weights;
    const struct gpt2_layer *layer = &w->layer[at.layer];
    const bool last = at.layer + 1 == pass->network->config.layers;

    switch (at.block) {
    case BLOCK_EMBED: /* member 0 looks up all tokens: that is quick */
        if (member > 0)
            break;
        TRY(decoder_look_up(pass, error));
        look_up_positions(pass);
        add_and_norm(pass, (struct pass_tokens){0, pass->tokens}, &w->layer[0].attention_norm);
        pass_mark(pass, member, at, STAGE_LOOK_UP);
        break;

    case BLOCK_ATTENTION: /* h = h + W_o attention(W_q x, W_k x, W_v x) */
        TRY(decoder_attention_run(pass, member, at, &layer->attention, &no_rope, error));
        add_and_norm(pass, decoder_tokens(pass, member), &layer->feed_forward_norm);
        pass_mark(pass, member, at, STAGE_NORM);
        break;

    case BLOCK_FEED_FORWARD: /* h = h + feed_forward(x) */
        TRY(decoder_feed_forward(pass, member, at, error));
        add_and_norm(pass, decoder_tokens(pass, member),
                     last ? &w->output_norm : &w->layer[at.layer + 1].attention_norm);
        pass_mark(pass, member, at, STAGE_NORM);
        break;

    case BLOCK_OUTPUT:
        TRY(decoder_logits(pass, member, at, &w->logits, error));
        pass_mark(pass, member, at, STAGE_LOGITS);
        break;

    case BLOCK_END:
        break;
    }
    return WISP_OK;
}

static void gpt2_rope(const struct network *network, struct rope *rope) {
    (void)network;
    *rope = no_rope;
}

static wisp_status gpt2_read_config(const struct directory *dir, struct model_config *config,
                                    wisp_error *error) {
    static const struct named_activation activations[] = {{"gelu_new", ACTIVATION_GELU_TANH},
                                                          {"gelu", ACTIVATION_GELU},
                                                          {"relu", ACTIVATION_RELU},
                                                          {"relu2", ACTIVATION_RELU_SQUARED}};
    const struct config_reader r = {dir, architecture_gpt2.name, config, error};
    *config = (struct model_config){
        .activation = ACTIVATION_GELU_TANH, .has_bias = true, .fused_qkv = true};
    TRY(decoder_read_sizes(&r));
    TRY(config_read_norm_epsilon(&r, "attention.layer_norm_epsilon"));
    TRY(decoder_read_activation(&r, activations, sizeof activations / sizeof *activations));
    TRY(config_refuse_others(&r, "attention.sliding_window", "0"));
    return decoder_refuse_caps(&r);
}

static const char *const tensors[] = {"token_embd", "position_embd", "output_norm", "output", NULL};
static const char *const layer_tensors[] = {
    "attn_norm", "attn_qkv", "attn_output", "ffn_norm", TENSOR_FFN_UP, TENSOR_FFN_DOWN, NULL};

const struct architecture architecture_gpt2 = {.name = "gpt2",
                                               .generates = true,
                                               .open_codec = codec_open,
                                               .by_outputs = true,
                                               .tensors = tensors,
                                               .layer_tensors = layer_tensors,
                                               .read_config = gpt2_read_config,
                                               .load = gpt2_load,
                                               .load_layer = gpt2_load_layer,
                                               .release = gpt2_release,
                                               .take = decoder_take,
                                               .rope = gpt2_rope,
                                               .step = gpt2_step};
