/* SPDX-License-Identifier: Apache-2.0
 * Reference results: those in ../shared, and small ones in tests/data. */
#ifndef WISP_TESTS_GOLDEN_H
#define WISP_TESTS_GOLDEN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"
#include "wisp.h"

enum { GOLDEN_PATH_BYTES = 1024 };

/* The shared folder (environment variable WISP_SHARED, else ../shared) joined with `name`. */
const char *shared_path(const char *name, char path[GOLDEN_PATH_BYTES]);

/* False, after printing why, where there is no shared folder. In CI that is a failure. */
bool shared_is_there(void);

/* A path in tests/data (environment variable WISP_TEST_DATA, else tests/data). */
const char *data_path(const char *name, char path[GOLDEN_PATH_BYTES]);

/* A whole file, terminated, to be freed; fails the test where it cannot be read. */
void *read_file(const char *path, size_t *length);

/* A JSON file's root, in `arena`; its text is the caller's to free after the tree is done with. */
const struct json *read_json_file(const char *path, struct arena *arena, char **text);

/* The texts of a JSON array of strings. */
wisp_text *texts_of_json(const struct json *array, size_t *n);

/* Opens a model or fails the test with the error's message. */
wisp_model *open_model_or_fail(const char *path, wisp_compute compute, const char *kernels);

wisp_session *open_session_or_fail(const wisp_model *model, uint32_t threads);

/* Cosine of two rows. */
double cosine(const float *a, const float *b, size_t n);

#endif
