/* SPDX-License-Identifier: Apache-2.0
 * Pictures (SVG) of shares as bars, one colour for each kind of share. */
#ifndef WISP_CLI_BARS_H
#define WISP_CLI_BARS_H

#include <stddef.h>
#include <stdio.h>

enum { BARS_TOP = 40 }; /* above the bars: the names of the kinds */

/* A picture's bars start at `left` and are `height` high; a share of 1 is `width` wide. Lengths are
 * in pixels. */
struct bars {
    const char *const *names; /* of the kinds of shares, at most four */
    size_t kinds;
    int left, width, height;
    int decimals; /* of the numbers beside the bars */
};

/* Begins a picture, and names its colours. "</svg>" ends it. */
void bars_begin(const struct bars *bars, size_t width, size_t height, FILE *stream);

/* Draws the first n kinds of shares, one below the other, with the number beside each bar. A bar is
 * as for 0 or 1 if the share is below or above. */
void bars_draw(const struct bars *bars, const double *shares, size_t n, size_t top, FILE *stream);

#endif
