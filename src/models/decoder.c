/* SPDX-License-Identifier: Apache-2.0 */
#include "models/decoder.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "base/number_text.h"
#include "models/encoder.h"
#include "models/linears.h"
#include "models/norms_load.h"

/* Returns the floats of a token's queries, of all heads. */
static size_t q_size(const struct model_config *c) {
    return (size_t)c->heads * c->head_size;
}

/* Returns the floats of a token's keys, of all heads, which its values have too. */
static size_t kv_size(const struct model_config *c) {
    return (size_t)c->kv_heads * c->head_size;
}

/* Takes the tables of rotations that a model which embeds needs, and fills them in a pass. */
static void take_rope(const struct network *network, size_t longest, struct workspace *space,
                      const struct pass *pass, struct decoder_state *s) {
    const size_t head_size = network->config.head_size;
    struct rope rope;
    network->architecture->rope(network, &rope);
    const size_t tables = rope_tables(&rope);
    s->rope = workspace_take(space, tables * longest, head_size, sizeof *s->rope);
    if (pass)
        fill_rope_tables(&rope, head_size, longest, s->rope);
    s->other_rope = pass && tables > 1 ? s->rope + longest * head_size : NULL;
}

void decoder_take(const struct network *network, const struct pass_size *size,
                  struct workspace *space, struct pass *pass) {
    const struct model_config *c = &network->config;
    const size_t tokens = size->tokens, hidden_size = c->hidden_size;
    const size_t rows = smaller(tokens, PASS_TILE_TOKENS); /* member 0 computes all logits */
    size_t scratch_bytes =
        larger(feed_forward_workspace_bytes(network, rows), pass_attention_bytes(network, size));
    /* The result of a convolution is where that of attention is. */
    const size_t context_size = c->conv_taps > 0 ? larger(q_size(c), hidden_size) : q_size(c);
    scratch_bytes =
        larger(scratch_bytes, linear_workspace_bytes(rows, context_size) +
                                  (c->has_sub_norms || c->latent.rank > 0
                                       ? linear_norm_bytes(larger(context_size, hidden_size))
                                       : 0));
    struct decoder_state measured = {0}, *s = workspace_take(space, 1, 1, sizeof *s);
    s = s ? s : &measured;
    s->kv_stride = 2 * kv_size(c) + (c->fused_qkv ? q_size(c) : 0);
    s->q_stride = c->fused_qkv ? s->kv_stride : q_size(c);
    s->inner_size = larger(s->kv_stride, feed_forward_inner_size(c));
    if (c->conv_taps > 0)
        s->inner_size = larger(s->inner_size, 3 * hidden_size);
    s->h = workspace_take(space, tokens, hidden_size, sizeof *s->h);
    s->x = workspace_take(space, tokens, hidden_size, sizeof *s->x);
    s->y = workspace_take(space, tokens, hidden_size, sizeof *s->y);
    if (!c->fused_qkv)
        s->q = workspace_take(space, tokens, q_size(c), sizeof *s->q);
    s->context = workspace_take(space, tokens, context_size, sizeof *s->context);
    s->inner = s->kv = workspace_take(space, tokens, s->inner_size, sizeof *s->inner);
    if (config_embeds(c))
        take_rope(network, size->longest, space, pass, s);
    s->feed_forward = feed_forward_take(network, size, space, pass);
    const struct attention_policy *prefill = size->attention.prefill;
    s->plan_bytes = prefill->plan_bytes ? prefill->plan_bytes(size->longest) : 0;
    s->plans = workspace_take(space, size->texts * c->kv_heads, s->plan_bytes, 1);
    for (uint32_t i = 0; i < size->members; i++)
        s->scratch[i] = workspace_part(space, scratch_bytes);
    if (!pass)
        return;
    if (c->fused_qkv) {
        s->q = s->inner;
        s->kv = s->inner + q_size(c);
    }
    pass->x = s->x;
    pass->hidden = s->h;
    pass->state = s;
}

