/* SPDX-License-Identifier: Apache-2.0 */
#include "host/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_at(int descriptor, const char *path) {
    struct stat locked, present;
    return fstat(descriptor, &locked) == 0 && stat(path, &present) == 0 &&
           locked.st_dev == present.st_dev && locked.st_ino == present.st_ino;
}

wisp_status file_lock_take(struct file_lock *lock, const char *path, bool (*stop)(void),
                           wisp_error *error) {
    for (;;) {
        lock->descriptor = open(path, O_RDONLY | O_CLOEXEC);
        if (lock->descriptor < 0)
            return WISP_OK;
        while (flock(lock->descriptor, LOCK_EX) != 0) {
            if (errno == EINTR && !stop())
                continue;
            const bool interrupted = errno == EINTR;
            file_lock_release(lock);
            return interrupted ? fail(error, WISP_ERROR_CANCELLED, NULL, NULL, "cancelled")
                               : WISP_OK;
        }
        if (is_at(lock->descriptor, path))
            return WISP_OK;
        file_lock_release(lock); /* of a file that was replaced while this process waited */
        if (stop())
            return fail(error, WISP_ERROR_CANCELLED, NULL, NULL, "cancelled");
    }
}

void file_lock_release(struct file_lock *lock) {
    if (lock->descriptor >= 0)
        close(lock->descriptor);
    lock->descriptor = -1;
}
