/* SPDX-License-Identifier: Apache-2.0
 * Passes go from layer to layer, and begin with the first again. So the slice that is needed last
 * is one of the layer that has just been left, and its frame is evicted: layers that fit stay in
 * memory for good, and the others take turns in the frames that are left. A thread reads the
 * slices of the rest of the layer and of the next one while a layer is computed, several that are
 * one after the other in the file at a time.
 *
 * If tokens name the slices that they will read, the others are evicted first and are not read
 * ahead; those of the next layer are expected to be the ones that the token before has named
 * there. */
#include "native/kv_frames.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "attention/kv_cache.h"
#include "base/checked.h"
#include "base/checksum.h"
#include "base/clock.h"
#include "base/memory.h"
#include "host/fail_errno.h"
#include "host/read_at.h"

enum {
    GATHERED_BYTES = 256 * 1024, /* that one read brings, as far as slices are together */
    MOST_GATHERED = 16           /* slices */
};

static uint64_t offset_of(const struct kv_file *f, struct kv_slice b) {
    return (((uint64_t)b.cache * f->layers + b.layer) * f->most_pages + b.page) * f->slice_bytes;
}

/* Keeps the first failure. */
static void keep_failure(struct kv_file *f, const wisp_error *failure) {
    if (!f->failed)
        f->failure = *failure;
    f->failed = true;
    pthread_cond_broadcast(&f->changed);
}

/* ---- frames --------------------------------------------------------------------------------- */

/* Returns how many layers a pass computes before it needs a slice again. */
static size_t layers_until(const struct kv_file *f, struct kv_slice b) {
    return (b.layer + f->layers - f->cursor.layer) % f->layers;
}

static bool grows(const struct kv_file *f, struct kv_slice b) {
    return f->caches[b.cache].written == b.page;
}

/* Returns whether frame a is evicted before b: tokens are added to b and not to
 * a, so that b would be written again; or b is wanted and a is not; or a is needed later or, of one
 * layer, was used later. */
static bool goes_before(const struct kv_file *f, const struct kv_frame *a,
                        const struct kv_frame *b) {
    const size_t x = layers_until(f, a->slice), y = layers_until(f, b->slice);
    if (grows(f, a->slice) != grows(f, b->slice))
        return grows(f, b->slice);
    if (kv_is_wanted(f, a->slice) != kv_is_wanted(f, b->slice))
        return kv_is_wanted(f, b->slice);
    return x != y ? x > y : a->used > b->used;
}

/* Returns a frame that has no slice, or the slice that is needed last, and not before `until`
 * layers are computed, unless it is not wanted. Returns NULL if there is none. */