struct pass_tokens decoder_tokens(const struct pass *pass, uint32_t member) {
    if (pass->by_outputs && member > 0)
        return (struct pass_tokens){0};
    return pass_tokens(pass, member);
}

void decoder_end_stage(const struct pass *pass, uint32_t member, struct cursor at,
                       enum stage stage) {
    pass_mark(pass, member, at, stage);
    if (pass->by_outputs)
        pass_barrier(pass, member, at);
}

/* Multiplies n values, unless the factor is 0, which stands for none. */
static void scale(float *x, size_t n, float factor) {
    for (size_t i = 0; factor != 0 && i < n; i++)
        x[i] *= factor;
}

wisp_status decoder_look_up(const struct pass *pass, wisp_error *error) {
    const struct network *network = pass->network;
    const struct decoder_state *s = pass->state;
    for (size_t t = 0; t < pass->tokens; t++)
        TRY(token_embedding_row(&network->tokens, pass->batch.ids[t], pass->member[0].tokens,
                                s->inner, s->h + t * network->config.hidden_size, error));
    scale(s->h, pass->tokens * network->config.hidden_size, network->config.embedding_scale);
    return WISP_OK;
}

wisp_status decoder_linear(const struct pass *pass, uint32_t member, struct cursor at,
                           const struct linear *layer, const float *x, float *y,
                           wisp_error *error) {
    const struct decoder_state *s = pass->state;
    const struct workspace scratch = s->scratch[member];
    const struct pass_tokens own = pass_tokens(pass, member);
    if (!pass->by_outputs)
        return pass_apply_linear(pass, at, layer, x + own.first * layer->k, own.n,
                                 y + own.first * layer->n, scratch, error);
    pass_apply_outputs(pass, member, layer, x, pass->tokens, y, scratch);
    return WISP_OK;
}

void decoder_normalize(const struct pass *pass, struct pass_tokens own, const float *weight) {
    const struct model_config *c = &pass->network->config;
    const struct decoder_state *s = pass->state;
    const size_t at = own.first * c->hidden_size;
    if (!weight)
        memcpy(s->x + at, s->h + at, own.n * c->hidden_size * sizeof *s->x);
    else
        pass->network->kernels->rms_norm(s->h + at, weight, c->norm_epsilon, own.n, c->hidden_size,
                                         s->x + at);
}

void decoder_add_and_norm(const struct pass *pass, uint32_t member, struct cursor at,
                          const float *post, const float *next) {
    const struct model_config *c = &pass->network->config;
    const struct kernels *kernels = pass->network->kernels;
    const struct decoder_state *s = pass->state;
    const struct pass_tokens own = decoder_tokens(pass, member);
    const size_t size = c->hidden_size;
    float *y = s->y + own.first * size;
    if (post)
        kernels->rms_norm(y, post, c->norm_epsilon, own.n, size, y);
    scale(y, own.n * size, c->residual_scale);
    kernels->add(s->h + own.first * size, y, own.n * size);
    decoder_normalize(pass, own, next);
    pass_mark(pass, member, at, STAGE_NORM);
}

wisp_status decoder_feed_forward(struct pass *pass, uint32_t member, struct cursor at,
                                 wisp_error *error) {
    const struct decoder_state *s = pass->state;
    const size_t first = pass_tokens(pass, member).first;
    if (!pass->by_outputs) {
        const wisp_status status = feed_forward_run(
            pass, member, at, &s->feed_forward, s->inner + first * s->inner_size,
            s->y + first * pass->network->config.hidden_size, s->scratch[member], error);
        return pass_join_status(pass, member, at, status, error);
    }
    TRY(feed_forward_run_outputs(pass, member, at, s->inner, s->y, s->scratch[member], error));
    pass_barrier(pass, member, at);
    return WISP_OK;
}

