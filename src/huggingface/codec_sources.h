/* SPDX-License-Identifier: Apache-2.0
 * The files that a codec's vocabulary is read from. Each is read by a file of its own. */
#ifndef WISP_HUGGINGFACE_CODEC_SOURCES_H
#define WISP_HUGGINGFACE_CODEC_SOURCES_H

#include "huggingface/codec_reading.h"

/* Reads tokenizer.json, which was parsed and is r->file (codec_json.c). */
wisp_status codec_read_json(struct codec_reading *r, const struct json *root);

/* Reads vocab.json, which was parsed, and merges.txt, with the settings of tokenizer_config.json,
 * which r->file is, and of config.json. */
wisp_status codec_read_vocab(struct codec_reading *r, const struct json *tokenizer,
                             const struct json *config, const struct json *vocab);

/* Reads tekken.json, which was parsed and is r->file. */
wisp_status codec_read_tekken(struct codec_reading *r, const struct json *root);

/* Reads tokenizer.model, which is r->file. */
wisp_status codec_read_sentencepiece(struct codec_reading *r);

#endif
