/* SPDX-License-Identifier: Apache-2.0 */
#include "host/file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"

static wisp_status fail_errno(wisp_error *error, const char *path, const char *what) {
    const int code = errno;
    const wisp_status status = code == ENOENT   ? WISP_ERROR_NOT_FOUND
                               : code == ENOMEM ? WISP_ERROR_MEMORY
                                                : WISP_ERROR_IO;
    /* glibc and musl give each thread its own text. */
    return fail(error, status, path, NULL, "cannot %s: %s", what, strerror(code));
}

static wisp_status map_descriptor(int descriptor, const char *path, struct mapped_file *file,
                                  wisp_error *error) {
    struct stat info;
    if (fstat(descriptor, &info) != 0)
        return fail_errno(error, path, "stat");
    if (!S_ISREG(info.st_mode))
        return fail(error, WISP_ERROR_IO, path, NULL, "not a regular file");
    size_t length;
    if (info.st_size < 0 || !checked_size((uint64_t)info.st_size, &length))
        return fail(error, WISP_ERROR_IO, path, NULL, "too large to map");
    *file = (struct mapped_file){.data = NULL, .size = length};
    if (length == 0)
        return WISP_OK;
    void *data = mmap(NULL, length, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (data == MAP_FAILED)
        return fail_errno(error, path, "map");
    file->data = data;
    return WISP_OK;
}

wisp_status file_map(const char *path, struct mapped_file *file, wisp_error *error) {
    /* Opening a FIFO for reading waits for a writer unless told not to. */
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        return fail_errno(error, path, "open");
    const wisp_status status = map_descriptor(descriptor, path, file, error);
    close(descriptor);
    return status;
}

void file_unmap(struct mapped_file *file) {
    if (file->data)
        munmap((void *)(uintptr_t)file->data, (size_t)file->size);
    *file = (struct mapped_file){0};
}

bool file_exists(const char *path) {
    return access(path, F_OK) == 0;
}

bool file_is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

wisp_status file_join(const char *folder, const char *name, char *path, size_t capacity,
                      wisp_error *error) {
    const int length = snprintf(path, capacity, "%s/%s", folder, name);
    if (length < 0 || (size_t)length >= capacity)
        return fail(error, WISP_ERROR_ARGUMENT, folder, name, "the path is too long");
    return WISP_OK;
}

/* Opens a new file whose name nobody else has; -1 and errno where that fails. */
static int create_temporary(struct file_writer *writer) {
    for (unsigned attempt = 0;; attempt++) {
        const int length = snprintf(writer->temporary, sizeof writer->temporary, "%s.%ld.%u.tmp",
                                    writer->path, (long)getpid(), attempt);
        if (length < 0 || (size_t)length >= sizeof writer->temporary) {
            errno = ENAMETOOLONG;
            return -1;
        }
        const int descriptor =
            open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor >= 0 || errno != EEXIST)
            return descriptor;
    }
}

/* A rename would put the file in the place of a device such as /dev/null. */
static wisp_status check_replaceable(const char *path, wisp_error *error) {
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return fail(error, WISP_ERROR_IO, path, NULL, "exists and is not a regular file");
    return WISP_OK;
}

wisp_status file_writer_open(struct file_writer *writer, const char *path, wisp_error *error) {
    *writer = (struct file_writer){.path = path};
    TRY(check_replaceable(path, error));
    const int descriptor = create_temporary(writer);
    if (descriptor < 0)
        return fail_errno(error, path, "create a temporary file beside it");
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

/* A rename is only durable once its folder is on disk too. */
static void sync_folder_of(const char *path) {
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
    bool good = fflush(stream) == 0 && fsync(fileno(stream)) == 0;
    int code = errno;
    if (fclose(stream) != 0 && good) {
        good = false;
        code = errno;
    }
    if (good && rename(writer->temporary, writer->path) != 0) {
        good = false;
        code = errno;
    }
    if (!good) {
        unlink(writer->temporary);
        errno = code;
        return fail_errno(error, writer->path, "write");
    }
    sync_folder_of(writer->path);
    return WISP_OK;
}

void file_writer_discard(struct file_writer *writer) {
    if (!writer->stream)
        return;
    fclose(writer->stream);
    writer->stream = NULL;
    unlink(writer->temporary);
}
