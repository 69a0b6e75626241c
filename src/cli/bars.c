/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bars.h"

static const char *const colours[] = {"#4269d0", "#3ca951", "#efb118", "#ff725c"};

void bars_begin(const struct bars *bars, size_t width, size_t height, FILE *stream) {
    fprintf(stream,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%zu\" height=\"%zu\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" "
            "fill=\"white\"/>\n",
            width, height);
    for (size_t i = 0; i < bars->kinds; i++) {
        const size_t left = (size_t)bars->left + 110 * i;
        fprintf(stream,
                "<rect x=\"%zu\" y=\"12\" width=\"10\" height=\"10\" fill=\"%s\"/><text x=\"%zu\" "
                "y=\"21\">%s</text>\n",
                left, colours[i], left + 14, bars->names[i]);
    }
}

void bars_draw(const struct bars *bars, const double *shares, size_t n, size_t top, FILE *stream) {
    for (size_t i = 0; i < n; i++) {
        const double share = shares[i] < 0 ? 0 : shares[i] < 1 ? shares[i] : 1;
        const double width = share * (double)bars->width;
        const size_t y = top + ((size_t)bars->height + 1) * i;
        fprintf(stream,
                "<rect x=\"%d\" y=\"%zu\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/><text "
                "x=\"%.1f\" y=\"%zu\">%.*f</text>\n",
                bars->left, y, width, bars->height, colours[i], (double)bars->left + width + 4,
                y + 10, bars->decimals, shares[i]);
    }
}
