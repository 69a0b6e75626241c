/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/inspect_neurons.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"

/* Lengths in pixels. A row is at most MOST_WIDTH wide, and a column of it at most MOST_COLUMN. */
enum { LEFT = 70, RIGHT = 20, TOP = 46, ROW = 34, GAP = 18, MOST_WIDTH = 1200, MOST_COLUMN = 3 };

/* The n columns of a layer's row. Each is `width` pixels wide and stands for `neurons` neurons side
 * by side, the last one for the remaining ones. */
struct columns {
    size_t n, neurons, width;
};

static struct columns divide(size_t neurons) {
    struct columns c = {.neurons = (neurons + MOST_WIDTH - 1) / MOST_WIDTH};
    c.n = (neurons + c.neurons - 1) / c.neurons;
    c.width = MOST_WIDTH / c.n < MOST_COLUMN ? MOST_WIDTH / c.n : MOST_COLUMN;
    return c;
}

/* White, orange and dark red stand for rising frequencies. The colour follows the square root,
 * because most neurons are seldom active. */
static void print_column(float frequency, size_t x, size_t y, size_t width) {
    const float heat = sqrtf(frequency < 0 ? 0 : frequency > 1 ? 1 : frequency);
    const float red = heat < 0.7f ? 1 : 1 - (heat - 0.7f) * 1.6f;
    const float green = 1 - heat, blue = heat < 0.4f ? 1 - 2.5f * heat : 0;
    fprintf(program_output,
            "<rect x=\"%zu\" y=\"%zu\" width=\"%zu\" height=\"%d\" fill=\"#%02x%02x%02x\"/>\n", x,
            y, width, ROW, (int)(255 * red), (int)(255 * green), (int)(255 * blue));
}

static void print_layer(const float *frequencies, size_t neurons, size_t layer,
                        const struct columns *columns) {
    const size_t y = TOP + layer * (ROW + GAP);
    double sum = 0;
    for (size_t i = 0; i < neurons; i++)
        sum += (double)frequencies[i] / (double)neurons;
    fprintf(program_output,
            "<text x=\"6\" y=\"%zu\">layer %zu</text>\n<text x=\"6\" y=\"%zu\">%.1f %%</text>\n",
            y + 14, layer, y + 28, 100 * sum);
    for (size_t column = 0; column < columns->n; column++) {
        const size_t first = column * columns->neurons, end = first + columns->neurons;
        float total = 0;
        size_t n = 0;
        for (size_t i = first; i < end && i < neurons; i++, n++)
            total += frequencies[i];
        print_column(total / (float)n, LEFT + columns->width * column, y, columns->width);
    }
}

int print_neurons(const wisp_file *file) {
    size_t layers, neurons;
    wisp_error error;
    if (wisp_file_get_neurons(file, &layers, &neurons, &error) != WISP_OK)
        return complain_of(&error);
    float *frequencies = malloc((neurons + 1) * sizeof *frequencies);
    if (!frequencies)
        return complain_of_memory();
    const struct columns columns = divide(neurons);
    fprintf(program_output,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%zu\" height=\"%zu\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" "
            "fill=\"white\"/>\n<text x=\"6\" y=\"18\">How often neurons are active, as a share of "
            "tokens; ",
            LEFT + columns.width * columns.n + RIGHT, TOP + layers * (ROW + GAP));
    if (columns.neurons == 1)
        fputs("a column is one neuron.</text>\n", program_output);
    else
        fprintf(program_output, "a column is the mean of %zu neurons side by side.</text>\n",
                columns.neurons);
    int code = EXIT_GOOD;
    for (size_t l = 0; l < layers && code == EXIT_GOOD; l++) {
        if (wisp_file_read_frequencies(file, l, frequencies, &error) == WISP_OK)
            print_layer(frequencies, neurons, l, &columns);
        else
            code = complain_of(&error);
    }
    if (code == EXIT_GOOD)
        fputs("</svg>\n", program_output);
    free(frequencies);
    return code;
}
