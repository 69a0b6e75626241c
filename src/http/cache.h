/* SPDX-License-Identifier: Apache-2.0
 * Files of servers, kept on disk: in $WISP_CACHE, else $XDG_CACHE_HOME/wisp, else ~/.cache/wisp.
 *
 * A file is known by its URL and its state, what the server says to tell its versions apart. In the
 * cache's folder "http", HASH being that of the URL and STATE that of the state, stand
 *
 *     HASH.url         the URL, and the state that the server gave it last
 *     HASH-STATE.gguf  the whole file
 *     HASH-STATE.part  a file of which blocks of 4 KiB are there, the others are holes
 *     HASH-STATE.have  a checksum for each block, which is 0 if the block is absent
 *     HASH.lock        is locked by the process that fetches the whole file
 *     HASH.use         is locked by all processes that use the file; its time is that of the last
 *
 * All files together have at most WISP_CACHE_BYTES (default: 16G), but for those in use: opening
 * a model deletes those of the URLs that were used longest ago. A file that is larger by itself
 * makes no other go. It stays until another model is opened.
 *
 * A block is used only if its checksum is right. So it does not matter when a process ends or
 * the power fails: what was not yet written is fetched again. Any number of processes may write
 * blocks to one file, since they write the same bytes. A process has a shared lock on the .part
 * while it writes blocks, and an exclusive one while it renames or deletes it. */
#ifndef WISP_HTTP_CACHE_H
#define WISP_HTTP_CACHE_H

#include <limits.h>

#include "http/cache_names.h"

enum { CACHE_BLOCK_BYTES = 4096 };

struct cached_file {
    const char *url, *name;   /* borrowed; the name is for errors, and has no query */
    char stem[PATH_MAX];      /* folder and hash of the URL */
    char path[PATH_MAX + 64]; /* of the whole file in this state */
    struct file_state state;  /* at first that which the server gave last */
    int lock, data, table;    /* descriptors; -1: not open */
    int use;
    bool whole;               /* `data` is the whole file, and `table` is not open */
    unsigned char *checked;   /* a bit for each block whose checksum was right */
    char part[PATH_MAX + 64]; /* the paths of data and table until the file is whole */
    char checks[PATH_MAX + 64];
};

/* Calls `visit` for each file of the cache, with the bytes that it takes on the disk and the time
 * of its last use in seconds since 1970. Fails with WISP_ERROR_ARGUMENT as cache_folder does. */
wisp_status cache_visit(void (*visit)(void *context, const char *url, uint64_t bytes, int64_t used),
                        void *context, wisp_error *error);

/* Deletes the files whose URL is this one, but for a query. Adds the bytes that are free now to
 * *freed. Fails with WISP_ERROR_IO if one is in use. */
wisp_status cache_remove(const char *url, uint64_t *freed, wisp_error *error);

/* Finds what the cache knows of a URL, and makes its folder. `url` and `name` have to outlive the
 * file. Fails with WISP_ERROR_IO if the folder cannot be made, and WISP_ERROR_ARGUMENT if no
 * variable of the environment says where it is. The caller calls cached_file_close, also after a
 * failure. */
wisp_status cached_file_open(struct cached_file *file, const char *url, const char *name,
                             wisp_error *error);

void cached_file_close(struct cached_file *file);

/* Locks the file's entry, so that no process deletes it, until the file is closed. */
void cached_file_use(struct cached_file *file);

/* Makes the lock last until the process ends: its model is read from the whole file. */
void cached_file_keep_in_use(struct cached_file *file);

/* Deletes entries that nobody uses: those that are larger than the bound by themselves, and of the
 * others the least recently used first, until these keep the bound.
 * Fails with WISP_ERROR_ARGUMENT if WISP_CACHE_BYTES is not a number of bytes. */
wisp_status cached_file_make_room(const struct cached_file *file, wisp_error *error);

/* Takes over what there is of this state under URLs that differ only in their signature, as
 * addresses do that are signed for an hour, and deletes their entries. Does nothing if the state
 * has no validator. */
void cached_file_take_over(const struct cached_file *file, const struct file_state *state);

/* Returns whether the whole file of file->state is at file->path. */
bool cached_file_is_whole(const struct cached_file *file);

/* Waits until no other process fetches the whole file, and keeps others from it until the file is
 * closed. `cancelled` is asked meanwhile; if it returns true the call fails with
 * WISP_ERROR_CANCELLED. */
wisp_status cached_file_lock(struct cached_file *file, bool (*cancelled)(void), wisp_error *error);

/* Opens the blocks of a state of the file. A state without a validator tells nothing: with `anew`
 * blocks that are there for it are deleted. */
wisp_status cached_file_enter(struct cached_file *file, const struct file_state *state, bool anew,
                              wisp_error *error);

/* Remembers the state that was entered, because it has turned out to be a model, and deletes the
 * files of all others; whoever has them open keeps them. */
wisp_status cached_file_adopt(struct cached_file *file, wisp_error *error);

/* Finds the first bytes of [start, end) that are absent: *absent becomes whole blocks, up to the
 * next that is there, or has length 0 if none is absent. Fails with WISP_ERROR_IO. */
wisp_status cached_file_absent(struct cached_file *file, uint64_t start, uint64_t end,
                               wisp_range *absent, wisp_error *error);

/* Stores `length` bytes that begin at `offset`: whole blocks, the file's last perhaps shorter. */
wisp_status cached_file_write(struct cached_file *file, uint64_t offset, const void *bytes,
                              size_t length, wisp_error *error);

/* Makes the blocks that hold bytes before `end` absent, if the file is not whole. */
void cached_file_forget(struct cached_file *file, uint64_t end);

/* Reads bytes that are present. Returns false if it cannot. */
bool cached_file_read(const struct cached_file *file, uint64_t offset, void *bytes, size_t length);

/* Keeps other processes from writing blocks until the file is published, dropped or closed. */
wisp_status cached_file_hold(struct cached_file *file, wisp_error *error);

/* Syncs the file, whose blocks are all present and which is held, and gives it its name. */
wisp_status cached_file_publish(struct cached_file *file, wisp_error *error);

/* Deletes the blocks, because they are not what they should be. */
void cached_file_drop(struct cached_file *file);

#endif
