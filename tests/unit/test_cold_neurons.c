/* SPDX-License-Identifier: Apache-2.0
 * Neurons that are there and that texts needed, of models that are opened without their cold ones:
 * as pages draw them, and as statistics count them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include "engine/session.h"
#include "support/cold_split.h"
#include "support/golden.h"
#include "support/opening.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { WIDE = COLD_WIDE, LAYERS = COLD_LAYERS };

/* ---- drawing -------------------------------------------------------------------------------- */

enum { WORDS = (WIDE + 63) / 64 };

struct drawn {
    wisp_layer_neurons about;
    uint64_t present[WORDS], needed[WORDS];
};

static struct drawn draw(const wisp_model *model, size_t layer) {
    struct drawn drawn;
    assert_true(wisp_model_get_neurons(model, layer, &drawn.about, drawn.present, drawn.needed));
    return drawn;
}

static bool has(const uint64_t *mask, size_t place) {
    return mask[place / 64] >> place % 64 & 1;
}

/* Neurons that were needed and are not in memory. */
static size_t count_lacking(const struct drawn *drawn) {
    size_t n = 0;
    for (size_t i = 0; i < WORDS; i++)
        n += (size_t)__builtin_popcountll(drawn->needed[i] & ~drawn->present[i]);
    return n;
}

static bool is_zero(const uint64_t *mask) {
    for (size_t i = 0; i < WORDS; i++)
        if (mask[i] != 0)
            return false;
    return true;
}

static void neurons_can_be_drawn(void **state) {
    static float rows[TEXTS * HIDDEN];
    struct split split = split_open("relu", false, BLOCK_Q8_0, 0);
    wisp_model *model = split_open_model(&split, false, WISP_PREDICTOR_LOWRANK);
    wisp_session *session = open_cold_session(model, 1, false);
    struct drawn drawn;
    struct texts texts;
    wisp_error error;
    uint64_t random = 5;
    (void)state;
    make_texts(&texts);
    for (size_t layer = 0; layer < LAYERS; layer++) {
        drawn = draw(model, layer);
        assert_int_equal(drawn.about.neurons, WIDE);
        assert_true(is_zero(drawn.needed));
        for (size_t place = 0; place < WIDE; place++)
            assert_int_equal(has(drawn.present, place), place < drawn.about.hot);
    }

    /* While the first layer waits, its needs are those that lack, and later layers have none. */
    wisp_status status = wisp_embed(session, texts.text, 4, NULL, rows, &error);
    assert_int_equal(status, WISP_NEED_RANGES);
    const wisp_range *ranges;
    size_t count;
    assert_int_equal(wisp_session_needs(session, 0, &ranges, &count, &error), WISP_OK);
    drawn = draw(model, 0);
    const wisp_layer_neurons about = drawn.about;
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        for (uint64_t at = ranges[i].offset; at < ranges[i].offset + ranges[i].length;
             at += about.row_bytes) {
            const size_t place = (size_t)(about.hot + (at - about.cold_offset) / about.row_bytes);
            assert_true(place < WIDE && has(drawn.needed, place) && !has(drawn.present, place));
            bytes += (size_t)about.row_bytes;
        }
    assert_true(count > 0);
    assert_int_equal(bytes, count_lacking(&drawn) * about.row_bytes);
    drawn = draw(model, LAYERS - 1);
    assert_true(is_zero(drawn.needed));

    while (status == WISP_NEED_RANGES) {
        split_provide_some(session, &split, 0, &random);
        status = wisp_embed_continue(session, &error);
    }
    assert_int_equal(status, WISP_OK);
    for (size_t layer = 0; layer < LAYERS; layer++) {
        drawn = draw(model, layer);
        assert_false(is_zero(drawn.needed));
        assert_int_equal(count_lacking(&drawn), 0);
    }
    assert_false(wisp_model_get_neurons(model, LAYERS, &drawn.about, drawn.present, drawn.needed));
    wisp_session_close(session);
    wisp_model_close(model);

    /* With skip_absent what is left out is needed, too, and stays absent. */
    model = split_open_model(&split, false, WISP_PREDICTOR_LOWRANK);
    session = open_cold_session(model, 1, true);
    embed_or_fail(session, texts.text, 4, rows);
    size_t lacking = 0;
    for (size_t layer = 0; layer < LAYERS; layer++) {
        drawn = draw(model, layer);
        lacking += count_lacking(&drawn);
    }
    assert_true(lacking > 0);
    wisp_session_close(session);
    wisp_model_close(model);

    model = open_with(split.path, WISP_COMPUTE_AUTO, WISP_PREDICTOR_LOWRANK, NULL);
    assert_false(wisp_model_get_neurons(model, 0, &drawn.about, drawn.present, drawn.needed));
    wisp_model_close(model);
    split_close(&split);
}

