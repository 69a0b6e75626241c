/* SPDX-License-Identifier: Apache-2.0
 * Batches on lanes: working memory, the copies in and out, and passes of as many texts as fit. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/encoder.h"

/* More tokens in a pass fill the device better, and take about 6 KB each. */
static const size_t default_pass_tokens = 65536, least_pass_tokens = 256;

static size_t tiles_of(size_t tokens) { return (tokens + QUERY_TILE - 1) / QUERY_TILE; }

/* Returns how many int32 the index of a pass has: ids, positions, starts, skipped, and the tiles of attention, of which a
 * text may have one that is not full. */
static size_t index_size(size_t tokens, size_t texts) {
    return 2 * tokens + 2 * texts + 2 + 2 * (tokens / QUERY_TILE + texts);
}

void lane_release(device_lane *lane) {
    cudaFree(lane->index);
    cudaFreeHost(lane->staged);
    cudaFreeHost(lane->staged_rows);
    cudaFree(lane->x);
    cudaFree(lane->qkv);
    cudaFree(lane->context);
    cudaFree(lane->y);
    cudaFree(lane->q);
    cudaFree(lane->q_scale);
    cudaFree(lane->inner);
    cudaFree(lane->inner_step);
    cudaFree(lane->rows);
    const cudaStream_t stream = lane->stream;
    const bool busy = lane->busy;
    *lane = device_lane();
    lane->stream = stream;
    lane->busy = busy;
}

static device_status take_host(void **p, size_t bytes, char message[DEVICE_MESSAGE_BYTES]) {
    const cudaError_t error = cudaMallocHost(p, bytes);
    if (error != cudaSuccess) {
        *p = NULL;
        cudaGetLastError();
    }
    return runtime_check(error, "allocating memory of the host that the device reads", message);
}

static device_status lane_take(const device_encoder *e, device_lane *l, char message[DEVICE_MESSAGE_BYTES]) {
    const device_shape *s = &e->shape;
    const size_t t = l->tokens, h = s->hidden_size, inner = s->intermediate_size;
    const size_t index = index_size(t, l->texts);
    DEVICE_TRY(take_host((void **)&l->staged, index * sizeof(int32_t), message));
    DEVICE_TRY(take_host((void **)&l->staged_rows, l->texts * l->dimensions * sizeof(float), message));
    DEVICE_TRY(runtime_allocate(&l->index, index, &l->bytes, message));
    DEVICE_TRY(runtime_allocate(&l->rows, l->texts * l->dimensions, &l->bytes, message));
    DEVICE_TRY(runtime_allocate(&l->x, t * h, &l->bytes, message));
    DEVICE_TRY(runtime_allocate(&l->qkv, t * 3 * h, &l->bytes, message));
    DEVICE_TRY(runtime_allocate(&l->context, t * h, &l->bytes, message));
    DEVICE_TRY(runtime_allocate(&l->inner, t * inner * (s->int8 ? 1 : 2), &l->bytes, message));
    if (!e->fused_norm)
        DEVICE_TRY(runtime_allocate(&l->y, t * h, &l->bytes, message));
    if (!s->int8)
        return DEVICE_OK;
    DEVICE_TRY(runtime_allocate(&l->q, t * h, &l->bytes, message));
    DEVICE_TRY(runtime_allocate(&l->q_scale, t * (h / GROUP), &l->bytes, message));
    return runtime_allocate(&l->inner_step, t * (inner / GROUP), &l->bytes, message);
}

/* Gives the lane room for a pass. After an error it has none. */
static device_status lane_reserve(const device_encoder *e, device_lane *lane, size_t tokens, size_t texts,
                                  size_t dimensions, char message[DEVICE_MESSAGE_BYTES]) {
    if (lane->tokens >= tokens && lane->texts >= texts && lane->dimensions >= dimensions)
        return DEVICE_OK;
    const size_t most_tokens = tokens > lane->tokens ? tokens : lane->tokens;
    const size_t most_texts = texts > lane->texts ? texts : lane->texts;
    const size_t most_dimensions = dimensions > lane->dimensions ? dimensions : lane->dimensions;
    lane_release(lane);
    lane->tokens = most_tokens;
    lane->texts = most_texts;
    lane->dimensions = most_dimensions;
    const device_status status = lane_take(e, lane, message);
    if (status != DEVICE_OK)
        lane_release(lane);
    return status;
}

