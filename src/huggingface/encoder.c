/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/encoder.h"

#include <string.h>

static bool is_droppable(const char *name) {
    return hf_after(name, "pooler.") || hf_after(name, "cls.") ||
           strcmp(name, "embeddings.position_ids") == 0;
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
                                      const struct hf_config *config, wisp_error *error) {
    size_t kept = 0;
    for (size_t i = 0; i < dir->n_tensors; i++) {
        struct tensor *tensor = &dir->tensors[i];
        const char *name = tensor->name, *rest = NULL;
        char renamed[HF_NAME_BYTES];
        for (size_t p = 0; p < 2 && encoder->prefixes[p] && !rest; p++)
            rest = hf_after(name, encoder->prefixes[p]);
        name = rest ? rest : name;
        if (is_droppable(name) ||
            hf_is_beyond_layers(dir, &encoder->tensors, encoder->architecture, name))
            continue;
        if (!hf_gguf_name(&encoder->tensors, name, renamed))
            return refuse_tensor(dir, tensor, encoder, config, error);
        tensor->name = arena_copy_text(&dir->arena, renamed, strlen(renamed));
        if (!tensor->name)
            return fail_memory(error, strlen(renamed));
        dir->tensors[kept++] = *tensor;
    }
    dir->n_tensors = kept;
    return WISP_OK;
}
