/* SPDX-License-Identifier: Apache-2.0
 * Compares block formats with the results of the gguf package and numpy for the same bytes
 * (tests/data/blocks.bin, which tests/oracle/make_block_goldens.py writes), and halves with their
 * definition. Run it from the repository's root. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include "base/half.h"
#include "quant/blocks.h"
#include "quant/i2_s.h"
#include "support/guarded.h"
#include "support/rng.h"

#undef fail /* cmocka has one of its own */
#include <cmocka.h>

#define GOLDENS "tests/data/blocks.bin"

enum { MAX_GOLDENS = 64, MAX_FILE = 1 << 20, CAPACITY = 1 << 16 };

/* One line of the file's header. */
struct golden {
    char what[16], type[16];
    const unsigned char *given, *result;
    size_t given_bytes, result_bytes;
};

static struct golden goldens[MAX_GOLDENS];
static size_t golden_count;
static unsigned char file[MAX_FILE];
static struct rng rng;
static struct guarded input, output;

/* ---- the file ------------------------------------------------------------------------------- */

static bool read_golden(const char *line, const unsigned char *data, size_t size) {
    struct golden *g = &goldens[golden_count];
    size_t given, result;
    if (sscanf(line, "%15s %15s %zu %zu %zu %zu", g->what, g->type, &given, &g->given_bytes,
               &result, &g->result_bytes) != 6)
        return false;
    g->given = data + given;
    g->result = data + result;
    return given + g->given_bytes <= size && result + g->result_bytes <= size;
}

static int open_goldens(void **state) {
    (void)state;
    FILE *stream = fopen(GOLDENS, "rb");
    if (!stream) {
        fprintf(stderr, "%s is not there: run from the repository's root\n", GOLDENS);
        return -1;
    }
    const size_t size = fread(file, 1, sizeof file - 1, stream);
    fclose(stream);
    size_t header;
    if (sscanf((const char *)file, "wisp-block-goldens 1 %zu", &header) != 1 || header > size)
        return -1;
    for (char *line = (char *)file; strncmp(line, "end", 3) != 0;) {
        if (*line == 'd' || *line == 'q') {
            if (golden_count == MAX_GOLDENS || !read_golden(line, file + header, size - header))
                return -1;
            golden_count++;
        }
        line = strchr(line, '\n') + 1;
    }
    return 0;
}

static void directory_load_floats(const unsigned char *bytes, size_t n, float *values) {
    for (size_t i = 0; i < n; i++)
        values[i] = float_of_bits(load_u32(bytes + 4 * i));
}

static const struct golden *find_golden(const char *what, const char *type) {
    for (size_t i = 0; i < golden_count; i++)
        if (strcmp(goldens[i].what, what) == 0 && strcmp(goldens[i].type, type) == 0)
            return &goldens[i];
    fail_msg("no golden to %s %s", what, type);
    return NULL;
}

/* ---- expanding ------------------------------------------------------------------------------ */

/* Returns whether the bits are equal, or both are NaN: no format says which NaN it must be. */
static bool same_float(float a, float b) {
    return bits_of_float(a) == bits_of_float(b) || (isnan(a) && isnan(b));
}

static void check_dequantise(const struct golden *g, const struct block_format *format) {
    const size_t n = g->result_bytes / sizeof(float);
    assert_true(g->given_bytes == n / format->elements * format->bytes);
    /* GGUF aligns tensors, but their rows may start at any address. */
    for (int side = 0; side < GUARDED_SIDES; side++) {
        unsigned char *blocks =
            guarded_place(&input, g->given_bytes, (enum guarded_side)((side + 2) % GUARDED_SIDES));
        memcpy(blocks, g->given, g->given_bytes);
        float *values = guarded_place(&output, g->result_bytes, side == 1);
        format->dequantise(blocks, n, values);
        assert_true(guarded_intact(&output));
        for (size_t i = 0; i < n; i++) {
            const float want = float_of_bits(load_u32(g->result + 4 * i));
            if (!same_float(values[i], want))
                fail_msg("%s: value %zu is %.9g, not %.9g", g->type, i, (double)values[i],
                         (double)want);
        }
    }
}

