/* SPDX-License-Identifier: Apache-2.0
 * GPT2LMHeadModel, whose matrices are stored as [inputs, outputs]. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "formats/schema.h"
#include "huggingface/decoders.h"

static wisp_status read_gpt2(struct directory *dir, const struct hf_decoder *decoder,
                             const struct hf_config *config, wisp_error *error) {
    static const struct hf_setting settings[] = {{"scale_attn_weights", JSON_TRUE},
                                                 {"scale_attn_by_inverse_layer_idx", JSON_FALSE},
                                                 {"add_cross_attention", JSON_FALSE},
                                                 {0}};
    static const char *const activations[] = {"gelu_new", "gelu", "relu", "relu2"};
    static const struct hf_size sizes[] = {
        {"n_embd", "hidden_size", "embedding_length", 0},
        {"n_layer", "num_hidden_layers", "block_count", 0},
        {"n_head", "num_attention_heads", "attention.head_count", 0},
        {"n_positions", "max_position_embeddings", "context_length", 0}};
    static const struct hf_field size = {"n_embd", "hidden_size", NULL};
    static const struct hf_field inner = {"n_inner", NULL, NULL};
    static const double usual_epsilon = 1e-5;
    char key[HF_KEY_BYTES];
    uint32_t hidden_size, intermediate_size;
    TRY(hf_check_settings(config, settings, error));
    TRY(hf_put_activation(dir, config, "activation_function", activations,
                          sizeof activations / sizeof *activations, error));
    TRY(hf_put_sizes(dir, decoder, config, sizes, sizeof sizes / sizeof *sizes, error));
    TRY(hf_read_size_or(config, &size, 0, &hidden_size, error));
    intermediate_size = hidden_size > UINT32_MAX / 4 ? UINT32_MAX : 4 * hidden_size;
    if (!json_is_absent(json_get(config->root, inner.field)))
        TRY(hf_read_size_or(config, &inner, 0, &intermediate_size, error));
    TRY(directory_put_u32(dir, hf_key(decoder, "feed_forward_length", key), intermediate_size,
                          error));
    const struct hf_field epsilon = {"layer_norm_epsilon", NULL,
                                     hf_key(decoder, "attention.layer_norm_epsilon", key)};
    return hf_put_number(dir, config, &epsilon, &usual_epsilon, error);
}

/* ---- matrices ------------------------------------------------------------------------------- */

/* Points *data to all bytes of a matrix, which the cache keeps where the source is not in memory.
 */
static wisp_status find_bytes(const struct directory *dir, const struct tensor *stored,
                              struct tensor_cache *cache, const unsigned char **data,
                              wisp_error *error) {
    const void *bytes = cache->bytes;
    if (!dir->sources[stored->source].data && cache->owner != stored) {
        size_t size;
        tensor_cache_release(cache);
        if (!checked_size(stored->bytes, &size) || !(cache->bytes = malloc(size + 1)))
            return fail_memory(error, stored->bytes);
        TRY(directory_rows(dir, stored, 0, stored->rows, NULL, cache->bytes, &bytes, error));
        cache->owner = stored;
    } else if (cache->owner != stored) {
        TRY(directory_rows(dir, stored, 0, stored->rows, NULL, NULL, &bytes, error));
    }
    *data = bytes;
    return WISP_OK;
}

/* Makes rows of a matrix from columns of the stored one. */
static wisp_status make_transposed(const struct directory *dir, const struct tensor *tensor,
                                   uint64_t first, uint64_t rows, struct tensor_cache *cache,
                                   void *buffer, const void **bytes, wisp_error *error) {
    const struct tensor *stored = tensor->maker;
    const size_t element = stored->format->bytes, row_bytes = (size_t)tensor->row_bytes;
    const unsigned char *data;
    unsigned char *out = buffer;
    TRY(find_bytes(dir, stored, cache, &data, error));
    data += first * element;
    for (uint64_t k = 0; k < stored->rows; k++, data += stored->row_bytes, out += element)
        for (size_t r = 0; r < rows; r++)
            memcpy(out + r * row_bytes, data + r * element, element);
    *bytes = buffer;
    return WISP_OK;
}

static wisp_status adapt(struct directory *dir, struct tensor *tensor, wisp_error *error) {
    static const char *const parts[] = {"attn_qkv.weight", "attn_output.weight",
                                        TENSOR_FFN_UP TENSOR_WEIGHT, TENSOR_FFN_DOWN TENSOR_WEIGHT,
                                        NULL};
    struct tensor *stored;
    if (!hf_is_part(tensor, parts) || tensor->n_dims != 2)
        return WISP_OK; /* the loader refuses other shapes of matrices */
    ARENA_TAKE(&dir->arena, stored, 1, error);
    *stored = *tensor;
    tensor->dims[0] = stored->dims[1];
    tensor->dims[1] = stored->dims[0];
    tensor->make = make_transposed;
    tensor->maker = stored;
    return directory_measure_tensor(dir, tensor, error);
}

/* ---- tensors -------------------------------------------------------------------------------- */

static const struct hf_name names[] = {
    {"wte.", "token_embd.", true},
    {"wpe.", "position_embd.", true},
    {"ln_f.", "output_norm.", false},
    {"lm_head.", "output.", true},
    {0},
};

static const struct hf_name layer_names[] = {
    {"ln_1.", "attn_norm.", false},
    {"attn.c_attn.", "attn_qkv.", false},
    {"attn.c_proj.", "attn_output.", false},
    {"ln_2.", "ffn_norm.", false},
    {"mlp.c_fc.", TENSOR_FFN_UP ".", false},
    {"mlp.c_proj.", TENSOR_FFN_DOWN ".", false},
    {0},
};

const struct hf_decoder hf_gpt2 = {.type = "gpt2",
                                   .class = "GPT2LMHeadModel",
                                   .architecture = "gpt2",
                                   .prefixes = {"transformer."},
                                   .tensors = {"h.", names, layer_names},
                                   .tied = true,
                                   .read_config = read_gpt2,
                                   .adapt = adapt};
