/* SPDX-License-Identifier: Apache-2.0
 * A tokenizer between its files, which tokenizer.c reads, and the metadata of a directory, which
 * tokenizer_metadata.c adds. */
#ifndef WISP_HUGGINGFACE_TOKENIZER_H
#define WISP_HUGGINGFACE_TOKENIZER_H

#include "formats/directory.h"

#define HF_CONTINUATION_PREFIX "##"

enum { TYPE_NORMAL = 1, TYPE_CONTROL = 3, TYPE_USER_DEFINED = 4 };

enum role { ROLE_UNKNOWN, ROLE_CLS, ROLE_SEPARATOR, ROLE_PADDING, ROLE_MASK, ROLES };

struct reading {
    struct directory *dir;
    const char *folder;
    const char *file; /* the one being read, in errors */
    wisp_error *error;
    wisp_text *tokens; /* by id, as vocab.txt spells them; the added ones last */
    size_t count, model_count, capacity;
    int32_t *types;
    int32_t *added; /* ids, and their flags beside them */
    uint8_t *flags;
    size_t added_count;
    const wisp_text **sorted; /* all tokens */
    int32_t ids[ROLES];       /* -1: none */
    bool clean_text, handle_chinese_chars, strip_accents, strip_accents_given, lowercase;
    bool lowercase_first; /* a Lowercase normalizer stands before BertNormalizer */
    uint32_t word_limit;
};

/* Adds tokenizer.ggml.* and wisp.tokenizer.* to the directory. */
wisp_status hf_put_tokenizer(struct reading *r);

#endif
