/* SPDX-License-Identifier: Apache-2.0
 * Every kernel of decoders over random legal shapes, against references in double. In the emulator each case runs in
 * four orders of threads, which must give the same bits. */
#include <algorithm>

#include "decoder_case.h"
#include "kernels/cuda/decoder_attention.h"
#include "kernels/cuda/decoder_sparse.h"
#include "orders.h"

static unsigned first_seed;

#ifdef __CUDACC__
enum { CASES = 40 };
#else
enum { CASES = 3 };
#endif

/* A matrix on the device, from the bytes of a file. The library's own conversion is part of test_decoder.cu. */
struct device_matrix_case {
    stored_tensor stored;
    device_array<unsigned char> values;
    device_array<uint16_t> scale;

    static std::vector<unsigned char> numbers(const stored_tensor &t) {
        std::vector<unsigned char> all;
        const size_t file = t.format == DEVICE_F16 ? 64 : t.format == DEVICE_Q8_0 ? 34 : 18, skipped = t.format == DEVICE_F16 ? 0 : 2;
        for (size_t at = 0; at < t.bytes.size(); at += file) {
            const unsigned char *block = &t.bytes[at + skipped];
            if (t.format != DEVICE_Q4_0) {
                append_bytes(all, block, file - skipped);
                continue;
            }
            for (int byte = 0; byte < 16; byte++) {
                const int low = byte / 4 * 8 + byte % 4, high = low + 4;
                const auto number = [block](int i) { return i < 16 ? block[i] & 15 : block[i - 16] >> 4; };
                all.push_back((unsigned char)(number(low) | number(high) << 4));
            }
        }
        return all;
    }
    static std::vector<uint16_t> scales(const stored_tensor &t) {
        const size_t file = t.format == DEVICE_Q8_0 ? 34 : 18;
        std::vector<uint16_t> all;
        for (size_t at = 0; t.format != DEVICE_F16 && at < t.bytes.size(); at += file) {
            uint16_t half;
            memcpy(&half, &t.bytes[at], sizeof half);
            all.push_back(half);
        }
        all.push_back(0); /* not empty */
        return all;
    }
    explicit device_matrix_case(const stored_tensor &t) : stored(t), values(numbers(t)), scale(scales(t)) {}
    decoder_matrix matrix() const { return {values.p, stored.format == DEVICE_F16 ? NULL : scale.p, stored.rows, stored.columns, stored.format}; }
};

/* Rows as products read them, and the values that they stand for. */
struct rows_case {
    std::vector<float> values;
    std::vector<int8_t> q;
    std::vector<uint16_t> halves;
    std::vector<float> scale;
    rows_case(random_source &r, bool is_halves, size_t n) : q(n), halves(1), scale(n / VALUES) {
        if (is_halves) {
            values = r.normals(n, 1);
            halves = halves_from(values);
            return;
        }
        const bool extreme = r.below(4) == 0; /* the largest sums that can be */
        for (size_t i = 0; i < n; i++) {
            if (i % VALUES == 0)
                scale[i / VALUES] = r.uniform(0.001f, 0.03f);
            q[i] = (int8_t)(extreme ? 127 : r.below(255) - 127);
            values.push_back((float)q[i] * scale[i / VALUES]);
        }
    }
};

