/* SPDX-License-Identifier: Apache-2.0
 * Texts that an engine for JavaScript generates little by little: writing_new, writing_open,
 * writing_run until all have ended, writing_free. An engine has one writing or search at a time,
 * and makes no other call until it is freed. */
#ifndef WISP_BINDING_GENERATE_TEXT_H
#define WISP_BINDING_GENERATE_TEXT_H

#include "binding/engine.h"

struct writing;

/* Returns NULL if there is no memory. */
struct writing *writing_new(struct engine *engine);

void writing_free(struct writing *writing);

/* Begins the texts of a description (js/engine/text-engine.js), of which at most `at_once` (0: 8)
 * are computed at a time. After a failure the writing may only be freed. */
wisp_status writing_open(struct writing *writing, const char *description, size_t length,
                         size_t at_once);

/* Goes on for about `seconds`, or until all texts have ended. engine_text then has JSON: the pieces
 * of this run, whether all texts have ended, and the result of each so far, whose end is "caller"
 * until it has ended. */
wisp_status writing_run(struct writing *writing, double seconds);

/* Return whether all texts have ended, and how many pieces the last run has handed out. */
bool writing_ended(const struct writing *writing);
size_t writing_pieces(const struct writing *writing);

/* Returns the JSON of the last writing_run or search_run. */
const char *engine_text(const struct engine *engine);

/* Computes the logits [n, vocabulary_size] that follow each of n token ids. */
wisp_status engine_logits(struct engine *engine, const int32_t *ids, size_t n, float *logits);

/* Computes the log-probabilities [n - first] of the ids from `first` on, each given all before. */
wisp_status engine_score(struct engine *engine, const int32_t *ids, size_t n, size_t first,
                         float *logprobs);

/* Saves what the engine has computed of its last texts: sets *size, and writes `bytes` if they
 * fit in `capacity`. engine_load takes such bytes. */
wisp_status engine_save(struct engine *engine, void *bytes, size_t capacity, size_t *size);
wisp_status engine_load(struct engine *engine, const void *bytes, size_t size);

/* Returns the model's chat template, or NULL and an error of wisp_model_chat_template. */
const char *engine_chat_template(struct engine *engine);

/* Returns the name of the type of keys and values, which is not "auto". */
const char *engine_cache_type(const struct engine *engine);

/* Writes the text that n token ids stand for to the engine's text, as a JSON string. With
 * `continues` they continue a text: the space before the first word is kept that SentencePiece puts
 * there. */
wisp_status engine_detokenize(struct engine *engine, const int32_t *ids, size_t n, bool continues);

#endif
