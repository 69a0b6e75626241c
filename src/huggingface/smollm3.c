/* SPDX-License-Identifier: Apache-2.0
 * SmolLM3ForCausalLM. */
#include "huggingface/decoders.h"

enum { NO_ROPE_STEP = 4 }; /* the only one that GGUF files can have: they have no key for it */

/* Refuses a model whose layers without rotation are others than each fourth. The list has 0 for
 * these and 1 for others. */
static wisp_status check_rotation(const struct hf_config *config, wisp_error *error) {
    static const char field[] = "no_rope_layers";
    static const char step_field[] = "no_rope_layer_interval";
    const struct json *list = json_get(config->root, field);
    uint32_t step, layer = 0;
    if (json_is_absent(list)) {
        const struct hf_field of_step = {step_field, NULL, NULL};
        TRY(hf_read_size_or(config, &of_step, NO_ROPE_STEP, &step, error));
        if (step != NO_ROPE_STEP)
            return fail(error, WISP_ERROR_UNSUPPORTED, config->file, step_field,
                        "%u is not supported, only %d", step, NO_ROPE_STEP);
        return WISP_OK;
    }
    if (!json_is(list, JSON_ARRAY))
        return fail(error, WISP_ERROR_FORMAT, config->file, field, "expected a list");
    for (const struct json *entry = list->first; entry; entry = entry->next) {
        uint64_t rotates;
        layer++;
        if (!json_to_u64(entry, &rotates) || rotates > 1)
            return fail(error, WISP_ERROR_FORMAT, config->file, field, "%.32s is not 0 or 1",
                        hf_shown(entry));
        if ((rotates == 1) != (layer % NO_ROPE_STEP != 0))
            return fail(error, WISP_ERROR_UNSUPPORTED, config->file, field,
                        "%d of layer %u; only each layer of %d may be 0 and must be", (int)rotates,
                        layer, NO_ROPE_STEP);
    }
    return WISP_OK;
}

static wisp_status read_smollm3(struct directory *dir, const struct hf_decoder *decoder,
                                const struct hf_config *config, wisp_error *error) {
    static const struct hf_setting settings[] = {{"attention_bias", JSON_FALSE},
                                                 {"mlp_bias", JSON_FALSE},
                                                 {"use_sliding_window", JSON_FALSE},
                                                 {0}};
    static const char *const activations[] = {"silu", "relu", "relu2"};
    TRY(hf_check_settings(config, settings, error));
    TRY(check_rotation(config, error));
    TRY(hf_put_activation(dir, config, "hidden_act", activations,
                          sizeof activations / sizeof *activations, error));
    return hf_put_decoder(dir, decoder, config, error);
}

const struct hf_decoder hf_smollm3 = {
    .type = "smollm3",
    .class = "SmolLM3ForCausalLM",
    .architecture = "smollm3",
    .prefixes = {"model."},
    .tensors = {"layers.", hf_llama_names, hf_llama_layer_names},
    .tied = true,
    .usual = {.kv_heads = 4, .head_size = HF_DERIVED, .positions = 32768},
    .rope = {.usual_theta = 2e6, .has_factors = true},
    .read_config = read_smollm3,
    .adapt = hf_pair_rotary};
