/* SPDX-License-Identifier: Apache-2.0 */
#include "models/latent_attention.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "models/linears.h"
#include "models/norms_load.h"

/* The class gives the norms of latents this epsilon, whatever that of other norms is. */
#define LATENT_EPSILON 1e-6f

/* ---- the weights ---------------------------------------------------------------------------- */

size_t latent_attention_linears(const struct model_config *c, struct latent_attention *weights,
                                struct linear_entry *out) {
    const struct latent_config *l = &c->latent;
    struct linear_entry *at = out;
    if (l->q_rank > 0)
        *at++ = (struct linear_entry){
            .linear = &weights->q_a, .names = {"attn_q_a"}, .n = l->q_rank, .k = c->hidden_size};
    *at++ = (struct linear_entry){.linear = &weights->q_b,
                                  .names = {l->q_rank > 0 ? "attn_q_b" : "attn_q"},
                                  .n = (size_t)c->heads * l->key_size,
                                  .k = l->q_rank > 0 ? l->q_rank : c->hidden_size,
                                  .norm = l->q_rank > 0 ? "attn_q_a_norm" : NULL,
                                  .norm_epsilon = LATENT_EPSILON};
    *at++ = (struct linear_entry){.linear = &weights->kv_a,
                                  .names = {"attn_kv_a_mqa"},
                                  .n = c->head_size,
                                  .k = c->hidden_size};
    *at++ = (struct linear_entry){.linear = &weights->output,
                                  .names = {"attn_output"},
                                  .n = c->hidden_size,
                                  .k = (size_t)c->heads * l->value_size,
                                  .role = LINEAR_ENDS};
    for (struct linear_entry *entry = out; entry < at; entry++)
        entry->block = PASS_ATTENTION;
    return (size_t)(at - out);
}

/* Loads a matrix of each head. */
static wisp_status load_heads(struct network *network, uint32_t layer, const char *part, size_t n,
                              size_t k, struct linear **heads, wisp_error *error) {
    const uint32_t count = network->config.heads;
    char name[TENSOR_NAME_BYTES];
    const char *const names[] = {layer_tensor_name(name, layer, part, "")};
    *heads = calloc(count, sizeof **heads);
    if (!*heads)
        return fail_memory(error, count * sizeof **heads);
    for (uint32_t h = 0; h < count; h++) {
        const struct linear_source source = {.dir = network->dir,
                                             .names = names,
                                             .unbiased = true,
                                             .parts = 1,
                                             .n = n,
                                             .k = k,
                                             .matrices = count,
                                             .matrix = h};
        TRY(linear_load(&(*heads)[h], &source, network->kernels, network->compute, error));
        network->resident_bytes += (*heads)[h].bytes;
        network_tally(network, &(*heads)[h], 1);
    }
    return WISP_OK;
}

wisp_status latent_attention_load(struct network *network, uint32_t layer,
                                  struct latent_attention *weights, wisp_error *error) {
    const struct model_config *c = &network->config;
    const size_t rank = c->latent.rank;
    TRY(load_layer_rms_norm(network, layer, "attn_kv_a_norm", rank, &weights->norm, error));
    TRY(load_heads(network, layer, "attn_k_b", rank, c->latent.key_size - c->rotary_size,
                   &weights->k_b, error));
    return load_heads(network, layer, "attn_v_b", c->latent.value_size, rank, &weights->v_b, error);
}

static void release_heads(const struct model_config *c, struct linear *heads) {
    for (uint32_t h = 0; heads && h < c->heads; h++)
        linear_release(&heads[h]);
    free(heads);
}

void latent_attention_release(const struct model_config *c, struct latent_attention *weights) {
    release_heads(c, weights->k_b);
    release_heads(c, weights->v_b);
    memory_free(weights->norm);
}

/* ---- the pass ------------------------------------------------------------------------------- */

/* Heads [first, first + n) of tokens, of which a member computes what single heads have: all heads
 * of its tokens, or its share of the heads of all tokens. */
struct part {
    struct pass_tokens tokens;
    struct pass_outputs heads;
};

static struct part part_of(const struct pass *pass, uint32_t member) {
    const uint32_t heads = pass->network->config.heads;
    if (!pass->by_outputs)
        return (struct part){pass_tokens(pass, member), {0, heads}};
    return (struct part){{0, pass->tokens}, pass_share(pass, member, heads, 1)};
}

/* Computes y = W x for each head of the part. Heads are x_size floats apart in x, and y_size in y;
 * a token has all of them. */
