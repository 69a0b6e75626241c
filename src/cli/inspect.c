/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"
#include "base/status.h"
#include "cli/cli.h"
#include "cli/hub_models.h"
#include "cli/inspect_histogram.h"
#include "cli/inspect_neurons.h"
#include "cli/options.h"

static const char usage[] = "usage: wisp inspect [OPTION]... FILE|FOLDER|hf:NAME\n"
                            "\n"
                            "Lists the metadata and tensors of a model, and the settings that\n"
                            "the file lacks and wisp assumes.\n"
                            "\n";

enum { TABLE_VALUE = 72, SHAPE_BYTES = 128 };

struct arguments {
    bool json, neurons, histogram, sha256, verify;
};

#define ARGUMENTS struct arguments

static const struct command_option options[] = {
    OPTION(FORMAT, json, "format", 0, "FORMAT", "table (default) or json"),
    OPTION(NONE, neurons, "neurons", 0, NULL,
           "print only an SVG picture that shows how often the neurons of a\n"
           "calibrated model are active"),
    OPTION(NONE, histogram, "histogram", 0, NULL,
           "print only the distribution of each tensor's values"),
    OPTION(NONE, sha256, "sha256", 0, NULL,
           "also print the SHA-256 of each file that holds weights"),
    OPTION(NONE, verify, "verify", 0, NULL,
           "verify the file by the SHA-256 of its chunks, which files with neurons\n"
           "as rows contain, and print the SHA-256 of its header. If a chunk\n"
           "differs, print which, and exit with code 3"),
    LAST_OPTION,
};

static const struct command_line this_command = {usage, options, 25,
                                                 "\n"
                                                 "Examples:\n"
                                                 "  wisp inspect model.gguf\n"
                                                 "  wisp inspect --format json path/to/folder\n"
                                                 "\nExit codes: see wisp embed --help.\n",
                                                 NULL};

/* The SHA-256 of a part of the file, in hexadecimal. */
struct digest {
    char text[65];
};

static wisp_status digest_part(const wisp_file *file, size_t index, uint64_t size,
                               struct digest *digest, wisp_error *error) {
    static unsigned char buffer[1 << 16];
    unsigned char bytes[32];
    struct sha256 hash;
    sha256_start(&hash);
    for (uint64_t at = 0; at < size;) {
        const size_t here = size - at < sizeof buffer ? (size_t)(size - at) : sizeof buffer;
        const wisp_status status = wisp_file_read_part(file, index, at, buffer, here, error);
        if (status != WISP_OK)
            return status;
        sha256_add(&hash, buffer, here);
        at += here;
    }
    sha256_finish(&hash, bytes);
    sha256_text(bytes, digest->text);
    return WISP_OK;
}

/* Sets *digests to those of all parts. The caller frees them, also after an error. */
static wisp_status digest_parts(const wisp_file *file, struct digest **digests, wisp_error *error) {
    wisp_file_part part;
    size_t n = 0;
    while (wisp_file_get_part(file, n, &part))
        n++;
    *digests = calloc(n + 1, sizeof **digests);
    if (!*digests)
        return fail_memory(error, n * sizeof **digests);
    for (size_t i = 0; wisp_file_get_part(file, i, &part); i++) {
        const wisp_status status = digest_part(file, i, part.size, &(*digests)[i], error);
        if (status != WISP_OK)
            return status;
    }
    return WISP_OK;
}

static void format_shape(const wisp_tensor *tensor, const char *separator, char text[SHAPE_BYTES]) {
    size_t used = 0;
    for (uint32_t i = 0; i < tensor->dimensions; i++)
        used += (size_t)snprintf(text + used, SHAPE_BYTES - used, "%s%llu", i ? separator : "",
                                 (unsigned long long)tensor->shape[i]);
}

/* ---- table ---------------------------------------------------------------------------------- */

/* Prints a value on a line, cut if it is long. */
static void print_value(wisp_text text) {
    const size_t shown = print_text(program_output, text, TABLE_VALUE);
    fputs(shown < text.length ? "...\n" : "\n", program_output);
}

/* `digests` and `verified` are NULL if they were not asked for. */
static void print_table(const wisp_file *file, const struct digest *digests,
                        const wisp_verified *verified) {
    wisp_file_part part;
    wisp_metadata metadata;
    wisp_tensor tensor;
    wisp_assumption assumption;
    size_t n = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; wisp_file_get_part(file, i, &part); i++) {
        print_text(program_output, wisp_text_of(part.path), SIZE_MAX);
        fprintf(program_output, ", %llu bytes\n", (unsigned long long)part.size);
        if (digests)
            fprintf(program_output, "sha256 %s\n", digests[i].text);
    }
    if (verified) {
        struct digest header;
        sha256_text(verified->header_sha256, header.text);
        fprintf(program_output,
                "%llu chunks of %llu bytes verified; header: %llu bytes, sha256 %s\n",
                (unsigned long long)verified->chunks, (unsigned long long)verified->chunk_bytes,
                (unsigned long long)verified->header_bytes, header.text);
    }
    while (wisp_file_get_metadata(file, n, &metadata))
        n++;
    fprintf(program_output, "\nMETADATA (%zu)\n", n);
    for (size_t i = 0; wisp_file_get_metadata(file, i, &metadata); i++) {
        fputs("  ", program_output);
        print_padded(wisp_text_of(metadata.key), SIZE_MAX, 44);
        fputc(' ', program_output);
        print_value(wisp_text_of(metadata.text));
    }
    for (size_t i = 0; wisp_file_get_assumption(file, i, &assumption); i++)
        fprintf(program_output, "%s  %-44s %s\n",
                i ? "" : "\nASSUMED, because the file does not say\n", assumption.key,
                assumption.value);
    for (n = 0; wisp_file_get_tensor(file, n, &tensor); n++)
        bytes += tensor.bytes;
    fprintf(program_output, "\nTENSORS (%zu, %llu bytes)\n", n, (unsigned long long)bytes);
    for (size_t i = 0; wisp_file_get_tensor(file, i, &tensor); i++) {
        char shape[SHAPE_BYTES];
        format_shape(&tensor, " x ", shape);
        fputs("  ", program_output);
        print_padded(wisp_text_of(tensor.name), SIZE_MAX, 32);
        fprintf(program_output, " %-6s %-16s %12llu bytes at %llu\n", tensor.type, shape,
                (unsigned long long)tensor.bytes, (unsigned long long)tensor.offset);
    }
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void print_json_text(const char *text) {
    print_json_string(program_output, wisp_text_of(text));
}

