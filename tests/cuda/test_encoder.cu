/* SPDX-License-Identifier: Apache-2.0
 * Whole encoders through the device library's table, against a reference in double, on random weights. */
#include <string.h>
#include <thread>

#include "testing.h"

extern "C" const device_library *wisp_device_library(void);

static char message[DEVICE_MESSAGE_BYTES];

struct reference_layer {
    std::vector<float> tensor[DEVICE_TENSORS];
};

struct encoder_case {
    device_shape shape;
    std::vector<reference_layer> layers; /* tensors that all layers share are those of layer 0 */
    std::vector<int32_t> ids;
    std::vector<size_t> starts = {0}, skipped;
    size_t texts() const { return starts.size() - 1; }
};

static size_t rows_of(const device_shape &s, int tensor) {
    switch (tensor) {
    case DEVICE_TOKENS: return s.vocabulary_size;
    case DEVICE_POSITIONS: return s.positions;
    case DEVICE_QKV: return 3 * s.hidden_size;
    case DEVICE_OUTPUT: case DEVICE_DOWN: return s.hidden_size;
    case DEVICE_UP: return s.intermediate_size;
    default: return 1;
    }
}

static size_t columns_of(const device_shape &s, int tensor) {
    switch (tensor) {
    case DEVICE_QKV_BIAS: return 3 * s.hidden_size;
    case DEVICE_UP_BIAS: case DEVICE_DOWN: return s.intermediate_size;
    default: return s.hidden_size;
    }
}

static bool is_norm_weight(int tensor) {
    return tensor == DEVICE_EMBEDDING_NORM || tensor == DEVICE_ATTENTION_NORM || tensor == DEVICE_OUTPUT_NORM;
}

static encoder_case make_case(random_source &r, const device_shape &shape, int texts, int longest) {
    encoder_case c;
    c.shape = shape;
    c.layers.resize(shape.layers);
    for (uint32_t l = 0; l < shape.layers; l++)
        for (int t = l == 0 ? 0 : DEVICE_QKV; t < DEVICE_TENSORS; t++) {
            const size_t columns = columns_of(shape, t), rows = rows_of(shape, t);
            const float scale = rows > 1 && t != DEVICE_TOKENS ? 1.5f / sqrtf((float)columns) : 0.3f;
            c.layers[l].tensor[t] = r.normals(rows * columns, scale);
            for (float &x : c.layers[l].tensor[t])
                x += is_norm_weight(t) ? 1.0f : 0.0f;
        }
    for (int i = 0; i < texts; i++) {
        const int length = 1 + r.below(longest);
        for (int t = 0; t < length; t++)
            c.ids.push_back(r.below((int)shape.vocabulary_size));
        c.skipped.push_back((size_t)r.below(length));
        c.starts.push_back(c.ids.size());
    }
    return c;
}

/* y = x W^T + b for one token. */
static std::vector<double> dense(const std::vector<double> &x, const std::vector<float> &w, const std::vector<float> &b) {
    std::vector<double> y(b.size());
    for (size_t o = 0; o < b.size(); o++) {
        y[o] = b[o];
        for (size_t i = 0; i < x.size(); i++)
            y[o] += x[i] * (double)w[o * x.size() + i];
    }
    return y;
}

static void add_and_norm(std::vector<double> &x, const std::vector<double> &y, const std::vector<float> &weight,
                         const std::vector<float> &bias, double epsilon) {
    double mean = 0, variance = 0;
    const double n = (double)x.size();
    for (size_t i = 0; i < x.size(); i++)
        mean += (x[i] += y[i]) / n;
    for (double v : x)
        variance += (v - mean) * (v - mean) / n;
    for (size_t i = 0; i < x.size(); i++)
        x[i] = (x[i] - mean) / sqrt(variance + epsilon) * (double)weight[i] + (double)bias[i];
}

static double activated(double x, int activation) {
    if (activation == DEVICE_RELU)
        return x > 0 ? x : 0;
    if (activation == DEVICE_GELU_TANH)
        return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    return 0.5 * x * (1 + erf(x / sqrt(2.0)));
}

static std::vector<std::vector<double>> attend_text(const encoder_case &c, const std::vector<std::vector<double>> &qkv) {
    const size_t h = c.shape.hidden_size, size = h / c.shape.heads, n = qkv.size();
    std::vector<std::vector<double>> context(n, std::vector<double>(h));
    for (size_t q = 0; q < n; q++)
        for (size_t head = 0; head < h; head += size) {
            std::vector<double> score(n);
            double sum = 0;
            for (size_t k = 0; k < n; k++) {
                for (size_t d = 0; d < size; d++)
                    score[k] += qkv[q][head + d] * qkv[k][h + head + d];
                sum += score[k] = exp(score[k] / sqrt((double)size));
            }
            for (size_t k = 0; k < n; k++)
                for (size_t d = 0; d < size; d++)
                    context[q][head + d] += score[k] / sum * qkv[k][2 * h + head + d];
        }
    return context;
}

