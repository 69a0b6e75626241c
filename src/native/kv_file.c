/* SPDX-License-Identifier: Apache-2.0
 * Keys and values beyond a limit of memory, in a file without a name. Blocks (attention/kv_tier.h)
 * have frames of memory while they are used; the others are in the file, each with a checksum that
 * memory keeps.
 *
 * Passes go from layer to layer, and begin with the first again. So the block that is needed last
 * is one of the layer that has just been left, and it gives up its frame: layers that fit stay in
 * memory for good, and the others take turns in the frames that are left. A thread brings the
 * blocks of the rest of the layer and of the next one while a layer is computed, several that are
 * one after the other in the file at a time.
 *
 * If tokens name the blocks that they will read, the others give up their frames first and are
 * not brought ahead; those of the next layer are expected to be the ones that the token before has
 * named there. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "attention/kv_tier.h"
#include "base/checked.h"
#include "base/checksum.h"
#include "base/clock.h"
#include "base/memory.h"
#include "engine/device_texts.h"
#include "engine/generation.h"
#include "host/fail_errno.h"
#include "host/quiet_thread.h"
#include "host/read_at.h"
#include "host/scratch_file.h"

enum {
    GATHERED_BYTES = 256 * 1024, /* that one read brings, as far as blocks are together */
    MOST_GATHERED = 16,          /* blocks */
    NONE = -1
};

/* The state of a block. */
struct entry {
    int32_t frame; /* NONE: it has none */
    bool stored;   /* the file has it, as it was when its frame was given up */
    uint64_t sum;  /* its checksum then */
    size_t wanted; /* the keys of the token that named it last; 0: none has */
};

/* Memory of a block. */
struct frame {
    struct kv_block block;
    unsigned char *bytes; /* NULL: not allocated yet */
    unsigned holders;
    bool taken;  /* it has a block */
    bool moving; /* its bytes are being read or written; whoever wants the block waits */
    bool dirty;  /* the file does not have these bytes */
    bool ahead;  /* it was brought before anyone asked for it */
    uint64_t used;
};

struct cache {
    struct entry *entries; /* [pages][layers] */
    size_t pages;
    size_t written; /* the page that was written last, to which most tokens are added */
    size_t *named;  /* [layers]: the keys of the token that named blocks last; 0: all are wanted */
    bool open;
};

struct kv_file {
    struct kv_tier tier;
    size_t layers, block_bytes, most_pages;
    int file;
    const char *folder; /* in errors; owned */
    pid_t process;
    struct cache *caches; /* [n_caches] */
    size_t n_caches;
    struct frame *frames; /* [n_frames] */
    size_t n_frames;
    unsigned char *zeros; /* what is read after a failure */
    uint64_t clock;
    struct kv_block cursor; /* the block that was asked for last */
    bool failed;
    wisp_error failure;
    wisp_kv_stats stats;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* of frames */
    pthread_cond_t moved;   /* the cursor has */
    pthread_t reader;       /* brings blocks ahead */
    bool reading, ending;
};

static struct kv_file *of_tier(struct kv_tier *tier) {
    return (struct kv_file *)(void *)((char *)tier - offsetof(struct kv_file, tier));
}

static struct entry *entry_of(const struct kv_file *f, struct kv_block b) {
    return &f->caches[b.cache].entries[b.page * f->layers + b.layer];
}

static uint64_t offset_of(const struct kv_file *f, struct kv_block b) {
    return (((uint64_t)b.cache * f->layers + b.layer) * f->most_pages + b.page) * f->block_bytes;
}

/* Keeps the first failure. */
static void keep_failure(struct kv_file *f, const wisp_error *failure) {
    if (!f->failed)
        f->failure = *failure;
    f->failed = true;
    pthread_cond_broadcast(&f->changed);
}

/* ---- frames: the lock is held --------------------------------------------------------------- */

/* Returns how many layers a pass computes before it needs a block again. */
static size_t layers_until(const struct kv_file *f, struct kv_block b) {
    return (b.layer + f->layers - f->cursor.layer) % f->layers;
}

static bool grows(const struct kv_file *f, struct kv_block b) {
    return f->caches[b.cache].written == b.page;
}

/* Returns whether the next token that reads the block's layer may read it. */
static bool is_wanted(const struct kv_file *f, struct kv_block b) {
    const size_t named = f->caches[b.cache].named[b.layer];
    return named == 0 || entry_of(f, b)->wanted == named;
}

