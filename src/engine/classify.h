/* SPDX-License-Identifier: Apache-2.0
 * The labels of models that classify texts (wisp/classify.h). */
#ifndef WISP_ENGINE_CLASSIFY_H
#define WISP_ENGINE_CLASSIFY_H

#include "engine/model.h"

enum label_function { LABELS_SOFTMAX, LABELS_SIGMOID, LABELS_IDENTITY };

struct class_labels {
    enum label_function function; /* makes scores of logits */
    const char *names[];          /* [model->dimensions]; the directory's */
};

/* Reads the labels of a model if its pooling is POOLING_RANK: sets model->labels. A step of
 * model_steps (model.h). */
wisp_status class_labels_load(wisp_model *model, wisp_error *error);

/* Writes the logits [n, dimensions] of texts or, if `seconds` is not NULL, of pairs. embed.c */
wisp_status class_job_run(wisp_session *session, const wisp_text *texts, const wisp_text *seconds,
                          size_t n, float *logits, wisp_error *error);

#endif
