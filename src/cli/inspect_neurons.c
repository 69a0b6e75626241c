/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/inspect_neurons.h"

#include <stdio.h>

#include "base/memory.h"
#include "cli/cli.h"
#include "models/network_load.h"

enum { LEFT = 70, TOP = 46, CELL = 3, NEURONS = 4 /* of a cell */, ROW = 34, GAP = 18 };

/* The share of tokens that need the neurons from `first` on, on average over a cell. */
static float cell_frequency(const float *frequency, const int32_t *order, size_t wide,
                            size_t first) {
    float sum = 0;
    size_t n = 0;
    for (size_t j = first; j < first + NEURONS && j < wide; j++, n++)
        sum += frequency[order[j]];
    return sum / (float)n;
}

/* From white over orange to dark red, by the square root: most neurons are seldom active. */
static void print_cell(float frequency, size_t x, size_t y) {
    const float heat = __builtin_sqrtf(frequency < 0 ? 0 : frequency > 1 ? 1 : frequency);
    const float red = heat < 0.7f ? 1 : 1 - (heat - 0.7f) * 1.6f;
    const float green = 1 - heat, blue = heat < 0.4f ? 1 - 2.5f * heat : 0;
    printf("<rect x=\"%zu\" y=\"%zu\" width=\"%d\" height=\"%d\" fill=\"#%02x%02x%02x\"/>\n", x, y,
           CELL, ROW, (int)(255 * red), (int)(255 * green), (int)(255 * blue));
}

static void print_layer(const float *frequency, const int32_t *order, size_t wide, size_t layer) {
    const size_t y = TOP + layer * (ROW + GAP);
    double sum = 0;
    for (size_t j = 0; j < wide; j++)
        sum += (double)frequency[j] / (double)wide;
    printf("<text x=\"6\" y=\"%zu\">layer %zu</text>\n<text x=\"6\" y=\"%zu\">%.1f %%</text>\n",
           y + 14, layer, y + 28, 100 * sum);
    for (size_t cell = 0; NEURONS * cell < wide; cell++)
        print_cell(cell_frequency(frequency, order, wide, NEURONS * cell), LEFT + CELL * cell, y);
}

static wisp_status print_picture(const struct directory *dir, const struct model_config *config,
                                 const struct sparse_plan *plan, wisp_error *error) {
    const size_t wide = config->intermediate_size;
    printf("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%zu\" height=\"%zu\" "
           "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" "
           "fill=\"white\"/>\n<text x=\"6\" y=\"18\">How often neurons are active, as a share of "
           "tokens; a cell is four neurons side by side.</text>\n",
           LEFT + CELL * ((wide + NEURONS - 1) / NEURONS) + 20,
           (size_t)TOP + config->layers * (size_t)(ROW + GAP));
    for (size_t l = 0; l < config->layers; l++) {
        char name[64];
        float *frequency = NULL;
        snprintf(name, sizeof name, "blk.%zu.ffn_frequency", l);
        TRY(directory_load_floats(dir, name, 1, wide, &frequency, error));
        print_layer(frequency, plan->order + l * wide, wide, l);
        memory_free(frequency);
    }
    puts("</svg>");
    return WISP_OK;
}

int print_neurons(struct directory *dir) {
    struct network network;
    struct sparse_plan plan;
    wisp_error error;
    if (network_open(&network, dir, &error) != WISP_OK ||
        sparse_read_plan(dir, network.config.layers, network.config.intermediate_size, &plan,
                         &error) != WISP_OK)
        return complain_of(&error);
    if (plan.levels == 0) {
        complain("%s: the model is not calibrated: wisp calibrate makes it so", dir->file);
        return EXIT_MODEL;
    }
    return print_picture(dir, &network.config, &plan, &error) == WISP_OK ? EXIT_GOOD
                                                                         : complain_of(&error);
}
