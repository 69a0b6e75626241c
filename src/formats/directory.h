/* SPDX-License-Identifier: Apache-2.0
 * A directory lists the metadata and tensors of a model. Every format is read into a directory with
 * GGUF's names and types. The bytes of every tensor are inside its source; this was checked. */
#ifndef WISP_FORMATS_DIRECTORY_H
#define WISP_FORMATS_DIRECTORY_H

#include "base/arena.h"
#include "formats/residency.h"
#include "quant/blocks.h"

enum { TENSOR_MAX_DIMS = 4, DIRECTORY_MAX_SOURCES = 256 };

struct directory;
struct tensor_cache;

struct tensor {
    const char *name;
    const struct block_format *format;
    uint32_t n_dims;
    uint64_t dims[TENSOR_MAX_DIMS]; /* dims[0] is the length of a row; 1 past n_dims */
    uint64_t rows;                  /* the product of the others */
    uint64_t row_bytes;
    uint64_t bytes;  /* rows * row_bytes */
    uint64_t offset; /* in its source */
    uint32_t source;
    /* Does the work of directory_rows for a tensor that is assembled from other tensors' bytes.
     * NULL: the tensor's own bytes are in the source. */
    wisp_status (*make)(const struct directory *dir, const struct tensor *tensor, uint64_t first,
                        uint64_t rows, struct tensor_cache *cache, void *buffer, const void **bytes,
                        wisp_error *error);
    const void *maker; /* for `make` to use */
    uint64_t part;     /* for `make` to use */
};

/* Bytes that several tensors are assembled from. Whoever reads these tensors one after the other
 * owns the cache, so that the bytes are read once for all of them. It starts as zeros, serves one
 * thread and is released by tensor_cache_release. */
struct tensor_cache {
    const void *owner; /* the maker that the bytes belong to; NULL: there are none */
    void *bytes;
};

/* The types of metadata values, with GGUF's numbers. */
enum value_type {
    VALUE_U8 = 0,
    VALUE_I8 = 1,
    VALUE_U16 = 2,
    VALUE_I16 = 3,
    VALUE_U32 = 4,
    VALUE_I32 = 5,
    VALUE_F32 = 6,
    VALUE_BOOL = 7,
    VALUE_STRING = 8,
    VALUE_ARRAY = 9,
    VALUE_U64 = 10,
    VALUE_I64 = 11,
    VALUE_F64 = 12
};

struct metadata {
    const char *key;
    enum value_type type;
    enum value_type element; /* of an array */
    uint64_t count;          /* of an array */
    union {
        uint64_t u;
        int64_t i;
        double f;
        bool b;
        wisp_text text;         /* terminated */
        const void *numbers;    /* elements of an array, aligned, in the machine's byte order */
        const wisp_text *texts; /* elements of an array of strings, each terminated */
    } as;
};

struct directory {
    struct arena arena;      /* owns names, texts and arrays */
    struct arena vocabulary; /* owns the texts of tokens, which a loaded model may not need */
    const char *file;        /* the name of the model in errors */
    wisp_source sources[DIRECTORY_MAX_SOURCES];
    uint32_t n_sources;
    struct tensor *tensors;
    size_t n_tensors, tensor_capacity;
    /* The tensors of the file, if some of `tensors` are assembled from them; NULL if the file
     * stores all of `tensors` as they are. */
    struct tensor *stored;
    size_t n_stored;
    struct metadata *metadata;
    size_t n_metadata, metadata_capacity;
    const struct tensor **tensors_by_name; /* sorted by directory_finish */
    const struct metadata **metadata_by_key;
    /* Of a folder with adapters of several tasks: which of them its reader merges; NULL: none. */
    const char *adapter;
    struct residency residency; /* where the weights are while the model is open */
};

/* Releases everything and closes the sources. Safe on a zeroed directory. */
void directory_release(struct directory *dir);

/* Closes the sources. Nothing can be read from them any more. */
void directory_close_sources(struct directory *dir);

/* Frees the texts of tokens: the array of them is empty from then on. */
void directory_drop_vocabulary(struct directory *dir);

/* Adds a source, which the directory owns from then on, also on failure. Sets *index to its index
 * in dir->sources. */
wisp_status directory_add_source(struct directory *dir, const wisp_source *source, uint32_t *index,
                                 wisp_error *error);

/* Add a zeroed entry at the end, which the caller fills. Adding an entry may move the others. */
wisp_status directory_add_tensor(struct directory *dir, struct tensor **added, wisp_error *error);
wisp_status directory_add_metadata(struct directory *dir, struct metadata **added,
                                   wisp_error *error);

/* Add metadata. Key and text are copied. Arrays are not copied: they must live in the arena. */
wisp_status directory_put_u32(struct directory *dir, const char *key, uint32_t value,
                              wisp_error *error);
wisp_status directory_put_f32(struct directory *dir, const char *key, float value,
                              wisp_error *error);
wisp_status directory_put_bool(struct directory *dir, const char *key, bool value,
                               wisp_error *error);
wisp_status directory_put_text(struct directory *dir, const char *key, wisp_text value,
                               wisp_error *error);
wisp_status directory_put_texts(struct directory *dir, const char *key, const wisp_text *texts,
                                uint64_t count, wisp_error *error);
wisp_status directory_put_numbers(struct directory *dir, const char *key, enum value_type element,
                                  const void *numbers, uint64_t count, wisp_error *error);

