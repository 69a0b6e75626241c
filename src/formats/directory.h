/* SPDX-License-Identifier: Apache-2.0
 * One checked directory of metadata and tensors, which every format is read into, with GGUF's names
 * and types whatever the file was. Every tensor's bytes are known to lie within its source. */
#ifndef WISP_FORMATS_DIRECTORY_H
#define WISP_FORMATS_DIRECTORY_H

#include "base/arena.h"
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
    /* Does the work of directory_rows for a tensor that is made of others; NULL where the bytes lie
     * in the source. The rows go to `buffer`, or stay where they are in a source in memory. */
    wisp_status (*make)(const struct directory *dir, const struct tensor *tensor, uint64_t first,
                        uint64_t rows, struct tensor_cache *cache, void *buffer, const void **bytes,
                        wisp_error *error);
    const void *maker; /* for `make` alone */
    uint64_t part;     /* likewise */
};

/* Bytes that several tensors are made of. Whoever reads these tensors one after the other owns the
 * cache, so that the bytes are read once for all of them; it starts as zeros, serves one thread and
 * is released by tensor_cache_release. */
struct tensor_cache {
    const void *owner; /* the maker whose bytes these are; NULL: there are none */
    void *bytes;
};

/* GGUF's numbers. */
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
        wisp_text text;         /* also terminated */
        const void *numbers;    /* an array's elements as in the file, little-endian */
        const wisp_text *texts; /* an array of strings, each also terminated */
    } as;
};

struct directory {
    struct arena arena; /* holds everything below */
    const char *file;   /* names the whole in errors */
    wisp_source sources[DIRECTORY_MAX_SOURCES];
    uint32_t n_sources;
    struct tensor *tensors;
    size_t n_tensors, tensor_capacity;
    struct tensor *stored; /* the file's own, where tensors are made of them; else NULL */
    size_t n_stored;
    struct metadata *metadata;
    size_t n_metadata, metadata_capacity;
    const struct tensor **tensors_by_name; /* sorted by directory_finish */
    const struct metadata **metadata_by_key;
};

/* Releases everything and closes the sources. Safe on a zeroed directory. */
void directory_release(struct directory *dir);

/* Takes over `source`; sets *index to its place. */
wisp_status directory_add_source(struct directory *dir, const wisp_source *source, uint32_t *index,
                                 wisp_error *error);

/* A new entry at the end, for the caller to fill. Entries move when more are added. */
wisp_status directory_add_tensor(struct directory *dir, struct tensor **added, wisp_error *error);
wisp_status directory_add_metadata(struct directory *dir, struct metadata **added,
                                   wisp_error *error);

/* New entries with a value; text is copied, arrays (which live in the arena) are not. */
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

/* Sets rows, row_bytes and bytes from format and dims. */
wisp_status directory_measure_tensor(const struct directory *dir, struct tensor *tensor,
                                     wisp_error *error);

/* Measures the tensor and checks that its bytes lie in the source: the checks every format shares.
 */
wisp_status directory_check_tensor(const struct directory *dir, struct tensor *tensor,
                                   wisp_error *error);

/* Takes away the metadata whose keys begin with `prefix`. directory_finish must follow. */
void directory_drop_metadata(struct directory *dir, const char *prefix);

/* Sorts the names; a repeated tensor name or key is a format error. To be called again after
 * entries were added. */
wisp_status directory_finish(struct directory *dir, wisp_error *error);

/* Entries by name; NULL where absent. After directory_finish. */
const struct tensor *directory_find_tensor(const struct directory *dir, const char *name);
const struct metadata *directory_find_metadata(const struct directory *dir, const char *key);

/* A tensor that must be there with these dims (dims[1] = 1 for a vector). */
wisp_status directory_require_tensor(const struct directory *dir, const char *name, uint64_t dim0,
                                     uint64_t dim1, const struct tensor **found, wisp_error *error);

/* Typed metadata. A key of another type is a format error; integers of any width are accepted
 * where the value fits. `_or` versions leave *value as it is when the key is absent; the others
 * return WISP_ERROR_NOT_FOUND. */
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

/* Element i of an array of integers; false where it is none or does not fit. */
bool metadata_array_i64(const struct metadata *array, uint64_t i, int64_t *value);

/* The value as text: arrays as their type and length. Cut to `capacity` with its terminator. */
void metadata_format(const struct metadata *entry, char *text, size_t capacity);

/* Bytes of one element of a fixed-size type; 0 for strings, arrays and unknown types. */
size_t value_type_bytes(enum value_type type);
const char *value_type_name(enum value_type type);

/* Rows [first, first + rows) of the tensor, as they are stored. `buffer` has room for them, and
 * holds them unless they can be used in place, in a source in memory; *bytes points to them either
 * way. `cache` may be NULL: then a tensor that is made of others is made of them anew. */
wisp_status directory_rows(const struct directory *dir, const struct tensor *tensor, uint64_t first,
                           uint64_t rows, struct tensor_cache *cache, void *buffer,
                           const void **bytes, wisp_error *error);

/* These rows as floats, of a type that can be read. Values that are not finite are a format error:
 * what is computed from them would look like any other result. */
wisp_status directory_floats(const struct directory *dir, const struct tensor *tensor,
                             uint64_t first, uint64_t rows, struct tensor_cache *cache,
                             void *buffer, float *values, wisp_error *error);

void tensor_cache_release(struct tensor_cache *cache);

/* Whether none of n values is NaN or infinite. */
bool all_finite(const float *values, size_t n);

/* A tensor of rows x row_length values as floats, in memory of its own (memory_free). */
wisp_status directory_load_floats(const struct directory *dir, const char *name, size_t rows,
                                  size_t row_length, float **values, wisp_error *error);

#endif
