/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/classifier.h"

#include <stdio.h>
#include <string.h>

#include "base/product.h"
#include "formats/schema.h"

enum { KEY_BYTES = 64, MOST_LABELS = 1 << 20, POOLING_MEAN = 1, POOLING_CLS = 2 };

/* Adds the names of labels, whose keys are their indices, in any order. Without id2label they are
 * those that transformers gives them. */
static wisp_status put_names(struct directory *dir, const struct hf_config *config,
                             const char *architecture, uint64_t n, wisp_error *error) {
    static const char field[] = "id2label";
    const struct json *labels = json_get(config->root, field);
    char key[KEY_BYTES];
    wisp_text *names;
    ARENA_TAKE(&dir->arena, names, (size_t)n, error);
    memset(names, 0, (size_t)n * sizeof *names);
    for (uint64_t i = 0; json_is_absent(labels) && i < n; i++) {
        const int length = snprintf(key, sizeof key, "LABEL_%llu", (unsigned long long)i);
        names[i] = (wisp_text){arena_copy_text(&dir->arena, key, (size_t)length), (size_t)length};
        if (!names[i].bytes)
            return fail_memory(error, (size_t)length);
    }
    for (const struct json *label = labels ? labels->first : NULL; label; label = label->next) {
        uint64_t index;
        if (!json_is(label, JSON_STRING) || !hf_id_of_key(label, &index) || index >= n ||
            names[index].bytes)
            return fail(error, WISP_ERROR_FORMAT, config->file, field,
                        "%.64s: the members are not strings under the numbers from 0 on",
                        label->key);
        names[index] = json_text(label);
    }
    /* Other readers of GGUF files take a list for a classifier's. */
    if (n == 1 && strcmp(names[0].bytes, "LABEL_0") == 0)
        return WISP_OK;
    snprintf(key, sizeof key, KEY_LABELS, architecture);
    return directory_put_texts(dir, key, names, n, error);
}

/* Adds what makes scores of outputs, if problem_type says more than the number of labels. */
static wisp_status put_function(struct directory *dir, const struct hf_config *config,
                                wisp_error *error) {
    static const char field[] = "problem_type";
    static const char *const known[][2] = {{"regression", "identity"},
                                           {"multi_label_classification", "sigmoid"},
                                           {"single_label_classification", NULL}};
    const struct json *given = json_get(config->root, field);
    if (json_is_absent(given))
        return WISP_OK;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (json_equals(given, known[i][0]))
            return known[i][1] ? directory_put_text(dir, KEY_LABELS_FUNCTION,
                                                    wisp_text_of(known[i][1]), error)
                               : WISP_OK;
    return hf_unsupported_setting(config, field, given,
                                  "regression, single_label_classification and "
                                  "multi_label_classification",
                                  error);
}

/* Adds what ModernBERT's head reads. */
static wisp_status put_pooling(struct directory *dir, const struct hf_config *config,
                               wisp_error *error) {
    static const char field[] = "classifier_pooling";
    const struct json *given = json_get(config->root, field);
    const bool means = json_equals(given, "mean");
    if (!json_is_absent(given) && !means && !json_equals(given, "cls"))
        return hf_unsupported_setting(config, field, given, "cls and mean", error);
    return directory_put_u32(dir, KEY_HEAD_POOLING, means ? POOLING_MEAN : POOLING_CLS, error);
}

wisp_status hf_read_labels(struct directory *dir, const struct hf_config *config,
                           const struct hf_encoder *encoder, uint64_t n, wisp_error *error) {
    if (n == 0 || n > MOST_LABELS)
        return fail(error, WISP_ERROR_UNSUPPORTED, config->file, "num_labels",
                    "%llu labels are not between 1 and %d", (unsigned long long)n, MOST_LABELS);
    TRY(put_names(dir, config, encoder->architecture, n, error));
    TRY(put_function(dir, config, error));
    return CLASSIFIES && strcmp(encoder->type, "modernbert") == 0 ? put_pooling(dir, config, error)
                                                                  : WISP_OK;
}