/* Sets rows, row_bytes and bytes of a tensor from its format and dims. */
wisp_status directory_measure_tensor(const struct directory *dir, struct tensor *tensor,
                                     wisp_error *error);

/* Measures a tensor and checks that its bytes are in its source. Readers of all formats call it. */
wisp_status directory_check_tensor(const struct directory *dir, struct tensor *tensor,
                                   wisp_error *error);

/* Copies the tensors to dir->stored, before some of them are replaced by tensors that are made from
 * them. Does nothing if that was done already. */
wisp_status directory_keep_stored(struct directory *dir, wisp_error *error);

/* Removes all metadata whose keys begin with `prefix`. directory_finish must follow. */
void directory_drop_metadata(struct directory *dir, const char *prefix);

/* Sorts names and keys for the find functions. A repeated name or key is a format error. Must be
 * called again when entries were added or removed. */
wisp_status directory_finish(struct directory *dir, wisp_error *error);

/* Find an entry by its name; NULL if it is absent. directory_finish must have been called. */
const struct tensor *directory_find_tensor(const struct directory *dir, const char *name);
const struct metadata *directory_find_metadata(const struct directory *dir, const char *key);

/* Finds a tensor that must exist with these dims and a type that can be read. `dim1` is 1 for a
 * vector. */
wisp_status directory_require_tensor(const struct directory *dir, const char *name, uint64_t dim0,
                                     uint64_t dim1, const struct tensor **found, wisp_error *error);

/* Does so for a tensor that stacks `count` matrices of these dims. */
wisp_status directory_require_matrices(const struct directory *dir, const char *name, uint64_t dim0,
                                       uint64_t dim1, uint64_t count, const struct tensor **found,
                                       wisp_error *error);

/* Read a metadata value. A value of another type is a format error; integers of any width are
 * accepted if the value fits, and so are arrays whose integers are all the same. When the key is
 * absent, the `_or` functions leave *value unchanged and the others return WISP_ERROR_NOT_FOUND. */
wisp_status metadata_u32(const struct directory *dir, const char *key, uint32_t *value,
                         wisp_error *error);
wisp_status metadata_u32_or(const struct directory *dir, const char *key, uint32_t *value,
                            wisp_error *error);
wisp_status metadata_f32(const struct directory *dir, const char *key, float *value,
                         wisp_error *error);
wisp_status metadata_f32_or(const struct directory *dir, const char *key, float *value,
                            wisp_error *error);
wisp_status metadata_bool_or(const struct directory *dir, const char *key, bool *value,
                             wisp_error *error);
wisp_status metadata_text(const struct directory *dir, const char *key, const char **value,
                          wisp_error *error);
wisp_status metadata_text_or(const struct directory *dir, const char *key, const char **value,
                             wisp_error *error);

/* Returns whether an entry is an array of integers, or of bools. */
bool metadata_is_integers(const struct metadata *entry);

/* Gives element i of an array of integers. Returns false if the array has another type, or the
 * integer does not fit. */
bool metadata_array_i64(const struct metadata *array, uint64_t i, int64_t *value);

/* Writes a value as text, an array as its type and length: "i32[12]". Cuts text that is longer than
 * `capacity`, the terminator included. */
void metadata_format(const struct metadata *entry, char *text, size_t capacity);

/* Returns the bytes of a value of the type; 0 for strings, arrays and unknown types. */
size_t value_type_bytes(enum value_type type);
const char *value_type_name(enum value_type type);

/* Reads rows [first, first + rows) of a tensor as they are stored and points *bytes to them: in the
 * source if that is in memory, else in `buffer`, which must have room for the rows. `cache` may
 * be NULL: then the bytes that a tensor is assembled from are read again. */
wisp_status directory_rows(const struct directory *dir, const struct tensor *tensor, uint64_t first,
                           uint64_t rows, struct tensor_cache *cache, void *buffer,
                           const void **bytes, wisp_error *error);

/* Converts rows that directory_rows has read to `values`. The tensor's type must be one that can be
 * read. A value that is not finite is a format error, because nobody would notice it in an
 * embedding. */
wisp_status directory_expand(const struct directory *dir, const struct tensor *tensor,
                             uint64_t first, uint64_t rows, const void *bytes, float *values,
                             wisp_error *error);

/* Reads rows and converts them: directory_rows, then directory_expand. */
wisp_status directory_floats(const struct directory *dir, const struct tensor *tensor,
                             uint64_t first, uint64_t rows, struct tensor_cache *cache,
                             void *buffer, float *values, wisp_error *error);

void tensor_cache_release(struct tensor_cache *cache);

/* Copies bytes [offset, offset + length) of a source, which has them, to `buffer`. Fails with
 * WISP_ERROR_IO if they cannot be read or have changed; `field` (may be NULL) is what they
 * belong to. */
wisp_status source_read(const wisp_source *source, const char *field, uint64_t offset, void *buffer,
                        size_t length, wisp_error *error);

/* Returns whether none of n values is NaN or infinite. */
bool all_finite(const float *values, size_t n);

/* Reads a whole tensor [rows, row_length] as floats. The caller releases *values with memory_free,
 * also on failure, so it sets *values to NULL before. */
wisp_status directory_load_floats(const struct directory *dir, const char *name, size_t rows,
                                  size_t row_length, float **values, wisp_error *error);

#endif
