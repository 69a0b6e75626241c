/* SPDX-License-Identifier: Apache-2.0
 * GptOssForCausalLM. Its folders hold the matrices of all experts in one tensor, with the rows of
 * W_gate and W_up in turns: packed as MXFP4, or as floats with outputs in columns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/schema.h"
#include "huggingface/decoders.h"
#include "huggingface/experts.h"
#include "huggingface/transposed.h"
#include "huggingface/window_config.h"

/* ---- config.json ---------------------------------------------------------------------------- */

/* Refuses a config.json without settings for which the class has values of its own, unlike those of
 * other classes. */
static wisp_status require_settings(const struct hf_config *config, wisp_error *error) {
    static const char window[] = "sliding_window", truncate[] = "truncate";
    struct hf_rope_scaling rope;
    TRY(hf_find_rope_scaling(config, &rope, error));
    const bool lacks_truncate =
        json_equals(rope.type, "yarn") && !json_get(rope.own.root, truncate);
    if (json_get(config->root, window) && rope.own.root && !lacks_truncate)
        return WISP_OK;
    return fail(error, WISP_ERROR_NOT_FOUND, config->file,
                lacks_truncate                   ? truncate
                : json_get(config->root, window) ? rope.field
                                                 : window,
                "this is missing");
}

static wisp_status read_gpt_oss(struct directory *dir, const struct hf_decoder *decoder,
                                const struct hf_config *config, wisp_error *error) {
    static const char limit[] = "swiglu_limit";
    static const struct hf_setting settings[] = {{"attention_bias", JSON_TRUE}, {0}};
    static const char *const silu[] = {"silu"};
    static const struct hf_size size = {"intermediate_size", NULL, "expert_feed_forward_length", 0};
    const struct json *given = json_get(config->root, limit);
    double bound = 7;
    TRY(hf_check_settings(config, settings, error));
    TRY(require_settings(config, error));
    if (given && (!json_to_double(given, &bound) || bound != 7))
        return hf_unsupported_setting(config, limit, given, "7", error);
    TRY(hf_put_activation(dir, config, "hidden_act", silu, 1, error));
    TRY(hf_put_experts(dir, decoder, config, true, error));
    TRY(hf_put_sizes(dir, decoder, config, &size, 1, error));
    TRY(hf_put_periodic_windows(dir, config, decoder->architecture, 2, false, error));
    return hf_put_decoder(dir, decoder, config, error);
}

/* ---- tensors of experts --------------------------------------------------------------------- */

/* Which rows a tensor has of those that a folder's tensor holds for each expert: the row `first`
 * and each of `step` from there on. */
struct turns {
    uint64_t first, step;
};

static wisp_status wrong_shape(const struct directory *dir, const struct tensor *tensor,
                               wisp_error *error) {
    return fail(error, WISP_ERROR_FORMAT, dir->sources[tensor->source].name, tensor->name,
                "not of the shape of experts");
}

/* Matrices in MXFP4 as folders have them: the codes of all rows, a block's 32 in 16 bytes, and
 * apart from them the exponents of blocks. */
struct packed {
    struct tensor codes, exponents; /* whose rows are those of the matrices */
    struct turns turns;
};

enum { CODES = 16, BLOCK = 32, STORED_BLOCK = 1 + CODES };

/* Writes blocks as GGUF has them, whose byte j holds codes j and j + 16 rather than 2j and 2j + 1.
 */
static void write_blocks(const unsigned char *codes, const unsigned char *exponents, size_t blocks,
                         unsigned char *out) {
    for (; blocks > 0; blocks--, codes += CODES, out += STORED_BLOCK) {
        out[0] = *exponents++;
        for (size_t j = 0; j < CODES; j++) {
            const unsigned low = codes[j / 2] >> j % 2 * 4 & 15;
            const unsigned high = codes[j / 2 + CODES / 2] >> j % 2 * 4 & 15;
            out[1 + j] = (unsigned char)(high << 4 | low);
        }
    }
}

/* struct tensor's `make` of such matrices. */
static wisp_status make_packed(const struct directory *dir, const struct tensor *tensor,
                               uint64_t first, uint64_t rows, struct tensor_cache *cache,
                               void *buffer, const void **bytes, wisp_error *error) {
    const struct packed *p = tensor->maker;
    const uint64_t step = p->turns.step, from = first * step, n = rows * step;
    const size_t row = (size_t)p->codes.row_bytes, blocks = (size_t)p->exponents.row_bytes;
    const size_t size = (size_t)n * (row + blocks);
    unsigned char *read = malloc(size + 1);
    const void *codes, *exponents;
    (void)cache;
    if (!read)
        return fail_memory(error, size);
    wisp_status status = directory_rows(dir, &p->codes, from, n, NULL, read, &codes, error);
    if (status == WISP_OK)
        status = directory_rows(dir, &p->exponents, from, n, NULL, read + (size_t)n * row,
                                &exponents, error);
    for (uint64_t r = 0; status == WISP_OK && r < rows; r++) {
        const size_t at = (size_t)(r * step + p->turns.first);
        write_blocks((const unsigned char *)codes + at * row,
                     (const unsigned char *)exponents + at * blocks, blocks,
                     (unsigned char *)buffer + (size_t)r * (size_t)tensor->row_bytes);
    }
    free(read);
    *bytes = buffer;
    return status;
}

