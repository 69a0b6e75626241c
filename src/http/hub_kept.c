/* SPDX-License-Identifier: Apache-2.0 */
#include "http/hub_kept.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/file.h"
#include "host/part_names.h"
#include "http/hub_cache.h"
#include "http/hub_choose.h"
#include "http/hub_settings.h"

/* Lists the names in a folder. */
static wisp_status list_names(const char *path, struct hub_files *names, wisp_error *error) {
    DIR *folder = opendir(path);
    wisp_status status = WISP_OK;
    for (const struct dirent *item; folder && status == WISP_OK && (item = readdir(folder));)
        if (item->d_name[0] != '.')
            status = hub_files_add(names, item->d_name, 0, error);
    if (folder)
        closedir(folder);
    return status;
}

static wisp_status list_commits(const char *folder, struct hub_files *commits, wisp_error *error) {
    char path[PATH_MAX];
    TRY(file_join(folder, "snapshots", path, sizeof path, error));
    return list_names(path, commits, error);
}

/* ---- the list ------------------------------------------------------------------------------- */

struct visitor {
    void (*visit)(void *context, const struct hub_kept *kept);
    void *context;
};

static int64_t last_use(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0)
        return 0;
    return info.st_atime > info.st_mtime ? info.st_atime : info.st_mtime;
}

/* Returns whether two files are the same one, or belong to one model in parts. */
static bool is_same_model(const char *a, const char *b) {
    struct part_name first, second;
    const size_t length = strlen(a);
    if (strcmp(a, b) == 0)
        return true;
    return strlen(b) == length && part_name_read(a, length, &first) &&
           part_name_read(b, length, &second) && first.count == second.count &&
           strncmp(a, b, first.at) == 0;
}

/* Returns whether the file is another part of a model whose first is there. */
static bool is_later_part(const struct hub_files *files, const char *name) {
    struct part_name part;
    if (!part_name_read(name, strlen(name), &part) || part.part == 1)
        return false;
    for (uint32_t i = 0; i < files->n; i++) {
        const char *other = files->all[i].name;
        struct part_name first;
        if (is_same_model(name, other) && part_name_read(other, strlen(other), &first) &&
            first.part == 1)
            return true;
    }
    return false;
}

/* Returns the bytes of a model of which this is the first file. */
static uint64_t bytes_of_model(const struct hub_files *files, const char *name) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < files->n; i++)
        if (is_same_model(name, files->all[i].name))
            bytes += files->all[i].bytes;
    return bytes;
}

/* Visits the models of one commit. `name` is that of the repository, with its revision. */
static wisp_status visit_commit(const struct visitor *visitor, const char *folder,
                                const char *commit, const char *name, wisp_error *error) {
    struct hub_files files = {0};
    char path[PATH_MAX], full[PATH_MAX];
    struct hub_kept rest = {.name = name, .path = path};
    wisp_status status = hub_list_snapshot(folder, commit, &files, error);
    for (uint32_t i = 0; i < files.n && status == WISP_OK; i++) {
        const struct hub_file *file = &files.all[i];
        status = hub_snapshot(folder, commit, file->name, path, error);
        const int64_t used = status == WISP_OK ? last_use(path) : 0;
        if (is_later_part(&files, file->name))
            continue;
        if (hub_is_gguf(file->name) && snprintf(full, sizeof full, "%s/%s", name, file->name) > 0)
            visitor->visit(
                visitor->context,
                &(struct hub_kept){full, path, bytes_of_model(&files, file->name), used});
        else
            rest.bytes += file->bytes;
        rest.used = used > rest.used ? used : rest.used;
    }
    if (status == WISP_OK && hub_has_weights(&files)) {
        status = hub_snapshot(folder, commit, "", path, error);
        visitor->visit(visitor->context, &rest);
    }
    hub_files_release(&files);
    return status;
}

