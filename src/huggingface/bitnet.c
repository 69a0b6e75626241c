/* SPDX-License-Identifier: Apache-2.0
 * BitNetForCausalLM. Its folders hold ternary matrices packed in bytes, with their scale, or the
 * floats of which a matrix is made ternary when it is used. Both become TQ2_0 here, exactly, if
 * their rows are whole blocks of it. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "formats/schema.h"
#include "huggingface/decoders.h"

/* ---- config.json ---------------------------------------------------------------------------- */

/* The form of a folder's matrices. */
enum form { FLOATS, PACKED, MADE_TERNARY };

static wisp_status read_form(const struct hf_config *config, enum form *form, wisp_error *error) {
    static const char field[] = "quantization_config", class[] = "autobitlinear";
    static const struct hf_setting settings[] = {{"use_rms_norm", JSON_FALSE}, {0}};
    const struct json *given = json_get(config->root, field);
    const struct hf_config own = {.root = given, .file = config->file};
    *form = FLOATS;
    if (json_is_absent(given))
        return WISP_OK;
    const struct json *linear = json_get(given, "linear_class");
    const struct json *mode = json_get(given, "quantization_mode");
    const bool online = json_equals(mode, "online");
    if (!json_equals(linear, class))
        return hf_unsupported_setting(config, "linear_class", linear, class, error);
    if (!online && !json_is_absent(mode) && !json_equals(mode, "offline"))
        return hf_unsupported_setting(config, "quantization_mode", mode, "offline and online",
                                      error);
    *form = online ? MADE_TERNARY : PACKED;
    return hf_check_settings(&own, settings, error);
}

static wisp_status read_bitnet(struct directory *dir, const struct hf_decoder *decoder,
                               const struct hf_config *config, wisp_error *error) {
    static const struct hf_setting settings[] = {{"attention_bias", JSON_FALSE}, {0}};
    static const char *const gates[] = {"relu2", "relu", "silu"};
    enum form form;
    TRY(hf_check_settings(config, settings, error));
    TRY(read_form(config, &form, error));
    TRY(hf_put_activation(dir, config, "hidden_act", gates, sizeof gates / sizeof *gates, error));
    return hf_put_decoder(dir, decoder, config, error);
}

/* ---- matrices ------------------------------------------------------------------------------- */

/* Returns whether a half holds a scale, so that a block of TQ2_0 does. */
static bool is_half(float scale) {
    return float_of_half(half_of_float(scale)) == scale;
}

/* Gives a matrix of one scale the type TQ2_0 if its rows are whole blocks of it, and else `other`,
 * which holds its values too. */
static void choose_format(struct tensor *tensor, bool holds_scale,
                          const struct block_format *other) {
    const struct block_format *ternary = block_format_by_id(BLOCK_TQ2_0);
    tensor->format = holds_scale && tensor->dims[0] % ternary->elements == 0 ? ternary : other;
}

/* A matrix [4 rows, columns] packed in bytes [rows, columns]: the first quarter of its rows is in
 * the lowest two bits of each byte (0: -1, 1: 0, 2: 1), and so on. */
struct packed {
    struct tensor codes;
    float scale;
};

/* struct tensor's `make` of such a matrix. */
static wisp_status make_packed(const struct directory *dir, const struct tensor *tensor,
                               uint64_t first, uint64_t rows, struct tensor_cache *cache,
                               void *buffer, const void **bytes, wisp_error *error) {
    const struct packed *p = tensor->maker;
    const size_t columns = (size_t)tensor->dims[0];
    float *values = malloc(columns * (sizeof *values + 1) + 1);
    unsigned char *read = (unsigned char *)values + columns * sizeof *values;
    wisp_status status =
        values ? WISP_OK : fail_memory(error, (uint64_t)columns * (sizeof *values + 1));
    (void)cache;
    for (uint64_t i = 0; status == WISP_OK && i < rows; i++) {
        const uint64_t quarter = (first + i) / p->codes.rows, row = (first + i) % p->codes.rows;
        const void *found;
        status = directory_rows(dir, &p->codes, row, 1, NULL, read, &found, error);
        for (size_t k = 0; status == WISP_OK && k < columns; k++) {
            const int code = ((const unsigned char *)found)[k] >> 2 * quarter & 3;
            values[k] = (float)(code - 1) * p->scale;
            if (code == 3)
                status = fail(error, WISP_ERROR_FORMAT, dir->sources[tensor->source].name,
                              p->codes.name, "the code 3 in row %llu, which no weight has",
                              (unsigned long long)(first + i));
        }
        if (status == WISP_OK)
            tensor->format->quantise(values, columns,
                                     (char *)buffer + (size_t)i * (size_t)tensor->row_bytes);
    }
    free(values);
    *bytes = buffer;
    return status;
}

