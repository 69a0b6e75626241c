/* SPDX-License-Identifier: Apache-2.0
 * The forward pass of GPT-2 and StarCoder2, top to bottom, and their weights, which other families
 * share. decoder.h has the parts of the pass that other decoders have too. Norms are before blocks:
 * s->h are the hidden states, and s->x is their norm, which the next block reads. */
#include "models/gpt2.h"

#include <string.h>

#include "models/decoder_config.h"
#include "models/linears.h"
#include "models/norms_load.h"
#include "models/positions.h"

void gpt2_add_and_norm(const struct pass *pass, struct pass_tokens own, const struct norm *norm) {
    const struct model_config *c = &pass->network->config;
    const struct kernels *kernels = pass->network->kernels;
    const struct decoder_state *s = pass->state;
    const size_t at = own.first * c->hidden_size, values = own.n * c->hidden_size;
    memcpy(s->x + at, s->h + at, values * sizeof *s->x);
    kernels->layer_norm(s->x + at, s->y + at, norm->weight, norm->bias, c->norm_epsilon, own.n,
                        c->hidden_size); /* it adds y, but does not keep the sum */
    kernels->add(s->h + at, s->y + at, values);
}

/* Ends attention if the feed-forward block reads a norm of what attention read: computes x =
 * layer_norm(h), and then h = h + y. */
static void norm_and_add(const struct pass *pass, struct pass_tokens own, const struct norm *norm) {
    const struct model_config *c = &pass->network->config;
    const struct kernels *kernels = pass->network->kernels;
    const struct decoder_state *s = pass->state;
    const size_t at = own.first * c->hidden_size, values = own.n * c->hidden_size;
    memcpy(s->x + at, s->h + at, values * sizeof *s->x);
    memset(s->context + at, 0, values * sizeof *s->x);
    kernels->layer_norm(s->x + at, s->context + at, norm->weight, norm->bias, c->norm_epsilon,
                        own.n, c->hidden_size);
    kernels->add(s->h + at, s->y + at, values);
}

/* Copies the embedding of each token's position to y, or zeros if positions have none. */
static wisp_status look_up_positions(const struct pass *pass, wisp_error *error) {
    const struct decoder_state *s = pass->state;
    const size_t size = pass->network->config.hidden_size;
    if (!pass->network->positions) {
        memset(s->y, 0, pass->tokens * size * sizeof *s->y);
        return WISP_OK;
    }
    TRY(rest_wake(pass->network, REST_POSITIONS, 0, error));
    const float *positions = pass->network->positions->rows;
    for (size_t i = 0; i < pass->batch.texts; i++) {
        const size_t start = pass->batch.starts[i], tokens = pass->batch.starts[i + 1] - start;
        memcpy(s->y + start * size, positions + pass->batch.caches[i]->length * size,
               tokens * size * sizeof *s->y);
    }
    rest_sleep(pass->network, REST_POSITIONS, 0);
    return WISP_OK;
}

/* Runs the member's part of one block of the pass. */
wisp_status gpt2_step(struct pass *pass, uint32_t member, struct cursor at, wisp_error *error) {
    const struct gpt2_weights *w = pass->network->weights;
    const struct gpt2_layer *layer = &w->layer[at.layer];
    const bool last = at.layer + 1 == pass->network->config.layers;

    switch (at.block) {
    case PASS_EMBED: /* member 0 looks up all tokens: that is quick */
        if (member > 0)
            break;
        TRY(decoder_look_up(pass, error));
        TRY(look_up_positions(pass, error));
        gpt2_add_and_norm(pass, (struct pass_tokens){0, pass->tokens}, &w->layer[0].attention_norm);
        pass_mark(pass, member, at, STAGE_LOOK_UP);
        break;

    case PASS_ATTENTION: /* h = h + W_o attention(W_q x, W_k x, W_v x) */
        TRY(decoder_attention_run(pass, member, at, &layer->attention, &w->rope, error));
        (pass->network->config.is_parallel ? norm_and_add : gpt2_add_and_norm)(
            pass, decoder_tokens(pass, member), &layer->feed_forward_norm);
        pass_mark(pass, member, at, STAGE_NORM);
        break;

    case PASS_FEED_FORWARD: /* h = h + feed_forward(x) */
        TRY(decoder_feed_forward(pass, member, at, error));
        gpt2_add_and_norm(pass, decoder_tokens(pass, member),
                          last ? &w->output_norm : &w->layer[at.layer + 1].attention_norm);
        pass_mark(pass, member, at, STAGE_NORM);
        break;

    case PASS_OUTPUT:
        TRY(decoder_output(pass, member, at, &w->logits, error));
        break;

    case PASS_END:
        break;
    }
    return WISP_OK;
}

