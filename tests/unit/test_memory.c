/* SPDX-License-Identifier: Apache-2.0
 * Blocks of zeros, and the pages of a key-value cache, which take memory where they are written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attention/kv_cache.h"
#include "base/memory.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

static void blocks_are_aligned_zeros(void **state) {
    static const size_t sizes[] = {0, 1, 63, 64, 65, 1000, 1 << 20};
    (void)state;
    memory_free_zeros(NULL);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *block = memory_allocate_zeros(sizes[i]);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % MEMORY_ALIGNMENT, 0);
        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal(block[k], 0);
        memset(block, 0xFF, sizes[i]); /* so that the next one may get a block that was in use */
        memory_free_zeros(block);
    }
    assert_null(memory_allocate_zeros(SIZE_MAX));
    assert_null(memory_allocate_zeros(SIZE_MAX - MEMORY_ALIGNMENT));
}

/* Returns the bytes of the process that are in memory, or 0 if the system does not say. */
static size_t resident_bytes(void) {
    char line[128] = "";
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && !fgets(line, sizeof line, file))
        line[0] = '\0';
    if (file)
        fclose(file);
    const char *second = strchr(line, ' ');
    return second ? strtoul(second, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE) : 0;
}

/* A page of 67 MB in which a few positions are written takes a small part of it. */
static void a_page_takes_memory_as_it_fills(void **state) {
    enum { LAYERS = 32, HEADS = 8, SIZE = 128, TOKENS = 8, WIDTH = HEADS * SIZE };
    static float values[TOKENS * WIDTH];
    const struct kv_shape shape = {
        .layers = LAYERS, .kv_heads = HEADS, .head_size = SIZE, .panel = 16, .type = KV_F32};
    const struct rope rope = {0};
    struct kv_cache cache;
    wisp_error error;
    (void)state;
    const size_t before = resident_bytes();
    if (before == 0) {
        puts("skipped: the system does not say how much memory is in use");
        return;
    }
    for (size_t i = 0; i < TOKENS * WIDTH; i++)
        values[i] = 1;
    assert_int_equal(kv_cache_open(&cache, &shape, &error), WISP_OK);
    assert_int_equal(kv_cache_reserve(&cache, 1, &rope, &error), WISP_OK);
    for (size_t l = 0; l < LAYERS; l++)
        kv_cache_write(&cache, l, 0, TOKENS, values, values, WIDTH);
    const size_t page = (size_t)LAYERS * 2 * WIDTH * KV_PAGE * sizeof(float);
    assert_true(kv_cache_bytes(&cache) >= page);
    const size_t after = resident_bytes();
    if (after >= before + page / 2)
        fail_msg("%zu bytes of %zu are in memory", after - before, page);
    kv_cache_release(&cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_aligned_zeros),
        cmocka_unit_test(a_page_takes_memory_as_it_fills),
    };
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