static wisp_status visit_repo(const struct visitor *visitor, const char *folder, const char *repo,
                              wisp_error *error) {
    struct hub_files commits = {0};
    char current[COMMIT_BYTES], name[2 * HUB_TEXT_BYTES];
    wisp_status status = hub_read_commit(folder, "main", current, error);
    if (status == WISP_OK)
        status = list_commits(folder, &commits, error);
    for (uint32_t i = 0; i < commits.n && status == WISP_OK; i++) {
        const char *commit = commits.all[i].name;
        const bool is_main = strcmp(commit, current) == 0;
        snprintf(name, sizeof name, "hf:%s%s%s", repo, is_main ? "" : "@", is_main ? "" : commit);
        status = visit_commit(visitor, folder, commit, name, error);
    }
    hub_files_release(&commits);
    return status;
}

wisp_status hub_visit_kept(void (*visit)(void *context, const struct hub_kept *kept), void *context,
                           wisp_error *error) {
    static const char prefix[] = "models--";
    const struct visitor visitor = {visit, context};
    struct hub_files repos = {0};
    char cache[PATH_MAX], folder[PATH_MAX], repo[HUB_TEXT_BYTES];
    TRY(hub_cache_folder(cache, error));
    wisp_status status = list_names(cache, &repos, error);
    for (uint32_t i = 0; i < repos.n && status == WISP_OK; i++) {
        const char *name = repos.all[i].name, *owner = name + strlen(prefix);
        const char *marks = strncmp(name, prefix, strlen(prefix)) == 0 ? strstr(owner, "--") : NULL;
        if (!marks)
            continue;
        snprintf(repo, sizeof repo, "%.*s/%s", (int)(marks - owner), owner, marks + 2);
        status = file_join(cache, name, folder, sizeof folder, error);
        if (status == WISP_OK)
            status = visit_repo(&visitor, folder, repo, error);
    }
    hub_files_release(&repos);
    return status;
}

/* ---- removal -------------------------------------------------------------------------------- */

/* Returns what a path is within a folder, without links; NULL if it is elsewhere, as through a link
 * of the user's. */
static const char *path_within(const char *folder, const char *path, char real[PATH_MAX]) {
    char own[PATH_MAX];
    if (!realpath(folder, own) || !realpath(path, real))
        return NULL;
    const size_t length = strlen(own);
    return strncmp(real, own, length) == 0 && real[length] == '/' ? real + length + 1 : NULL;
}

/* Returns whether the folder of a file in a snapshot is the repository's own. */
static bool is_own(const char *folder, const char *path) {
    char parent[PATH_MAX], real[PATH_MAX];
    snprintf(parent, sizeof parent, "%.*s", (int)(strrchr(path, '/') - path), path);
    return path_within(folder, parent, real) != NULL;
}

/* Finds the blob of a file in a snapshot: `blob` becomes the name of one of the repository's, or ""
 * if the file is elsewhere, or is not a link. */
static bool is_link_to_blob(const char *folder, const char *path, char blob[COMMIT_BYTES]) {
    static const char blobs[] = "blobs/";
    char real[PATH_MAX];
    struct stat info;
    if (lstat(path, &info) != 0 || !S_ISLNK(info.st_mode))
        return false;
    const char *within = path_within(folder, path, real);
    if (!within || strncmp(within, blobs, strlen(blobs)) != 0 ||
        strchr(within + strlen(blobs), '/'))
        return false;
    return snprintf(blob, COMMIT_BYTES, "%s", within + strlen(blobs)) < COMMIT_BYTES;
}

/* The blobs of files that are removed, and of those that stay. */
struct removal {
    const struct hub_name *name;
    const char *folder;
    char commit[COMMIT_BYTES]; /* of the revision that is named; "": all are meant */
    struct hub_files gone, staying;
    uint64_t *freed;
    size_t *n;
};

static bool is_wanted(const struct removal *r, const char *commit, const char *file) {
    return (!*r->commit || strcmp(commit, r->commit) == 0) &&
           (!*r->name->file || is_same_model(file, r->name->file));
}

