/* SPDX-License-Identifier: Apache-2.0
 * Every kernel of decoders but products (test_decoder_products.cu) over random legal shapes, against references in double. In the emulator each case runs in
 * four orders of threads, which must give the same bits. */
#include <algorithm>

#include "decoder_operands.h"
#include "kernels/cuda/decoder_prompt.h"
#include "kernels/cuda/decoder_sparse.h"
#include "orders.h"

static unsigned first_seed;

#ifdef __CUDACC__
enum { CASES = 40 };
#else
enum { CASES = 3 };
#endif

static void test_norm(random_source &r) {
    const auto form = (row_form)r.below(ROW_FORMS);
    const int size = (form == ROWS_STAGED ? STAGE_VALUES : VALUES) * (1 + r.below(40)), rows = 1 + r.below(4);
    const std::vector<float> x = r.normals((size_t)size * 5, 2), weight = r.normals(size, 1);
    std::vector<int32_t> map;
    for (int i = 0; i < rows; i++)
        map.push_back(r.below(5));
    const device_array<float> weight_array(weight);
    const device_array<int32_t> map_array(map);
    const auto got = in_all_orders(first_seed, [&] {
        const device_array<float> x_array(x);
        const written_rows out(form, (size_t)rows * size);
        const rms_norm_arguments a = {x_array.p, map_array.p, weight_array.p, 1e-3f, size, out.rows()};
        run_kernel<rms_norm_rows>(dim3((unsigned)rows), ROW_THREADS, 0, 0, 0, a);
        finish();
        return out.values();
    });
    std::vector<double> expected;
    for (int row = 0; row < rows; row++) {
        std::vector<double> from(&x[(size_t)map[row] * size], &x[(size_t)map[row] * size] + size);
        double squares = 0;
        for (int i = 0; i < size; i++)
            squares += from[i] * from[i] / size;
        for (int i = 0; i < size; i++)
            expected.push_back(from[i] / sqrt(squares + 1e-3) * (double)weight[i]);
    }
    check_rows(got, expected, form);
}

