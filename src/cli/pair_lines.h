/* SPDX-License-Identifier: Apache-2.0
 * Lines that are pairs of texts, with a tab between them. */
#ifndef WISP_CLI_PAIR_LINES_H
#define WISP_CLI_PAIR_LINES_H

#include "cli/input.h"

/* Splits the lines of a batch into pairs, and complains of lines without a tab. Sets whole[i] if
 * line i is a pair. Writes the pairs to `first` and `second` [BATCH_RECORDS], and returns their
 * number. */
size_t split_pairs(const struct batch *batch, wisp_text *first, wisp_text *second, bool *whole);

#endif
