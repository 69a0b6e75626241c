/* SPDX-License-Identifier: Apache-2.0
 * Every kernel over random legal shapes, against scalar references in double. In the emulator each case runs in four
 * orders of threads, which must give the same bits. */
#include <string.h>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/products.h"
#include "kernels/cuda/warpgroups.h"
#include "orders.h"

static unsigned first_seed;

#ifdef __CUDACC__
enum { CASES = 40 };
#else
enum { CASES = 2 };
#endif
enum { MOST_SHARED = 227 * 1024 };

static bool warpgroups_exist() {
    cudaDeviceProp properties;
    CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
    return properties.major == 9;
}

static double activated(double x, int activation) {
    if (activation == DEVICE_RELU)
        return x > 0 ? x : 0;
    if (activation == DEVICE_GELU_TANH)
        return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    return 0.5 * x * (1 + erf(x / sqrt(2.0)));
}

/* A random product: operands as the kernel reads them and as doubles. Bytes are hidden states, with a least value for each
 * group, or have one shift, as those that are the result of a product. */
struct random_product {
    int rows, columns, k, groups;
    float shift = 0;
    std::vector<uint8_t> a8;
    std::vector<int8_t> b8;
    std::vector<uint16_t> a16, b16;
    std::vector<float2> a_scale;
    std::vector<float> a_step, b_scale, b_sums, b_total, bias, a, b;

    random_product(random_source &r, bool bytes, int rows_, int columns_, int k_, int groups_, bool hidden)
        : rows(rows_), columns(columns_), k(k_), groups(groups_) {
        const size_t na = (size_t)rows * k, nb = (size_t)columns * k;
        bias = r.normals(columns, 1);
        a.resize(na);
        b.resize(nb);
        if (!bytes) {
            a = r.normals(na, 1);
            b = r.normals(nb, 0.05f);
            a16 = halves_from(a);
            b16 = halves_from(b);
            return;
        }
        a8.resize(na);
        b8.resize(nb);
        shift = hidden ? 0 : r.uniform(0, 0.2f);
        for (size_t i = 0; i < (size_t)rows * groups; i++) {
            a_scale.push_back({r.uniform(0.001f, 0.03f), hidden ? r.uniform(-3, 0) : -shift});
            a_step.push_back(a_scale.back().x);
        }
        for (int i = 0; i < columns; i++)
            b_scale.push_back(r.uniform(0.0001f, 0.002f));
        const bool extreme = r.below(4) == 0; /* the largest sums that can be */
        for (size_t i = 0; i < na; i++) {
            const float2 scale = a_scale[i / k * groups + i % k / (k / groups)];
            a8[i] = (uint8_t)(extreme ? 255 : r.below(256));
            a[i] = a8[i] * scale.x + scale.y;
        }
        b_sums.resize((size_t)groups * columns);
        b_total.resize(columns);
        for (size_t i = 0; i < nb; i++) {
            b8[i] = (int8_t)(extreme ? (i / k % 2 ? -127 : 127) : r.below(255) - 127);
            b[i] = b8[i] * b_scale[i / k];
            b_sums[i % k / (k / groups) * columns + i / k] += b8[i];
            b_total[i / k] += b8[i];
        }
    }

    double sum(int row, int column) const {
        double s = bias[column];
        for (int i = 0; i < k; i++)
            s += (double)a[(size_t)row * k + i] * (double)b[(size_t)column * k + i];
        return s;
    }
};

/* The operands of a product on the device. */
struct product_operands {
    device_array<unsigned char> a, b;
    device_array<float2> a_scale;
    device_array<float> a_step, b_scale, b_sums, b_total, bias;
    template <class BYTE>
    static std::vector<unsigned char> bytes(const std::vector<BYTE> &q, const std::vector<uint16_t> &h) {
        std::vector<unsigned char> v(q.size() + 2 * h.size());
        memcpy(v.data(), q.empty() ? (const void *)h.data() : q.data(), v.size()); /* one of them is not empty */
        return v;
    }
    explicit product_operands(const random_product &c)
        : a(bytes(c.a8, c.a16)), b(bytes(c.b8, c.b16)), a_scale(c.a_scale), a_step(c.a_step), b_scale(c.b_scale),
          b_sums(c.b_sums), b_total(c.b_total), bias(c.bias) {}
    product_arguments arguments(const random_product &c) const {
        product_arguments p = {};
        p.a = a.p;
        p.b = b.p;
        p.a_scale = a_scale.p;
        p.a_step = a_step.p;
        p.a_shift = c.shift;
        p.b_scale = b_scale.p;
        p.b_sums = b_sums.p;
        p.b_total = b_total.p;
        p.bias = bias.p;
        p.rows = c.rows;
        p.columns = c.columns;
        p.k_bytes = c.k * (c.a8.empty() ? 2 : 1);
        return p;
    }
};

