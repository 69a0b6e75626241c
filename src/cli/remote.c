/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/remote.h"

#include <stdlib.h>

#include "base/status.h"
#include "cli/progress.h"
#include "host/part_names.h"

enum {
    FIRST_BYTES = 1 << 20,       /* are fetched first of a model that opens from its hot bytes, or a
                                    quarter of a smaller file */
    GAP_BYTES = 16 * 1024,       /* ranges with at most so many bytes between are fetched as one */
    MOST_JOINED_BYTES = 1 << 20, /* of a range that is made of several */
    MOST_RELOADS = 2 /* of a file that changes on the server, or vanishes from the cache */
};

/* ---- parts of a file ------------------------------------------------------------------------ */

/* Makes n ranges of the file present in the cache. */
static wisp_status bring(struct remote_model *r, const wisp_range *ranges, size_t n,
                         wisp_error *error) {
    if (!r->offline)
        return server_file_fetch(&r->server, ranges, n, error);
    for (size_t i = 0; i < n; i++) {
        const uint64_t end = ranges[i].offset + ranges[i].length;
        wisp_range absent;
        TRY(cached_file_absent(&r->cached, ranges[i].offset, end, &absent, error));
        if (absent.length > 0)
            return fail(error, WISP_ERROR_NOT_FOUND, r->name, NULL,
                        "bytes %llu to %llu are not in the cache, and --offline fetches nothing",
                        (unsigned long long)absent.offset,
                        (unsigned long long)(absent.offset + absent.length - 1));
    }
    return WISP_OK;
}

/* Fetches the beginning of the file and checks that it is a model's. */
static wisp_status bring_start(struct remote_model *r, uint64_t bytes, wisp_error *error) {
    const uint64_t size = r->cached.state.size;
    const wisp_range start = {0, bytes < size ? bytes : size};
    char magic[4] = "";
    TRY(bring(r, &start, 1, error));
    if (size >= sizeof magic && !cached_file_read(&r->cached, 0, magic, sizeof magic))
        return fail(error, WISP_ERROR_IO, r->cached.part, NULL, "cannot read");
    if (memcmp(magic, "GGUF", sizeof magic) == 0)
        return WISP_OK;
    cached_file_drop(&r->cached);
    return fail(error, WISP_ERROR_FORMAT, r->name, NULL, "%s",
                magic[0] == '<' ? "an HTML page and not a GGUF file: name the file itself; a login "
                                  "page or a proxy may be in front of the server"
                : memcmp(magic, "vers", sizeof magic) == 0 ? "a pointer of Git LFS and not the file"
                                                           : "not a GGUF file");
}

static int read_source(void *context, uint64_t offset, void *buffer, size_t length) {
    return cached_file_read(context, offset, buffer, length) ? 0 : -1;
}

/* Returns whether the header is not the one that was asked for: the hash may be mistyped, so that
 * all is well with the parts, or the header was damaged on its way. Then only the header is fetched
 * again. */
static bool is_of_pin(const wisp_error *error) {
    return strcmp(error->field, "header_sha256") == 0;
}

/* Opens the model from its hot bytes, which are at the beginning of the file. The file must have
 * been entered into the cache. */
static wisp_status open_hot(struct remote_model *r, const wisp_model_options *options,
                            wisp_model **model, wisp_error *error) {
    const uint64_t size = r->cached.state.size;
    wisp_source source = {.size = size,
                          .read = read_source,
                          .context = &r->cached,
                          .name = r->name,
                          .lasting = true,
                          .may_change = true,
                          .keeps = true};
    uint64_t end = size / 4 < FIRST_BYTES ? size / 4 : FIRST_BYTES, hot = 0;
    while (hot == 0) {
        end = end < CACHE_BLOCK_BYTES ? CACHE_BLOCK_BYTES : end;
        end = end < size ? end : size;
        TRY(bring_start(r, end, error));
        source.available = end;
        const wisp_status status = wisp_source_hot_bytes(&source, &hot, error);
        if (status == WISP_ERROR_IO && end < size)
            end *= 2; /* the header is longer */
        else
            TRY(status);
    }
    const wisp_range beginning = {0, hot};
    TRY(bring(r, &beginning, 1, error));
    source.available = hot;
    wisp_status status = wisp_model_open_source(&source, options, model, error);
    if (status == WISP_ERROR_FORMAT && is_of_pin(error) && !r->offline)
        cached_file_forget(&r->cached, end);
    if (status == WISP_OK && !r->offline)
        status = cached_file_adopt(&r->cached, error);
    if (status == WISP_OK && options->memory > 0)
        status = wisp_model_limit_memory(*model, options->memory, error);
    if (status != WISP_OK) {
        wisp_model_close(*model);
        *model = NULL;
    }
    return status;
}

