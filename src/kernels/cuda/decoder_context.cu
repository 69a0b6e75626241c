/* SPDX-License-Identifier: Apache-2.0
 * Contexts: the working memory of steps, and pages of keys and values. */
#include <algorithm>
#include <new>
#include <string.h>

#include "kernels/cuda/decoder.h"
#include "kernels/cuda/decoder_product.h"

/* Partial results of attention take at most so many bytes, unless one row has more. */
static const size_t most_part_bytes = (size_t)64 << 20;

/* ---- contexts ------------------------------------------------------------------------------- */

static void memory_release(step_memory *m) {
    cudaFreeHost(m->staged_index);
    cudaFreeHost(m->staged_pages);
    cudaFreeHost(m->kept_logits);
    cudaFree(m->index);
    cudaFree(m->pages);
    cudaFree(m->h);
    cudaFree(m->x.q);
    cudaFree(m->x.scale);
    cudaFree(m->x.halves);
    cudaFree(m->staged);
    cudaFree(m->qkv);
    cudaFree(m->gate_up);
    cudaFree(m->part);
    cudaFree(m->state);
    cudaFree(m->logits);
    cudaFreeHost(m->kept_computed);
    cudaFree(m->slices);
    cudaFree(m->bins);
    cudaFree(m->computed);
    *m = step_memory();
}

device_status context_open(const device_decoder *decoder, device_context **context, char message[DEVICE_MESSAGE_BYTES]) {
    *context = NULL;
    DEVICE_TRY(runtime_check(cudaSetDevice(0), "choosing the device", message));
    device_context *c = new (std::nothrow) device_context();
    if (!c)
        return device_fail(DEVICE_NO_MEMORY, message, "the host has no memory for a context");
    c->decoder = decoder;
    const device_status status = runtime_check(cudaStreamCreate(&c->stream), "making a stream", message);
    if (status == DEVICE_OK)
        *context = c;
    else
        delete c;
    return status;
}

uint64_t context_bytes(const device_context *c) { return c->page_bytes + c->memory.bytes; }

void context_close(device_context *c) {
    if (!c)
        return;
    cudaSetDevice(0);
    while (!c->sequences.empty())
        sequence_close(c->sequences.back());
    graphs_release(c);
    memory_release(&c->memory);
    cudaStreamDestroy(c->stream);
    delete c;
}

/* ---- sequences ------------------------------------------------------------------------------ */

/* Returns the halves of a page. */
static size_t page_size(const device_decoder_shape &s) {
    return (size_t)s.layers * s.kv_heads * 2 * PAGE * s.head_size;
}

device_status sequence_open(device_context *context, device_sequence **sequence, char message[DEVICE_MESSAGE_BYTES]) {
    *sequence = new (std::nothrow) device_sequence();
    if (!*sequence)
        return device_fail(DEVICE_NO_MEMORY, message, "the host has no memory for a sequence");
    (*sequence)->context = context;
    context->sequences.push_back(*sequence);
    return DEVICE_OK;
}

void sequence_close(device_sequence *sequence) {
    if (!sequence)
        return;
    device_context *c = sequence->context;
    cudaSetDevice(0);
    for (uint16_t *page : sequence->pages)
        cudaFree(page);
    c->page_bytes -= sequence->pages.size() * page_size(c->decoder->shape) * sizeof(uint16_t);
    c->sequences.erase(std::find(c->sequences.begin(), c->sequences.end(), sequence));
    delete sequence;
}

device_status sequence_reserve(device_sequence *sequence, size_t tokens, char message[DEVICE_MESSAGE_BYTES]) {
    device_context *c = sequence->context;
    if (tokens > c->decoder->shape.positions)
        return device_fail(DEVICE_UNSUPPORTED, message, "a text longer than the model's positions");
    DEVICE_TRY(runtime_check(cudaSetDevice(0), "choosing the device", message)); /* threads choose for themselves */
    while (sequence->pages.size() * PAGE < tokens) {
        uint16_t *page;
        DEVICE_TRY(runtime_allocate(&page, page_size(c->decoder->shape), &c->page_bytes, message));
        sequence->pages.push_back(page);
    }
    return DEVICE_OK;
}