/* Runs a product of tiles in all orders by `run(blocks of y, arguments)`, and checks it. */
template <class OPERAND, int RESULT, int ACTIVATION, class RUN> static void check_tiles(random_source &r, int most, RUN run) {
    const int groups = 1 + r.below(most);
    const random_product c(r, OPERAND::BYTES == 1, 1 + r.below(300), 128 * (1 + r.below(2)), 128 / OPERAND::BYTES * groups,
                           groups, true);
    const product_operands on_device(c);
    const unsigned sharing = 1 + (unsigned)r.below(4); /* fewer than tiles of rows, or more */
    const size_t n = (size_t)c.rows * c.columns;
    const float shift = activation_shift<ACTIVATION>();
    const auto bits = in_all_orders(first_seed, [&] {
        device_array<uint16_t> halves(n);
        device_array<uint8_t> q(n);
        device_array<float> q_step(n / GROUP);
        product_arguments p = on_device.arguments(c);
        p.halves = halves.p;
        p.q = q.p;
        p.q_step = q_step.p;
        run(dim3((unsigned)c.columns / TILE_COLUMNS, sharing), p);
        finish();
        std::vector<float> out = floats_from(halves.get());
        if (RESULT == RESULT_QUANTISED) {
            const auto values = q.get();
            const auto steps = q_step.get();
            for (size_t i = 0; i < n; i++)
                out[i] = values[i] * steps[i / GROUP] - shift;
        }
        return out;
    });
    std::vector<double> expected(n);
    for (int row = 0; row < c.rows; row++)
        for (int column = 0; column < c.columns; column++) {
            const double s = c.sum(row, column);
            expected[(size_t)row * c.columns + column] = RESULT == RESULT_HALVES ? s : activated(s, ACTIVATION);
        }
    if (RESULT == RESULT_QUANTISED) { /* each value within half a step, and what f16 loses */
        for (size_t i = 0; i < n; i += GROUP) {
            double largest = 0;
            for (size_t j = i; j < i + GROUP; j++)
                largest = fmax(largest, expected[j] + shift);
            for (size_t j = i; j < i + GROUP; j++)
                CHECK(fabs(bits[j] - expected[j]) <= largest * (0.5 / 255 + 5e-4) + 1.2e-3 + 1e-3 * fabs(expected[j]),
                      "value %zu: %g, expected %g", j, (double)bits[j], expected[j]);
        }
        return;
    }
    const double error = relative_error(bits, expected);
    CHECK(error < 5e-4, "product of %d x %d x %d: error %g", c.rows, c.columns, c.k, error);
}

template <class OPERAND, int RESULT, int ACTIVATION, bool RESIDENT> static void test_tiles(random_source &r) {
    check_tiles<OPERAND, RESULT, ACTIVATION>(r, RESIDENT ? 3 : 5, [](dim3 grid, const product_arguments &p) {
        run_kernel<product_tiles<OPERAND, RESULT, ACTIVATION, RESIDENT>>(grid, TILE_WARPS * WARP, TILE_SHARED_BYTES,
                                                                         MOST_SHARED, 0, p);
    });
}

template <class OPERAND, int RESULT, int ACTIVATION, int WARPGROUPS, int PIPELINE>
static void test_warpgroup_tiles(random_source &r) {
    if (warpgroups_exist())
        check_tiles<OPERAND, RESULT, ACTIVATION>(r, 5, [](dim3 grid, const product_arguments &p) {
            run_kernel<warpgroup_tiles<OPERAND, RESULT, ACTIVATION, WARPGROUPS, PIPELINE>>(
                grid, WARPGROUPS * WARPGROUP, warpgroup_tiles_shared_bytes<WARPGROUPS, PIPELINE>(p.k_bytes / TILE_BYTES),
                MOST_SHARED, 0, p);
        });
}

