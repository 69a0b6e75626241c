/* SPDX-License-Identifier: Apache-2.0
 * Builds tiny decoders of every architecture in memory, with the keys and tensors of llama.cpp's
 * converter and arbitrary weights (builder.h). */
#ifndef TESTS_DECODERS_H
#define TESTS_DECODERS_H

#include "support/builder.h"
#include "wisp.h"

enum {
    DECODER_VOCABULARY = 272, /* three special tokens, a token for each byte, some letters */
    DECODER_POSITIONS = 128,
    DECODER_LAYERS = 3,
    DECODER_HIDDEN = 32,
    DECODER_WIDE = 64,
    DECODER_USED_EXPERTS = 2,
    DECODER_EXPERT = 24 /* neurons of an expert */
};

struct tiny_decoder {
    const char *name; /* of this model in messages */
    const char *architecture;
    const char *activation; /* wisp.hidden_act; NULL: the key is absent */
    bool ungated;           /* of Llama: layers have no gates */
    uint32_t window;        /* 0: no sliding window */
    uint32_t rotated;       /* values of a head that are rotated; 0: all */
    uint32_t experts;       /* of each feed-forward layer; 0: none */
};

/* The models; one without name follows the last. */
extern const struct tiny_decoder tiny_decoders[];

/* Returns the model of a name, which there must be. */
const struct tiny_decoder *find_tiny(const char *name);

/* Makes the file. It is released once, with gguf_release. */
void decoder_make(struct gguf *file, const struct tiny_decoder *decoder);

/* Writes it as write_made does (opening.h). */
const char *write_decoder(const struct tiny_decoder *decoder, const char *name);

/* A model that computes in f32, and its file in memory. */
struct opened_decoder {
    wisp_model *model;
    struct bytes bytes;
};

/* Opens a made file, which is released. The caller releases the decoder, also after an error. */
wisp_status decoder_open(struct gguf *file, struct opened_decoder *decoder, wisp_error *error);
void decoder_release(struct opened_decoder *decoder);

/* Writes the logits after each of the first n tokens of an arbitrary text, which come together or
 * one by one, to logits [n, DECODER_VOCABULARY]. n is at most DECODER_POSITIONS. */
wisp_status decoder_logits(wisp_session *session, size_t n, float *logits, wisp_error *error);
wisp_status decoder_logits_one_by_one(wisp_session *session, size_t n, float *logits,
                                      wisp_error *error);

#endif