device_status sequence_copy(device_sequence *to, const device_sequence *from, size_t first, size_t end,
                            char message[DEVICE_MESSAGE_BYTES]) {
    const size_t bytes = page_size(to->context->decoder->shape) * sizeof(uint16_t);
    DEVICE_TRY(runtime_check(cudaSetDevice(0), "choosing the device", message));
    for (size_t page = first / PAGE; page * PAGE < end; page++)
        DEVICE_TRY(runtime_check(cudaMemcpyAsync(to->pages[page], from->pages[page], bytes, cudaMemcpyDeviceToDevice,
                                                 to->context->stream),
                                 "copying keys and values", message));
    return DEVICE_OK;
}

/* ---- steps ---------------------------------------------------------------------------------- */

template <class T> static device_status take_host(T **p, size_t count, char message[DEVICE_MESSAGE_BYTES]) {
    const cudaError_t error = cudaMallocHost(p, count * sizeof(T));
    if (error != cudaSuccess) {
        *p = NULL;
        cudaGetLastError();
    }
    return runtime_check(error, "allocating memory of the host that the device reads", message);
}

/* Takes memory of the device that begins as zeros. */
template <class T> static device_status take_zeros(T **p, size_t count, uint64_t *total, char message[DEVICE_MESSAGE_BYTES]) {
    DEVICE_TRY(runtime_allocate(p, count, total, message));
    return runtime_check(cudaMemset(*p, 0, count * sizeof(T)), "clearing memory of the device", message);
}

static device_status take_sparse(const device_decoder_shape &s, step_memory *m, char message[DEVICE_MESSAGE_BYTES]) {
    DEVICE_TRY(take_host(&m->kept_computed, s.layers, message));
    DEVICE_TRY(runtime_allocate(&m->slices, gather_slices(&s) * s.hidden_size, &m->bytes, message));
    DEVICE_TRY(take_zeros(&m->bins, SCORE_BINS, &m->bytes, message));
    return runtime_allocate(&m->computed, s.layers, &m->bytes, message);
}

static device_status memory_take(const device_decoder *d, step_memory *m, char message[DEVICE_MESSAGE_BYTES]) {
    const device_decoder_shape &s = d->shape;
    const size_t q = (size_t)s.heads * s.head_size, kv = (size_t)s.kv_heads * s.head_size;
    const size_t widest = std::max(q, (size_t)std::max(s.hidden_size, s.intermediate_size));
    DEVICE_TRY(take_host(&m->staged_index, m->index_size(s.layers), message));
    DEVICE_TRY(take_host(&m->staged_pages, m->texts * m->page_slots, message));
    DEVICE_TRY(take_host(&m->kept_logits, m->logit_rows * s.vocabulary_size, message));
    DEVICE_TRY(runtime_allocate(&m->index, m->index_size(s.layers), &m->bytes, message));
    DEVICE_TRY(runtime_allocate(&m->pages, m->texts * m->page_slots, &m->bytes, message));
    DEVICE_TRY(runtime_allocate(&m->h, m->rows * s.hidden_size, &m->bytes, message));
    DEVICE_TRY(runtime_allocate(&m->qkv, m->rows * (q + 2 * kv), &m->bytes, message));
    DEVICE_TRY(runtime_allocate(&m->gate_up, m->rows * 2 * s.intermediate_size, &m->bytes, message));
    DEVICE_TRY(runtime_allocate(&m->part, m->split_rows * q, &m->bytes, message));
    DEVICE_TRY(runtime_allocate(&m->state, m->split_rows * s.heads, &m->bytes, message));
    DEVICE_TRY(runtime_allocate(&m->logits, m->logit_rows * s.vocabulary_size, &m->bytes, message));
    if (s.sparse)
        DEVICE_TRY(take_sparse(s, m, message));
    if (d->warpgroups && m->rows > MMA_ROWS)
        DEVICE_TRY(runtime_allocate(&m->staged, m->rows * widest, &m->bytes, message));
    if (s.halves)
        return runtime_allocate(&m->x.halves, m->rows * widest, &m->bytes, message);
    DEVICE_TRY(runtime_allocate(&m->x.q, m->rows * widest, &m->bytes, message));
    return runtime_allocate(&m->x.scale, m->rows * widest / VALUES, &m->bytes, message);
}

