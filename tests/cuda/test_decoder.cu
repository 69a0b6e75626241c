/* SPDX-License-Identifier: Apache-2.0
 * Whole decoders through the device library's table, against a reference in double, on random weights. */
#include <algorithm>

#include "decoder_case.h"
#include "orders.h"

extern "C" const device_library *wisp_device_library(void);

static char message[DEVICE_MESSAGE_BYTES];
static const device_decoder_library *library;

typedef std::vector<double> row;

/* ---- the reference -------------------------------------------------------------------------- */

/* y = W x + b, where the bias may be empty. */
static row dense(const row &x, const stored_tensor &w, const std::vector<float> &bias) {
    enum { LANES = 8 }; /* sums beside each other, which a compiler makes vectors of; sizes are multiples of 32 */
    row y(w.rows);
    for (size_t o = 0; o < y.size(); o++) {
        const float *weights = &w.values[o * x.size()];
        double sums[LANES] = {};
        for (size_t i = 0; i < x.size(); i += LANES)
            for (size_t lane = 0; lane < LANES; lane++)
                sums[lane] += x[i + lane] * (double)weights[i + lane];
        y[o] = bias.empty() ? 0 : (double)bias[o];
        for (double sum : sums)
            y[o] += sum;
    }
    return y;
}

static row rms_norm(const row &x, const std::vector<float> &weight, double epsilon) {
    double squares = 0;
    for (double v : x)
        squares += v * v / (double)x.size();
    row y(x.size());
    for (size_t i = 0; i < x.size(); i++)
        y[i] = x[i] / sqrt(squares + epsilon) * (double)weight[i];
    return y;
}

/* A head of queries or keys at a position: normalised if there is a norm, and rotated. */
static row placed(const decoder_case &c, const row &all, size_t head, const std::vector<float> &norm, size_t position) {
    const device_decoder_shape &s = c.shape;
    row x(all.begin() + (ptrdiff_t)(head * s.head_size), all.begin() + (ptrdiff_t)((head + 1) * s.head_size));
    if (s.qk_norm)
        x = rms_norm(x, norm, s.norm_epsilon);
    const float *table = &c.values(DECODER_ROTATIONS)[position * s.head_size];
    const size_t half = s.rotary_size / 2;
    for (size_t i = 0; i < half; i++) {
        double &a = x[s.neighbours ? 2 * i : i], &b = x[s.neighbours ? 2 * i + 1 : i + half];
        const double cosine = table[i], sine = table[half + i], a0 = a;
        a = a0 * cosine - b * sine;
        b = b * cosine + a0 * sine;
    }
    return x;
}

static double gated(double x, int gate) {
    const double positive = x > 0 ? x : 0;
    return gate == DEVICE_GATE_SILU ? x / (1 + exp(-x)) : gate == DEVICE_GATE_RELU ? positive : positive * positive;
}

/* The keys and values of a layer: [positions][kv_heads]. */
struct reference_cache {
    std::vector<std::vector<row>> keys, values;
};

static row attend(const decoder_case &c, const row &q, const reference_cache &cache, size_t layer, size_t position) {
    const device_decoder_shape &s = c.shape;
    row context(s.heads * s.head_size);
    for (size_t head = 0; head < s.heads; head++) {
        const row query = placed(c, q, head, c.values(DECODER_Q_NORM, layer), position);
        const size_t kv_head = head / (s.heads / s.kv_heads);
        row weight(position + 1);
        double sum = 0;
        for (size_t k = 0; k <= position; k++) {
            for (size_t i = 0; i < s.head_size; i++)
                weight[k] += query[i] * cache.keys[k][kv_head][i];
            sum += weight[k] = exp(weight[k] * (double)s.attention_scale);
        }
        for (size_t k = 0; k <= position; k++)
            for (size_t i = 0; i < s.head_size; i++)
                context[head * s.head_size + i] += weight[k] / sum * cache.values[k][kv_head][i];
    }
    return context;
}

/* Sets all values to 0 but those of the neurons that a sparse step computes. */
static void choose_neurons(const decoder_case &c, row &opened, size_t layer, size_t most) {
    const std::vector<float> &weight = c.values(DECODER_NEURON_WEIGHTS, layer);
    row score;
    for (size_t i = 0; i < opened.size(); i++)
        score.push_back(fabs(opened[i] * (weight.empty() ? 1 : (double)weight[i])));
    row sorted = score;
    std::sort(sorted.rbegin(), sorted.rend());
    for (size_t i = 0; i < opened.size(); i++)
        opened[i] = score[i] >= sorted[most - 1] ? opened[i] : 0;
}