/* layer_norm of rows, in double. */
static std::vector<double> normed(const std::vector<double> &x, size_t width, const std::vector<float> &weight,
                                  const std::vector<float> &bias, double epsilon) {
    std::vector<double> y(x.size());
    for (size_t row = 0; row < x.size() / width; row++) {
        double mean = 0, variance = 0;
        for (size_t i = 0; i < width; i++)
            mean += x[row * width + i] / width;
        for (size_t i = 0; i < width; i++)
            variance += (x[row * width + i] - mean) * (x[row * width + i] - mean) / width;
        for (size_t i = 0; i < width; i++)
            y[row * width + i] = (x[row * width + i] - mean) / sqrt(variance + epsilon) * weight[i] + bias[i];
    }
    return y;
}

/* Checks hidden states in both forms. */
static void check_hidden(const std::vector<float> &x, const std::vector<float> &from_q,
                         const std::vector<double> &expected) {
    const double error = relative_error(x, expected);
    CHECK(error < 5e-4, "hidden states: error %g", error);
    for (size_t i = 0; i < from_q.size(); i += GROUP) {
        double least = 0, largest = 0;
        for (size_t j = i; j < i + GROUP; j++) {
            least = fmin(least, expected[j]);
            largest = fmax(largest, expected[j]);
        }
        for (size_t j = i; j < i + GROUP; j++)
            CHECK(fabs(from_q[j] - expected[j]) <= (largest - least) * (0.5 / 254 + 1e-3), "byte %zu: %g, expected %g", j,
                  (double)from_q[j], expected[j]);
    }
}

struct hidden_arrays {
    device_array<uint16_t> x;
    device_array<uint8_t> q;
    device_array<float2> scale;
    hidden_arrays(size_t rows, size_t width_) : x(rows * width_), q(rows * width_), scale(rows * width_ / GROUP) {}
    hidden_rows rows() const {
        const hidden_rows h = {x.p, q.p, scale.p};
        return h;
    }
    /* The values from halves, and behind them those from bytes. */
    std::vector<float> both() const {
        std::vector<float> values = floats_from(x.get());
        const auto bytes = q.get();
        const auto scales = scale.get();
        for (size_t i = 0; i < bytes.size(); i++)
            values.push_back(bytes[i] * scales[i / GROUP].x + scales[i / GROUP].y);
        return values;
    }
};

/* Runs a product of whole rows, or of two strips of `width` columns if it does not norm, in all orders by `run`. */
template <class OPERAND, bool NORM, class RUN> static void check_rows(random_source &r, int width, RUN run) {
    const int groups = 1 + r.below(5), columns = NORM ? width : 2 * width;
    const random_product c(r, OPERAND::BYTES == 1, 1 + r.below(150), columns, 128 / OPERAND::BYTES * groups, groups, false);
    const product_operands on_device(c);
    std::vector<float> residual = r.normals((size_t)c.rows * columns, 1), weight = r.normals(columns, 1),
                       bias = r.normals(columns, 1);
    const device_array<uint16_t> residual_halves(halves_from(residual));
    const device_array<float> weights(weight), biases(bias);
    const auto values = in_all_orders(first_seed, [&] {
        hidden_arrays out((size_t)c.rows, (size_t)columns);
        product_arguments p = on_device.arguments(c);
        p.residual = residual_halves.p;
        p.norm = {weights.p, biases.p, 1e-5f};
        p.out = out.rows();
        run(dim3((unsigned)(columns / width), (unsigned)(c.rows + 63) / 64), groups, p);
        finish();
        return NORM ? out.both() : floats_from(out.x.get());
    });
    std::vector<double> sums((size_t)c.rows * columns);
    for (int row = 0; row < c.rows; row++)
        for (int column = 0; column < columns; column++)
            sums[(size_t)row * columns + column] = c.sum(row, column) + residual[(size_t)row * columns + column];
    const std::vector<float> halves(values.begin(), values.begin() + (long)sums.size());
    const std::vector<float> from_q(values.begin() + (long)sums.size(), values.end());
    check_hidden(halves, from_q, NORM ? normed(sums, (size_t)columns, weight, bias, 1e-5) : sums);
}

