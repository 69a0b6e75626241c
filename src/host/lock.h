/* SPDX-License-Identifier: Apache-2.0
 * Locks on files that are changed by reading them and writing a new file in their place. */
#ifndef WISP_HOST_LOCK_H
#define WISP_HOST_LOCK_H

#include <stdbool.h>

#include "base/status.h"

struct file_lock {
    int descriptor; /* -1: no lock is held */
};

/* Waits until no other process has the file at `path` locked, and locks it. A file that took its
 * place meanwhile is locked instead. `stop` is asked whether to give up: WISP_ERROR_CANCELLED. A
 * file that does not exist, cannot be opened, or is in a file system without locks is not locked,
 * which is not an error: using it says why. */
wisp_status file_lock_take(struct file_lock *lock, const char *path, bool (*stop)(void),
                           wisp_error *error);

/* Does nothing if no lock is held. */
void file_lock_release(struct file_lock *lock);

#endif
