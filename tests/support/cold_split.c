/* SPDX-License-Identifier: Apache-2.0 */
#include "support/cold_split.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/golden.h"
#include "support/opening.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

static int read_hot(void *context, uint64_t offset, void *buffer, size_t length) {
    const struct split *split = context;
    if (offset > split->hot_bytes || length > split->hot_bytes - offset)
        return -1;
    memcpy(buffer, split->hot + offset, length);
    return 0;
}

static int read_kept(void *context, uint64_t offset, void *buffer, size_t length) {
    const struct split *split = context;
    for (size_t i = 0; i < length; i++)
        if (offset + i >= split->hot_bytes &&
            !atomic_load_explicit(&split->came[offset + i], memory_order_relaxed))
            return -1;
    memcpy(buffer, split->bytes + offset, length);
    return 0;
}

wisp_source split_keeping_source(const struct split *split) {
    wisp_source source = split_source(split, true);
    source.read = read_kept;
    source.may_change = source.keeps = true;
    return source;
}

wisp_source split_source(const struct split *split, bool by_read) {
    return by_read ? (wisp_source){.size = split->size,
                                   .read = read_hot,
                                   .context = (void *)(uintptr_t)split,
                                   .lasting = true,
                                   .available = split->hot_bytes}
                   : (wisp_source){
                         .size = split->size, .data = split->hot, .available = split->hot_bytes};
}

struct split split_open(const char *activation, bool by_text, uint32_t type, uint32_t chunk_bytes) {
    struct split split = {0};
    wisp_error error;
    snprintf(split.path, sizeof split.path, "%s",
             cold_model("rows.gguf", activation, by_text, type));
    if (chunk_bytes > 0) {
        const wisp_convert_options hot = {.hot_tokens = COLD_HOT_TOKENS};
        char whole[sizeof split.path];
        snprintf(whole, sizeof whole, "%s", split.path);
        snprintf(split.path, sizeof split.path, "%s", temporary_path("tokens.gguf"));
        assert_int_equal(wisp_convert(whole, split.path, &hot, &error), WISP_OK);
        set_chunks(split.path, chunk_bytes);
    }
    split.bytes = read_file(split.path, &split.size);
    const wisp_source whole = {.size = split.size, .data = split.bytes};
    assert_int_equal(wisp_source_hot_bytes(&whole, &split.hot_bytes, &error), WISP_OK);
    assert_true(split.hot_bytes < split.size);
    /* The header alone tells as much, and a byte less is an error; so is a byte of the hot part
     * less when the model is opened. */
    wisp_source part = {.size = split.size, .data = split.bytes, .available = 24};
    while (wisp_source_hot_bytes(&part, &split.hot_bytes, &error) == WISP_ERROR_IO)
        part.available++;
    assert_true(error.status == WISP_ERROR_IO && part.available < split.hot_bytes);
    const wisp_model_options hot_only = {.hot_only = true};
    wisp_model *model;
    part.available = split.hot_bytes - 1;
    assert_int_equal(wisp_model_open_source(&part, &hot_only, &model, &error), WISP_ERROR_IO);
    split.hot = malloc((size_t)split.hot_bytes);
    assert_non_null(split.hot);
    memcpy(split.hot, split.bytes, (size_t)split.hot_bytes);
    split.came = calloc(split.size, sizeof *split.came);
    assert_non_null(split.came);
    return split;
}

void split_close(struct split *split) {
    free(split->bytes);
    free(split->hot);
    free(split->came);
}

wisp_model *open_of_source(const wisp_source *source, const wisp_model_options *options) {
    wisp_model *model;
    wisp_error error;
    if (wisp_model_open_source(source, options, &model, &error) != WISP_OK)
        fail_msg("%s", error.message);
    return model;
}

wisp_model *split_open_model(const struct split *split, bool by_read, wisp_predictor predictor) {
    const wisp_model_options options = {.hot_only = true, .predictor = predictor};
    const wisp_source source = split_source(split, by_read);
    return open_of_source(&source, &options);
}

wisp_session *open_cold_session(const wisp_model *model, uint32_t threads, bool skip) {
    const wisp_session_options options = {.threads = threads, .skip_absent = skip};
    wisp_session *session;
    wisp_error error;
    assert_int_equal(wisp_session_open(model, &options, &session, &error), WISP_OK);
    return session;
}

wisp_cold_stats cold_stats_of(const wisp_model *model) {
    wisp_cold_stats stats;
    assert_true(wisp_model_get_cold_stats(model, &stats));
    return stats;
}

wisp_status split_provide(wisp_session *session, const struct split *split, wisp_range range) {
    wisp_error error;
    /* A copy that ends where the range does. */
    unsigned char *bytes = malloc((size_t)range.length);
    assert_non_null(bytes);
    memcpy(bytes, split->bytes + range.offset, (size_t)range.length);
    for (uint64_t i = 0; i < range.length; i++)
        atomic_store_explicit(&split->came[range.offset + i], 1, memory_order_relaxed);
    const wisp_status status =
        wisp_session_provide(session, range.offset, bytes, (size_t)range.length, &error);
    free(bytes);
    return status;
}

void split_provide_some(wisp_session *session, const struct split *split, uint64_t gap,
                        uint64_t *random) {
    const wisp_range *ranges;
    wisp_range shuffled[COLD_LAYERS * COLD_WIDE];
    size_t count;
    wisp_error error;
    assert_int_equal(wisp_session_needs(session, gap, &ranges, &count, &error), WISP_OK);
    assert_true(count <= COLD_LAYERS * COLD_WIDE);
    for (size_t i = 0; i < count; i++) {
        const size_t j = (size_t)(random_next(random) % (i + 1));
        assert_true(ranges[i].length > 0 && ranges[i].offset >= split->hot_bytes &&
                    ranges[i].offset + ranges[i].length <= split->size);
        assert_true(i == 0 || ranges[i].offset > ranges[i - 1].offset + ranges[i - 1].length + gap);
        shuffled[i] = shuffled[j];
        shuffled[j] = ranges[i];
    }
    for (size_t i = 0; i < count; i++)
        if (i == 0 || random_next(random) % 3 > 0)
            assert_int_equal(split_provide(session, split, shuffled[i]), WISP_OK);
}

size_t split_embed(wisp_session *session, const struct split *split, const struct texts *texts,
                   uint64_t gap, uint64_t *random, float *rows) {
    wisp_error error;
    size_t waited = 0;
    wisp_status status = wisp_embed(session, texts->text, TEXTS, NULL, rows, &error);
    for (; status == WISP_NEED_RANGES; waited++) {
        assert_int_equal(error.status, WISP_NEED_RANGES);
        split_provide_some(session, split, gap, random);
        status = wisp_embed_continue(session, &error);
    }
    if (status != WISP_OK)
        fail_msg("%s", error.message);
    return waited;
}

wisp_layer_stats layer_stats_of(const wisp_session *session, uint32_t layer) {
    wisp_layer_stats stats;
    assert_true(wisp_session_get_layer_stats(session, layer, &stats));
    return stats;
}

void spoil_block(void *block, size_t bytes) {
    memset(block, 0x5a, bytes);
}
