/* SPDX-License-Identifier: Apache-2.0
 * A directory with a small vocabulary, and a tokenizer that was opened from it. */
#ifndef WISP_TESTS_TOKENIZER_FIXTURE_H
#define WISP_TESTS_TOKENIZER_FIXTURE_H

#include "tokenizers/bert_tokenizer.h"

enum { MAX_IDS = 64 };

/* Ids of the fixture's pieces. */
enum { PAD, UNK, CLS, SEP, MASK, FOO, ING, BAR, A, CONT_A, I, K, E_ACUTE, SIGMA, FINAL, SUN };
enum { SUNS = SUN + 1, CONT_TAU, CONT_B, COMMA, BRACKET, VIRAMA, TONE, NEW };

enum { N_PIECES = NEW + 1 };

enum { SINGLE_WORD = 1, LSTRIP = 2, RSTRIP = 4, NORMALIZED = 8 };

struct fixture {
    struct directory dir;
    wisp_text tokens[N_PIECES];
    int32_t types[N_PIECES];
    uint64_t n_tokens, n_types;
    wisp_error error;
    struct bert_tokenizer *tokenizer;
};

void put_u32(struct fixture *f, const char *key, uint32_t value);
void put_bool(struct fixture *f, const char *key, bool value);
void put_numbers(struct fixture *f, const char *key, enum value_type type, const void *numbers,
                 uint64_t count);

/* Makes the pieces and their types, which are not in the directory yet. */
void setup(struct fixture *f);
void put_tokens(struct fixture *f);
void put_ids(struct fixture *f);

/* Makes the whole fixture, ready to open. */
void setup_complete(struct fixture *f);

/* Makes the whole fixture with these added tokens. */
void setup_added(struct fixture *f, const int32_t *ids, const uint8_t *flags, size_t count);

wisp_status open_tokenizer(struct fixture *f);
void must_open(struct fixture *f);
void teardown(struct fixture *f);

/* Checks that a text of `length` bytes has exactly the `count` ids between [CLS] and [SEP]. */
void check_bytes(const struct fixture *f, const char *text, size_t length, const int32_t *ids,
                 size_t count);

#define CHECK(f, text, ...)                                                                        \
    check_bytes(f, text, sizeof text - 1, (const int32_t[]){__VA_ARGS__},                          \
                sizeof(const int32_t[]){__VA_ARGS__} / sizeof(int32_t))

#endif