static wisp_status remove_of_commit(struct removal *r, const char *commit, wisp_error *error) {
    struct hub_files files = {0};
    char path[PATH_MAX], blob[COMMIT_BYTES];
    wisp_status status = hub_list_snapshot(r->folder, commit, &files, error);
    for (uint32_t i = 0; i < files.n && status == WISP_OK; i++) {
        const struct hub_file *file = &files.all[i];
        const bool wanted = is_wanted(r, commit, file->name);
        struct stat info;
        status = hub_snapshot(r->folder, commit, file->name, path, error);
        if (status != WISP_OK || !is_own(r->folder, path))
            continue;
        if (is_link_to_blob(r->folder, path, blob))
            status = hub_files_add(wanted ? &r->gone : &r->staying, blob, file->bytes, error);
        else if (wanted && lstat(path, &info) == 0 && S_ISREG(info.st_mode))
            *r->freed += file->bytes;
        if (wanted && status == WISP_OK)
            *r->n += unlink(path) == 0;
    }
    hub_files_release(&files);
    return status;
}

static bool contains(const struct hub_files *files, uint32_t n, const char *name) {
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(files->all[i].name, name) == 0)
            return true;
    return false;
}

static void remove_blobs(const struct removal *r) {
    char path[PATH_MAX];
    for (uint32_t i = 0; i < r->gone.n; i++) {
        const struct hub_file *blob = &r->gone.all[i];
        if (!contains(&r->gone, i, blob->name) &&
            !contains(&r->staying, r->staying.n, blob->name) &&
            hub_blob(r->folder, blob->name, path, NULL) == WISP_OK && unlink(path) == 0)
            *r->freed += blob->bytes;
    }
}

/* Deletes the empty folders from a path on, and with `files` also files and links. */
static void clear(const char *path, bool files) {
    struct hub_files names = {0};
    char below[PATH_MAX];
    struct stat info;
    if (lstat(path, &info) != 0 || !S_ISDIR(info.st_mode)) {
        if (files)
            unlink(path);
        return;
    }
    if (list_names(path, &names, NULL) != WISP_OK)
        names.n = 0;
    for (uint32_t i = 0; i < names.n; i++)
        if (file_join(path, names.all[i].name, below, sizeof below, NULL) == WISP_OK)
            clear(below, files);
    hub_files_release(&names);
    rmdir(path);
}

/* Deletes the folders that are empty now, and if no snapshot is left all that belongs to them. */
static void remove_folders(const char *folder) {
    static const char *const rest[] = {"refs", "blobs"};
    char path[PATH_MAX];
    if (file_join(folder, "snapshots", path, sizeof path, NULL) != WISP_OK)
        return;
    clear(path, false);
    if (file_is_folder(path))
        return;
    for (size_t i = 0; i < 2; i++)
        if (file_join(folder, rest[i], path, sizeof path, NULL) == WISP_OK)
            clear(path, true);
    rmdir(folder);
}

wisp_status hub_remove_kept(const struct hub_name *name, uint64_t *freed, size_t *n,
                            wisp_error *error) {
    char cache[PATH_MAX], folder[PATH_MAX];
    struct removal r = {.name = name, .folder = folder, .freed = freed, .n = n};
    struct hub_files commits = {0};
    TRY(hub_cache_folder(cache, error));
    TRY(hub_repo_folder(cache, name->repo, folder, error));
    if (name->has_revision) {
        TRY(hub_read_commit(folder, name->revision, r.commit, error));
        if (!*r.commit)
            return WISP_OK; /* nothing is known by this name */
    }
    wisp_status status = list_commits(folder, &commits, error);
    for (uint32_t i = 0; i < commits.n && status == WISP_OK; i++)
        status = remove_of_commit(&r, commits.all[i].name, error);
    if (status == WISP_OK && *n > 0) {
        remove_blobs(&r);
        remove_folders(folder);
    }
    hub_files_release(&commits);
    hub_files_release(&r.gone);
    hub_files_release(&r.staying);
    return status;
}
