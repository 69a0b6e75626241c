/* SPDX-License-Identifier: Apache-2.0
 * Reads reference results: those in ../shared, and small ones in tests/data. */
#ifndef WISP_TESTS_GOLDEN_H
#define WISP_TESTS_GOLDEN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"
#include "wisp.h"

enum { GOLDEN_PATH_BYTES = 1024 };

/* Joins the shared folder (environment variable WISP_SHARED, else ../shared) with `name`. */
const char *shared_path(const char *name, char path[GOLDEN_PATH_BYTES]);

/* Returns false, after printing why, if there is no shared folder. In CI that is a failure. */
bool shared_is_there(void);

/* Joins tests/data (environment variable WISP_TEST_DATA, else tests/data) with `name`. */
const char *data_path(const char *name, char path[GOLDEN_PATH_BYTES]);

/* Reads a whole file and terminates it. The caller frees it. Fails the test if it cannot be
 * read. */
void *read_file(const char *path, size_t *length);

/* Fails the test unless the files have the same bytes. */
void expect_same_files(const char *a, const char *b);

/* Reads a file of floats, and sets *count to their number. Otherwise as read_file. */
float *read_floats(const char *path, size_t *count);

/* Returns the root of a JSON file, in `arena`. The caller frees *text, its characters, when the
 * tree is no longer used. */
const struct json *read_json_file(const char *path, struct arena *arena, char **text);

/* Returns the texts of a JSON array of strings. */
wisp_text *texts_of_json(const struct json *array, size_t *n);

/* Opens a model or fails the test with the error's message. */
wisp_model *open_model_or_fail(const char *path, wisp_compute compute, const char *kernels);

/* Returns whether a kernel set computes in bf16 here. */
bool computes_bf16(const char *kernels);

/* Returns the name of what AUTO is here for models that embed and whose weights are floats. */
const char *compute_of_floats(void);

/* Converts a model of tests/data to a file, whose name replaces the template, as mkstemp does.
 * Fails the test with the error's message. `options` may be NULL. */
void convert_data_or_fail(const char *name, const wisp_convert_options *options, char *file);

/* How models of tests/data are compared with the golden.json in their folders: `worst` returns the
 * largest difference of the opened model, of which f32 and int8 allow so much. */
struct golden_check {
    double (*worst)(const char *path, const struct json *golden, wisp_compute compute,
                    const char *kernels);
    double f32, int8;
};

/* Checks models[i], i < n, on every kernel set: the folders, or files that they are converted to.
 */
void check_golden_folders(const struct golden_check *check, const char *const *models, size_t n);
void check_golden_files(const struct golden_check *check, const char *const *models, size_t n);

wisp_session *open_session_or_fail(const wisp_model *model, uint32_t threads);

/* Returns the cosine of two rows. */
double cosine(const float *a, const float *b, size_t n);

#endif