/* Numbers and bools are printed as they are; arrays as text, and infinities and NaN too, for which
 * JSON has no numbers. */
static void print_json_value(const wisp_metadata *metadata) {
    const char *text = metadata->text;
    const bool is_string = metadata->is_array || strcmp(metadata->type, "string") == 0;
    if (!is_string &&
        (strcmp(metadata->type, "bool") == 0 || strspn(text, "0123456789+-.e") == strlen(text)))
        fputs(text, program_output);
    else
        print_json_text(text);
}

static void print_json(const wisp_file *file, const struct digest *digests,
                       const wisp_verified *verified) {
    wisp_file_part part;
    wisp_metadata metadata;
    wisp_tensor tensor;
    wisp_assumption assumption;
    fputs("{\"files\":[", program_output);
    for (size_t i = 0; wisp_file_get_part(file, i, &part); i++) {
        fputs(i ? ",\n{\"name\":" : "\n{\"name\":", program_output);
        print_json_text(part.path);
        fprintf(program_output, ",\"bytes\":%llu", (unsigned long long)part.size);
        if (digests)
            fprintf(program_output, ",\"sha256\":\"%s\"", digests[i].text);
        fputc('}', program_output);
    }
    fputs("],\n", program_output);
    if (verified) {
        struct digest header;
        sha256_text(verified->header_sha256, header.text);
        fprintf(program_output,
                "\"verified\":{\"chunks\":%llu,\"chunk_bytes\":%llu,\"header_bytes\":%llu,"
                "\"header_sha256\":\"%s\"},\n",
                (unsigned long long)verified->chunks, (unsigned long long)verified->chunk_bytes,
                (unsigned long long)verified->header_bytes, header.text);
    }
    fputs("\"metadata\":{", program_output);
    for (size_t i = 0; wisp_file_get_metadata(file, i, &metadata); i++) {
        fputs(i ? ",\n" : "\n", program_output);
        print_json_text(metadata.key);
        fputc(':', program_output);
        print_json_value(&metadata);
    }
    fputs("},\n\"assumed\":{", program_output);
    for (size_t i = 0; wisp_file_get_assumption(file, i, &assumption); i++) {
        fputs(i ? ",\n" : "\n", program_output);
        print_json_text(assumption.key);
        fputc(':', program_output);
        print_json_text(assumption.value);
    }
    fputs("},\n\"tensors\":[", program_output);
    for (size_t i = 0; wisp_file_get_tensor(file, i, &tensor); i++) {
        char shape[SHAPE_BYTES];
        format_shape(&tensor, ",", shape);
        fputs(i ? ",\n{\"name\":" : "\n{\"name\":", program_output);
        print_json_text(tensor.name);
        fprintf(program_output, ",\"type\":\"%s\",\"shape\":[%s],\"bytes\":%llu,\"offset\":%llu}",
                tensor.type, shape, (unsigned long long)tensor.bytes,
                (unsigned long long)tensor.offset);
    }
    fputs("]}\n", program_output);
}

static int print(const wisp_file *file, const struct arguments *a) {
    struct digest *digests = NULL;
    wisp_verified verified;
    wisp_error error;
    int code = EXIT_GOOD;
    if ((a->verify && wisp_file_verify(file, &verified, &error) != WISP_OK) ||
        (a->sha256 && !a->neurons && !a->histogram &&
         digest_parts(file, &digests, &error) != WISP_OK))
        code = complain_of(&error);
    else if (a->neurons)
        code = print_neurons(file);
    else if (a->histogram)
        code = print_histograms(file, a->json);
    else if (a->json)
        print_json(file, digests, a->verify ? &verified : NULL);
    else
        print_table(file, digests, a->verify ? &verified : NULL);
    free(digests);
    const int closed = finish_output();
    return code == EXIT_GOOD ? closed : code;
}

int command_inspect(int argc, char **argv) {
    struct arguments a = {0};
    wisp_file *file;
    wisp_error error;
    int code;
    if (!take_options(&this_command, &a, argc, argv, &code))
        return code;
    if (argc - optind != 1) {
        complain("inspect: give one file or folder (see --help)");
        return EXIT_USAGE;
    }
    if (a.neurons && a.histogram) {
        complain("inspect: --neurons and --histogram print two different things");
        return EXIT_USAGE;
    }
    if (!check_path("inspect", argv[optind]))
        return EXIT_USAGE;
    char found[PATH_MAX];
    const char *path;
    if (find_model(argv[optind], HUB_GGUF_FIRST, false, found, &path, &error) != WISP_OK ||
        wisp_file_open(path, &file, &error) != WISP_OK)
        return complain_of(&error);
    code = print(file, &a);
    wisp_file_close(file);
    return code;
}
