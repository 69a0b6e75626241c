/* SPDX-License-Identifier: Apache-2.0
 * Pre-tokenizers cut a text into words, numbers and white space before byte-level BPE merges the
 * bytes of each. Model makers give them as regular expressions; here each is a state machine that
 * finds the same cuts. */
#ifndef WISP_TEXT_PRETOKENIZE_H
#define WISP_TEXT_PRETOKENIZE_H

#include <stdbool.h>
#include <stddef.h>

struct pretokenizer {
    const char *name; /* the value of tokenizer.ggml.pre */

    /* Returns the bytes of the pre-token that `text` begins with, which is not empty and is
     * well-formed UTF-8. */
    size_t (*next)(const char *text, const char *end);

    /* Other settings of the tokenizers of this name. */
    bool ignores_merges; /* a pre-token that is a token becomes it, whatever the merges say, unless
                            the file says otherwise */
    bool composes;       /* texts are brought into normalization form C first */
    bool adds_bos; /* the model's first token comes before a text, unless the file says otherwise */
};

/* Returns the pre-tokenizer of a name, or NULL. */
const struct pretokenizer *pretokenizer_find(const char *name);

/* The names of all pre-tokenizers, for messages. */
#define PRETOKENIZER_NAMES "\"gpt-2\", \"llama-bpe\", \"lfm2\" and \"qwen2\""

#endif