/* The embedding of text i, before it is cut or normalised. */
static std::vector<double> reference(const encoder_case &c, size_t text) {
    const device_shape &s = c.shape;
    const size_t h = s.hidden_size, begin = c.starts[text], n = c.starts[text + 1] - begin;
    const auto &first = c.layers[0].tensor;
    std::vector<std::vector<double>> x(n, std::vector<double>(h));
    for (size_t t = 0; t < n; t++) {
        std::vector<double> position(h);
        for (size_t i = 0; i < h; i++) {
            x[t][i] = first[DEVICE_TOKENS][(size_t)c.ids[begin + t] * h + i];
            position[i] = first[DEVICE_POSITIONS][t * h + i];
        }
        add_and_norm(x[t], position, first[DEVICE_EMBEDDING_NORM], first[DEVICE_EMBEDDING_NORM_BIAS], s.norm_epsilon);
    }
    for (const reference_layer &layer : c.layers) {
        const auto &w = layer.tensor;
        std::vector<std::vector<double>> qkv;
        for (const auto &row : x)
            qkv.push_back(dense(row, w[DEVICE_QKV], w[DEVICE_QKV_BIAS]));
        const auto context = attend_text(c, qkv);
        for (size_t t = 0; t < n; t++) {
            add_and_norm(x[t], dense(context[t], w[DEVICE_OUTPUT], w[DEVICE_OUTPUT_BIAS]), w[DEVICE_ATTENTION_NORM],
                         w[DEVICE_ATTENTION_NORM_BIAS], s.norm_epsilon);
            std::vector<double> inner = dense(x[t], w[DEVICE_UP], w[DEVICE_UP_BIAS]);
            for (double &v : inner)
                v = activated(v, s.activation);
            add_and_norm(x[t], dense(inner, w[DEVICE_DOWN], w[DEVICE_DOWN_BIAS]), w[DEVICE_OUTPUT_NORM],
                         w[DEVICE_OUTPUT_NORM_BIAS], s.norm_epsilon);
        }
    }
    std::vector<double> row(h);
    const size_t from = c.skipped[text], to = s.first ? from + 1 : n;
    for (size_t t = from; t < to; t++)
        for (size_t i = 0; i < h; i++)
            row[i] += x[t][i] / (double)(to - from);
    return row;
}

static device_encoder *open_case(const device_library *library, const encoder_case &c) {
    device_encoder *e = nullptr;
    CHECK(library->open(&c.shape, &e, message) == DEVICE_OK, "%s", message);
    for (uint32_t l = 0; l < c.shape.layers; l++)
        for (int t = l == 0 ? 0 : DEVICE_QKV; t < DEVICE_TENSORS; t++) {
            const size_t rows = rows_of(c.shape, t), half = rows / 2; /* in two parts */
            const float *values = c.layers[l].tensor[t].data();
            CHECK(library->put(e, (enum device_tensor)t, l, 0, half, values, message) == DEVICE_OK, "%s", message);
            CHECK(library->put(e, (enum device_tensor)t, l, half, rows - half, values + half * columns_of(c.shape, t),
                               message) == DEVICE_OK, "%s", message);
        }
    return e;
}

static device_batch batch_of(const encoder_case &c, size_t dimensions, std::vector<float> &rows) {
    rows.assign(c.texts() * dimensions, NAN);
    device_batch b = {c.texts(), c.ids.data(), c.starts.data(), c.skipped.data(), dimensions, dimensions, rows.data()};
    return b;
}

/* Embeds the case and compares it with the reference; returns the rows. */
static std::vector<float> test_case(const encoder_case &c, double bound) {
    const device_library *library = wisp_device_library();
    const size_t dimensions = c.shape.hidden_size;
    device_encoder *e = open_case(library, c);
    std::vector<float> rows;
    const device_batch batch = batch_of(c, dimensions, rows);
    CHECK(library->embed(e, &batch, message) == DEVICE_OK, "%s", message);
    CHECK(library->bytes(e) > 0, "the encoder holds memory");
    for (size_t i = 0; i < c.texts(); i++) {
        const std::vector<double> expected = reference(c, i);
        double dot = 0, squares = 0, length = 0;
        for (size_t j = 0; j < dimensions; j++) {
            dot += (double)rows[i * dimensions + j] * expected[j];
            squares += expected[j] * expected[j];
            length += (double)rows[i * dimensions + j] * (double)rows[i * dimensions + j];
        }
        CHECK(fabs(length - 1) < 1e-5, "text %zu: the row has length %g", i, length);
        CHECK(1 - dot / sqrt(squares) < bound, "text %zu of %zu tokens: 1 - cosine is %g", i,
              c.starts[i + 1] - c.starts[i], 1 - dot / sqrt(squares));
    }
    /* The same rows come one text at a time, cut to fewer dimensions, and from two threads at once. */
    std::vector<float> alone(dimensions), others[2];
    for (size_t i = 0; i < c.texts(); i++) {
        const size_t starts[2] = {0, c.starts[i + 1] - c.starts[i]};
        const device_batch one = {1, &c.ids[c.starts[i]], starts, &c.skipped[i], dimensions, dimensions, alone.data()};
        CHECK(library->embed(e, &one, message) == DEVICE_OK, "%s", message);
        CHECK(memcmp(alone.data(), &rows[i * dimensions], dimensions * sizeof(float)) == 0,
              "text %zu alone has other bits", i);
    }
#ifdef __CUDACC__ /* the emulator runs one kernel at a time */
    std::thread threads[2];
    for (int i = 0; i < 2; i++)
        threads[i] = std::thread([&, i] {
            char own[DEVICE_MESSAGE_BYTES];
            for (int k = 0; k < 20; k++) {
                const device_batch b = batch_of(c, dimensions, others[i]);
                CHECK(library->embed(e, &b, own) == DEVICE_OK, "%s", own);
            }
        });
    for (int i = 0; i < 2; i++) {
        threads[i].join();
        CHECK(others[i] == rows, "thread %d gets other bits", i);
    }
#endif
    library->close(e);
    return rows;
}

