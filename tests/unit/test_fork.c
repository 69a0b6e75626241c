/* SPDX-License-Identifier: Apache-2.0
 * Sessions of several threads after fork(), which copies only the calling thread: parent and child
 * embed the same bits and close what they have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/golden.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { N = 40, SIZE = 384, THREADS = 4, PATIENCE = 120 };

struct fixture {
    wisp_model *model;
    wisp_session *session;
    wisp_text texts[N];
    float wanted[N * SIZE]; /* the embeddings of the texts */
};

/* Embeds all texts in one call, and one text in another, whose tokens the threads share. */
static bool embeds_right(const struct fixture *f) {
    static float rows[N * SIZE];
    wisp_error error;
    return wisp_embed(f->session, f->texts, N, NULL, rows, &error) == WISP_OK &&
           memcmp(rows, f->wanted, sizeof rows) == 0 &&
           wisp_embed(f->session, f->texts + N - 1, 1, NULL, rows, &error) == WISP_OK &&
           memcmp(rows, f->wanted + (size_t)(N - 1) * SIZE, SIZE * sizeof *rows) == 0;
}

static int set_up(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    wisp_error error;
    static const char long_text[] = "A text that every one of the four threads embeds, again and "
                                    "again, before the fork and after it.";
    assert_non_null(f);
    f->model = open_model_or_fail("models/wisp-default.gguf", WISP_COMPUTE_AUTO, NULL);
    f->session = open_session_or_fail(f->model, THREADS);
    for (size_t i = 0; i < N; i++)
        f->texts[i] = wisp_text_of(long_text + i);
    if (wisp_embed(f->session, f->texts, N, NULL, f->wanted, &error) != WISP_OK)
        fail_msg("%s", error.message);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *f = *state;
    wisp_session_close(f->session);
    wisp_model_close(f->model);
    free(f);
    return 0;
}

/* Runs `child` in a forked process, which is killed if it waits for a thread that is not there.
 * It succeeds if it returns true. */
static void expect_child(const struct fixture *f, bool (*child)(const struct fixture *f)) {
    int status;
    const pid_t process = fork();
    assert_true(process >= 0);
    if (process == 0) {
        alarm(PATIENCE);
        _exit(child(f) ? 0 : 1);
    }
    assert_int_equal(waitpid(process, &status, 0), process);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_true(embeds_right(f));
}

static bool close_all(const struct fixture *f) {
    wisp_session_close(f->session);
    wisp_model_close(f->model);
    return true;
}

static bool embed_and_close(const struct fixture *f) {
    return embeds_right(f) && embeds_right(f) && close_all(f);
}

static bool embed_in_grandchild(const struct fixture *f) {
    expect_child(f, embed_and_close);
    return embeds_right(f) && close_all(f);
}

static void a_child_embeds(void **state) {
    expect_child(*state, embed_and_close);
}

static void a_child_closes_what_it_never_used(void **state) {
    expect_child(*state, close_all);
}

static void a_grandchild_embeds(void **state) {
    expect_child(*state, embed_in_grandchild);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_embeds),
        cmocka_unit_test(a_child_closes_what_it_never_used),
        cmocka_unit_test(a_grandchild_embeds),
    };
    return cmocka_run_group_tests_name("fork", tests, set_up, tear_down);
}
