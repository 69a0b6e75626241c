/* SPDX-License-Identifier: Apache-2.0
 * The cache of huggingface_hub on disk, shared with it and with other processes, as in
 * js/hub/hub-cache.js:
 *
 *     models--owner--name/refs/main            the commit of a branch or tag
 *     models--owner--name/snapshots/COMMIT/f   a link to
 *     models--owner--name/blobs/ETAG           the bytes
 *
 * A blob comes into being by renaming a complete file, so that no reader sees a part of one.
 * Downloads write to ETAG.wisp-PID-N.incomplete, which the next one for the same blob takes over.
 * Two processes may even write one such file at once: both write the same bytes to the same places,
 * and the hash is checked at the end. */
#ifndef WISP_HTTP_HUB_CACHE_H
#define WISP_HTTP_HUB_CACHE_H

#include <limits.h>

#include "base/arena.h"
#include "base/status.h"

enum { COMMIT_BYTES = 256 };

/* Names, and the bytes of each, or 0. */
struct hub_files {
    struct hub_file {
        const char *name;
        uint64_t bytes;
    } *all; /* [capacity] */
    uint32_t n, capacity;
    struct arena arena; /* has the names */
};

wisp_status hub_files_add(struct hub_files *files, const char *name, uint64_t bytes,
                          wisp_error *error);

void hub_files_release(struct hub_files *files);

/* A revision that is the hash of a commit, whose files never change. */
bool hub_is_commit(const char *revision);

/* Writes the folder of a repository in a cache. */
wisp_status hub_repo_folder(const char *cache, const char *repo, char path[PATH_MAX],
                            wisp_error *error);

/* Reads which commit a revision was when something was last loaded of it; "": nothing was. */
wisp_status hub_read_commit(const char *folder, const char *revision, char commit[COMMIT_BYTES],
                            wisp_error *error);

/* Notes which commit a revision is. */
wisp_status hub_write_commit(const char *folder, const char *revision, const char *commit,
                             wisp_error *error);

/* Writes the path of a file of a commit; of the commit's folder if the file is "". */
wisp_status hub_snapshot(const char *folder, const char *commit, const char *file,
                         char path[PATH_MAX], wisp_error *error);

wisp_status hub_blob(const char *folder, const char *etag, char path[PATH_MAX], wisp_error *error);

/* Lists the files of a commit that are there. */
wisp_status hub_list_snapshot(const char *folder, const char *commit, struct hub_files *files,
                              wisp_error *error);

/* Makes a file of a commit of a blob: a link; if links cannot be made, or are not wanted, the blob
 * itself if it is new, or a copy if other commits may have links to it. */
wisp_status hub_point(const char *blob, const char *path, bool links, bool is_new,
                      wisp_error *error);

/* Writes the path of a file to download a blob into: one that an ended download has left, or a new
 * one; "" while another process downloads it. */
wisp_status hub_claim(const char *folder, const char *etag, char path[PATH_MAX], wisp_error *error);

/* Says that nobody writes to a partial file any longer. */
void hub_leave(const char *path);

#endif