/* Makes matrices of "NAME_blocks" [experts, rows, blocks, 16] and "NAME_scales" [experts, rows,
 * blocks]. */
static wisp_status divide_packed(struct directory *dir, const struct tensor *whole,
                                 struct turns turns, struct tensor *made, wisp_error *error) {
    static const char ending[] = "blocks";
    char name[HF_NAME_BYTES];
    struct packed *packed;
    snprintf(name, sizeof name, "%.*sscales", (int)(strlen(whole->name) - strlen(ending)),
             whole->name);
    const struct tensor *scales = hf_find_tensor(dir, name);
    if (!scales)
        return fail(error, WISP_ERROR_NOT_FOUND, dir->file, name, "the tensor is missing");
    if (whole->n_dims != 4 || whole->dims[0] != CODES || whole->format->id != BLOCK_I8 ||
        whole->dims[2] % turns.step != 0)
        return wrong_shape(dir, whole, error);
    if (scales->n_dims != 3 || scales->format->id != BLOCK_I8 ||
        memcmp(scales->dims, whole->dims + 1, 3 * sizeof *scales->dims) != 0)
        return wrong_shape(dir, scales, error);
    ARENA_TAKE(&dir->arena, packed, 1, error);
    *packed = (struct packed){*whole, *scales, turns};
    const uint64_t blocks = whole->dims[1], rows = scales->rows;
    const struct {
        struct tensor *tensor;
        uint64_t length;
    } flat[] = {{&packed->codes, CODES * blocks}, {&packed->exponents, blocks}};
    for (size_t i = 0; i < 2; i++) {
        struct tensor *tensor = flat[i].tensor;
        tensor->n_dims = 2;
        tensor->dims[0] = flat[i].length;
        tensor->dims[1] = rows;
        tensor->dims[2] = tensor->dims[3] = 1;
        TRY(directory_check_tensor(dir, tensor, error));
    }
    made->format = block_format_by_id(BLOCK_MXFP4);
    made->n_dims = 3;
    made->dims[0] = BLOCK * blocks;
    made->dims[1] = whole->dims[2] / turns.step;
    made->dims[2] = whole->dims[3];
    made->dims[3] = 1;
    made->make = make_packed;
    made->maker = packed;
    return directory_measure_tensor(dir, made, error);
}

/* Makes matrices of floats [experts, inputs, rows]. */
static wisp_status divide_floats(struct directory *dir, const struct tensor *whole,
                                 struct turns turns, struct tensor *made, wisp_error *error) {
    struct tensor *matrices;
    if (whole->n_dims != 3 || whole->dims[0] % turns.step != 0 || whole->dims[2] > UINT16_MAX ||
        whole->format->elements != 1)
        return wrong_shape(dir, whole, error);
    ARENA_TAKE(&dir->arena, matrices, (size_t)whole->dims[2], error);
    for (uint64_t e = 0; e < whole->dims[2]; e++) {
        matrices[e] = *whole;
        matrices[e].n_dims = 2;
        matrices[e].dims[2] = 1;
        matrices[e].offset += e * whole->dims[1] * whole->row_bytes;
        TRY(directory_check_tensor(dir, &matrices[e], error));
        TRY(hf_transpose_columns(dir, &matrices[e], turns.first, turns.step, error));
    }
    return hf_stack_matrices(dir, made, matrices, whole->dims[2], error);
}

/* Biases [experts, rows], of which those of the turns are taken. */
struct biases {
    struct tensor stored;
    struct turns turns;
};

/* struct tensor's `make` of such biases. */
static wisp_status make_biases(const struct directory *dir, const struct tensor *tensor,
                               uint64_t first, uint64_t rows, struct tensor_cache *cache,
                               void *buffer, const void **bytes, wisp_error *error) {
    const struct biases *b = tensor->maker;
    const size_t element = tensor->format->bytes, stored = (size_t)b->stored.row_bytes;
    unsigned char *read = malloc(stored + 1), *out = buffer;
    const void *found;
    wisp_status status = read ? WISP_OK : fail_memory(error, stored);
    (void)cache;
    for (uint64_t r = first; status == WISP_OK && r < first + rows; r++) {
        status = directory_rows(dir, &b->stored, r, 1, NULL, read, &found, error);
        for (uint64_t i = 0; status == WISP_OK && i < tensor->dims[0]; i++, out += element)
            memcpy(out,
                   (const unsigned char *)found +
                       (size_t)(b->turns.first + i * b->turns.step) * element,
                   element);
    }
    free(read);
    *bytes = buffer;
    return status;
}