/* ---- whole files ---------------------------------------------------------------------------- */

struct download {
    struct progress progress;
    uint64_t size;
};

static void show_download(void *context, uint64_t at) {
    struct download *download = context;
    progress_show(&download->progress, (size_t)(at / 1000), (double)at / (double)download->size);
}

/* Compares the file with the digests of its chunks, if it has any. */
static wisp_status verify(const struct remote_model *r, wisp_error *error) {
    wisp_file *file = NULL;
    wisp_verified verified;
    wisp_error found;
    wisp_status status = wisp_file_open(r->cached.part, &file, &found);
    if (status == WISP_OK)
        status = wisp_file_verify(file, &verified, &found);
    wisp_file_close(file);
    if (status == WISP_OK || status == WISP_ERROR_NOT_FOUND || status == WISP_ERROR_UNSUPPORTED)
        return WISP_OK;
    return fail(error, status, r->name, NULL, "the downloaded bytes are damaged: %s",
                found.message);
}

/* Fetches the whole file in the server's state, unless another process has done so meanwhile. */
static wisp_status fetch_whole(struct remote_model *r, wisp_error *error) {
    struct download download = {.size = r->server.state.size};
    const wisp_range all = {0, download.size};
    TRY(cached_file_lock(&r->cached, was_interrupted, error));
    TRY(cached_file_enter(&r->cached, &r->server.state, true, error));
    if (r->cached.whole)
        return cached_file_adopt(&r->cached, error);
    r->server.progress = show_download;
    r->server.context = &download;
    progress_start(&download.progress, "kB");
    /* A page that is not a model is detected before much of it has arrived. */
    wisp_status status = bring_start(r, CACHE_BLOCK_BYTES, error);
    if (status == WISP_OK)
        status = bring(r, &all, 1, error);
    progress_end(&download.progress);
    r->server.progress = NULL;
    TRY(status);
    TRY(cached_file_hold(&r->cached, error));
    status = verify(r, error);
    if (status == WISP_ERROR_FORMAT)
        cached_file_drop(&r->cached);
    TRY(status);
    TRY(cached_file_publish(&r->cached, error));
    return cached_file_adopt(&r->cached, error);
}

/* ---- opening -------------------------------------------------------------------------------- */

static bool same_state(const struct file_state *a, const struct file_state *b) {
    return a->size == b->size && strcmp(a->validator, b->validator) == 0;
}

/* Makes the file ready in the cache: whole, or if `by_ranges` allows it with the blocks that are
 * there. Sets r->active if it is not whole. */
static wisp_status prepare(struct remote_model *r, bool by_ranges, wisp_error *error) {
    struct cached_file *cached = &r->cached;
    TRY(cached_file_open(cached, r->url, r->name, error));
    const bool had_whole = cached_file_is_whole(cached);
    const struct file_state known = cached->state;
    if (r->offline) {
        r->active = by_ranges && !had_whole && known.size > 0;
        if (had_whole)
            return WISP_OK;
        return r->active
                   ? cached_file_enter(cached, &known, false, error)
                   : fail(error, WISP_ERROR_NOT_FOUND, r->name, NULL,
                          "the whole file is not in the cache, and --offline fetches nothing");
    }
    TRY(cached_file_make_room(cached, error)); /* also if nothing new comes */
    TRY(server_file_open(&r->server, r->url, was_interrupted, error));
    r->server.into = cached;
    TRY(server_file_ask(&r->server, had_whole ? &known : NULL, error));
    /* A state without a validator may be that of any file. */
    if (had_whole && *known.validator && same_state(&r->server.state, &known))
        return WISP_OK;
    if (!had_whole)
        cached_file_take_over(cached, &r->server.state);
    r->active = by_ranges && !r->server.no_ranges;
    return r->active ? cached_file_enter(cached, &r->server.state, true, error)
                     : fetch_whole(r, error);
}

static void release(struct remote_model *r) {
    cached_file_close(&r->cached);
    server_file_close(&r->server);
    r->active = false;
}

/* Begins with the file at a URL. The caller calls remote_close, also after a failure. */
static wisp_status begin(struct remote_model *r, const char *url, bool offline, wisp_error *error) {
    *r = (struct remote_model){.offline = offline,
                               .url = strdup(url),
                               .cached = {.lock = -1, .data = -1, .table = -1, .use = -1}};
    if (!r->url)
        return fail_memory(error, strlen(url));
    snprintf(r->name, sizeof r->name, "%.*s", (int)strcspn(url, "?#"), url);
    return WISP_OK;
}