/* Returns the logits after each id of a text. Half of the neurons are computed of tokens from `dense_tokens` on. */
static std::vector<row> reference(const decoder_case &c, const std::vector<int32_t> &ids, size_t dense_tokens) {
    const device_decoder_shape &s = c.shape;
    std::vector<reference_cache> caches(s.layers);
    std::vector<row> logits;
    for (size_t t = 0; t < ids.size(); t++) {
        row h(s.hidden_size);
        for (size_t i = 0; i < h.size(); i++)
            h[i] = c.values(DECODER_TOKENS)[(size_t)ids[t] * h.size() + i];
        for (size_t l = 0; l < s.layers; l++) {
            const auto &w = c.layers[l];
            const row x = rms_norm(h, w[DECODER_ATTENTION_NORM].values, s.norm_epsilon);
            const row k = dense(x, w[DECODER_K], w[DECODER_K_BIAS].values), v = dense(x, w[DECODER_V], w[DECODER_V_BIAS].values);
            std::vector<row> keys, values;
            for (size_t head = 0; head < s.kv_heads; head++) {
                keys.push_back(placed(c, k, head, w[DECODER_K_NORM].values, t));
                values.emplace_back(v.begin() + (ptrdiff_t)(head * s.head_size), v.begin() + (ptrdiff_t)((head + 1) * s.head_size));
            }
            caches[l].keys.push_back(keys);
            caches[l].values.push_back(values);
            const row context = attend(c, dense(x, w[DECODER_Q], w[DECODER_Q_BIAS].values), caches[l], l, t);
            const row y = dense(context, w[DECODER_OUTPUT], {});
            for (size_t i = 0; i < h.size(); i++)
                h[i] += y[i];
            const row x2 = rms_norm(h, w[DECODER_FFN_NORM].values, s.norm_epsilon);
            row inner = dense(x2, w[DECODER_GATE], {});
            const row up = dense(x2, w[DECODER_UP], {});
            for (size_t i = 0; i < inner.size(); i++)
                inner[i] = gated(inner[i], s.gate);
            if (t >= dense_tokens)
                choose_neurons(c, inner, l, inner.size() / 2);
            for (size_t i = 0; i < inner.size(); i++)
                inner[i] *= up[i];
            const row down = dense(inner, w[DECODER_DOWN], {});
            for (size_t i = 0; i < h.size(); i++)
                h[i] += down[i];
        }
        logits.push_back(dense(rms_norm(h, c.values(DECODER_OUTPUT_NORM), s.norm_epsilon),
                               c.layers[0][c.tied ? DECODER_TOKENS : DECODER_LOGITS], {}));
    }
    return logits;
}

/* ---- the device ----------------------------------------------------------------------------- */

struct text {
    device_sequence *sequence;
    std::vector<int32_t> ids;
};

struct addition {
    text *to;
    std::vector<int32_t> ids;
};

/* Which neurons steps compute, and how many of them they say that they did. */
struct choice {
    uint32_t neurons;
    const float *least;
    std::vector<uint32_t> computed;
};

/* Adds ids to texts in one step. Returns the logits, row after row. */
static std::vector<float> add(const decoder_case &c, device_context *context, const std::vector<addition> &additions,
                              bool all, choice *chosen = nullptr) {
    std::vector<int32_t> ids;
    std::vector<size_t> starts = {0}, lengths;
    std::vector<device_sequence *> sequences;
    for (const addition &a : additions) {
        ids.insert(ids.end(), a.ids.begin(), a.ids.end());
        starts.push_back(ids.size());
        lengths.push_back(a.to->ids.size());
        sequences.push_back(a.to->sequence);
        CHECK(library->sequence_reserve(a.to->sequence, a.to->ids.size() + a.ids.size(), message) == DEVICE_OK, "%s", message);
        a.to->ids.insert(a.to->ids.end(), a.ids.begin(), a.ids.end());
    }
    device_step step = {additions.size(), ids.data(), starts.data(), sequences.data(), lengths.data(), all, nullptr, 0, nullptr};
    if (chosen) {
        chosen->computed.assign(c.shape.layers, 0);
        step.least = chosen->least;
        step.neurons = chosen->neurons;
        step.computed = chosen->computed.data();
    }
    const float *logits;
    CHECK(library->step(context, &step, &logits, message) == DEVICE_OK, "%s", message);
    return {logits, logits + (all ? ids.size() : additions.size()) * c.shape.vocabulary_size};
}