/* Gives a context room for a step. After an error it has none. */
static device_status memory_reserve(device_context *c, const step_plan &plan, size_t page_slots,
                                    char message[DEVICE_MESSAGE_BYTES]) {
    const device_decoder_shape &s = c->decoder->shape;
    step_memory *m = &c->memory;
    const size_t row_bytes = (size_t)s.heads * s.head_size * sizeof(float);
    const size_t most_rows = std::max(most_part_bytes / row_bytes, plan.splits);
    const size_t split_rows = std::min(plan.rows * plan.splits, most_rows);
    if (m->rows >= plan.rows && m->texts >= plan.texts && m->page_slots >= page_slots && m->logit_rows >= plan.logit_rows &&
        m->split_rows >= split_rows)
        return DEVICE_OK;
    step_memory larger = step_memory();
    larger.rows = std::max(m->rows, plan.rows);
    larger.texts = std::max(m->texts, plan.texts);
    larger.page_slots = std::max(m->page_slots, 2 * page_slots); /* texts grow */
    larger.logit_rows = std::max(m->logit_rows, plan.logit_rows);
    larger.split_rows = std::max(m->split_rows, split_rows);
    graphs_release(c);
    memory_release(m);
    *m = larger;
    const device_status status = memory_take(c->decoder, m, message);
    if (status != DEVICE_OK)
        memory_release(m);
    return status;
}

static size_t power_above(size_t n) {
    size_t power = 1;
    while (power < n)
        power *= 2;
    return power;
}

/* Returns the tiles of a step: their first rows, and the number of their rows. With `to` they are written there. */
static size_t stage_tiles(const device_step *step, int32_t *to) {
    size_t n = 0;
    for (size_t i = 0; i < step->texts; i++)
        for (size_t row = step->starts[i]; row < step->starts[i + 1]; row += PROMPT_ROWS, n++)
            if (to) {
                to[2 * n] = (int32_t)row;
                to[2 * n + 1] = (int32_t)std::min(step->starts[i + 1] - row, (size_t)PROMPT_ROWS);
            }
    return n;
}

/* Writes what the kernels of a step are told to the memory of the host. */
static void stage(const device_context *c, const device_step *step) {
    const step_memory &m = c->memory;
    int32_t *ids = m.staged_index, *position = ids + m.rows, *text = position + m.rows, *logit_row = text + m.rows;
    for (size_t i = 0; i < step->texts; i++) {
        const device_sequence *sequence = step->sequences[i];
        std::copy(sequence->pages.begin(), sequence->pages.end(), m.staged_pages + i * m.page_slots);
        for (size_t t = step->starts[i]; t < step->starts[i + 1]; t++) {
            ids[t] = step->ids[t];
            position[t] = (int32_t)(step->lengths[i] + t - step->starts[i]);
            text[t] = (int32_t)i;
        }
        logit_row[i] = (int32_t)step->starts[i + 1] - 1;
    }
    for (size_t t = 0; step->all_logits && t < step->starts[step->texts]; t++)
        logit_row[t] = (int32_t)t;
    stage_tiles(step, ids + m.tiles_at());
    if (step->least)
        memcpy(ids + m.limits_at(), step->least, c->decoder->shape.layers * sizeof(float));
}

