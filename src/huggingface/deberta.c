/* SPDX-License-Identifier: Apache-2.0
 * DebertaV2Model, which DeBERTa-v2 and v3 are: BERT whose attention is disentangled. */
#include <string.h>

#include "formats/schema.h"
#include "huggingface/encoders.h"

#define KEY(name) "deberta-v2." name

static const char positions_field[] = "position_biased_input";

/* Returns whether a list "a|b", of names with spaces around them, has only names that are known,
 * and sets found[i] if it has known[i]. */
static bool find_names(const char *list, const char *const *known, bool *found) {
    for (const char *at = list; at; at = strchr(at, '|'), at = at ? at + 1 : NULL) {
        at += strspn(at, " ");
        size_t length = strcspn(at, "|"), i = 0;
        while (length > 0 && at[length - 1] == ' ')
            length--;
        while (known[i] && (strlen(known[i]) != length || strncmp(known[i], at, length) != 0))
            i++;
        if (!known[i])
            return false;
        found[i] = true;
    }
    return true;
}

/* Adds the parts of scores that pos_att_type names, as one text or a list of texts. */
static wisp_status put_parts(struct directory *dir, const struct hf_config *config,
                             wisp_error *error) {
    static const char field[] = "pos_att_type";
    static const char *const known[] = {"c2p", "p2c", NULL};
    const struct json *given = json_get(config->root, field);
    const bool is_list = json_is(given, JSON_ARRAY);
    bool found[2] = {false, false};
    for (const struct json *e = is_list ? given->first : given; e && !json_is_absent(given);
         e = is_list ? e->next : NULL)
        if (!json_is(e, JSON_STRING) || !find_names(e->text, known, found))
            return hf_unsupported_setting(config, field, e, "c2p and p2c", error);
    TRY(directory_put_bool(dir, KEY("attention.content_to_position"), found[0], error));
    return directory_put_bool(dir, KEY("attention.position_to_content"), found[1], error);
}

/* Reads a number that is not positive if there is none. */
static wisp_status read_count(const struct hf_config *config, const char *field, uint32_t *count,
                              wisp_error *error) {
    const struct json *given = json_get(config->root, field);
    int64_t value = 0;
    if (given && (!json_to_i64(given, &value) || value > UINT32_MAX))
        return fail(error, WISP_ERROR_FORMAT, config->file, field, "%.32s is not a whole number",
                    hf_shown(given));
    *count = value > 0 ? (uint32_t)value : 0;
    return WISP_OK;
}

/* Adds how distances share embeddings. Without relative_attention they have none. */
static wisp_status put_distances(struct directory *dir, const struct hf_config *config,
                                 wisp_error *error) {
    static const char *const norms[] = {"none", "layer_norm", NULL};
    static const char norm_field[] = "norm_rel_ebd";
    static const struct hf_field all_positions = {"max_position_embeddings", NULL, NULL};
    const struct json *norm = json_get(config->root, norm_field);
    bool is_relative = false, shares = false, found[2] = {false, false};
    uint32_t buckets, most, positions;
    if (!hf_read_bool(config->root, "relative_attention", &is_relative) ||
        !hf_read_bool(config->root, "share_att_key", &shares))
        return fail(error, WISP_ERROR_FORMAT, config->file, "relative_attention, share_att_key",
                    "expected true or false");
    if (norm && (!json_is(norm, JSON_STRING) || !find_names(norm->text, norms, found)))
        return hf_unsupported_setting(config, norm_field, norm, "layer_norm and none", error);
    if (!is_relative)
        return WISP_OK;
    TRY(read_count(config, "position_buckets", &buckets, error));
    TRY(read_count(config, "max_relative_positions", &most, error));
    TRY(hf_read_size_or(config, &all_positions, 0, &positions, error));
    TRY(directory_put_u32(dir, KEY("attention.relative_buckets_count"), buckets, error));
    TRY(directory_put_u32(dir, KEY("attention.max_relative_positions"), most ? most : positions,
                          error));
    TRY(directory_put_bool(dir, KEY("attention.relative_norm"), found[1], error));
    return directory_put_bool(dir, KEY("attention.relative_own"), !shares, error);
}