static text new_text(device_context *context) {
    text t = {nullptr, {}};
    CHECK(library->sequence_open(context, &t.sequence, message) == DEVICE_OK, "%s", message);
    return t;
}

static std::vector<int32_t> random_ids(random_source &r, const decoder_case &c, int n) {
    std::vector<int32_t> ids;
    for (int i = 0; i < n; i++)
        ids.push_back(r.below((int)c.shape.vocabulary_size));
    return ids;
}

/* Returns whether a row of logits has the bits of another. */
static bool same_row(const decoder_case &c, const std::vector<float> &a, size_t row, const std::vector<float> &b, size_t other) {
    const size_t n = c.shape.vocabulary_size;
    return memcmp(&a[row * n], &b[other * n], n * sizeof(float)) == 0;
}

/* Tokens that are added one by one are near those of a prompt, `expected`, and have the same bits beside other texts,
 * in a copy, and after ids that were taken back. */
static void test_bits(random_source &r, const decoder_case &c, device_context *context, const std::vector<int32_t> &ids,
                      const std::vector<float> &expected) {
    const size_t n = ids.size(), first = n - 3, vocabulary = c.shape.vocabulary_size;
    text other = new_text(context), copy = new_text(context), whole = new_text(context), alone = new_text(context);
    const std::vector<int32_t> beginning(ids.begin(), ids.begin() + (ptrdiff_t)first);
    add(c, context, {{&other, random_ids(r, c, 5)}, {&whole, beginning}}, false);
    add(c, context, {{&alone, beginning}, {&other, random_ids(r, c, 9)}}, false);
    CHECK(library->sequence_reserve(copy.sequence, n, message) == DEVICE_OK, "%s", message);
    CHECK(library->sequence_copy(copy.sequence, whole.sequence, 0, first, message) == DEVICE_OK, "%s", message);
    copy.ids = whole.ids;
    add(c, context, {{&whole, random_ids(r, c, 2)}}, false);
    whole.ids.resize(first); /* takes them back */
    std::vector<float> all;
    for (size_t t = first; t < n; t++) {
        const auto own = add(c, context, {{&alone, {ids[t]}}}, false);
        const auto logits = add(c, context, {{&whole, {ids[t]}}, {&other, random_ids(r, c, 1)}, {&copy, {ids[t]}}}, false);
        CHECK(same_row(c, logits, 0, own, 0), "token %zu has other bits beside other texts", t);
        CHECK(same_row(c, logits, 2, own, 0), "token %zu has other bits in a copy", t);
        all.insert(all.end(), own.begin(), own.end());
    }
    const double error = relative_error(all, std::vector<float>(expected.begin() + (ptrdiff_t)(first * vocabulary), expected.end()));
    CHECK(error < (c.shape.halves ? 1e-3 : 8e-2), "tokens alone are %g from those of a prompt", error);
    for (const text *t : {&other, &copy, &whole, &alone})
        library->sequence_close(t->sequence);
}

/* Steps that compute half of the neurons, by their number and by limits, alone and beside another text: near the
 * reference. */