/* Returns whether frame a gives up its block rather than b does: tokens are added to b and not to
 * a, so that b would be written again; or b is wanted and a is not; or a is needed later or, of one
 * layer, was used later. */
static bool goes_before(const struct kv_file *f, const struct frame *a, const struct frame *b) {
    const size_t x = layers_until(f, a->block), y = layers_until(f, b->block);
    if (grows(f, a->block) != grows(f, b->block))
        return grows(f, b->block);
    if (is_wanted(f, a->block) != is_wanted(f, b->block))
        return is_wanted(f, b->block);
    return x != y ? x > y : a->used > b->used;
}

/* Returns a frame that has no block, or the block that is needed last, and not before `until`
 * layers are computed, unless it is not wanted. Returns NULL if there is none. */
static struct frame *find_frame(const struct kv_file *f, size_t until) {
    struct frame *best = NULL;
    for (size_t i = 0; i < f->n_frames; i++) {
        struct frame *frame = &f->frames[i];
        if (!frame->taken)
            return frame;
        if (frame->holders == 0 && !frame->moving &&
            (layers_until(f, frame->block) >= until || !is_wanted(f, frame->block)) &&
            (!best || goes_before(f, frame, best)))
            best = frame;
    }
    return best;
}

static bool write_at(int file, uint64_t offset, const unsigned char *bytes, size_t length) {
    while (length > 0) {
        const ssize_t n = pwrite(file, bytes, length, (off_t)offset);
        if (n < 0 && errno != EINTR)
            return false;
        if (n > 0) {
            bytes += n;
            offset += (uint64_t)n;
            length -= (size_t)n;
        }
    }
    return true;
}

/* Writes a frame's block to the file, if that has not its bytes, and takes the frame from it. The
 * lock is released meanwhile. Returns false after a failure; then the frame keeps the block. */
static bool give_up(struct kv_file *f, struct frame *frame) {
    struct entry *entry = entry_of(f, frame->block);
    if (frame->dirty) {
        const struct kv_block block = frame->block;
        frame->moving = true;
        pthread_mutex_unlock(&f->lock);
        const uint64_t sum = checksum(frame->bytes, f->block_bytes);
        wisp_error error;
        const bool written = write_at(f->file, offset_of(f, block), frame->bytes, f->block_bytes);
        if (!written)
            (void)fail_errno(&error, f->folder, "write keys and values to a file in this folder");
        pthread_mutex_lock(&f->lock);
        frame->moving = false;
        pthread_cond_broadcast(&f->changed);
        if (!written) {
            keep_failure(f, &error);
            return false;
        }
        entry = entry_of(f, block); /* the table may have moved */
        entry->stored = true;
        entry->sum = sum;
        frame->dirty = false;
        f->stats.written_bytes += f->block_bytes;
    }
    entry->frame = NONE;
    frame->taken = false;
    return true;
}

/* Gives a block a frame, whose bytes are to be filled: it is moving. Returns NULL if there is none
 * now, or after a failure. The lock may be released meanwhile. */
static struct frame *take_frame(struct kv_file *f, struct kv_block block, size_t until) {
    struct frame *frame = find_frame(f, until);
    if (!frame)
        return NULL;
    if (frame->taken && !give_up(f, frame))
        return NULL;
    /* Meanwhile another thread may have brought the block, or closed its cache. */
    if (block.page >= f->caches[block.cache].pages || entry_of(f, block)->frame != NONE)
        return NULL;
    if (!frame->bytes && !(frame->bytes = memory_allocate_zeros(f->block_bytes))) {
        wisp_error error;
        (void)fail_memory(&error, f->block_bytes);
        keep_failure(f, &error);
        return NULL;
    }
    *frame = (struct frame){
        .block = block, .bytes = frame->bytes, .taken = true, .moving = true, .used = ++f->clock};
    entry_of(f, block)->frame = (int32_t)(frame - f->frames);
    return frame;
}

