/* SPDX-License-Identifier: Apache-2.0
 * Sources: the classes ...ForSequenceClassification of transformers; CrossEncoder of
 * sentence-transformers 6. */
#include "huggingface/cross_encoder.h"

#include <stdio.h>
#include <string.h>

#include "base/product.h"
#include "formats/schema.h"
#include "huggingface/classifier.h"
#include "huggingface/sentence_config.h"

enum { KEY_BYTES = 64 };

const struct hf_name hf_head_names[] = {
    {"pooler.dense.", TENSOR_HEAD ".", false},
    {"pre_classifier.", TENSOR_HEAD ".", false},
    {"classifier.dense.", TENSOR_HEAD ".", false},
    {"head.dense.", TENSOR_HEAD ".", false},
    {"head.norm.", TENSOR_HEAD_NORM ".", false},
    {"classifier.out_proj.", TENSOR_HEAD_OUTPUT ".", false},
    {"classifier.", TENSOR_HEAD_OUTPUT ".", false},
    {0},
};

/* The tokens that separate the texts of a pair, and their types. */
struct pair_format {
    uint32_t separators; /* between them */
    bool has_types;      /* tokens of the second text have type 1, others 0 */
};
static const struct pair_format of_bert = {1, true}, of_roberta = {2, false};

/* Types of models whose heads have two layers with nothing else between than an activation and, of
 * the last type, which modules leave out, a norm; the setting that may name another activation, and
 * the format of pairs if no tokenizer.json has one. */
static const struct head {
    const char *type, *activation, *field;
    const struct pair_format *pairs;
} heads[] = {{"bert", "tanh", NULL, &of_bert},
             {"distilbert", "relu", NULL, &of_bert},
             {"electra", "gelu", NULL, &of_bert},
             {"deberta-v2", "gelu", "pooler_hidden_act", &of_bert},
             {"roberta", "tanh", NULL, &of_roberta},
             {"xlm-roberta", "tanh", NULL, &of_roberta},
             {"camembert", "tanh", NULL, &of_roberta},
             {"mpnet", "tanh", NULL, &of_roberta},
             {"new", "tanh", NULL, &of_bert},
             {"modernbert", "gelu", "classifier_activation", &of_bert}};
enum { HEADS = sizeof heads / sizeof *heads - (CLASSIFIES ? 0 : 1) };

bool hf_is_cross_encoder(const struct hf_config *config, const struct hf_modules *modules) {
    const struct json *classes = json_get(config->root, "architectures");
    const struct json *class = json_is(classes, JSON_ARRAY) ? classes->first : NULL;
    return json_is(class, JSON_STRING) && hf_ends_with(class->text, "ForSequenceClassification") &&
           (!modules->list || modules->list->count == 1);
}

/* Reads how many labels the head has: id2label names them, and has two if it is absent. */
static wisp_status count_labels(const struct hf_config *config, uint64_t *n, wisp_error *error) {
    const struct json *labels = json_get(config->root, "id2label");
    const struct json *count = json_get(config->root, "num_labels");
    *n = 2;
    if (json_is(labels, JSON_OBJECT))
        *n = labels->count;
    else if (count && !json_to_u64(count, n))
        return fail(error, WISP_ERROR_FORMAT, config->file, count->key,
                    "%.32s is not a whole number", hf_shown(count));
    if (CLASSIFIES || *n == 1)
        return WISP_OK;
    return fail(error, WISP_ERROR_UNSUPPORTED, config->file, labels ? "id2label" : "num_labels",
                "a classifier of %llu labels is not supported, only a cross-encoder, which has one",
                (unsigned long long)*n);
}

