/* SPDX-License-Identifier: Apache-2.0
 * Token embeddings of which frequent ones stand first: the file that is written, the plain model
 * that is read from it, and calls that wait for cold ones. test_cold has files with cold tokens,
 * too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/session.h"
#include "formats/token_split.h"
#include "support/golden.h"
#include "support/opening.h"
#include "support/sparse_models.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { PATH_BYTES = 256, HOT = 11 };

static void convert_or_fail(const char *input, const char *output,
                            const wisp_convert_options *options) {
    wisp_error error;
    if (wisp_convert(input, output, options, &error) != WISP_OK)
        fail_msg("%s", error.message);
}

/* Writes cold_model's file with `hot` hot tokens to `split`. */
static void write_split(uint64_t hot, char whole[PATH_BYTES], char split[PATH_BYTES]) {
    const wisp_convert_options options = {.hot_tokens = hot};
    snprintf(whole, PATH_BYTES, "%s", cold_model("whole.gguf", "gelu", false, BLOCK_Q8_0));
    snprintf(split, PATH_BYTES, "%s", temporary_path("split.gguf"));
    convert_or_fail(whole, split, &options);
}

/* ---- files ---------------------------------------------------------------------------------- */

static const wisp_tensor *find_stored(const wisp_file *file, const char *name,
                                      wisp_tensor *tensor) {
    for (size_t i = 0; wisp_file_get_tensor(file, i, tensor); i++)
        if (strcmp(tensor->name, name) == 0)
            return tensor;
    return NULL;
}

static void rows_stand_in_the_order_of_tokens(void **state) {
    char whole[PATH_BYTES], split[PATH_BYTES];
    wisp_tensor plain, hot, cold, neurons;
    wisp_file *files[2];
    size_t size;
    wisp_error error;
    (void)state;
    write_split(HOT, whole, split);
    unsigned char *before = read_file(whole, &size), *after = read_file(split, &size);
    assert_int_equal(wisp_file_open(whole, &files[0], &error), WISP_OK);
    assert_int_equal(wisp_file_open(split, &files[1], &error), WISP_OK);
    assert_non_null(find_stored(files[0], "token_embd.weight", &plain));
    assert_null(find_stored(files[1], "token_embd.weight", &neurons));
    assert_non_null(find_stored(files[1], "token_embd.hot", &hot));
    assert_non_null(find_stored(files[1], "token_embd.cold", &cold));
    assert_non_null(find_stored(files[1], "blk.0.ffn_neurons.cold", &neurons));
    assert_true(hot.offset < cold.offset && cold.offset < neurons.offset);
    assert_int_equal(hot.shape[0], HOT);
    assert_int_equal(cold.shape[0], TINY_TOKENS - HOT);
    const size_t row = (size_t)plain.bytes / TINY_TOKENS;
    for (size_t i = 0; i < TINY_TOKENS; i++) {
        const unsigned char *stored =
            after + (i < HOT ? hot.offset + i * row : cold.offset + (i - HOT) * row);
        const size_t token = (i * 7 + 1) % TINY_TOKENS; /* cold_model's order */
        assert_memory_equal(stored, before + plain.offset + token * row, row);
    }
    wisp_file_close(files[0]);
    wisp_file_close(files[1]);
    free(before);
    free(after);
}

static void plain_models_come_back(void **state) {
    static const wisp_convert_options as_plain = {.plain = true}, again = {0},
                                      f16 = {.embedding_type = "f16"};
    char whole[PATH_BYTES], split[PATH_BYTES], expected[PATH_BYTES], path[PATH_BYTES];
    (void)state;
    for (uint64_t hot = 1; hot <= TINY_TOKENS; hot += HOT) {
        write_split(hot, whole, split);
        snprintf(path, sizeof path, "%s", temporary_path("again.gguf"));
        snprintf(expected, sizeof expected, "%s", temporary_path("expected.gguf"));
        convert_or_fail(split, path, &again);
        expect_same_files(path, split);
        convert_or_fail(whole, expected, &as_plain);
        convert_or_fail(split, path, &as_plain);
        expect_same_files(path, expected);
        /* Embeddings of another type are split as they were, and so are those that are converted
         * first. */
        const wisp_convert_options options = {.hot_tokens = hot};
        convert_or_fail(whole, path, &f16);
        convert_or_fail(path, expected, &options);
        convert_or_fail(split, path, &f16);
        expect_same_files(path, expected);
    }
    /* With all tokens hot the embeddings are plain. */
    wisp_tensor tensor;
    wisp_file *file;
    wisp_error error;
    write_split(TINY_TOKENS, whole, split);
    assert_int_equal(wisp_file_open(split, &file, &error), WISP_OK);
    assert_non_null(find_stored(file, "token_embd.weight", &tensor));
    wisp_file_close(file);
}