/* Refuses what v2-xlarge adds, a convolution, and embeddings or heads of other sizes. */
static wisp_status check_sizes(const struct hf_config *config, wisp_error *error) {
    static const struct hf_field hidden_size = {"hidden_size", NULL, NULL};
    static const struct hf_field heads = {"num_attention_heads", NULL, NULL};
    static const char kernel[] = "conv_kernel_size", *const optional[] = {"embedding_size",
                                                                          "attention_head_size"};
    uint32_t taps, size, n, given;
    TRY(read_count(config, kernel, &taps, error));
    if (taps > 0)
        return fail(error, WISP_ERROR_UNSUPPORTED, config->file, kernel,
                    "a convolution beside the first layer, of %u tokens, is not supported", taps);
    TRY(hf_read_size_or(config, &hidden_size, 0, &size, error));
    TRY(hf_read_size_or(config, &heads, 0, &n, error));
    for (size_t i = 0; i < 2; i++) {
        const struct hf_field field = {optional[i], NULL, NULL};
        const uint32_t usual = i == 0 ? size : size / n;
        TRY(hf_read_size_or(config, &field, usual ? usual : 1, &given, error));
        if (given != usual)
            return fail(error, WISP_ERROR_UNSUPPORTED, config->file, optional[i],
                        "%u is not supported, only %u", given, usual);
    }
    return WISP_OK;
}

/* Reads whether positions have embeddings. */
static bool read_positions(const struct hf_config *config, bool *has_positions) {
    *has_positions = true;
    return hf_read_bool(config->root, positions_field, has_positions);
}

static wisp_status read_config(struct directory *dir, const struct hf_config *config,
                               wisp_error *error) {
    uint32_t types;
    bool has_positions;
    if (!json_get(config->root, "layer_norm_eps")) /* whose default is not that of others */
        return fail(error, WISP_ERROR_NOT_FOUND, config->file, "layer_norm_eps",
                    "the key is missing");
    TRY(check_sizes(config, error));
    TRY(read_count(config, "type_vocab_size", &types, error));
    TRY(directory_put_u32(dir, "tokenizer.ggml.token_type_count", types, error));
    TRY(hf_put_bert(dir, config, "deberta-v2", "absolute", 0, error));
    if (!read_positions(config, &has_positions))
        return fail(error, WISP_ERROR_FORMAT, config->file, positions_field,
                    "expected true or false");
    TRY(directory_put_bool(dir, KEY("position_embeddings"), has_positions, error));
    TRY(put_parts(dir, config, error));
    return put_distances(dir, config, error);
}

/* Files of pretraining have embeddings of positions in any case. */
static bool drops(const struct hf_config *config, const struct tensor *tensor) {
    bool has_positions;
    return strcmp(tensor->name, "position_embd.weight") == 0 &&
           read_positions(config, &has_positions) && !has_positions;
}

static const struct hf_name names[] = {
    {"embeddings.word_embeddings.", "token_embd.", false},
    {"embeddings.position_embeddings.", "position_embd.", false},
    {"embeddings.token_type_embeddings.", "token_types.", false},
    {"embeddings.LayerNorm.", "token_embd_norm.", false},
    {"encoder.rel_embeddings.", "attn_rel_embd.", true},
    {"encoder.LayerNorm.", "attn_rel_norm.", false},
    {0},
};

static const struct hf_name layer_names[] = {
    {"attention.self.query_proj.", "attn_q.", false},
    {"attention.self.key_proj.", "attn_k.", false},
    {"attention.self.value_proj.", "attn_v.", false},
    {"attention.self.pos_query_proj.", "attn_rel_q.", false},
    {"attention.self.pos_key_proj.", "attn_rel_k.", false},
    {"attention.output.dense.", "attn_output.", false},
    {"attention.output.LayerNorm.", "attn_output_norm.", false},
    {"intermediate.dense.", TENSOR_FFN_UP ".", false},
    {"output.dense.", TENSOR_FFN_DOWN ".", false},
    {"output.LayerNorm.", "layer_output_norm.", false},
    {0},
};

const struct hf_encoder hf_deberta_v2 = {.type = "deberta-v2",
                                         .prefixes = {"deberta."},
                                         .architecture = "deberta-v2",
                                         .tensors = {"encoder.layer.", names, layer_names},
                                         .read_config = read_config,
                                         .drops = drops};
