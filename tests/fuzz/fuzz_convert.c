/* SPDX-License-Identifier: Apache-2.0
 * Converts any bytes as a GGUF file. If that succeeds, the result can be read and converts again
 * to the same bytes, and neurons that became rows convert back to the plain file. */
#include <stdio.h>
#include <stdlib.h>

#include "fuzz.h"
#include "fuzz_file.h"

static void read_whole(const char *path, struct bytes *bytes) {
    char chunk[4096];
    FILE *file = fopen(path, "rb");
    if (!file)
        abort();
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, file)) > 0;)
        bytes_put(bytes, chunk, n);
    fclose(file);
}

static void expect_same(const char *first_path, const char *second_path) {
    struct bytes first = {0}, second = {0};
    read_whole(first_path, &first);
    read_whole(second_path, &second);
    if (first.size != second.size || memcmp(first.data, second.data, first.size) != 0)
        abort();
    bytes_release(&first);
    bytes_release(&second);
}

static void convert(const char *input, const char *output, const wisp_convert_options *options) {
    wisp_error error;
    if (wisp_convert(input, output, options, &error) != WISP_OK)
        abort();
}

/* Compares the output, after its neurons became rows and plain again, with the output of a
 * conversion without rows. */
static void expect_undoing(const wisp_convert_options *options) {
    const wisp_convert_options plain = {.plain = true};
    wisp_convert_options never = *options;
    never.neurons = false;
    never.plain = true;
    const char *again = fuzz_path("again.gguf"), *undone = fuzz_path("undone.gguf");
    convert(fuzz_path("input.gguf"), again, &never);
    convert(fuzz_path("output.gguf"), undone, &plain);
    expect_same(again, undone);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const types[] = {NULL, "f32", "f16", "q8_0", "q4_0"};
    const wisp_convert_options options = {.type = types[size % 5],
                                          .name = size % 2 ? "x" : NULL,
                                          .neurons = size % 3 == 1,
                                          .plain = size % 3 == 2};
    wisp_error error;
    const char *input = fuzz_file("input.gguf", data, size), *output = fuzz_path("output.gguf"),
               *again = fuzz_path("again.gguf");
    const wisp_status status = wisp_convert(input, output, &options, &error);
    fuzz_check(status, &error);
    if (status == WISP_OK) {
        convert(output, again, NULL);
        expect_same(output, again);
        if (options.neurons)
            expect_undoing(&options);
    }
    return 0;
}
