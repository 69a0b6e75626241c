/* SPDX-License-Identifier: Apache-2.0
 * Slices of keys and values, their frames of memory, and the thread that reads slices ahead.
 * Callers of the functions hold the lock. */
#ifndef WISP_NATIVE_KV_FRAMES_H
#define WISP_NATIVE_KV_FRAMES_H

#include <pthread.h>
#include <sys/types.h>

#include "attention/kv_tier.h"

enum { KV_NO_FRAME = -1 };

/* The state of a slice. */
struct kv_entry {
    int32_t frame; /* KV_NO_FRAME: it has none */
    bool stored;   /* the file has it, as it was when its frame was evicted */
    uint64_t sum;  /* its checksum then */
    size_t wanted; /* the keys of the token that named it last; 0: none has */
};

/* Memory of a slice. */
struct kv_frame {
    struct kv_slice slice;
    unsigned char *bytes; /* NULL: not allocated yet */
    unsigned holders;
    bool taken;  /* it has a slice */
    bool moving; /* its bytes are being read or written; whoever wants the slice waits */
    bool dirty;  /* the file does not have these bytes */
    bool ahead;  /* it was read before anyone asked for it */
    uint64_t used;
};

struct kv_pages {
    struct kv_entry *entries; /* [pages][layers] */
    size_t pages;
    size_t written; /* the page that was written last, to which most tokens are added */
    size_t *named;  /* [layers]: the keys of the token that named slices last; 0: all are wanted */
    bool open;
};

struct kv_file {
    struct kv_tier tier;
    size_t layers, slice_bytes, most_pages;
    int file;
    const char *folder; /* in errors; owned */
    pid_t process;
    struct kv_pages *caches; /* [n_caches] */
    size_t n_caches;
    struct kv_frame *frames; /* [n_frames] */
    size_t n_frames;
    unsigned char *zeros; /* what is read after a failure */
    uint64_t clock;
    struct kv_slice cursor; /* the slice that was asked for last */
    bool failed;
    wisp_error failure;
    wisp_kv_stats stats;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* of frames */
    pthread_cond_t moved;   /* the cursor has */
    pthread_t reader;       /* reads slices ahead */
    bool reading, ending;
};

/* Returns the state of a slice. */
static inline struct kv_entry *kv_entry_of(const struct kv_file *f, struct kv_slice b) {
    return &f->caches[b.cache].entries[b.page * f->layers + b.layer];
}

/* Returns whether the next token that reads the slice's layer may read it. */
static inline bool kv_is_wanted(const struct kv_file *f, struct kv_slice b) {
    const size_t named = f->caches[b.cache].named[b.layer];
    return named == 0 || kv_entry_of(f, b)->wanted == named;
}

/* Reads a slice that has no frame into one, or clears the frame if the file does not have the
 * slice. If no frame is free, waits for a change. Releases the lock meanwhile. */
void kv_bring(struct kv_file *f, struct kv_slice slice);

/* Takes the frame from its slice, without writing it. */
void kv_lose_frame(struct kv_file *f, struct kv_frame *frame);

/* Reads ahead of the cursor, in a thread of its own, until the file ends. `context`: struct
 * kv_file. */
void *kv_read_ahead(void *context);

#endif