template <int FORMAT, int ROW_TILES, int COLUMN_TILES> static std::vector<float> test_product(unsigned seed, int rows) {
    random_source r(seed); /* the same numbers for any number of rows: those of row 0 come first */
    const int k = VALUES * (1 + r.below(70)), columns[] = {1 + r.below(40), 8 + r.below(30)};
    const int stride = columns[0] + columns[1] + 3;
    const device_matrix_case first(store_tensor((device_format)FORMAT, columns[0], k, r.normals((size_t)columns[0] * k, 0.1f)));
    const device_matrix_case second(store_tensor((device_format)FORMAT, columns[1], k, r.normals((size_t)columns[1] * k, 0.1f)));
    const std::vector<float> bias = r.normals(columns[0], 1);
    const bool add = r.below(2) == 0;
    const rows_case a(r, FORMAT == DEVICE_F16, (size_t)rows * k);
    const device_array<int8_t> q(a.q);
    const device_array<uint16_t> halves(a.halves);
    const device_array<float> scale(a.scale), bias_array(bias);
    const std::vector<float> before((size_t)rows * stride, 0.5f);
    const auto out = in_all_orders(first_seed, [&] {
        device_array<float> y(before);
        decoder_product_arguments p = {};
        p.a = {q.p, scale.p, FORMAT == DEVICE_F16 ? halves.p : NULL};
        p.rows = rows;
        p.k = k;
        p.stride = stride;
        p.add = add;
        p.parts = 2;
        p.part[0] = {first.values.p, first.scale.p, bias_array.p, y.p, columns[0]};
        p.part[1] = {second.values.p, second.scale.p, NULL, y.p + columns[0], columns[1]};
        const int blocks = part_blocks(p.part[0], ROW_TILES ? COLUMN_TILES : 1) + part_blocks(p.part[1], ROW_TILES ? COLUMN_TILES : 1);
        if constexpr (ROW_TILES == 0) /* multiply_few */
            run_kernel<multiply_few<FORMAT, COLUMN_TILES>>(dim3((unsigned)blocks), PRODUCT_WARPS * WARP, 0, 0, 0, p);
        else
            run_kernel<decoder_product<FORMAT, ROW_TILES, COLUMN_TILES>>(
                dim3((unsigned)blocks, (unsigned)(rows + 16 * ROW_TILES - 1) / (16 * ROW_TILES)), PRODUCT_WARPS * WARP, 0, 0, 0, p);
        finish();
        return y.get();
    });
    for (int row = 0; row < rows; row++)
        for (int c = 0; c < stride; c++) {
            const int part = c >= columns[0], column = part ? c - columns[0] : c;
            double sum = add || column >= columns[part] ? 0.5 : 0, size = 1;
            if (column < columns[part]) {
                sum += part ? 0 : (double)bias[column];
                for (int i = 0; i < k; i++) {
                    const double term = (double)a.values[(size_t)row * k + i] *
                                        (double)(part ? second : first).stored.values[(size_t)column * k + i];
                    sum += term;
                    size += fabs(term);
                }
            }
            const double got = out[(size_t)row * stride + c];
            CHECK(fabs(got - sum) < 1e-5 * size, "row %d column %d: %g, expected %g", row, c, got, sum);
        }
    return std::vector<float>(out.begin(), out.begin() + stride);
}

template <int FORMAT> static void test_products(random_source &r) {
    const unsigned seed = (unsigned)r.below(1 << 20);
    const auto few = test_product<FORMAT, 1, 1>(seed, 1), more = test_product<FORMAT, 1, 1>(seed, 2 + r.below(15));
    const auto many = test_product<FORMAT, 2, 2>(seed, 17 + r.below(60));
    if constexpr (FORMAT != DEVICE_F16) {
        CHECK((few == test_product<FORMAT, 0, 1>(seed, 1)), "one row alone has other bits");
        CHECK((few == test_product<FORMAT, 0, 4>(seed, 1 + r.below(4))), "a few rows have other bits");
        CHECK((few == test_product<FORMAT, 0, 8>(seed, 1 + r.below(8))), "8 rows have other bits");
    }
    CHECK(few == more && few == many, "the bits of a row depend on the number of rows");
}

/* What a kernel wrote as rows, as values. */
struct written_rows {
    device_array<int8_t> q;
    device_array<float> scale;
    device_array<uint16_t> halves;
    bool is_halves;
    size_t n;
    written_rows(bool halves_, size_t n_) : q(n_), scale(n_ / VALUES), halves(n_), is_halves(halves_), n(n_) {}
    decoder_rows rows() const { return {q.p, scale.p, is_halves ? halves.p : NULL}; }
    std::vector<float> values() const {
        if (is_halves)
            return floats_from(halves.get());
        const auto numbers = q.get();
        const auto scales = scale.get();
        std::vector<float> v(n);
        for (size_t i = 0; i < n; i++)
            v[i] = (float)numbers[i] * scales[i / VALUES];
        return v;
    }
};

