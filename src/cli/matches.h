/* SPDX-License-Identifier: Apache-2.0
 * The best of many scored lines. */
#ifndef WISP_CLI_MATCHES_H
#define WISP_CLI_MATCHES_H

#include "wisp.h"

struct match {
    double score;
    size_t order; /* the line's number in the input: of equal scores the first line is the best */
    wisp_text line;
};

struct matches {
    size_t most, n, seen;
    struct match *match; /* [n], room for `most`: a heap whose first match is the worst */
};

/* Prepares for keeping the `most` best lines. Returns false if there is no memory. */
bool matches_open(struct matches *matches, size_t most);

/* Copies the line if it is among the best so far. Returns false if there is no memory. */
bool matches_add(struct matches *matches, double score, wisp_text line);

/* Orders the matches, best first. No line may be added after it. */
void matches_sort(struct matches *matches);

/* `matches` may be all zeros. */
void matches_close(struct matches *matches);

#endif