static void calibration_counts_tokens(void **state) {
    char plain[PATH_BYTES], sparse[PATH_BYTES], split[PATH_BYTES];
    const wisp_convert_options hot = {.hot_tokens = HOT}, both = {.hot_tokens = HOT, .plain = true};
    uint64_t counts[TINY_TOKENS] = {0};
    const uint32_t *token, *place;
    struct texts texts;
    wisp_model *model;
    wisp_error error;
    (void)state;
    make_texts(&texts);
    snprintf(plain, sizeof plain, "%s", tiny_model("tiny.gguf", "relu"));
    snprintf(sparse, sizeof sparse, "%s", temporary_path("sparse.gguf"));
    snprintf(split, sizeof split, "%s", temporary_path("split.gguf"));
    assert_int_equal(wisp_convert(plain, split, &hot, &error), WISP_ERROR_NOT_FOUND);
    assert_string_equal(error.field, "wisp.tokens.order");
    assert_int_equal(wisp_convert(plain, split, &both, &error), WISP_ERROR_NOT_FOUND);
    calibrate_or_fail(plain, sparse, 1);
    convert_or_fail(sparse, split, &hot);
    calibrate_or_fail(split, plain, 1); /* the embeddings become plain, and the order is the same */
    expect_same_files(plain, sparse);
    assert_int_equal(wisp_model_open(split, NULL, &model, &error), WISP_OK);
    assert_int_equal(token_split_order(&model->dir, TINY_TOKENS, &token, &place, &error), WISP_OK);
    for (size_t i = 0; i < TEXTS; i++) {
        int32_t ids[64];
        size_t n;
        assert_int_equal(wisp_tokenize(model, texts.text[i], ids, 64, &n, &error), WISP_OK);
        for (size_t t = 0; t < n; t++)
            counts[ids[t]]++;
    }
    for (size_t i = 0; i + 1 < TINY_TOKENS; i++)
        assert_true(counts[token[i]] > counts[token[i + 1]] ||
                    (counts[token[i]] == counts[token[i + 1]] && token[i] < token[i + 1]));
    wisp_model_close(model);
}

/* ---- models --------------------------------------------------------------------------------- */

static int read_bytes(void *context, uint64_t offset, void *buffer, size_t length) {
    memcpy(buffer, (const unsigned char *)context + offset, length);
    return 0;
}

static void embeddings_keep_their_bits(void **state) {
    static float wanted[TEXTS * HIDDEN], rows[TEXTS * HIDDEN];
    char whole[PATH_BYTES], split[PATH_BYTES];
    struct texts texts;
    size_t size;
    wisp_session *session;
    wisp_error error;
    (void)state;
    make_texts(&texts);
    write_split(HOT, whole, split);
    unsigned char *bytes = read_file(split, &size);
    wisp_model *model = open_with(whole, WISP_COMPUTE_AUTO, WISP_PREDICTOR_LOWRANK, NULL);
    assert_int_equal(wisp_session_open(model, NULL, &session, &error), WISP_OK);
    embed_or_fail(session, texts.text, TEXTS, wanted);
    wisp_session_close(session);
    wisp_model_close(model);
    for (int i = 0; i < 12; i++) {
        const wisp_model_options options = {
            .predictor = WISP_PREDICTOR_LOWRANK, .in_memory = i % 2 != 0, .hot_only = i >= 10};
        const wisp_source data = {.size = size, .data = bytes},
                          read = {.size = size,
                                  .read = read_bytes,
                                  .context = bytes,
                                  .lasting = i / 2 == 2 || i / 2 == 3,
                                  .may_change = i / 2 == 3};
        const wisp_status status =
            i / 2 == 0  ? wisp_model_open_source(&data, &options, &model, &error)
            : i / 2 < 4 ? wisp_model_open_source(&read, &options, &model, &error)
                        : wisp_model_open(split, &options, &model, &error);
        assert_int_equal(status, WISP_OK);
        assert_int_equal(wisp_session_open(model, NULL, &session, &error), WISP_OK);
        if (i == 10) /* cold rows of tokens are read from the file, which the model holds */
            assert_int_equal(wisp_embed_from_file(session, texts.text, TEXTS, NULL, rows, &error),
                             WISP_OK);
        else if (i < 10)
            embed_or_fail(session, texts.text, TEXTS, rows);
        if (i < 11)
            assert_memory_equal(rows, wanted, sizeof rows);
        assert_int_equal(token_embedding_provided(&model->network.tokens), 0);
        wisp_session_close(session);
        wisp_model_close(model);
    }
    free(bytes);
}

