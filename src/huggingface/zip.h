/* SPDX-License-Identifier: Apache-2.0
 * The members of a zip archive. Source: PKWARE's APPNOTE.TXT. */
#ifndef WISP_HUGGINGFACE_ZIP_H
#define WISP_HUGGINGFACE_ZIP_H

#include "formats/directory.h"

/* A member that is stored as it is. */
struct zip_member {
    const char *name; /* without the folder that is the first part of all names */
    uint64_t offset, bytes;
};

struct zip_archive {
    struct zip_member *members; /* [count], sorted by name */
    size_t count;
};

/* Reads the members of a source into the arena. Fails if the archive is malformed or cut, and if a
 * member is compressed or encrypted. */
wisp_status zip_read(const wisp_source *source, struct arena *arena, struct zip_archive *archive,
                     wisp_error *error);

/* Returns the member of a name, or NULL. */
const struct zip_member *zip_find(const struct zip_archive *archive, const char *name);

#endif