/* Computes the logits of decoder_output. */
static wisp_status compute_logits(const struct pass *pass, uint32_t member, struct cursor at,
                                  const struct linear *logits, wisp_error *error) {
    const struct network *network = pass->network;
    const struct decoder_state *s = pass->state;
    const struct batch *batch = &pass->batch;
    const float cap = network->config.logit_cap;
    const struct workspace scratch = s->scratch[member];
    const size_t rows = batch->all_logits ? pass->tokens : batch->texts, size = logits->k;
    struct pass_outputs own = {0, logits->n};
    if (!pass->by_outputs && member > 0) /* member 0 computes them all */
        return WISP_OK;
    if (!pass->by_outputs) {
        /* The rows are together, so that the weights are read once for all texts. */
        for (size_t i = 0; i < rows && !batch->all_logits; i++)
            memcpy(s->y + i * size, pass->x + (batch->starts[i + 1] - 1) * size,
                   size * sizeof *s->y);
        TRY(pass_apply_linear(pass, at, logits, batch->all_logits ? pass->x : s->y, rows,
                              pass->rows, scratch, error));
    } else if (rows == pass->tokens) {
        own = pass_apply_outputs(pass, member, logits, pass->x, rows, pass->rows, scratch);
    } else {
        for (size_t i = 0; i < rows; i++)
            own = pass_apply_outputs(pass, member, logits,
                                     pass->x + (batch->starts[i + 1] - 1) * size, 1,
                                     pass->rows + i * logits->n, scratch);
    }
    for (size_t i = 0; i < rows; i++)
        scale(pass->rows + i * logits->n + own.first, own.n, network->config.logit_scale);
    for (size_t i = 0; i < rows && cap > 0 && own.n > 0; i++)
        network->kernels->soft_cap(pass->rows + i * logits->n + own.first, own.n, 1, cap);
    return WISP_OK;
}

/* Writes the last row of each text to pass->rows. */
static void pool_last(const struct pass *pass) {
    const size_t size = pass->network->config.hidden_size;
    for (size_t i = 0; i < pass->batch.texts; i++)
        memcpy(pass->rows + i * size, pass->x + (pass->batch.starts[i + 1] - 1) * size,
               size * sizeof *pass->x);
}

wisp_status decoder_output(const struct pass *pass, uint32_t member, struct cursor at,
                           const struct linear *logits, wisp_error *error) {
    const struct model_config *c = &pass->network->config;
    if (!config_embeds(c)) {
        TRY(compute_logits(pass, member, at, logits, error));
        pass_mark(pass, member, at, STAGE_LOGITS);
        return WISP_OK;
    }
    if (member > 0)
        return WISP_OK;
    if (c->pooling == POOLING_LAST)
        pool_last(pass);
    else
        encoder_pool(pass);
    pass_mark(pass, member, at, STAGE_POOL);
    return WISP_OK;
}

/* ---- the weights ---------------------------------------------------------------------------- */

size_t decoder_logits_linear(const struct network *network, struct linear *logits,
                             struct linear_entry *out) {
    const bool tied = !directory_find_tensor(network->dir, "output.weight");
    if (config_embeds(&network->config))
        return 0;
    *out = (struct linear_entry){.linear = logits,
                                 .names = {tied ? "token_embd" : "output"},
                                 .n = network->config.vocabulary_size,
                                 .k = network->config.hidden_size,
                                 .block = PASS_OUTPUT,
                                 .role = LINEAR_LOGITS};
    return 1;
}

/* Reads a tensor of factors [rotary_size / 2], by which the angles of pairs are divided. */
static wisp_status read_factors(const struct network *network, const char *name, float **factors,
                                wisp_error *error) {
    const size_t pairs = network->config.rotary_size / 2;
    TRY(directory_load_floats(network->dir, name, 1, pairs, factors, error));
    for (size_t i = 0; i < pairs; i++)
        if (!((*factors)[i] >= 1))
            return fail(error, WISP_ERROR_FORMAT, network->dir->file, name,
                        "factor %zu is %s, but must be at least 1", i,
                        number_text((double)(*factors)[i], 6).text);
    return WISP_OK;
}

