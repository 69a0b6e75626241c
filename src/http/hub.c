/* SPDX-License-Identifier: Apache-2.0 */
#include "http/hub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "host/file.h"
#include "host/part_names.h"
#include "http/hub_cache.h"
#include "http/hub_choose.h"
#include "http/hub_download.h"
#include "http/hub_request.h"
#include "http/hub_settings.h"

enum { MOST_LIST_BYTES = 1 << 26 };

/* A server and a repository's folder of the cache. */
struct hub {
    const struct hub_options *options;
    struct hub_client client;
    char endpoint[HUB_TEXT_BYTES], token[HUB_TEXT_BYTES];
    char cache[PATH_MAX], folder[PATH_MAX];
    bool links;
};

/* ---- addresses ------------------------------------------------------------------------------ */

/* Appends text as a part of an address; slashes stay if `with_slashes`. */
static void append_encoded(char url[URL_BYTES], const char *text, bool with_slashes) {
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.!~*'()";
    size_t used = strlen(url);
    for (; *text && used + 4 < URL_BYTES; text++)
        used += (size_t)snprintf(url + used, URL_BYTES - used,
                                 strchr(plain, *text) || (with_slashes && *text == '/') ? "%c"
                                                                                        : "%%%02X",
                                 (unsigned char)*text);
}

static void append_plain(char url[URL_BYTES], const char *text) {
    const size_t used = strlen(url);
    snprintf(url + used, URL_BYTES - used, "%s", text);
}

static void write_url(const struct hub *hub, const char *repo, const char *revision,
                      const char *file, char url[URL_BYTES]) {
    snprintf(url, URL_BYTES, "%s/%s", hub->endpoint, *file ? "" : "api/models/");
    append_encoded(url, repo, true);
    append_plain(url, *file ? "/resolve/" : "/revision/");
    append_encoded(url, revision, false);
    append_plain(url, *file ? "/" : "?blobs=true");
    append_encoded(url, file, true);
}

/* ---- lists ---------------------------------------------------------------------------------- */

struct body {
    char *bytes;
    size_t n, capacity;
};

static wisp_status begin_list(void *context, const struct hub_answer *answer, wisp_error *error) {
    (void)answer;
    (void)error;
    ((struct body *)context)->n = 0;
    return WISP_OK;
}

static wisp_status take_list(void *context, const void *bytes, size_t length, wisp_error *error) {
    struct body *body = context;
    if (length > MOST_LIST_BYTES - body->n)
        return fail(error, WISP_ERROR_FORMAT, NULL, NULL, "the list of a repository is too long");
    if (body->n + length > body->capacity) {
        const size_t capacity = 2 * body->capacity + length;
        char *larger = realloc(body->bytes, capacity);
        if (!larger)
            return fail_memory(error, capacity);
        body->bytes = larger;
        body->capacity = capacity;
    }
    memcpy(body->bytes + body->n, bytes, length);
    body->n += length;
    return WISP_OK;
}

/* Checks a name that a server gives, which becomes that of a file or folder. */
static wisp_status check_given(const char *name, const char *what, const char *url,
                               wisp_error *error) {
    if (hub_check_path(name, what, NULL) == WISP_OK && !strchr(name, '/'))
        return WISP_OK;
    return fail(error, WISP_ERROR_FORMAT, url, what,
                "'%s' is not the name of a file: it does not come from a Hub", name);
}

static wisp_status read_list(const struct json *root, const char *url, char commit[COMMIT_BYTES],
                             struct hub_files *files, wisp_error *error) {
    const struct json *sha = json_get(root, "sha"), *siblings = json_get(root, "siblings");
    if (!json_is(sha, JSON_STRING) || !json_is(siblings, JSON_ARRAY) ||
        sha->text_length >= COMMIT_BYTES)
        return fail(error, WISP_ERROR_FORMAT, url, NULL, "not a list of a model's files");
    snprintf(commit, COMMIT_BYTES, "%s", sha->text);
    TRY(check_given(commit, "sha", url, error));
    for (const struct json *each = siblings->first; each; each = each->next) {
        const struct json *name = json_get(each, "rfilename"), *lfs = json_get(each, "lfs");
        uint64_t bytes = 0;
        if (!json_is(name, JSON_STRING) || strlen(name->text) != name->text_length)
            continue;
        if (!json_to_u64(json_get(lfs, "size"), &bytes))
            json_to_u64(json_get(each, "size"), &bytes);
        TRY(hub_files_add(files, name->text, bytes, error));
    }
    return WISP_OK;
}

