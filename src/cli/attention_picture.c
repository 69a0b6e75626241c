/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/attention_picture.h"

#include <stdio.h>

#include "cli/whole_file.h"

enum { CELL = 3, SIZE = CELL * WISP_ATTENTION_CELLS, GAP = 8, LEFT = 70, TOP = 46, SHADES = 5 };

/* From keys that nobody has looked at to cells that were looked at in full. */
static const char *const colours[SHADES] = {"#e3e3e3", "#b3cbe9", "#7ba6dc", "#4269d0", "#1d3a8a"};

static int shade_of(float seen) {
    if (seen <= 0)
        return 0;
    const int shade = 1 + (int)(seen * (SHADES - 1));
    return shade < SHADES ? shade : SHADES - 1;
}

/* Draws the cells of a shade, those that follow each other as one rectangle. */
static void draw_shade(FILE *stream, const wisp_attention_map *map, int shade, size_t left,
                       size_t top) {
    bool any = false;
    for (size_t q = 0; q < map->cells; q++)
        for (size_t k = 0, end; k < map->cells; k = end) {
            for (end = k; end < map->cells && map->seen[q][end] >= 0 &&
                          shade_of(map->seen[q][end]) == shade;)
                end++;
            if (end > k) {
                fprintf(stream, any ? "M%zu %zuh%zuv%dH%zu" : "<path d=\"M%zu %zuh%zuv%dH%zu",
                        left + CELL * k, top + CELL * q, CELL * (end - k), CELL, left + CELL * k);
                any = true;
            } else {
                end++;
            }
        }
    if (any)
        fprintf(stream, "\" fill=\"%s\"/>\n", colours[shade]);
}

static void draw_key(FILE *stream, uint32_t positions) {
    static const char *const names[SHADES] = {"none", "to 25 %", "to 50 %", "to 75 %", "more"};
    for (size_t i = 0; i < SHADES; i++)
        fprintf(stream,
                "<rect x=\"%zu\" y=\"12\" width=\"10\" height=\"10\" fill=\"%s\"/><text x=\"%zu\" "
                "y=\"21\">%s</text>\n",
                8 + 80 * i, colours[i], 22 + 80 * i, names[i]);
    fprintf(stream, "<text x=\"8\" y=\"38\">of the keys; a cell has %u positions</text>\n",
            positions);
}

static void print(FILE *stream, const void *context) {
    const wisp_session *session = context;
    static wisp_attention_map map;
    uint32_t layers = 0, heads = 0, positions = 0;
    for (; wisp_session_get_attention_map(session, layers, 0, &map); layers++)
        positions = map.positions > positions ? map.positions : positions;
    while (wisp_session_get_attention_map(session, 0, heads, &map))
        heads++;
    const size_t width = LEFT + (size_t)heads * (SIZE + GAP);
    fprintf(stream,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%zu\" height=\"%zu\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" "
            "fill=\"white\"/>\n",
            width > 420 ? width : (size_t)420, TOP + (size_t)layers * (SIZE + GAP));
    draw_key(stream, positions);
    for (uint32_t l = 0; l < layers; l++) {
        const size_t top = TOP + (size_t)l * (SIZE + GAP);
        fprintf(stream, "<text x=\"8\" y=\"%zu\">layer %u</text>\n", top + SIZE / 2, l);
        for (uint32_t h = 0; h < heads; h++) {
            wisp_session_get_attention_map(session, l, h, &map);
            for (int shade = 0; shade < SHADES; shade++)
                draw_shade(stream, &map, shade, LEFT + (size_t)h * (SIZE + GAP), top);
        }
    }
    fprintf(stream, "</svg>\n");
}

int attention_picture_write(const wisp_session *session, const char *path) {
    return write_whole_file(path, print, session);
}