/* Reads the scale of a packed matrix, "NAME_scale" beside "NAME", and the type that it has. */
static wisp_status read_scale(const struct directory *dir, const struct tensor *codes, float *scale,
                              const struct block_format **format, wisp_error *error) {
    char name[HF_NAME_BYTES];
    float stored;
    snprintf(name, sizeof name, "%s_scale", codes->name);
    const struct tensor *found = hf_find_tensor(dir, name);
    if (!found)
        return fail(error, WISP_ERROR_NOT_FOUND, dir->file, name, "the tensor is missing");
    if (found->rows != 1 || found->dims[0] != 1 || !found->format->dequantise ||
        found->bytes > sizeof stored)
        return fail(error, WISP_ERROR_FORMAT, dir->sources[found->source].name, name,
                    "not one float");
    *format = found->format;
    return directory_floats(dir, found, 0, 1, NULL, &stored, scale, error);
}

static wisp_status unpack(struct directory *dir, struct tensor *tensor, wisp_error *error) {
    struct packed *packed;
    const struct block_format *format;
    if (tensor->n_dims != 2 || tensor->format->id != BLOCK_I8)
        return fail(error, WISP_ERROR_FORMAT, dir->sources[tensor->source].name, tensor->name,
                    "not a matrix of bytes, into which ternary weights are packed");
    ARENA_TAKE(&dir->arena, packed, 1, error);
    packed->codes = *tensor;
    TRY(read_scale(dir, tensor, &packed->scale, &format, error));
    tensor->dims[1] *= 4;
    choose_format(tensor, is_half(packed->scale), format);
    tensor->make = make_packed;
    tensor->maker = packed;
    return directory_measure_tensor(dir, tensor, error);
}

/* A matrix of floats, each of which becomes -scale, 0 or scale, whichever is nearest, where scale
 * is their mean magnitude. */
struct made {
    struct tensor stored;
    _Atomic float *scale; /* 0: not known yet */
};

/* Computes the mean magnitude of a matrix, at least 1e-5, as the class does. */
static wisp_status find_scale(const struct directory *dir, const struct tensor *stored, void *read,
                              float *values, float *scale, wisp_error *error) {
    double sum = 0;
    for (uint64_t row = 0; row < stored->rows; row++) {
        TRY(directory_floats(dir, stored, row, 1, NULL, read, values, error));
        for (uint64_t k = 0; k < stored->dims[0]; k++)
            sum += (double)fabsf(values[k]);
    }
    *scale = fmaxf((float)(sum / ((double)stored->rows * (double)stored->dims[0])), 1e-5f);
    return WISP_OK;
}

/* Rounds a float to the type of a tensor. */
static float rounded_to(const struct block_format *format, float value) {
    unsigned char bytes[sizeof value];
    format->quantise(&value, 1, bytes);
    format->dequantise(bytes, 1, &value);
    return value;
}

static wisp_status make_ternary_rows(const struct directory *dir, const struct tensor *tensor,
                                     uint64_t first, uint64_t rows, char *out, float *values,
                                     wisp_error *error) {
    const struct made *m = tensor->maker;
    const size_t columns = (size_t)tensor->dims[0];
    void *read = values + columns;
    float mean = atomic_load(m->scale);
    if (mean == 0) /* every thread that computes it finds the same */
        TRY(find_scale(dir, &m->stored, read, values, &mean, error));
    atomic_store(m->scale, mean);
    const float inverse = 1 / mean, scale = rounded_to(m->stored.format, 1 / inverse);
    if (tensor->format->id == BLOCK_TQ2_0 && !is_half(scale))
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->sources[tensor->source].name,
                    m->stored.name, "the mean magnitude %g of its weights is beyond 16-bit floats",
                    (double)scale);
    for (uint64_t i = 0; i < rows; i++, out += tensor->row_bytes) {
        TRY(directory_floats(dir, &m->stored, first + i, 1, NULL, read, values, error));
        for (size_t k = 0; k < columns; k++)
            values[k] = fminf(fmaxf(rintf(values[k] * inverse), -1), 1) * scale;
        tensor->format->quantise(values, columns, out);
    }
    return WISP_OK;
}