static void test_sparse(random_source &r, const decoder_case &c, device_context *context, const std::vector<int32_t> &ids) {
    const size_t dense = ids.size() - 3, vocabulary = c.shape.vocabulary_size;
    const uint32_t half = c.shape.intermediate_size / 2;
    const std::vector<float> limits(c.shape.layers, 1e-5f); /* half of the scores are less: see make_decoder */
    const std::vector<int32_t> beginning(ids.begin(), ids.begin() + (ptrdiff_t)dense), rest(ids.begin() + (ptrdiff_t)dense, ids.end());
    row expected;
    const auto logits = reference(c, ids, dense);
    for (size_t t = dense; t < ids.size(); t++)
        expected.insert(expected.end(), logits[t].begin(), logits[t].end());
    const auto compare = [&](const std::vector<float> &got, const choice &chosen, size_t tokens, const char *how) {
        const double error = relative_error(got, expected);
        CHECK(error < 8e-2, "logits of half of the neurons %s are %g from the reference", how, error);
        printf("logits of half of the neurons %s are %.1e from the reference\n", how, error);
        for (uint32_t computed : chosen.computed)
            CHECK(computed > 0.4 * tokens * half && computed <= 1.1 * tokens * half, "%u of %zu times %u neurons are computed %s",
                  computed, tokens, half, how);
    };
    for (const float *least : {(const float *)nullptr, limits.data()}) {
        text one = new_text(context), two = new_text(context), other = new_text(context);
        add(c, context, {{&one, beginning}, {&two, beginning}, {&other, random_ids(r, c, 4)}}, false);
        choice alone = {half, least, {}}, beside = alone, together = alone;
        std::vector<float> got, got_beside;
        for (int32_t id : rest) {
            const auto logit = add(c, context, {{&one, {id}}}, false, &alone);
            const auto both = add(c, context, {{&other, random_ids(r, c, 1)}, {&two, {id}}}, false, &beside);
            got.insert(got.end(), logit.begin(), logit.end());
            got_beside.insert(got_beside.end(), both.begin() + (ptrdiff_t)vocabulary, both.end());
        }
        compare(got, alone, 1, least ? "by limits" : "by number");
        compare(got_beside, beside, 2, "beside another text");
        two.ids.resize(dense);
        compare(add(c, context, {{&two, rest}}, true, &together), together, rest.size(), "in one step");
        one.ids.resize(dense);
        two.ids.resize(dense);
        choice all = {2 * half, nullptr, {}};
        CHECK(add(c, context, {{&one, {ids[dense]}}}, false, &all) == add(c, context, {{&two, {ids[dense]}}}, false),
              "all neurons are not those of a dense step");
        CHECK(all.computed[0] == 2 * half, "not all neurons are counted");
        for (const text *t : {&one, &two, &other})
            library->sequence_close(t->sequence);
    }
}

static void test_decoder(random_source &r, const decoder_case &c, int tokens) {
    device_decoder *d = put_decoder(*library, c, message);
    device_context *context;
    CHECK(library->context_open(d, &context, message) == DEVICE_OK, "%s", message);
    text t = new_text(context);
    const auto ids = random_ids(r, c, tokens);
    const auto logits = add(c, context, {{&t, ids}}, true);
    row all;
    for (const row &one : reference(c, ids, ids.size()))
        all.insert(all.end(), one.begin(), one.end());
    const double error = relative_error(logits, all), bound = c.shape.halves ? 2e-3 : 8e-2;
    CHECK(error < bound, "logits are %g from the reference", error);
    printf("logits are %.1e from the reference in double\n", error);
    test_bits(r, c, context, ids, logits);
    if (c.shape.sparse)
        test_sparse(r, c, context, ids);
    CHECK(library->bytes(d) > 0 && library->context_bytes(context) > 0, "no memory is counted");
    library->context_close(context);
    library->close(d);
}

static void test_refusals(const decoder_case &c) {
    device_decoder *d = nullptr;
    device_decoder_shape shape = c.shape;
    shape.head_size = 40;
    CHECK(library->open(&shape, &d, message) == DEVICE_UNSUPPORTED && !d, "%s", message);
    shape = c.shape;
    shape.hidden_size = 80;
    CHECK(library->open(&shape, &d, message) == DEVICE_UNSUPPORTED && !d, "%s", message);
    shape = c.shape;
    shape.kv_heads = 3;
    CHECK(library->open(&shape, &d, message) == DEVICE_UNSUPPORTED && !d, "%s", message);
    d = put_decoder(*library, c, message);
    const stored_tensor &q = c.layers[0][DECODER_Q];
    CHECK(library->put(d, DECODER_Q, 0, DEVICE_F32, 0, 1, q.bytes.data(), message) == DEVICE_UNSUPPORTED, "%s", message);
    CHECK(library->put(d, DECODER_Q, 0, q.format, q.rows, 1, q.bytes.data(), message) == DEVICE_UNSUPPORTED, "%s", message);
    CHECK(library->put(d, DECODER_Q, c.shape.layers, q.format, 0, 1, q.bytes.data(), message) == DEVICE_UNSUPPORTED, "%s",
          message);
    device_context *context;
    CHECK(library->context_open(d, &context, message) == DEVICE_OK, "%s", message);
    text t = new_text(context);
    const int32_t id = 0, no_id = (int32_t)c.shape.vocabulary_size;
    const size_t starts[] = {0, 1}, length = 0;
    const float *logits;
    device_step step = {1, &id, starts, &t.sequence, &length, false, nullptr, 0, nullptr};
    CHECK(library->step(context, &step, &logits, message) == DEVICE_UNSUPPORTED, "there is no room: %s", message);
    CHECK(library->sequence_reserve(t.sequence, c.shape.positions + 1, message) == DEVICE_UNSUPPORTED, "%s", message);
    CHECK(library->sequence_reserve(t.sequence, 1, message) == DEVICE_OK, "%s", message);
    step.ids = &no_id;
    CHECK(library->step(context, &step, &logits, message) == DEVICE_UNSUPPORTED, "%s", message);
    library->context_close(context);
    library->close(d);
}