static void lose_frame(struct kv_file *f, struct frame *frame) {
    entry_of(f, frame->block)->frame = NONE;
    frame->taken = frame->moving = false;
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Reads n blocks of one layer, whose pages follow each other, to their frames, which are moving.
 * The lock is released meanwhile. */
static void read_blocks(struct kv_file *f, struct frame *const *frames, size_t n) {
    struct iovec parts[MOST_GATHERED];
    uint64_t sums[MOST_GATHERED];
    const uint64_t offset = offset_of(f, frames[0]->block);
    wisp_error error;
    for (size_t i = 0; i < n; i++) {
        parts[i] = (struct iovec){frames[i]->bytes, f->block_bytes};
        sums[i] = entry_of(f, frames[i]->block)->sum;
    }
    pthread_mutex_unlock(&f->lock);
    const double start = clock_seconds();
    ssize_t got;
    do
        got = preadv(f->file, parts, (int)n, (off_t)offset);
    while (got < 0 && errno == EINTR);
    wisp_status status = WISP_OK;
    if (got < 0)
        status = fail_errno(&error, f->folder, "read keys and values from a file in this folder");
    /* A read may end early. */
    for (size_t i = 0; i < n && status == WISP_OK; i++) {
        const size_t begin = i * f->block_bytes;
        const size_t have = (size_t)got > begin ? smaller((size_t)got - begin, f->block_bytes) : 0;
        const int rest = have == f->block_bytes
                             ? 0
                             : read_at(f->file, offset + begin + have, frames[i]->bytes + have,
                                       f->block_bytes - have);
        if (rest == -1)
            status =
                fail_errno(&error, f->folder, "read keys and values from a file in this folder");
        else if (rest != 0 || checksum(frames[i]->bytes, f->block_bytes) != sums[i])
            status = fail(&error, WISP_ERROR_IO, f->folder, "keys and values",
                          "the file in this folder was cut or changed: the checksum of layer %zu, "
                          "positions from %zu on, is wrong",
                          frames[i]->block.layer, frames[i]->block.page * KV_PAGE);
    }
    const double seconds = clock_seconds() - start;
    pthread_mutex_lock(&f->lock);
    f->stats.read_seconds += seconds;
    f->stats.reads++;
    f->stats.read_bytes += status == WISP_OK ? n * f->block_bytes : 0;
    for (size_t i = 0; i < n; i++) {
        frames[i]->moving = false;
        if (status != WISP_OK)
            lose_frame(f, frames[i]);
    }
    if (status != WISP_OK)
        keep_failure(f, &error);
    pthread_cond_broadcast(&f->changed);
}

/* ---- blocks that are held ------------------------------------------------------------------- */

/* Brings a block that has no frame, or waits until it can be tried again. */
static void bring(struct kv_file *f, struct kv_block block) {
    struct frame *frame = take_frame(f, block, 0);
    if (!frame) {
        if (!f->failed && entry_of(f, block)->frame == NONE)
            pthread_cond_wait(&f->changed, &f->lock);
        return;
    }
    if (entry_of(f, block)->stored) {
        read_blocks(f, &frame, 1);
        return;
    }
    memset(frame->bytes, 0, f->block_bytes);
    frame->moving = false;
}

static void note_use(struct kv_file *f, struct kv_block block, struct frame *frame, bool writes) {
    if (!writes && !is_wanted(f, block))
        f->caches[block.cache].named[block.layer] = 0;
    f->stats.held_blocks++;
    f->stats.ahead_blocks += frame->ahead;
    frame->ahead = false;
    frame->dirty |= writes;
    if (writes)
        f->caches[block.cache].written = block.page;
    frame->holders++;
    frame->used = ++f->clock;
    if (f->cursor.layer != block.layer || f->cursor.page != block.page ||
        f->cursor.cache != block.cache) {
        f->cursor = block;
        pthread_cond_signal(&f->moved);
    }
}

static unsigned char *hold(struct kv_tier *tier, struct kv_block block, bool writes) {
    struct kv_file *f = of_tier(tier);
    unsigned char *bytes = writes ? NULL : f->zeros;
    double waits_since = 0;
    pthread_mutex_lock(&f->lock);
    while (!f->failed) {
        const int32_t index = entry_of(f, block)->frame;
        if (index != NONE && !f->frames[index].moving) {
            note_use(f, block, &f->frames[index], writes);
            bytes = f->frames[index].bytes;
            break;
        }
        if (waits_since == 0 && (index != NONE || entry_of(f, block)->stored))
            waits_since = clock_seconds();
        if (index != NONE)
            pthread_cond_wait(&f->changed, &f->lock);
        else
            bring(f, block);
    }
    if (waits_since > 0) {
        f->stats.waited_blocks++;
        f->stats.waited_seconds += clock_seconds() - waits_since;
    }
    pthread_mutex_unlock(&f->lock);
    return bytes;
}

static void let_go(struct kv_tier *tier, struct kv_block block) {
    struct kv_file *f = of_tier(tier);
    pthread_mutex_lock(&f->lock);
    const int32_t index = entry_of(f, block)->frame;
    /* After a failure a block may have been given out that has no frame. */
    if (index != NONE && f->frames[index].holders > 0) {
        f->frames[index].holders--;
        pthread_cond_broadcast(&f->changed);
    }
    pthread_mutex_unlock(&f->lock);
}

static void want(struct kv_tier *tier, struct kv_block block, size_t keys) {
    struct kv_file *f = of_tier(tier);
    pthread_mutex_lock(&f->lock);
    struct entry *entry = entry_of(f, block);
    f->caches[block.cache].named[block.layer] = keys;
    if (entry->wanted != keys) {
        f->stats.chosen_blocks++;
        f->stats.recurring_blocks += entry->wanted + 1 == keys;
        entry->wanted = keys;
    }
    pthread_mutex_unlock(&f->lock);
}

/* ---- the thread that reads ahead ------------------------------------------------------------ */

/* Returns whether a block that is wanted is in the file alone. */
static bool is_away(const struct kv_file *f, struct kv_block b) {
    const struct entry *entry = entry_of(f, b);
    return entry->frame == NONE && entry->stored && is_wanted(f, b);
}

/* Finds the next block, behind the cursor and up to the end of the next layer, that is in the file
 * alone. */
static bool find_away(const struct kv_file *f, struct kv_block *block) {
    struct kv_block at = f->cursor;
    const size_t pages = f->caches[at.cache].pages;
    for (size_t layer = 0; layer < smaller(2, f->layers); layer++) {
        for (at.page = layer == 0 ? f->cursor.page : 0; at.page < pages; at.page++)
            if (is_away(f, at)) {
                *block = at;
                return true;
            }
        at.layer = (at.layer + 1) % f->layers;
    }
    return false;
}

/* Brings some blocks. Returns false if there are none, or no frames for them. */
static bool read_ahead(struct kv_file *f) {
    struct frame *frames[MOST_GATHERED];
    struct kv_block block;
    const size_t most = smaller(larger(GATHERED_BYTES / f->block_bytes, 1), (size_t)MOST_GATHERED);
    size_t n = 0;
    if (f->failed || f->n_caches == 0 || !find_away(f, &block))
        return false;
    const size_t until = layers_until(f, block) + 1;
    for (; n < most && block.page < f->caches[block.cache].pages && is_away(f, block);
         block.page++) {
        struct frame *frame = take_frame(f, block, until);
        if (!frame)
            break;
        frame->ahead = true;
        frames[n++] = frame;
    }
    if (n > 0)
        read_blocks(f, frames, n);
    return n > 0;
}

static void *run_reader(void *context) {
    struct kv_file *f = context;
    pthread_mutex_lock(&f->lock);
    while (!f->ending)
        if (!read_ahead(f))
            pthread_cond_wait(&f->moved, &f->lock);
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

/* ---- caches --------------------------------------------------------------------------------- */

static wisp_status open_cache(struct kv_tier *tier, size_t *cache, wisp_error *error) {
    struct kv_file *f = of_tier(tier);
    wisp_status status = WISP_OK;
    pthread_mutex_lock(&f->lock);
    size_t i = 0;
    while (i < f->n_caches && f->caches[i].open)
        i++;
    if (i == f->n_caches) {
        struct cache *grown = realloc(f->caches, (i + 1) * sizeof *grown);
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
        f->caches[i] = (struct cache){.open = true, .named = named};
        *cache = i;
    } else
        free(named);
    pthread_mutex_unlock(&f->lock);
    return status;
}

/* Takes frames and contents from the pages of a cache from `pages` on. */
static void forget_pages(struct kv_file *f, size_t cache, size_t pages) {
    const struct cache *c = &f->caches[cache];
    for (size_t i = 0; i < f->n_frames; i++) {
        struct frame *frame = &f->frames[i];
        while (frame->taken && frame->moving && frame->block.cache == cache &&
               frame->block.page >= pages)
            pthread_cond_wait(&f->changed, &f->lock);
        if (frame->taken && frame->block.cache == cache && frame->block.page >= pages)
            lose_frame(f, frame);
    }
    for (size_t i = pages * f->layers; i < c->pages * f->layers; i++)
        c->entries[i] = (struct entry){.frame = NONE};
    for (size_t i = 0; i < f->layers; i++)
        c->named[i] = 0;
}

static void forget(struct kv_tier *tier, size_t cache, size_t pages) {
    struct kv_file *f = of_tier(tier);
    pthread_mutex_lock(&f->lock);
    forget_pages(f, cache, pages);
    pthread_mutex_unlock(&f->lock);
}

static void close_cache(struct kv_tier *tier, size_t cache) {
    struct kv_file *f = of_tier(tier);
    pthread_mutex_lock(&f->lock);
    forget_pages(f, cache, 0);
    free(f->caches[cache].entries);
    free(f->caches[cache].named);
    f->caches[cache] = (struct cache){0};
    pthread_mutex_unlock(&f->lock);
}

static wisp_status reserve(struct kv_tier *tier, size_t cache, size_t pages, wisp_error *error) {
    struct kv_file *f = of_tier(tier);
    if (getpid() != f->process)
        return fail(error, WISP_ERROR_UNSUPPORTED, f->folder, "kv_memory",
                    "a session with a limit of keys and values stays with the process that opened "
                    "it");
    if (pages > f->most_pages)
        return fail(error, WISP_ERROR_ARGUMENT, f->folder, "kv_memory",
                    "%zu pages of a text, and the model's context has %zu", pages, f->most_pages);
    pthread_mutex_lock(&f->lock);
    struct cache *c = &f->caches[cache];
    wisp_status status = WISP_OK;
    if (pages > c->pages) {
        const size_t n = pages * f->layers;
        struct entry *grown = realloc(c->entries, n * sizeof *grown);
        if (!grown)
            status = fail_memory(error, n * sizeof *grown);
        else {
            for (size_t i = c->pages * f->layers; i < n; i++)
                grown[i] = (struct entry){.frame = NONE};
            c->entries = grown;
            c->pages = pages;
        }
    }
    pthread_mutex_unlock(&f->lock);
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
    pthread_mutex_lock(&f->lock);
    for (size_t i = 0; i < f->n_caches; i++)
        forget_pages(f, i, 0);
    for (size_t i = 0; i < f->n_frames; i++)
        f->frames[i].holders = 0;
    f->failed = false;
    pthread_mutex_unlock(&f->lock);
}

static void get_stats(struct kv_tier *tier, wisp_kv_stats *stats) {
    struct kv_file *f = of_tier(tier);
    pthread_mutex_lock(&f->lock);
    *stats = f->stats;
    for (size_t i = 0; i < f->n_frames; i++)
        stats->resident_bytes += f->frames[i].bytes ? f->block_bytes : 0;
    pthread_mutex_unlock(&f->lock);
}

static void close_file(struct kv_tier *tier) {
    struct kv_file *f = of_tier(tier);
    if (f->reading && getpid() == f->process) {
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

/* Opens a tier for blocks of these bytes, of which `bytes` have frames. */
static wisp_status open_tier(const struct kv_shape *shape, uint64_t bytes, size_t most_tokens,
                             const char *folder, struct kv_tier **tier, wisp_error *error) {
    struct kv_file *f = calloc(1, sizeof *f);
    if (!f)
        return fail_memory(error, sizeof *f);
    *f = (struct kv_file){.tier = functions,
                          .layers = shape->layers,
                          .block_bytes = kv_block_bytes(shape),
                          .most_pages = most_tokens / KV_PAGE + 1,
                          .file = -1,
                          .folder = strdup(folder),
                          .process = getpid()};
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    pthread_cond_init(&f->moved, NULL);
    const uint64_t frames = bytes / f->block_bytes;
    f->n_frames = frames < INT32_MAX ? (size_t)frames : INT32_MAX;
    f->frames = calloc(f->n_frames, sizeof *f->frames);
    f->zeros = memory_allocate_zeros(f->block_bytes);
    wisp_status status = f->folder && f->frames && f->zeros
                             ? scratch_file_open(folder, &f->file, error)
                             : fail_memory(error, f->n_frames * sizeof *f->frames);
    if (status == WISP_OK) {
        f->reading = quiet_thread_start(&f->reader, NULL, run_reader, f);
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
    if (bytes < kv_block_bytes(shape))
        return fail(error, WISP_ERROR_ARGUMENT, session->model->dir.file, "kv_memory",
                    "%llu bytes; the least is a block of %zu: %d tokens of a layer",
                    (unsigned long long)bytes, kv_block_bytes(shape), KV_PAGE);
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