static wisp_status divide_biases(struct directory *dir, const struct tensor *whole,
                                 struct turns turns, struct tensor *made, wisp_error *error) {
    struct biases *biases;
    if (whole->n_dims != 2 || whole->dims[0] % turns.step != 0 || whole->format->elements != 1)
        return wrong_shape(dir, whole, error);
    ARENA_TAKE(&dir->arena, biases, 1, error);
    *biases = (struct biases){*whole, turns};
    made->dims[0] /= turns.step;
    made->make = make_biases;
    made->maker = biases;
    return directory_measure_tensor(dir, made, error);
}

/* ---- tensors -------------------------------------------------------------------------------- */

/* Tensors whose names end so are divided into tensors of other endings. */
static const struct part {
    const char *ending, *names[2]; /* one name: its rows are not in turns */
    wisp_status (*divide)(struct directory *dir, const struct tensor *whole, struct turns turns,
                          struct tensor *made, wisp_error *error); /* NULL: it gets the name */
} parts[] = {
    {".experts.gate_up_proj_blocks",
     {".experts.gate_proj.weight", ".experts.up_proj.weight"},
     divide_packed},
    {".experts.down_proj_blocks", {".experts.down_proj.weight"}, divide_packed},
    {".experts.gate_up_proj",
     {".experts.gate_proj.weight", ".experts.up_proj.weight"},
     divide_floats},
    {".experts.down_proj", {".experts.down_proj.weight"}, divide_floats},
    {".experts.gate_up_proj_bias",
     {".experts.gate_proj.bias", ".experts.up_proj.bias"},
     divide_biases},
    {".experts.down_proj_bias", {".experts.down_proj.bias"}, NULL},
    {".self_attn.sinks", {".self_attn.sinks.weight"}, NULL},
};

/* Divides tensor i, whose name ends as the part says. */
static wisp_status divide(struct directory *dir, size_t i, const struct part *part,
                          wisp_error *error) {
    const struct tensor whole = dir->tensors[i];
    const size_t stem = strlen(whole.name) - strlen(part->ending);
    const uint64_t count = part->names[1] ? 2 : 1;
    for (uint64_t which = 0; which < count; which++) {
        struct tensor *made = &dir->tensors[i];
        char name[HF_NAME_BYTES];
        if (which > 0) {
            TRY(directory_add_tensor(dir, &made, error));
            *made = whole;
        }
        snprintf(name, sizeof name, "%.*s%s", (int)stem, whole.name, part->names[which]);
        made->name = arena_copy_text(&dir->arena, name, strlen(name));
        if (!made->name)
            return fail_memory(error, strlen(name));
        if (part->divide)
            TRY(part->divide(dir, &whole, (struct turns){which, count}, made, error));
    }
    return WISP_OK;
}

static wisp_status split(struct directory *dir, const struct hf_config *config, wisp_error *error) {
    (void)config;
    static const char *const scales[] = {".experts.gate_up_proj_scales",
                                         ".experts.down_proj_scales"};
    size_t kept = 0;
    for (size_t i = 0, n = dir->n_tensors; i < n; i++)
        for (size_t p = 0; p < sizeof parts / sizeof *parts; p++)
            if (hf_ends_with(dir->tensors[i].name, parts[p].ending)) {
                TRY(divide(dir, i, &parts[p], error));
                break;
            }
    for (size_t i = 0; i < dir->n_tensors; i++)
        if (!hf_ends_with(dir->tensors[i].name, scales[0]) &&
            !hf_ends_with(dir->tensors[i].name, scales[1]))
            dir->tensors[kept++] = dir->tensors[i];
    dir->n_tensors = kept;
    return directory_finish(dir, error);
}

static const struct hf_name layer_names[] = {
    {"input_layernorm.", "attn_norm.", true},
    {"self_attn.q_proj.", "attn_q.", false},
    {"self_attn.k_proj.", "attn_k.", false},
    {"self_attn.v_proj.", "attn_v.", false},
    {"self_attn.o_proj.", "attn_output.", false},
    {"self_attn.sinks.", "attn_sinks.", true},
    {"post_attention_layernorm.", "post_attention_norm.", true},
    {"mlp.router.", TENSOR_ROUTER ".", false},
    {"mlp.experts.gate_proj.", TENSOR_GATE_EXPERTS ".", false},
    {"mlp.experts.up_proj.", TENSOR_UP_EXPERTS ".", false},
    {"mlp.experts.down_proj.", TENSOR_DOWN_EXPERTS ".", false},
    {0},
};

const struct hf_decoder hf_gpt_oss = {
    .type = "gpt_oss",
    .class = "GptOssForCausalLM",
    .architecture = "gpt-oss",
    .prefixes = {"model."},
    .tensors = {"layers.", hf_llama_names, layer_names},
    .usual = {.kv_heads = 8, .head_size = 64, .positions = 131072, .epsilon = 1e-5},
    .rope = {.usual_theta = 150000, .between_pairs = true},
    .read_config = read_gpt_oss,
    .quantised = "mxfp4",
    .split = split};
