/* SPDX-License-Identifier: Apache-2.0
 * Where the weights of an open model are: in memory, in the file, or absent until someone brings
 * them. It is one value for each model, which residency_set (engine/residency.c) computes from what
 * the source promises and what the caller wants. docs/internals.md has its table. All zeros is
 * the residency of a model whose weights are all loaded. */
#ifndef WISP_FORMATS_RESIDENCY_H
#define WISP_FORMATS_RESIDENCY_H

#include "wisp.h"

struct residency {
    bool in_memory;     /* nothing is read after opening */
    bool lacks_rows;    /* cold rows, of neurons or tokens, are absent until someone brings them */
    bool lacks_neurons; /* some of these rows are neurons' */
    bool in_frames;     /* cold neurons are kept in frames of memory, which are limited from the
                           opening on; else in pages, which wisp_model_limit_memory limits */
    bool may_rest;      /* weights may rest in the file while memory is limited (models/rest.h) */
    bool drops_texts;   /* the texts of tokens are freed once the tokenizer has its own */
};

/* A WebAssembly module has no source from which bytes come again, and never gives memory back:
 * cold rows have frames there, which are used again, and weights do not rest. */
#ifdef __wasm__
enum { SOURCES_READ_AGAIN = 0, ALWAYS_IN_FRAMES = 1, WEIGHTS_MAY_REST = 0 };
#else
enum { SOURCES_READ_AGAIN = 1, ALWAYS_IN_FRAMES = 0, WEIGHTS_MAY_REST = 1 };
#endif

/* Returns whether all bytes that a session has taken can be read from the source again: it has all
 * of them, or keeps those that were provided. */
static inline bool source_reads_again(const wisp_source *source) {
    return SOURCES_READ_AGAIN && source->lasting && (source->available == 0 || source->keeps);
}

/* Where rows of token embeddings are. */
enum rows_place {
    ROWS_IN_SOURCE, /* in the source's memory */
    ROWS_READ,      /* in the source: each is read when a text needs it */
    ROWS_COPIED,    /* in memory, read when the model opens */
    ROWS_BROUGHT,   /* absent; those that were brought stay in memory */
    ROWS_KEPT       /* absent; those that were brought are in the source, which keeps them */
};

/* Returns the place of rows of a source. */
static inline enum rows_place residency_rows(const struct residency *residency,
                                             const wisp_source *source, bool cold) {
    const bool stays = source->lasting && !residency->in_memory;
    if (cold && residency->lacks_rows && (source->available > 0 || !stays))
        return stays && source_reads_again(source) ? ROWS_KEPT : ROWS_BROUGHT;
    if (source->data && !residency->in_memory)
        return ROWS_IN_SOURCE;
    return stays ? ROWS_READ : ROWS_COPIED;
}

#endif
