/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/plan.h"

#include <string.h>

#include "formats/schema.h"

bool is_convolution(const struct tensor *tensor) {
    return strstr(tensor->name, ".shortconv.conv.") != NULL;
}

/* Tells whether a tensor has the weights by which experts are chosen. */
static bool is_router(const struct tensor *tensor) {
    return strstr(tensor->name, "." TENSOR_ROUTER ".") != NULL;
}

/* Tells whether a tensor has biases, those of experts in rows. */
static bool is_bias(const struct tensor *tensor) {
    const char *kind = strrchr(tensor->name, '.');
    return kind && strcmp(kind, TENSOR_BIAS) == 0;
}

bool is_weight_matrix(const struct tensor *tensor) {
    static const char *const others[] = {"position_embd.weight", "token_types.weight",
                                         "attn_rel_b.weight"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(tensor->name, others[i]) == 0)
            return false;
    return tensor->rows > 1 && !is_convolution(tensor) && !is_router(tensor) && !is_bias(tensor);
}

wisp_status require_expandable(const struct tensor *tensor, wisp_error *error) {
    if (tensor->format->dequantise)
        return WISP_OK;
    return fail(error, WISP_ERROR_UNSUPPORTED, NULL, tensor->name,
                "tensors of type %s cannot be converted", tensor->format->name);
}

struct metadata *find_metadata_entry(struct directory *dir, const char *key) {
    for (size_t i = 0; i < dir->n_metadata; i++)
        if (strcmp(dir->metadata[i].key, key) == 0)
            return &dir->metadata[i];
    return NULL;
}

static wisp_status set_u32(struct directory *dir, const char *key, uint32_t value,
                           wisp_error *error) {
    struct metadata *entry = find_metadata_entry(dir, key);
    if (!entry)
        return directory_put_u32(dir, key, value, error);
    entry->type = VALUE_U32;
    entry->as.u = value;
    return WISP_OK;
}

wisp_status put_file_type(struct directory *dir, const struct block_format *format,
                          wisp_error *error) {
    /* llama.cpp's numbers of files whose matrices have one type. */
    static const struct {
        enum block_type type;
        uint32_t file_type;
    } known[] = {{BLOCK_F32, 0},     {BLOCK_F16, 1},     {BLOCK_Q4_0, 2},  {BLOCK_Q4_1, 3},
                 {BLOCK_Q8_0, 7},    {BLOCK_Q5_0, 8},    {BLOCK_Q5_1, 9},  {BLOCK_Q2_K, 10},
                 {BLOCK_Q3_K, 11},   {BLOCK_Q4_K, 14},   {BLOCK_Q5_K, 16}, {BLOCK_Q6_K, 18},
                 {BLOCK_IQ4_NL, 25}, {BLOCK_IQ4_XS, 30}, {BLOCK_BF16, 32}, {BLOCK_TQ1_0, 36},
                 {BLOCK_TQ2_0, 37},  {BLOCK_MXFP4, 38}};
    size_t i = 0;
    if (format->id == BLOCK_T158) /* which llama.cpp does not have */
        return directory_drop_metadata(dir, "general.file_type"), WISP_OK;
    while (known[i].type != format->id)
        i++;
    TRY(set_u32(dir, "general.file_type", known[i].file_type, error));
    return format->elements > 1 ? set_u32(dir, "general.quantization_version", 2, error) : WISP_OK;
}
