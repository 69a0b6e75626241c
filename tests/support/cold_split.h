/* SPDX-License-Identifier: Apache-2.0
 * Models whose cold neurons are not in memory, for tests that bring them when they are needed. */
#ifndef TESTS_COLD_SPLIT_H
#define TESTS_COLD_SPLIT_H

#include <stdatomic.h>

#include "engine/model.h"
#include "support/sparse_models.h"

enum { COLD_HOT_TOKENS = 11 };

/* A file, and a copy of its bytes before the first cold one that ends where they end, so that
 * sanitizers see reads beyond them. */
struct split {
    unsigned char *bytes, *hot;
    atomic_uchar *came; /* [size]: 1 for a byte that split_provide has brought, from any thread */
    size_t size;
    uint64_t hot_bytes;
    char path[256];
};

/* Makes a file of a cold_model: with digests of chunks of so many bytes and with cold tokens, or,
 * for 0, with neither. */
struct split split_open(const char *activation, bool by_text, uint32_t type, uint32_t chunk_bytes);

void split_close(struct split *split);

/* Returns the hot bytes as a source in memory or, with `by_read`, as one that is read. */
wisp_source split_source(const struct split *split, bool by_read);

/* Returns a source that has the hot bytes, and keeps those that split_provide brings. It may
 * change, and says no byte that has not come. */
wisp_source split_keeping_source(const struct split *split);

/* Opens a model of a source that is right. */
wisp_model *open_of_source(const wisp_source *source, const wisp_model_options *options);

/* Opens a model of the hot bytes. */
wisp_model *split_open_model(const struct split *split, bool by_read, wisp_predictor predictor);

wisp_session *open_cold_session(const wisp_model *model, uint32_t threads, bool skip);
wisp_cold_stats cold_stats_of(const wisp_model *model);
wisp_layer_stats layer_stats_of(const wisp_session *session, uint32_t layer);

/* Overwrites what neuron_cold_limit gives back, so that a neuron that is read after its eviction
 * shows. */
void spoil_block(void *block, size_t bytes);

/* Brings the bytes of a range to a session. */
wisp_status split_provide(wisp_session *session, const struct split *split, wisp_range range);

/* Brings the ranges that a session needs in a random order, of which some come later: at least one,
 * and every one in the end. Checks that they are sorted, apart and within cold rows. */
void split_provide_some(wisp_session *session, const struct split *split, uint64_t gap,
                        uint64_t *random);

/* Embeds all texts, and brings the ranges that are needed. Returns how often the call waited. */
size_t split_embed(wisp_session *session, const struct split *split, const struct texts *texts,
                   uint64_t gap, uint64_t *random, float *rows);

#endif
