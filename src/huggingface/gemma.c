/* SPDX-License-Identifier: Apache-2.0
 * Gemma2ForCausalLM and Gemma3ForCausalLM, and the part of Gemma3ForConditionalGeneration that
 * reads and writes text. */
#include <math.h>
#include <stdlib.h>

#include "base/byte_order.h"
#include "base/checked.h"
#include "formats/schema.h"
#include "huggingface/decoders.h"
#include "huggingface/window_config.h"

/* Adds the number that bounds scores or logits; null says that they are not bounded. `usual` is the
 * number if config.json has none; if it is 0, the models are not bounded and their files have
 * no such key. */
static wisp_status put_cap(struct directory *dir, const struct hf_decoder *decoder,
                           const struct hf_config *config, const char *name, double usual,
                           wisp_error *error) {
    char key[HF_KEY_BYTES];
    const struct hf_field field = {name, NULL, hf_key(decoder, name, key)};
    const struct json *given = json_get(config->root, name);
    if (usual == 0 && json_is_absent(given))
        return WISP_OK;
    if (json_is(given, JSON_NULL))
        return directory_put_f32(dir, key, 0, error);
    return hf_put_number(dir, config, &field, &usual, error);
}

static const char bidirectional[] = "use_bidirectional_attention";

static bool is_bidirectional(const struct hf_config *config) {
    return json_is(json_get(config->root, bidirectional), JSON_TRUE);
}

/* Reads the settings that both versions have. One of `period` layers is global, unless config.json
 * `may_differ` and does. */
static wisp_status read_gemma(struct directory *dir, const struct hf_decoder *decoder,
                              const struct hf_config *config, uint32_t period, bool may_differ,
                              wisp_error *error) {
    static const struct hf_field scalar = {"query_pre_attn_scalar", NULL, NULL};
    static const struct hf_setting settings[] = {{"attention_bias", JSON_FALSE}, {0}};
    static const char *const activations[] = {"gelu_pytorch_tanh", "relu"};
    const struct json *given = json_get(config->root, bidirectional);
    char key[HF_KEY_BYTES];
    uint32_t divisor;
    TRY(hf_check_settings(config, settings, error));
    if (!decoder->is_bidirectional && !json_is_absent(given) && !json_is(given, JSON_FALSE))
        return hf_unsupported_setting(config, bidirectional, given, "false", error);
    TRY(hf_put_activation(dir, config, "hidden_activation", activations,
                          sizeof activations / sizeof *activations, error));
    TRY(hf_put_periodic_windows(dir, config, decoder->architecture, period, may_differ, error));
    TRY(hf_read_size_or(config, &scalar, 256, &divisor, error));
    TRY(directory_put_f32(dir, hf_key(decoder, "attention.scale", key),
                          (float)(1 / sqrt((double)divisor)), error));
    return hf_put_decoder(dir, decoder, config, error);
}

static wisp_status read_gemma2(struct directory *dir, const struct hf_decoder *decoder,
                               const struct hf_config *config, wisp_error *error) {
    TRY(put_cap(dir, decoder, config, "attn_logit_softcapping", 50, error));
    TRY(put_cap(dir, decoder, config, "final_logit_softcapping", 30, error));
    return read_gemma(dir, decoder, config, 2, false, error);
}

static wisp_status read_gemma3(struct directory *dir, const struct hf_decoder *decoder,
                               const struct hf_config *config, wisp_error *error) {
    TRY(put_cap(dir, decoder, config, "attn_logit_softcapping", 0, error));
    TRY(put_cap(dir, decoder, config, "final_logit_softcapping", 0, error));
    return read_gemma(dir, decoder, config, 6, true, error);
}

/* ---- norms ---------------------------------------------------------------------------------- */

/* Makes the weights of a norm: the class adds 1 to those that a folder holds. */
static wisp_status make_norm(const struct directory *dir, const struct tensor *tensor,
                             uint64_t first, uint64_t rows, struct tensor_cache *cache,
                             void *buffer, const void **bytes, wisp_error *error) {
    const struct tensor *stored = tensor->maker;
    size_t size;
    void *read = checked_size(stored->bytes, &size) ? malloc(size + 1) : NULL;
    if (!read)
        return fail_memory(error, stored->bytes);
    const wisp_status status =
        directory_floats(dir, stored, first, rows, cache, read, buffer, error);
    for (uint64_t i = 0; i < rows * stored->dims[0] && status == WISP_OK; i++)
        ((float *)buffer)[i] += 1;
    if (status == WISP_OK) /* as they would be stored */
        swap_file_numbers(buffer, (size_t)(rows * stored->dims[0]), sizeof(float));
    free(read);
    *bytes = buffer;
    return status;
}

