/* SPDX-License-Identifier: Apache-2.0
 * Llama again, whose weights are in another order, and the logits in a place of their own. */
#include <string.h>

#include "base/memory.h"
#include "models/decoder_attention.h"
#include "models/decoder_config.h"
#include "models/linears.h"
#include "models/norms_load.h"
#include "support/other.h"

struct other_layer {
    float *feed_forward_norm;
    struct decoder_attention attention;
    float *attention_norm;
};

struct other_weights {
    uint64_t unused[5];
    struct decoder_weights common;
    struct other_layer layer[];
};

static wisp_status other_step(struct pass *pass, uint32_t member, struct cursor at,
                              wisp_error *error) {
    const struct other_weights *w = pass->network->weights;
    const struct other_layer *layer = &w->layer[at.layer];
    const bool last = at.layer + 1 == pass->network->config.layers;

    switch (at.block) {
    case PASS_EMBED:
        if (member > 0)
            break;
        TRY(decoder_look_up(pass, error));
        decoder_normalize(pass, (struct pass_tokens){0, pass->tokens}, w->layer[0].attention_norm);
        break;

    case PASS_ATTENTION:
        TRY(decoder_attention_run(pass, member, at, &layer->attention, &w->common.rope, error));
        decoder_add_and_norm(pass, member, at, NULL, layer->feed_forward_norm);
        break;

    case PASS_FEED_FORWARD:
        TRY(decoder_feed_forward(pass, member, at, error));
        decoder_add_and_norm(pass, member, at, NULL,
                             last ? w->common.output_norm : layer[1].attention_norm);
        break;

    case PASS_OUTPUT:
        return decoder_output(pass, member, at, &w->common.logits, error);

    case PASS_END:
        break;
    }
    return WISP_OK;
}

static size_t other_linears(const struct network *network, uint32_t l, struct linear_entry *out) {
    struct other_weights *w = network->weights;
    if (l == network->config.layers)
        return decoder_logits_linear(network, &w->common.logits, out);
    return decoder_attention_linears(&network->config, &w->layer[l].attention, out);
}

static wisp_status other_load(struct network *network, wisp_error *error) {
    struct other_weights *w = network->weights;
    memset(w->unused, 0x5a, sizeof w->unused);
    return decoder_weights_load(network, "output_norm.weight", &w->common, error);
}

static wisp_status other_load_layer(struct network *network, uint32_t l, wisp_error *error) {
    const size_t size = network->config.hidden_size;
    struct other_layer *layer = &((struct other_weights *)network->weights)->layer[l];
    TRY(decoder_attention_load(network, l, &layer->attention, error));
    TRY(load_layer_rms_norm(network, l, "attn_norm", size, &layer->attention_norm, error));
    return load_layer_rms_norm(network, l, "ffn_norm", size, &layer->feed_forward_norm, error);
}

static void other_release(struct network *network) {
    struct other_weights *w = network->weights;
    for (size_t l = 0; l < network->config.layers; l++) {
        decoder_attention_release(&w->layer[l].attention);
        memory_free(w->layer[l].attention_norm);
        memory_free(w->layer[l].feed_forward_norm);
    }
    decoder_weights_release(&w->common);
}

static void other_rope(const struct network *network, struct rope *rope) {
    *rope = ((const struct other_weights *)network->weights)->common.rope;
}

static wisp_status other_read_config(const struct directory *dir, struct model_config *config,
                                     wisp_error *error) {
    const struct config_reader r = {dir, architecture_other_decoder.name, config, error};
    static const struct named_activation gated[] = {{"silu", ACTIVATION_GATED_SILU}};
    *config = (struct model_config){
        .activation = ACTIVATION_GATED_SILU, .rope_theta = 10000, .rope_pairs = ROPE_NEIGHBOURS};
    TRY(decoder_read_sizes(&r));
    TRY(config_read_norm_epsilon(&r, "attention.layer_norm_rms_epsilon"));
    TRY(decoder_read_activation(&r, gated, 1));
    TRY(decoder_read_window(&r, 0));
    return decoder_read_rope(&r);
}

static const char *const tensors[] = {"token_embd", "output_norm", "output", NULL};
static const char *const layer_tensors[] = {
    "attn_norm", "attn_q",        "attn_k",      "attn_v",        "attn_output",
    "ffn_norm",  TENSOR_FFN_GATE, TENSOR_FFN_UP, TENSOR_FFN_DOWN, NULL};

const struct architecture architecture_other_decoder = {.name = "other-decoder",
                                                        .generates = true,
                                                        .by_outputs = true,
                                                        .norms_first = true,
                                                        .judges = true,
                                                        .tensors = tensors,
                                                        .layer_tensors = layer_tensors,
                                                        .read_config = other_read_config,
                                                        .weights_bytes =
                                                            sizeof(struct other_weights),
                                                        .layer_bytes = sizeof(struct other_layer),
                                                        .linears = other_linears,
                                                        .load = other_load,
                                                        .load_layer = other_load_layer,
                                                        .release = other_release,
                                                        .attention = decoder_attention_shape,
                                                        .take = decoder_take,
                                                        .rope = other_rope,
                                                        .step = other_step};
