/* SPDX-License-Identifier: Apache-2.0
 * Properties of code points. tests/oracle/tokenizer.py compares them with Hugging Face tokenizers;
 * the digest here shows that every target reads the same from the tables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "text/unicode.h"

enum { CODE_POINTS = 0x110000 };

static void test_flags(void **state) {
    static const struct {
        uint32_t code_point;
        unsigned flags;
    } known[] = {
        {'a', 0},
        {'A', UNICODE_HAS_LOWER},
        {' ', UNICODE_SPACE},
        {'\t', UNICODE_SPACE},
        {'$', UNICODE_PUNCTUATION},
        {0, UNICODE_CONTROL},
        {0x0B, UNICODE_CONTROL | UNICODE_SPACE},
        {0x85, UNICODE_CONTROL | UNICODE_SPACE},
        {0xAD, UNICODE_CONTROL},
        {0xC9, UNICODE_DECOMPOSES | UNICODE_HAS_LOWER},
        {0x301, UNICODE_MARK | UNICODE_NONSTARTER},
        {0x37E, UNICODE_PUNCTUATION | UNICODE_DECOMPOSES},
        {0x8D4, UNICODE_NONSTARTER},                /* a mark since Unicode 9.0 */
        {0x8E2, 0},                                 /* a control since Unicode 9.0 */
        {0xE31, UNICODE_MARK},                      /* a mark that is a starter */
        {0xF75, UNICODE_MARK | UNICODE_NONSTARTER}, /* by its decomposition */
        {0x1734, UNICODE_MARK | UNICODE_NONSTARTER},
        {0x2000, UNICODE_SPACE | UNICODE_DECOMPOSES},
        {0x200B, UNICODE_CONTROL},
        {0x2E43, 0}, /* punctuation since Unicode 9.0 */
        {0x302E, UNICODE_NONSTARTER},
        {0xAC00, UNICODE_DECOMPOSES},
        {0xE000, UNICODE_CONTROL},
        {0xF900, UNICODE_DECOMPOSES},
        {0xFFFD, UNICODE_CONTROL},
        {0x1D15F, UNICODE_DECOMPOSES},
        {0x1F600, 0},
        {0x2F800, UNICODE_DECOMPOSES},
        {0xE0041, UNICODE_CONTROL},
        {0xE0100, UNICODE_MARK},
        {0x10FFFD, UNICODE_CONTROL},
        {0x10FFFF, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_int_equal(unicode_flags(known[i].code_point), known[i].flags);
}

static void test_lower(void **state) {
    static const uint32_t pairs[][2] = {{'A', 'a'},       {'a', 'a'},          {'@', '@'},
                                        {0x100, 0x101},   {0x101, 0x101},      {0x1C4, 0x1C6},
                                        {0x1C5, 0x1C6},   {0x3A3, 0x3C3},      {0x212A, 'k'},
                                        {0x2126, 0x3C9},  {0x10400, 0x10428},  {0x1E921, 0x1E943},
                                        {0xA7CE, 0xA7CF}, {0x16EA0, 0x16EBB},  {0x13A0, 0xAB70},
                                        {0x1F88, 0x1F80}, {0x10FFFF, 0x10FFFF}};
    uint32_t lower[2];
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        assert_int_equal(unicode_lower(pairs[i][0], lower), 1);
        assert_int_equal(lower[0], pairs[i][1]);
    }
    assert_int_equal(unicode_lower(0x130, lower), 2);
    assert_int_equal(lower[0], 'i');
    assert_int_equal(lower[1], 0x307);
}

static void test_strip(void **state) {
    static const struct {
        uint32_t from;
        size_t count;
        uint32_t left[3];
    } known[] = {{'a', 1, {'a'}},
                 {0xE9, 1, {'e'}},
                 {0x1EA4, 1, {'A'}},
                 {0x9CB, 2, {0x9C7, 0x9BE}},
                 {0xCCB, 2, {0xCC2, 0xCD5}},
                 {0xAC00, 2, {0x1100, 0x1161}},
                 {0xD7A3, 3, {0x1112, 0x1175, 0x11C2}},
                 {0xF900, 1, {0x8C48}},
                 {0xFACF, 1, {0x2284A}},
                 {0x1109A, 1, {0x11099}},
                 {0x1D160, 3, {0x1D158, 0x1D165, 0x1D16E}},
                 {0x2F800, 1, {0x4E3D}},
                 {0x2FA1D, 1, {0x2A600}}};
    uint32_t left[3];
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_int_equal(unicode_strip(known[i].from, left), known[i].count);
        for (size_t j = 0; j < known[i].count; j++)
            assert_int_equal(left[j], known[i].left[j]);
    }
}

static void test_sets(void **state) {
    (void)state;
    assert_true(unicode_is_word('a') && unicode_is_word('_') && unicode_is_word('9'));
    assert_true(unicode_is_word(0x301) && unicode_is_word(0x200D) && unicode_is_word(0x24B6));
    assert_true(unicode_is_word(0x4E00) && unicode_is_word(0x323AF) && !unicode_is_word(0x323B0));
    assert_false(unicode_is_word('-') || unicode_is_word(' ') || unicode_is_word(0x1F600));
    assert_int_equal(unicode_rank('a'), 0);
    assert_int_equal(unicode_rank(0x301), 0); /* dropped, so its order does not matter */
    assert_true(unicode_rank(0x1B44) > 0 && unicode_rank(0x1B44) < unicode_rank(0x1D165));
    assert_int_equal(unicode_rank(0x1E000), UNICODE_MAX_RANK);
}

static uint64_t mix(uint64_t digest, uint64_t value) {
    return (digest ^ value) * UINT64_C(0x100000001B3);
}

static void test_all_code_points(void **state) {
    uint64_t digest = UINT64_C(0xCBF29CE484222325);
    (void)state;
    for (uint32_t c = 0; c < CODE_POINTS; c++) {
        uint32_t left[3], lower[2];
        const unsigned flags = unicode_flags(c);
        const size_t parts = unicode_strip(c, left), letters = unicode_lower(c, lower);
        digest = mix(digest, flags | unicode_rank(c) << 8);
        digest = mix(digest, unicode_is_word(c));
        for (size_t i = 0; i < parts; i++)
            digest = mix(digest, left[i]);
        for (size_t i = 0; i < letters; i++)
            digest = mix(digest, lower[i]);
        assert_int_equal((flags & UNICODE_DECOMPOSES) != 0, parts > 1 || left[0] != c);
        assert_int_equal((flags & UNICODE_HAS_LOWER) != 0, letters > 1 || lower[0] != c);
    }
    assert_true(digest == UINT64_C(0x69bdb7708f729116));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flags),           cmocka_unit_test(test_lower),
        cmocka_unit_test(test_strip),           cmocka_unit_test(test_sets),
        cmocka_unit_test(test_all_code_points),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
