/* SPDX-License-Identifier: Apache-2.0
 * An encoder's tokenizer while it is read: tokenizer.c and tokenizer_config.c read its files, and
 * tokenizer_metadata.c adds it to a directory as metadata. */
#ifndef WISP_HUGGINGFACE_TOKENIZER_H
#define WISP_HUGGINGFACE_TOKENIZER_H

#include "base/json.h"
#include "formats/directory.h"
#include "formats/tokens.h"

#define HF_CONTINUATION_PREFIX "##"

enum role { ROLE_UNKNOWN, ROLE_CLS, ROLE_SEPARATOR, ROLE_PADDING, ROLE_MASK, ROLES };

struct reading {
    struct directory *dir;
    const char *folder;
    const char *file; /* the one being read, in errors */
    wisp_error *error;
    wisp_text *tokens; /* by id, as vocab.txt spells them; the added ones last */
    size_t count, model_count, capacity;
    int32_t *types; /* enum token_type */
    int32_t *added; /* ids, and their flags beside them */
    uint8_t *flags; /* enum added_flag */
    size_t added_count;
    const wisp_text **sorted; /* all tokens */
    int32_t ids[ROLES];       /* -1: none */
    bool clean_text, handle_chinese_chars, strip_accents, strip_accents_given, lowercase;
    bool lowercase_first; /* a Lowercase normalizer is before BertNormalizer */
    uint32_t word_limit;
    bool is_plain; /* no special tokens are added to texts, whatever tokenizer.json says */
    bool separator_is_named; /* by tokenizer_config.json or special_tokens_map.json */
};

/* ---- tokenizer.c ---------------------------------------------------------------------------- */

/* Read tokenizer.json and vocab.txt, which is r->file in errors. `more` tokens may be added after
 * them. */
wisp_status hf_read_tokenizer_json(struct reading *r, const struct json *root, size_t more);
wisp_status hf_read_vocab_txt(struct reading *r, size_t more);

/* Adds a token as an entry of added_tokens describes it. Its id must be the one it has in the
 * vocabulary or, for a token that is not there, the next free one. */
wisp_status hf_add_token(struct reading *r, const struct json *entry, uint64_t id);

/* Reads how an added token is found, and whether it is a special one; if the entry does not say
 * that, *special stays. */
wisp_status hf_read_token_flags(const struct reading *r, const struct json *entry, uint8_t *flags,
                                bool *special);

/* Sorts the tokens by their texts, for hf_find_token. Two equal texts are a format error. */
wisp_status hf_sort_tokens(struct reading *r);

/* Returns the id of a token, or -1. The tokens must be sorted. */
int32_t hf_find_token(const struct reading *r, wisp_text text);

/* Reads a member that is true or false. If it is absent or null *value stays. */
wisp_status hf_read_tokenizer_bool(const struct reading *r, const struct json *object,
                                   const char *key, const char *field, bool *value);

/* ---- tokenizer_config.c --------------------------------------------------------------------- */

/* Reads a tokenizer.json of only WordPiece. No special tokens are added to texts: the unknown token
 * is before and behind each, so that no text is without tokens. */
wisp_status hf_read_plain_tokenizer(struct directory *dir, const char *folder, wisp_error *error);

/* ---- tokenizer_metadata.c ------------------------------------------------------------------- */

/* Adds tokenizer.ggml.* and wisp.tokenizer.* to the directory. */
wisp_status hf_put_tokenizer(struct reading *r);

#endif
