/* SPDX-License-Identifier: Apache-2.0
 * A forward pass that stops at every block, for every reason, and continues. The result must have
 * the bits of a pass that did not stop. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/model.h"
#include "models/pass.h"
#include "support/golden.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

static const char default_model[] = "models/wisp-default.gguf";

enum { SIZE = 384, TEXTS = 3, TOKENS = 41 };

/* Three texts of 3, 17 and 21 tokens. */
static const size_t starts[TEXTS + 1] = {0, 3, 20, TOKENS};

static void make_ids(int32_t ids[TOKENS]) {
    for (int32_t t = 0; t < TOKENS; t++)
        ids[t] = 1000 + 37 * t;
}

/* A pass over these texts, with its working memory and its team. */
struct run {
    struct pass pass;
    struct workspace space;
    struct pool *team;
    int32_t ids[TOKENS];
    float rows[TEXTS * SIZE];
};

static struct run *open_run(const wisp_model *model, uint32_t members) {
    struct run *run = calloc(1, sizeof *run);
    wisp_error error;
    const struct pass_size size = {
        .texts = TEXTS, .tokens = TOKENS, .longest = TOKENS, .members = members};
    make_ids(run->ids);
    assert_int_equal(pool_open(members, &run->team, &error), WISP_OK);
    assert_int_equal(pool_size(run->team), members);
    assert_int_equal(
        workspace_reserve(&run->space, pass_workspace_bytes(&model->network, &size), &error),
        WISP_OK);
    run->pass = (struct pass){.network = &model->network,
                              .batch = {.texts = TEXTS, .ids = run->ids, .starts = starts},
                              .rows = run->rows,
                              .members = members,
                              .team = members > 1 ? run->team : NULL};
    return run;
}

static void close_run(struct run *run) {
    pool_close(run->team);
    workspace_release(&run->space);
    free(run);
}

/* Counts the blocks of a pass, and stops once, before block `stop_at`. */
struct stopper {
    unsigned asked, stop_at;
    bool stopped;
    struct cursor last;
};

static wisp_status stop_once(void *context, struct cursor at, const float *x, wisp_error *error) {
    struct stopper *s = context;
    assert_non_null(x);
    s->last = at;
    if (s->asked == s->stop_at && !s->stopped) {
        s->stopped = true;
        set_error(error, WISP_ERROR_CANCELLED, NULL, "hook", "stopped");
        return WISP_ERROR_CANCELLED;
    }
    s->asked++;
    return WISP_OK;
}

static void expect_same_bits_after_every_stop(const wisp_model *model, uint32_t members) {
    wisp_error error;
    const unsigned blocks = 2 + 2 * model->network.config.layers;
    struct run *whole = open_run(model, 1);
    struct stopper never = {.stop_at = UINT32_MAX};
    whole->pass.hook = stop_once;
    whole->pass.hook_context = &never;
    pass_begin(&whole->pass, &whole->space);
    assert_int_equal(pass_run(&whole->pass, &error), WISP_OK);
    assert_int_equal(never.asked, blocks);
    assert_int_equal(pass_cursor(&whole->pass).block, PASS_END);
    for (unsigned stop_at = 0; stop_at < blocks; stop_at++) {
        struct run *run = open_run(model, members);
        struct stopper stopper = {.stop_at = stop_at};
        run->pass.hook = stop_once;
        run->pass.hook_context = &stopper;
        pass_begin(&run->pass, &run->space);
        assert_int_equal(pass_run(&run->pass, &error), WISP_ERROR_CANCELLED);
        assert_string_equal(error.field, "hook");
        const struct cursor at = pass_cursor(&run->pass);
        assert_int_equal(at.layer, stopper.last.layer);
        assert_int_equal(at.block, stopper.last.block);
        assert_int_equal(pass_run(&run->pass, &error), WISP_OK);
        assert_int_equal(stopper.asked, blocks);
        assert_memory_equal(run->rows, whole->rows, sizeof whole->rows);
        close_run(run);
    }
    close_run(whole);
}

static void a_pass_goes_on_where_it_stopped(void **state) {
    (void)state;
    static const enum wisp_compute modes[] = {WISP_COMPUTE_F32, WISP_COMPUTE_INT8};
    for (size_t i = 0; i < 2; i++) {
        wisp_model *model = open_model_or_fail(default_model, modes[i], wisp_kernels_name(0));
        for (uint32_t members = 1; members <= 3; members++)
            expect_same_bits_after_every_stop(model, members);
        wisp_model_close(model);
    }
}

/* ---- within blocks -------------------------------------------------------------------------- */

enum { LONG_TEXTS = 6, LONG_TOKENS = 1300 };

static const size_t long_starts[LONG_TEXTS + 1] = {0, 256, 300, 556, 800, 1044, LONG_TOKENS};

/* Counts the calls of the hook within blocks, on any thread, and stops once, at number `stop_at`.
 */
struct inner_stopper {
    atomic_uint asked;
    unsigned stop_at;
};

