/* SPDX-License-Identifier: Apache-2.0
 * Times decoders of the device library on random weights of the sizes of models that people have: tokens per second of
 * prompts and of single tokens of one text and of several, with the bytes that a step has to read beside it.
 *
 *     bench_decoder [NAME]   one of the models below, else all */
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "kernels/cuda/runtime.h"

extern "C" const device_library *wisp_device_library(void);

static char message[DEVICE_MESSAGE_BYTES];
static const device_decoder_library *library;

static void check(device_status status) {
    if (status != DEVICE_OK) {
        fprintf(stderr, "%s\n", message);
        exit(1);
    }
}

static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static uint32_t next_random() {
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

static uint16_t half_of(float x) { return (uint16_t)halves_of(x, 0); }

/* Rows of random blocks as GGUF files have them, with weights of about 1 / sqrt(columns). */
static std::vector<unsigned char> random_rows(device_format format, size_t rows, size_t columns) {
    const size_t bytes = format == DEVICE_F16 ? 64 : format == DEVICE_Q8_0 ? 34 : 18, blocks = rows * columns / 32;
    const float scale = 1 / sqrtf((float)columns);
    std::vector<unsigned char> all(blocks * bytes);
    for (size_t i = 0; i < blocks; i++) {
        unsigned char *block = &all[i * bytes];
        const uint16_t own = half_of(scale / (format == DEVICE_Q8_0 ? 73.0f : 4.6f));
        for (size_t k = 0; k < bytes; k++)
            block[k] = (unsigned char)(next_random() & 0xff);
        for (size_t k = 0; k < 32 && format == DEVICE_F16; k++) {
            const uint16_t weight = half_of(scale * ((float)(next_random() & 0xffff) / 32768.0f - 1));
            memcpy(block + 2 * k, &weight, sizeof weight);
        }
        if (format != DEVICE_F16)
            memcpy(block, &own, sizeof own);
    }
    return all;
}

/* Sets a matrix, with the same random rows again and again. Returns its bytes. */
static double put_matrix(device_decoder *d, device_decoder_tensor tensor, uint32_t layer, device_format format, size_t rows,
                         size_t columns) {
    static std::vector<unsigned char> some;
    static size_t made_columns;
    const size_t at_once = 256;
    if (made_columns != columns || some.empty())
        some = random_rows(format, at_once, made_columns = columns);
    for (size_t first = 0; first < rows; first += at_once)
        check(library->put(d, tensor, layer, format, first, std::min(at_once, rows - first), some.data(), message));
    return (double)rows * (double)(some.size() / at_once);
}

static void put_vector(device_decoder *d, device_decoder_tensor tensor, uint32_t layer, size_t rows, size_t columns,
                       float value) {
    const std::vector<float> values(rows * columns, value);
    check(library->put(d, tensor, layer, DEVICE_F32, 0, rows, values.data(), message));
}

/* Opens a decoder whose token embeddings are its logits' matrix, too. *bytes are those of the weights that a step reads. */
static device_decoder *open_decoder(const device_decoder_shape &s, device_format format, double *bytes) {
    const size_t h = s.hidden_size, inner = s.intermediate_size, q = s.heads * s.head_size, kv = s.kv_heads * s.head_size;
    device_decoder *d;
    check(library->open(&s, &d, message));
    *bytes = put_matrix(d, DECODER_TOKENS, 0, format, s.vocabulary_size, h);
    put_vector(d, DECODER_OUTPUT_NORM, 0, 1, h, 1);
    put_vector(d, DECODER_ROTATIONS, 0, s.positions, s.head_size, 0.7f);
    const struct {
        device_decoder_tensor tensor;
        size_t rows, columns;
    } matrices[] = {{DECODER_Q, q, h}, {DECODER_K, kv, h}, {DECODER_V, kv, h}, {DECODER_OUTPUT, h, q},
                    {DECODER_GATE, inner, h}, {DECODER_UP, inner, h}, {DECODER_DOWN, h, inner}};
    for (const auto &m : matrices) /* matrix by matrix, so that few random rows are made */
        for (uint32_t l = 0; l < s.layers; l++)
            *bytes += put_matrix(d, m.tensor, l, format, m.rows, m.columns);
    for (uint32_t l = 0; l < s.layers; l++) {
        put_vector(d, DECODER_ATTENTION_NORM, l, 1, h, 1);
        put_vector(d, DECODER_FFN_NORM, l, 1, h, 1);
        for (int norm = 0; norm < 2 && s.qk_norm; norm++)
            put_vector(d, norm ? DECODER_K_NORM : DECODER_Q_NORM, l, 1, s.head_size, 1);
    }
    return d;
}

enum { PROMPT = 256, STEPS = 64, WARM = 8 };

/* Which neurons are computed, as in device_step. */
struct choice {
    uint32_t neurons;
    const float *least;
};

/* Returns the median seconds of a step that adds one token to each of so many texts of about PROMPT tokens. With `fetch`
 * logits are copied to the host. */
static double time_steps(device_context *context, const std::vector<device_sequence *> &texts, const choice &c, bool fetch) {
    std::vector<int32_t> ids(texts.size());
    std::vector<size_t> starts, lengths(texts.size(), PROMPT);
    std::vector<double> seconds;
    for (size_t i = 0; i <= texts.size(); i++)
        starts.push_back(i);
    for (int i = 0; i < STEPS + WARM; i++) {
        for (int32_t &id : ids)
            id = (int32_t)(next_random() % 1000);
        const device_step step = {texts.size(), ids.data(), starts.data(), texts.data(), lengths.data(), false, c.least, c.neurons, NULL};
        const float *logits;
        const double start = now();
        check(library->step(context, &step, fetch ? &logits : NULL, message));
        if (i >= WARM)
            seconds.push_back(now() - start);
        for (size_t &length : lengths)
            length++;
    }
    std::sort(seconds.begin(), seconds.end());
    return seconds[seconds.size() / 2];
}

/* Returns the seconds in which a prompt is read. */
static double time_prompt(device_context *context, device_sequence *text, size_t tokens, size_t at) {
    std::vector<int32_t> ids(tokens);
    const size_t starts[] = {0, tokens};
    double best = 1e9;
    for (int i = 0; i < 4; i++) {
        for (int32_t &id : ids)
            id = (int32_t)(next_random() % 1000);
        const device_step step = {1, ids.data(), starts, &text, &at, false, NULL, 0, NULL};
        const float *logits;
        const double start = now();
        check(library->step(context, &step, &logits, message));
        best = i > 0 ? std::min(best, now() - start) : best;
    }
    return best;
}

/* Returns the share of neurons that a text's step computes. */
static double computed_share(device_context *context, device_sequence *text, const device_decoder_shape &shape, const choice &c) {
    std::vector<uint32_t> computed(shape.layers);
    const int32_t id = 17;
    const size_t starts[] = {0, 1}, length = PROMPT;
    const device_step step = {1, &id, starts, &text, &length, false, c.least, c.neurons, computed.data()};
    double all = 0;
    check(library->step(context, &step, NULL, message));
    for (uint32_t n : computed)
        all += n;
    return all / shape.layers / shape.intermediate_size;
}

/* Times steps that compute a share of the neurons: by number, and by limits, which are found by halving. */
static void bench_sparse(device_context *context, const std::vector<device_sequence *> &all, const device_decoder_shape &shape,
                         uint32_t share) {
    float low = 0, high = 8;
    std::vector<float> limits(shape.layers);
    for (int i = 0; i < 20; i++) {
        limits.assign(shape.layers, (low + high) / 2);
        (computed_share(context, all[0], shape, {0, limits.data()}) > share / 100.0 ? low : high) = limits[0];
    }
    const choice by_number = {shape.intermediate_size * share / 100, NULL}, by_limit = {0, limits.data()};
    printf("  %u %% of neurons are by number %.1f %%, by limit %.1f %%\n", share,
           100 * computed_share(context, all[0], shape, by_number), 100 * computed_share(context, all[0], shape, by_limit));
    for (const choice &c : {by_number, by_limit})
        for (const size_t count : {(size_t)1, (size_t)4, (size_t)16}) {
            const std::vector<device_sequence *> texts(all.begin(), all.begin() + (ptrdiff_t)count);
            const double seconds = time_steps(context, texts, c, false);
            printf("  %u %% by %s, %2zu texts, logits left %8.3f ms %8.0f tokens/s\n", share, c.least ? "limit " : "number", count,
                   seconds * 1e3, (double)count / seconds);
        }
}

static void bench(const char *name, const device_decoder_shape &shape, device_format format) {
    double bytes;
    const double opened = now();
    device_decoder *d = open_decoder(shape, format, &bytes);
    device_context *context;
    check(library->context_open(d, &context, message));
    printf("%s: %.0f MB of weights that a step reads, put in %.1f s\n", name, bytes / 1e6, now() - opened);
    std::vector<device_sequence *> all(16);
    for (device_sequence *&text : all) {
        check(library->sequence_open(context, &text, message));
        check(library->sequence_reserve(text, PROMPT + STEPS + WARM, message));
    }
    check(library->sequence_reserve(all[0], 2048, message));
    for (const size_t tokens : {(size_t)64, (size_t)512}) {
        const double seconds = time_prompt(context, all[0], tokens, 0);
        printf("  prompt of %4zu tokens             %8.3f ms %8.0f tokens/s\n", tokens, seconds * 1e3, (double)tokens / seconds);
    }
    const double late = time_prompt(context, all[0], 512, 1536);
    printf("  512 tokens behind 1,536          %8.3f ms %8.0f tokens/s\n", late * 1e3, 512 / late);
    time_prompt(context, all[0], PROMPT, 0);
    const double kv_bytes = 4.0 * shape.layers * shape.kv_heads * shape.head_size * (PROMPT + STEPS / 2);
    for (const size_t count : {(size_t)1, (size_t)2, (size_t)4, (size_t)8, (size_t)9, (size_t)16}) {
        const std::vector<device_sequence *> texts(all.begin(), all.begin() + (ptrdiff_t)count);
        for (const bool fetch : {false, true}) {
            const double seconds = time_steps(context, texts, {0, NULL}, fetch), read = bytes + kv_bytes * (double)count;
            printf("  dense, %2zu texts, logits %-8s %8.3f ms %8.0f tokens/s %7.0f GB/s; %6.3f ms at 3.35 TB/s\n", count,
                   fetch ? "fetched" : "left", seconds * 1e3, (double)count / seconds, read / seconds / 1e9, read / 3.35e9);
        }
    }
    for (const uint32_t share : {50u, 25u})
        if (shape.sparse)
            bench_sparse(context, all, shape, share);
    library->context_close(context);
    library->close(d);
}

int main(int argc, char **argv) {
    library = &wisp_device_library()->decoder;
    char name[DEVICE_MESSAGE_BYTES];
    check(wisp_device_library()->describe(0, name, message));
    printf("%s\n", name);
    static const struct {
        const char *name;
        device_decoder_shape shape;
        device_format format;
    } models[] = {
        {"SmolLM2-135M-Q8_0", {576, 1536, 30, 9, 3, 64, 49152, 8192, 64, true, false, false, false, true, DEVICE_GATE_SILU, 1e-5f, 0.125f}, DEVICE_Q8_0},
        {"SmolLM2-135M-Q4_0", {576, 1536, 30, 9, 3, 64, 49152, 8192, 64, true, false, false, false, false, DEVICE_GATE_SILU, 1e-5f, 0.125f}, DEVICE_Q4_0},
        {"Qwen3-0.6B-Q8_0", {1024, 3072, 28, 16, 8, 128, 151936, 8192, 128, false, false, true, false, true, DEVICE_GATE_SILU, 1e-6f, 0.088f}, DEVICE_Q8_0},
        {"Qwen3-0.6B-Q4_0", {1024, 3072, 28, 16, 8, 128, 151936, 8192, 128, false, false, true, false, false, DEVICE_GATE_SILU, 1e-6f, 0.088f}, DEVICE_Q4_0},
        {"Qwen3-0.6B-F16", {1024, 3072, 28, 16, 8, 128, 151936, 8192, 128, false, false, true, true, false, DEVICE_GATE_SILU, 1e-6f, 0.088f}, DEVICE_F16},
        {"Qwen3-8B-Q8_0", {4096, 12288, 36, 32, 8, 128, 151936, 8192, 128, false, false, true, false, true, DEVICE_GATE_SILU, 1e-6f, 0.088f}, DEVICE_Q8_0},
    };
    for (const auto &m : models)
        if (argc < 2 || strcmp(argv[1], m.name) == 0)
            bench(m.name, m.shape, m.format);
    return 0;
}