static void test_dequantise(void **state) {
    (void)state;
    size_t read = 0, checked = 0;
    for (uint32_t id = 0; id < 256; id++)
        read += block_format_by_id(id) && block_format_by_id(id)->dequantise;
    for (size_t i = 0; i < golden_count; i++) {
        const struct block_format *format = block_format_by_name(goldens[i].type);
        if (strcmp(goldens[i].what, "dequantise") == 0 && format && format->dequantise) {
            check_dequantise(&goldens[i], format);
            checked++;
        }
    }
    assert_int_equal(checked, read); /* of every type that is read */
}

/* A tensor of I2_S, whose scale follows its blocks. */
static void test_i2_s(void **state) {
    (void)state;
    const struct golden *g = find_golden("dequantise", "I2_S");
    const size_t n = g->result_bytes / sizeof(float), codes = n / I2_S_BLOCK * I2_S_BYTES;
    assert_int_equal(g->given_bytes, codes + 32);
    unsigned char *blocks = guarded_place(&input, codes, GUARDED_END);
    float *values = guarded_place(&output, g->result_bytes, GUARDED_END);
    memcpy(blocks, g->given, codes);
    const float scale = float_of_bits(load_u32(g->given + codes));
    assert_int_equal(i2_s_expand(blocks, n, scale, values), n);
    assert_true(guarded_intact(&output));
    for (size_t i = 0; i < n; i++)
        assert_true(same_float(values[i], float_of_bits(load_u32(g->result + 4 * i))));
    for (size_t i = 0; i < n; i += 61) {
        unsigned char *byte = &blocks[i / 128 * 32 + i % 32];
        const unsigned char before = *byte;
        *byte |= (unsigned char)(0xc0 >> i % 128 / 32 * 2);
        assert_int_equal(i2_s_expand(blocks, n, scale, values), i);
        *byte = before;
    }
}

static void test_formats(void **state) {
    (void)state;
    uint64_t bytes;
    assert_null(block_format_by_id(4)); /* numbers that GGML has retired */
    assert_null(block_format_by_id(5));
    assert_null(block_format_by_id(UINT32_MAX));
    assert_null(block_format_by_name("q4"));
    assert_ptr_equal(block_format_by_name("q8_0"), block_format_by_id(BLOCK_Q8_0));
    const struct block_format *format = block_format_by_id(BLOCK_Q4_K);
    assert_true(block_row_bytes(format, 512, &bytes) && bytes == 288);
    assert_true(block_row_bytes(format, 0, &bytes) && bytes == 0);
    assert_false(block_row_bytes(format, 511, &bytes));
    assert_false(block_row_bytes(block_format_by_id(BLOCK_F32), UINT64_MAX / 4 + 1, &bytes));
}

/* ---- halves --------------------------------------------------------------------------------- */

/* Converts by the definition of binary16: sign, 5 bits of exponent, 10 of mantissa. */
static double half_by_definition(unsigned half) {
    const int exponent = (int)(half >> 10 & 31), mantissa = (int)(half & 1023);
    const double sign = half & 0x8000 ? -1 : 1;
    if (exponent == 31)
        return mantissa ? NAN : sign * (double)INFINITY;
    return sign * (exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24));
}

static void test_float_of_every_half(void **state) {
    (void)state;
    for (unsigned half = 0; half < 0x10000; half++) {
        const float value = float_of_half((uint16_t)half);
        const double want = half_by_definition(half);
        assert_true(isnan(want) ? isnan(value) : (double)value == want);
        assert_true(!signbit(value) == !(half & 0x8000));
        if (isnan(want))
            assert_true((half_of_float(value) & 0x7fff) > 0x7c00);
        else
            assert_int_equal(half_of_float(value), half);
    }
}

/* Rounding is monotonic, so it is correct everywhere if it is correct where it goes from one half
 * to the next: at the middle between two, which goes to the even one, and right beside it. */
