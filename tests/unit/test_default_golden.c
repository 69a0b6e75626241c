/* SPDX-License-Identifier: Apache-2.0
 * Compares the default model with PyTorch, using only files of the repository: token ids and
 * embeddings of tests/data/golden-default.*, which tests/oracle/make_default_golden.py writes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "support/agreement.h"
#include "support/golden.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { TEXTS = 40, SIZE = 384, MOST_TOKENS = 256 };

static const char default_model[] = "models/wisp-default.gguf";

struct fixture {
    wisp_text texts[TEXTS];
    const struct json *ids[TEXTS]; /* an array of numbers for each text */
    float *rows;                   /* [TEXTS, SIZE] */
    char *lines;
    struct arena arena; /* owns the JSON trees, whose strings point into `lines` */
};

static int set_up(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    char path[GOLDEN_PATH_BYTES];
    size_t length;
    wisp_error error;
    assert_non_null(f);
    f->rows = read_floats(data_path("golden-default.f32", path), &length);
    assert_int_equal(length, TEXTS * SIZE);
    f->lines = read_file(data_path("golden-default.jsonl", path), NULL);
    char *line = f->lines;
    for (size_t i = 0; i < TEXTS; i++) {
        char *end = strchr(line, '\n');
        const struct json *root;
        assert_non_null(end);
        if (json_parse(&f->arena, line, (size_t)(end - line), path, &root, &error) != WISP_OK)
            fail_msg("%s", error.message);
        const struct json *text = json_get(root, "text");
        f->ids[i] = json_get(root, "ids");
        assert_true(json_is(text, JSON_STRING) && json_is(f->ids[i], JSON_ARRAY));
        f->texts[i] = (wisp_text){text->text, text->text_length};
        line = end + 1;
    }
    assert_int_equal(*line, '\0');
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *f = *state;
    arena_release(&f->arena);
    free(f->lines);
    free(f->rows);
    free(f);
    return 0;
}

static void token_ids_are_those_of_hugging_face(void **state) {
    const struct fixture *f = *state;
    wisp_model *model = open_model_or_fail(default_model, WISP_COMPUTE_AUTO, NULL);
    for (size_t i = 0; i < TEXTS; i++) {
        int32_t ids[MOST_TOKENS];
        size_t n, at = 0;
        wisp_error error;
        assert_int_equal(wisp_tokenize(model, f->texts[i], ids, MOST_TOKENS, &n, &error), WISP_OK);
        assert_int_equal(n, f->ids[i]->count);
        for (const struct json *id = f->ids[i]->first; id; id = id->next) {
            int64_t expected;
            assert_true(json_to_i64(id, &expected));
            assert_int_equal(ids[at++], expected);
        }
    }
    wisp_model_close(model);
}

/* Computes the cosines of the texts to PyTorch's rows, with one set of kernels. The scalar kernels
 * are slow, so they get a sample of the texts. */
static void check_rows(const struct fixture *f, wisp_compute compute, const char *kernels,
                       double least_mean, double least) {
    wisp_model *model = open_model_or_fail(default_model, compute, kernels);
    wisp_session *session = open_session_or_fail(model, 2);
    struct sampling sampling = {.mean_stride = 1};
    if (strcmp(kernels, "scalar") == 0)
        sampling = sampling_of("texts with scalar kernels", 5);
    const struct agreement a = agreement_of(session, f->texts, TEXTS, f->rows, SIZE, sampling);
    print_message("%s %s: mean %.8f, least %.8f of %zu\n", kernels,
                  wisp_compute_name((size_t)compute), a.mean, a.min, a.n);
    assert_true(mean_reaches(&a, least_mean));
    assert_true(a.min >= least);
    wisp_session_close(session);
    wisp_model_close(model);
}

static void f32_is_pytorch_with_every_kernel_set(void **state) {
    const char *kernels;
    for (size_t i = 0; (kernels = wisp_kernels_name(i)) != NULL; i++)
        check_rows(*state, WISP_COMPUTE_F32, kernels, 0.9999995, 0.9999995);
}

static void bf16_is_close_to_pytorch(void **state) {
    const char *kernels;
    for (size_t i = 0; (kernels = wisp_kernels_name(i)) != NULL; i++)
        if (computes_bf16(kernels))
            check_rows(*state, WISP_COMPUTE_BF16, kernels, 0.9999, 0.9999);
}

static void int8_is_close_to_pytorch_with_every_kernel_set(void **state) {
    const char *kernels;
    for (size_t i = 0; (kernels = wisp_kernels_name(i)) != NULL; i++)
        check_rows(*state, WISP_COMPUTE_INT8, kernels, 0.999, 0.995);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(token_ids_are_those_of_hugging_face),
        cmocka_unit_test(f32_is_pytorch_with_every_kernel_set),
        cmocka_unit_test(bf16_is_close_to_pytorch),
        cmocka_unit_test(int8_is_close_to_pytorch_with_every_kernel_set),
    };
    return cmocka_run_group_tests_name("default golden", tests, set_up, tear_down);
}
