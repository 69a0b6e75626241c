/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/indexes.h"

#include <stdlib.h>

#include "base/json.h"
#include "cli/cli.h"
#include "cli/output.h"

int open_index(const char *path, wisp_index **index) {
    wisp_error error;
    if (!check_path("index", path))
        return EXIT_USAGE;
    return wisp_index_open(path, index, &error) == WISP_OK ? EXIT_GOOD : complain_of(&error);
}

void write_metadata(FILE *stream, wisp_text metadata) {
    if (metadata.length == 0)
        fputs("null", stream);
    /* A JSON text has no line breaks but between values. */
    for (size_t i = 0; i < metadata.length; i++) {
        const char c = metadata.bytes[i];
        fputc(c == '\n' || c == '\r' ? ' ' : c, stream);
    }
}

int read_metadata(const char *path, uint64_t row, wisp_text *metadata, struct arena *arena,
                  wisp_text *text) {
    const struct json *root;
    wisp_error error;
    *text = *metadata;
    if (metadata->length == 0)
        return EXIT_GOOD;
    const wisp_status status =
        json_parse(arena, metadata->bytes, metadata->length, path, &root, &error);
    if (status != WISP_OK) {
        complain("%s: the metadata of row %llu: %s", path, (unsigned long long)row, error.message);
        *metadata = *text = (wisp_text){0};
        return status == WISP_ERROR_MEMORY ? EXIT_FAILED : EXIT_MODEL;
    }
    const struct json *member = json_get(root, "text");
    if (json_is(member, JSON_STRING))
        *text = json_text(member);
    return EXIT_GOOD;
}

int find_listing_format(const char *name, bool is_list, enum listing_format *format) {
    static const char *const names[] = {"text", "json", "ndjson"};
    const int n = is_list ? 3 : 2;
    for (int i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0) {
            *format = (enum listing_format)i;
            return EXIT_GOOD;
        }
    return complain_of_choice("format", name, is_list ? "text, json, ndjson" : "text, json");
}

/* Writes a row as a JSON object; its embedding, too, if `vector` has room for one. */
static void list_row(const wisp_index *index, uint64_t row, wisp_text id, wisp_text metadata,
                     float *vector, size_t dimensions) {
    fputs("{\"id\": ", program_output);
    print_json_string(program_output, id);
    fputs(", \"metadata\": ", program_output);
    write_metadata(program_output, metadata);
    if (vector && wisp_index_get_vector(index, row, vector)) {
        fputs(", \"embedding\": ", program_output);
        output_json_row(program_output, vector, dimensions);
    }
    fputc('}', program_output);
}

int index_list(const wisp_index *index, const char *path, enum listing_format format,
               bool with_vectors) {
    static const char *const begins[] = {"", "[", ""}, *const between[] = {"", ",\n ", "\n"},
                             *const ends[] = {"", "]\n", "\n"};
    bool is_first = true;
    wisp_index_info info;
    wisp_text id, metadata, text;
    struct arena arena = {0};
    int code = EXIT_GOOD;
    wisp_index_get_info(index, &info);
    float *vector = with_vectors ? malloc(info.dimensions * sizeof *vector) : NULL;
    if (with_vectors && !vector)
        return complain_of_memory();
    fputs(begins[format], program_output);
    for (uint64_t row = 0; row < info.rows && !was_interrupted(); row++) {
        if (!wisp_index_get(index, row, &id, &metadata))
            continue;
        const int read = read_metadata(path, row, &metadata, &arena, &text);
        code = read == EXIT_GOOD ? code : read;
        if (code != EXIT_GOOD && code != EXIT_MODEL)
            break;
        if (format == LISTING_TEXT) {
            print_text(program_output, id, SIZE_MAX);
            fputc('\t', program_output);
            print_text(program_output, text, SIZE_MAX);
            fputc('\n', program_output);
        } else {
            fputs(is_first ? "" : between[format], program_output);
            list_row(index, row, id, metadata, vector, info.dimensions);
        }
        is_first = false;
        arena_release(&arena);
    }
    if (format != LISTING_NDJSON || !is_first)
        fputs(ends[format], program_output);
    free(vector);
    arena_release(&arena);
    const int finished = finish_output();
    if (was_interrupted())
        return EXIT_INTERRUPTED;
    return code == EXIT_GOOD ? finished : code;
}

int index_info(const wisp_index *index, bool json) {
    wisp_index_info info;
    wisp_index_get_info(index, &info);
    const unsigned long long count = info.count, removed = info.rows - info.count;
    const wisp_text model = wisp_text_of(info.model);
    fputs(json ? "{\"model\": " : "model: ", program_output);
    if (json)
        print_json_string(program_output, model);
    else
        print_text(program_output, model, SIZE_MAX);
    fprintf(program_output,
            json ? ", \"kind\": \"%s\", \"dimensions\": %zu, \"count\": %llu, \"removed\": "
                   "%llu}\n"
                 : "\nkind: %s\ndimensions: %zu\ncount: %llu\nremoved: %llu\n",
            wisp_index_kind_name(info.kind), info.dimensions, count, removed);
    return finish_output();
}
