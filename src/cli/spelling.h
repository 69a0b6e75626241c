/* SPDX-License-Identifier: Apache-2.0
 * Finds the known name that is nearest to a mistyped one. */
#ifndef WISP_CLI_SPELLING_H
#define WISP_CLI_SPELLING_H

/* The nearest of the names that were compared with `typed`. */
struct spelling {
    const char *typed;
    const char *nearest; /* NULL: none is near */
    unsigned changes;    /* between the two */
};

/* Compares the next name. Near is a name that one change turns into `typed`, or two if it has five
 * characters or more: one more, one less, another, or two that changed places. */
void spelling_compare(struct spelling *spelling, const char *name);

#endif
