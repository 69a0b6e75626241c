/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/inspect_histogram.h"

#include <stdio.h>

static void print_json(const wisp_tensor *tensor, const wisp_histogram *h, bool first) {
    fputs(first ? "\n{\"name\":" : ",\n{\"name\":", program_output);
    print_json_string(program_output, wisp_text_of(tensor->name));
    fprintf(program_output,
            ",\"type\":\"%s\",\"values\":%llu,\"zeros\":%llu,\"mean\":%.9g,\"deviation\":%.9g,"
            "\"least\":%.9g,\"most\":%.9g,\"bins\":[",
            tensor->type, (unsigned long long)h->values, (unsigned long long)h->zeros, h->mean,
            h->deviation, h->least, h->most);
    for (size_t i = 0; i < WISP_HISTOGRAM_BINS; i++)
        fprintf(program_output, "%s%llu", i ? "," : "", (unsigned long long)h->bins[i]);
    fputs("]}", program_output);
}

/* Prints a bar for each bin, the fullest one eight eighths of a line high. */
static void print_line(const wisp_tensor *tensor, const wisp_histogram *h) {
    static const char *const bars[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    uint64_t fullest = 1;
    for (size_t i = 0; i < WISP_HISTOGRAM_BINS; i++)
        fullest = h->bins[i] > fullest ? h->bins[i] : fullest;
    print_padded(wisp_text_of(tensor->name), SIZE_MAX, 32);
    fputs(" |", program_output);
    for (size_t i = 0; i < WISP_HISTOGRAM_BINS; i++) {
        const double share = (double)h->bins[i] / (double)fullest;
        fputs(bars[h->bins[i] > 0 ? 1 + (int)(share * 7) : 0], program_output);
    }
    fprintf(program_output, "| +-%-10.4g mean %11.4g  deviation %10.4g  zeros %6.2f %%\n",
            h->largest, h->mean, h->deviation, 100 * (double)h->zeros / (double)h->values);
}

int print_histograms(const wisp_file *file, bool json) {
    wisp_tensor tensor;
    wisp_histogram histogram;
    wisp_error error;
    bool first = true;
    fputs(json ? "{\"tensors\":[" : "", program_output);
    for (size_t i = 0; wisp_file_get_tensor(file, i, &tensor); i++) {
        const wisp_status status = wisp_file_get_histogram(file, i, &histogram, &error);
        if (status == WISP_ERROR_UNSUPPORTED)
            continue;
        if (status != WISP_OK)
            return complain_of(&error);
        if (json)
            print_json(&tensor, &histogram, first);
        else
            print_line(&tensor, &histogram);
        first = false;
    }
    fputs(json ? "\n]}\n" : "", program_output);
    return EXIT_GOOD;
}
