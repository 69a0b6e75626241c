/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/input.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/utf8.h"
#include "cli/cli.h"

enum { READ_BYTES = 256 * 1024 };

bool input_open(struct input *input, size_t capacity) {
    *input = (struct input){.descriptor = -1, .most = BATCH_RECORDS};
    input->items = calloc(capacity + 1, sizeof *input->items);
    if (!input->items)
        complain("out of memory");
    return input->items != NULL;
}

int input_take_format(void *field, const char *name) {
    struct input *input = field;
    input->ndjson = strcmp(name, "ndjson") == 0;
    input->columns.separator = (char)(strcmp(name, "csv") == 0   ? ','
                                      : strcmp(name, "tsv") == 0 ? '\t'
                                                                 : '\0');
    return input->ndjson || input->columns.separator || strcmp(name, "lines") == 0
               ? EXIT_GOOD
               : complain_of_choice("input", name, "lines, ndjson, csv, tsv");
}

int input_take_column(void *field, const char *name) {
    ((struct input *)field)->member = name;
    return EXIT_GOOD;
}

const struct command_option input_options[] = {
    TAKEN_BY_ALL(input_take_format, TEXT, "input", 0, "FORMAT",
                 "lines (default); ndjson: each line is a JSON string or an object with\n"
                 "a string \"text\"; csv or tsv: rows behind a header"),
    TAKEN_BY_ALL(input_take_column, TEXT, "column", 0, "NAME",
                 "the column, or the member of objects, that is the text (default:\n"
                 "text)"),
    LAST_OPTION,
};

const char *input_member(const struct input *input) {
    return input->member ? input->member : "text";
}

int input_take_shard(void *field, const char *value) {
    struct input *input = field;
    char *end;
    input->shard = strtoul(value, &end, 10);
    if (strspn(value, "0123456789/") == strlen(value) && *end == '/') {
        input->shards = strtoul(end + 1, &end, 10);
        if (!*end && input->shard >= 1 && input->shard <= input->shards &&
            input->shards < ULONG_MAX)
            return EXIT_GOOD;
    }
    complain("--shard %s: expected I/N with I from 1 to N, such as 1/8", value);
    return EXIT_USAGE;
}

int input_take_text(void *field, const char *text) {
    input_add(field, NULL, text);
    return EXIT_GOOD;
}

void input_add(struct input *input, const char *path, const char *text) {
    struct stat info;
    if (path && stat(path, &info) == 0 && S_ISREG(info.st_mode))
        input->bytes_total += (uint64_t)info.st_size;
    input->items[input->n_items++] = (struct input_item){.path = path, .text = text};
}

int input_check_output(const struct input *input, const char *path) {
    struct stat output, item;
    for (size_t i = 0; stat(path, &output) == 0 && i < input->n_items; i++) {
        const char *name = input->items[i].path;
        if (!name || (strcmp(name, "-") == 0 ? fstat(STDIN_FILENO, &item) : stat(name, &item)) != 0)
            continue;
        if (item.st_dev == output.st_dev && item.st_ino == output.st_ino) {
            complain("%s: the input is the output, too", name);
            return EXIT_FAILED;
        }
    }
    return EXIT_GOOD;
}

double input_fraction(const struct input *input) {
    return input->bytes_total ? (double)input->bytes_done / (double)input->bytes_total : -1;
}

void print_member(FILE *stream, const struct json *member) {
    fwrite(member->raw_key, 1, (size_t)(member->raw + member->raw_length - member->raw_key),
           stream);
}

void input_close(struct input *input) {
    if (input->descriptor > STDIN_FILENO)
        close(input->descriptor);
    columns_release(&input->columns);
    arena_release(&input->paths);
    free(input->buffer);
    free(input->items);
    *input = (struct input){.descriptor = -1};
}

/* ---- lines ---------------------------------------------------------------------------------- */

static int open_item(struct input *input, const char *path) {
    struct stat info;
    input->begin = input->end = input->line = 0;
    columns_release(&input->columns);
    input->at_end = input->past_mark = false;
    if (!check_path("input", path))
        return EXIT_USAGE;
    input->descriptor = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (input->descriptor < 0) {
        /* A name with a blank is more often a text. */
        complain("%s: cannot open: %s%s", path, strerror(errno),
                 errno == ENOENT && strchr(path, ' ') ? " (--text TEXT gives a text itself)" : "");
        return EXIT_FAILED;
    }
    if (input->descriptor == STDIN_FILENO)
        say_that_input_is_awaited();
    if (fstat(input->descriptor, &info) == 0 && is_output_file(&info)) {
        complain("%s: the input is the output, too", path);
        return EXIT_FAILED;
    }
    return EXIT_GOOD;
}