template <class OPERAND, int WARPS, int TILES, int STAGES, bool NORM> static void test_rows(random_source &r) {
    static_assert(STRIP_ROWS == 64, "check_rows counts blocks of 64 rows");
    check_rows<OPERAND, NORM>(r, WARPS * TILES * 8, [](dim3 grid, int stages, const product_arguments &p) {
        run_kernel<product_rows<OPERAND, WARPS, TILES, STAGES, NORM>>(
            grid, WARPS * WARP, product_rows_shared_bytes<WARPS, TILES>(STAGES, stages), MOST_SHARED, 0, p);
    });
}

template <class OPERAND, int WARPGROUPS, int PIPELINE, bool NORM> static void test_warpgroup_rows(random_source &r) {
    if (warpgroups_exist())
        check_rows<OPERAND, NORM>(r, WARPGROUPS * WARPGROUP_COLUMNS, [](dim3 grid, int stages, const product_arguments &p) {
            run_kernel<warpgroup_rows<OPERAND, WARPGROUPS, PIPELINE, NORM>>(
                grid, WARPGROUPS * WARPGROUP, warpgroup_rows_shared_bytes<WARPGROUPS, PIPELINE>(stages), MOST_SHARED, 0, p);
        });
}

/* A packed batch: texts of random lengths. */
struct random_texts {
    std::vector<int32_t> starts = {0}, skipped;
    std::vector<int2> tiles;
    int rows() const { return starts.back(); }
    random_texts(random_source &r, int texts, int longest) {
        for (int i = 0; i < texts; i++) {
            const int length = 1 + r.below(longest);
            for (int query = 0; query < length; query += QUERY_TILE)
                tiles.push_back({i, query});
            skipped.push_back(r.below(length));
            starts.push_back(starts.back() + length);
        }
    }
};

template <int SIZE> static void test_attention(random_source &r) {
    const int heads = 1 + r.below(3), width = heads * SIZE;
    const random_texts texts(r, 3, 200);
    const float spread = r.below(3) == 0 ? 8.0f : 1.0f; /* large scores: softmax chooses one key */
    std::vector<float> qkv = r.normals((size_t)texts.rows() * 3 * width, spread);
    const device_array<uint16_t> halves(halves_from(qkv));
    const device_array<int32_t> starts(texts.starts);
    const device_array<int2> tiles(texts.tiles);
    const float scale = 1 / sqrtf((float)SIZE);
    const auto context = in_all_orders(first_seed, [&] {
        device_array<uint16_t> out((size_t)texts.rows() * width);
        const attention_arguments a = {halves.p, out.p, tiles.p, starts.p, heads, scale * 1.4426950408889634f};
        run_kernel<attend<SIZE>>(dim3((unsigned)texts.tiles.size(), (unsigned)heads), ATTENTION_WARPS * WARP,
                                 attention_layout<SIZE>::SHARED_BYTES, MOST_SHARED, 0, a);
        finish();
        return floats_from(out.get());
    });
    std::vector<double> expected(context.size());
    for (size_t i = 0; i + 1 < texts.starts.size(); i++)
        for (int query = texts.starts[i]; query < texts.starts[i + 1]; query++)
            for (int head = 0; head < heads; head++) {
                std::vector<double> score;
                double largest = -INFINITY, sum = 0;
                const float *q = &qkv[(size_t)query * 3 * width + head * SIZE];
                for (int key = texts.starts[i]; key < texts.starts[i + 1]; key++) {
                    double s = 0;
                    for (int d = 0; d < SIZE; d++)
                        s += (double)q[d] * (double)qkv[(size_t)key * 3 * width + width + head * SIZE + d];
                    score.push_back(s * scale);
                    largest = fmax(largest, s * scale);
                }
                for (double &s : score)
                    sum += s = exp(s - largest);
                for (int d = 0; d < SIZE; d++) {
                    double value = 0;
                    for (size_t key = 0; key < score.size(); key++)
                        value += score[key] / sum *
                                 (double)qkv[(texts.starts[i] + key) * 3 * width + 2 * width + head * SIZE + d];
                    expected[(size_t)query * width + head * SIZE + d] = value;
                }
            }
    const double error = relative_error(context, expected);
    CHECK(error < 1e-3, "attention of %d heads of %d values: error %g", heads, SIZE, error);
}