static wisp_status adapt(struct directory *dir, struct tensor *tensor, wisp_error *error) {
    static const char *const parts[] = {"attn_norm.weight",
                                        "post_attention_norm.weight",
                                        "ffn_norm.weight",
                                        "post_ffw_norm.weight",
                                        "attn_q_norm.weight",
                                        "attn_k_norm.weight",
                                        NULL};
    struct tensor *stored;
    if (strcmp(tensor->name, "output_norm.weight") != 0 && !hf_is_part(tensor, parts))
        return WISP_OK;
    if (tensor->rows != 1 || !tensor->format->dequantise) /* which the loader refuses */
        return WISP_OK;
    ARENA_TAKE(&dir->arena, stored, 1, error);
    *stored = *tensor;
    tensor->format = block_format_by_id(BLOCK_F32);
    tensor->make = make_norm;
    tensor->maker = stored;
    return directory_measure_tensor(dir, tensor, error);
}

/* ---- tensors -------------------------------------------------------------------------------- */

/* Gemma 2 has no norms of queries and keys; the table in src/models/gemma.c refuses them there. */
static const struct hf_name layer_names[] = {
    {"input_layernorm.", "attn_norm.", true},
    {"self_attn.q_proj.", "attn_q.", true},
    {"self_attn.k_proj.", "attn_k.", true},
    {"self_attn.v_proj.", "attn_v.", true},
    {"self_attn.o_proj.", "attn_output.", true},
    {"self_attn.q_norm.", "attn_q_norm.", true},
    {"self_attn.k_norm.", "attn_k_norm.", true},
    {"post_attention_layernorm.", "post_attention_norm.", true},
    {"pre_feedforward_layernorm.", "ffn_norm.", true},
    {"post_feedforward_layernorm.", "post_ffw_norm.", true},
    {"mlp.gate_proj.", TENSOR_FFN_GATE ".", true},
    {"mlp.up_proj.", TENSOR_FFN_UP ".", true},
    {"mlp.down_proj.", TENSOR_FFN_DOWN ".", true},
    {0},
};

const struct hf_decoder hf_gemma2 = {.type = "gemma2",
                                     .class = "Gemma2ForCausalLM",
                                     .architecture = "gemma2",
                                     .prefixes = {"model."},
                                     .tensors = {"layers.", hf_llama_names, layer_names},
                                     .tied = true,
                                     .rope = {.usual_theta = 10000},
                                     .read_config = read_gemma2,
                                     .adapt = adapt};

#define GEMMA3                                                                                     \
    .tensors = {"layers.", hf_llama_names, layer_names}, .tied = true,                             \
    .rope = {.usual_theta = 1e6, .by_layers = true, .usual_local_theta = 10000},                   \
    .read_config = read_gemma3, .adapt = adapt

const struct hf_decoder hf_gemma3_text = {GEMMA3,
                                          .type = "gemma3_text",
                                          .class = "Gemma3ForCausalLM",
                                          .bare = "Gemma3TextModel",
                                          .architecture = "gemma3",
                                          .prefixes = {"model."}};

const struct hf_decoder hf_gemma_embedding = {GEMMA3,
                                              .type = "gemma3_text",
                                              .class = "Gemma3TextModel",
                                              .bare = "Gemma3TextModel",
                                              .is_bidirectional = is_bidirectional,
                                              .architecture = "gemma-embedding",
                                              .prefixes = {"model."}};

/* These folders leave out settings that are the class's own. */
const struct hf_decoder hf_gemma3 = {
    GEMMA3,
    .type = "gemma3",
    .class = "Gemma3ForConditionalGeneration",
    .architecture = "gemma3",
    .part = "text_config",
    .prefixes = {"language_model.model.", "language_model.", "model.language_model.", "model."},
    .others = hf_of_images,
    .usual = {.heads = 8,
              .positions = 131072,
              .vocabulary_size = 262208,
              .kv_heads = 4,
              .head_size = 256}};
