/* SPDX-License-Identifier: Apache-2.0 */
#include "models/clip.h"

#include <stdio.h>
#include <string.h>

#include "models/attention_pool.h"
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

/* What the towers of a family have otherwise. */
struct tower {
    enum pooling pooling;
    bool sees_all;              /* tokens see those behind them, too, unless the file says no */
    enum activation activation; /* of files that name none */
    bool projects;              /* a dense layer makes the embedding of what is pooled */
};

static const struct tower clip_texts = {POOLING_LAST, false, ACTIVATION_QUICK_GELU, true},
                          clip_images = {POOLING_CLS, true, ACTIVATION_QUICK_GELU, true},
                          siglip_texts = {POOLING_LAST, true, ACTIVATION_GELU_TANH, true},
                          siglip_images = {POOLING_CLS, true, ACTIVATION_GELU_TANH, false};

static wisp_status read_tower(const struct config_reader *r, const struct tower *tower) {
    static const struct named_activation activations[] = {
        {"quick_gelu", ACTIVATION_QUICK_GELU},
        {"gelu", ACTIVATION_GELU},
        {"gelu_pytorch_tanh", ACTIVATION_GELU_TANH}};
    static const char projection[] = TENSOR_DENSE_2 TENSOR_WEIGHT;
    char pooling[8];
    *r->config = (struct model_config){.activation = tower->activation,
                                       .pooling = tower->pooling,
                                       .sees_all = tower->sees_all,
                                       .has_bias = true};
    TRY(decoder_read_sizes(r));
    TRY(config_read_norm_epsilon(r, "attention.layer_norm_epsilon"));
    TRY(decoder_read_activation(r, activations, sizeof activations / sizeof *activations));
    TRY(config_refuse_others(r, "attention.sliding_window", "0"));
    snprintf(pooling, sizeof pooling, "%d", (int)tower->pooling);
    TRY(config_refuse_others(r, "pooling_type", pooling));
    if (tower->projects && !directory_find_tensor(r->dir, projection))
        return fail(r->error, WISP_ERROR_NOT_FOUND, r->dir->file, projection,
                    "the projection of %s is missing",
                    tower->pooling == POOLING_LAST ? "texts" : "images");
    return decoder_refuse_caps(r);
}

static const char image_name[] = "clip.vision"; /* of SigLIP, too, as in llama.cpp's files */

#define READ_TOWER(name, family, tower)                                                            \
    static wisp_status name(const struct directory *dir, struct model_config *config,              \
                            wisp_error *error) {                                                   \
        return read_tower(&(struct config_reader){dir, family, config, error}, tower);             \
    }
READ_TOWER(clip_read_config, "clip", &clip_texts)
READ_TOWER(clip_image_read_config, image_name, &clip_images)
READ_TOWER(siglip_read_config, "siglip", &siglip_texts)
READ_TOWER(siglip_image_read_config, image_name, &siglip_images)

static const char *const tensors[] = {"token_embd", "position_embd", "output_norm", NULL};
static const char *const clip_image_tensors[] = {"patch_embd", "class_embd",  "position_embd",
                                                 "pre_ln",     "output_norm", NULL};
static const char *const siglip_image_tensors[] = {"patch_embd", "position_embd", "output_norm",
                                                   ATTENTION_POOL_TENSORS, NULL};
static const char *const layer_tensors[] = {"attn_norm",   "attn_q",        "attn_k",
                                            "attn_v",      "attn_output",   "ffn_norm",
                                            TENSOR_FFN_UP, TENSOR_FFN_DOWN, NULL};

/* The members that all towers share. */
#define TOWER                                                                                      \
    .norms_first = true, .layer_tensors = layer_tensors,                                           \
    .weights_bytes = sizeof(struct gpt2_weights), .layer_bytes = sizeof(struct gpt2_layer),        \
    .linears = gpt2_linears, .load = gpt2_load, .load_layer = gpt2_load_layer,                     \
    .release = gpt2_release, .attention = decoder_attention_shape, .take = decoder_take,           \
    .rope = gpt2_rope
#define TEXT_TOWER TOWER, .tensors = tensors, .others = CLIP_IMAGE_PREFIX, .step = clip_step
#define IMAGE_TOWER TOWER, .name = image_name, .takes_hidden = true, .step = image_step

/* Their tensors have the prefix "v." in the file, and the names here without it (engine/images.h).
 * A pass begins with the states of patches, in CLIP behind that of a class, whose last hidden state
 * is the embedding, projected. */
static const struct architecture clip_image_tower = {IMAGE_TOWER, .tensors = clip_image_tensors,
                                                     .read_config = clip_image_read_config};
static const struct architecture siglip_image_tower = {IMAGE_TOWER, .tensors = siglip_image_tensors,
                                                       .has_probe = true,
                                                       .read_config = siglip_image_read_config};
const struct architecture architecture_clip = {
    TEXT_TOWER, .name = "clip", .images = &clip_image_tower, .read_config = clip_read_config};
const struct architecture architecture_siglip = {
    TEXT_TOWER, .name = "siglip", .images = &siglip_image_tower, .read_config = siglip_read_config};
