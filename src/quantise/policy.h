/* SPDX-License-Identifier: Apache-2.0
 * Policies, which say which matrices of a model take which type. Native only.
 *
 * A policy is text. Each line has a pattern, a type and sometimes the word "optional"; "#" begins a
 * comment. In a pattern "*" matches any characters and "?" matches one. A matrix takes the type of
 * the first line whose pattern matches its name: the name of a block format, "type" for the one
 * that is asked for, or "keep" for its own. A line whose type no matrix takes is an error, unless
 * it is optional. */
#ifndef WISP_QUANTISE_POLICY_H
#define WISP_QUANTISE_POLICY_H

#include "formats/directory.h"

struct policy_line {
    const char *pattern;
    const struct block_format *format; /* NULL: keep */
    bool as_asked;                     /* "type" */
    unsigned number;                   /* in the file, from 1 */
    bool optional, used;
};

struct policy {
    const char *name; /* of the file, or of a policy that comes with wisp */
    char *text;       /* has the patterns */
    struct policy_line *lines;
    size_t n;
};

/* Reads the policy of this name, or else the file of this name. Fails if the text is not a policy,
 * with the file's name and the line. The caller releases it, also after a failure. */
wisp_status policy_open(struct policy *policy, const char *name, wisp_error *error);

/* Sets *format to the type that the matrix `tensor` takes, or to NULL if it keeps its own.
 * `asked` is the type that "type" stands for. Fails if no line is like the matrix's name. */
wisp_status policy_find(struct policy *policy, const char *tensor, const struct block_format *asked,
                        const struct block_format **format, wisp_error *error);

/* Fails if a line that is not optional was never found. */
wisp_status policy_check_used(const struct policy *policy, wisp_error *error);

void policy_release(struct policy *policy);

#endif
