/* SPDX-License-Identifier: Apache-2.0
 * Reads from config.json the labels of a classifier (...ForSequenceClassification). */
#ifndef WISP_HUGGINGFACE_CLASSIFIER_H
#define WISP_HUGGINGFACE_CLASSIFIER_H

#include "huggingface/encoder.h"

/* Adds the names of the n labels and what makes their scores, as transformers' text-classification
 * pipeline has them, and how ModernBERT's head pools. Fails if id2label lacks one of them, or
 * problem_type or classifier_pooling is not known. */
wisp_status hf_read_labels(struct directory *dir, const struct hf_config *config,
                           const struct hf_encoder *encoder, uint64_t n, wisp_error *error);

#endif