/* Fails if a text has no room for its tokens, or an id is not a token: a kernel would write anywhere. */
static device_status check_step(const device_context *c, const device_step *step, char message[DEVICE_MESSAGE_BYTES]) {
    for (size_t i = 0; i < step->texts; i++) {
        const size_t n = step->starts[i + 1] - step->starts[i];
        if (n == 0 || step->sequences[i]->pages.size() * PAGE < step->lengths[i] + n)
            return device_fail(DEVICE_UNSUPPORTED, message, "a text has no room for its tokens");
    }
    for (size_t t = 0; t < step->starts[step->texts]; t++)
        if (step->ids[t] < 0 || (uint32_t)step->ids[t] >= c->decoder->shape.vocabulary_size)
            return device_fail(DEVICE_UNSUPPORTED, message, "an id that is not a token");
    return DEVICE_OK;
}

device_status context_step(device_context *c, const device_step *step, const float **logits,
                           char message[DEVICE_MESSAGE_BYTES]) {
    const device_decoder_shape &s = c->decoder->shape;
    const size_t rows = step->starts[step->texts];
    step_plan plan = {rows, step->texts, step->all_logits ? rows : step->texts, stage_tiles(step, NULL), 0, 0,
                      s.sparse && step->least};
    if (s.sparse && !step->least && step->neurons < s.intermediate_size)
        plan.neurons = step->neurons;
    size_t page_slots = 0;
    DEVICE_TRY(check_step(c, step, message));
    for (size_t i = 0; i < step->texts; i++) {
        const size_t tokens = step->lengths[i] + step->starts[i + 1] - step->starts[i];
        plan.splits = std::max(plan.splits, (tokens + SPLIT - 1) / SPLIT);
        page_slots = std::max(page_slots, step->sequences[i]->pages.size());
    }
    plan.splits = power_above(plan.splits); /* so that there are few graphs */
    DEVICE_TRY(runtime_check(cudaSetDevice(0), "choosing the device", message));
    DEVICE_TRY(memory_reserve(c, plan, page_slots, message));
    const step_memory &m = c->memory;
    stage(c, step);
    DEVICE_TRY(runtime_check(cudaMemcpyAsync(m.index, m.staged_index, m.index_size(s.layers) * sizeof(int32_t),
                                             cudaMemcpyHostToDevice, c->stream),
                             "copying tokens", message));
    DEVICE_TRY(runtime_check(cudaMemcpyAsync(m.pages, m.staged_pages, plan.texts * m.page_slots * sizeof(uint16_t *),
                                             cudaMemcpyHostToDevice, c->stream),
                             "copying the list of pages", message));
    if (plan.leaves_out())
        DEVICE_TRY(runtime_check(cudaMemsetAsync(m.computed, 0, s.layers * sizeof(uint32_t), c->stream), "clearing counts",
                                 message));
    DEVICE_TRY(decoder_run(c, &plan, message));
    if (plan.leaves_out() && step->computed)
        DEVICE_TRY(runtime_check(cudaMemcpyAsync(m.kept_computed, m.computed, s.layers * sizeof(uint32_t),
                                                 cudaMemcpyDeviceToHost, c->stream),
                                 "copying counts", message));
    if (logits) {
        const size_t bytes = plan.logit_rows * s.vocabulary_size * sizeof(float);
        DEVICE_TRY(runtime_check(cudaMemcpyAsync(m.kept_logits, m.logits, bytes, cudaMemcpyDeviceToHost, c->stream),
                                 "copying logits", message));
        *logits = m.kept_logits;
    }
    DEVICE_TRY(runtime_check(cudaStreamSynchronize(c->stream), "computing a step", message));
    for (uint32_t l = 0; l < s.layers && step->computed; l++)
        step->computed[l] = plan.leaves_out() ? m.kept_computed[l] : (uint32_t)rows * s.intermediate_size;
    return DEVICE_OK;
}