/* struct tensor's `make` of such a matrix. */
static wisp_status make_ternary(const struct directory *dir, const struct tensor *tensor,
                                uint64_t first, uint64_t rows, struct tensor_cache *cache,
                                void *buffer, const void **bytes, wisp_error *error) {
    const struct made *m = tensor->maker;
    const size_t size = (size_t)tensor->dims[0] * sizeof(float) + (size_t)m->stored.row_bytes;
    float *values = malloc(size);
    (void)cache;
    if (!values)
        return fail_memory(error, size);
    const wisp_status status = make_ternary_rows(dir, tensor, first, rows, buffer, values, error);
    free(values);
    *bytes = buffer;
    return status;
}

static wisp_status make_of_floats(struct directory *dir, struct tensor *tensor, wisp_error *error) {
    struct made *made;
    if (tensor->n_dims != 2 || tensor->format->elements != 1 || !tensor->format->quantise)
        return fail(error, WISP_ERROR_FORMAT, dir->sources[tensor->source].name, tensor->name,
                    "not a matrix of floats");
    ARENA_TAKE(&dir->arena, made, 1, error);
    made->stored = *tensor;
    ARENA_TAKE(&dir->arena, made->scale, 1, error);
    atomic_init(made->scale, 0);
    choose_format(tensor, tensor->format->id != BLOCK_F32, tensor->format);
    tensor->make = make_ternary;
    tensor->maker = made;
    return directory_measure_tensor(dir, tensor, error);
}

/* ---- tensors -------------------------------------------------------------------------------- */

static wisp_status split(struct directory *dir, const struct hf_config *config, wisp_error *error) {
    enum form form;
    size_t kept = 0;
    TRY(read_form(config, &form, error));
    for (size_t i = 0; form != FLOATS && i < dir->n_tensors; i++) {
        struct tensor *tensor = &dir->tensors[i];
        if (hf_ends_with(tensor->name, "_proj.weight"))
            TRY(form == PACKED ? unpack(dir, tensor, error) : make_of_floats(dir, tensor, error));
    }
    for (size_t i = 0; i < dir->n_tensors; i++)
        if (form != PACKED || !hf_ends_with(dir->tensors[i].name, "_proj.weight_scale"))
            dir->tensors[kept++] = dir->tensors[i];
    dir->n_tensors = kept;
    return directory_finish(dir, error);
}

static const struct hf_name layer_names[] = {
    {"input_layernorm.", "attn_norm.", true},
    {"self_attn.q_proj.", "attn_q.", true},
    {"self_attn.k_proj.", "attn_k.", true},
    {"self_attn.v_proj.", "attn_v.", true},
    {"self_attn.attn_sub_norm.", "attn_sub_norm.", true},
    {"self_attn.o_proj.", "attn_output.", true},
    {"post_attention_layernorm.", "ffn_norm.", true},
    {"mlp.gate_proj.", TENSOR_FFN_GATE ".", true},
    {"mlp.up_proj.", TENSOR_FFN_UP ".", true},
    {"mlp.ffn_sub_norm.", "ffn_sub_norm.", true},
    {"mlp.down_proj.", TENSOR_FFN_DOWN ".", true},
    {0},
};

const struct hf_decoder hf_bitnet = {
    .type = "bitnet",
    .class = "BitNetForCausalLM",
    .architecture = "bitnet-b1.58",
    .prefixes = {"model."},
    .tensors = {"layers.", hf_llama_names, layer_names},
    .usual = {.kv_heads = 5, .head_size = HF_DERIVED, .positions = 2048, .epsilon = 1e-5},
    .rope = {.usual_theta = 500000, .has_factors = true},
    .read_config = read_bitnet,
    .quantised = "bitnet",
    .split = split};