/* Compares each value with what it should be: within half a step of its block, or the precision of a half. */
static void check_rows(const std::vector<float> &values, const std::vector<double> &expected, bool halves) {
    CHECK(values.size() == expected.size(), "%zu values, %zu expected", values.size(), expected.size());
    for (size_t block = 0; block < values.size(); block += VALUES) {
        double largest = 0;
        for (size_t i = block; i < block + VALUES; i++)
            largest = std::max(largest, fabs(expected[i]));
        for (size_t i = block; i < block + VALUES; i++) {
            const double bound = halves ? 6e-4 * fabs(expected[i]) + 1e-6 : largest * (0.502 / 127) + 1e-6;
            CHECK(fabs((double)values[i] - expected[i]) < bound, "value %zu: %g, expected %g", i, (double)values[i], expected[i]);
        }
    }
}

static void test_norm(random_source &r) {
    const int size = VALUES * (1 + r.below(60)), rows = 1 + r.below(4);
    const bool halves = r.below(2) == 0;
    const std::vector<float> x = r.normals((size_t)size * 5, 2), weight = r.normals(size, 1);
    std::vector<int32_t> map;
    for (int i = 0; i < rows; i++)
        map.push_back(r.below(5));
    const bool adds = r.below(2) == 0; /* then rows differ: each is changed once */
    for (int i = 0; i < rows && adds; i++)
        map[i] = i;
    const std::vector<float> slices = r.normals((size_t)size * 5 * SLICES, 1);
    const device_array<float> weight_array(weight), slices_array(slices);
    const device_array<int32_t> map_array(map);
    const auto got = in_all_orders(first_seed, [&] {
        const device_array<float> x_array(x);
        const written_rows out(halves, (size_t)rows * size);
        const rms_norm_arguments a = {x_array.p, map_array.p, weight_array.p, 1e-3f, size, out.rows(), adds ? slices_array.p : NULL, SLICES};
        run_kernel<rms_norm_rows>(dim3((unsigned)rows), ROW_THREADS, 0, 0, 0, a);
        finish();
        return out.values();
    });
    std::vector<double> expected;
    for (int row = 0; row < rows; row++) {
        std::vector<double> from(&x[(size_t)map[row] * size], &x[(size_t)map[row] * size] + size);
        for (int i = 0; i < size * SLICES && adds; i++)
            from[i % size] += (double)slices[(size_t)row * SLICES * size + i];
        double squares = 0;
        for (int i = 0; i < size; i++)
            squares += from[i] * from[i] / size;
        for (int i = 0; i < size; i++)
            expected.push_back(from[i] / sqrt(squares + 1e-3) * (double)weight[i]);
    }
    check_rows(got, expected, halves);
}

static void test_gates(random_source &r) {
    const int size = VALUES * (1 + r.below(30)), rows = 1 + r.below(4), gate = r.below(3);
    const bool halves = r.below(2) == 0;
    const std::vector<float> y = r.normals((size_t)rows * 2 * size, 3);
    const device_array<float> y_array(y);
    const auto got = in_all_orders(first_seed, [&] {
        const written_rows out(halves, (size_t)rows * size);
        const gate_arguments a = {y_array.p, rows, size, gate, out.rows()};
        run_kernel<gate_rows>(dim3((unsigned)(rows * size / 4 + ROW_THREADS - 1) / ROW_THREADS), ROW_THREADS, 0, 0, 0, a);
        finish();
        return out.values();
    });
    std::vector<double> expected;
    for (int row = 0; row < rows; row++)
        for (int i = 0; i < size; i++) {
            const double x = y[(size_t)row * 2 * size + i], positive = x > 0 ? x : 0;
            const double opened = gate == DEVICE_GATE_SILU ? x / (1 + exp(-x)) : gate == DEVICE_GATE_RELU ? positive : positive * positive;
            expected.push_back(opened * (double)y[(size_t)row * 2 * size + size + i]);
        }
    check_rows(got, expected, halves);
}

static void test_look_up(random_source &r) {
    for (const device_format format : {DEVICE_F16, DEVICE_Q8_0, DEVICE_Q4_0}) {
        const int size = VALUES * (1 + r.below(20)), rows = 1 + r.below(4);
        const device_matrix_case tokens(store_tensor(format, 9, size, r.normals((size_t)9 * size, 1)));
        std::vector<int32_t> ids;
        std::vector<float> expected;
        for (int i = 0; i < rows; i++) {
            ids.push_back(r.below(9));
            const auto begin = tokens.stored.values.begin() + (ptrdiff_t)ids.back() * size;
            expected.insert(expected.end(), begin, begin + size);
        }
        const device_array<int32_t> id_array(ids);
        const auto got = in_all_orders(first_seed, [&] {
            device_array<float> h((size_t)rows * size);
            const look_up_arguments a = {id_array.p, tokens.matrix(), h.p};
            run_kernel<look_up_rows>(dim3((unsigned)rows), ROW_THREADS, 0, 0, 0, a);
            finish();
            return h.get();
        });
        CHECK(got == expected, "rows of format %d are other ones", format);
    }
}