#ifndef __CUDACC__
static void test_without_memory(const decoder_case &c) {
    const size_t all = emulated_memory_left;
    device_decoder *d = put_decoder(*library, c, message);
    device_context *context;
    CHECK(library->context_open(d, &context, message) == DEVICE_OK, "%s", message);
    text t = new_text(context);
    const size_t before = emulated_memory_left;
    emulated_memory_left = 1000;
    CHECK(library->sequence_reserve(t.sequence, 1, message) == DEVICE_NO_MEMORY, "%s", message);
    emulated_memory_left = before;
    CHECK(library->sequence_reserve(t.sequence, 1, message) == DEVICE_OK, "%s", message);
    const int32_t id = 1;
    const size_t starts[] = {0, 1}, length = 0;
    const float *logits;
    const device_step step = {1, &id, starts, &t.sequence, &length, false, nullptr, 0, nullptr};
    emulated_memory_left = 1000;
    CHECK(library->step(context, &step, &logits, message) == DEVICE_NO_MEMORY, "%s", message);
    emulated_memory_left = before;
    CHECK(library->step(context, &step, &logits, message) == DEVICE_OK, "%s", message);
    library->context_close(context);
    library->close(d);
    CHECK(emulated_memory_left >= all, "a decoder that was closed holds memory");
    emulated_devices = 0;
    CHECK(library->open(&c.shape, &d, message) == DEVICE_ABSENT && !d, "%s", message);
    emulated_devices = 1;
}
#endif

int main(int argc, char **argv) {
    random_source r(argc > 1 ? (unsigned)atoi(argv[1]) : 1);
    library = &wisp_device_library()->decoder;
    /* hidden, intermediate, layers, heads, kv_heads, head_size, vocabulary, positions, rotary_size, neighbours, qkv_bias,
       qk_norm, halves, sparse, gate, norm_epsilon, attention_scale */
    static const struct {
        device_decoder_shape shape;
        device_format format;
        bool tied;
        int tokens;
    } cases[] = {
        {{64, 96, 2, 4, 2, 32, 45, 400, 32, true, false, false, false, true, DEVICE_GATE_SILU, 1e-5f, 0.17f}, DEVICE_Q8_0, true, 70},
        {{96, 64, 1, 3, 1, 64, 40, 400, 64, false, false, true, false, true, DEVICE_GATE_SILU, 1e-6f, 0.12f}, DEVICE_Q4_0, false, 20},
        {{64, 64, 1, 2, 2, 96, 33, 400, 48, false, true, false, true, false, DEVICE_GATE_RELU, 1e-6f, 0.1f}, DEVICE_F16, false, 18},
#ifdef __CUDACC__ /* in the emulator they take long */
        {{576, 1536, 3, 9, 3, 64, 4000, 600, 64, true, false, false, false, false, DEVICE_GATE_SILU, 1e-5f, 0.125f}, DEVICE_Q8_0, true, 330},
        {{1024, 3072, 2, 16, 8, 128, 3000, 600, 128, false, false, true, false, true, DEVICE_GATE_SILU, 1e-6f, 0.088f}, DEVICE_Q8_0, true, 150},
        {{896, 4864, 2, 14, 2, 64, 2000, 600, 64, false, true, false, false, false, DEVICE_GATE_SILU, 1e-6f, 0.125f}, DEVICE_Q4_0, true, 150},
        {{512, 512, 2, 4, 2, 256, 1000, 600, 256, false, false, false, true, false, DEVICE_GATE_RELU_SQUARED, 1e-6f, 0.06f}, DEVICE_F16, false, 150},
#endif
    };
    for (const auto &one : cases) {
        const decoder_case c = make_decoder(r, one.shape, one.format, one.tied);
        for (int order = 0; order < ORDERS; order++) {
            set_order(order, 1);
            test_decoder(r, c, one.tokens);
        }
        if (&one != cases)
            continue;
        test_refusals(c);
#ifndef __CUDACC__
        test_without_memory(c);
#endif
    }
    printf("decoders: %zu shapes\n", sizeof cases / sizeof *cases);
    return 0;
}
