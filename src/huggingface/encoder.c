/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/encoder.h"

#include <string.h>

/* The pooler, which is first, and the heads that guess masked words. */
static const char *const droppable[] = {"pooler.",
                                        "cls.",
                                        "discriminator_predictions.",
                                        "generator_predictions.",
                                        "generator_lm_head.",
                                        "lm_head.",
                                        "lm_predictions.",
                                        "mask_predictions.",
                                        "vocab_transform.",
                                        "vocab_layer_norm.",
                                        "vocab_projector.",
                                        "embeddings.position_ids",
                                        "decoder.",
                                        "head."};

static bool is_droppable(const char *name, bool has_pooler) {
    for (size_t i = has_pooler ? 1 : 0; i < sizeof droppable / sizeof *droppable; i++)
        if (hf_after(name, droppable[i]))
            return true;
    return false;
}

wisp_status hf_put_positions(struct directory *dir, const struct hf_config *config,
                             uint32_t skipped, const char *key, wisp_error *error) {
    static const struct hf_field field = {"max_position_embeddings", NULL, NULL};
    uint32_t positions;
    TRY(hf_read_size_or(config, &field, 0, &positions, error));
    if (positions <= skipped)
        return fail(error, WISP_ERROR_FORMAT, config->file, field.field,
                    "%u positions, of which no token has the first %u", positions, skipped);
    return directory_put_u32(dir, key, positions - skipped, error);
}

wisp_status hf_skip_positions(struct directory *dir, struct tensor *tensor, uint32_t skipped,
                              wisp_error *error) {
    if (strcmp(tensor->name, "position_embd.weight") != 0)
        return WISP_OK;
    if (tensor->n_dims != 2 || tensor->rows <= skipped)
        return fail(error, WISP_ERROR_FORMAT, dir->file, tensor->name,
                    "%llu rows, of which no token has the first %u",
                    (unsigned long long)tensor->rows, skipped);
    tensor->offset += skipped * tensor->row_bytes;
    tensor->dims[1] -= skipped;
    return directory_measure_tensor(dir, tensor, error);
}

/* Reports a tensor that the encoder does not have. Rerankers and other classifiers are the usual
 * case: their last layer makes scores of what an encoder gives. */
static wisp_status refuse_tensor(const struct directory *dir, const struct tensor *tensor,
                                 const struct hf_encoder *encoder, const struct hf_config *config,
                                 wisp_error *error) {
    const char *file = dir->sources[tensor->source].name;
    const struct json *classes = json_get(config->root, "architectures");
    const struct json *class = json_is(classes, JSON_ARRAY) ? classes->first : NULL;
    if (hf_after(tensor->name, "classifier."))
        return fail(error, WISP_ERROR_UNSUPPORTED, file, tensor->name,
                    "the weights of a classifier or reranker (%.64s), which scores texts and was "
                    "not trained to embed them: wisp runs models that make embeddings",
                    hf_shown(class));
    return fail(error, WISP_ERROR_UNSUPPORTED, file, tensor->name,
                "a tensor that an encoder of type %s does not have", encoder->type);
}

wisp_status hf_encoder_rename_tensors(struct directory *dir, const struct hf_encoder *encoder,
                                      const struct hf_name *head, const struct hf_config *config,
                                      wisp_error *error) {
    const struct hf_names of_head = {"\n", head, NULL}; /* no layers */
    size_t kept = 0;
    char renamed[HF_NAME_BYTES];
    const bool has_pooler = head && hf_gguf_name(&of_head, "pooler.dense.weight", renamed);
    for (size_t i = 0; i < dir->n_tensors; i++) {
        struct tensor *tensor = &dir->tensors[i];
        const char *name = tensor->name, *rest = NULL;
        for (size_t p = 0; p < 2 && encoder->prefixes[p] && !rest; p++)
            rest = hf_after(name, encoder->prefixes[p]);
        name = rest ? rest : name;
        const bool is_head = head && hf_gguf_name(&of_head, name, renamed);
        if (!is_head && (is_droppable(name, has_pooler) ||
                         hf_is_beyond_layers(dir, &encoder->tensors, encoder->architecture, name)))
            continue;
        if (!is_head && !hf_gguf_name(&encoder->tensors, name, renamed))
            return refuse_tensor(dir, tensor, encoder, config, error);
        tensor->name = arena_copy_text(&dir->arena, renamed, strlen(renamed));
        if (!tensor->name)
            return fail_memory(error, strlen(renamed));
        if (encoder->drops && encoder->drops(config, tensor))
            continue;
        if (encoder->adapt && !is_head)
            TRY(encoder->adapt(dir, tensor, config, error));
        dir->tensors[kept++] = *tensor;
    }
    dir->n_tensors = kept;
    return encoder->divide ? encoder->divide(dir, error) : WISP_OK;
}