static void test_half_of_every_boundary(void **state) {
    (void)state;
    for (unsigned half = 0; half < 0x7c00; half++)
        for (unsigned sign = 0; sign <= 0x8000; sign += 0x8000) {
            const float low = float_of_half((uint16_t)half);
            /* Above the largest half, infinity takes the place of the next one. */
            const float high = half == 0x7bff ? 65536 : float_of_half((uint16_t)(half + 1));
            const float middle = low + (high - low) / 2, flip = sign ? -1 : 1;
            const unsigned even = half + (half & 1);
            assert_int_equal(half_of_float(flip * middle), even | sign);
            assert_int_equal(half_of_float(flip * nextafterf(middle, 0)), half | sign);
            assert_int_equal(half_of_float(flip * nextafterf(middle, high)), (half + 1) | sign);
            assert_int_equal(half_of_float(flip * nextafterf(low, high)), half | sign);
            assert_int_equal(half_of_float(flip * nextafterf(high, 0)), (half + 1) | sign);
        }
    for (uint32_t bits = 0x47800000; bits < 0x7f800000; bits += 0xfff1)
        assert_int_equal(half_of_float(float_of_bits(bits)), 0x7c00);
    for (uint32_t bits = 0x7f800001; bits < 0x80000000; bits += 0xfff)
        assert_int_equal(half_of_float(float_of_bits(bits | 0x80000000)) & 0xfc00, 0xfc00);
}

static void test_bfloat(void **state) {
    (void)state;
    for (unsigned i = 0; i < 0x10000; i++)
        assert_int_equal(bits_of_float(float_of_bfloat((uint16_t)i)), i << 16);
}

/* ---- packing -------------------------------------------------------------------------------- */

typedef void quantiser(const float *values, size_t n, void *out);

/* Packs n values in guarded buffers into blocks, which are valid until the next call. */
static const unsigned char *pack_by(quantiser *quantise, const struct block_format *format,
                                    const float *values, size_t n) {
    float *from = guarded_place(&input, n * sizeof *from, GUARDED_END);
    memcpy(from, values, n * sizeof *from);
    const enum guarded_side side = (enum guarded_side)rng_below(&rng, GUARDED_SIDES);
    unsigned char *to = guarded_place(&output, n / format->elements * format->bytes, side);
    quantise(from, n, to);
    assert_true(guarded_intact(&output));
    return to;
}

static const unsigned char *pack(const struct block_format *format, const float *values, size_t n) {
    return pack_by(format->quantise, format, values, n);
}

static void skip_where_nothing_is_written(void) {
    if (block_format_by_id(BLOCK_F32)->quantise)
        return;
    puts("skipped: the WebAssembly modules do not write");
    skip();
}

static void test_quantise_f16(void **state) {
    (void)state;
    skip_where_nothing_is_written();
    const struct golden *g = find_golden("quantise", "F16");
    const size_t n = g->given_bytes / sizeof(float);
    float values[CAPACITY / sizeof(float)];
    directory_load_floats(g->given, n, values);
    const unsigned char *halves = pack(block_format_by_name("F16"), values, n);
    for (size_t i = 0; i < n; i++) {
        const unsigned got = load_u16(halves + 2 * i), want = load_u16(g->result + 2 * i);
        if (isnan(values[i]))
            assert_true((got & 0x7fff) > 0x7c00 && (got & 0x8000) == (want & 0x8000));
        else
            assert_int_equal(got, want);
    }
}

static void test_quantise_f32(void **state) {
    (void)state;
    skip_where_nothing_is_written();
    const struct golden *g = find_golden("quantise", "F16");
    float values[CAPACITY / sizeof(float)];
    const size_t n = g->given_bytes / sizeof(float);
    directory_load_floats(g->given, n, values);
    assert_memory_equal(pack(block_format_by_name("F32"), values, n), g->given, g->given_bytes);
}

/* A value differs from what is read back by at most half a step and the rounding of the step to a
 * half. */
static void check_q8_0_block(const float *values, const unsigned char *block) {
    float back[32], largest = 0;
    block_format_by_id(BLOCK_Q8_0)->dequantise(block, 32, back);
    for (int j = 0; j < 32; j++)
        largest = fmaxf(largest, fabsf(values[j]));
    const double step = (double)largest / 127;
    const double lost = fmax(step * 0x1p-11, 0x1p-25); /* half the distance between halves */
    for (int j = 0; j < 32; j++) {
        const int q = (int8_t)block[2 + j];
        const double allowed = step * (0.5 + 0x1p-14) + abs(q) * (lost + step * 0x1p-23);
        assert_true(q >= -127 && fabs((double)values[j] - (double)back[j]) <= allowed);
    }
}