/* Returns the index of the pair that turns `turns` times in the context. It is a fraction if the
 * number of turns is between those of two pairs. */
static double pair_of_turns(const struct model_config *c, double turns) {
    static const double pi = 3.14159265358979323846;
    return (double)c->rotary_size * log((double)c->yarn.context / (turns * 2 * pi)) /
           (2 * log((double)c->rope_theta));
}

/* Divides the angles of each pair by c->rope_divisor, or by the share of it that YaRN gives the
 * pair. */
static void scale_pairs(const struct model_config *c, float *factors) {
    const double divisor = (double)c->rope_divisor;
    double first = -2, last = -1; /* pairs up to `first` keep their angles, and those from `last` on
                                     have them divided */
    if (c->yarn.context > 0) {
        first = pair_of_turns(c, (double)c->yarn.beta_fast);
        last = pair_of_turns(c, (double)c->yarn.beta_slow);
        first = fmax(c->yarn.between_pairs ? first : floor(first), 0);
        last = fmin(c->yarn.between_pairs ? last : ceil(last), (double)c->rotary_size - 1);
        if (first == last)
            last += 0.001;
    }
    for (size_t i = 0; i < c->rotary_size / 2; i++) {
        const double share = fmin(fmax(((double)i - first) / (last - first), 0), 1);
        factors[i] *= share == 1 ? c->rope_divisor : (float)(1 / (share / divisor + 1 - share));
    }
}

/* Sets the rotations of the model, whose factors struct decoder_weights owns. */
static wisp_status load_rope(const struct network *network, struct decoder_weights *weights,
                             wisp_error *error) {
    static const char all[] = "rope_freqs.weight", of_short[] = "rope_factors_short.weight",
                      of_long[] = "rope_factors_long.weight";
    const struct model_config *c = &network->config;
    const size_t pairs = c->rotary_size / 2;
    const char *other = c->long_after > 0 ? all : of_short;
    float **factors = &weights->rope_factors;
    if (directory_find_tensor(network->dir, other))
        return fail(error, WISP_ERROR_UNSUPPORTED, network->dir->file, other,
                    "factors that do not match the type of rope.scaling");
    if (c->long_after > 0) {
        TRY(read_factors(network, of_short, factors, error));
        TRY(read_factors(network, of_long, &weights->long_factors, error));
    } else if (directory_find_tensor(network->dir, all)) {
        TRY(read_factors(network, all, factors, error));
    } else if (c->rope_divisor != 1) {
        *factors = memory_allocate(pairs * sizeof **factors);
        if (!*factors)
            return fail_memory(error, pairs * sizeof **factors);
        for (size_t i = 0; i < pairs; i++)
            (*factors)[i] = 1;
    }
    if (*factors && c->long_after == 0)
        scale_pairs(c, *factors);
    weights->rope = (struct rope){.theta = c->rope_theta,
                                  .rotated = c->rotary_size,
                                  .factors = *factors,
                                  .long_factors = weights->long_factors,
                                  .pairs = c->rope_pairs,
                                  .attention_factor = c->rope_length,
                                  .local_theta = c->local_rope_theta};
    return WISP_OK;
}

wisp_status decoder_weights_load(struct network *network, const char *output_norm,
                                 struct decoder_weights *weights, wisp_error *error) {
    TRY(load_rope(network, weights, error));
    return load_rms_norm(network, output_norm, network->config.hidden_size, &weights->output_norm,
                         error);
}

void decoder_weights_release(struct decoder_weights *weights) {
    memory_free(weights->output_norm);
    memory_free(weights->rope_factors);
    memory_free(weights->long_factors);
}

void decoder_rope(const struct network *network, struct rope *rope) {
    *rope = ((const struct decoder_weights *)network->weights)->rope;
}