static void apply_heads(const struct pass *pass, uint32_t member, const struct linear *matrices,
                        struct part part, const float *x, size_t x_size, float *y, size_t y_size) {
    const size_t heads = pass->network->config.heads;
    const struct decoder_state *s = pass->state;
    for (size_t h = part.heads.first; h < part.heads.first + part.heads.n; h++)
        for (size_t t = part.tokens.first; t < part.tokens.first + part.tokens.n; t++)
            linear_apply(&matrices[h], x + (t * heads + h) * x_size, 1,
                         y + (t * heads + h) * y_size, s->scratch[member]);
}

/* Makes the one key and value of each of the member's tokens: the rotated part, which rotates
 * later, and the norm of the latent. */
static void make_keys(const struct pass *pass, uint32_t member,
                      const struct latent_attention *weights, const float *latents) {
    const struct model_config *c = &pass->network->config;
    const struct decoder_state *s = pass->state;
    const size_t rank = c->latent.rank, rotated = c->rotary_size, size = c->head_size;
    const struct pass_tokens own = decoder_tokens(pass, member);
    for (size_t t = own.first; t < own.first + own.n; t++) {
        float *key = s->kv + t * s->kv_stride;
        memcpy(key, latents + t * size + rank, rotated * sizeof *key);
        pass->network->kernels->rms_norm(latents + t * size, weights->norm, LATENT_EPSILON, 1, rank,
                                         key + rotated);
        memcpy(key + size, key, size * sizeof *key);
    }
}

/* Makes the queries of the part: of each head the rotated part, which rotates later, and what meets
 * latents. */
static void make_queries(const struct pass *pass, uint32_t member, struct part part,
                         const struct latent_attention *weights, const float *heads_of_tokens) {
    const struct model_config *c = &pass->network->config;
    const struct decoder_state *s = pass->state;
    const size_t key_size = c->latent.key_size, rotated = c->rotary_size;
    for (size_t t = part.tokens.first; t < part.tokens.first + part.tokens.n; t++)
        for (size_t h = part.heads.first; h < part.heads.first + part.heads.n; h++)
            memcpy(s->q + (t * c->heads + h) * c->head_size,
                   heads_of_tokens + (t * c->heads + h + 1) * key_size - rotated,
                   rotated * sizeof *s->q);
    apply_heads(pass, member, weights->k_b, part, heads_of_tokens, key_size, s->q + rotated,
                c->head_size);
}

/* Between dense layers arrays that hold something else later have room: the latents of keys lie
 * where queries come, what queries are made of where the block's result and that of attention come,
 * and values where the queries were. deepseek2.c checks that they fit. */
wisp_status latent_attention_run(struct pass *pass, uint32_t member, struct cursor at,
                                 const struct latent_attention *weights, const struct rope *rope,
                                 wisp_error *error) {
    static const struct decoder_attention plain = {0};
    const struct model_config *c = &pass->network->config;
    const struct decoder_state *s = pass->state;
    const struct part part = part_of(pass, member);
    const bool has_q_a = c->latent.q_rank > 0;
    wisp_status status = decoder_linear(pass, member, at, &weights->kv_a, s->x, s->q, error);
    if (status == WISP_OK && has_q_a)
        status = decoder_linear(pass, member, at, &weights->q_a, s->x, s->y, error);
    decoder_end_stage(pass, member, at, STAGE_QKV);
    make_keys(pass, member, weights, s->q);
    if (status == WISP_OK)
        status = decoder_linear(pass, member, at, &weights->q_b, has_q_a ? s->y : s->x, s->context,
                                error);
    pass_mark(pass, member, at, STAGE_QKV);
    pass_barrier(pass, member, at); /* the latents of all members have been read */
    make_queries(pass, member, part, weights, s->context);
    decoder_end_stage(pass, member, at, STAGE_QKV);
    status = decoder_attend(pass, member, at, &plain, rope, status, error);
    if (!pass->by_outputs)
        pass_barrier(pass, member, at); /* the queries of all members have been read */
    apply_heads(pass, member, weights->v_b, part, s->context + c->rotary_size, c->head_size, s->q,
                c->latent.value_size);
    decoder_end_stage(pass, member, at, STAGE_ATTENTION);
    if (status == WISP_OK)
        status = decoder_linear(pass, member, at, &weights->output, s->q, s->y, error);
    decoder_end_stage(pass, member, at, STAGE_ATTENTION_OUTPUT);
    return pass_join_status(pass, member, at, status, error);
}
