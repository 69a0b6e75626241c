/* SPDX-License-Identifier: Apache-2.0
 * Opens any bytes as a wisp_file and reads all that it shows: metadata, tensors, frequencies. */
#include <math.h>
#include <stdio.h>

#include "fuzz.h"
#include "fuzz_file.h"

static void read_tensors(const wisp_file *file, uint64_t part_size) {
    wisp_tensor tensor;
    wisp_error error;
    for (size_t i = 0; wisp_file_get_tensor(file, i, &tensor); i++) {
        uint64_t values = 1;
        for (uint32_t d = 0; d < tensor.dimensions; d++)
            values *= tensor.shape[d];
        if (tensor.part != 0 || tensor.offset > part_size ||
            tensor.bytes > part_size - tensor.offset)
            abort();
        /* Blocks hold at least 2 bits a value. */
        if (values > 4 * tensor.bytes)
            continue;
        float *floats = malloc((size_t)values * sizeof *floats + 1);
        if (!floats)
            abort();
        const wisp_status status = wisp_file_read_tensor(file, i, floats, &error);
        fuzz_check(status, &error);
        for (uint64_t v = 0; status == WISP_OK && v < values; v++)
            if (!isfinite(floats[v]))
                abort();
        free(floats);
    }
}

static void read_frequencies(const wisp_file *file) {
    size_t layers, neurons;
    wisp_error error;
    const wisp_status status = wisp_file_get_neurons(file, &layers, &neurons, &error);
    fuzz_check(status, &error);
    if (status != WISP_OK)
        return;
    float *frequencies = malloc(neurons * sizeof *frequencies + 1);
    if (!frequencies)
        abort();
    for (size_t l = 0; l <= layers && l < 100; l++) {
        const wisp_status read = wisp_file_read_frequencies(file, l, frequencies, &error);
        if (read != WISP_ERROR_ARGUMENT || l < layers)
            fuzz_check(read, &error);
    }
    free(frequencies);
}

/* The only part of a file is the file. */
static void read_parts(const wisp_file *file, const uint8_t *data, size_t size) {
    wisp_file_part part;
    wisp_error error;
    unsigned char *bytes = malloc(size + 1);
    if (!bytes || !wisp_file_get_part(file, 0, &part) || part.size != size ||
        wisp_file_get_part(file, 1, &part))
        abort();
    if (wisp_file_read_part(file, 0, 0, bytes, size, &error) != WISP_OK ||
        memcmp(bytes, data, size) != 0)
        abort();
    if (wisp_file_read_part(file, 0, 1, bytes, size, &error) != WISP_ERROR_ARGUMENT ||
        wisp_file_read_part(file, 1, 0, bytes, size, &error) != WISP_ERROR_ARGUMENT)
        abort();
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    wisp_file *file = NULL;
    wisp_metadata entry;
    wisp_error error;
    const wisp_status status = wisp_file_open(fuzz_file("input.gguf", data, size), &file, &error);
    fuzz_check(status, &error);
    if (status != WISP_OK)
        return 0;
    read_parts(file, data, size);
    wisp_verified verified;
    fuzz_check(wisp_file_verify(file, &verified, &error), &error);
    for (size_t i = 0; wisp_file_get_metadata(file, i, &entry); i++)
        if (strlen(entry.key) == 0 || !entry.type || !entry.text ||
            (!entry.is_array && entry.elements != 1))
            abort();
    read_tensors(file, size);
    read_frequencies(file);
    wisp_file_close(file);
    return 0;
}