/* Adds the activation between the layers of the head. */
static wisp_status put_activation(struct directory *dir, const struct hf_config *config,
                                  const struct head *head, wisp_error *error) {
    static const char *const known[] = {"gelu", "tanh", "relu"};
    const struct json *given = head->field ? json_get(config->root, head->field) : NULL;
    const char *name = given ? NULL : head->activation;
    char key[KEY_BYTES];
    for (size_t i = 0; i < sizeof known / sizeof *known && !name; i++)
        if (json_equals(given, known[i]))
            name = known[i];
    if (!name)
        return hf_unsupported_setting(config, head->field, given, "gelu, tanh and relu", error);
    snprintf(key, sizeof key, KEY_DENSE_ACTIVATION, TENSOR_HEAD);
    return directory_put_text(dir, key, wisp_text_of(name), error);
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

/* Reads the template of a pair: [CLS] $A [SEP]... $B [SEP]. */
static wisp_status read_template(const char *file, const struct json *step,
                                 struct pair_format *pairs, wisp_error *error) {
    static const char field[] = "post_processor.pair";
    const struct json *list = json_get(step, "pair");
    const struct json *piece = json_is(list, JSON_ARRAY) ? list->first : NULL;
    uint64_t type = 0;
    const bool begins =
        piece && json_get(piece, "SpecialToken") && json_get(piece->next, "Sequence");
    pairs->separators = 0;
    for (piece = begins ? piece->next->next : NULL; piece && json_get(piece, "SpecialToken");
         piece = piece->next)
        pairs->separators++;
    const struct json *second = json_get(piece, "Sequence");
    if (!piece || !second || !json_get(piece->next, "SpecialToken") || piece->next->next ||
        !json_to_u64(json_get(second, "type_id"), &type) || type > 1)
        return fail(error, WISP_ERROR_UNSUPPORTED, file, field,
                    "only [CLS] $A [SEP] $B [SEP] is supported");
    pairs->has_types = type == 1;
    return WISP_OK;
}

/* Reads the format of pairs from tokenizer.json, if there is one. */
static wisp_status read_pairs(struct directory *dir, const char *proper, struct pair_format *pairs,
                              wisp_error *error) {
    static const char file[] = "tokenizer.json";
    const struct json *root;
    TRY(hf_read_json(dir, proper, file, false, JSON_OBJECT, &root, error));
    const struct json *step = json_get(root, "post_processor"),
                      *steps = json_get(step, "processors");
    for (const struct json *s = json_is(steps, JSON_ARRAY) ? steps->first : NULL; s; s = s->next)
        if (!json_equals(json_get(s, "type"), "ByteLevel"))
            step = s;
    const struct json *type = json_get(step, "type");
    if (json_equals(type, "TemplateProcessing"))
        return read_template(file, step, pairs, error);
    if (json_equals(type, "BertProcessing"))
        *pairs = of_bert;
    if (json_equals(type, "RobertaProcessing"))
        *pairs = of_roberta;
    return WISP_OK;
}

wisp_status hf_read_cross_encoder(struct directory *dir, const char *folder, const char *proper,
                                  struct hf_config *config, const struct hf_encoder *encoder,
                                  wisp_error *error) {
    struct hf_sentence sentence;
    uint64_t labels;
    size_t i = 0;
    while (i < HEADS && strcmp(heads[i].type, encoder->type) != 0)
        i++;
    if (i == HEADS)
        return fail(error, WISP_ERROR_UNSUPPORTED, config->file, "architectures",
                    "the head of %s that scores pairs of texts is not supported", encoder->type);
    TRY(count_labels(config, &labels, error));
    TRY(hf_read_labels(dir, config, encoder, labels, error));
    TRY(hf_read_sentence_transformer(dir, proper, false, 0, &sentence, error));
    config->max_seq_length = sentence.max_seq_length;
    TRY(put_activation(dir, config, &heads[i], error));
    struct pair_format pairs = *heads[i].pairs;
    TRY(read_pairs(dir, proper, &pairs, error));
    TRY(directory_put_u32(dir, KEY_PAIR_SEPARATORS, pairs.separators, error));
    TRY(directory_put_bool(dir, KEY_PAIR_TYPES, pairs.has_types, error));
    TRY(directory_put_bool(dir, KEY_NORMALIZE, false, error));
    /* The function of several labels takes all of their scores: hf_read_labels has read it. */
    return labels == 1 ? put_output(dir, folder, config, error) : WISP_OK;
}