/* Makes room for READ_BYTES after `end`. */
static bool make_room(struct input *input) {
    if (input->begin > 0) {
        memmove(input->buffer, input->buffer + input->begin, input->end - input->begin);
        input->end -= input->begin;
        input->begin = 0;
    }
    if (input->capacity - input->end >= READ_BYTES)
        return true;
    const size_t capacity = 2 * input->capacity + READ_BYTES;
    char *buffer = realloc(input->buffer, capacity);
    if (!buffer)
        return false;
    input->buffer = buffer;
    input->capacity = capacity;
    return true;
}

static int read_more(struct input *input, const char *path) {
    if (!make_room(input)) {
        complain("%s: out of memory", path);
        return EXIT_FAILED;
    }
    ssize_t count;
    do {
        if (!wait_readable(input->descriptor))
            return EXIT_INTERRUPTED;
        count = read(input->descriptor, input->buffer + input->end, READ_BYTES);
    } while (count < 0 && (errno == EAGAIN || errno == EINTR));
    if (count < 0) {
        complain("%s: cannot read: %s", path, strerror(errno));
        return EXIT_FAILED;
    }
    input->at_end = count == 0;
    input->end += (size_t)count;
    return EXIT_GOOD;
}

/* Returns whether a read would return without waiting. */
static bool is_ready(const struct input *input) {
    struct pollfd waiting = {.fd = input->descriptor, .events = POLLIN};
    return poll(&waiting, 1, 0) > 0;
}

/* Skips a byte order mark at the start of the item, which some editors write. */
static void skip_mark(struct input *input) {
    enum { MARK_BYTES = 3 };
    if (input->past_mark || input->end - input->begin < MARK_BYTES)
        return;
    input->past_mark = true;
    const size_t mark = utf8_mark(input->buffer + input->begin, input->end - input->begin);
    input->begin += mark;
    input->bytes_done += mark;
}

/* Takes a line from the buffer, without its newline. Returns false if the buffer has no whole
 * line yet. */
static bool buffered_line(struct input *input, wisp_text *line) {
    skip_mark(input);
    if (input->begin == input->end)
        return false;
    char *start = input->buffer + input->begin;
    const size_t left = input->end - input->begin;
    size_t within = 0;
    const char *newline = memchr(start, '\n', left);
    if (newline && input->columns.separator) {
        const size_t length = columns_row_length(&input->columns, start, left, &within);
        newline = length < left ? start + length : NULL;
    }
    if (!newline && !input->at_end)
        return false;
    line->bytes = start;
    line->length = newline ? (size_t)(newline - start) : left;
    input->line += 1 + within;
    input->past_mark = true;
    input->begin += line->length + (newline != NULL);
    input->bytes_done += line->length + (newline != NULL);
    if (line->length > 0 && start[line->length - 1] == '\r')
        line->length--;
    return true;
}

/* ---- records -------------------------------------------------------------------------------- */

static bool is_blank(wisp_text line) {
    size_t i = 0;
    while (i < line.length && strchr(" \t\r", line.bytes[i]) && line.bytes[i] != '\0')
        i++;
    return i == line.length;
}

/* Returns the message of an error in a text of one line, without the line. */
static const char *within_line(const wisp_error *error) {
    static const char first_line[] = "line 1, ";
    const size_t length = strlen(first_line);
    return error->message + (strncmp(error->message, first_line, length) == 0 ? length : 0);
}

int complain_of_text(const char *name, size_t line, const wisp_error *error) {
    if (line > 0)
        complain("%s: line %zu, %s", name, line, within_line(error));
    else
        complain("%s: %s", name, error->message);
    return error->status == WISP_ERROR_MEMORY ? EXIT_FAILED : EXIT_INPUT;
}

/* Adds a record without a text, if the input keeps such lines; otherwise returns EXIT_INPUT. The
 * fault has been complained of. */
static int add_malformed(struct input *input, struct batch *batch, const char *fault,
                         const char *name) {
    if (!input->keep_malformed)
        return EXIT_INPUT;
    const char *copy = arena_copy_text(&batch->arena, fault, strlen(fault));
    if (!copy)
        return complain_of_memory();
    batch->records[batch->n] = (struct record){.name = name, .line = input->line, .fault = copy};
    batch->texts[batch->n++] = wisp_text_of("");
    return EXIT_GOOD;
}

/* Counts a record, and returns whether it is another shard's. */
static bool is_of_other_shard(struct input *input) {
    return input->shards > 0 && input->seen++ % input->shards != input->shard - 1;
}

