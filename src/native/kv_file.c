/* SPDX-License-Identifier: Apache-2.0
 * Keys and values beyond a limit of memory, in a file without a name. Slices (attention/kv_tier.h)
 * have frames of memory while they are used; the others are in the file, each with a checksum that
 * memory keeps (kv_frames.c). */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "engine/device_texts.h"
#include "engine/generation.h"
#include "host/quiet_thread.h"
#include "host/scratch_file.h"
#include "native/kv_frames.h"

static struct kv_file *of_tier(struct kv_tier *tier) {
    return (struct kv_file *)(void *)((char *)tier - offsetof(struct kv_file, tier));
}

/* A fork has no reader, and the reader of its parent may have held the lock. */
static bool is_forked(const struct kv_file *f) {
    return getpid() != f->process;
}

static void lock(struct kv_file *f) {
    if (!is_forked(f))
        pthread_mutex_lock(&f->lock);
}

static void unlock(struct kv_file *f) {
    if (!is_forked(f))
        pthread_mutex_unlock(&f->lock);
}

/* ---- slices that are held ------------------------------------------------------------------- */

static void note_use(struct kv_file *f, struct kv_slice slice, struct kv_frame *frame,
                     bool writes) {
    if (!writes && !kv_is_wanted(f, slice))
        f->caches[slice.cache].named[slice.layer] = 0;
    f->stats.held_blocks++;
    f->stats.ahead_blocks += frame->ahead;
    frame->ahead = false;
    frame->dirty |= writes;
    if (writes)
        f->caches[slice.cache].written = slice.page;
    frame->holders++;
    frame->used = ++f->clock;
    if (f->cursor.layer != slice.layer || f->cursor.page != slice.page ||
        f->cursor.cache != slice.cache) {
        f->cursor = slice;
        pthread_cond_signal(&f->moved);
    }
}

static unsigned char *hold(struct kv_tier *tier, struct kv_slice slice, bool writes) {
    struct kv_file *f = of_tier(tier);
    unsigned char *bytes = writes ? NULL : f->zeros;
    double waits_since = 0;
    lock(f);
    while (!f->failed) {
        const int32_t index = kv_entry_of(f, slice)->frame;
        if (index != KV_NO_FRAME && !f->frames[index].moving) {
            note_use(f, slice, &f->frames[index], writes);
            bytes = f->frames[index].bytes;
            break;
        }
        if (waits_since == 0 && (index != KV_NO_FRAME || kv_entry_of(f, slice)->stored))
            waits_since = clock_seconds();
        if (index != KV_NO_FRAME)
            pthread_cond_wait(&f->changed, &f->lock);
        else
            kv_bring(f, slice);
    }
    if (waits_since > 0) {
        f->stats.waited_blocks++;
        f->stats.waited_seconds += clock_seconds() - waits_since;
    }
    unlock(f);
    return bytes;
}

static void let_go(struct kv_tier *tier, struct kv_slice slice) {
    struct kv_file *f = of_tier(tier);
    lock(f);
    const int32_t index = kv_entry_of(f, slice)->frame;
    /* After a failure a slice may have been given out that has no frame. */
    if (index != KV_NO_FRAME && f->frames[index].holders > 0) {
        f->frames[index].holders--;
        pthread_cond_broadcast(&f->changed);
    }
    unlock(f);
}

static void want(struct kv_tier *tier, struct kv_slice slice, size_t keys) {
    struct kv_file *f = of_tier(tier);
    lock(f);
    struct kv_entry *entry = kv_entry_of(f, slice);
    f->caches[slice.cache].named[slice.layer] = keys;
    if (entry->wanted != keys) {
        f->stats.chosen_blocks++;
        f->stats.recurring_blocks += entry->wanted + 1 == keys;
        entry->wanted = keys;
    }
    unlock(f);
}
/* ---- caches --------------------------------------------------------------------------------- */

