/* SPDX-License-Identifier: Apache-2.0
 * Opening models that may be malformed, in every way there is, under the promises that hold for
 * all of them: a typed error that names its file and field, nothing leaked, no allocation much
 * larger than the file, and a model that opens also embeds, or generates.
 *
 * Cases are numbered by what is wrong.
 * GGUF: 1 cut short; 2-4 magic and version; 5-7 counts; 8, 9 keys empty or repeated; 10 lengths of
 * texts; 11-13 types and lengths of values and arrays; 14, 15 alignment; 16-22 dimensions and
 * sizes; 23 tensor types; 24-26 offsets and where data ends; 27 a tensor twice; 28 very many of
 * anything; 29 a key of the wrong type; 30-32 the vocabulary; 33 hyper-parameters; 34 tensors that
 * do not fit them; 35 values that are not finite. Folders: 36-39 safetensors header, spans, shapes,
 * offsets; 40 JSON; 41 tokenizer.json. */
#ifndef TESTS_OPENING_H
#define TESTS_OPENING_H

#include "support/builder.h"
#include "wisp.h"

/* The outcome of opening a model or, if that succeeds, of using it. */
struct opening {
    wisp_status status;
    wisp_error error;
};

/* Opens a model in memory. The bytes are copied to the end of an allocation, so that sanitizers see
 * reads beyond them. */
struct opening open_data(const void *data, size_t size);

/* Opens such a model through a `read` callback. */
struct opening open_read(const void *data, size_t size);

/* Opens a source of any kind. Allocations are compared with `size`. */
struct opening open_source(const wisp_source *source, uint64_t size);

/* Opens a file or folder; `size` is the size of all its files. */
struct opening open_path(const char *path, uint64_t size);

/* Opens the file or folder with each allocation refused in turn: an error of memory, and nothing
 * leaks. */
void expect_memory_errors(const char *path);

/* Writes a file. A relative path is inside the test's temporary folder. */
void write_file(const char *path, const void *data, size_t size);

/* Writes a made file, releases it, and returns its path, which is valid as temporary_path says. */
const char *write_made(struct gguf *file, const char *name);

/* Does the same with the tiny model of this shape. */
const char *write_tiny(const struct tiny_shape *shape, const char *name);

/* Creates a folder. */
void make_folder(const char *path);

/* Returns the path of `name` in the test's temporary folder, which is created by the first call.
 * The string is valid for the next three calls. */
const char *temporary_path(const char *name);

/* Removes the temporary folder with its contents. */
void remove_temporary_folder(void);

/* Does the same after a group of tests. For cmocka, which wants these types. */
int tear_down_temporary_folder(void **state);

/* Opens the file in all three ways, which must agree. Checks status and field (NULL: any), and that
 * the message contains `says` (NULL: anything). */
void expect_opening(const struct bytes *file, wisp_status status, const char *field,
                    const char *says);

/* Fails the test unless the outcome is the expected one. */
void expect_outcome(const struct opening *opening, wisp_status status, const char *field,
                    const char *says);

/* Returns whether a malformed file may have this outcome: the model opens, or the error has a
 * fitting status. */
void expect_typed(const struct opening *opening);

#endif
