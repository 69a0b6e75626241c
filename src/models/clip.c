/* SPDX-License-Identifier: Apache-2.0 */
#include "models/clip.h"

#include <string.h>

#include "models/decoder_config.h"
#include "models/encoder.h"
#include "models/gpt2.h"

/* Does what GPT-2 does, but for looking up tokens, some of which may be absent (encoder.h). */
static wisp_status clip_step(struct pass *pass, uint32_t member, struct cursor at,
                             wisp_error *error) {
    const struct gpt2_weights *w = pass->network->weights;
    const struct decoder_state *s = pass->state;
    if (at.block != PASS_EMBED)
        return gpt2_step(pass, member, at, error);
    if (member > 0)
        return WISP_OK;
    TRY(encoder_look_up(pass, s->inner, s->h, error));
    TRY(encoder_look_up_positions(pass, s->y, error));
    gpt2_add_and_norm(pass, (struct pass_tokens){0, pass->tokens}, &w->layer[0].attention_norm);
    pass_mark(pass, member, at, STAGE_LOOK_UP);
    return WISP_OK;
}

static wisp_status image_step(struct pass *pass, uint32_t member, struct cursor at,
                              wisp_error *error) {
    const struct gpt2_weights *w = pass->network->weights;
    const struct decoder_state *s = pass->state;
    const size_t values = pass->tokens * pass->network->config.hidden_size;
    if (at.block != PASS_EMBED)
        return gpt2_step(pass, member, at, error);
    if (member > 0)
        return WISP_OK;
    memcpy(s->h, pass->batch.hidden, values * sizeof *s->h);
    memset(s->y, 0, values * sizeof *s->y);
    gpt2_add_and_norm(pass, (struct pass_tokens){0, pass->tokens}, &w->layer[0].attention_norm);
    pass_mark(pass, member, at, STAGE_LOOK_UP);
    return WISP_OK;
}

/* Reads what both towers have. Of a text the last token is pooled, of an image the first. */
static wisp_status read_tower(const struct config_reader *r, enum pooling pooling) {
    static const struct named_activation activations[] = {
        {"quick_gelu", ACTIVATION_QUICK_GELU},
        {"gelu", ACTIVATION_GELU},
        {"gelu_pytorch_tanh", ACTIVATION_GELU_TANH}};
    static const char projection[] = TENSOR_DENSE_2 TENSOR_WEIGHT;
    const bool of_texts = pooling == POOLING_LAST;
    *r->config = (struct model_config){.activation = ACTIVATION_QUICK_GELU,
                                       .pooling = pooling,
                                       .sees_all = !of_texts,
                                       .has_bias = true};
    TRY(decoder_read_sizes(r));
    TRY(config_read_norm_epsilon(r, "attention.layer_norm_epsilon"));
    TRY(decoder_read_activation(r, activations, sizeof activations / sizeof *activations));
    TRY(config_refuse_others(r, "attention.sliding_window", "0"));
    TRY(config_refuse_others(r, "pooling_type", of_texts ? "3" : "2"));
    if (!directory_find_tensor(r->dir, projection))
        return fail(r->error, WISP_ERROR_NOT_FOUND, r->dir->file, projection,
                    "the projection of %s is missing", of_texts ? "texts" : "images");
    return decoder_refuse_caps(r);
}

static wisp_status clip_read_config(const struct directory *dir, struct model_config *config,
                                    wisp_error *error) {
    return read_tower(&(struct config_reader){dir, architecture_clip.name, config, error},
                      POOLING_LAST);
}

static const char image_name[] = "clip.vision";

static wisp_status image_read_config(const struct directory *dir, struct model_config *config,
                                     wisp_error *error) {
    return read_tower(&(struct config_reader){dir, image_name, config, error}, POOLING_CLS);
}

static const char *const tensors[] = {"token_embd", "position_embd", "output_norm", NULL};
static const char *const image_tensors[] = {"patch_embd", "class_embd",  "position_embd",
                                            "pre_ln",     "output_norm", NULL};
static const char *const layer_tensors[] = {"attn_norm",   "attn_q",        "attn_k",
                                            "attn_v",      "attn_output",   "ffn_norm",
                                            TENSOR_FFN_UP, TENSOR_FFN_DOWN, NULL};

/* The members that both towers share. */
#define TOWER                                                                                      \
    .norms_first = true, .layer_tensors = layer_tensors,                                           \
    .weights_bytes = sizeof(struct gpt2_weights), .layer_bytes = sizeof(struct gpt2_layer),        \
    .linears = gpt2_linears, .load = gpt2_load, .load_layer = gpt2_load_layer,                     \
    .release = gpt2_release, .attention = decoder_attention_shape, .take = decoder_take,           \
    .rope = gpt2_rope

/* Its tensors have the prefix "v." in the file, and the names here without it (engine/images.h). A
 * pass begins with the states of patches behind that of a class, whose last hidden state is the
 * embedding, projected. */
static const struct architecture image_tower = {TOWER,
                                                .name = image_name,
                                                .tensors = image_tensors,
                                                .takes_hidden = true,
                                                .read_config = image_read_config,
                                                .step = image_step};
const struct architecture architecture_clip = {TOWER,
                                               .name = "clip",
                                               .tensors = tensors,
                                               .others = CLIP_IMAGE_PREFIX,
                                               .images = &image_tower,
                                               .read_config = clip_read_config,
                                               .step = clip_step};
