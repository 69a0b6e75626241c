/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/sha256.h"
#include "cli/cli.h"
#include "cli/inspect_neurons.h"
#include "cli/output.h"

static const char help[] =
    "usage: wisp inspect [OPTION]... FILE|FOLDER\n"
    "\n"
    "Lists the metadata and tensors of a model, and what wisp assumes where the file does not "
    "say.\n"
    "\n"
    "      --format FORMAT    table (default) or json\n"
    "      --neurons          print a picture (SVG) of how often the neurons of a calibrated "
    "model\n"
    "                         are active, and nothing else\n"
    "      --sha256           also print the SHA-256 of each file that holds weights\n"
    "  -h, --help             this text\n"
    "\n"
    "Exit codes: see wisp embed --help.\n";

enum { OPTION_FORMAT = 256, OPTION_SHA256, OPTION_NEURONS, TABLE_VALUE = 72, SHAPE_BYTES = 128 };

static const struct option options[] = {{"format", required_argument, NULL, OPTION_FORMAT},
                                        {"sha256", no_argument, NULL, OPTION_SHA256},
                                        {"neurons", no_argument, NULL, OPTION_NEURONS},
                                        {"help", no_argument, NULL, 'h'},
                                        {0}};

static void print_digest(const wisp_file_part *part, const char *before, const char *after) {
    struct sha256 hash;
    unsigned char digest[32];
    sha256_start(&hash);
    sha256_add(&hash, part->data, (size_t)part->size);
    sha256_finish(&hash, digest);
    fputs(before, stdout);
    for (size_t i = 0; i < sizeof digest; i++)
        printf("%02x", digest[i]);
    fputs(after, stdout);
}

static void format_shape(const wisp_tensor *tensor, const char *separator, char text[SHAPE_BYTES]) {
    size_t used = 0;
    for (uint32_t i = 0; i < tensor->dimensions; i++)
        used += (size_t)snprintf(text + used, SHAPE_BYTES - used, "%s%llu", i ? separator : "",
                                 (unsigned long long)tensor->shape[i]);
}

/* ---- table ---------------------------------------------------------------------------------- */

static void print_table(const wisp_file *file, bool sha256) {
    wisp_file_part part;
    wisp_metadata metadata;
    wisp_tensor tensor;
    wisp_assumption assumption;
    size_t n = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; wisp_file_get_part(file, i, &part); i++) {
        printf("%s, %llu bytes\n", part.path, (unsigned long long)part.size);
        if (sha256)
            print_digest(&part, "sha256 ", "\n");
    }
    while (wisp_file_get_metadata(file, n, &metadata))
        n++;
    printf("\nMETADATA (%zu)\n", n);
    for (size_t i = 0; wisp_file_get_metadata(file, i, &metadata); i++) {
        const int length = (int)strcspn(metadata.text, "\r\n");
        printf("  %-44s %.*s%s\n", metadata.key, length < TABLE_VALUE ? length : TABLE_VALUE,
               metadata.text, length > TABLE_VALUE ? "..." : "");
    }
    for (size_t i = 0; wisp_file_get_assumption(file, i, &assumption); i++)
        printf("%s  %-44s %s\n", i ? "" : "\nASSUMED, as the file does not say\n", assumption.key,
               assumption.value);
    for (n = 0; wisp_file_get_tensor(file, n, &tensor); n++)
        bytes += tensor.bytes;
    printf("\nTENSORS (%zu, %llu bytes)\n", n, (unsigned long long)bytes);
    for (size_t i = 0; wisp_file_get_tensor(file, i, &tensor); i++) {
        char shape[SHAPE_BYTES];
        format_shape(&tensor, " x ", shape);
        printf("  %-32s %-6s %-16s %12llu bytes at %llu\n", tensor.name, tensor.type, shape,
               (unsigned long long)tensor.bytes, (unsigned long long)tensor.offset);
    }
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void print_json_text(const char *text) {
    putchar('"');
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c < 0x20 || c == 0x7f)
            printf("\\u%04x", c);
        else if (c == '"' || c == '\\')
            printf("\\%c", c);
        else
            putchar(c);
    }
    putchar('"');
}

