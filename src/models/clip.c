/* SPDX-License-Identifier: Apache-2.0 */
#include "models/clip.h"

#include "models/decoder_config.h"
#include "models/encoder.h"
#include "models/gpt2.h"

static wisp_status embed_tokens(struct pass *pass, wisp_error *error) {
    const struct gpt2_weights *w = pass->network->weights;
    const struct decoder_state *s = pass->state;
    TRY(encoder_look_up(pass, s->inner, s->h, error));
    TRY(encoder_look_up_positions(pass, s->y, error));
    gpt2_add_and_norm(pass, (struct pass_tokens){0, pass->tokens}, &w->layer[0].attention_norm);
    return WISP_OK;
}

static wisp_status clip_step(struct pass *pass, uint32_t member, struct cursor at,
                             wisp_error *error) {
    const struct gpt2_weights *w = pass->network->weights;
    const struct gpt2_layer *layer = &w->layer[at.layer];
    const bool last = at.layer + 1 == pass->network->config.layers;
    wisp_status status;

    switch (at.block) {
    case BLOCK_EMBED: /* member 0 looks up all tokens: that is quick */
        if (member > 0)
            break;
        TRY(embed_tokens(pass, error));
        pass_mark(pass, member, at, STAGE_LOOK_UP);
        break;

    case BLOCK_ATTENTION: /* h = h + W_o attention(W_q x, W_k x, W_v x) */
        TRY(pass_wake(pass, member, at, REST_ATTENTION, error));
        status = decoder_attention_run(pass, member, at, &layer->attention, &w->rope, error);
        pass_sleep(pass, member, at, REST_ATTENTION);
        TRY(status);
        gpt2_add_and_norm(pass, pass_tokens(pass, member), &layer->feed_forward_norm);
        pass_mark(pass, member, at, STAGE_NORM);
        break;

    case BLOCK_FEED_FORWARD: /* h = h + feed_forward(x) */
        TRY(decoder_feed_forward(pass, member, at, error));
        gpt2_add_and_norm(pass, pass_tokens(pass, member),
                          last ? &w->output_norm : &layer[1].attention_norm);
        pass_mark(pass, member, at, STAGE_NORM);
        break;

    case BLOCK_OUTPUT: /* rows = x of the last tokens, by member 0 */
        return decoder_output(pass, member, at, &w->logits, error);

    case BLOCK_END:
        break;
    }
    return WISP_OK;
}

static wisp_status clip_read_config(const struct directory *dir, struct model_config *config,
                                    wisp_error *error) {
    static const struct named_activation activations[] = {
        {"quick_gelu", ACTIVATION_QUICK_GELU},
        {"gelu", ACTIVATION_GELU},
        {"gelu_pytorch_tanh", ACTIVATION_GELU_TANH}};
    static const char projection[] = TENSOR_DENSE_2 TENSOR_WEIGHT;
    const struct config_reader r = {dir, architecture_clip.name, config, error};
    *config = (struct model_config){
        .activation = ACTIVATION_QUICK_GELU, .pooling = POOLING_LAST, .has_bias = true};
    TRY(decoder_read_sizes(&r));
    TRY(config_read_norm_epsilon(&r, "attention.layer_norm_epsilon"));
    TRY(decoder_read_activation(&r, activations, sizeof activations / sizeof *activations));
    TRY(config_refuse_others(&r, "attention.sliding_window", "0"));
    TRY(config_refuse_others(&r, "pooling_type", "3"));
    if (!directory_find_tensor(dir, projection))
        return fail(error, WISP_ERROR_NOT_FOUND, dir->file, projection,
                    "the projection of texts is missing");
    return decoder_refuse_caps(&r);
}

static const char *const tensors[] = {"token_embd", "position_embd", "output_norm", NULL};
static const char *const layer_tensors[] = {"attn_norm",   "attn_q",        "attn_k",
                                            "attn_v",      "attn_output",   "ffn_norm",
                                            TENSOR_FFN_UP, TENSOR_FFN_DOWN, NULL};

const struct architecture architecture_clip = {.name = "clip",
                                               .norms_first = true,
                                               .tensors = tensors,
                                               .layer_tensors = layer_tensors,
                                               .read_config = clip_read_config,
                                               .weights_bytes = sizeof(struct gpt2_weights),
                                               .layer_bytes = sizeof(struct gpt2_layer),
                                               .linears = gpt2_linears,
                                               .load = gpt2_load,
                                               .load_layer = gpt2_load_layer,
                                               .release = gpt2_release,
                                               .attention = decoder_attention_shape,
                                               .take = decoder_take,
                                               .rope = gpt2_rope,
                                               .step = clip_step};
