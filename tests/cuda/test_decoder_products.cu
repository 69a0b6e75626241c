/* SPDX-License-Identifier: Apache-2.0
 * Products of decoders over random legal shapes, against references in double. In the emulator each case runs in four
 * orders of threads, which must give the same bits. */
#include "decoder_operands.h"
#include "kernels/cuda/decoder_tiles.h"
#include "kernels/cuda/decoder_warpgroups.h"
#include "orders.h"

static unsigned first_seed;

#ifdef __CUDACC__
enum { CASES = 40 };
#else
enum { CASES = 3 };
#endif

/* multiply_few for so many rows, multiply_many with so many warpgroups, and decoder_product with so many tiles of columns
 * and 1 or 4 of rows. */
enum { FEW, MANY, TILES_1, TILES_4 };

template <int FORMAT, int KIND, int PARAMETER> static void run_product(const decoder_product_arguments &p) {
    const auto blocks = [&](int tiles) { return (unsigned)(part_blocks(p.part[0], tiles) + part_blocks(p.part[1], tiles)); };
    const auto rows_by = [&](int n) { return ((unsigned)p.rows + n - 1) / n; };
    if constexpr (KIND == FEW)
        run_kernel<multiply_few<FORMAT, PARAMETER>>(dim3(blocks(1)), PRODUCT_WARPS * WARP, 0, 0, 0, p);
    else if constexpr (KIND == MANY) {
        typedef many_layout<FORMAT, PARAMETER> layout;
        run_kernel<multiply_many<FORMAT, PARAMETER>>(dim3(rows_by(MANY_ROWS), blocks(layout::COLUMNS / MMA_COLUMNS)), layout::THREADS,
                                                     layout::SHARED_BYTES, layout::SHARED_BYTES, 0, p);
    } else {
        enum { ROW_TILES = KIND == TILES_1 ? 1 : 4 };
        const size_t bytes = sizeof(typename product_layout<FORMAT, ROW_TILES, PARAMETER>::memory);
        run_kernel<decoder_product<FORMAT, ROW_TILES, PARAMETER>>(dim3(rows_by(MMA_ROWS * ROW_TILES), blocks(PARAMETER)),
                                                                  PRODUCT_WARPS * WARP, bytes, bytes, 0, p);
    }
    finish();
}

template <int FORMAT, int KIND, int PARAMETER> static std::vector<float> test_product(unsigned seed, int rows) {
    random_source r(seed); /* the same numbers for any number of rows: those of row 0 come first */
    const row_form form = KIND == MANY ? ROWS_STAGED : FORMAT == DEVICE_F16 ? ROWS_HALVES : ROWS_INT8;
    const int blocks = 1 + r.below(70), k = KIND == MANY ? STAGE_VALUES * (1 + blocks / 8) : VALUES * blocks;
    const int columns[] = {1 + r.below(40), 8 + r.below(KIND == MANY ? 150 : 30)};
    const int stride = columns[0] + columns[1] + 3;
    const device_matrix_case first(store_tensor((device_format)FORMAT, columns[0], k, r.normals((size_t)columns[0] * k, 0.1f)));
    const device_matrix_case second(store_tensor((device_format)FORMAT, columns[1], k, r.normals((size_t)columns[1] * k, 0.1f)));
    const std::vector<float> bias = r.normals(columns[0], 1);
    const bool add = r.below(2) == 0;
    const rows_case a(r, form, (size_t)rows * k);
    const device_array<int8_t> q(a.q);
    const device_array<uint16_t> halves(a.halves);
    const device_array<float> scale(a.scale), bias_array(bias);
    const std::vector<float> before((size_t)rows * stride, 0.5f);
    const auto out = in_all_orders(first_seed, [&] {
        device_array<float> y(before);
        decoder_product_arguments p = {};
        p.a = {q.p, scale.p, form != ROWS_INT8 ? halves.p : NULL, form == ROWS_STAGED};
        p.rows = rows;
        p.k = k;
        p.stride = stride;
        p.add = add;
        p.parts = 2;
        p.part[0] = {first.values.p, first.scale.p, bias_array.p, y.p, columns[0]};
        p.part[1] = {second.values.p, second.scale.p, NULL, y.p + columns[0], columns[1]};
        run_product<FORMAT, KIND, PARAMETER>(p);
        return y.get();
    });
    for (int row = 0; row < rows; row++)
        for (int c = 0; c < stride; c++) {
            const int part = c >= columns[0], column = part ? c - columns[0] : c;
            double sum = add || column >= columns[part] ? 0.5 : 0, size = 1;
            if (column < columns[part]) {
                sum += part ? 0 : (double)bias[column];
                for (int i = 0; i < k; i++) {
                    const float stored = (part ? second : first).stored.values[(size_t)column * k + i];
                    const float weight = KIND == MANY ? emulated_float(emulated_half(stored)) : stored;
                    const double term = (double)a.values[(size_t)row * k + i] * (double)weight;
                    sum += term;
                    size += fabs(term);
                }
            }
            const double got = out[(size_t)row * stride + c];
            CHECK(fabs(got - sum) < 1e-5 * size, "row %d column %d: %g, expected %g", row, c, got, sum);
        }
    return std::vector<float>(out.begin(), out.begin() + stride);
}

template <int FORMAT> static void test_products(random_source &r, bool warpgroups) {
    const unsigned seed = (unsigned)r.below(1 << 20);
    const auto one = test_product<FORMAT, TILES_1, 1>(seed, 1);
    CHECK((one == test_product<FORMAT, TILES_1, 2>(seed, 1 + r.below(16))), "the bits of a row depend on the tiles");
    CHECK((one == test_product<FORMAT, TILES_1, 4>(seed, 1 + r.below(16))), "the bits of a row depend on the tiles");
    if constexpr (FORMAT != DEVICE_F16) {
        CHECK((one == test_product<FORMAT, FEW, 1>(seed, 1)), "one row alone has other bits");
        CHECK((one == test_product<FORMAT, FEW, 4>(seed, 1 + r.below(4))), "a few rows have other bits");
    }
    const auto tiles = test_product<FORMAT, TILES_4, 4>(seed, 17 + r.below(30));
    CHECK((tiles == test_product<FORMAT, TILES_4, 4>(seed, 47 + r.below(80))), "the bits of a row depend on the number of rows");
    if (!warpgroups)
        return;
    const auto many = test_product<FORMAT, MANY, 1>(seed, 1 + r.below(40));
    CHECK((many == test_product<FORMAT, MANY, 2>(seed, 100 + r.below(60))), "the bits of a row depend on the number of many rows");
}

int main(int argc, char **argv) {
    first_seed = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
    random_source r(first_seed);
    cudaDeviceProp properties;
    CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
    const bool warpgroups = properties.major == 9;
    for (int i = 0; i < CASES; i++) {
        test_products<DEVICE_Q8_0>(r, warpgroups);
        test_products<DEVICE_Q4_0>(r, warpgroups);
        test_products<DEVICE_F16>(r, warpgroups);
    }
    printf("products of decoders: %d random cases of each\n", CASES);
    return 0;
}
