/* SPDX-License-Identifier: Apache-2.0
 * Names of models in several files, as llama-gguf-split gives them: NAME-00001-of-00003.gguf. */
#ifndef WISP_HOST_PART_NAMES_H
#define WISP_HOST_PART_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MOST_PARTS = 256 }; /* of a model: as many as a directory has sources */

struct part_name {
    size_t at;            /* where the number of the part is in the name */
    uint32_t part, count; /* from 1 */
};

/* Reads which file of how many the first `length` characters of a name say it is. Returns false if
 * they say nothing of it. */
bool part_name_read(const char *name, size_t length, struct part_name *found);

/* Makes a name that was read that of another file of the same model. */
void part_name_set(char *name, const struct part_name *found, uint32_t part);

#endif