static int compare_offsets(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* A call asks for all absent tokens of a text at once, before it computes anything; also one that
 * does not wait for neurons. */
static void absent_tokens_are_asked_for_at_once(void **state) {
    char whole[PATH_BYTES], split[PATH_BYTES];
    const wisp_model_options hot_only = {.hot_only = true};
    const wisp_session_options skip = {.skip_absent = true};
    const wisp_embed_options bare = {.prompt = ""};
    struct texts texts;
    size_t size, n, count, wanted = 0;
    int32_t ids[64];
    uint64_t offsets[64], hot_bytes;
    wisp_range before[64];
    float row[HIDDEN];
    const wisp_range *ranges;
    wisp_cold_stats stats;
    wisp_model *model;
    wisp_session *session;
    wisp_error error;
    (void)state;
    make_texts(&texts);
    write_split(HOT, whole, split);
    set_chunks(split, 0);
    unsigned char *bytes = read_file(split, &size);
    wisp_source source = {.size = size, .data = bytes};
    assert_int_equal(wisp_source_hot_bytes(&source, &hot_bytes, &error), WISP_OK);
    source.available = hot_bytes;
    assert_int_equal(wisp_model_open_source(&source, &hot_only, &model, &error), WISP_OK);
    const struct token_split *tokens = model->network.tokens.split;
    assert_int_equal(hot_bytes, tokens->cold.offset);
    assert_int_equal(wisp_session_open(model, &skip, &session, &error), WISP_OK);
    const wisp_text text = texts.text[TEXTS - 1];
    assert_int_equal(wisp_tokenize(model, text, ids, 64, &n, &error), WISP_OK);
    for (size_t i = 0; i < n; i++)
        if (tokens->place[ids[i]] >= HOT)
            offsets[wanted++] =
                tokens->cold.offset + (tokens->place[ids[i]] - HOT) * tokens->cold.row_bytes;
    assert_true(wanted > 1);
    qsort(offsets, wanted, sizeof *offsets, compare_offsets);
    /* They are the same before a call, and when it waits. */
    assert_int_equal(wisp_session_text_needs(session, text, 0, &ranges, &count, &error), WISP_OK);
    const size_t known = count;
    assert_true(known > 0 && known <= 64);
    memcpy(before, ranges, known * sizeof *before);
    assert_int_equal(wisp_embed(session, &text, 1, &bare, row, &error), WISP_NEED_RANGES);
    assert_non_null(strstr(error.message, "tokens are absent"));
    assert_int_equal(wisp_session_text_needs(session, text, 0, &ranges, &count, &error), WISP_OK);
    assert_int_equal(count, known);
    assert_memory_equal(ranges, before, known * sizeof *before);
    assert_int_equal(wisp_session_needs(session, 0, &ranges, &count, &error), WISP_OK);
    assert_int_equal(count, known);
    assert_memory_equal(ranges, before, known * sizeof *before);
    size_t at = 0;
    for (size_t i = 0; i < count; i++)
        for (uint64_t o = ranges[i].offset; o < ranges[i].offset + ranges[i].length;
             o += tokens->cold.row_bytes) {
            assert_true(at < wanted);
            assert_int_equal(o, offsets[at]);
            while (at < wanted && offsets[at] == o)
                at++;
        }
    assert_int_equal(at, wanted);
    /* Without the last byte of a row it stays absent. */
    assert_int_equal(wisp_session_provide(session, offsets[0], bytes + offsets[0],
                                          (size_t)tokens->cold.row_bytes - 1, &error),
                     WISP_OK);
    assert_int_equal(wisp_embed_continue(session, &error), WISP_NEED_RANGES);
    for (size_t i = wanted; i-- > 0;)
        assert_int_equal(wisp_session_provide(session, offsets[i], bytes + offsets[i],
                                              (size_t)tokens->cold.row_bytes, &error),
                         WISP_OK);
    assert_int_equal(wisp_embed_continue(session, &error), WISP_OK);
    assert_true(wisp_model_get_cold_stats(model, &stats));
    assert_true(stats.tokens > 0 && stats.tokens <= wanted && stats.rows == 0);
    assert_int_equal(wisp_session_text_needs(session, text, 0, &ranges, &count, &error), WISP_OK);
    assert_int_equal(count, 0);
    wisp_session_close(session);
    wisp_model_close(model);
    free(bytes);
}

/* Embeds the texts with a model of which the bytes before `hot` are there, and brings what it asks
 * for. */
static void embed_by_ranges(wisp_session *session, const struct texts *texts,
                            const unsigned char *bytes, uint64_t hot, float *rows) {
    const wisp_range *ranges;
    size_t count, calls = 0;
    wisp_error error;
    wisp_status status = wisp_embed(session, texts->text, TEXTS, NULL, rows, &error);
    while (status == WISP_NEED_RANGES) {
        assert_int_equal(wisp_session_needs(session, 0, &ranges, &count, &error), WISP_OK);
        assert_true(count > 0);
        for (size_t i = 0; i < count; i++) {
            assert_true(ranges[i].offset >= hot);
            assert_int_equal(wisp_session_provide(session, ranges[i].offset,
                                                  bytes + ranges[i].offset,
                                                  (size_t)ranges[i].length, &error),
                             WISP_OK);
        }
        calls++;
        status = wisp_embed_continue(session, &error);
    }
    assert_int_equal(status, WISP_OK);
    assert_true(calls > 0);
}

/* A plain model whose tokens are split opens from its beginning with predictors that need all
 * neurons, which are there. */
static void tokens_alone_may_be_cold(void **state) {
    static const wisp_predictor predictors[] = {WISP_PREDICTOR_AUTO, WISP_PREDICTOR_DENSE,
                                                WISP_PREDICTOR_EXACT};
    static const wisp_convert_options as_plain = {.plain = true}, again = {0},
                                      tokens_alone = {.plain = true, .hot_tokens = HOT};
    static float wanted[TEXTS * HIDDEN], rows[TEXTS * HIDDEN];
    char whole[PATH_BYTES], split[PATH_BYTES], path[PATH_BYTES], expected[PATH_BYTES];
    uint64_t hot_bytes, masks[2];
    struct texts texts;
    size_t size;
    wisp_verified verified;
    wisp_layer_neurons neurons;
    wisp_cold_stats stats;
    wisp_file *file;
    wisp_model *model;
    wisp_session *session;
    wisp_error error;
    (void)state;
    make_texts(&texts);
    snprintf(whole, sizeof whole, "%s", cold_model("whole.gguf", "relu", false, BLOCK_Q8_0));
    snprintf(split, sizeof split, "%s", temporary_path("split.gguf"));
    snprintf(path, sizeof path, "%s", temporary_path("again.gguf"));
    snprintf(expected, sizeof expected, "%s", temporary_path("expected.gguf"));
    convert_or_fail(whole, split, &tokens_alone);
    convert_or_fail(split, path, &again);
    expect_same_files(path, split);
    convert_or_fail(whole, expected, &as_plain);
    convert_or_fail(split, path, &as_plain);
    expect_same_files(path, expected);
    assert_int_equal(wisp_file_open(split, &file, &error), WISP_OK);
    assert_int_equal(wisp_file_verify(file, &verified, &error), WISP_OK);
    assert_int_equal(verified.chunk_bytes, 16384);
    wisp_file_close(file);

    unsigned char *bytes = read_file(split, &size);
    wisp_source source = {.size = size, .data = bytes};
    assert_int_equal(wisp_source_hot_bytes(&source, &hot_bytes, &error), WISP_OK);
    assert_true(hot_bytes < size);
    source.available = hot_bytes;
    for (size_t i = 0; i < sizeof predictors / sizeof *predictors; i++) {
        wisp_model_options options = {.predictor = predictors[i], .hot_only = true};
        const wisp_session_options with_recall = {.recall = predictors[i] != WISP_PREDICTOR_DENSE};
        wisp_model *reference = open_with(expected, WISP_COMPUTE_AUTO, predictors[i], NULL);
        session = open_session_or_fail(reference, 1);
        embed_or_fail(session, texts.text, TEXTS, wanted);
        wisp_session_close(session);
        wisp_model_close(reference);
        assert_int_equal(wisp_model_open_source(&source, &options, &model, &error), WISP_OK);
        assert_int_equal(wisp_session_open(model, &with_recall, &session, &error), WISP_OK);
        embed_by_ranges(session, &texts, bytes, hot_bytes, rows);
        assert_memory_equal(rows, wanted, sizeof rows);
        assert_true(wisp_model_get_cold_stats(model, &stats));
        assert_true(stats.tokens > 0 && stats.neurons == 0 && stats.cold_bytes == 0);
        assert_false(wisp_model_get_neurons(model, 0, &neurons, masks, masks + 1));
        wisp_session_close(session);
        wisp_model_close(model);
        options.memory = UINT32_MAX; /* of what has come, nothing could be given up */
        assert_int_equal(wisp_model_open_source(&source, &options, &model, &error),
                         WISP_ERROR_UNSUPPORTED);
        assert_string_equal(error.field, "memory");
        /* From a file all is read when it is needed, within any limit that attention fits. */
        assert_int_equal(wisp_model_open(split, &options, &model, &error), WISP_OK);
        session = open_session_or_fail(model, 2);
        assert_int_equal(wisp_embed_from_file(session, texts.text, TEXTS, NULL, rows, &error),
                         WISP_OK);
        assert_memory_equal(rows, wanted, sizeof rows);
        wisp_session_close(session);
        wisp_model_close(model);
    }
    const wisp_model_options lowrank = {.predictor = WISP_PREDICTOR_LOWRANK, .hot_only = true};
    assert_int_equal(wisp_model_open_source(&source, &lowrank, &model, &error),
                     WISP_ERROR_NOT_FOUND);
    free(bytes);
}

/* ---- malformed files ------------------------------------------------------------------------ */

static void malformed_splits_are_refused(void **state) {
    static const int32_t order[5] = {3, 1, 0, 2, 4}, twice[5] = {3, 1, 0, 1, 4},
                         below[5] = {3, 1, 0, -1, 4}, past[5] = {3, 1, 0, 5, 4};
    static const struct {
        const int32_t *order;
        size_t n;
        uint64_t hot, cold, cold_length;
        wisp_status status;
        const char *field, *says;
    } cases[] = {
        {order, 5, 2, 3, 8, WISP_OK, NULL, NULL},
        {NULL, 0, 2, 3, 8, WISP_ERROR_NOT_FOUND, "wisp.tokens.order", "missing"},
        {order, 4, 2, 3, 8, WISP_ERROR_FORMAT, "wisp.tokens.order", "5 integers"},
        {twice, 5, 2, 3, 8, WISP_ERROR_FORMAT, "wisp.tokens.order", "entry 3 is 1"},
        {below, 5, 2, 3, 8, WISP_ERROR_FORMAT, "wisp.tokens.order", "entry 3 is -1"},
        {past, 5, 2, 3, 8, WISP_ERROR_FORMAT, "wisp.tokens.order", "entry 3 is 5"},
        {order, 5, 0, 5, 8, WISP_ERROR_NOT_FOUND, "token_embd.hot", "missing"},
        {order, 5, 5, 0, 8, WISP_ERROR_NOT_FOUND, "token_embd.cold", "missing"},
        {order, 5, 2, 3, 7, WISP_ERROR_FORMAT, "token_embd.cold", "length of its rows"},
    };
    (void)state;
    for (size_t i = 0; i <= sizeof cases / sizeof *cases; i++) {
        const bool both = i == sizeof cases / sizeof *cases; /* plain and split */
        const size_t c = both ? 0 : i;
        struct gguf file = {0};
        struct bytes out = {0};
        gguf_make(&file, &tiny_shape);
        if (!both)
            gguf_drop_tensor(&file, "token_embd.weight");
        if (cases[c].hot > 0)
            tiny_add_tensor(&file, "token_embd.hot", 8, cases[c].hot, BLOCK_F32);
        if (cases[c].cold > 0)
            tiny_add_tensor(&file, "token_embd.cold", cases[c].cold_length, cases[c].cold,
                            BLOCK_F32);
        if (cases[c].order)
            gguf_set_i32s(&file, "wisp.tokens.order", cases[c].order, cases[c].n);
        gguf_settle(&file);
        gguf_write_bytes(&file, &out);
        write_file("malformed.gguf", out.data, out.size);
        wisp_file *opened = NULL;
        wisp_error error;
        const wisp_status status =
            wisp_file_open(temporary_path("malformed.gguf"), &opened, &error);
        assert_int_equal(status, both ? WISP_ERROR_FORMAT : cases[c].status);
        if (status != WISP_OK) {
            assert_string_equal(error.field, both ? "token_embd.weight" : cases[c].field);
            assert_non_null(strstr(error.message, both ? "has token_embd.hot" : cases[c].says));
        }
        wisp_file_close(opened);
        bytes_release(&out);
        gguf_release(&file);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_stand_in_the_order_of_tokens),
        cmocka_unit_test(plain_models_come_back),
        cmocka_unit_test(calibration_counts_tokens),
        cmocka_unit_test(embeddings_keep_their_bits),
        cmocka_unit_test(absent_tokens_are_asked_for_at_once),
        cmocka_unit_test(tokens_alone_may_be_cold),
        cmocka_unit_test(malformed_splits_are_refused),
    };
    return cmocka_run_group_tests_name("hot tokens", tests, NULL, tear_down_temporary_folder);
}