/* Opens a whole file, or with `active` one of which the cache has blocks. */
static wisp_status open_prepared(struct remote_model *r, const wisp_model_options *options,
                                 wisp_model **model, wisp_error *error) {
    if (!r->active) {
        TRY(wisp_model_open(r->cached.path, options, model, error));
        cached_file_keep_in_use(&r->cached);
        return WISP_OK;
    }
    const wisp_status status = open_hot(r, options, model, error);
    if (status == WISP_ERROR_FORMAT && !is_of_pin(error))
        cached_file_drop(&r->cached);
    return status;
}

/* Fails because a file is gone whenever it is opened. */
static wisp_status fail_deleted(const struct remote_model *r, wisp_error *error) {
    return fail(error, WISP_ERROR_IO, r->name, NULL,
                "another process deletes the file whenever it has been fetched");
}

static wisp_status open_one(struct remote_model *r, bool by_ranges,
                            const wisp_model_options *options, wisp_model **model,
                            wisp_error *error) {
    for (int reloads = 0;; reloads++) {
        release(r);
        wisp_status status = prepare(r, by_ranges, error);
        const bool was_prepared = status == WISP_OK;
        if (was_prepared)
            status = open_prepared(r, options, model, error);
        /* Another process may have found a newer file and deleted this one. */
        const bool is_gone =
            was_prepared && !r->active && status == WISP_ERROR_NOT_FOUND && !r->offline;
        if (status == WISP_OK || !(r->server.changed || is_gone))
            return status;
        if (reloads == MOST_RELOADS)
            return is_gone ? fail_deleted(r, error) : status;
    }
}

/* Makes all parts of a model ready in the cache, whole, and opens them. */
static wisp_status open_parts(struct remote_model *parts, uint32_t count,
                              const wisp_model_options *options, wisp_model **model,
                              wisp_error *error) {
    const char **paths = calloc(count, sizeof *paths);
    wisp_status status = paths ? WISP_OK : fail_memory(error, count * sizeof *paths);
    for (uint32_t i = 0; i < count && status == WISP_OK; i++) {
        for (int reloads = 0; reloads <= MOST_RELOADS; reloads++) {
            release(&parts[i]);
            status = prepare(&parts[i], false, error);
            if (status == WISP_OK || !parts[i].server.changed)
                break;
        }
        if (status == WISP_OK)
            paths[i] = parts[i].cached.path;
    }
    if (status == WISP_OK)
        status = wisp_model_open_parts(paths, count, options, model, error);
    for (uint32_t i = 0; i < count && status == WISP_OK; i++)
        cached_file_keep_in_use(&parts[i].cached);
    free(paths);
    return status;
}

/* Opens a model in several files, of which the URL names the first. */
static wisp_status open_in_parts(const char *url, const struct part_name *first, bool offline,
                                 const wisp_model_options *options, wisp_model **model,
                                 wisp_error *error) {
    struct remote_model *parts = calloc(first->count, sizeof *parts);
    char *name = strdup(url);
    wisp_status status = parts && name ? WISP_OK : fail_memory(error, first->count * sizeof *parts);
    uint32_t begun = 0;
    for (; begun < first->count && status == WISP_OK; begun++) {
        part_name_set(name, first, begun + 1);
        status = begin(&parts[begun], name, offline, error);
    }
    if (status == WISP_OK)
        status = open_parts(parts, first->count, options, model, error);
    for (uint32_t i = 0; i < begun; i++)
        remote_close(&parts[i]);
    free(name);
    free(parts);
    return status;
}

wisp_status remote_open(const char *url, const struct model_arguments *arguments,
                        const wisp_model_options *options, wisp_model **model, wisp_error *error) {
    struct remote_model whole = {0};
    struct remote_model *r = arguments->remote ? arguments->remote : &whole;
    struct part_name part;
    *model = NULL;
    if (part_name_read(url, strcspn(url, "?#"), &part) && part.count > 1) {
        if (part.part == 1 && part.count <= MOST_PARTS)
            return open_in_parts(url, &part, arguments->offline, options, model, error);
        return fail(error, WISP_ERROR_UNSUPPORTED, NULL, NULL,
                    "%.*s: part %u of %u of a model: name the first of at most %d",
                    (int)strcspn(url, "?#"), url, part.part, part.count, MOST_PARTS);
    }
    TRY(begin(r, url, arguments->offline, error));
    const wisp_status status =
        open_one(r, arguments->remote && arguments->hot_only, options, model, error);
    if (status != WISP_OK || !r->active)
        remote_close(r);
    return status;
}

