/* SPDX-License-Identifier: Apache-2.0 */
#include "http/hub_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/list.h"
#include "host/fail_errno.h"
#include "host/file.h"
#include "host/input_file.h"
#include "http/hub_names.h"

enum {
    IDLE_SECONDS = 10, /* a partial file that was not written to for so long has no writer */
    MOST_DEPTH = 8,    /* of folders in a repository */
    FOLDER_MODE = 0777 /* others may share the cache, as the user's mask says */
};

wisp_status hub_files_add(struct hub_files *files, const char *name, uint64_t bytes,
                          wisp_error *error) {
    TRY(list_grow((void *)&files->all, files->n, 1, &files->capacity, sizeof *files->all, error));
    const char *copy = arena_copy_text(&files->arena, name, strlen(name));
    if (!copy)
        return fail_memory(error, strlen(name));
    files->all[files->n++] = (struct hub_file){copy, bytes};
    return WISP_OK;
}

void hub_files_release(struct hub_files *files) {
    free(files->all);
    arena_release(&files->arena);
    *files = (struct hub_files){0};
}

bool hub_is_commit(const char *revision) {
    return strspn(revision, "0123456789abcdef") == 40 && revision[40] == '\0';
}

/* ---- names ---------------------------------------------------------------------------------- */

/* Joins two or three names to a path. */
static wisp_status join(const char *a, const char *b, const char *c, char path[PATH_MAX],
                        wisp_error *error) {
    char both[PATH_MAX];
    if (*c == '\0')
        return file_join(a, b, path, PATH_MAX, error);
    TRY(file_join(a, b, both, sizeof both, error));
    return file_join(both, c, path, PATH_MAX, error);
}

wisp_status hub_repo_folder(const char *cache, const char *repo, char path[PATH_MAX],
                            wisp_error *error) {
    char name[2 * HUB_TEXT_BYTES] = "models--";
    size_t used = strlen(name);
    for (const char *c = repo; *c; c++) {
        name[used++] = *c == '/' ? '-' : *c;
        if (*c == '/')
            name[used++] = '-';
    }
    name[used] = '\0';
    return file_join(cache, name, path, PATH_MAX, error);
}

wisp_status hub_snapshot(const char *folder, const char *commit, const char *file,
                         char path[PATH_MAX], wisp_error *error) {
    char snapshots[PATH_MAX];
    TRY(file_join(folder, "snapshots", snapshots, sizeof snapshots, error));
    return join(snapshots, commit, file, path, error);
}

wisp_status hub_blob(const char *folder, const char *etag, char path[PATH_MAX], wisp_error *error) {
    return join(folder, "blobs", etag, path, error);
}

/* Makes a number that tells apart the files that this process writes. */
static unsigned next_number(void) {
    static unsigned number;
    return ++number;
}

static wisp_status temporary_beside(const char *path, const char *kind, char temporary[PATH_MAX],
                                    wisp_error *error) {
    const int length = snprintf(temporary, PATH_MAX, "%s.wisp-%ld-%u.%s", path, (long)getpid(),
                                next_number(), kind);
    return length >= 0 && length < PATH_MAX
               ? WISP_OK
               : fail(error, WISP_ERROR_ARGUMENT, path, NULL, "the path is too long");
}

/* ---- commits -------------------------------------------------------------------------------- */

wisp_status hub_read_commit(const char *folder, const char *revision, char commit[COMMIT_BYTES],
                            wisp_error *error) {
    char path[PATH_MAX];
    struct file_bytes bytes;
    if (hub_is_commit(revision)) {
        memcpy(commit, revision, strlen(revision) + 1);
        return WISP_OK;
    }
    commit[0] = '\0';
    TRY(join(folder, "refs", revision, path, error));
    if (file_read(path, &bytes, NULL) != WISP_OK)
        return WISP_OK;
    bytes.data[bytes.size] = '\0'; /* file_read leaves room for it */
    snprintf(commit, COMMIT_BYTES, "%.*s", (int)strcspn(bytes.data, "\r\n\t "), bytes.data);
    free(bytes.data);
    if (hub_check_path(commit, "refs", NULL) != WISP_OK || strchr(commit, '/'))
        commit[0] = '\0';
    return WISP_OK;
}

wisp_status hub_write_commit(const char *folder, const char *revision, const char *commit,
                             wisp_error *error) {
    char path[PATH_MAX], known[COMMIT_BYTES];
    struct file_writer writer;
    TRY(hub_read_commit(folder, revision, known, error));
    if (strcmp(known, commit) == 0)
        return WISP_OK;
    TRY(join(folder, "refs", revision, path, error));
    TRY(file_make_folders(path, FOLDER_MODE, error));
    TRY(file_writer_open(&writer, path, error));
    const wisp_status status = file_write(&writer, commit, strlen(commit), error);
    if (status == WISP_OK)
        return file_writer_commit(&writer, error);
    file_writer_discard(&writer);
    return status;
}

/* Adds the files below a folder of a snapshot, by their names from the snapshot on. */
static wisp_status list_below(const char *path, const char *name, int depth,
                              struct hub_files *files, wisp_error *error) {
    DIR *folder = opendir(path);
    wisp_status status = WISP_OK;
    for (const struct dirent *item; folder && status == WISP_OK && (item = readdir(folder));) {
        char below[PATH_MAX], inner[PATH_MAX];
        struct stat info;
        if (item->d_name[0] == '.' || join(path, item->d_name, "", below, NULL) != WISP_OK ||
            stat(below, &info) != 0) /* also a link to a blob that is gone */
            continue;
        if (*name == '\0')
            snprintf(inner, sizeof inner, "%s", item->d_name);
        else if (join(name, item->d_name, "", inner, NULL) != WISP_OK)
            continue;
        if (S_ISDIR(info.st_mode) && depth < MOST_DEPTH)
            status = list_below(below, inner, depth + 1, files, error);
        else if (S_ISREG(info.st_mode))
            status = hub_files_add(files, inner, (uint64_t)info.st_size, error);
    }
    if (folder)
        closedir(folder);
    return status;
}

