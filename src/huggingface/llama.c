/* SPDX-License-Identifier: Apache-2.0
 * LlamaForCausalLM; MistralForCausalLM, which computes what Llama does if it has no window;
 * Ministral3ForCausalLM;
 * the part of Mistral3ForConditionalGeneration that reads and writes text;
 * Qwen2ForCausalLM and Qwen3ForCausalLM. */
#include <stdio.h>
#include <string.h>

#include "formats/schema.h"
#include "huggingface/decoders.h"
#include "huggingface/window_config.h"

static wisp_status put_gates(struct directory *dir, const struct hf_config *config,
                             wisp_error *error) {
    static const char *const known[] = {"silu", "relu", "relu2"};
    return hf_put_activation(dir, config, "hidden_act", known, sizeof known / sizeof *known, error);
}

static wisp_status read_llama(struct directory *dir, const struct hf_decoder *decoder,
                              const struct hf_config *config, wisp_error *error) {
    static const struct hf_setting settings[] = {
        {"attention_bias", JSON_FALSE}, {"mlp_bias", JSON_FALSE}, {0}};
    TRY(hf_check_settings(config, settings, error));
    TRY(put_gates(dir, config, error));
    return hf_put_decoder(dir, decoder, config, error);
}

static wisp_status read_mistral(struct directory *dir, const struct hf_decoder *decoder,
                                const struct hf_config *config, wisp_error *error) {
    TRY(put_gates(dir, config, error));
    TRY(hf_put_window(dir, config, decoder->architecture, error));
    return hf_put_decoder(dir, decoder, config, error);
}

/* Adds by how much queries grow with their positions, relative to YaRN's original length. */
static wisp_status read_ministral3(struct directory *dir, const struct hf_decoder *decoder,
                                   const struct hf_config *config, wisp_error *error) {
    static const char growth[] = "llama_4_scaling_beta";
    static const double none = 0;
    struct hf_rope_scaling rope;
    char key[HF_KEY_BYTES];
    const struct hf_field field = {growth, NULL,
                                   hf_key(decoder, "attention.temperature_scale", key)};
    TRY(hf_find_rope_scaling(config, &rope, error));
    if (!json_equals(rope.type, "yarn"))
        return hf_unsupported_setting(config, "rope_parameters", rope.type, "type yarn", error);
    TRY(hf_put_number(dir, &rope.own, &field, &none, error));
    return read_mistral(dir, decoder, config, error);
}

/* The part that reads and writes text is a decoder of type mistral or ministral3, or of another. */
static wisp_status read_mistral3(struct directory *dir, const struct hf_decoder *decoder,
                                 const struct hf_config *config, wisp_error *error) {
    const struct json *type = json_get(config->root, "model_type");
    if (json_equals(type, "ministral3"))
        return read_ministral3(dir, decoder, config, error);
    if (!json_is_absent(type) && !json_equals(type, "mistral"))
        return hf_unsupported_setting(config, "text_config.model_type", type,
                                      "mistral and ministral3", error);
    return read_mistral(dir, decoder, config, error);
}

static wisp_status read_qwen(struct directory *dir, const struct hf_decoder *decoder,
                             const struct hf_config *config, const struct hf_setting *settings,
                             wisp_error *error) {
    TRY(hf_check_settings(config, settings, error));
    TRY(put_gates(dir, config, error));
    TRY(hf_put_layer_windows(dir, config, decoder->architecture, error));
    return hf_put_decoder(dir, decoder, config, error);
}

static wisp_status read_qwen2(struct directory *dir, const struct hf_decoder *decoder,
                              const struct hf_config *config, wisp_error *error) {
    /* The class adds biases to queries, keys and values, whatever attention_bias says. */
    static const struct hf_setting settings[] = {{"use_mrope", JSON_FALSE}, {0}};
    return read_qwen(dir, decoder, config, settings, error);
}

static wisp_status read_qwen3(struct directory *dir, const struct hf_decoder *decoder,
                              const struct hf_config *config, wisp_error *error) {
    static const struct hf_setting settings[] = {{"attention_bias", JSON_FALSE}, {0}};
    return read_qwen(dir, decoder, config, settings, error);
}

/* ---- rotary pairs --------------------------------------------------------------------------- */

/* A matrix of queries or keys. In the folder the first halves of a head's rotary pairs are before
 * the second halves; in GGUF the two rows of a pair are neighbours. */
struct paired {
    struct tensor stored;
    uint32_t head_size; /* rows of a head */
    uint32_t rotated;   /* those that make pairs: the first ones */
};

/* Makes rows: row i of a head is row i % 2 of pair i / 2. */
static wisp_status make_paired(const struct directory *dir, const struct tensor *tensor,
                               uint64_t first, uint64_t rows, struct tensor_cache *cache,
                               void *buffer, const void **bytes, wisp_error *error) {
    const struct paired *p = tensor->maker;
    const size_t row_bytes = (size_t)tensor->row_bytes;
    char *out = buffer;
    for (uint64_t row = first; row < first + rows; row++, out += row_bytes) {
        const uint64_t i = row % p->head_size;
        const uint64_t from = i < p->rotated ? row - i + i % 2 * (p->rotated / 2) + i / 2 : row;
        const void *found;
        TRY(directory_rows(dir, &p->stored, from, 1, cache, out, &found, error));
        if (found != out)
            memcpy(out, found, row_bytes);
    }
    *bytes = buffer;
    return WISP_OK;
}