/* Texts with random keys and values on the device, and rows that end them. */
template <int SIZE> static void test_attention(random_source &r) {
    const int kv_heads = 1 + r.below(2), group = 1 + r.below(3), heads = kv_heads * group, layers = 2, layer = r.below(2);
    const int texts = 2, rows = 3, slots = 2, all = heads + 2 * kv_heads;
    const bool halves = r.below(2) == 0, neighbours = r.below(2) == 0, normed = r.below(2) == 0;
    const int rotary = r.below(2) == 0 ? SIZE : SIZE / 2;
    const size_t page = (size_t)layers * kv_heads * 2 * PAGE * SIZE;
    std::vector<float> kv = r.normals(page * texts * slots, 1);
    const std::vector<uint16_t> kv_halves = halves_from(kv);
    const std::vector<int32_t> position = {r.below(64), PAGE + r.below(100), 0}, text = {0, 1, 1};
    std::vector<int32_t> places = position;
    places[2] = places[1] - 1 - r.below(80); /* the third row is earlier in the second text */
    const std::vector<float> qkv = r.normals((size_t)rows * all * SIZE, 1), norm = r.normals(SIZE, 1);
    std::vector<float> table = r.normals((size_t)512 * SIZE, 1);
    const device_array<float> norm_array(norm), table_array(table);
    const device_array<int32_t> position_array(places), text_array(text);
    const float epsilon = 1e-4f, scale = 0.3f;
    const float log2_scale = scale * 1.4426950408889634f;
    const int splits = places[1] / SPLIT + 1;
    std::vector<uint16_t> kept;
    const auto got = in_all_orders(first_seed, [&] {
        const device_array<uint16_t> pages(kv_halves);
        std::vector<uint16_t *> list;
        for (int i = 0; i < texts * slots; i++)
            list.push_back(pages.p + page * i);
        const device_array<uint16_t *> list_array(list);
        const device_array<float> x(qkv);
        const attention_texts on_device = {position_array.p, text_array.p, list_array.p, slots};
        const attention_sizes sizes = {heads, kv_heads, SIZE};
        const rotate_arguments rotate = {x.p, on_device, sizes, normed ? norm_array.p : NULL, normed ? norm_array.p : NULL,
                                         table_array.p, layer, rotary, neighbours, epsilon, log2_scale};
        run_kernel<rotate_heads>(dim3((unsigned)(all + HEAD_WARPS - 1) / HEAD_WARPS, rows), HEAD_WARPS * WARP, 0, 0, 0, rotate);
        const device_array<float> part((size_t)rows * splits * heads * SIZE);
        const device_array<float2> state((size_t)rows * splits * heads);
        const split_arguments split = {x.p, on_device, sizes, layer, 0, splits, part.p, state.p};
        run_kernel<attend_split<SIZE>>(dim3((unsigned)splits, (unsigned)kv_heads, rows), SPLIT_THREADS, 0, 0, 0, split);
        const written_rows out(halves, (size_t)rows * heads * SIZE);
        const merge_arguments merge = {part.p, state.p, position_array.p, sizes, 0, splits, out.rows()};
        run_kernel<merge_splits>(dim3(rows), ROW_THREADS, 0, 0, 0, merge);
        finish();
        kept = pages.get();
        return out.values();
    });
    /* A head of a row at its position. */
    const auto placed = [&](int row, int head, bool is_normed, bool is_rotated) {
        std::vector<double> v(SIZE);
        double squares = 0;
        for (int i = 0; i < SIZE; i++) {
            v[i] = qkv[((size_t)row * all + head) * SIZE + i];
            squares += v[i] * v[i] / SIZE;
        }
        for (int i = 0; i < SIZE && is_normed; i++)
            v[i] *= (double)norm[i] / sqrt(squares + (double)epsilon);
        for (int i = 0; i < rotary / 2 && is_rotated; i++) {
            double &a = v[neighbours ? 2 * i : i], &b = v[neighbours ? 2 * i + 1 : i + rotary / 2];
            const double c = table[(size_t)places[row] * SIZE + i], s = table[(size_t)places[row] * SIZE + rotary / 2 + i], a0 = a;
            a = a0 * c - b * s;
            b = b * c + a0 * s;
        }
        return v;
    };
    const auto kv_at = [&](int row, int kv_head, bool values, int at) {
        return page * (text[row] * slots + at / PAGE) +
               ((((size_t)layer * kv_heads + kv_head) * 2 + values) * PAGE + at % PAGE) * SIZE;
    };
    std::vector<float> stored = floats_from(kept);
    for (int row = 0; row < rows; row++) /* keys and values have come to their places */
        for (int head = 0; head < 2 * kv_heads; head++) {
            const bool values = head >= kv_heads;
            const auto v = placed(row, heads + head, normed && !values, !values);
            const size_t at = kv_at(row, head % kv_heads, values, places[row]);
            for (int i = 0; i < SIZE; i++)
                CHECK(fabs((double)stored[at + i] - v[i]) < 1e-3 * (1 + fabs(v[i])), "row %d head %d value %d: %g, expected %g",
                      row, head, i, (double)stored[at + i], v[i]);
        }
    std::vector<double> expected;
    for (int row = 0; row < rows; row++)
        for (int head = 0; head < heads; head++) {
            const auto q = placed(row, head, normed, true);
            std::vector<double> weight(places[row] + 1), context(SIZE);
            double sum = 0, largest = -1e30;
            for (int key = 0; key <= places[row]; key++) {
                for (int i = 0; i < SIZE; i++)
                    weight[key] += q[i] * (double)scale * (double)stored[kv_at(row, head / group, false, key) + i];
                largest = std::max(largest, weight[key]);
            }
            for (double &w : weight)
                sum += w = exp(w - largest);
            for (int key = 0; key <= places[row]; key++)
                for (int i = 0; i < SIZE; i++)
                    context[i] += weight[key] / sum * (double)stored[kv_at(row, head / group, true, key) + i];
            expected.insert(expected.end(), context.begin(), context.end());
        }
    for (size_t i = 0; i < expected.size(); i++) /* keys and weights are sums of many terms */
        CHECK(fabs((double)got[i] - expected[i]) < (halves ? 3e-3 : 3e-2), "value %zu: %g, expected %g", i, (double)got[i], expected[i]);
}