static struct kv_frame *find_frame(const struct kv_file *f, size_t until) {
    struct kv_frame *best = NULL;
    for (size_t i = 0; i < f->n_frames; i++) {
        struct kv_frame *frame = &f->frames[i];
        if (!frame->taken)
            return frame;
        if (frame->holders == 0 && !frame->moving &&
            (layers_until(f, frame->slice) >= until || !kv_is_wanted(f, frame->slice)) &&
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

/* Writes a frame's slice to the file, if that has not its bytes, and takes the frame from it. The
 * lock is released meanwhile. Returns false after a failure; then the frame keeps the slice. */
static bool evict(struct kv_file *f, struct kv_frame *frame) {
    struct kv_entry *entry = kv_entry_of(f, frame->slice);
    if (frame->dirty) {
        const struct kv_slice slice = frame->slice;
        frame->moving = true;
        pthread_mutex_unlock(&f->lock);
        const uint64_t sum = checksum(frame->bytes, f->slice_bytes);
        wisp_error error;
        const bool written = write_at(f->file, offset_of(f, slice), frame->bytes, f->slice_bytes);
        if (!written)
            (void)fail_errno(&error, f->folder, "write keys and values to a file in this folder");
        pthread_mutex_lock(&f->lock);
        frame->moving = false;
        pthread_cond_broadcast(&f->changed);
        if (!written) {
            keep_failure(f, &error);
            return false;
        }
        entry = kv_entry_of(f, slice); /* the table may have moved */
        entry->stored = true;
        entry->sum = sum;
        frame->dirty = false;
        f->stats.written_bytes += f->slice_bytes;
    }
    entry->frame = KV_NO_FRAME;
    frame->taken = false;
    return true;
}

/* Gives a slice a frame, whose bytes are to be filled: it is moving. Returns NULL if there is none
 * now, or after a failure. The lock may be released meanwhile. */
static struct kv_frame *take_frame(struct kv_file *f, struct kv_slice slice, size_t until) {
    struct kv_frame *frame = find_frame(f, until);
    if (!frame)
        return NULL;
    if (frame->taken && !evict(f, frame))
        return NULL;
    /* Meanwhile another thread may have brought the slice, or closed its cache. */
    if (slice.page >= f->caches[slice.cache].pages || kv_entry_of(f, slice)->frame != KV_NO_FRAME)
        return NULL;
    if (!frame->bytes && !(frame->bytes = memory_allocate_zeros(f->slice_bytes))) {
        wisp_error error;
        (void)fail_memory(&error, f->slice_bytes);
        keep_failure(f, &error);
        return NULL;
    }
    *frame = (struct kv_frame){
        .slice = slice, .bytes = frame->bytes, .taken = true, .moving = true, .used = ++f->clock};
    kv_entry_of(f, slice)->frame = (int32_t)(frame - f->frames);
    return frame;
}

void kv_lose_frame(struct kv_file *f, struct kv_frame *frame) {
    kv_entry_of(f, frame->slice)->frame = KV_NO_FRAME;
    frame->taken = frame->moving = false;
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Reads n slices of one layer, whose pages follow each other, to their frames, which are moving.
 * The lock is released meanwhile. */
static void read_slices(struct kv_file *f, struct kv_frame *const *frames, size_t n) {
    struct iovec parts[MOST_GATHERED];
    uint64_t sums[MOST_GATHERED];
    const uint64_t offset = offset_of(f, frames[0]->slice);
    wisp_error error;
    for (size_t i = 0; i < n; i++) {
        parts[i] = (struct iovec){frames[i]->bytes, f->slice_bytes};
        sums[i] = kv_entry_of(f, frames[i]->slice)->sum;
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
        const size_t begin = i * f->slice_bytes;
        const size_t have = (size_t)got > begin ? smaller((size_t)got - begin, f->slice_bytes) : 0;
        const int rest = have == f->slice_bytes
                             ? 0
                             : read_at(f->file, offset + begin + have, frames[i]->bytes + have,
                                       f->slice_bytes - have);
        if (rest == -1)
            status =
                fail_errno(&error, f->folder, "read keys and values from a file in this folder");
        else if (rest != 0 || checksum(frames[i]->bytes, f->slice_bytes) != sums[i])
            status = fail(&error, WISP_ERROR_IO, f->folder, "keys and values",
                          "the file in this folder was cut or changed: the checksum of layer %zu, "
                          "positions from %zu on, is wrong",
                          frames[i]->slice.layer, frames[i]->slice.page * KV_PAGE);
    }
    const double seconds = clock_seconds() - start;
    pthread_mutex_lock(&f->lock);
    f->stats.read_seconds += seconds;
    f->stats.reads++;
    f->stats.read_bytes += status == WISP_OK ? n * f->slice_bytes : 0;
    for (size_t i = 0; i < n; i++) {
        frames[i]->moving = false;
        if (status != WISP_OK)
            kv_lose_frame(f, frames[i]);
    }
    if (status != WISP_OK)
        keep_failure(f, &error);
    pthread_cond_broadcast(&f->changed);
}
void kv_bring(struct kv_file *f, struct kv_slice slice) {
    struct kv_frame *frame = take_frame(f, slice, 0);
    if (!frame) {
        if (!f->failed && kv_entry_of(f, slice)->frame == KV_NO_FRAME)
            pthread_cond_wait(&f->changed, &f->lock);
        return;
    }
    if (kv_entry_of(f, slice)->stored) {
        read_slices(f, &frame, 1);
        return;
    }
    memset(frame->bytes, 0, f->slice_bytes);
    frame->moving = false;
}
/* ---- the thread that reads ahead ------------------------------------------------------------ */

/* Returns whether a wanted slice is only in the file. */
static bool is_away(const struct kv_file *f, struct kv_slice b) {
    const struct kv_entry *entry = kv_entry_of(f, b);
    return entry->frame == KV_NO_FRAME && entry->stored && kv_is_wanted(f, b);
}

/* Finds the next slice, behind the cursor and up to the end of the next layer, that is in the file
 * alone. */
static bool find_away(const struct kv_file *f, struct kv_slice *slice) {
    struct kv_slice at = f->cursor;
    const size_t pages = f->caches[at.cache].pages;
    for (size_t layer = 0; layer < smaller(2, f->layers); layer++) {
        for (at.page = layer == 0 ? f->cursor.page : 0; at.page < pages; at.page++)
            if (is_away(f, at)) {
                *slice = at;
                return true;
            }
        at.layer = (at.layer + 1) % f->layers;
    }
    return false;
}

/* Brings some slices. Returns false if there are none, or no frames for them. */
static bool read_ahead(struct kv_file *f) {
    struct kv_frame *frames[MOST_GATHERED];
    struct kv_slice slice;
    const size_t most = smaller(larger(GATHERED_BYTES / f->slice_bytes, 1), (size_t)MOST_GATHERED);
    size_t n = 0;
    if (f->failed || f->n_caches == 0 || !find_away(f, &slice))
        return false;
    const size_t until = layers_until(f, slice) + 1;
    for (; n < most && slice.page < f->caches[slice.cache].pages && is_away(f, slice);
         slice.page++) {
        struct kv_frame *frame = take_frame(f, slice, until);
        if (!frame)
            break;
        /* While another slice was written its text may have been forgotten. */
        if (!kv_entry_of(f, slice)->stored) {
            kv_lose_frame(f, frame);
            pthread_cond_broadcast(&f->changed);
            break;
        }
        frame->ahead = true;
        frames[n++] = frame;
    }
    if (n > 0)
        read_slices(f, frames, n);
    return n > 0;
}

void *kv_read_ahead(void *context) {
    struct kv_file *f = context;
    pthread_mutex_lock(&f->lock);
    while (!f->ending)
        if (!read_ahead(f))
            pthread_cond_wait(&f->moved, &f->lock);
    pthread_mutex_unlock(&f->lock);
    return NULL;
}
