/* SPDX-License-Identifier: Apache-2.0
 * Part of wisp.h: scores of labels, by models that classify texts or pairs of them (sentiment,
 * inference, topics). Native only.
 */
#ifndef WISP_CLASSIFY_H
#define WISP_CLASSIFY_H

#ifndef WISP_H
#error "include wisp.h, which includes this header"
#endif

/* Returns the name of a model's label: id2label of config.json, or LABEL_0, LABEL_1 and so on if
 * the file names none. It lives as long as the model. Returns NULL from wisp_model_dimensions on,
 * and if the pooling is neither "rank" nor "labels". */
WISP_API const char *wisp_model_label(const wisp_model *model, size_t index);

/* Scores the labels of n texts or, if `seconds` is not NULL, of n pairs of texts[i] and seconds[i],
 * which the model reads as one sequence, also if one of them is empty. Writes scores [n,
 * wisp_model_dimensions] as transformers' text-classification pipeline computes them: probabilities
 * whose sum is 1; if several labels may be true of a text, or the model has one, a probability of
 * each; of a regression its outputs. Texts that are too long are truncated, and pairs as
 * wisp_rerank truncates them. The bits of a row do not depend on the other texts. Fails with
 * WISP_ERROR_UNSUPPORTED if the model has no labels.
 */
WISP_API wisp_status wisp_classify(wisp_session *session, const wisp_text *texts,
                                   const wisp_text *seconds, size_t n, float *scores,
                                   wisp_error *error);

#endif