/* The choice of neurons, their values, and the sums of their columns. Gates are whole numbers, so that scores are exact
 * and many are the same. */
template <int FORMAT> static void test_sparse(random_source &r) {
    const int neurons = VALUES * (1 + r.below(r.below(2) ? 40 : 200)), hidden = VALUES * (1 + r.below(8)), rows = 1 + r.below(3);
    const int most = 1 + r.below(neurons), gate = r.below(2) ? DEVICE_GATE_RELU : DEVICE_GATE_RELU_SQUARED;
    const device_matrix_case up(store_tensor((device_format)FORMAT, neurons, hidden, r.normals((size_t)neurons * hidden, 0.1f)));
    const device_matrix_case down(store_tensor((device_format)FORMAT, hidden, neurons, r.normals((size_t)neurons * hidden, 0.1f)));
    const rows_case x(r, false, (size_t)rows * hidden);
    std::vector<float> gates((size_t)rows * 2 * neurons), weight;
    for (float &g : gates)
        g = (float)(r.below(41) - 20);
    for (int i = 0; i < neurons; i++)
        weight.push_back((float)(1 + r.below(3)));
    const bool weighted = r.below(2) == 0;
    const device_array<float> weight_array(weight), x_scale(x.scale);
    const device_array<int8_t> x_array(x.q);
    std::vector<int32_t> index, count;
    std::vector<float> values;
    const auto slices = in_all_orders(first_seed, [&] {
        const device_array<int8_t> numbers((size_t)neurons * hidden);
        const device_array<uint16_t> scales((size_t)neurons / VALUES * hidden);
        const neuron_columns columns = {numbers.p, scales.p};
        for (int first = 0; first < hidden; first += VALUES) {
            const columns_arguments copy = {down.matrix(), columns, first, VALUES};
            run_kernel<copy_columns>(dim3(1, (unsigned)neurons / VALUES), ROW_THREADS, 0, 0, 0, copy);
        }
        const device_array<float> gate_up(gates), out((size_t)rows * SLICES * hidden);
        const device_array<int32_t> index_array((size_t)rows * neurons), count_array(rows);
        const neuron_list list = {index_array.p, count_array.p};
        const select_arguments select = {gate_up.p, weighted ? weight_array.p : NULL, neurons, most, gate, list};
        run_kernel<select_neurons>(dim3((unsigned)rows), SELECT_THREADS, 0, 0, 0, select);
        const neuron_arguments multiply = {{x_array.p, x_scale.p, NULL}, up.matrix(), gate_up.p, list, gate};
        run_kernel<multiply_neurons<FORMAT>>(dim3(1 + (unsigned)r.below(9), (unsigned)rows), NEURON_WARPS * WARP, 0, 0, 0, multiply);
        const columns_sum_arguments sum = {columns, gate_up.p, list, neurons, hidden, out.p};
        run_kernel<sum_columns>(dim3((unsigned)(hidden + SLICE_OUTPUTS - 1) / SLICE_OUTPUTS, SLICES, (unsigned)rows),
                                NEURON_WARPS * WARP, 0, 0, 0, sum);
        finish();
        index = index_array.get();
        count = count_array.get();
        values = gate_up.get();
        return out.get();
    });
    for (int row = 0; row < rows; row++) {
        std::vector<float> score, opened;
        for (int i = 0; i < neurons; i++) {
            const float g = std::max(gates[(size_t)row * 2 * neurons + i], 0.0f);
            opened.push_back(gate == DEVICE_GATE_RELU ? g : g * g);
            score.push_back(opened.back() * (weighted ? weight[i] : 1));
        }
        std::vector<float> sorted = score;
        std::sort(sorted.rbegin(), sorted.rend());
        std::vector<int32_t> expected;
        for (int i = 0; i < neurons; i++)
            if (score[i] > 0 && score[i] >= sorted[most - 1])
                expected.push_back(i);
        const auto begin = index.begin() + (ptrdiff_t)row * neurons;
        CHECK(count[row] == (int)expected.size() && std::equal(expected.begin(), expected.end(), begin),
              "row %d: %d of %d neurons, expected %zu", row, count[row], neurons, expected.size());
        std::vector<double> sum(hidden), size(hidden, 1e-3);
        for (size_t at = 0; at < expected.size(); at++) {
            const size_t n = expected[at];
            double value = 0;
            for (int i = 0; i < hidden; i++)
                value += (double)x.values[(size_t)row * hidden + i] * (double)up.stored.values[n * hidden + i];
            value *= (double)opened[n];
            const double got = values[((size_t)row * 2 + 1) * neurons + at];
            CHECK(fabs(got - value) < 1e-3 + 1e-4 * fabs(value), "neuron %zu: %g, expected %g", n, got, value);
            for (int o = 0; o < hidden; o++) {
                const double term = value * (double)down.stored.values[(size_t)o * neurons + n];
                sum[o] += term;
                size[o] += fabs(term);
            }
        }
        for (int o = 0; o < hidden; o++) {
            double got = 0;
            for (int slice = 0; slice < SLICES; slice++)
                got += (double)slices[((size_t)row * SLICES + slice) * hidden + o];
            CHECK(fabs(got - sum[o]) < 1e-4 * size[o], "output %d: %g, expected %g", o, got, sum[o]);
        }
    }
}

int main(int argc, char **argv) {
    first_seed = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
    random_source r(first_seed);
    for (int i = 0; i < CASES; i++) {
        test_products<DEVICE_Q8_0>(r);
        test_products<DEVICE_Q4_0>(r);
        test_products<DEVICE_F16>(r);
        test_norm(r);
        test_gates(r);
        test_look_up(r);
        test_sparse<DEVICE_Q8_0>(r);
        test_sparse<DEVICE_Q4_0>(r);
    }
    for (int i = 0; i < (CASES + 2) / 3; i++) {
        test_attention<32>(r);
        test_attention<64>(r);
        test_attention<96>(r);
        test_attention<128>(r);
        test_attention<256>(r);
    }
    printf("kernels of decoders: %d random cases of each\n", CASES);
    return 0;
}