/* Writes the index of texts [first, end) and points the pass to its parts on the device. */
static void write_index(const device_lane *lane, const device_batch *batch, size_t first, size_t end, device_pass *pass) {
    const size_t begin = batch->starts[first];
    int32_t *ids = lane->staged, *position = ids + pass->tokens, *starts = position + pass->tokens;
    int32_t *skipped = starts + pass->texts + 1;
    /* A pair of int32 is 8 bytes, and so is its alignment. */
    size_t tile_at = (size_t)(skipped + pass->texts - lane->staged);
    tile_at += tile_at % 2;
    int32_t *tile = lane->staged + tile_at;
    memcpy(ids, batch->ids + begin, pass->tokens * sizeof *ids);
    for (size_t i = first; i < end; i++) {
        const size_t start = batch->starts[i] - begin, length = batch->starts[i + 1] - batch->starts[i];
        starts[i - first] = (int32_t)start;
        skipped[i - first] = batch->skipped ? (int32_t)batch->skipped[i] : 0;
        for (size_t t = 0; t < length; t++)
            position[start + t] = (int32_t)t;
        for (size_t t = 0; t < tiles_of(length); t++, pass->tiles++) {
            tile[2 * pass->tiles] = (int32_t)(i - first);
            tile[2 * pass->tiles + 1] = (int32_t)(t * QUERY_TILE);
        }
    }
    starts[end - first] = (int32_t)pass->tokens;
    pass->ids = lane->index;
    pass->position = lane->index + (position - lane->staged);
    pass->starts = lane->index + (starts - lane->staged);
    pass->skipped = lane->index + (skipped - lane->staged);
    pass->tile = (const int2 *)(lane->index + tile_at);
}

/* Computes texts [first, end) of the batch and waits for their rows. */
static device_status run_pass(const device_encoder *e, device_lane *lane, const device_batch *batch, size_t first,
                              size_t end, char message[DEVICE_MESSAGE_BYTES]) {
    device_pass pass = {};
    pass.tokens = batch->starts[end] - batch->starts[first];
    pass.texts = end - first;
    pass.dimensions = batch->dimensions;
    pass.normalize = batch->normalize;
    DEVICE_TRY(lane_reserve(e, lane, pass.tokens, pass.texts, pass.dimensions, message));
    write_index(lane, batch, first, end, &pass);
    const size_t index_bytes = index_size(pass.tokens, pass.texts) * sizeof(int32_t);
    const size_t row_bytes = pass.texts * pass.dimensions * sizeof(float);
    DEVICE_TRY(runtime_check(cudaMemcpyAsync(lane->index, lane->staged, index_bytes, cudaMemcpyHostToDevice, lane->stream),
                             "copying tokens", message));
    DEVICE_TRY(encoder_run(e, lane, &pass, message));
    DEVICE_TRY(runtime_check(
        cudaMemcpyAsync(lane->staged_rows, lane->rows, row_bytes, cudaMemcpyDeviceToHost, lane->stream), "copying rows",
        message));
    DEVICE_TRY(runtime_check(cudaStreamSynchronize(lane->stream), "computing a batch", message));
    memcpy(batch->rows + first * pass.dimensions, lane->staged_rows, row_bytes);
    return DEVICE_OK;
}

static device_lane *lane_wait(device_encoder *e) {
    std::unique_lock<std::mutex> lock(e->mutex);
    for (;;) {
        for (device_lane &lane : e->lanes)
            if (!lane.busy) {
                lane.busy = true;
                return &lane;
            }
        e->freed.wait(lock);
    }
}

static void lane_free(device_encoder *e, device_lane *lane) {
    {
        const std::lock_guard<std::mutex> lock(e->mutex);
        lane->busy = false;
    }
    e->freed.notify_one();
}

/* Returns the end of the texts from `first` on that have at most `tokens` tokens together, and at least one text. */
static size_t pass_end(const device_batch *batch, size_t first, size_t tokens) {
    size_t end = first + 1;
    while (end < batch->texts && batch->starts[end + 1] - batch->starts[first] <= tokens)
        end++;
    return end;
}

device_status encoder_embed(device_encoder *e, const device_batch *batch, char message[DEVICE_MESSAGE_BYTES]) {
    DEVICE_TRY(runtime_check(cudaSetDevice(0), "choosing the device", message)); /* threads choose for themselves */
    device_lane *lane = lane_wait(e);
    size_t tokens = e->shape.pass_tokens > 0 ? e->shape.pass_tokens : default_pass_tokens;
    device_status status = DEVICE_OK;
    for (size_t first = 0, end; first < batch->texts && status == DEVICE_OK; first = end) {
        end = pass_end(batch, first, tokens);
        status = run_pass(e, lane, batch, first, end, message);
        /* A device that is short of memory may have enough for fewer texts at a time. */
        while (status == DEVICE_NO_MEMORY && end - first > 1 && tokens > least_pass_tokens) {
            tokens /= 2;
            end = pass_end(batch, first, tokens);
            status = run_pass(e, lane, batch, first, end, message);
        }
    }
    lane_free(e, lane);
    return status;
}