wisp_status hf_pair_rotary(struct directory *dir, struct tensor *tensor, wisp_error *error) {
    static const char *const parts[] = {"attn_q.weight", "attn_k.weight", NULL};
    struct paired *p;
    uint32_t head_size, rotated;
    const char *architecture;
    char key[HF_KEY_BYTES];
    if (!hf_is_part(tensor, parts))
        return WISP_OK;
    TRY(metadata_text(dir, "general.architecture", &architecture, error));
    snprintf(key, sizeof key, "%s.attention.key_length", architecture);
    TRY(metadata_u32(dir, key, &head_size, error));
    snprintf(key, sizeof key, "%s.rope.dimension_count", architecture);
    TRY(metadata_u32(dir, key, &rotated, error));
    if (head_size == 0 || tensor->rows % head_size != 0 ||
        rotated % 2 != 0) /* a shape that the loader refuses */
        return WISP_OK;
    ARENA_TAKE(&dir->arena, p, 1, error);
    *p = (struct paired){*tensor, head_size, rotated};
    tensor->make = make_paired;
    tensor->maker = p;
    return WISP_OK;
}

/* ---- tensors -------------------------------------------------------------------------------- */

const struct hf_name hf_llama_names[] = {
    {"embed_tokens.", "token_embd.", true},
    {"norm.", "output_norm.", true},
    {"lm_head.", "output.", true},
    {0},
};

/* Not all of these families have the biases of Qwen2 and the norms of Qwen3; the tables of
 * src/models refuse the tensors that a family does not have. */
const struct hf_name hf_llama_layer_names[] = {
    {"input_layernorm.", "attn_norm.", true},      {"self_attn.q_proj.", "attn_q.", false},
    {"self_attn.k_proj.", "attn_k.", false},       {"self_attn.v_proj.", "attn_v.", false},
    {"self_attn.q_norm.", "attn_q_norm.", true},   {"self_attn.k_norm.", "attn_k_norm.", true},
    {"self_attn.o_proj.", "attn_output.", true},   {"post_attention_layernorm.", "ffn_norm.", true},
    {"mlp.gate_proj.", TENSOR_FFN_GATE ".", true}, {"mlp.up_proj.", TENSOR_FFN_UP ".", true},
    {"mlp.down_proj.", TENSOR_FFN_DOWN ".", true}, {0},
};

const char *const hf_of_images[] = {"vision_tower.", "model.vision_tower.",
                                    "multi_modal_projector.", "model.multi_modal_projector.", NULL};

#define LLAMA(its_type, its_name, its_architecture, its_kv_heads, its_head_size)                   \
    .type = (its_type), .class = its_name "ForCausalLM", .bare = its_name "Model",                 \
    .architecture = (its_architecture), .prefixes = {"model."},                                    \
    .tensors = {"layers.", hf_llama_names, hf_llama_layer_names},                                  \
    .usual = {.kv_heads = (its_kv_heads), .head_size = (its_head_size)},                           \
    .rope = {.usual_theta = 10000, .has_factors = true}

const struct hf_decoder hf_llama = {LLAMA("llama", "Llama", "llama", HF_DERIVED, HF_DERIVED),
                                    .read_config = read_llama, .adapt = hf_pair_rotary};

const struct hf_decoder hf_mistral = {LLAMA("mistral", "Mistral", "llama", 0, HF_DERIVED),
                                      .read_config = read_mistral, .adapt = hf_pair_rotary};

const struct hf_decoder hf_mistral3 = {
    .type = "mistral3",
    .class = "Mistral3ForConditionalGeneration",
    .architecture = "mistral3",
    .part = "text_config",
    .prefixes = {"language_model.model.", "language_model.", "model.language_model.", "model."},
    .others = hf_of_images,
    .tensors = {"layers.", hf_llama_names, hf_llama_layer_names},
    .usual = {.head_size = HF_DERIVED},
    .rope = {.usual_theta = 10000, .has_factors = true},
    .read_config = read_mistral3,
    .adapt = hf_pair_rotary};

const struct hf_decoder hf_ministral3 = {LLAMA("ministral3", "Ministral3", "mistral3", 8, 128),
                                         .read_config = read_ministral3, .adapt = hf_pair_rotary};

const struct hf_decoder hf_qwen2 = {LLAMA("qwen2", "Qwen2", "qwen2", 0, HF_DERIVED),
                                    .read_config = read_qwen2};

const struct hf_decoder hf_qwen3 = {LLAMA("qwen3", "Qwen3", "qwen3", 0, 0),
                                    .read_config = read_qwen3};
