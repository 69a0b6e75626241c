/* SPDX-License-Identifier: Apache-2.0
 * Names the bytes that a call of wisp_embed waits for, and takes them (sparse/neuron_cold.h). */
#include <stdlib.h>

#include "base/checksum.h"
#include "engine/session.h"

/* Ranges are not joined beyond this length, so that they can be read into a buffer. The chunks that
 * one row is in may be longer. */
static const uint64_t MOST_RANGE_BYTES = UINT64_C(1) << 20;

static int compare_ranges(const void *a, const void *b) {
    const wisp_range *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Returns how many rows a pass waits for, and writes their ranges to `ranges` unless that is NULL.
 * Until the tokens are looked up, they are rows of token embeddings; then they are of the neurons
 * that the pass holds. */
static size_t absent_rows(struct pass *pass, wisp_range *ranges) {
    const struct network *network = pass->network;
    if (pass_cursor(pass).block == PASS_EMBED)
        return token_embedding_hold(&network->tokens, pass->batch.ids + pass->looked_up,
                                    pass_tokens_to_look_up(pass), ranges);
    if (ranges)
        return neuron_hold_ranges(&network->neurons, &pass->hold, ranges);
    neuron_hold_count(&network->neurons, &pass->hold);
    return pass->hold.n_absent;
}

/* Makes room for the ranges of n rows. */
static wisp_status reserve_needs(struct needs *needs, size_t n, wisp_error *error) {
    if (n <= needs->capacity)
        return WISP_OK;
    free(needs->ranges);
    *needs = (struct needs){.ranges = malloc(n * sizeof *needs->ranges)};
    if (!needs->ranges)
        return fail_memory(error, n * sizeof *needs->ranges);
    needs->capacity = n;
    return WISP_OK;
}

/* Makes of the ranges of n rows those that are to be read. Returns their number. */
static size_t join_ranges(wisp_session *session, size_t n, uint64_t gap) {
    struct needs *needs = &session->needs;
    const struct chunks *chunks = &session->model->chunks;
    size_t count = 0;
    for (size_t i = 0; i < n && chunks->digests; i++)
        needs->ranges[i] = chunks_around(chunks, needs->ranges[i]);
    if (n > 0)
        qsort(needs->ranges, n, sizeof *needs->ranges, compare_ranges);
    for (size_t i = 0; i < n; i++) {
        const wisp_range next = needs->ranges[i];
        wisp_range *last = count > 0 ? &needs->ranges[count - 1] : NULL;
        const uint64_t end = last ? last->offset + last->length : 0;
        const uint64_t joined = last ? next.offset + next.length - last->offset : 0;
        /* Several workers may wait for one row, and several rows for one chunk. */
        if (last && next.offset + next.length <= end)
            continue;
        /* A row whose chunks no longer fit has a range of its own with all of them. */
        if (last && (next.offset <= end || next.offset - end <= gap) && joined <= MOST_RANGE_BYTES)
            last->length = joined;
        else
            needs->ranges[count++] = next;
    }
    return count;
}

wisp_status wisp_session_needs(wisp_session *session, uint64_t gap, const wisp_range **ranges,
                               size_t *count, wisp_error *error) {
    TRY(require(session, "session", error));
    TRY(require((const void *)ranges, "ranges", error));
    TRY(require(count, "count", error));
    struct needs *needs = &session->needs;
    size_t absent = 0, n = 0;
    *count = 0;
    for (uint32_t i = 0; i < session->n_workers; i++)
        if (session->workers[i].waits)
            absent += absent_rows(&session->workers[i].pass, NULL);
    TRY(reserve_needs(needs, absent, error));
    for (uint32_t i = 0; i < session->n_workers; i++)
        if (session->workers[i].waits)
            n += absent_rows(&session->workers[i].pass, needs->ranges + n);
    *count = join_ranges(session, n, gap);
    *ranges = needs->ranges;
    return WISP_OK;
}

wisp_status wisp_session_text_needs(wisp_session *session, wisp_text text, uint64_t gap,
                                    const wisp_range **ranges, size_t *count, wisp_error *error) {
    TRY(require(session, "session", error));
    TRY(require_texts(&text, 1, error));
    TRY(require((const void *)ranges, "ranges", error));
    TRY(require(count, "count", error));
    const wisp_model *model = session->model;
    const size_t most = model->max_tokens;
    *count = 0;
    TRY(reserve_needs(&session->needs, most, error));
    int32_t *ids = malloc(most * sizeof *ids);
    if (!ids)
        return fail_memory(error, most * sizeof *ids);
    size_t n;
    const wisp_status status = wisp_tokenize(model, text, ids, most, &n, error);
    if (status == WISP_OK) {
        n = token_embedding_absent(&model->network.tokens, ids, n, session->needs.ranges);
        *count = join_ranges(session, n, gap);
        *ranges = session->needs.ranges;
    }
    free(ids);
    return status;
}

/* Compares chunk i, which is a cold one, with its digest. If memory is limited the same chunks
 * are read over and over, and a checksum takes a twentieth of the time of SHA-256: it serves from
 * the second time on, but not for what a server sends again, which may be chosen by whom checksums
 * do not stop. */
static wisp_status check_chunk(wisp_session *session, uint64_t i, const unsigned char *bytes,
                               wisp_error *error) {
    const struct directory *dir = &session->model->dir;
    const struct chunks *chunks = &session->model->chunks;
    if (dir->n_sources == 0 || !source_reads_again(&dir->sources[0]))
        return chunk_check(dir, chunks, i, bytes, error);
    const uint64_t sum = checksum(bytes, (size_t)chunk_range(chunks, i).length);
    if (!session->chunk_sums)
        session->chunk_sums = calloc((size_t)(chunks->n - chunks->n_hot), sizeof sum);
    if (!session->chunk_sums)
        return fail_memory(error, (size_t)(chunks->n - chunks->n_hot) * sizeof sum);
    uint64_t *known = &session->chunk_sums[i - chunks->n_hot];
    if (sum != 0 && sum == *known)
        return WISP_OK;
    TRY(chunk_check(dir, chunks, i, bytes, error));
    *known = sum;
    return WISP_OK;
}

/* Compares the cold chunks that are wholly within bytes [offset, offset + length) of the file with
 * their digests, and sets *checked to the range of them, which has no bytes if there are none.
 */
static wisp_status check_chunks(wisp_session *session, uint64_t offset, const unsigned char *bytes,
                                size_t length, wisp_range *checked, wisp_error *error) {
    const struct chunks *chunks = &session->model->chunks;
    const uint64_t end = offset + length, first = offset > chunks->cold ? offset : chunks->cold;
    for (uint64_t i = first < chunks->end ? chunk_at(chunks, first) : chunks->n; i < chunks->n;
         i++) {
        const wisp_range chunk = chunk_range(chunks, i);
        if (chunk.offset + chunk.length > end)
            break;
        if (chunk.offset < offset)
            continue;
        TRY(check_chunk(session, i, bytes + (chunk.offset - offset), error));
        if (checked->length == 0)
            checked->offset = chunk.offset;
        checked->length += chunk.length;
    }
    return WISP_OK;
}

wisp_status wisp_session_provide(wisp_session *session, uint64_t offset, const void *bytes,
                                 size_t length, wisp_error *error) {
    TRY(require(session, "session", error));
    if (length > 0)
        TRY(require(bytes, "bytes", error));
    const struct directory *dir = &session->model->dir;
    if (!dir->residency.lacks_rows)
        return fail(error, WISP_ERROR_ARGUMENT, dir->file, "session",
                    "the model was opened with all of its neurons");
    if (length > UINT64_MAX - offset)
        return fail(error, WISP_ERROR_ARGUMENT, dir->file, "offset",
                    "%zu bytes from %llu on end past 2^64", length, (unsigned long long)offset);
    const struct chunks *chunks = &session->model->chunks;
    const unsigned char *from = bytes;
    if (chunks->digests) {
        /* Only rows in cold chunks that came whole are taken, and none if a chunk is wrong. */
        wisp_range checked = {0};
        TRY(check_chunks(session, offset, bytes, length, &checked, error));
        from += checked.length > 0 ? checked.offset - offset : 0;
        offset = checked.offset;
        length = (size_t)checked.length;
    }
    const struct network *network = &session->model->network;
    token_embedding_provide(&network->tokens, offset, from, length);
    return network->neurons.cold
               ? neuron_cold_provide(&network->neurons, offset, from, length, error)
               : WISP_OK;
}