wisp_status hub_list_snapshot(const char *folder, const char *commit, struct hub_files *files,
                              wisp_error *error) {
    char path[PATH_MAX];
    TRY(hub_snapshot(folder, commit, "", path, error));
    return list_below(path, "", 0, files, error);
}

/* ---- files of commits ----------------------------------------------------------------------- */

static wisp_status copy_file(const char *from, const char *to, wisp_error *error) {
    struct file_writer writer;
    struct file_bytes bytes;
    TRY(file_read(from, &bytes, error));
    wisp_status status = file_writer_open(&writer, to, error);
    if (status == WISP_OK) {
        status = file_write(&writer, bytes.data, bytes.size, error);
        if (status == WISP_OK)
            status = file_writer_commit(&writer, error);
        else
            file_writer_discard(&writer);
    }
    free(bytes.data);
    return status;
}

/* Writes where a link at `path` leads to: from its folder up to that of the repository, and down to
 * the blob. */
static bool write_target(const char *blob, const char *path, char target[PATH_MAX]) {
    const char *name = strrchr(blob, '/') + 1; /* FOLDER/blobs/ETAG */
    const size_t folder = (size_t)(name - blob) - strlen("blobs/");
    size_t used = 0;
    for (const char *c = path + folder; (c = strchr(c, '/')) && used + 4 < PATH_MAX; c++) {
        used += (size_t)snprintf(target + used, PATH_MAX - used, "../");
    }
    const int length = snprintf(target + used, PATH_MAX - used, "blobs/%s", name);
    return length >= 0 && (size_t)length < PATH_MAX - used;
}

wisp_status hub_point(const char *blob, const char *path, bool links, bool is_new,
                      wisp_error *error) {
    char target[PATH_MAX], made[PATH_MAX];
    if (file_exists(path)) /* another process made it */
        return WISP_OK;
    TRY(file_make_folders(path, FOLDER_MODE, error));
    if (links && write_target(blob, path, target)) {
        if (symlink(target, path) == 0)
            return WISP_OK;
        if (errno == EEXIST) { /* a link of another process, or one to a blob that is gone */
            if (file_exists(path))
                return WISP_OK;
            TRY(temporary_beside(path, "incomplete", made, error));
            return symlink(target, made) == 0 && rename(made, path) == 0
                       ? WISP_OK
                       : fail_errno(error, path, "make the link of the cache");
        }
        if (errno != EPERM && errno != EACCES && errno != ENOSYS && errno != EOPNOTSUPP)
            return fail_errno(error, path, "make the link of the cache");
    }
    if (is_new)
        return rename(blob, path) == 0 ? WISP_OK : fail_errno(error, path, "name");
    return copy_file(blob, path, error);
}

/* ---- partial files -------------------------------------------------------------------------- */

/* Returns the process that writes a partial file of a blob by its name, or 0. */
static long writer_of(const char *name, const char *etag) {
    const size_t length = strlen(etag);
    static const char mark[] = ".wisp-";
    if (strncmp(name, etag, length) != 0 || strncmp(name + length, mark, strlen(mark)) != 0)
        return 0;
    char *end;
    const long process = strtol(name + length + strlen(mark), &end, 10);
    if (*end != '-')
        return 0;
    end += 1 + strspn(end + 1, "0123456789");
    return strcmp(end, ".incomplete") == 0 ? process : 0;
}

/* Returns whether a process writes to a partial file. A clock may have been set back since. */
static bool is_written(const struct stat *info, long process) {
    const double idle = difftime(time(NULL), info->st_mtime);
    const bool runs = kill((pid_t)process, 0) == 0 || errno != ESRCH;
    return fabs(idle) < (double)IDLE_SECONDS && runs;
}

wisp_status hub_claim(const char *folder, const char *etag, char path[PATH_MAX],
                      wisp_error *error) {
    char blob[PATH_MAX], blobs[PATH_MAX], other[PATH_MAX];
    TRY(hub_blob(folder, etag, blob, error));
    TRY(file_join(folder, "blobs", blobs, sizeof blobs, error));
    TRY(file_make_folders(blob, FOLDER_MODE, error));
    TRY(temporary_beside(blob, "incomplete", path, error));
    DIR *items = opendir(blobs);
    if (!items)
        return fail_errno(error, blobs, "list");
    bool taken = false, written = false;
    for (const struct dirent *item; !taken && !written && (item = readdir(items));) {
        struct stat info;
        const long process = writer_of(item->d_name, etag);
        if (process <= 0 || join(blobs, item->d_name, "", other, NULL) != WISP_OK ||
            stat(other, &info) != 0)
            continue;
        written = is_written(&info, process);
        /* Another process may be faster. */
        taken = !written && rename(other, path) == 0 && utimensat(AT_FDCWD, path, NULL, 0) == 0;
    }
    closedir(items);
    if (written) {
        path[0] = '\0';
        return WISP_OK;
    }
    const int made = taken ? -1 : open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (!taken && made < 0)
        return fail_errno(error, path, "create");
    if (made >= 0)
        close(made);
    return WISP_OK;
}

void hub_leave(const char *path) {
    const struct timespec never[2] = {{0}, {0}};
    utimensat(AT_FDCWD, path, never, 0);
}
