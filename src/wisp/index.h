/* SPDX-License-Identifier: Apache-2.0
 * Part of wisp.h: indexes, which hold vectors and find the nearest ones. They need no model.
 */
#ifndef WISP_INDEX_H
#define WISP_INDEX_H

#ifndef WISP_H
#error "include wisp.h, which includes this header"
#endif

/* ---- indexes -------------------------------------------------------------------------------- */

/* An index holds vectors with ids, and finds those with the largest dot products with a query. The
 * search is exact: it computes all products. An index needs no model. One thread at a time may use
 * it. All functions are native only; the JavaScript package reads and writes the same files
 * (docs/formats.md). */
typedef struct wisp_index wisp_index;

typedef enum wisp_index_kind {
    WISP_INDEX_INT8 = 0, /* a byte for each value, and a scale for each vector */
    WISP_INDEX_F32 = 1   /* four times as large */
} wisp_index_kind;

/* wisp_index_kind_name(WISP_INDEX_INT8) is "int8"; NULL after the last. */
WISP_API const char *wisp_index_kind_name(size_t kind);

/* Sets *kind by its name. Returns false and changes nothing if no kind has this name or it is
 * NULL. */
WISP_API bool wisp_index_kind_find(const char *name, wisp_index_kind *kind);

/* Creates an empty index for vectors of `dimensions` values, at most 65536. If `session` is not
 * NULL, the index stores the name of its model and the embedding of a sentence, so that
 * wisp_index_check_model can detect other models. `dimensions` may then be 0, which means the
 * model's, and must not exceed the model's. */
WISP_API wisp_status wisp_index_create(wisp_session *session, size_t dimensions,
                                       wisp_index_kind kind, wisp_index **index, wisp_error *error);

/* Open an index from a file, which is read once, or from bytes, which are copied. Fail with
 * WISP_ERROR_FORMAT if the index is malformed or damaged. */
WISP_API wisp_status wisp_index_open(const char *path, wisp_index **index, wisp_error *error);
WISP_API wisp_status wisp_index_open_bytes(const void *bytes, size_t size, wisp_index **index,
                                           wisp_error *error);

/* Closes the index without saving it. */
WISP_API void wisp_index_close(wisp_index *index);

/* Save the index. The file is first written under another name, and replaces the old one when it is
 * complete and synced. Saving fails with WISP_ERROR_IO if another program has changed the file
 * since the index was opened from it or saved to it, because those changes would be lost. Programs
 * that open, change and save one index should lock it meanwhile, as wisp index does by flock. The
 * second function sets *size, and writes the bytes if they fit into `capacity`; `bytes` may be NULL
 * if that is 0. */
WISP_API wisp_status wisp_index_save(wisp_index *index, const char *path, wisp_error *error);
WISP_API wisp_status wisp_index_save_bytes(wisp_index *index, void *bytes, size_t capacity,
                                           size_t *size, wisp_error *error);

/* Fails with WISP_ERROR_ARGUMENT if the index has vectors of another model, that is, if the
 * session's embedding of the stored sentence has a cosine below 0.9 to the stored embedding. Other
 * files, quantisations and compute modes of one model are the same model. Succeeds if the index was
 * created without a session. */
WISP_API wisp_status wisp_index_check_model(const wisp_index *index, wisp_session *session,
                                            wisp_error *error);

/* Adds n vectors, rows [n, dimensions] of finite values. An id is any UTF-8 text except the empty
 * one. A vector with an id that the index has replaces the old one; among equal ids in one call,
 * the last counts. `metadata` is a JSON text for each vector, empty for none. It may be NULL. */
WISP_API wisp_status wisp_index_add(wisp_index *index, const wisp_text *ids,
                                    const wisp_text *metadata, const float *rows, size_t n,
                                    wisp_error *error);

/* Removes the vectors of n ids and sets *removed (may be NULL) to their number. Unknown ids are
 * ignored. Rows keep their numbers until wisp_index_compact. */
WISP_API wisp_status wisp_index_remove(wisp_index *index, const wisp_text *ids, size_t n,
                                       size_t *removed, wisp_error *error);

/* Frees the memory of removed rows. The others keep their order and get new numbers. */
WISP_API wisp_status wisp_index_compact(wisp_index *index, wisp_error *error);

typedef struct wisp_match {
    uint64_t row; /* see wisp_index_get */
    float score;  /* the dot product: the cosine, if both vectors are normalised. Clamped to the
                     range of floats */
} wisp_match;

/* Finds the k vectors with the largest dot products for each of n queries [n, dimensions] of finite
 * values. Writes them to matches [n, k], best first; among equal scores, the lower row is first.
 * Sets *found to the number of matches of each query: k, or fewer if the index has fewer vectors.
 * Results do not depend on the number of threads and, for an int8 index, on the machine: queries
 * are quantised to at least 13 bits (fewer above 4096 dimensions), and sums are exact. */
WISP_API wisp_status wisp_index_search(wisp_index *index, const float *queries, size_t n, size_t k,
                                       wisp_match *matches, size_t *found, wisp_error *error);

/* Sets the number of threads of a search, 1 to 1024. The default is 1. */
WISP_API wisp_status wisp_index_set_threads(wisp_index *index, uint32_t threads, wisp_error *error);

typedef struct wisp_index_info {
    const char *model; /* the name of the model, or "" */
    wisp_index_kind kind;
    size_t dimensions;
    uint64_t count;          /* vectors */
    uint64_t rows;           /* vectors and removed rows */
    uint64_t resident_bytes; /* memory that the index holds */
} wisp_index_info;

WISP_API void wisp_index_get_info(const wisp_index *index, wisp_index_info *info);

/* Gets the id and the metadata (may be NULL) of a row, counted from 0. They live until the next
 * call that changes the index. Returns false if there is no such row or it was removed. */
WISP_API bool wisp_index_get(const wisp_index *index, uint64_t row, wisp_text *id,
                             wisp_text *metadata);

/* Writes the vector of a row to values [dimensions]. Returns false as wisp_index_get does. */
WISP_API bool wisp_index_get_vector(const wisp_index *index, uint64_t row, float *values);

/* Sets *row to the row of an id. Returns false if the index does not have the id. */
WISP_API bool wisp_index_find(const wisp_index *index, wisp_text id, uint64_t *row);

#endif