static void test_quantise_q8_0(void **state) {
    (void)state;
    skip_where_nothing_is_written();
    const struct golden *g = find_golden("quantise", "Q8_0");
    const size_t n = g->given_bytes / sizeof(float);
    float values[CAPACITY / sizeof(float)];
    directory_load_floats(g->given, n, values);
    const unsigned char *blocks = pack(block_format_by_name("Q8_0"), values, n);
    for (size_t i = 0; i < n; i += 32)
        check_q8_0_block(values + i, blocks + i / 32 * 34);
}

static void test_quantise_as_reference(void **state) {
    (void)state;
    skip_where_nothing_is_written();
    size_t written = 0, checked = 0;
    for (uint32_t id = 0; id < 256; id++)
        written += block_format_by_id(id) && block_format_by_id(id)->quantise;
    for (size_t i = 0; i < golden_count; i++) {
        const struct golden *g = &goldens[i];
        const struct block_format *format = block_format_by_name(g->type);
        float values[CAPACITY / sizeof(float)];
        if (strcmp(g->what, "quantise") != 0)
            continue;
        checked++;
        if (format->id == BLOCK_F16) /* test_quantise_f16 checks it, with NaN */
            continue;
        const size_t n = g->given_bytes / sizeof(float);
        directory_load_floats(g->given, n, values);
        const unsigned char *blocks = pack_by(format->quantise_as_reference, format, values, n);
        for (size_t at = 0; at < g->result_bytes; at++)
            if (blocks[at] != g->result[at])
                fail_msg("%s: byte %zu of block %zu is %d, not %d", g->type, at % format->bytes,
                         at / format->bytes, blocks[at], g->result[at]);
    }
    assert_int_equal(checked + 1, written); /* of every type but F32, whose bits do not change */
}

/* ---- Q4_0 ----------------------------------------------------------------------------------- */

static double q4_0_error(const float *values, const unsigned char *block) {
    float back[32];
    double error = 0;
    block_format_by_id(BLOCK_Q4_0)->dequantise(block, 32, back);
    for (int j = 0; j < 32; j++)
        error += ((double)values[j] - (double)back[j]) * ((double)values[j] - (double)back[j]);
    return error;
}

/* The error is never larger than that of plain rounding, except for the rounding of the errors
 * themselves. Returns the share that remains of plain rounding's error. */
static double check_q4_0_block(const float *values) {
    const struct block_format *format = block_format_by_id(BLOCK_Q4_0);
    unsigned char plain[18], block[18];
    memcpy(block, pack(format, values, 32), sizeof block);
    memcpy(plain, pack_by(format->quantise_as_reference, format, values, 32), sizeof plain);
    const double error = q4_0_error(values, block), limit = q4_0_error(values, plain);
    if (!(error <= limit * (1 + 1e-6)))
        fail_msg("error %.9g, where plain rounding has %.9g; values[0] %.9g", error, limit,
                 (double)values[0]);
    return limit > 0 ? error / limit : 1;
}

static float roughly_normal(void) {
    float sum = 0;
    for (int i = 0; i < 6; i++)
        sum += rng_between(&rng, -1, 1);
    return sum;
}

static void test_quantise_q4_0_is_never_worse(void **state) {
    (void)state;
    skip_where_nothing_is_written();
    double sum = 0;
    enum { BLOCKS = 4000 };
    for (int i = 0; i < BLOCKS; i++) {
        float values[32];
        const float scale = exp2f(rng_between(&rng, -18, 12));
        for (int j = 0; j < 32; j++)
            values[j] = scale * roughly_normal();
        if (i % 4 == 1)
            values[rng_below(&rng, 32)] *= rng_between(&rng, 1, 30);
        for (int j = 0; i % 4 == 2 && j < 32; j++)
            values[j] = scale * ((float)rng_below(&rng, 16) - 8);
        const double share = check_q4_0_block(values);
        sum += i % 4 == 0 ? share : 0;
    }
    const double mean = sum * 4 / (double)BLOCKS;
    printf("q4_0: %.3f of the squared error of plain rounding\n", mean);
    assert_true(mean < 0.95);
}

