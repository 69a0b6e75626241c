/* SPDX-License-Identifier: Apache-2.0
 * A directory with the metadata of a small tokenizer, and the codec that was opened from it: by
 * byte-level BPE, SentencePiece's BPE or its unigram model. */
#ifndef WISP_TESTS_CODEC_FIXTURE_H
#define WISP_TESTS_CODEC_FIXTURE_H

#include "formats/directory.h"
#include "tokenizers/codec.h"

enum { MAX_TOKENS = 320, MAX_MERGES = 32 };

/* The arrays are the directory's own: a test changes them before it opens the codec. */
struct codec_fixture {
    struct directory dir;
    wisp_text tokens[MAX_TOKENS], merges[MAX_MERGES];
    int32_t types[MAX_TOKENS];
    float scores[MAX_TOKENS];
    char spelled[256][8]; /* of the tokens of bytes */
    size_t count, n_merges;
    wisp_error error;
    struct codec *codec;
};

/* Tokens of byte-level BPE. Ids after those of the 256 bytes. */
enum { HE = 256, LL, LLO, HELLO, G_HELLO, TWO_SPACES, BC, AB, ABC, N12, N123, N1234, E_ACUTE };
enum { TOOL = E_ACUTE + 1, TOOL_X, THREE_SPACES, END, PAD, RAW, BPE_TOKENS };

/* Tokens of SentencePiece's models. */
enum {
    UNK,
    BOS,
    EOS,
    BYTE_0,
    SPACE = BYTE_0 + 256,
    S_H,
    S_E,
    S_L,
    S_O,
    S_HE,
    S_LL,
    S_LLO,
    S_SPACE_HE
};
enum { S_SPACE_HELLO = S_SPACE_HE + 1, S_E_ACUTE, S_ABC, SPM_TOKENS };

/* Make the whole fixture, ready to open. */
void fixture_of_bpe(struct codec_fixture *f, const char *pre);
void fixture_of_spm(struct codec_fixture *f);
void fixture_of_unigram(struct codec_fixture *f);

void fixture_add_token(struct codec_fixture *f, const char *text, int32_t type);

void fixture_put_text(struct codec_fixture *f, const char *key, const char *value);
void fixture_put_u32(struct codec_fixture *f, const char *key, uint32_t value);
void fixture_put_bool(struct codec_fixture *f, const char *key, bool value);
void fixture_put_array(struct codec_fixture *f, const char *key, enum value_type type,
                       const void *values, size_t count);

/* Adds a character map: 'a' becomes the text, "ab" becomes nothing. It has the units that
 * charsmap.c describes. */
void fixture_put_charsmap(struct codec_fixture *f, const char *text);

/* Puts the arrays of the vocabulary anew, after tokens were added to it. */
void fixture_put_again(struct codec_fixture *f);

/* Finds the metadata of a key, which must be there. */
struct metadata *fixture_entry(struct codec_fixture *f, const char *key);

wisp_status fixture_open(struct codec_fixture *f);

/* Opens the codec, and releases the directory, which it must not need. */
void fixture_must_open(struct codec_fixture *f);
void fixture_tear_down(struct codec_fixture *f);

/* Checks that a text has exactly these ids. */
void check_codec_ids(const struct codec_fixture *f, wisp_text text, bool begins, const int32_t *ids,
                     size_t count);

#define CHECK(f, text, ...)                                                                        \
    check_codec_ids(f, (wisp_text){text, sizeof text - 1}, true, (const int32_t[]){__VA_ARGS__},   \
                    sizeof(const int32_t[]){__VA_ARGS__} / sizeof(int32_t))

/* Checks that the ids of a text decode to `expected`. */
void check_round_trip(const struct codec_fixture *f, wisp_text text, wisp_text expected);

/* Checks random texts: characters of all lengths, white space, bytes that are not UTF-8. `prefix`
 * is what stands before each decoded text. */
void check_random_round_trips(const struct codec_fixture *f, const char *prefix);

/* Checks that encoding and opening fail cleanly when any allocation does. */
void check_codec_memory(struct codec_fixture *f, const char *text);

#endif
