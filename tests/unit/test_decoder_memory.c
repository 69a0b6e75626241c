/* SPDX-License-Identifier: Apache-2.0
 * Decoders whose memory is limited, so that weights rest in the file: any limit gives the bits of
 * the whole model and is kept, and files that change or end early are errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/decoders.h"
#include "support/golden.h"
#include "support/opening.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { TOKENS = 40, VALUES = TOKENS * DECODER_VOCABULARY };

static wisp_error error;

static wisp_status open_with(const char *path, wisp_model_options options, wisp_model **model) {
    return wisp_model_open(path, &options, model, &error);
}

/* Opens a session that leaves out a third of the neurons if the model can. */
static wisp_session *open_session(const wisp_model *model, uint32_t threads) {
    wisp_session *session = open_session_or_fail(model, threads);
    wisp_model_info info;
    wisp_model_get_info(model, &info);
    if (strcmp(info.predictor, "topk") == 0)
        assert_int_equal(wisp_session_set_sparsity(session, 1.0f / 3, &error), WISP_OK);
    return session;
}

static void logits_of(const wisp_model *model, uint32_t threads, float *logits) {
    wisp_session *session = open_session(model, threads);
    if (decoder_logits(session, TOKENS, logits, &error) != WISP_OK)
        fail_msg("%s", error.message);
    wisp_session_close(session);
}

static bool keep_piece(void *context, const wisp_piece *piece) {
    struct bytes *text = context;
    bytes_put(text, piece->text.bytes, piece->text.length);
    return true;
}

static void text_of(const wisp_model *model, uint32_t threads, struct bytes *text) {
    wisp_session *session = open_session(model, threads);
    const wisp_generate_options options = {.max_tokens = 30, .piece = keep_piece, .context = text};
    wisp_generation result;
    if (wisp_generate(session, wisp_text_of("abc"), &options, &result, &error) != WISP_OK)
        fail_msg("%s", error.message);
    wisp_session_close(session);
}

static uint64_t resident_bytes_of(const wisp_model *model) {
    wisp_model_info info;
    wisp_model_get_info(model, &info);
    return info.resident_bytes;
}

/* Opens a model with the least limit that is possible, which *least becomes. */
static wisp_model *open_least(const char *path, wisp_model_options options, uint64_t *least) {
    unsigned long long bytes;
    wisp_model *model;
    options.memory = 1;
    assert_int_equal(open_with(path, options, &model), WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "memory");
    assert_int_equal(sscanf(strstr(error.message, "the least is "), "the least is %llu", &bytes),
                     1);
    options.memory = bytes - 1;
    assert_int_equal(open_with(path, options, &model), WISP_ERROR_ARGUMENT);
    options.memory = *least = bytes;
    if (open_with(path, options, &model) != WISP_OK)
        fail_msg("%s", error.message);
    return model;
}

/* Checks the reads of experts. With room for all, each was read once. */
static void check_experts(const wisp_model *model, const struct tiny_decoder *d, bool all_fit) {
    wisp_expert_stats stats;
    assert_int_equal(wisp_model_get_expert_stats(model, &stats), d->experts > 0);
    if (d->experts == 0)
        return;
    assert_true(stats.read > 0 && stats.read <= stats.held);
    assert_true(!all_fit || stats.read <= (uint64_t)stats.layers * stats.experts);
}

/* Checks that texts read neurons if some are absent. */
static void check_neurons(const wisp_model *model, bool absent) {
    wisp_neuron_stats stats;
    assert_int_equal(wisp_model_get_neuron_stats(model, &stats), absent);
    assert_true(!absent || (stats.read > 0 && stats.read <= stats.needed &&
                            stats.read_bytes >= stats.read * DECODER_HIDDEN));
}

/* Opens the model with limits from the least to all that it takes, for one thread and for three. */
static void check_limits(const struct tiny_decoder *d, const char *path,
                         wisp_model_options options) {
    static float wanted[VALUES], got[VALUES];
    struct bytes text = {0};
    wisp_model *model;
    uint64_t least;
    if (open_with(path, options, &model) != WISP_OK)
        fail_msg("%s: %s", d->name, error.message);
    logits_of(model, 1, wanted);
    text_of(model, 1, &text);
    const uint64_t all = resident_bytes_of(model);
    wisp_model_close(model);
    wisp_model_close(open_least(path, options, &least));
    assert_true(least < all);
    for (uint64_t part = 0; part <= 4; part++)
        for (uint32_t threads = 1; threads <= 3; threads += 2) {
            struct bytes again = {0};
            options.memory = least + (all - least) * part / 4;
            assert_int_equal(open_with(path, options, &model), WISP_OK);
            logits_of(model, threads, got);
            assert_memory_equal(got, wanted, sizeof wanted);
            /* Members that split tokens hold an expert each. */
            assert_true((threads > 1 && d->experts > 0) ||
                        resident_bytes_of(model) <= options.memory);
            text_of(model, threads, &again);
            assert_int_equal(again.size, text.size);
            assert_memory_equal(again.data, text.data, text.size);
            check_experts(model, d, part == 4);
            check_neurons(model, options.predictor == WISP_PREDICTOR_TOPK);
            bytes_release(&again);
            wisp_model_close(model);
        }
    bytes_release(&text);
}