static void neurons_of_each_token_are_a_part_of_the_batchs(void **state) {
    enum { MOST = 3, UNTOUCHED = 7 };
    static float rows[TEXTS * HIDDEN];
    struct split split = split_open("relu", false, BLOCK_Q8_0, 0);
    wisp_model *model = split_open_model(&split, false, WISP_PREDICTOR_LOWRANK);
    wisp_session *session = open_cold_session(model, 1, true);
    uint64_t mask[WORDS] = {UNTOUCHED};
    struct texts texts;
    wisp_error error;
    (void)state;
    make_texts(&texts);
    embed_or_fail(session, texts.text, 1, rows);
    assert_false(wisp_model_get_token_neurons(model, 0, 0, mask));

    /* The masks of all tokens together are that of the batch; those of the first few are a part of
     * it. */
    for (size_t most = 1000; most > 0; most = most > MOST ? MOST : 0) {
        assert_int_equal(wisp_model_trace_tokens(model, most, &error), WISP_OK);
        assert_false(wisp_model_get_token_neurons(model, 0, 0, mask));
        embed_or_fail(session, texts.text, 1, rows);
        for (size_t layer = 0; layer < LAYERS; layer++) {
            const struct drawn drawn = draw(model, layer);
            uint64_t all[WORDS] = {0};
            size_t tokens = 0;
            for (; wisp_model_get_token_neurons(model, layer, tokens, mask); tokens++)
                for (size_t i = 0; i < WORDS; i++)
                    all[i] |= mask[i];
            assert_true(tokens >= MOST && (most > MOST || tokens == MOST));
            for (size_t i = 0; i < WORDS; i++)
                assert_int_equal(all[i] & ~drawn.needed[i], 0);
            if (most > MOST)
                assert_memory_equal(all, drawn.needed, sizeof all);
        }
    }
    mask[0] = UNTOUCHED;
    assert_false(wisp_model_get_token_neurons(model, LAYERS, 0, mask));
    assert_false(wisp_model_get_token_neurons(model, 0, MOST, mask));
    assert_int_equal(mask[0], UNTOUCHED);
    assert_int_equal(wisp_model_trace_tokens(model, 0, &error), WISP_OK);
    assert_false(wisp_model_get_token_neurons(model, 0, 0, mask));
    assert_int_equal(wisp_model_trace_tokens(model, SIZE_MAX / 2, &error), WISP_ERROR_MEMORY);
    wisp_session_close(session);
    wisp_model_close(model);

    model = open_with(split.path, WISP_COMPUTE_AUTO, WISP_PREDICTOR_LOWRANK, NULL);
    assert_int_equal(wisp_model_trace_tokens(model, 1, &error), WISP_ERROR_ARGUMENT);
    assert_false(wisp_model_get_token_neurons(model, 0, 0, mask));
    wisp_model_close(model);
    split_close(&split);
}

/* ---- counting what came before it was needed ------------------------------------------------ */

enum { ALL_GROUPS, COLD_GROUPS };

/* Counts cold neurons that `more` needed and `before` did not (`needed`), or neither of them; of
 * all groups, or of those without hot neurons. */
static uint64_t count_new(const struct drawn *before, const struct drawn *more, bool needed,
                          int groups) {
    const size_t hot = before->about.hot;
    uint64_t n = 0;
    for (size_t place = hot; place < before->about.neurons; place++)
        if (!has(before->needed, place) && has(more->needed, place) == needed &&
            (groups == ALL_GROUPS || place / 64 * 64 >= hot))
            n++;
    return n;
}

static void neurons_that_came_early_are_counted(void **state) {
    static float rows[TEXTS * HIDDEN];
    static struct drawn before[LAYERS], more[LAYERS];
    struct split split = split_open("relu", false, BLOCK_Q8_0, 0);
    wisp_model *model = split_open_model(&split, false, WISP_PREDICTOR_LOWRANK);
    wisp_session *session = open_cold_session(model, 1, false);
    struct texts texts;
    wisp_error error;
    uint64_t random = 5, used = 0, unused = 0;
    (void)state;
    make_texts(&texts);
    wisp_status status = wisp_embed(session, texts.text, 1, NULL, rows, &error);
    while (status == WISP_NEED_RANGES) {
        split_provide_some(session, &split, 0, &random);
        status = wisp_embed_continue(session, &error);
    }
    assert_int_equal(status, WISP_OK);
    /* Neurons that a call waited for did not come early. */
    wisp_cold_stats stats = cold_stats_of(model);
    assert_int_equal(stats.prefetched, 0);
    assert_int_equal(stats.rows, stats.misses);
    for (size_t l = 0; l < LAYERS; l++)
        before[l] = draw(model, l);
    const wisp_range all = {split.hot_bytes, split.size - split.hot_bytes};
    assert_int_equal(split_provide(session, &split, all), WISP_OK);
    const uint64_t came = cold_stats_of(model).rows - stats.rows;
    assert_int_equal(cold_stats_of(model).prefetched, came);
    for (int round = 0; round < 2; round++) { /* each counts once */
        embed_or_fail(session, texts.text + 1, 2, rows);
        used = unused = 0;
        for (size_t l = 0; l < LAYERS; l++) {
            more[l] = draw(model, l);
            used += count_new(&before[l], &more[l], true, ALL_GROUPS);
            unused += count_new(&before[l], &more[l], false, COLD_GROUPS);
        }
        stats = cold_stats_of(model);
        assert_true(used > 0 && unused > 0);
        assert_int_equal(stats.prefetched_used, used);
        assert_int_equal(stats.prefetched_wasted, 0);
        assert_int_equal(stats.misses, stats.rows - came);
    }
    wisp_session_close(session);
    neuron_cold_limit(&model->network.neurons, 0, spoil_block);
    stats = cold_stats_of(model);
    assert_int_equal(stats.prefetched, came);
    assert_int_equal(stats.prefetched_wasted, unused);
    wisp_model_close(model);
    split_close(&split);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neurons_can_be_drawn),
        cmocka_unit_test(neurons_of_each_token_are_a_part_of_the_batchs),
        cmocka_unit_test(neurons_that_came_early_are_counted),
    };
    return cmocka_run_group_tests_name("neurons of models without their cold ones", tests, NULL,
                                       tear_down_temporary_folder);
}