static wisp_status open_cache(struct kv_tier *tier, size_t *cache, wisp_error *error) {
    struct kv_file *f = of_tier(tier);
    wisp_status status = WISP_OK;
    lock(f);
    size_t i = 0;
    while (i < f->n_caches && f->caches[i].open)
        i++;
    if (i == f->n_caches) {
        struct kv_pages *grown = realloc(f->caches, (i + 1) * sizeof *grown);
        if (!grown)
            status = fail_memory(error, (i + 1) * sizeof *grown);
        else {
            f->caches = grown;
            f->n_caches = i + 1;
        }
    }
    size_t *named = calloc(f->layers, sizeof *named);
    if (status == WISP_OK && !named)
        status = fail_memory(error, f->layers * sizeof *named);
    if (status == WISP_OK) {
        f->caches[i] = (struct kv_pages){.open = true, .named = named};
        *cache = i;
    } else
        free(named);
    unlock(f);
    return status;
}

/* Takes frames and contents from the pages of a cache from `pages` on. */
static void forget_pages(struct kv_file *f, size_t cache, size_t pages) {
    const struct kv_pages *c = &f->caches[cache];
    for (size_t i = 0; i < f->n_frames; i++) {
        struct kv_frame *frame = &f->frames[i];
        while (!is_forked(f) && frame->taken && frame->moving && frame->slice.cache == cache &&
               frame->slice.page >= pages)
            pthread_cond_wait(&f->changed, &f->lock);
        if (frame->taken && frame->slice.cache == cache && frame->slice.page >= pages)
            kv_lose_frame(f, frame);
    }
    for (size_t i = pages * f->layers; i < c->pages * f->layers; i++)
        c->entries[i] = (struct kv_entry){.frame = KV_NO_FRAME};
    for (size_t i = 0; i < f->layers; i++)
        c->named[i] = 0;
}

static void forget(struct kv_tier *tier, size_t cache, size_t pages) {
    struct kv_file *f = of_tier(tier);
    lock(f);
    forget_pages(f, cache, pages);
    unlock(f);
}

static void close_cache(struct kv_tier *tier, size_t cache) {
    struct kv_file *f = of_tier(tier);
    lock(f);
    forget_pages(f, cache, 0);
    free(f->caches[cache].entries);
    free(f->caches[cache].named);
    f->caches[cache] = (struct kv_pages){0};
    unlock(f);
}

static wisp_status reserve(struct kv_tier *tier, size_t cache, size_t pages, wisp_error *error) {
    struct kv_file *f = of_tier(tier);
    if (is_forked(f))
        return fail(error, WISP_ERROR_UNSUPPORTED, f->folder, "kv_memory",
                    "a session with a limit of keys and values stays with the process that opened "
                    "it");
    if (pages > f->most_pages)
        return fail(error, WISP_ERROR_ARGUMENT, f->folder, "kv_memory",
                    "%zu pages of a text, and the model's context has %zu", pages, f->most_pages);
    lock(f);
    struct kv_pages *c = &f->caches[cache];
    wisp_status status = WISP_OK;
    if (pages > c->pages) {
        const size_t n = pages * f->layers;
        struct kv_entry *grown = realloc(c->entries, n * sizeof *grown);
        if (!grown)
            status = fail_memory(error, n * sizeof *grown);
        else {
            for (size_t i = c->pages * f->layers; i < n; i++)
                grown[i] = (struct kv_entry){.frame = KV_NO_FRAME};
            c->entries = grown;
            c->pages = pages;
        }
    }
    unlock(f);
    return status;
}

static wisp_status check(const struct kv_tier *tier, wisp_error *error) {
    const struct kv_file *f = of_tier((struct kv_tier *)(uintptr_t)tier);
    if (!f->failed)
        return WISP_OK;
    if (error)
        *error = f->failure;
    return f->failure.status;
}

static void forget_all(struct kv_tier *tier) {
    struct kv_file *f = of_tier(tier);
    lock(f);
    for (size_t i = 0; i < f->n_caches; i++)
        forget_pages(f, i, 0);
    for (size_t i = 0; i < f->n_frames; i++)
        f->frames[i].holders = 0;
    f->failed = false;
    unlock(f);
}

static void get_stats(struct kv_tier *tier, wisp_kv_stats *stats) {
    struct kv_file *f = of_tier(tier);
    lock(f);
    *stats = f->stats;
    for (size_t i = 0; i < f->n_frames; i++)
        stats->resident_bytes += f->frames[i].bytes ? f->slice_bytes : 0;
    unlock(f);
}