static int add_json_record(struct input *input, struct batch *batch, wisp_text line,
                           const char *name) {
    const struct json *root;
    wisp_error error;
    if (json_parse(&batch->arena, line.bytes, line.length, NULL, &root, &error) != WISP_OK) {
        const int code = complain_of_text(name, input->line, &error);
        return code == EXIT_INPUT ? add_malformed(input, batch, within_line(&error), name) : code;
    }
    const char *member = input_member(input);
    const struct json *text = json_is(root, JSON_OBJECT) ? json_get(root, member) : root;
    if (!json_is(text, JSON_STRING)) {
        char fault[128];
        snprintf(fault, sizeof fault, "neither a JSON string nor an object with a string \"%s\"",
                 member);
        complain("%s: line %zu: %s", name, input->line, fault);
        return add_malformed(input, batch, fault, name);
    }
    struct record *record = &batch->records[batch->n];
    *record = (struct record){.text = json_text(text),
                              .object = root == text ? NULL : root,
                              .name = name,
                              .line = input->line};
    batch->texts[batch->n++] = record->text;
    return EXIT_GOOD;
}

static int add_record(struct input *input, struct batch *batch, wisp_text line, const char *name) {
    /* The batch outlives the contents of the buffer. */
    if (is_of_other_shard(input))
        return EXIT_GOOD;
    const char *copy = arena_copy_text(&batch->arena, line.bytes, line.length);
    if (!copy) {
        complain("%s: out of memory", name);
        return EXIT_FAILED;
    }
    line.bytes = copy;
    if (input->ndjson)
        return add_json_record(input, batch, line, name);
    batch->records[batch->n] = (struct record){.text = line, .name = name, .line = input->line};
    batch->texts[batch->n++] = line;
    return EXIT_GOOD;
}

/* Adds a row of values, of which the first is the header. */
static int add_row(struct input *input, struct batch *batch, wisp_text row, const char *name) {
    char fault[128];
    wisp_text json;
    if (input->columns.n == 0)
        return columns_take_header(&input->columns, row, name, input_member(input));
    if (is_of_other_shard(input))
        return EXIT_GOOD;
    const int code =
        columns_to_json(&input->columns, row, &batch->arena, &json, fault, sizeof fault);
    if (code == EXIT_GOOD)
        return add_json_record(input, batch, json, name);
    if (code != EXIT_INPUT)
        return code;
    complain("%s: line %zu: %s", name, input->line, fault);
    return add_malformed(input, batch, fault, name);
}

/* Takes lines of the current item until the batch is full, the item has ended (*ended), or the next
 * line would have to be waited for while the batch already has records. */
static int take_lines(struct input *input, struct batch *batch, const char *path, bool *ended) {
    *ended = false;
    while (batch->n < input->most && batch->arena.total < BATCH_BYTES) {
        wisp_text line;
        if (buffered_line(input, &line)) {
            const bool has_columns = input->columns.separator != '\0';
            if ((input->ndjson || has_columns || input->skip_blank) && is_blank(line))
                continue;
            const int code = has_columns ? add_row(input, batch, line, path)
                                         : add_record(input, batch, line, path);
            if (code != EXIT_GOOD)
                return code;
            continue;
        }
        if (input->at_end) {
            *ended = true;
            return EXIT_GOOD;
        }
        if (input->end - input->begin > MAX_LINE_BYTES) {
            complain("%s: line %zu is longer than %d bytes", path, input->line + 1, MAX_LINE_BYTES);
            return EXIT_INPUT;
        }
        if (batch->n > 0 && !is_ready(input))
            return EXIT_GOOD;
        const int code = read_more(input, path);
        if (code != EXIT_GOOD)
            return code;
    }
    return EXIT_GOOD;
}

static void close_item(struct input *input) {
    if (input->descriptor > STDIN_FILENO)
        close(input->descriptor);
    input->descriptor = -1;
    input->current++;
}

static int take_item(struct input *input, struct batch *batch) {
    const struct input_item *item = &input->items[input->current];
    if (!item->path) {
        input->current++;
        input->line = 1;
        return add_record(input, batch, wisp_text_of(item->text), "--text");
    }
    if (input->descriptor < 0) {
        const int code = open_item(input, item->path);
        if (code != EXIT_GOOD)
            return code;
    }
    bool ended;
    const int code = take_lines(input, batch, item->path, &ended);
    if (ended)
        close_item(input);
    return code;
}

void batch_close(struct batch *batch) {
    if (batch)
        arena_release(&batch->arena);
    free(batch);
}

int input_next(struct input *input, struct batch *batch) {
    batch->n = 0;
    arena_release(&batch->arena);
    if (input->member && !input->ndjson && !input->columns.separator) {
        complain("--column %s: lines have no columns; --input csv, tsv or ndjson reads them",
                 input->member);
        return EXIT_USAGE;
    }
    while (input->current < input->n_items) {
        const size_t before = input->current;
        const int code = take_item(input, batch);
        if (code != EXIT_GOOD)
            return code;
        const bool item_goes_on = input->current == before;
        if (batch->n > 0 && (item_goes_on || batch->n == input->most))
            break;
    }
    input->most = input->most < BATCH_RECORDS ? 2 * input->most : BATCH_RECORDS;
    return was_interrupted() ? EXIT_INTERRUPTED : EXIT_GOOD;
}