template <int GROUPS> static void test_hidden(random_source &r) {
    const size_t width = GROUPS * GROUP;
    const int vocabulary = 50, positions = 64;
    const random_texts texts(r, 5, positions);
    std::vector<float> tokens = r.normals(vocabulary * width, 1), position = r.normals(positions * width, 1),
                       weight = r.normals(width, 1), bias = r.normals(width, 1);
    const device_array<uint16_t> token_halves(halves_from(tokens)), position_halves(halves_from(position));
    const device_array<float> weights(weight), biases(bias);
    std::vector<int32_t> ids, at;
    std::vector<double> sums;
    for (size_t i = 0; i + 1 < texts.starts.size(); i++)
        for (int t = 0; t < texts.starts[i + 1] - texts.starts[i]; t++) {
            ids.push_back(r.below(vocabulary));
            at.push_back(t);
            for (size_t j = 0; j < width; j++)
                sums.push_back((double)tokens[ids.back() * width + j] + (double)position[t * width + j]);
        }
    const size_t rows = ids.size();
    const device_array<int32_t> id_array(ids), at_array(at), starts(texts.starts), skipped(texts.skipped);
    const norm_weights norm = {weights.p, biases.p, 1e-12f};
    const unsigned blocks = (unsigned)(rows + ROW_WARPS - 1) / ROW_WARPS;
    const auto embedded = in_all_orders(first_seed, [&] {
        hidden_arrays out(rows, width);
        const embed_arguments a = {id_array.p, at_array.p, token_halves.p, position_halves.p, norm, out.rows(), (int)rows};
        run_kernel<embed_rows<GROUPS>>(dim3(blocks), ROW_WARPS * WARP, 0, MOST_SHARED, 0, a);
        finish();
        return out.both();
    });
    const size_t n = rows * width;
    const std::vector<double> expected = normed(sums, width, weight, bias, 1e-12);
    std::vector<float> x(embedded.begin(), embedded.begin() + (long)n);
    check_hidden(x, std::vector<float>(embedded.begin() + (long)n, embedded.end()), expected);

    const device_array<uint16_t> y(halves_from(x));
    const auto again = in_all_orders(first_seed, [&] {
        hidden_arrays out(rows, width);
        const norm_arguments a = {y.p, norm, out.rows(), (int)rows};
        run_kernel<norm_rows<GROUPS>>(dim3(blocks), ROW_WARPS * WARP, 0, MOST_SHARED, 0, a);
        finish();
        return out.both();
    });
    check_hidden(std::vector<float>(again.begin(), again.begin() + (long)n),
                 std::vector<float>(again.begin() + (long)n, again.end()),
                 normed(std::vector<double>(x.begin(), x.end()), width, weight, bias, 1e-12));

    const bool first = r.below(2), normalize = r.below(2);
    const int dimensions = 1 + r.below((int)width);
    const size_t n_texts = texts.starts.size() - 1;
    const auto pooled = in_all_orders(first_seed, [&] {
        device_array<float> out(n_texts * (size_t)dimensions);
        const pool_arguments a = {y.p, starts.p, skipped.p, out.p, dimensions, first, normalize ? dimensions : 0};
        run_kernel<pool_rows<GROUPS>>(dim3((unsigned)n_texts), ROW_WARPS * WARP, 0, 0, 0, a);
        finish();
        return out.get();
    });
    std::vector<double> rows_expected;
    for (size_t i = 0; i < n_texts; i++) {
        const int begin = texts.starts[i] + texts.skipped[i], end = first ? begin + 1 : texts.starts[i + 1];
        std::vector<double> row((size_t)dimensions);
        double squares = 0;
        for (int j = 0; j < dimensions; j++) {
            for (int t = begin; t < end; t++)
                row[(size_t)j] += (double)x[(size_t)t * width + (size_t)j] / (end - begin);
            squares += row[(size_t)j] * row[(size_t)j];
        }
        for (double value : row)
            rows_expected.push_back(normalize ? value / sqrt(squares) : value);
    }
    const double error = relative_error(pooled, rows_expected);
    CHECK(error < 1e-5, "pooled rows: error %g", error);
}

