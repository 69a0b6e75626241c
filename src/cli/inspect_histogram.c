/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/inspect_histogram.h"
#include "cli/progress.h"

#include <stdio.h>
#include <stdlib.h>

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

/* Makes the histograms of n tensors, whose bytes are `all`. `values` stays 0 if a tensor has
 * none. */
static wisp_status make_histograms(const wisp_file *file, size_t n, uint64_t all,
                                   wisp_histogram *made, wisp_error *error) {
    struct progress progress;
    wisp_tensor tensor;
    wisp_status status = WISP_OK;
    uint64_t done = 0;
    progress_start(&progress, "tensors");
    for (size_t i = 0; i < n && status == WISP_OK; i++) {
        status = wisp_file_get_histogram(file, i, &made[i], error);
        if (status == WISP_ERROR_UNSUPPORTED)
            status = WISP_OK;
        wisp_file_get_tensor(file, i, &tensor);
        done += tensor.bytes;
        progress_show(&progress, i + 1, (double)done / (double)all);
    }
    progress_end(&progress);
    return status;
}

int print_histograms(const wisp_file *file, bool json) {
    wisp_tensor tensor;
    wisp_error error;
    size_t n = 0;
    uint64_t bytes = 0;
    bool first = true;
    for (; wisp_file_get_tensor(file, n, &tensor); n++)
        bytes += tensor.bytes;
    wisp_histogram *made = calloc(n + 1, sizeof *made);
    if (!made)
        return complain_of_memory();
    if (make_histograms(file, n, bytes, made, &error) != WISP_OK) {
        free(made);
        return complain_of(&error);
    }
    fputs(json ? "{\"tensors\":[" : "", program_output);
    for (size_t i = 0; i < n; i++) {
        wisp_file_get_tensor(file, i, &tensor);
        if (made[i].values == 0)
            continue;
        if (json)
            print_json(&tensor, &made[i], first);
        else
            print_line(&tensor, &made[i]);
        first = false;
    }
    fputs(json ? "\n]}\n" : "", program_output);
    free(made);
    return EXIT_GOOD;
}
