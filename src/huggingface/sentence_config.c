/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/sentence_config.h"

#include <stdio.h>
#include <string.h>

#include "formats/schema.h"
#include "huggingface/json_file.h"

enum { KEY_BYTES = 256 };

static wisp_status unsupported(const char *folder, const char *file, const struct json *member,
                               const char *what, wisp_error *error) {
    char path[HF_PATH_BYTES];
    return fail(error, WISP_ERROR_UNSUPPORTED, hf_path_of(path, folder, file), member->key,
                "%.64s %s", hf_shown(member), what);
}

/* ---- config_sentence_transformers.json ------------------------------------------------------ */

static const char MODEL_FILE[] = "config_sentence_transformers.json";

/* Adds the prompts. sentence-transformers 6 reads a prompt that is null as an empty one. */
static wisp_status read_prompts(struct directory *dir, const char *folder,
                                const struct json *prompts, wisp_error *error) {
    if (!json_is_absent(prompts) && !json_is(prompts, JSON_OBJECT))
        return hf_wrong_value(folder, MODEL_FILE, "prompts", "an object", error);
    for (const struct json *p = prompts ? prompts->first : NULL; p; p = p->next) {
        char key[KEY_BYTES];
        const int length = snprintf(key, sizeof key, KEY_PROMPT_PREFIX "%s", p->key);
        if (length < 0 || (size_t)length >= sizeof key)
            return hf_wrong_value(folder, MODEL_FILE, "prompts", "prompts with shorter names",
                                  error);
        if (!json_is_absent(p) && !json_is(p, JSON_STRING))
            return hf_wrong_value(folder, MODEL_FILE, "prompts", "an object of strings", error);
        const wisp_text text = {json_is(p, JSON_STRING) ? p->text : "", p->text_length};
        TRY(directory_put_text(dir, key, text, error));
    }
    return WISP_OK;
}

/* Adds the name of the default prompt. In sentence-transformers 6 every model has the prompts
 * "query" and "document", which are empty if the file has none of the name; such a default is
 * left out. */
static wisp_status read_default_prompt(struct directory *dir, const char *folder,
                                       const struct json *config, wisp_error *error) {
    static const char field[] = "default_prompt_name";
    const struct json *name = json_get(config, field), *prompts = json_get(config, "prompts");
    if (json_is_absent(name))
        return WISP_OK;
    if (!json_is(name, JSON_STRING) || name->text_length == 0)
        return hf_wrong_value(folder, MODEL_FILE, field, "the name of a prompt", error);
    const bool is_empty = json_equals(name, "query") || json_equals(name, "document");
    if (is_empty && !json_get(prompts, name->text))
        return WISP_OK;
    return directory_put_text(dir, KEY_DEFAULT_PROMPT_NAME, json_text(name), error);
}

wisp_status hf_read_sentence_model(struct directory *dir, const char *folder, bool guesses,
                                   wisp_error *error) {
    const char *const wanted = guesses ? "SparseEncoder" : "SentenceTransformer";
    const struct json *config;
    uint64_t dimensions;
    TRY(hf_read_json(dir, folder, MODEL_FILE, false, JSON_OBJECT, &config, error));
    const struct json *type = json_get(config, "model_type");
    const struct json *truncate = json_get(config, "truncate_dim");
    if (type && !json_equals(type, wanted))
        return unsupported(folder, MODEL_FILE, type,
                           guesses ? "is not supported with a SpladePooling, only SparseEncoder"
                                   : "is not supported with these modules, only "
                                     "SentenceTransformer: other models do not make one embedding "
                                     "of a text",
                           error);
    TRY(read_prompts(dir, folder, json_get(config, "prompts"), error));
    TRY(read_default_prompt(dir, folder, config, error));
    if (json_is_absent(truncate))
        return WISP_OK;
    if (!json_to_u64(truncate, &dimensions) || dimensions == 0 || dimensions > UINT32_MAX)
        return hf_wrong_value(folder, MODEL_FILE, truncate->key, "a whole number of at least 1",
                              error);
    return directory_put_u32(dir, KEY_DIMENSIONS, (uint32_t)dimensions, error);
}

