/* SPDX-License-Identifier: Apache-2.0
 * Part of wisp.h: scores of texts, by how well they answer a query and, natively, of labels, by
 * models that classify texts or pairs of them (sentiment, inference, topics). */
#ifndef WISP_CLASSIFY_H
#define WISP_CLASSIFY_H

#ifndef WISP_H
#error "include wisp.h, which includes this header"
#endif

/* Returns whether wisp_rerank scores texts with the model. */
WISP_API bool wisp_model_ranks(const wisp_model *model);

/* Scores `n` texts by how well they answer a query, with a model whose pooling is "rank" (a
 * cross-encoder): the model reads query and text as one sequence. Writes scores [n], as
 * CrossEncoder.predict of sentence-transformers computes them. Higher is better; scores are from 0
 * to 1 unless the model's settings say otherwise. A pair that is too long is truncated as Hugging
 * Face's tokenizers do. With a model whose pooling is "tokens", scores are those of MaxSim
 * (wisp_embed_tokens), and natively with one that generates those of wisp_judge. As with
 * wisp_embed, the bits of a score do not depend on the other texts. Fails with
 * WISP_ERROR_UNSUPPORTED if the model does neither. wisp_embed fails so if it does. */
WISP_API wisp_status wisp_rerank(wisp_session *session, wisp_text query, const wisp_text *texts,
                                 size_t n, float *scores, wisp_error *error);

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
