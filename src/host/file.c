/* SPDX-License-Identifier: Apache-2.0 */
#include "host/file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/fail_errno.h"

#ifdef __APPLE__
#define st_mtim st_mtimespec
#endif

/* The longest name of a file, of the file systems in use. */
enum { MOST_NAME_BYTES = 255 };

/* The answer is yes if the system does not tell: then opening the file fails and says why. */
bool file_exists(const char *path) {
    return access(path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

bool file_is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

wisp_status file_make_folders(const char *path, mode_t mode, wisp_error *error) {
    char folder[PATH_MAX + 1];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(folder, mode) != 0 && errno != EEXIST && !file_is_folder(folder))
            return fail_errno(error, folder, "make the folder of the cache");
        *slash = '/';
    }
    return WISP_OK;
}

wisp_status file_join(const char *folder, const char *name, char *path, size_t capacity,
                      wisp_error *error) {
    const int length = snprintf(path, capacity, "%s/%s", folder, name);
    if (length < 0 || (size_t)length >= capacity)
        return fail(error, WISP_ERROR_ARGUMENT, folder, name, "the path is too long");
    return WISP_OK;
}

bool file_mark(const char *path, struct file_mark *mark) {
    struct stat info;
    *mark = (struct file_mark){0};
    if (!realpath(path, mark->path) || stat(mark->path, &info) != 0)
        return false;
    mark->device = (uint64_t)info.st_dev;
    mark->inode = (uint64_t)info.st_ino;
    mark->size = (uint64_t)info.st_size;
    mark->seconds = (int64_t)info.st_mtim.tv_sec;
    mark->nanoseconds = (int64_t)info.st_mtim.tv_nsec;
    return true;
}

bool file_mark_same(const struct file_mark *a, const struct file_mark *b) {
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           a->seconds == b->seconds && a->nanoseconds == b->nanoseconds;
}

/* Returns how many bytes of a path a temporary name begins with: all of them, unless the file's
 * name and `added` bytes are longer than names may be. It cuts no character of UTF-8. */
static int kept_of_path(const char *path, size_t added) {
    const char *slash = strrchr(path, '/');
    const size_t length = strlen(path), most = MOST_NAME_BYTES - added;
    const size_t name = slash ? (size_t)(slash - path) + 1 : 0;
    size_t kept = length - name <= most ? length : name + most;
    while (kept > name && ((unsigned char)path[kept] & 0xC0) == 0x80)
        kept--;
    return (int)kept;
}

/* Creates a new file beside the target, under a name that does not exist yet. Returns its
 * descriptor, or -1 and errno. */
static int create_temporary(struct file_writer *writer) {
    for (unsigned attempt = 0;; attempt++) {
        char mark[32];
        const int added = snprintf(mark, sizeof mark, ".%ld.%u.tmp", (long)getpid(), attempt);
        snprintf(writer->temporary, sizeof writer->temporary, "%.*s%s",
                 kept_of_path(writer->target, (size_t)added), writer->target, mark);
        const int descriptor =
            open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor >= 0 || errno != EEXIST)
            return descriptor;
    }
}

/* Sets writer->target to the path with its symbolic links resolved, since a rename would replace a
 * link itself. Fails if the path is not a regular file, since a rename would replace a device such
 * as /dev/null. *replaced describes the file that exists now; its st_mode is 0 if there is none.
 */
static wisp_status find_target(struct file_writer *writer, struct stat *replaced,
                               wisp_error *error) {
    const char *path = writer->path;
    *replaced = (struct stat){0};
    if (lstat(path, replaced) != 0) {
        if (errno != ENOENT)
            return fail_errno(error, path, "look for it");
        *replaced = (struct stat){0};
        const int length = snprintf(writer->target, sizeof writer->target, "%s", path);
        if (length < 0 || (size_t)length >= sizeof writer->target)
            return fail(error, WISP_ERROR_ARGUMENT, path, NULL, "the path is too long");
        return WISP_OK;
    }
    if (stat(path, replaced) != 0)
        return fail_errno(error, path, "follow the symbolic link");
    if (!S_ISREG(replaced->st_mode))
        return fail(error, WISP_ERROR_IO, path, NULL, "exists and is not a regular file");
    return realpath(path, writer->target) ? WISP_OK : fail_errno(error, path, "resolve the path");
}