void remote_close(struct remote_model *remote) {
    if (!remote->url)
        return; /* nothing was opened */
    release(remote);
    free(remote->url);
    free(remote->buffer);
    free(remote->needs.ranges);
    *remote = (struct remote_model){0};
}

/* ---- embedding ------------------------------------------------------------------------------ */

/* Hands a range, which is present in the cache, to the model. */
static wisp_status provide(struct remote_model *r, wisp_session *session, wisp_range range,
                           wisp_error *error) {
    const size_t length = (size_t)range.length; /* at most the chunks of a row, or 1 MiB */
    if (length > r->capacity) {
        free(r->buffer);
        r->buffer = malloc(length);
        r->capacity = r->buffer ? length : 0;
        if (!r->buffer)
            return fail_memory(error, length);
    }
    if (!cached_file_read(&r->cached, range.offset, r->buffer, length))
        return fail(error, WISP_ERROR_IO, r->cached.part, NULL, "cannot read");
    const wisp_status status =
        wisp_session_provide(session, range.offset, r->buffer, length, error);
    if (status == WISP_ERROR_FORMAT)
        cached_file_drop(&r->cached); /* the next run fetches them again */
    return status;
}

/* Adds ranges to those that are waited for. */
static wisp_status add_needs(struct remote_needs *needs, const wisp_range *ranges, size_t n,
                             wisp_error *error) {
    if (n > needs->capacity - needs->n) {
        const size_t capacity = 2 * needs->capacity + n;
        wisp_range *larger = realloc(needs->ranges, capacity * sizeof *larger);
        if (!larger)
            return fail_memory(error, capacity * sizeof *larger);
        needs->ranges = larger;
        needs->capacity = capacity;
    }
    if (n > 0)
        memcpy(needs->ranges + needs->n, ranges, n * sizeof *ranges);
    needs->n += n;
    return WISP_OK;
}

static int compare_ranges(const void *a, const void *b) {
    const wisp_range *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Joins ranges that overlap or touch, as far as the result is read into one buffer. Those that are
 * left are in rising order. */
static void join_needs(struct remote_needs *needs) {
    size_t count = 0;
    if (needs->n > 0)
        qsort(needs->ranges, needs->n, sizeof *needs->ranges, compare_ranges);
    for (size_t i = 0; i < needs->n; i++) {
        const wisp_range next = needs->ranges[i];
        wisp_range *last = count > 0 ? &needs->ranges[count - 1] : NULL;
        const uint64_t end = last ? last->offset + last->length : 0;
        const uint64_t joined = last ? next.offset + next.length - last->offset : 0;
        if (last && next.offset + next.length <= end)
            continue;
        if (last && next.offset <= end && joined <= MOST_JOINED_BYTES)
            last->length = joined;
        else
            needs->ranges[count++] = next;
    }
    needs->n = count;
}

/* Brings the rows that the session's call waits for, and with them those of the tokens of n texts,
 * so that the call does not wait for each of its batches. The needs of the call have the tokens of
 * a prompt, which these texts lack, and read gaps along: over many texts that would be much. */
static wisp_status bring_rows(struct remote_model *r, wisp_session *session, const wisp_text *texts,
                              size_t n, wisp_error *error) {
    struct remote_needs *needs = &r->needs;
    const wisp_range *ranges;
    size_t count;
    needs->n = 0;
    TRY(wisp_session_needs(session, GAP_BYTES, &ranges, &count, error));
    TRY(add_needs(needs, ranges, count, error));
    for (size_t i = 0; i < n; i++) {
        TRY(wisp_session_text_needs(session, texts[i], 0, &ranges, &count, error));
        TRY(add_needs(needs, ranges, count, error));
    }
    join_needs(needs);
    TRY(bring(r, needs->ranges, needs->n, error));
    for (size_t i = 0; i < needs->n; i++)
        TRY(provide(r, session, needs->ranges[i], error));
    return WISP_OK;
}

wisp_status remote_embed(struct remote_model *r, wisp_session *session, const wisp_text *texts,
                         size_t n, const wisp_embed_options *options, float *rows,
                         wisp_error *error) {
    wisp_status status = wisp_embed(session, texts, n, options, rows, error);
    for (size_t ahead = n; status == WISP_NEED_RANGES; ahead = 0) {
        status = bring_rows(r, session, texts, ahead, error);
        if (status == WISP_OK)
            status = wisp_embed_continue(session, error);
        else
            wisp_embed_give_up(session);
    }
    return status;
}
