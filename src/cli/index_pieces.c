/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/index_pieces.h"

#include <string.h>

#include "cli/cli.h"

const char *piece_id_fault(const struct record *record) {
    const struct json *id = json_get(record->object, "id");
    const bool is_good =
        json_is_absent(id) ||
        ((json_is(id, JSON_STRING) || json_is(id, JSON_NUMBER)) && id->text_length > 0);
    return is_good ? NULL : "\"id\" is neither a number nor a string with a character";
}

static void write_id(FILE *stream, const struct piece *piece) {
    const struct record *record = piece->record;
    const struct json *id = json_get(record->object, "id");
    if (json_is_absent(id) && record->image) {
        print_text(stream, record->text, SIZE_MAX);
    } else if (json_is_absent(id)) {
        /* Standard input gets a name that does not begin with "-": wisp index remove would take
         * such an id for an option. */
        const char *name = strcmp(record->name, "-") == 0 ? "stdin" : record->name;
        print_text(stream, wisp_text_of(name), SIZE_MAX);
        fprintf(stream, ":%zu", record->line);
    } else {
        fwrite(id->text, 1, id->text_length, stream);
    }
    if (piece->number > 0)
        fprintf(stream, "#%zu", piece->number);
}

static void write_metadata_of(FILE *stream, const struct piece *piece, const char *name,
                              bool no_text) {
    const struct json *object = piece->record->object;
    bool any = false;
    fputc('{', stream);
    for (const struct json *member = object ? object->first : NULL; member; member = member->next) {
        const bool is_text = strcmp(member->key, name) == 0;
        if (strcmp(member->key, "id") == 0 || (is_text && (no_text || piece->number > 0)))
            continue;
        fputs(any ? "," : "", stream);
        any = true;
        print_member(stream, member);
    }
    if (!no_text && (!object || piece->number > 0)) {
        fputs(any ? "," : "", stream);
        print_json_string(stream, wisp_text_of(name));
        fputc(':', stream);
        print_json_string(stream, piece->text);
    }
    fputc('}', stream);
}

void write_piece(FILE *stream, const struct piece *piece, const char *member, bool no_text,
                 size_t *id_end) {
    write_id(stream, piece);
    *id_end = (size_t)ftello(stream);
    write_metadata_of(stream, piece, member, no_text);
}

int make_piece_id(const struct record *record, size_t number, wisp_text *id, char **bytes) {
    const struct piece piece = {.record = record, .number = number};
    *bytes = NULL;
    FILE *stream = open_memstream(bytes, &id->length);
    if (stream)
        write_id(stream, &piece);
    if (!stream || !close_memstream(stream, bytes))
        return complain_of_memory();
    id->bytes = *bytes;
    return EXIT_GOOD;
}
