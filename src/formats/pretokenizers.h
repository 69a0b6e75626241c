/* SPDX-License-Identifier: Apache-2.0
 * The pre-tokenizers of byte-level BPE. They cut a text into words, numbers and white space before
 * the bytes of each are merged. Model makers give them as lists of regular expressions: the first
 * cuts the text into its matches and what is between them, the next one cuts each of these parts,
 * and so on. */
#ifndef WISP_FORMATS_PRETOKENIZERS_H
#define WISP_FORMATS_PRETOKENIZERS_H

#include <stdbool.h>
#include <stddef.h>

enum { PRETOKENIZER_STEPS = 6 };

/* Settings that models have together with a pre-tokenizer. */
enum pretokenizer_flag {
    PRE_WHOLE = 1, /* a pre-token that is a token becomes it, whatever the merges say, unless the
                      file says otherwise */
    PRE_NFC = 2,   /* texts are brought into normalization form C first, unless the file says so */
    PRE_BOS = 4,   /* the model's first token comes before a text, unless the file says otherwise */
    PRE_ENDS = 8,  /* the model's first and last token come before and after a text, likewise */
    /* Texts are in lower case, white space is dropped, and the last token of a word is one whose
     * spelling ends with PRE_WORD_END. */
    PRE_WORDS = 16
};

#define PRE_WORD_END "</w>"

struct pretokenizer {
    const char *names; /* values of tokenizer.ggml.pre, with spaces between them */
    unsigned flags;    /* enum pretokenizer_flag */
    const char *regexes[PRETOKENIZER_STEPS]; /* NULL after the last */
};

/* Returns the pre-tokenizer of a name, or NULL. */
const struct pretokenizer *pretokenizer_find(const char *name);

/* Returns the first pre-tokenizer of the table that has these regular expressions, of which there
 * are `count`, and has or lacks PRE_NFC and PRE_WHOLE as in `flags` if there is such a one; NULL if
 * none has these expressions. */
const struct pretokenizer *pretokenizer_with(const char *const *regexes, size_t count,
                                             unsigned flags);

/* Regular expressions by which the steps of a tokenizer.json cut that have none of their own. */
#define REGEX_BYTE_LEVEL                                                                           \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define REGEX_DIGIT "\\p{N}"
#define REGEX_DIGITS "\\p{N}+"
#define REGEX_PUNCTUATION "[\\p{P}!-/:-@\\[-`{-~]"

/* Regular expressions that tokenizers/pretokenize.c has functions for, and their parts. */
#define REGEX_CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define REGEX_WORDS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define REGEX_OTHERS " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define REGEX_SPACES "\\s+(?!\\S)|\\s+"
#define REGEX_BREAKS "\\s*[\\r\\n]+"
#define REGEX_MODERN(numbers)                                                                      \
    REGEX_CONTRACTIONS "|" REGEX_WORDS "|" numbers "|" REGEX_OTHERS "|" REGEX_BREAKS               \
                       "|" REGEX_SPACES

#define REGEX_LLAMA3 REGEX_MODERN("\\p{N}{1,3}")
#define REGEX_QWEN2 REGEX_MODERN("\\p{N}")
#define REGEX_TRAILING "\\s+$"

/* Groups of three digits, counted from the last. The tokenizers of Trinity say it by several steps;
 * its regular expression here is a short one of the same meaning. */
#define REGEX_GROUPS "(?=(\\d{3})+(?!\\d))"
#define REGEX_GROUPS_ALONE "\\d{1,3}(?=(?:\\d{3})*\\b)"
#define REGEX_GROUPS_OF_NUMBERS "\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))"

#endif
