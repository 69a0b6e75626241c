/* SPDX-License-Identifier: Apache-2.0
 * Source of the functions: the text-classification pipeline of transformers 5. */
#include "engine/classify.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/session.h"

enum { KEY_BYTES = 64, LABEL_BYTES = 32 };

static wisp_status read_function(const wisp_model *model, enum label_function *function,
                                 wisp_error *error) {
    static const char *const names[] = {
        [LABELS_SOFTMAX] = "softmax", [LABELS_SIGMOID] = "sigmoid", [LABELS_IDENTITY] = "identity"};
    const char *name = names[model->dimensions > 1 ? LABELS_SOFTMAX : LABELS_SIGMOID];
    TRY(metadata_text_or(&model->dir, KEY_LABELS_FUNCTION, &name, error));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) {
            *function = (enum label_function)i;
            return WISP_OK;
        }
    return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, KEY_LABELS_FUNCTION,
                "%.32s is not supported, only softmax, sigmoid and identity", name);
}

wisp_status class_labels_load(wisp_model *model, wisp_error *error) {
    const struct network *network = &model->network;
    const size_t n = dense_modules_outputs(&network->dense, network->config.hidden_size);
    char key[KEY_BYTES], made[LABEL_BYTES];
    if (network->config.pooling != POOLING_RANK)
        return WISP_OK;
    snprintf(key, sizeof key, KEY_LABELS, network->architecture->name);
    const struct metadata *given = directory_find_metadata(&model->dir, key);
    if (given &&
        (given->type != VALUE_ARRAY || given->element != VALUE_STRING || given->count != n))
        return fail(error, WISP_ERROR_FORMAT, model->dir.file, key,
                    "not a list of %zu strings, as many as the head has outputs", n);
    snprintf(made, sizeof made, KEY_DENSE_ACTIVATION, TENSOR_HEAD_OUTPUT);
    if (n > 1 && directory_find_metadata(&model->dir, made))
        return fail(error, WISP_ERROR_FORMAT, model->dir.file, made,
                    "the activation of one score, but the head has %zu outputs", n);
    if (model->dimensions != n)
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, KEY_DIMENSIONS,
                    "%u of %zu scores", model->dimensions, n);
    const size_t bytes = sizeof *model->labels + n * sizeof *model->labels->names;
    model->labels = calloc(1, bytes);
    if (!model->labels)
        return fail_memory(error, bytes);
    for (size_t i = 0; i < n; i++) {
        const int length = snprintf(made, sizeof made, "LABEL_%zu", i);
        model->labels->names[i] = given ? given->as.texts[i].bytes
                                        : arena_copy_text(&model->dir.arena, made, (size_t)length);
        if (!model->labels->names[i])
            return fail_memory(error, sizeof made);
    }
    return read_function(model, &model->labels->function, error);
}

const char *wisp_model_label(const wisp_model *model, size_t index) {
    return model->labels && index < model->dimensions ? model->labels->names[index] : NULL;
}

/* Makes probabilities of logits, whose sum is 1. */
static void softmax(float *row, size_t n) {
    float most = row[0];
    double sum = 0;
    for (size_t i = 1; i < n; i++)
        most = fmaxf(most, row[i]);
    for (size_t i = 0; i < n; i++) {
        row[i] = expf(row[i] - most);
        sum += (double)row[i];
    }
    for (size_t i = 0; i < n; i++)
        row[i] = (float)((double)row[i] / sum);
}

wisp_status wisp_classify(wisp_session *session, const wisp_text *texts, const wisp_text *seconds,
                          size_t n, float *scores, wisp_error *error) {
    TRY(require(session, "session", error));
    TRY(require_texts(texts, n, error));
    if (seconds)
        TRY(require_texts(seconds, n, error));
    if (n > 0)
        TRY(require(scores, "scores", error));
    const wisp_model *model = session->model;
    if (!model->labels)
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "pooling_type",
                    "the model has no labels: it does not classify texts");
    TRY(class_job_run(session, texts, seconds, n, scores, error));
    const size_t labels = model->dimensions;
    if (model->labels->function == LABELS_SOFTMAX)
        for (size_t i = 0; i < n; i++)
            softmax(scores + i * labels, labels);
    for (size_t i = 0; model->labels->function == LABELS_SIGMOID && i < n * labels; i++)
        scores[i] = 1 / (1 + expf(-scores[i]));
    return WISP_OK;
}