/* Numbers and bools are printed as they are; arrays as text, and infinities and NaN too, for which
 * JSON has no numbers. */
static void print_json_value(const wisp_metadata *metadata) {
    const char *text = metadata->text;
    const bool is_string = metadata->is_array || strcmp(metadata->type, "string") == 0;
    if (!is_string &&
        (strcmp(metadata->type, "bool") == 0 || strspn(text, "0123456789+-.e") == strlen(text)))
        fputs(text, stdout);
    else
        print_json_text(text);
}

static void print_json(const wisp_file *file, bool sha256) {
    wisp_file_part part;
    wisp_metadata metadata;
    wisp_tensor tensor;
    wisp_assumption assumption;
    fputs("{\"files\":[", stdout);
    for (size_t i = 0; wisp_file_get_part(file, i, &part); i++) {
        fputs(i ? ",\n{\"name\":" : "\n{\"name\":", stdout);
        print_json_text(part.path);
        printf(",\"bytes\":%llu", (unsigned long long)part.size);
        if (sha256)
            print_digest(&part, ",\"sha256\":\"", "\"");
        putchar('}');
    }
    fputs("],\n\"metadata\":{", stdout);
    for (size_t i = 0; wisp_file_get_metadata(file, i, &metadata); i++) {
        fputs(i ? ",\n" : "\n", stdout);
        print_json_text(metadata.key);
        putchar(':');
        print_json_value(&metadata);
    }
    fputs("},\n\"assumed\":{", stdout);
    for (size_t i = 0; wisp_file_get_assumption(file, i, &assumption); i++) {
        fputs(i ? ",\n" : "\n", stdout);
        print_json_text(assumption.key);
        putchar(':');
        print_json_text(assumption.value);
    }
    fputs("},\n\"tensors\":[", stdout);
    for (size_t i = 0; wisp_file_get_tensor(file, i, &tensor); i++) {
        char shape[SHAPE_BYTES];
        format_shape(&tensor, ",", shape);
        fputs(i ? ",\n{\"name\":" : "\n{\"name\":", stdout);
        print_json_text(tensor.name);
        printf(",\"type\":\"%s\",\"shape\":[%s],\"bytes\":%llu,\"offset\":%llu}", tensor.type,
               shape, (unsigned long long)tensor.bytes, (unsigned long long)tensor.offset);
    }
    fputs("]}\n", stdout);
}

int command_inspect(int argc, char **argv) {
    wisp_file *file;
    wisp_error error;
    bool json = false, sha256 = false, neurons = false;
    int option, code = EXIT_GOOD;
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (option == OPTION_SHA256) {
            sha256 = true;
        } else if (option == OPTION_NEURONS) {
            neurons = true;
        } else if (option == OPTION_FORMAT) {
            json = strcmp(optarg, "json") == 0;
            if (!json && strcmp(optarg, "table") != 0)
                return complain_of_choice("format", optarg, "table, json");
        } else if (option == 'h') {
            return fputs(help, stdout), EXIT_GOOD;
        } else {
            return EXIT_USAGE;
        }
    }
    if (argc - optind != 1) {
        complain("inspect: give one file or folder (see --help)");
        return EXIT_USAGE;
    }
    watch_signals(NULL);
    if (wisp_file_open(argv[optind], &file, &error) != WISP_OK)
        return complain_of(&error);
    if (neurons)
        code = print_neurons(file);
    else if (json)
        print_json(file, sha256);
    else
        print_table(file, sha256);
    wisp_file_close(file);
    const int closed = finish_stream(stdout);
    return code == EXIT_GOOD ? closed : code;
}