static void close_file(struct kv_tier *tier) {
    struct kv_file *f = of_tier(tier);
    if (f->reading && !is_forked(f)) {
        pthread_mutex_lock(&f->lock);
        f->ending = true;
        pthread_cond_signal(&f->moved);
        pthread_mutex_unlock(&f->lock);
        pthread_join(f->reader, NULL);
    }
    for (size_t i = 0; i < f->n_frames; i++)
        memory_free_zeros(f->frames[i].bytes);
    for (size_t i = 0; i < f->n_caches; i++) {
        free(f->caches[i].entries);
        free(f->caches[i].named);
    }
    if (f->file >= 0)
        close(f->file);
    pthread_mutex_destroy(&f->lock);
    pthread_cond_destroy(&f->changed);
    pthread_cond_destroy(&f->moved);
    memory_free_zeros(f->zeros);
    free((void *)(uintptr_t)f->folder);
    free(f->caches);
    free(f->frames);
    free(f);
}

/* ---- opening -------------------------------------------------------------------------------- */

static const struct kv_tier functions = {.open_cache = open_cache,
                                         .close_cache = close_cache,
                                         .reserve = reserve,
                                         .hold = hold,
                                         .let_go = let_go,
                                         .want = want,
                                         .forget = forget,
                                         .check = check,
                                         .forget_all = forget_all,
                                         .get_stats = get_stats,
                                         .close = close_file};

static const char *folder_or_usual(const char *folder) {
    const char *usual = getenv("TMPDIR");
    return folder ? folder : usual && *usual ? usual : "/var/tmp";
}

/* Opens a tier for slices of these bytes, of which `bytes` have frames. */
static wisp_status open_tier(const struct kv_shape *shape, uint64_t bytes, size_t most_tokens,
                             const char *folder, struct kv_tier **tier, wisp_error *error) {
    struct kv_file *f = calloc(1, sizeof *f);
    if (!f)
        return fail_memory(error, sizeof *f);
    *f = (struct kv_file){.tier = functions,
                          .layers = shape->layers,
                          .slice_bytes = kv_slice_bytes(shape),
                          .most_pages = most_tokens / KV_PAGE + 1,
                          .file = -1,
                          .folder = strdup(folder),
                          .process = getpid()};
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    pthread_cond_init(&f->moved, NULL);
    const uint64_t frames = bytes / f->slice_bytes;
    f->n_frames = frames < INT32_MAX ? (size_t)frames : INT32_MAX;
    f->frames = calloc(f->n_frames, sizeof *f->frames);
    f->zeros = memory_allocate_zeros(f->slice_bytes);
    wisp_status status = f->folder && f->frames && f->zeros
                             ? scratch_file_open(folder, &f->file, error)
                             : fail_memory(error, f->n_frames * sizeof *f->frames);
    if (status == WISP_OK) {
        f->reading = quiet_thread_start(&f->reader, NULL, kv_read_ahead, f);
        if (!f->reading)
            status = fail(error, WISP_ERROR_MEMORY, NULL, NULL, "the system grants no thread");
    }
    if (status != WISP_OK)
        close_file(&f->tier);
    else
        *tier = &f->tier;
    return status;
}

wisp_status wisp_session_limit_kv_memory(wisp_session *session, uint64_t bytes, const char *folder,
                                         wisp_error *error) {
    TRY(require(session, "session", error));
    TRY(texts_need_host(session->model, "kv_memory", "a limit of their memory", error));
    TRY(generation_open(session, 1, error));
    const struct generation *g = session->generation;
    const struct kv_shape *shape = &g->sequences[0].cache.shape;
    const char *in = folder_or_usual(folder);
    if (session->kv_tier || g->count > 1 || g->sequences[0].cache.capacity > 0)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "kv_memory", "the session has %s already",
                    session->kv_tier ? "a limit" : "texts");
    if (bytes < kv_slice_bytes(shape))
        return fail(error, WISP_ERROR_ARGUMENT, session->model->dir.file, "kv_memory",
                    "%llu bytes; the least is a block of %zu: %d tokens of a layer",
                    (unsigned long long)bytes, kv_slice_bytes(shape), KV_PAGE);
    struct kv_tier *tier;
    TRY(open_tier(shape, bytes, session->model->max_tokens, in, &tier, error));
    const wisp_status status =
        kv_cache_limit(&session->generation->sequences[0].cache, tier, error);
    if (status != WISP_OK) {
        tier->close(tier);
        return status;
    }
    session->kv_tier = tier;
    return WISP_OK;
}
