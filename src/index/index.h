/* SPDX-License-Identifier: Apache-2.0
 * Vectors with ids, in memory. js/index/vector-index.js does in JavaScript what this folder does in
 * C. */
#ifndef WISP_INDEX_INDEX_H
#define WISP_INDEX_INDEX_H

#include "base/arena.h"
#include "base/pool.h"
#include "base/workspace.h"

enum {
    INDEX_MOST_DIMENSIONS = 65536,
    INDEX_MOST_NAME = 4096,  /* bytes of the model's name */
    INDEX_ROW_ALIGNMENT = 16 /* rows of vectors are padded with zeros to a multiple of this */
};

/* A row without its vector. */
struct index_entry {
    wisp_text id, metadata; /* in the arena of the index */
    bool deleted;
};

/* The place of an id. */
struct index_place {
    wisp_text id;
    size_t row;
};

struct wisp_index {
    wisp_index_kind kind;
    size_t dimensions, row_bytes;
    char *model;        /* the name; in `fixed` */
    float *fingerprint; /* [dimensions], in `fixed`; NULL: made without a model */
    struct arena fixed;

    struct file_mark *origin; /* the file that it was read from or saved to last, in `fixed`; NULL:
                                 none (index_path.c) */

    size_t rows, deleted, capacity; /* `capacity` rows have room */
    unsigned char *vectors;         /* [capacity, row_bytes]: int8 or floats */
    float *scales;                  /* [capacity]; NULL for floats */
    struct index_entry *entries;    /* [capacity] */
    struct index_place *places;     /* [rows - deleted], sorted by id; room for `capacity` */
    struct arena texts;             /* of entries */

    struct pool *team;      /* NULL: only the caller */
    struct workspace space; /* of searches */
};

/* Returns the bytes that a row of a kind takes. */
size_t index_row_bytes(wisp_index_kind kind, size_t dimensions);

/* Makes an index without vectors and model, for vectors of `dimensions` values. Fails if there
 * is no memory. */
wisp_status index_new(size_t dimensions, wisp_index_kind kind, wisp_index **index,
                      wisp_error *error);

/* Makes room for `more` rows. On failure the index is as before. */
wisp_status index_reserve(wisp_index *index, size_t more, wisp_error *error);

/* Fills index->places from the entries of all rows. Fails with WISP_ERROR_FORMAT, naming `file`,
 * if two rows have one id. */
wisp_status index_sort(wisp_index *index, const char *file, wisp_error *error);

/* Returns whether a text is well-formed UTF-8. */
bool index_is_utf8(wisp_text text);

#endif