/* A row that is not finite becomes NaN, whichever value is not. */
static void test_pool_not_finite() {
    std::vector<uint16_t> halves(3 * GROUP, 0x3c00);
    halves[GROUP + 77] = 0x7c00; /* infinity */
    const device_array<uint16_t> x(halves);
    const device_array<int32_t> starts(std::vector<int32_t>{0, 1, 2, 3}), skipped(std::vector<int32_t>{0, 0, 0});
    device_array<float> out(6);
    const pool_arguments a = {x.p, starts.p, skipped.p, out.p, 2, false, 0};
    set_order(0, first_seed);
    run_kernel<pool_rows<1>>(dim3(3), ROW_WARPS * WARP, 0, 0, 0, a);
    finish();
    const auto rows = out.get();
    CHECK(rows[0] == 1 && rows[4] == 1, "rows that are finite: %g, %g", (double)rows[0], (double)rows[4]);
    CHECK(std::isnan(rows[2]) && std::isnan(rows[3]), "a row that is not finite: %g", (double)rows[2]);
}

int main(int argc, char **argv) {
    first_seed = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
    for (unsigned i = 0; i < CASES; i++) {
        random_source r(first_seed + i);
        test_tiles<operand_s8, RESULT_HALVES, DEVICE_RELU, true>(r);
        test_tiles<operand_s8, RESULT_QUANTISED, DEVICE_GELU, true>(r);
        test_tiles<operand_s8, RESULT_QUANTISED, DEVICE_RELU, true>(r);
        test_tiles<operand_s8, RESULT_QUANTISED, DEVICE_GELU_TANH, true>(r);
        test_tiles<operand_f16, RESULT_HALVES, DEVICE_RELU, false>(r);
        test_tiles<operand_f16, RESULT_ACTIVATED, DEVICE_GELU, false>(r);
        test_tiles<operand_f16, RESULT_ACTIVATED, DEVICE_RELU, false>(r);
        test_tiles<operand_f16, RESULT_ACTIVATED, DEVICE_GELU_TANH, false>(r);
        test_tiles<operand_f16, RESULT_ACTIVATED, DEVICE_GELU, true>(r);
        test_tiles<operand_s8, RESULT_QUANTISED, DEVICE_GELU, false>(r);
        test_rows<operand_s8, 8, 6, 3, true>(r);
        test_rows<operand_s8, 8, 6, 2, false>(r);
        test_rows<operand_s8, 8, 4, 3, false>(r);
        test_rows<operand_s8, 4, 4, 2, true>(r);
        test_rows<operand_f16, 8, 6, 3, true>(r);
        test_rows<operand_f16, 8, 4, 2, true>(r);
        test_rows<operand_f16, 4, 4, 3, false>(r);
        test_warpgroup_tiles<operand_s8, RESULT_HALVES, DEVICE_RELU, 3, 3>(r);
        test_warpgroup_tiles<operand_s8, RESULT_QUANTISED, DEVICE_GELU, 3, 3>(r);
        test_warpgroup_tiles<operand_s8, RESULT_QUANTISED, DEVICE_RELU, 3, 3>(r);
        test_warpgroup_tiles<operand_f16, RESULT_HALVES, DEVICE_RELU, 3, 3>(r);
        test_warpgroup_tiles<operand_f16, RESULT_ACTIVATED, DEVICE_GELU_TANH, 3, 3>(r);
        test_warpgroup_rows<operand_s8, 3, 3, true>(r);
        test_warpgroup_rows<operand_s8, 2, 3, false>(r);
        test_warpgroup_rows<operand_f16, 3, 3, true>(r);
        test_warpgroup_rows<operand_f16, 1, 3, true>(r);
        test_attention<32>(r);
        test_attention<64>(r);
        test_attention<96>(r);
        test_attention<128>(r);
        test_hidden<1>(r);
        test_hidden<2>(r);
        test_hidden<3>(r);
        test_hidden<4>(r);
        test_hidden<6>(r);
        test_hidden<8>(r);
    }
    test_pool_not_finite();
    printf("kernels: %d cases of each in %d orders\n", (int)CASES, (int)ORDERS);
    return 0;
}