void gpt2_rope(const struct network *network, struct rope *rope) {
    *rope = ((const struct gpt2_weights *)network->weights)->rope;
}

/* ---- the weights ---------------------------------------------------------------------------- */

size_t gpt2_linears(const struct network *network, uint32_t l, struct linear_entry *out) {
    struct gpt2_weights *w = network->weights;
    if (l == network->config.layers)
        return decoder_logits_linear(network, &w->logits, out);
    return decoder_attention_linears(&network->config, &w->layer[l].attention, out);
}

wisp_status gpt2_load(struct network *network, wisp_error *error) {
    const struct model_config *c = &network->config;
    struct gpt2_weights *w = network->weights;
    w->rope =
        (struct rope){.theta = c->rope_theta, .rotated = c->rotary_size, .pairs = c->rope_pairs};
    if (c->rope_theta == 0)
        TRY(positions_load(network, c->max_positions, error));
    network->resident_bytes += norm_bytes(c->hidden_size);
    return norm_load(&w->output_norm, network->dir, "output_norm", c->hidden_size, error);
}

wisp_status gpt2_load_layer(struct network *network, uint32_t l, wisp_error *error) {
    struct gpt2_layer *layer = &((struct gpt2_weights *)network->weights)->layer[l];
    TRY(load_layer_norm(network, l, "attn_norm", &layer->attention_norm, error));
    return load_layer_norm(network, l, "ffn_norm", &layer->feed_forward_norm, error);
}

void gpt2_release(struct network *network) {
    struct gpt2_weights *w = network->weights;
    for (size_t l = 0; l < network->config.layers; l++) {
        norm_release(&w->layer[l].attention_norm);
        norm_release(&w->layer[l].feed_forward_norm);
    }
    norm_release(&w->output_norm);
}

/* ---- the hyper-parameters ------------------------------------------------------------------- */

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
    TRY(config_refuse_others(&r, "pooling_type", "0"));
    return decoder_refuse_caps(&r);
}

static wisp_status starcoder2_read_config(const struct directory *dir, struct model_config *config,
                                          wisp_error *error) {
    static const struct named_activation activations[] = {
        {"gelu_pytorch_tanh", ACTIVATION_GELU_TANH},
        {"gelu", ACTIVATION_GELU},
        {"relu", ACTIVATION_RELU},
        {"relu2", ACTIVATION_RELU_SQUARED}};
    const struct config_reader r = {dir, architecture_starcoder2.name, config, error};
    *config = (struct model_config){.activation = ACTIVATION_GELU_TANH,
                                    .has_bias = true,
                                    .rope_theta = 10000, /* llama.cpp's, if the file has none */
                                    .rope_pairs = ROPE_HALVES};
    TRY(decoder_read_sizes(&r));
    TRY(config_read_norm_epsilon(&r, "attention.layer_norm_epsilon"));
    TRY(decoder_read_activation(&r, activations, sizeof activations / sizeof *activations));
    TRY(decoder_read_window(&r, 0));
    TRY(config_read_rope(&r));
    TRY(config_refuse_others(&r, "pooling_type", "0"));
    return decoder_refuse_caps(&r);
}

static const char *const gpt2_tensors[] = {"token_embd", "position_embd", "output_norm", "output",
                                           NULL};
static const char *const gpt2_layer_tensors[] = {
    "attn_norm", "attn_qkv", "attn_output", "ffn_norm", TENSOR_FFN_UP, TENSOR_FFN_DOWN, NULL};
static const char *const starcoder2_tensors[] = {"token_embd", "output_norm", "output", NULL};
static const char *const starcoder2_layer_tensors[] = {"attn_norm",   "attn_q",        "attn_k",
                                                       "attn_v",      "attn_output",   "ffn_norm",
                                                       TENSOR_FFN_UP, TENSOR_FFN_DOWN, NULL};

const struct architecture architecture_gpt2 = {GPT2_PAGE, .name = "gpt2", .tensors = gpt2_tensors,
                                               .layer_tensors = gpt2_layer_tensors,
                                               .read_config = gpt2_read_config};
const struct architecture architecture_starcoder2 = {
    GPT2_PAGE, .name = "starcoder2", .tensors = starcoder2_tensors,
    .layer_tensors = starcoder2_layer_tensors, .read_config = starcoder2_read_config};
