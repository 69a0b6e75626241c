/* SPDX-License-Identifier: Apache-2.0
 * Operands of the kernels of decoders: weights and rows on the device, and the values that they
 * stand for. */
#ifndef WISP_TESTS_CUDA_DECODER_OPERANDS_H
#define WISP_TESTS_CUDA_DECODER_OPERANDS_H

#include <algorithm>

#include "decoder_case.h"
#include "kernels/cuda/decoder_layout.h"

/* A matrix on the device, from the bytes of a file. The library's own conversion is part of
 * test_decoder.cu. */
struct device_matrix_case {
    stored_tensor stored;
    device_array<unsigned char> values;
    device_array<uint16_t> scale;

    static std::vector<unsigned char> numbers(const stored_tensor &t) {
        std::vector<unsigned char> all;
        const size_t file = t.format == DEVICE_F16    ? 64
                            : t.format == DEVICE_Q8_0 ? 34
                                                      : 18,
                     skipped = t.format == DEVICE_F16 ? 0 : 2;
        for (size_t at = 0; at < t.bytes.size(); at += file) {
            const unsigned char *block = &t.bytes[at + skipped];
            if (t.format != DEVICE_Q4_0) {
                append_bytes(all, block, file - skipped);
                continue;
            }
            for (int byte = 0; byte < 16; byte++) {
                const int low = byte / 4 * 8 + byte % 4, high = low + 4;
                const auto number = [block](int i) {
                    return i < 16 ? block[i] & 15 : block[i - 16] >> 4;
                };
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
    explicit device_matrix_case(const stored_tensor &t)
        : stored(t), values(numbers(t)), scale(scales(t)) {}
    decoder_matrix matrix() const {
        return {values.p, stored.format == DEVICE_F16 ? NULL : scale.p, stored.rows, stored.columns,
                stored.format};
    }
};

/* How rows are written: int8, halves, or halves in stages. */
enum row_form { ROWS_INT8, ROWS_HALVES, ROWS_STAGED, ROW_FORMS };

/* Returns where number i of rows is. */
static inline size_t place_of_number(row_form form, size_t i) {
    return form == ROWS_STAGED ? place_in_stage(i & ~(size_t)1) + i % 2 : i;
}

/* Rows as products read them, and the values that they stand for. */
struct rows_case {
    std::vector<float> values;
    std::vector<int8_t> q;
    std::vector<uint16_t> halves;
    std::vector<float> scale;
    rows_case(random_source &r, row_form form, size_t n) : q(n), halves(n), scale(n / VALUES) {
        if (form != ROWS_INT8) {
            values = r.normals(n, 1);
            const auto in_order = halves_from(values);
            for (size_t i = 0; i < n; i++)
                halves[place_of_number(form, i)] = in_order[i];
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

/* Rows that a kernel wrote, read back as values. */
struct written_rows {
    device_array<int8_t> q;
    device_array<float> scale;
    device_array<uint16_t> halves;
    row_form form;
    size_t n;
    written_rows(row_form form_, size_t n_)
        : q(n_), scale(n_ / VALUES), halves(n_), form(form_), n(n_) {}
    decoder_rows rows() const {
        return {q.p, scale.p, form != ROWS_INT8 ? halves.p : NULL, form == ROWS_STAGED};
    }
    std::vector<float> values() const {
        std::vector<float> v(n);
        const auto numbers = q.get();
        const auto scales = scale.get(), floats = floats_from(halves.get());
        for (size_t i = 0; i < n; i++)
            v[i] = form == ROWS_INT8 ? (float)numbers[i] * scales[i / VALUES]
                                     : floats[place_of_number(form, i)];
        return v;
    }
};

/* Compares each value with what it should be: within half a step of its block, or the precision of
 * a half. */
static inline void check_rows(const std::vector<float> &values, const std::vector<double> &expected,
                              row_form form) {
    CHECK(values.size() == expected.size(), "%zu values, %zu expected", values.size(),
          expected.size());
    for (size_t block = 0; block < values.size(); block += VALUES) {
        double largest = 0;
        for (size_t i = block; i < block + VALUES; i++)
            largest = std::max(largest, fabs(expected[i]));
        for (size_t i = block; i < block + VALUES; i++) {
            const double bound = form != ROWS_INT8 ? 6e-4 * fabs(expected[i]) + 1e-6
                                                   : largest * (0.502 / 127) + 1e-6;
            CHECK(fabs((double)values[i] - expected[i]) < bound, "value %zu: %g, expected %g", i,
                  (double)values[i], expected[i]);
        }
    }
}

#endif
