/* SPDX-License-Identifier: Apache-2.0
 * Python's pickles, as far as checkpoints of PyTorch need them. A pickle is a program that may call
 * any function of Python. Here it may only build values: the functions that make tensors are known
 * by name and become values, and every other call is an error. Nothing is executed.
 * Source: the descriptions of opcodes in CPython's pickletools. */
#ifndef WISP_HUGGINGFACE_PICKLE_H
#define WISP_HUGGINGFACE_PICKLE_H

#include "base/arena.h"
#include "base/status.h"

enum { PICKLE_MAX_DIMS = 4 };

enum pickle_kind {
    PICKLE_OTHER, /* a number with a fraction, a class or an object, which mean nothing here */
    PICKLE_NONE,
    PICKLE_BOOL,
    PICKLE_INTEGER,
    PICKLE_TEXT,
    PICKLE_GLOBAL, /* a class or function: `text` is "module name" */
    PICKLE_TUPLE,
    PICKLE_LIST,
    PICKLE_DICT,
    PICKLE_STORAGE,
    PICKLE_TENSOR
};

struct pickle_value;

struct pickle_items {
    struct pickle_value *values; /* of a dict: key, value, key, value, ... */
    size_t count, capacity;
};

/* The numbers that tensors are views of. */
struct pickle_storage {
    const char *class; /* FloatStorage, ... */
    const char *key;   /* the name of its bytes in the file */
    uint64_t elements;
};

struct pickle_tensor {
    const struct pickle_storage *storage;
    uint64_t offset; /* in elements */
    uint32_t n_dims;
    uint64_t sizes[PICKLE_MAX_DIMS]; /* the slowest first; elements follow each other */
};

struct pickle_value {
    enum pickle_kind kind;
    union {
        int64_t integer; /* also of a bool */
        const char *text;
        struct pickle_items *items; /* of tuples, lists and dicts */
        const struct pickle_storage *storage;
        const struct pickle_tensor *tensor;
    } as;
};

/* Reads the pickle that begins at `bytes`, sets *value and *used to its length. Values live in the
 * arena and take memory in proportion to `size`. `file` is for errors. Fails if the pickle is
 * malformed or cut, calls what is not known, or has a tensor that is not a plain array. */
wisp_status pickle_read(struct arena *arena, const void *bytes, size_t size, const char *file,
                        struct pickle_value *value, size_t *used, wisp_error *error);

#endif