static void test_refusals() {
    const device_library *library = wisp_device_library();
    device_encoder *e = nullptr;
    device_shape shape = {384, 1536, 1, 12, 10, 10, 1e-12f, DEVICE_GELU, true, false, 0};
    shape.hidden_size = 320;
    CHECK(library->open(&shape, &e, message) == DEVICE_UNSUPPORTED && !e, "%s", message);
    shape.hidden_size = 384;
    shape.heads = 8;
    CHECK(library->open(&shape, &e, message) == DEVICE_UNSUPPORTED && !e, "%s", message);
    shape.heads = 0;
    CHECK(library->open(&shape, &e, message) == DEVICE_UNSUPPORTED && !e, "%s", message);
    char name[DEVICE_MESSAGE_BYTES];
    CHECK(library->describe(0, name, message) == DEVICE_OK && name[0], "%s", message);
    CHECK(library->describe(1000, name, message) == DEVICE_ABSENT, "%s", message);
}

#ifndef __CUDACC__
static void test_without_memory(const encoder_case &c, const std::vector<float> &expected) {
    const device_library *library = wisp_device_library();
    device_encoder *e = open_case(library, c);
    std::vector<float> rows;
    const device_batch batch = batch_of(c, c.shape.hidden_size, rows);
    const size_t all = emulated_memory_left;
    emulated_memory_left = 2500000; /* enough for a part of the texts at a time */
    CHECK(library->embed(e, &batch, message) == DEVICE_OK, "%s", message);
    CHECK(rows == expected, "with little memory the rows are other ones");
    library->close(e);
    emulated_memory_left = all;
    e = open_case(library, c);
    const size_t before = emulated_memory_left;
    emulated_memory_left = 1000;
    CHECK(library->embed(e, &batch, message) == DEVICE_NO_MEMORY, "%s", message);
    emulated_memory_left = before;
    CHECK(library->embed(e, &batch, message) == DEVICE_OK && rows == expected, "%s", message);
    library->close(e);
    emulated_memory_left = 1000000;
    CHECK(library->open(&c.shape, &e, message) == DEVICE_NO_MEMORY && !e, "%s", message);
    CHECK(emulated_memory_left == 1000000, "an encoder that did not open holds memory");
    emulated_memory_left = all;
    emulated_devices = 0;
    CHECK(library->open(&c.shape, &e, message) == DEVICE_ABSENT && !e, "%s", message);
    emulated_devices = 1;
}
#endif

int main(int argc, char **argv) {
    random_source r(argc > 1 ? (unsigned)atoi(argv[1]) : 1);
    static const device_shape shapes[] = {
        {384, 256, 1, 12, 40, 150, 1e-12f, DEVICE_GELU, true, false, 0},
        {256, 256, 1, 2, 40, 150, 1e-5f, DEVICE_RELU, false, true, 100},
        {128, 256, 2, 2, 40, 150, 1e-5f, DEVICE_GELU_TANH, true, true, 0},
#ifdef __CUDACC__ /* in the emulator they take long */
        {384, 1536, 6, 12, 40, 150, 1e-12f, DEVICE_RELU, true, false, 200},
        {384, 512, 1, 6, 40, 150, 1e-12f, DEVICE_GELU, false, true, 0},
        {768, 3072, 2, 8, 40, 150, 1e-5f, DEVICE_GELU, true, false, 0},
        {1024, 128, 1, 16, 40, 150, 1e-5f, DEVICE_GELU_TANH, false, false, 0},
        {512, 128, 1, 4, 40, 150, 1e-5f, DEVICE_RELU, true, false, 0},
#endif
    };
    test_refusals(); /* what is refused leaves nothing behind */
    for (const device_shape &shape : shapes) {
        const encoder_case c = make_case(r, shape, 4, 100);
        const std::vector<float> rows = test_case(c, shape.int8 ? 2e-3 : 2e-5);
#ifndef __CUDACC__
        if (&shape == shapes)
            test_without_memory(c, rows);
        emulated_major = 8;
        test_case(c, shape.int8 ? 2e-3 : 2e-5);
        emulated_major = 9;
#endif
    }
    printf("encoders: %zu shapes\n", sizeof shapes / sizeof *shapes);
    return 0;
}
