/* SPDX-License-Identifier: Apache-2.0
 * Texts from the command line, files and standard input, a batch at a time, in order. */
#ifndef WISP_CLI_INPUT_H
#define WISP_CLI_INPUT_H

#include "base/arena.h"
#include "base/json.h"

enum { BATCH_RECORDS = 1024, BATCH_BYTES = 1 << 20, MAX_LINE_BYTES = 64 << 20 };

struct input_item {
    const char *path; /* NULL: `text` is the record itself; "-": standard input */
    const char *text;
};

struct input {
    struct input_item *items;
    size_t n_items, current;
    bool ndjson;
    int descriptor; /* of the item being read, -1 for none */
    char *buffer;
    size_t begin, end, capacity;      /* of the bytes read and not yet used */
    bool at_end;                      /* nothing more comes from the descriptor */
    size_t line;                      /* lines taken from the item so far */
    uint64_t bytes_done, bytes_total; /* total is 0 where it is not known */
};

struct record {
    wisp_text text;
    const struct json *object; /* with ndjson, an object's line; else NULL */
};

struct batch {
    size_t n;
    struct record records[BATCH_RECORDS];
    wisp_text texts[BATCH_RECORDS];
    struct arena arena; /* holds the texts */
};

/* Room for at most `capacity` items; false when there is no memory. */
bool input_open(struct input *input, size_t capacity, bool ndjson);

void input_add(struct input *input, const char *path, const char *text);

/* The next records: as many as are ready and fit, at least one unless the input is at its end
 * (n = 0). Returns an exit code after complaining; what was read before the fault is in the batch
 * first. */
int input_next(struct input *input, struct batch *batch);

void input_close(struct input *input);

#endif