/* Lists a revision's files. */
static wisp_status list(struct hub *hub, const struct hub_name *name, char commit[COMMIT_BYTES],
                        struct hub_files *files, wisp_error *error) {
    char url[URL_BYTES];
    struct hub_answer answer;
    struct body body = {0};
    struct hub_request request = {
        .url = url, .begin = begin_list, .take = take_list, .context = &body};
    struct arena arena = {0};
    const struct json *root = NULL;
    write_url(hub, name->repo, name->revision, "", url);
    wisp_status status = hub_request_run(&hub->client, &request, &answer, error);
    if (status == WISP_OK &&
        (body.n == 0 || json_parse(&arena, body.bytes, body.n, NULL, &root, NULL) != WISP_OK))
        status = fail(error, WISP_ERROR_FORMAT, url, NULL,
                      "not JSON: it is not a Hub, or a login page is in front of it");
    if (status == WISP_OK)
        status = read_list(root, url, commit, files, error);
    arena_release(&arena);
    free(body.bytes);
    return status;
}

/* ---- files ---------------------------------------------------------------------------------- */

/* Asks for the state of a file. A server may redirect to the place of its bytes; what it says of
 * them is in its own answer. */
static wisp_status look(struct hub *hub, const struct hub_name *name, char commit[COMMIT_BYTES],
                        struct hub_about *about, wisp_error *error) {
    char url[URL_BYTES];
    struct hub_answer answer;
    struct hub_request request = {.url = url, .head = true, .ends_at_link = true};
    write_url(hub, name->repo, name->revision, name->file, url);
    TRY(hub_request_run(&hub->client, &request, &answer, error));
    const char *tag = *answer.linked_etag ? answer.linked_etag : answer.common.etag;
    tag += strncmp(tag, "W/", 2) == 0 ? 2 : 0;
    size_t length = 0;
    for (; *tag; tag++)
        if (*tag != '"')
            about->etag[length++] = *tag;
    about->etag[length] = '\0';
    if (!*answer.commit || length == 0)
        return fail(error, WISP_ERROR_FORMAT, url, NULL,
                    "the answer has no %s: it does not come from a Hub; check HF_ENDPOINT, and "
                    "whether a proxy or a login page is in front of it",
                    *answer.commit ? "ETag" : "X-Repo-Commit");
    TRY(check_given(answer.commit, "X-Repo-Commit", url, error));
    TRY(check_given(about->etag, "ETag", url, error));
    snprintf(commit, COMMIT_BYTES, "%s", answer.commit);
    about->size = *answer.linked_size          ? strtoull(answer.linked_size, NULL, 10)
                  : answer.common.status < 300 ? answer.common.length
                                               : 0;
    return WISP_OK;
}

/* Brings one file into the cache. `before` and `total` are bytes of all files that are wanted. */
static wisp_status fetch_file(struct hub *hub, const struct hub_name *name, uint64_t before,
                              uint64_t total, char path[PATH_MAX], wisp_error *error) {
    char commit[COMMIT_BYTES], url[URL_BYTES], blob[PATH_MAX];
    struct hub_wanted wanted = {
        .url = url, .folder = hub->folder, .path = path, .before = before, .total = total};
    bool is_new;
    if (hub_is_commit(name->revision)) {
        TRY(hub_snapshot(hub->folder, name->revision, name->file, path, error));
        if (file_exists(path))
            return WISP_OK; /* a commit does not change */
    }
    TRY(look(hub, name, commit, &wanted.about, error));
    TRY(hub_snapshot(hub->folder, commit, name->file, path, error));
    if (file_exists(path)) {
        /* The cache may be read-only. */
        (void)!hub_write_commit(hub->folder, name->revision, commit, NULL);
        return WISP_OK;
    }
    write_url(hub, name->repo, commit, name->file, url);
    TRY(hub_download(&hub->client, hub->options, &wanted, &is_new, error));
    TRY(hub_write_commit(hub->folder, name->revision, commit, error));
    TRY(hub_blob(hub->folder, wanted.about.etag, blob, error));
    return hub_point(blob, path, hub->links, is_new, error);
}

/* Brings the files of a folder or the parts of a model into the cache. The weights of a folder come
 * last: if they are kept, the others are. */