static wisp_status stop_within(void *context, struct cursor at, const float *x, wisp_error *error) {
    struct inner_stopper *s = context;
    (void)at;
    if (x || atomic_fetch_add(&s->asked, 1) != s->stop_at)
        return WISP_OK;
    set_error(error, WISP_ERROR_CANCELLED, NULL, "hook", "stopped");
    return WISP_ERROR_CANCELLED;
}

/* Runs three long texts to the end. Returns how often the pass stopped on the way. */
static unsigned run_long(const wisp_model *model, uint32_t members, unsigned stop_at, float *rows,
                         unsigned *asked) {
    static int32_t ids[LONG_TOKENS];
    struct inner_stopper stopper = {.stop_at = stop_at};
    struct workspace space = {0};
    struct pool *team;
    wisp_error error;
    unsigned stops = 0;
    for (int32_t t = 0; t < LONG_TOKENS; t++)
        ids[t] = 1000 + t;
    const struct pass_size size = {
        .texts = LONG_TEXTS, .tokens = LONG_TOKENS, .longest = 256, .members = members};
    assert_int_equal(pool_open(members, &team, &error), WISP_OK);
    assert_int_equal(
        workspace_reserve(&space, pass_workspace_bytes(&model->network, &size), &error), WISP_OK);
    struct pass pass = {.network = &model->network,
                        .batch = {.texts = LONG_TEXTS, .ids = ids, .starts = long_starts},
                        .rows = rows,
                        .members = members,
                        .team = members > 1 ? team : NULL,
                        .hook = stop_within,
                        .hook_context = &stopper};
    pass_begin(&pass, &space);
    while (pass_run(&pass, &error) != WISP_OK) {
        assert_int_equal(error.status, WISP_ERROR_CANCELLED);
        stops++;
    }
    *asked = atomic_load(&stopper.asked);
    pool_close(team);
    workspace_release(&space);
    return stops;
}

static void a_block_of_long_texts_stops_within(void **state) {
    (void)state;
    static float whole[LONG_TEXTS * SIZE], rows[LONG_TEXTS * SIZE];
    static const enum wisp_compute modes[] = {WISP_COMPUTE_F32, WISP_COMPUTE_AUTO};
    for (size_t i = 0; i < 2; i++) {
        wisp_model *model = open_model_or_fail(default_model, modes[i], wisp_kernels_name(0));
        unsigned asked, again;
        assert_int_equal(run_long(model, 1, UINT_MAX, whole, &asked), 0);
        assert_true(asked >= 6 * 3 * 2);
        for (uint32_t members = 1; members <= 2; members++)
            for (unsigned stop_at = 0; stop_at < asked; stop_at += 5) {
                memset(rows, 0, sizeof rows);
                assert_int_equal(run_long(model, members, stop_at, rows, &again), 1);
                assert_memory_equal(rows, whole, sizeof whole);
            }
        wisp_model_close(model);
    }
}

/* ---- steps that fail ------------------------------------------------------------------------ */

/* The default model read through calls. The call after `good` calls fails, once. */
struct faulty {
    const char *bytes;
    size_t good;
    bool armed;
};

static int read_or_fail(void *context, uint64_t offset, void *buffer, size_t length) {
    struct faulty *f = context;
    if (f->armed && f->good-- == 0) {
        f->armed = false;
        return -1;
    }
    memcpy(buffer, f->bytes + offset, length);
    return 0;
}

static void a_failed_step_can_be_run_again(void **state) {
    (void)state;
    size_t length;
    wisp_error error;
    wisp_model *model, *memory;
    char *bytes = read_file(default_model, &length);
    struct faulty faulty = {.bytes = bytes};
    const wisp_source source = {
        .size = length, .read = read_or_fail, .context = &faulty, .lasting = true};
    memory = open_model_or_fail(default_model, WISP_COMPUTE_AUTO, wisp_kernels_name(0));
    struct run *whole = open_run(memory, 1);
    pass_begin(&whole->pass, &whole->space);
    assert_int_equal(pass_run(&whole->pass, &error), WISP_OK);
    assert_int_equal(wisp_model_open_source(&source, NULL, &model, &error), WISP_OK);
    for (uint32_t members = 1; members <= 3; members++)
        for (size_t good = 0; good < TOKENS; good += 13) {
            struct run *run = open_run(model, members);
            faulty = (struct faulty){.bytes = bytes, .good = good, .armed = true};
            pass_begin(&run->pass, &run->space);
            assert_int_equal(pass_run(&run->pass, &error), WISP_ERROR_IO);
            assert_int_equal(pass_cursor(&run->pass).block, PASS_EMBED);
            assert_int_equal(pass_run(&run->pass, &error), WISP_OK);
            assert_memory_equal(run->rows, whole->rows, sizeof whole->rows);
            close_run(run);
        }
    wisp_model_close(model);
    close_run(whole);
    wisp_model_close(memory);
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pass_goes_on_where_it_stopped),
        cmocka_unit_test(a_block_of_long_texts_stops_within),
        cmocka_unit_test(a_failed_step_can_be_run_again),
    };
    return cmocka_run_group_tests_name("pass", tests, NULL, NULL);
}
