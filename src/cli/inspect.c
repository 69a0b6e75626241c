/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/sha256.h"
#include "cli/cli.h"
#include "cli/inspect_neurons.h"
#include "cli/output.h"
#include "native/open_path.h"

static const char help[] =
    "usage: wisp inspect [OPTION]... FILE|FOLDER\n"
    "\n"
    "Shows a model's metadata and tensors.\n"
    "\n"
    "      --format FORMAT    table (default) or json\n"
    "      --neurons          instead a picture (SVG) of how often the neurons of a calibrated\n"
    "                         model are active\n"
    "      --sha256           also the SHA-256 of each file that weights are in\n"
    "  -h, --help             this text\n"
    "\n"
    "Exit codes: as of wisp embed.\n";

enum { OPTION_FORMAT = 256, OPTION_SHA256, OPTION_NEURONS, VALUE_BYTES = 1024, TABLE_VALUE = 72 };

static const struct option options[] = {{"format", required_argument, NULL, OPTION_FORMAT},
                                        {"sha256", no_argument, NULL, OPTION_SHA256},
                                        {"neurons", no_argument, NULL, OPTION_NEURONS},
                                        {"help", no_argument, NULL, 'h'},
                                        {0}};

static void digest_text(const wisp_source *source, char text[65]) {
    struct sha256 hash;
    unsigned char digest[32];
    sha256_start(&hash);
    sha256_add(&hash, source->data, (size_t)source->size);
    sha256_finish(&hash, digest);
    for (int i = 0; i < 32; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
}

/* The tensors of the file, where others are made of them. */
static const struct tensor *tensors_of(const struct directory *dir, size_t *n) {
    *n = dir->stored ? dir->n_stored : dir->n_tensors;
    return dir->stored ? dir->stored : dir->tensors;
}

static uint64_t tensor_bytes(const struct tensor *tensors, size_t n) {
    uint64_t total = 0;
    for (size_t i = 0; i < n; i++)
        total += tensors[i].bytes;
    return total;
}

/* ---- table ---------------------------------------------------------------------------------- */

static void shape_text(const struct tensor *tensor, const char *separator, char *text,
                       size_t capacity) {
    size_t used = 0;
    for (uint32_t i = tensor->n_dims; i-- > 0 && used < capacity;)
        used += (size_t)snprintf(text + used, capacity - used, "%llu%s",
                                 (unsigned long long)tensor->dims[i], i ? separator : "");
}

static void print_table(const struct directory *dir, bool sha256) {
    char value[VALUE_BYTES];
    size_t n;
    const struct tensor *tensors = tensors_of(dir, &n);
    for (uint32_t i = 0; i < dir->n_sources; i++) {
        printf("%s, %llu bytes\n", dir->sources[i].name, (unsigned long long)dir->sources[i].size);
        if (sha256) {
            char digest[65];
            digest_text(&dir->sources[i], digest);
            printf("sha256 %s\n", digest);
        }
    }
    printf("\nMETADATA (%zu)\n", dir->n_metadata);
    for (size_t i = 0; i < dir->n_metadata; i++) {
        metadata_format(&dir->metadata[i], value, sizeof value);
        value[strcspn(value, "\r\n")] = '\0';
        printf("  %-44s %.*s%s\n", dir->metadata[i].key, TABLE_VALUE, value,
               strlen(value) > TABLE_VALUE ? "..." : "");
    }
    printf("\nTENSORS (%zu, %llu bytes)\n", n, (unsigned long long)tensor_bytes(tensors, n));
    for (size_t i = 0; i < n; i++) {
        const struct tensor *tensor = &tensors[i];
        shape_text(tensor, " x ", value, sizeof value);
        printf("  %-32s %-6s %-16s %12llu bytes at %llu\n", tensor->name, tensor->format->name,
               value, (unsigned long long)tensor->bytes, (unsigned long long)tensor->offset);
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

static void print_json_value(const struct metadata *entry) {
    char value[VALUE_BYTES];
    if (entry->type == VALUE_STRING) {
        print_json_text(entry->as.text.bytes);
        return;
    }
    metadata_format(entry, value, sizeof value);
    /* JSON has no word for infinities and NaN. */
    const bool number = strspn(value, "0123456789+-.e") == strlen(value);
    if (number || entry->type == VALUE_BOOL)
        fputs(value, stdout);
    else
        print_json_text(value);
}

static void print_json_files(const struct directory *dir, bool sha256) {
    fputs("{\"files\":[", stdout);
    for (uint32_t i = 0; i < dir->n_sources; i++) {
        fputs(i ? ",\n{\"name\":" : "\n{\"name\":", stdout);
        print_json_text(dir->sources[i].name);
        printf(",\"bytes\":%llu", (unsigned long long)dir->sources[i].size);
        if (sha256) {
            char digest[65];
            digest_text(&dir->sources[i], digest);
            printf(",\"sha256\":\"%s\"", digest);
        }
        putchar('}');
    }
    fputs("],\n", stdout);
}

static void print_json(const struct directory *dir, bool sha256) {
    char shape[VALUE_BYTES];
    size_t n;
    const struct tensor *tensors = tensors_of(dir, &n);
    print_json_files(dir, sha256);
    fputs("\"metadata\":{", stdout);
    for (size_t i = 0; i < dir->n_metadata; i++) {
        fputs(i ? ",\n" : "\n", stdout);
        print_json_text(dir->metadata[i].key);
        putchar(':');
        print_json_value(&dir->metadata[i]);
    }
    fputs("},\n\"tensors\":[", stdout);
    for (size_t i = 0; i < n; i++) {
        const struct tensor *tensor = &tensors[i];
        shape_text(tensor, ",", shape, sizeof shape);
        fputs(i ? ",\n{\"name\":" : "\n{\"name\":", stdout);
        print_json_text(tensor->name);
        printf(",\"type\":\"%s\",\"shape\":[%s],\"bytes\":%llu,\"offset\":%llu}",
               tensor->format->name, shape, (unsigned long long)tensor->bytes,
               (unsigned long long)tensor->offset);
    }
    fputs("]}\n", stdout);
}

int command_inspect(int argc, char **argv) {
    struct directory dir;
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
    if (directory_open_path(&dir, argv[optind], &error) != WISP_OK)
        return complain_of(&error);
    if (neurons)
        code = print_neurons(&dir);
    else if (json)
        print_json(&dir, sha256);
    else
        print_table(&dir, sha256);
    directory_release(&dir);
    const int closed = finish_stream(stdout);
    return code == EXIT_GOOD ? closed : code;
}