wisp_status file_writer_open(struct file_writer *writer, const char *path, wisp_error *error) {
    *writer = (struct file_writer){.path = path};
    struct stat replaced;
    TRY(find_target(writer, &replaced, error));
    const int descriptor = create_temporary(writer);
    if (descriptor < 0)
        return fail_errno(error, path, "create a temporary file beside it");
    /* The new file is as private as the old one. EPERM is not a failure: only root may give files
     * to another user. */
    if (replaced.st_mode != 0 &&
        (fchmod(descriptor, replaced.st_mode & 07777) != 0 ||
         (fchown(descriptor, replaced.st_uid, replaced.st_gid) != 0 && errno != EPERM))) {
        const wisp_status status = fail_errno(error, path, "keep the mode and owner");
        close(descriptor);
        unlink(writer->temporary);
        return status;
    }
    writer->stream = fdopen(descriptor, "wb");
    if (!writer->stream) {
        const wisp_status status = fail_errno(error, path, "open");
        close(descriptor);
        unlink(writer->temporary);
        return status;
    }
    return WISP_OK;
}

wisp_status file_write(struct file_writer *writer, const void *bytes, size_t length,
                       wisp_error *error) {
    if (length && fwrite(bytes, 1, length, writer->stream) != length)
        return fail_errno(error, writer->path, "write");
    writer->written += length;
    return WISP_OK;
}

wisp_status file_sink_write(void *writer, const void *bytes, size_t length, wisp_error *error) {
    return file_write(writer, bytes, length, error);
}

wisp_status file_write_again(struct file_writer *writer, uint64_t offset, const void *bytes,
                             size_t length, wisp_error *error) {
    FILE *stream = writer->stream;
    if (fseeko(stream, (off_t)offset, SEEK_SET) != 0 ||
        (length && fwrite(bytes, 1, length, stream) != length) || fseeko(stream, 0, SEEK_END) != 0)
        return fail_errno(error, writer->path, "write");
    return WISP_OK;
}

void file_sync_folder_of(const char *path) {
    char copy[4096];
    snprintf(copy, sizeof copy, "%s", path);
    const int folder = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) {
        fsync(folder);
        close(folder);
    }
}

wisp_status file_writer_commit(struct file_writer *writer, wisp_error *error) {
    FILE *stream = writer->stream;
    writer->stream = NULL;
    /* fclose does not report an earlier failure of a write, whose caller may have ignored it. */
    const bool failed_before = ferror(stream) != 0;
    bool good = fflush(stream) == 0 && fsync(fileno(stream)) == 0;
    int code = errno;
    if (failed_before) {
        good = false;
        code = EIO;
    }
    if (fclose(stream) != 0 && good) {
        good = false;
        code = errno;
    }
    if (good && rename(writer->temporary, writer->target) != 0) {
        good = false;
        code = errno;
    }
    if (!good) {
        unlink(writer->temporary);
        errno = code;
        return fail_errno(error, writer->path, "write");
    }
    file_sync_folder_of(writer->target);
    return WISP_OK;
}

void file_writer_discard(struct file_writer *writer) {
    if (!writer->stream)
        return;
    fclose(writer->stream);
    writer->stream = NULL;
    unlink(writer->temporary);
}

wisp_status file_check_output(const char *path, wisp_error *error) {
    struct file_writer writer = {.path = path};
    struct stat replaced;
    char copy[PATH_MAX];
    TRY(find_target(&writer, &replaced, error));
    snprintf(copy, sizeof copy, "%s", writer.target);
    if (faccessat(AT_FDCWD, dirname(copy), W_OK | X_OK, AT_EACCESS) != 0)
        return fail_errno(error, path, "write to its folder");
    return WISP_OK;
}