/* ---- values that no model should have ------------------------------------------------------- */

static void fill(float *values, int n, float common) {
    for (int j = 0; j < n; j++)
        values[j] = common;
}

/* Finite values are read back as finite ones, however large. */
static void check_finite(const struct block_format *format, const float *values) {
    float back[32];
    format->dequantise(pack(format, values, 32), 32, back);
    for (int j = 0; j < 32; j++)
        assert_true(isfinite(back[j]));
}

/* Packs 256 values by the reference, whose scales may then be infinite. */
static void check_packs(const struct block_format *format, const float *values) {
    float back[256];
    format->dequantise(pack_by(format->quantise_as_reference, format, values, 256), 256, back);
}

typedef void check(const struct block_format *format, const float *values);

static void check_extremes(const struct block_format *format, check *check_values, int n) {
    static const float extremes[] = {0,     -0.0f, 1e-45f, -1e-40f, 1e-38f,   1e-7f,
                                     1e30f, 6e5f,  8.4e6f, FLT_MAX, -FLT_MAX, FLT_MIN};
    float values[256];
    for (size_t i = 0; i < sizeof extremes / sizeof *extremes; i++) {
        fill(values, n, extremes[i]);
        check_values(format, values);
        fill(values, n, 0);
        values[rng_below(&rng, (size_t)n)] = extremes[i];
        check_values(format, values);
        for (int j = 0; j < n; j++)
            values[j] = j % 2 ? extremes[i] : -extremes[i];
        check_values(format, values);
    }
}

static void check_special(const struct block_format *format) {
    static const float special[] = {NAN, -NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 200; i++) {
        float values[256];
        for (int j = 0; j < 256; j++)
            values[j] =
                rng_below(&rng, (size_t)i % 8 + 1) ? roughly_normal() : special[rng_below(&rng, 4)];
        pack(format, values, 256);
        check_packs(format, values);
    }
}

static void test_quantise_extremes(void **state) {
    (void)state;
    skip_where_nothing_is_written();
    check_extremes(block_format_by_id(BLOCK_Q8_0), check_finite, 32);
    check_extremes(block_format_by_id(BLOCK_Q4_0), check_finite, 32);
    for (uint32_t id = 0; id < 256; id++) {
        const struct block_format *format = block_format_by_id(id);
        if (format && format->quantise) {
            check_extremes(format, check_packs, 256);
            check_special(format);
        }
    }
}

static void test_quantise_zeros(void **state) {
    (void)state;
    skip_where_nothing_is_written();
    float values[256], back[256];
    fill(values, 256, 0);
    for (uint32_t id = 0; id < 256; id++) {
        const struct block_format *format = block_format_by_id(id);
        if (!format || !format->quantise)
            continue;
        format->dequantise(pack(format, values, 256), 256, back);
        for (int j = 0; j < 256; j++)
            assert_true(back[j] == 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_dequantise),
        cmocka_unit_test(test_i2_s),
        cmocka_unit_test(test_float_of_every_half),
        cmocka_unit_test(test_half_of_every_boundary),
        cmocka_unit_test(test_bfloat),
        cmocka_unit_test(test_quantise_f32),
        cmocka_unit_test(test_quantise_f16),
        cmocka_unit_test(test_quantise_q8_0),
        cmocka_unit_test(test_quantise_as_reference),
        cmocka_unit_test(test_quantise_q4_0_is_never_worse),
        cmocka_unit_test(test_quantise_extremes),
        cmocka_unit_test(test_quantise_zeros),
    };
    rng.state = rng_seed();
    guarded_open(&input, CAPACITY);
    guarded_open(&output, CAPACITY);
    const int failed = cmocka_run_group_tests_name("blocks", tests, open_goldens, NULL);
    guarded_close(&input);
    guarded_close(&output);
    return failed;
}