static void test_gates(random_source &r) {
    const auto form = (row_form)r.below(ROW_FORMS);
    const int size = (form == ROWS_STAGED ? STAGE_VALUES : VALUES) * (1 + r.below(30)), rows = 1 + r.below(4), gate = r.below(3);
    const std::vector<float> y = r.normals((size_t)rows * 2 * size, 3);
    const device_array<float> y_array(y);
    const auto got = in_all_orders(first_seed, [&] {
        const written_rows out(form, (size_t)rows * size);
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
    check_rows(got, expected, form);
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

/* How rows of such a size may be written. */
static row_form random_form(random_source &r, int size) { return (row_form)r.below(size % STAGE_VALUES == 0 ? ROW_FORMS : ROWS_STAGED); }

/* Texts with random keys and values on the device, and rows that end them. */
template <int SIZE> static void test_attention(random_source &r) {
    const int kv_heads = 1 + r.below(2), group = 1 + r.below(3), heads = kv_heads * group, layers = 2, layer = r.below(2);
    const int texts = 2, rows = 3, slots = 2, all = heads + 2 * kv_heads;
    const bool neighbours = r.below(2) == 0, normed = r.below(2) == 0;
    const row_form form = random_form(r, heads * SIZE);
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
        const written_rows out(form, (size_t)rows * heads * SIZE);
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
        CHECK(fabs((double)got[i] - expected[i]) < (form != ROWS_INT8 ? 3e-3 : 3e-2), "value %zu: %g, expected %g", i, (double)got[i], expected[i]);
}

/* Attention of the last tokens of a text, in tiles. */
template <int SIZE> static void test_prompt(random_source &r) {
    const int kv_heads = 1 + r.below(2), heads = kv_heads * (1 + r.below(2)), all = heads + 2 * kv_heads, slots = 2;
    const int rows = 1 + r.below(r.below(2) ? 20 : 2 * QUERY_TILE), before = r.below(100); /* tokens before, of texts before */
    const int start = r.below(PAGE), layer = r.below(2);
    const row_form form = random_form(r, heads * SIZE);
    const size_t page = (size_t)2 * kv_heads * 2 * PAGE * SIZE;
    std::vector<float> kv = r.normals(page * slots, 1), qkv = r.normals((size_t)(before + rows) * all * SIZE, 0.4f);
    const device_array<uint16_t> pages(halves_from(kv));
    const std::vector<uint16_t *> list = {pages.p, pages.p, pages.p, pages.p + page};
    const device_array<uint16_t *> list_array(list);
    std::vector<int32_t> position(before), text(before);
    std::vector<int2> tiles;
    for (int i = 0; i < rows; i++) {
        position.push_back(start + i);
        text.push_back(1);
        if (i % QUERY_TILE == 0)
            tiles.push_back({before + i, std::min(rows - i, (int)QUERY_TILE)});
    }
    const device_array<int32_t> position_array(position), text_array(text);
    const device_array<float> x(qkv);
    const device_array<int2> tile_array(tiles);
    const size_t size = (size_t)heads * SIZE;
    const auto got = in_all_orders(first_seed, [&] {
        const written_rows out(form, (before + rows) * size);
        const prompt_arguments a = {x.p, tile_array.p, {position_array.p, text_array.p, list_array.p, slots}, {heads, kv_heads, SIZE}, layer, out.rows()};
        const size_t bytes = attention_layout<SIZE>::SHARED_BYTES;
        run_kernel<attend_prompt<SIZE>>(dim3((unsigned)tiles.size(), (unsigned)heads), ATTENTION_WARPS * WARP, bytes, bytes, 0, a);
        finish();
        const auto values = out.values();
        return std::vector<float>(values.begin() + (ptrdiff_t)(before * size), values.end());
    });
    for (int row = 0; row < rows; row++)
        for (int head = 0; head < heads; head++) {
            const auto kv_at = [&](int key, int values) {
                return page * (key / PAGE) + ((((size_t)layer * kv_heads + head / (heads / kv_heads)) * 2 + values) * PAGE + key % PAGE) * SIZE;
            };
            std::vector<double> context(SIZE);
            double sum = 0;
            for (int key = 0; key <= start + row; key++) {
                double weight = 0;
                for (int i = 0; i < SIZE; i++)
                    weight += (double)qkv[((size_t)(before + row) * all + head) * SIZE + i] * (double)kv[kv_at(key, 0) + i];
                sum += weight = exp2(weight);
                for (int i = 0; i < SIZE; i++)
                    context[i] += weight * (double)kv[kv_at(key, 1) + i];
            }
            for (int i = 0; i < SIZE; i++)
                CHECK(fabs((double)got[(size_t)row * size + head * SIZE + i] - context[i] / sum) < (form != ROWS_INT8 ? 5e-3 : 2e-2),
                      "row %d head %d value %d: %g, expected %g", row, head, i, (double)got[(size_t)row * size + head * SIZE + i],
                      context[i] / sum);
        }
}

/* f(x) of a gate. */
static double opened_by(double x, int gate) {
    const double positive = x > 0 ? x : 0;
    return gate == DEVICE_GATE_SILU ? x / (1 + exp(-x)) : gate == DEVICE_GATE_RELU ? positive : positive * positive;
}

static int bits_of(float x) {
    int bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The least bits of scores that are chosen if they are counted. */
static int limit_of(const std::vector<float> &scores, int most) {
    std::vector<float> sorted = scores;
    std::sort(sorted.rbegin(), sorted.rend());
    return std::max(bits_of(sorted[most - 1]) >> SCORE_SHIFT << SCORE_SHIFT, 1);
}

/* What the kernels of one row write. */
struct gathered {
    std::vector<float> opened, h;
    std::vector<int32_t> bins;
    std::vector<uint32_t> computed;
    bool operator==(const gathered &o) const { return h == o.h && bins == o.bins && computed == o.computed; }
};

/* One row: the choice of neurons, their values, and the sums of their columns. If `wide`, a warp has several chunks of
 * the outputs. */
template <int FORMAT> static void test_gather(random_source &r, bool wide) {
    const int neurons = VALUES * (1 + r.below(wide ? 2 : r.below(2) ? 12 : 60));
    const int hidden = VALUES * (1 + (wide ? OUTPUTS * NEURON_WARPS / VALUES + r.below(40) : r.below(r.below(3) ? 8 : 100)));
    const int gate = r.below(3), each = NEURON_WARPS << r.below(3);
    const bool weighted = r.below(2) == 0, limited = r.below(2) == 0;
    const int most = 1 + r.below(neurons);
    const size_t all = (size_t)neurons * hidden;
    const device_matrix_case gates(store_tensor((device_format)FORMAT, neurons, hidden, r.normals(all, 0.1f)));
    const device_matrix_case up(store_tensor((device_format)FORMAT, neurons, hidden, r.normals(all, 0.1f)));
    const device_matrix_case down(store_tensor((device_format)FORMAT, hidden, neurons, r.normals(all, 0.1f)));
    const rows_case x(r, ROWS_INT8, hidden);
    std::vector<float> weight;
    for (int i = 0; i < neurons; i++)
        weight.push_back((float)(1 + r.below(3)));
    const std::vector<float> before = r.normals(hidden, 1), limit = {r.uniform(-0.5f, 1.5f)};
    const device_array<float> weight_array(weight), x_scale(x.scale), limit_array(limit);
    const device_array<int8_t> x_array(x.q), numbers(all);
    const device_array<uint16_t> scales(all / VALUES);
    const neuron_columns columns = {numbers.p, scales.p};
    for (int first = 0; first < hidden; first += VALUES) {
        const columns_arguments copy = {down.matrix(), columns, first, VALUES};
        run_kernel<copy_columns>(dim3(1, (unsigned)neurons / VALUES), ROW_THREADS, 0, 0, 0, copy);
    }
    const neuron_choice choice = {weighted ? weight_array.p : NULL, limited ? limit_array.p : NULL, neurons, most, gate};
    const gathered got = in_all_orders(first_seed, [&] {
        const int blocks = neurons / each;
        const device_array<float> opened(neurons), slices((size_t)blocks * hidden), h(before);
        const std::vector<int32_t> no_bins(SCORE_BINS);
        const device_array<int32_t> bins(no_bins);
        const device_array<uint32_t> computed(std::vector<uint32_t>(1));
        const neuron_arguments a = {{x_array.p, x_scale.p, NULL, false}, gates.matrix(), up.matrix(), columns, choice, hidden, each,
                                    opened.p, bins.p, slices.p, computed.p};
        if (limited)
            run_kernel<sum_neurons<FORMAT, false>>(dim3((unsigned)blocks), NEURON_THREADS, 0, 0, 0, a);
        else {
            run_kernel<open_gates<FORMAT>>(dim3((unsigned)neurons / NEURON_WARPS), NEURON_THREADS, 0, 0, 0, a);
            run_kernel<sum_neurons<FORMAT, true>>(dim3((unsigned)blocks), NEURON_THREADS, 0, 0, 0, a);
        }
        const slices_arguments sum = {slices.p, blocks, hidden, limited ? NULL : bins.p, h.p};
        run_kernel<add_slices>(dim3((unsigned)hidden / VALUES), NEURON_THREADS, 0, 0, 0, sum);
        finish();
        return gathered{opened.get(), h.get(), bins.get(), computed.get()};
    });
    std::vector<float> scores;
    for (int n = 0; n < neurons && !limited; n++)
        scores.push_back(fabsf(got.opened[n] * (weighted ? weight[n] : 1)));
    /* Scores near the limit are chosen or not, as rounding decides: what they add is allowed to be missing. */
    std::vector<double> sum(before.begin(), before.end()), size(hidden, 1), slack(hidden);
    uint32_t least = 0, most_computed = 0;
    for (int n = 0; n < neurons; n++) {
        double g = 0, u = 0;
        for (int i = 0; i < hidden; i++) {
            g += (double)x.values[i] * (double)gates.stored.values[(size_t)n * hidden + i];
            u += (double)x.values[i] * (double)up.stored.values[(size_t)n * hidden + i];
        }
        const double opened = opened_by(g, gate), score = fabs(opened) * (weighted ? (double)weight[n] : 1), bound = (double)limit[0];
        const bool chosen = limited ? score > 0 && score >= bound : bits_of(scores[n]) >= limit_of(scores, most);
        const bool near = limited && fabs(score - std::max(bound, 0.0)) < 1e-3 * (1 + fabs(g)) && score > 0;
        CHECK(limited || fabs((double)got.opened[n] - opened) < 1e-3 * (1 + fabs(g)), "gate %d: %g, expected %g", n,
              (double)got.opened[n], opened);
        least += chosen && !near;
        most_computed += chosen || near;
        for (int o = 0; o < hidden; o++) {
            const double term = opened * u * (double)down.stored.values[(size_t)o * neurons + n];
            sum[o] += chosen ? term : 0;
            size[o] += fabs(term);
            slack[o] += near ? fabs(term) : 0;
        }
    }
    for (int o = 0; o < hidden; o++)
        CHECK(fabs((double)got.h[o] - sum[o]) < 1e-3 * size[o] + slack[o], "output %d: %g, expected %g", o, (double)got.h[o], sum[o]);
    CHECK(got.computed[0] >= least && got.computed[0] <= most_computed, "%u neurons are counted, of %u to %u", got.computed[0],
          least, most_computed);
    CHECK(got.bins == std::vector<int32_t>(SCORE_BINS), "counters are not 0");
}

/* Several rows: which gates stay open. Gates are whole numbers, so that scores are exact and many are the same. */
static void test_masks(random_source &r) {
    const int neurons = VALUES * (1 + r.below(r.below(2) ? 40 : 200)), rows = 1 + r.below(3), most = 1 + r.below(neurons);
    const int gate = r.below(2) ? DEVICE_GATE_RELU : DEVICE_GATE_RELU_SQUARED;
    const bool weighted = r.below(2) == 0, limited = r.below(2) == 0;
    const std::vector<float> limit = {(float)(r.below(30) - 2)};
    std::vector<float> gates, weight;
    for (int i = 0; i < rows * 2 * neurons; i++)
        gates.push_back((float)(r.below(41) - 20));
    for (int i = 0; i < neurons; i++)
        weight.push_back((float)(1 + r.below(3)));
    const device_array<float> weight_array(weight), limit_array(limit);
    std::vector<uint32_t> computed;
    const auto got = in_all_orders(first_seed, [&] {
        const device_array<float> gate_up(gates);
        const device_array<uint32_t> count(std::vector<uint32_t>(1));
        const mask_arguments a = {gate_up.p, {weighted ? weight_array.p : NULL, limited ? limit_array.p : NULL, neurons, most, gate}, count.p};
        run_kernel<mask_gates>(dim3((unsigned)rows), NEURON_THREADS, 0, 0, 0, a);
        finish();
        computed = count.get();
        return gate_up.get();
    });
    uint32_t chosen = 0;
    for (int row = 0; row < rows; row++) {
        std::vector<float> scores;
        for (int i = 0; i < neurons; i++)
            scores.push_back((float)opened_by(gates[(size_t)row * 2 * neurons + i], gate) * (weighted ? weight[i] : 1));
        const int least = limited ? std::max(bits_of(limit[0]), 1) : limit_of(scores, most);
        for (int i = 0; i < 2 * neurons; i++) {
            const size_t at = (size_t)row * 2 * neurons + i;
            const bool stays = i >= neurons || bits_of(scores[i]) >= least;
            chosen += i < neurons && stays;
            CHECK(got[at] == (stays ? gates[at] : 0), "row %d gate %d: %g, before %g", row, i, (double)got[at], (double)gates[at]);
        }
    }
    CHECK(computed[0] == chosen, "%u neurons are counted, of %u", computed[0], chosen);
}

int main(int argc, char **argv) {
    first_seed = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
    random_source r(first_seed);
    for (int i = 0; i < CASES; i++) {
        test_norm(r);
        test_gates(r);
        test_look_up(r);
        test_gather<DEVICE_Q8_0>(r, i == 0);
        test_gather<DEVICE_Q4_0>(r, i == 1);
        test_masks(r);
    }
    for (int i = 0; i < (CASES + 2) / 3; i++) {
        test_attention<32>(r);
        test_attention<64>(r);
        test_attention<96>(r);
        test_attention<128>(r);
        test_attention<256>(r);
        test_prompt<32>(r);
        test_prompt<64>(r);
        test_prompt<96>(r);
        test_prompt<128>(r);
    }
    printf("kernels of decoders: %d random cases of each\n", CASES);
    return 0;
}
