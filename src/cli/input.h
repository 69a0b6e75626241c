/* SPDX-License-Identifier: Apache-2.0
 * Reads texts from the command line, from files and from standard input, in order and in batches.
 */
#ifndef WISP_CLI_INPUT_H
#define WISP_CLI_INPUT_H

#include <stdio.h>

#include "base/arena.h"
#include "base/json.h"
#include "cli/columns.h"
#include "cli/options.h"

enum { BATCH_RECORDS = 1024, BATCH_BYTES = 1 << 20, MAX_LINE_BYTES = 64 << 20 };

/* A text from the command line, or a file of texts. */
struct input_item {
    const char *path; /* "-": standard input; NULL: the item is `text` */
    const char *text;
};

struct input {
    struct input_item *items;
    size_t n_items, current;
    struct arena paths; /* of images in folders (images.h) */
    bool ndjson;
    struct columns columns; /* without a separator: the input has no columns */
    bool skip_blank;        /* plain lines without a character but spaces are left out, too */
    bool keep_malformed; /* the input continues after a malformed line, which becomes a record with
                            `fault` */
    const char *member;  /* the member of an object that is its text; NULL: "text" */
    unsigned long shard, shards; /* only records shard, shard + shards, ... count, from 1 on. 0: all
                                    do */
    uint64_t seen;               /* records so far, with those of other shards */
    /* The most records of the next batch. It doubles up to BATCH_RECORDS, where it begins. */
    size_t most;
    int descriptor; /* of the current item; -1: not open */
    char *buffer;   /* [capacity]: bytes [begin, end) are read and not yet used */
    size_t begin, end, capacity;
    bool at_end;                      /* the descriptor has no more bytes */
    bool past_mark;                   /* a byte order mark before the first line was skipped */
    size_t line;                      /* number of lines taken from the item so far */
    uint64_t bytes_done, bytes_total; /* of all files; the total is 0 if it is not known */
};

struct record {
    wisp_text text;
    const struct json *object; /* the line, if it is a JSON object; else NULL */
    const char *name;          /* the file, for messages; borrowed */
    size_t line;               /* the number of the line in the file */
    const char *fault;         /* why the line has no text; NULL: it has one */
    const char *image;         /* the text, if it is the path of an image (images.h); else NULL */
};

struct batch {
    size_t n;
    struct record records[BATCH_RECORDS];
    wisp_text texts[BATCH_RECORDS];
    struct arena arena; /* holds the texts */
};

/* Prepares for at most `capacity` items, of plain lines. Returns false, after complaining, if
 * there is no memory. */
bool input_open(struct input *input, size_t capacity);

/* --input and --column: a table for a struct input. */
extern const struct command_option input_options[];

/* Sets the format of lines: with "lines" each is a text, with "ndjson" it is JSON, with "csv" and
 * "tsv" a row of values, behind a header. Returns an exit code, after complaining of another name.
 */
int input_take_format(void *field, const char *name);

/* Sets the member or the column that is the text. Returns EXIT_GOOD. */
int input_take_column(void *field, const char *name);

/* Returns the name of the member or column that is the text. */
const char *input_member(const struct input *input);

/* Sets the shard by a text such as "2/8". Returns an exit code, after complaining of another. */
int input_take_shard(void *field, const char *value);

/* Adds an item: the file at `path` ("-": standard input), or if that is NULL the text `text`.
 * Both are borrowed. */
void input_add(struct input *input, const char *path, const char *text);

/* Adds a text as a command's option. Returns EXIT_GOOD. */
int input_take_text(void *field, const char *text);

/* Refuses a file that is written, too. Returns an exit code. */
int input_check_output(const struct input *input, const char *path);

/* Reads the next records into the batch: as many as fit and are there without waiting, but at least
 * one unless the input has ended. Skips a byte order mark at the start of a file and, with ndjson
 * or skip_blank, blank lines. Refuses to read the file to which the output goes: it would read what
 * it has written. Returns an exit code, after complaining if it is not EXIT_GOOD; the batch then
 * has the records before the fault. */
int input_next(struct input *input, struct batch *batch);

/* Complains that a text from line `line` (0: all) of the file `name` could not be parsed. The error
 * must not have the file's name. Returns an exit code. */
int complain_of_text(const char *name, size_t line, const wisp_error *error);

/* Returns the share of the files' bytes that has been taken; -1 if their size is not known. */
double input_fraction(const struct input *input);

/* Writes a member of a record's object, key and value, as it is in the input. */
void print_member(FILE *stream, const struct json *member);

/* Frees a batch from calloc, and its texts; NULL is allowed. */
void batch_close(struct batch *batch);

void input_close(struct input *input);

#endif