static wisp_status fetch_files(struct hub *hub, const struct hub_name *name, const char *commit,
                               const struct hub_files *chosen, uint32_t described,
                               char path[PATH_MAX], wisp_error *error) {
    uint64_t total = 0, before = 0;
    for (uint32_t i = 0; i < chosen->n; i++)
        total += chosen->all[i].bytes;
    for (uint32_t i = 0; i < chosen->n; i++) {
        struct hub_name wanted = *name;
        const char *file = chosen->all[i].name;
        if (i == described && hub->options->judge_folder) {
            TRY(hub_snapshot(hub->folder, commit, "", path, error));
            TRY(hub->options->judge_folder(path, error));
        }
        TRY(hub_check_path(file, "file", error));
        if (strlen(file) >= sizeof wanted.file)
            return fail(error, WISP_ERROR_FORMAT, name->repo, "file", "the name is too long");
        snprintf(wanted.revision, sizeof wanted.revision, "%s", commit);
        snprintf(wanted.file, sizeof wanted.file, "%s", file);
        TRY(fetch_file(hub, &wanted, before, total, path, error));
        before += chosen->all[i].bytes;
    }
    (void)!hub_write_commit(hub->folder, name->revision, commit, NULL); /* it may be read-only */
    return hub_snapshot(hub->folder, commit, "", path, error);
}

/* Chooses a repository's model: a GGUF file, whose name is copied to name->file, or the files of a
 * folder. */
static wisp_status choose(const struct hub *hub, const struct hub_files *files,
                          struct hub_name *name, struct hub_files *chosen, uint32_t *described,
                          wisp_error *error) {
    const char *file = NULL;
    if (hub->options->folder_first)
        TRY(hub_choose_folder(files, chosen, described, error));
    if (chosen->n > 0)
        return WISP_OK;
    const wisp_status status = hub_choose_gguf(files, name->repo, &file, error);
    if (status == WISP_ERROR_NOT_FOUND) {
        TRY(hub_choose_folder(files, chosen, described, NULL));
        return chosen->n > 0 ? WISP_OK : status;
    }
    TRY(status);
    TRY(hub_check_path(file, "file", error));
    if (strlen(file) >= sizeof name->file)
        return fail(error, WISP_ERROR_FORMAT, name->repo, "file", "the name is too long");
    snprintf(name->file, sizeof name->file, "%s", file);
    return WISP_OK;
}

/* ---- the cache ------------------------------------------------------------------------------ */

/* Finds the model that is kept of a commit. Sets path[0] to 0 if none is. */
static wisp_status find_in(const struct hub *hub, const struct hub_name *name, const char *commit,
                           const struct hub_files *files, char path[PATH_MAX], wisp_error *error) {
    const char *file = name->file;
    const bool has_folder = !*file && hub_has_weights(files);
    path[0] = '\0';
    if (!*file && !(has_folder && hub->options->folder_first)) {
        const wisp_status status = hub_choose_gguf(files, name->repo, &file, error);
        if (status != WISP_OK && status != WISP_ERROR_NOT_FOUND)
            return status;
    }
    struct hub_files parts = {0};
    const bool is_kept = *file && hub_choose_parts(files, file, &parts, NULL) == WISP_OK;
    hub_files_release(&parts);
    if (is_kept)
        return hub_snapshot(hub->folder, commit, file, path, error);
    return has_folder ? hub_snapshot(hub->folder, commit, "", path, error) : WISP_OK;
}

static wisp_status find_kept(const struct hub *hub, const struct hub_name *name,
                             char path[PATH_MAX], wisp_error *error) {
    struct hub_files files = {0};
    char commit[COMMIT_BYTES];
    TRY(hub_read_commit(hub->folder, name->revision, commit, error));
    wisp_status status = *commit ? hub_list_snapshot(hub->folder, commit, &files, error) : WISP_OK;
    path[0] = '\0';
    if (status == WISP_OK && files.n > 0)
        status = find_in(hub, name, commit, &files, path, error);
    hub_files_release(&files);
    if (status == WISP_OK && path[0] == '\0')
        status = fail(error, WISP_ERROR_NOT_FOUND, NULL, NULL,
                      "hf:%s@%s%s%s is not in the cache %s, and offline nothing is fetched: wisp "
                      "pull it once with a connection, or name another cache (HF_HOME)",
                      name->repo, name->revision, *name->file ? "/" : "", name->file, hub->cache);
    return status;
}