/* ---- sentence_bert_config.json -------------------------------------------------------------- */

/* The names that sentence-transformers looks for, in its order. A file that holds nothing does not
 * count. */
static const char *const transformer_files[] = {
    "sentence_bert_config.json",       "sentence_roberta_config.json",
    "sentence_distilbert_config.json", "sentence_camembert_config.json",
    "sentence_albert_config.json",     "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json"};

/* Arguments of transformers' classes that do not change an embedding by more than rounding does. */
static bool is_harmless_argument(const char *key) {
    static const char *const keys[] = {
        "trust_remote_code", "dtype",           "torch_dtype",       "attn_implementation",
        "add_pooling_layer", "use_safetensors", "low_cpu_mem_usage", "use_fast"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}

/* {"text": {"method": "forward", "method_output_name": OUTPUT}} */
static bool is_output_of_text(const struct json *value, const char *output) {
    const struct json *text = json_get(value, "text");
    return json_is(value, JSON_OBJECT) && value->count == 1 &&
           json_equals(json_get(text, "method"), "forward") &&
           json_equals(json_get(text, "method_output_name"), output);
}

/* The values of a setting that wisp can follow. */
enum rule {
    ANY_VALUE, /* it does not change an embedding, or is read elsewhere */
    NOTHING,   /* null, or an empty object */
    OF_TOKENS, /* the same, but of ColBERTs, where it is read elsewhere */
    ONE_TEXT,  /* one string, which is what its absence stands for */
    TASK,      /* what the head gives, or that there is no head */
    OUTPUT,    /* the logits of a text, or its hidden states */
    ARGUMENTS  /* an object of harmless arguments */
};

static const struct {
    const char *key;
    enum rule rule;
    const char *text; /* of ONE_TEXT */
} settings[] = {
    {"max_seq_length", ANY_VALUE, NULL},
    {"do_lower_case", ANY_VALUE, NULL},
    {"unpad_inputs", ANY_VALUE, NULL},
    {"backend", ANY_VALUE, NULL},
    {"cache_dir", ANY_VALUE, NULL},
    {"transformer_task", TASK, NULL},
    {"module_output_name", ONE_TEXT, "token_embeddings"},
    {"modality_config", OUTPUT, NULL},
    {"processing_kwargs", NOTHING, NULL},
    {"query_length", OF_TOKENS, NULL},
    {"document_length", OF_TOKENS, NULL},
    {"query_expansion", OF_TOKENS, NULL},
    {"tokenizer_name_or_path", NOTHING, NULL},
    {"model_args", ARGUMENTS, NULL},
    {"model_kwargs", ARGUMENTS, NULL},
    {"tokenizer_args", ARGUMENTS, NULL},
    {"processor_kwargs", ARGUMENTS, NULL},
    {"config_args", ARGUMENTS, NULL},
    {"config_kwargs", ARGUMENTS, NULL},
};

static wisp_status check_setting(const char *folder, const char *file, const struct json *member,
                                 uint32_t pooling, wisp_error *error) {
    const bool guesses = pooling == POOLING_TYPE_SPLADE;
    size_t i = 0;
    while (i < sizeof settings / sizeof *settings && strcmp(settings[i].key, member->key) != 0)
        i++;
    if (i == sizeof settings / sizeof *settings)
        return unsupported(folder, file, member,
                           "is the value of a setting that wisp does not know", error);
    switch (settings[i].rule) {
    case ANY_VALUE:
        return WISP_OK;
    case OF_TOKENS:
    case NOTHING:
        if ((settings[i].rule == OF_TOKENS && pooling == POOLING_TYPE_TOKENS) ||
            json_is(member, JSON_NULL) || (json_is(member, JSON_OBJECT) && member->count == 0))
            return WISP_OK;
        return unsupported(folder, file, member, "is not supported, only null", error);
    case ONE_TEXT:
        if (json_equals(member, settings[i].text))
            return WISP_OK;
        return unsupported(folder, file, member,
                           "is not supported, only the hidden states of a text's tokens", error);
    case TASK:
        if (json_equals(member, guesses ? "fill-mask" : "feature-extraction"))
            return WISP_OK;
        return unsupported(folder, file, member,
                           guesses ? "is not supported with a SpladePooling, only fill-mask"
                                   : "is not supported, only the hidden states of a text's tokens",
                           error);
    case OUTPUT:
        if (is_output_of_text(member, guesses ? "logits" : "last_hidden_state"))
            return WISP_OK;
        return unsupported(folder, file, member,
                           guesses ? "is not supported, only text, forward and logits"
                                   : "is not supported, only text, forward and last_hidden_state",
                           error);
    case ARGUMENTS:
        break;
    }
    if (!json_is(member, JSON_OBJECT))
        return hf_wrong_value(folder, file, member->key, "an object", error);
    for (const struct json *m = member->first; m; m = m->next)
        if (!is_harmless_argument(m->key))
            return unsupported(folder, file, m,
                               "is an argument to transformers that wisp does not follow: make it "
                               "a setting of config.json or tokenizer_config.json",
                               error);
    return WISP_OK;
}

/* ---- the limit of tokens -------------------------------------------------------------------- */

/* Adds tokenizer_config.json's model_max_length, formerly max_len. A huge number stands for no
 * limit: the model's positions are the limit then. */
static wisp_status put_tokenizer_limit(struct directory *dir, const char *folder,
                                       wisp_error *error) {
    static const char file[] = "tokenizer_config.json";
    const struct json *config;
    uint64_t tokens;
    double size = 0;
    TRY(hf_read_json(dir, folder, file, false, JSON_OBJECT, &config, error));
    const struct json *limit = json_get(config, "model_max_length");
    limit = limit ? limit : json_get(config, "max_len");
    if (json_is_absent(limit) || (json_to_double(limit, &size) && size > UINT32_MAX))
        return WISP_OK;
    if (!json_to_u64(limit, &tokens))
        return hf_wrong_value(folder, file, limit->key, "a whole number", error);
    return directory_put_u32(dir, KEY_MAX_SEQ_LENGTH, (uint32_t)tokens, error);
}

wisp_status hf_read_sentence_transformer(struct directory *dir, const char *folder,
                                         bool has_modules, uint32_t pooling,
                                         struct hf_sentence *sentence, wisp_error *error) {
    const size_t n = has_modules ? sizeof transformer_files / sizeof *transformer_files : 0;
    const struct json *config = NULL;
    const char *file = NULL;
    uint64_t tokens;
    *sentence = (struct hf_sentence){0};
    for (size_t i = 0; i < n && (!config || config->count == 0); i++) {
        file = transformer_files[i];
        TRY(hf_read_json(dir, folder, file, false, JSON_OBJECT, &config, error));
    }
    for (const struct json *m = config ? config->first : NULL; m; m = m->next)
        TRY(check_setting(folder, file, m, pooling, error));
    const struct json *lower = json_get(config, "do_lower_case");
    if (!json_is_absent(lower) && !json_to_bool(lower, &sentence->lowercase_first))
        return hf_wrong_value(folder, file, "do_lower_case", "true or false", error);
    const struct json *max = json_get(config, "max_seq_length");
    if (json_is_absent(max))
        return put_tokenizer_limit(dir, folder, error);
    if (!json_to_u64(max, &tokens) || tokens > UINT32_MAX)
        return hf_wrong_value(folder, file, "max_seq_length", "a whole number", error);
    sentence->max_seq_length = (uint32_t)tokens;
    return directory_put_u32(dir, KEY_MAX_SEQ_LENGTH, sentence->max_seq_length, error);
}
