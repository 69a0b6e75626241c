/* SPDX-License-Identifier: Apache-2.0
 * Sources: the classes ...ForSequenceClassification of transformers; CrossEncoder of
 * sentence-transformers 6. */
#include "huggingface/cross_encoder.h"

#include <stdio.h>
#include <string.h>

#include "formats/schema.h"
#include "huggingface/sentence_config.h"

enum { KEY_BYTES = 64 };

const struct hf_name hf_head_names[] = {
    {"pooler.dense.", TENSOR_HEAD ".", false},
    {"pre_classifier.", TENSOR_HEAD ".", false},
    {"classifier.dense.", TENSOR_HEAD ".", false},
    {"classifier.out_proj.", TENSOR_HEAD_OUTPUT ".", false},
    {"classifier.", TENSOR_HEAD_OUTPUT ".", false},
    {0},
};

/* Types of models whose heads have two layers with nothing else between than an activation. */
static const struct head {
    const char *type, *activation;
    uint32_t separators; /* between the two texts */
} heads[] = {{"bert", "tanh", 1},    {"distilbert", "relu", 1},  {"electra", "gelu", 1},
             {"roberta", "tanh", 2}, {"xlm-roberta", "tanh", 2}, {"camembert", "tanh", 2}};

bool hf_is_cross_encoder(const struct hf_config *config, const struct hf_modules *modules) {
    const struct json *classes = json_get(config->root, "architectures");
    const struct json *class = json_is(classes, JSON_ARRAY) ? classes->first : NULL;
    return json_is(class, JSON_STRING) && hf_ends_with(class->text, "ForSequenceClassification") &&
           (!modules->list || modules->list->count == 1);
}

/* Checks that the head has one label: id2label names them, and has two if it is absent. */
static wisp_status check_labels(const struct hf_config *config, wisp_error *error) {
    const struct json *labels = json_get(config->root, "id2label");
    const struct json *count = json_get(config->root, "num_labels");
    uint64_t n = 2;
    if (json_is(labels, JSON_OBJECT))
        n = labels->count;
    else if (count && !json_to_u64(count, &n))
        return fail(error, WISP_ERROR_FORMAT, config->file, count->key,
                    "%.32s is not a whole number", hf_shown(count));
    if (n == 1)
        return WISP_OK;
    return fail(error, WISP_ERROR_UNSUPPORTED, config->file, labels ? "id2label" : "num_labels",
                "a classifier of %llu labels is not supported, only a cross-encoder, which has one",
                (unsigned long long)n);
}

/* Adds what the score goes through: the activation that sentence-transformers stored, else a
 * sigmoid. */
static wisp_status put_output(struct directory *dir, const char *folder,
                              const struct hf_config *config, wisp_error *error) {
    static const char file[] = "config_sentence_transformers.json", field[] = "activation_fn";
    static const struct {
        const char *class, *name;
    } known[] = {{"torch.nn.modules.activation.Sigmoid", "sigmoid"},
                 {"torch.nn.modules.linear.Identity", "identity"}};
    const struct json *own;
    char key[KEY_BYTES];
    TRY(hf_read_json(dir, folder, file, false, JSON_OBJECT, &own, error));
    const struct json *prompt = json_get(own, "default_prompt_name");
    if (!json_is_absent(prompt))
        return fail(error, WISP_ERROR_UNSUPPORTED, config->file, prompt->key,
                    "prompts of cross-encoders are not supported");
    const struct json *given = json_get(own, field);
    given = given ? given : json_get(json_get(config->root, "sentence_transformers"), field);
    given = given ? given : json_get(config->root, "sbert_ce_default_activation_function");
    snprintf(key, sizeof key, KEY_DENSE_ACTIVATION, TENSOR_HEAD_OUTPUT);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (json_equals(given, known[i].class) || (i == 0 && json_is_absent(given)))
            return directory_put_text(dir, key, wisp_text_of(known[i].name), error);
    return fail(error, WISP_ERROR_UNSUPPORTED, config->file, field,
                "%.64s is not supported, only Sigmoid and Identity", hf_shown(given));
}

wisp_status hf_read_cross_encoder(struct directory *dir, const char *folder, const char *proper,
                                  struct hf_config *config, const struct hf_encoder *encoder,
                                  wisp_error *error) {
    struct hf_sentence sentence;
    char key[KEY_BYTES];
    size_t i = 0;
    while (i < sizeof heads / sizeof *heads && strcmp(heads[i].type, encoder->type) != 0)
        i++;
    if (i == sizeof heads / sizeof *heads)
        return fail(error, WISP_ERROR_UNSUPPORTED, config->file, "architectures",
                    "the head of %s that scores pairs of texts is not supported", encoder->type);
    TRY(check_labels(config, error));
    TRY(hf_read_sentence_transformer(dir, proper, false, 0, &sentence, error));
    config->max_seq_length = sentence.max_seq_length;
    snprintf(key, sizeof key, KEY_DENSE_ACTIVATION, TENSOR_HEAD);
    TRY(directory_put_text(dir, key, wisp_text_of(heads[i].activation), error));
    TRY(directory_put_u32(dir, KEY_PAIR_SEPARATORS, heads[i].separators, error));
    TRY(directory_put_bool(dir, KEY_NORMALIZE, false, error));
    return put_output(dir, folder, config, error);
}