/* ---- models ------------------------------------------------------------------------------- */

/* Fails if a file is another part of a model than the first, or one of too many. Sets *in_parts to
 * whether the model is in several files. */
static wisp_status check_part(const struct hub_name *name, bool *in_parts, wisp_error *error) {
    struct hub_name first = *name;
    struct part_name part;
    *in_parts = part_name_read(name->file, strlen(name->file), &part);
    if (!*in_parts || (part.part == 1 && part.count <= MOST_PARTS))
        return WISP_OK;
    part_name_set(first.file, &part, 1);
    return fail(error, WISP_ERROR_ARGUMENT, NULL, "file",
                "part %u of the %u files of a model: name the first of at most %d, hf:%s/%s, with "
                "which all come",
                part.part, part.count, MOST_PARTS, name->repo, first.file);
}

/* Brings a model in parts into the cache. `path` becomes that of the first. */
static wisp_status fetch_parts(struct hub *hub, const struct hub_name *name, const char *commit,
                               const struct hub_files *files, char path[PATH_MAX],
                               wisp_error *error) {
    struct hub_files chosen = {0};
    wisp_status status = hub_choose_parts(files, name->file, &chosen, error);
    if (status == WISP_OK)
        status = fetch_files(hub, name, commit, &chosen, chosen.n, path, error);
    if (status == WISP_OK)
        status = hub_snapshot(hub->folder, commit, name->file, path, error);
    hub_files_release(&chosen);
    return status;
}

static wisp_status fetch(struct hub *hub, const struct hub_name *name, char path[PATH_MAX],
                         wisp_error *error) {
    struct hub_files files = {0}, chosen = {0};
    struct hub_name wanted = *name;
    char commit[COMMIT_BYTES];
    uint32_t described = 0;
    bool in_parts;
    TRY(check_part(name, &in_parts, error));
    if (in_parts && hub_is_commit(name->revision) && find_kept(hub, name, path, NULL) == WISP_OK)
        return WISP_OK; /* a commit does not change */
    wisp_status status = WISP_OK;
    if (!*name->file || in_parts)
        status = list(hub, name, commit, &files, error);
    if (status == WISP_OK && !*name->file)
        status = choose(hub, &files, &wanted, &chosen, &described, error);
    if (status == WISP_OK)
        status = check_part(&wanted, &in_parts, error);
    if (status == WISP_OK)
        status = in_parts       ? fetch_parts(hub, &wanted, commit, &files, path, error)
                 : *wanted.file ? fetch_file(hub, &wanted, 0, 0, path, error)
                                : fetch_files(hub, name, commit, &chosen, described, path, error);
    hub_files_release(&chosen);
    hub_files_release(&files);
    return status;
}

/* ---- finding ------------------------------------------------------------------------------- */

wisp_status hub_find(const char *text, const struct hub_options *options, char path[PATH_MAX],
                     wisp_error *error) {
    struct hub hub = {.options = options, .links = !hub_is_on("HF_HUB_DISABLE_SYMLINKS")};
    const char *const offline = getenv("HF_HUB_OFFLINE");
    struct hub_name name;
    wisp_error kept;
    TRY(hub_parse_name(text, &name, error));
    TRY(hub_cache_folder(hub.cache, error));
    TRY(hub_repo_folder(hub.cache, name.repo, hub.folder, error));
    if (options->offline ||
        hub_is_on(offline && *offline ? "HF_HUB_OFFLINE" : "TRANSFORMERS_OFFLINE"))
        return find_kept(&hub, &name, path, error);
    TRY(hub_read_endpoint(hub.endpoint, error));
    TRY(hub_read_token(hub.token, error));
    wisp_status status = hub_client_open(&hub.client, hub.endpoint, options->cancelled, error);
    hub.client.token = *hub.token ? hub.token : NULL;
    const bool unreachable = status == WISP_ERROR_UNSUPPORTED; /* there is no libcurl */
    if (status == WISP_OK)
        status = fetch(&hub, &name, path, error);
    hub_client_close(&hub.client);
    if (status != WISP_OK && (unreachable || hub.client.outage) &&
        find_kept(&hub, &name, path, &kept) == WISP_OK)
        return WISP_OK;
    return status;
}
