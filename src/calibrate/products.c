/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/products.h"

#include "formats/schema.h"
#include "models/bert.h"
#include "models/gemma.h"
#include "models/gpt2.h"
#include "models/lfm2.h"
#include "models/llama.h"

static struct linear *ffn_up(struct network *network, size_t l) {
    return &network->feed_forward[l].up;
}

static struct linear *ffn_gate(struct network *network, size_t l) {
    return &network->feed_forward[l].gate;
}

static struct linear *ffn_down(struct network *network, size_t l) {
    return &network->feed_forward[l].down;
}

static struct linear *bert_qkv(struct network *network, size_t l) {
    return &((struct bert_weights *)network->weights)->layer[l].qkv;
}

static struct linear *bert_output(struct network *network, size_t l) {
    return &((struct bert_weights *)network->weights)->layer[l].output;
}

bool adds_outputs(const struct network *network) {
    return network->architecture != &architecture_gemma2 &&
           network->architecture != &architecture_gemma3;
}

static struct decoder_attention *attention_of(struct network *network, size_t l) {
    if (network->architecture == &architecture_lfm2)
        return &((struct lfm2_weights *)network->weights)->layer[l].attention;
    if (network->architecture == &architecture_gpt2)
        return &((struct gpt2_weights *)network->weights)->layer[l].attention;
    return adds_outputs(network) ? &((struct llama_weights *)network->weights)->layer[l].attention
                                 : &((struct gemma_weights *)network->weights)->layer[l].attention;
}

static struct linear *decoder_q(struct network *network, size_t l) {
    return &attention_of(network, l)->q;
}

static struct linear *decoder_kv(struct network *network, size_t l) {
    return &attention_of(network, l)->kv;
}

static struct linear *decoder_output(struct network *network, size_t l) {
    return &attention_of(network, l)->output;
}

static struct linear *conv_in(struct network *network, size_t l) {
    return &((struct lfm2_weights *)network->weights)->layer[l].in;
}

static struct linear *conv_out(struct network *network, size_t l) {
    return &((struct lfm2_weights *)network->weights)->layer[l].out;
}

struct linear *logits_of(struct network *network) {
    if (network->architecture == &architecture_gpt2)
        return &((struct gpt2_weights *)network->weights)->logits;
    return &((struct decoder_weights *)network->weights)->logits; /* with which the others begin */
}

static const struct product stacked = {
    {"attn_q", "attn_k", "attn_v"}, BLOCK_ATTENTION, false, bert_qkv};
static const struct product fused = {{"attn_qkv"}, BLOCK_ATTENTION, false, bert_qkv};
static const struct product output = {{"attn_output"}, BLOCK_ATTENTION, true, bert_output};
static const struct product fused_decoder = {{"attn_qkv"}, BLOCK_ATTENTION, false, decoder_q};
static const struct product queries = {{"attn_q"}, BLOCK_ATTENTION, false, decoder_q};
static const struct product keys = {{"attn_k", "attn_v"}, BLOCK_ATTENTION, false, decoder_kv};
static const struct product out = {{"attn_output"}, BLOCK_ATTENTION, true, decoder_output};
static const struct product conv_begin = {{"shortconv.in_proj"}, BLOCK_ATTENTION, false, conv_in};
static const struct product conv_end = {{"shortconv.out_proj"}, BLOCK_ATTENTION, true, conv_out};
static const struct product up = {{TENSOR_FFN_UP}, BLOCK_FEED_FORWARD, false, ffn_up};
static const struct product gate = {{TENSOR_FFN_GATE}, BLOCK_FEED_FORWARD, false, ffn_gate};
static const struct product down = {{TENSOR_FFN_DOWN}, BLOCK_FEED_FORWARD, true, ffn_down};

size_t layer_products(const struct network *network, size_t layer,
                      struct product products[MOST_PRODUCTS]) {
    const struct model_config *c = &network->config;
    size_t n = 0;
    if (config_is_conv(c, (uint32_t)layer)) {
        products[n++] = conv_begin;
        products[n++] = conv_end;
    } else if (network->architecture->generates) {
        products[n++] = c->fused_qkv ? fused_decoder : queries;
        if (!c->fused_qkv)
            products[n++] = keys;
        products[n++] = out;
    } else {
        products[n++] = network->architecture == &architecture_bert ? stacked : fused;
        products[n++] = output;
    }
    products[n++] = up;
    if (config_is_gated(c))
        products[n++] = gate;
    products[n++] = down;
    return n;
}