static void limits_keep_the_bits(void **state) {
    (void)state;
    for (const struct tiny_decoder *d = tiny_decoders; d->name; d++)
        for (int compute = WISP_COMPUTE_F32; compute <= WISP_COMPUTE_INT8; compute++)
            check_limits(d, write_decoder(d, "limited.gguf"),
                         (wisp_model_options){.compute = (wisp_compute)compute});
}

/* Writes a decoder whose neurons are rows. */
static const char *write_rows(const struct tiny_decoder *d, const char *type, const char *name) {
    const wisp_convert_options options = {.type = type, .neurons = true};
    const char *path = write_decoder(d, "matrices.gguf"), *rows = temporary_path(name);
    if (wisp_convert(path, rows, &options, &error) != WISP_OK)
        fail_msg("%s: %s", d->name, error.message);
    return rows;
}

/* Neurons of rows are read by need with topk, and as matrices with dense. */
static void neurons_by_need_keep_the_bits(void **state) {
    static const char *const types[] = {"q8_0", "q4_0"};
    static const wisp_predictor predictors[] = {WISP_PREDICTOR_DENSE, WISP_PREDICTOR_TOPK};
    size_t gated = 0;
    (void)state;
    for (const struct tiny_decoder *d = tiny_decoders; d->name; d++) {
        wisp_model *model;
        const wisp_model_options topk = {.predictor = WISP_PREDICTOR_TOPK};
        if (open_with(write_decoder(d, "limited.gguf"), topk, &model) != WISP_OK)
            continue;
        wisp_model_close(model);
        gated++;
        for (size_t i = 0; i < 4; i++)
            check_limits(d, write_rows(d, types[i / 2], "rows.gguf"),
                         (wisp_model_options){.predictor = predictors[i % 2]});
    }
    assert_true(gated > 3);
}

/* Single neurons cannot be read from matrices, nor from rows of floats. */
static void neurons_need_rows(void **state) {
    const wisp_model_options options = {.predictor = WISP_PREDICTOR_TOPK, .memory = 1 << 24};
    const char *const paths[] = {write_decoder(tiny_decoders, "limited.gguf"),
                                 write_rows(tiny_decoders, "f16", "floats.gguf")};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        wisp_model *model;
        assert_int_equal(open_with(paths[i], options, &model), WISP_ERROR_UNSUPPORTED);
        assert_string_equal(error.field, "memory");
    }
}

static const struct tiny_decoder *next_of(const struct tiny_decoder *d, bool experts) {
    while ((d->experts > 0) != experts)
        d++;
    return d;
}

/* Opens a model with the least limit, changes the second half of its file, or cuts it off, and
 * expects an error from sessions of one thread and of three. */
static void change(const char *path, wisp_model_options options, bool cut) {
    static float logits[VALUES];
    const int32_t ids[4] = {5, 80, 9, 70};
    uint64_t least;
    size_t size;
    wisp_model *model = open_least(path, options, &least);
    logits_of(model, 1, logits);
    unsigned char *data = read_file(path, &size);
    for (size_t i = size / 2; i < size; i += 4) /* of floats, and not their largest byte */
        data[i] ^= 1;
    FILE *file = fopen(path, "r+b"); /* in place */
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    free(data);
    assert_int_equal(cut ? truncate(path, (off_t)(size / 2)) : 0, 0);
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        wisp_session *session = open_session(model, threads);
        assert_int_equal(wisp_logits(session, ids, 4, logits, &error), WISP_ERROR_IO);
        assert_int_equal(wisp_logits(session, ids, 1, logits, &error), WISP_ERROR_IO);
        wisp_session_close(session);
    }
    wisp_model_close(model);
}

/* A file that changes or becomes shorter while it is open is noticed when weights are read again.
 */
static void changed_files_are_noticed(void **state) {
    const struct tiny_decoder *dense = next_of(tiny_decoders, false);
    const struct tiny_decoder *experts = next_of(tiny_decoders, true);
    const wisp_model_options f32 = {.compute = WISP_COMPUTE_F32};
    const wisp_model_options topk = {.predictor = WISP_PREDICTOR_TOPK};
    (void)state;
    for (int cut = 0; cut <= 1; cut++) {
        change(write_decoder(dense, "changing.gguf"), f32, cut);
        change(write_decoder(experts, "changing.gguf"), f32, cut);
        change(write_rows(dense, "q8_0", "changing.gguf"), topk, cut);
    }
}

/* What was read into memory as a whole has no limit. */
static void models_in_memory_have_no_limit(void **state) {
    (void)state;
    for (int experts = 0; experts <= 1; experts++) {
        const char *path = write_decoder(next_of(tiny_decoders, experts), "in-memory.gguf");
        wisp_model *model;
        assert_int_equal(
            open_with(path, (wisp_model_options){.memory = 1 << 20, .in_memory = true}, &model),
            WISP_ERROR_ARGUMENT);
        assert_string_equal(error.field, "memory");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_keep_the_bits),
        cmocka_unit_test(neurons_by_need_keep_the_bits),
        cmocka_unit_test(neurons_need_rows),
        cmocka_unit_test(changed_files_are_noticed),
        cmocka_unit_test(models_in_memory_have_no_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
