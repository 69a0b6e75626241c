/* SPDX-License-Identifier: Apache-2.0
 * Digests of chunks: files that wisp writes have right ones, and each changed byte behind the
 * header is found, named by its chunk, if bytes arrive in parts. Malformed tables are cases of
 * test_malformed_neurons. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"
#include "engine/session.h"
#include "formats/neurons_read.h"
#include "support/golden.h"
#include "support/opening.h"
#include "support/sparse_models.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { PATH_BYTES = 256, CHUNK = MIN_CHUNK_BYTES };

/* A file whose neurons are rows, with chunks of CHUNK bytes, and what its table says. */
struct chunked {
    char path[PATH_BYTES];
    unsigned char *bytes;
    size_t size;
    struct chunks chunks; /* without digests */
};

static struct chunked open_chunked(void) {
    struct chunked file = {0};
    wisp_model *model;
    wisp_error error;
    snprintf(file.path, sizeof file.path, "%s", cold_model("rows.gguf", "gelu", false, BLOCK_Q8_0));
    set_chunks(file.path, CHUNK);
    file.bytes = read_file(file.path, &file.size);
    assert_int_equal(wisp_model_open(file.path, NULL, &model, &error), WISP_OK);
    file.chunks = model->chunks;
    file.chunks.digests = NULL;
    wisp_model_close(model);
    assert_true(file.chunks.n_hot > 3 && file.chunks.n > file.chunks.n_hot + 3);
    return file;
}

static wisp_status verify(const char *path, wisp_verified *verified, wisp_error *error) {
    wisp_file *file;
    assert_int_equal(wisp_file_open(path, &file, error), WISP_OK);
    const wisp_status status = wisp_file_verify(file, verified, error);
    wisp_file_close(file);
    return status;
}

static void expect_chunk(const wisp_error *error, const struct chunked *file, uint64_t i) {
    const wisp_range range = chunk_range(&file->chunks, i);
    char says[160];
    snprintf(says, sizeof says,
             "bytes %llu to %llu of the file are not what its table says: the SHA-256 of chunk "
             "%llu differs",
             (unsigned long long)range.offset,
             (unsigned long long)(range.offset + range.length - 1), (unsigned long long)i);
    assert_int_equal(error->status, WISP_ERROR_FORMAT);
    assert_string_equal(error->field, "wisp.chunks.sha256");
    assert_string_equal(error->message + strlen(error->message) - strlen(says), says);
}

/* ---- tables that are written ---------------------------------------------------------------- */

static void chunks_follow_one_another(void **state) {
    struct chunked file = open_chunked();
    const struct chunks *c = &file.chunks;
    uint64_t at = c->start;
    (void)state;
    for (uint64_t i = 0; i < c->n; i++) {
        const wisp_range range = chunk_range(c, i);
        assert_int_equal(range.offset, at);
        assert_true(range.length == CHUNK || i == c->n_hot - 1 || i == c->n - 1);
        assert_int_equal(chunk_at(c, at), i);
        assert_int_equal(chunk_at(c, at + range.length - 1), i);
        at += range.length;
        if (i == c->n_hot - 1)
            assert_int_equal(at, c->cold);
    }
    assert_int_equal(at, file.size);
    free(file.bytes);
}

static void every_writer_of_rows_writes_right_digests(void **state) {
    static const wisp_convert_options as_rows = {.neurons = true}, hot = {.hot = 0.5f},
                                      as_plain = {.plain = true}, again = {0};
    char plain[PATH_BYTES], sparse[PATH_BYTES], path[PATH_BYTES];
    wisp_verified verified;
    wisp_error error;
    (void)state;
    snprintf(plain, sizeof plain, "%s", tiny_model("tiny.gguf", "relu"));
    snprintf(sparse, sizeof sparse, "%s", temporary_path("sparse.gguf"));
    snprintf(path, sizeof path, "%s", temporary_path("out.gguf"));
    assert_int_equal(verify(plain, &verified, &error), WISP_ERROR_NOT_FOUND);
    assert_int_equal(wisp_convert(plain, path, &as_rows, &error), WISP_OK);
    assert_int_equal(verify(path, &verified, &error), WISP_OK);
    assert_int_equal(verified.chunk_bytes, 65536);
    assert_int_equal(verified.chunks, 1); /* all neurons are hot */
    calibrate_or_fail(plain, sparse, 1);
    assert_int_equal(verify(sparse, &verified, &error), WISP_OK);
    assert_int_equal(wisp_convert(sparse, path, &hot, &error), WISP_OK);
    assert_int_equal(verify(path, &verified, &error), WISP_OK);
    assert_int_equal(verified.chunks, 2);
    /* The table of the file that is read is not copied. */
    set_chunks(sparse, CHUNK);
    assert_int_equal(verify(sparse, &verified, &error), WISP_OK);
    assert_int_equal(verified.chunk_bytes, CHUNK);
    assert_int_equal(wisp_convert(sparse, path, &again, &error), WISP_OK);
    assert_int_equal(verify(path, &verified, &error), WISP_OK);
    assert_int_equal(verified.chunk_bytes, 65536);
    assert_int_equal(wisp_convert(sparse, path, &as_plain, &error), WISP_OK);
    assert_int_equal(verify(path, &verified, &error), WISP_ERROR_NOT_FOUND);
    assert_int_equal(wisp_quantize(sparse, path, "f16", NULL, &error), WISP_OK);
    assert_int_equal(verify(path, &verified, &error), WISP_ERROR_NOT_FOUND);
}

/* ---- bytes that differ ---------------------------------------------------------------------- */

/* Writes the file with one byte changed, which is found by its chunk. */
static void changed_bytes_are_found(void **state) {
    struct chunked file = open_chunked();
    const wisp_model_options hot_only = {.hot_only = true};
    wisp_verified verified;
    wisp_error error;
    (void)state;
    for (uint64_t i = 0; i < file.chunks.n; i++) {
        const wisp_range range = chunk_range(&file.chunks, i);
        const uint64_t at = range.offset + (i % 2 ? range.length - 1 : i % 3 * 5);
        file.bytes[at] ^= (unsigned char)(1 << i % 8);
        write_file(file.path, file.bytes, file.size);
        assert_int_equal(verify(file.path, &verified, &error), WISP_ERROR_FORMAT);
        expect_chunk(&error, &file, i);
        for (int by_data = 0; by_data < 2; by_data++) {
            const wisp_source data = {.size = file.size, .data = file.bytes};
            wisp_model *model;
            const wisp_status status =
                by_data ? wisp_model_open_source(&data, &hot_only, &model, &error)
                        : wisp_model_open(file.path, &hot_only, &model, &error);
            assert_int_equal(status, i < file.chunks.n_hot ? WISP_ERROR_FORMAT : WISP_OK);
            if (status != WISP_OK)
                expect_chunk(&error, &file, i);
            wisp_model_close(model);
        }
        file.bytes[at] ^= (unsigned char)(1 << i % 8);
    }
    write_file(file.path, file.bytes, file.size);
    assert_int_equal(verify(file.path, &verified, &error), WISP_OK);
    assert_int_equal(verified.header_bytes, file.chunks.start);
    free(file.bytes);
}

static uint64_t rows_of(const wisp_model *model) {
    wisp_cold_stats stats;
    assert_true(wisp_model_get_cold_stats(model, &stats));
    return stats.rows;
}

/* Opens the file, as a whole or without its cold neurons, if its header has the SHA-256 `hex`.
 */
static wisp_status open_pinned(const char *path, bool hot_only, const char *hex,
                               wisp_error *error) {
    const wisp_model_options options = {
        .hot_only = hot_only, .predictor = WISP_PREDICTOR_LOWRANK, .header_sha256 = hex};
    wisp_model *model;
    const wisp_status status = wisp_model_open(path, &options, &model, error);
    wisp_model_close(model);
    return status;
}

static void a_header_can_be_pinned(void **state) {
    struct chunked file = open_chunked();
    char hex[65], plain[PATH_BYTES];
    wisp_verified verified;
    wisp_error error;
    (void)state;
    assert_int_equal(verify(file.path, &verified, &error), WISP_OK);
    sha256_text(verified.header_sha256, hex);
    snprintf(plain, sizeof plain, "%s", tiny_model("tiny.gguf", "gelu"));
    for (int hot_only = 0; hot_only < 2; hot_only++) {
        assert_int_equal(open_pinned(file.path, hot_only, hex, &error), WISP_OK);
        /* Every byte counts: those of hot and cold chunks, and of the header itself. */
        const uint64_t places[] = {file.chunks.start, file.chunks.cold - 1, file.chunks.cold,
                                   file.size - 1};
        for (size_t i = 0; i < 4; i++) {
            file.bytes[places[i]] ^= 1;
            write_file(file.path, file.bytes, file.size);
            assert_int_equal(open_pinned(file.path, hot_only, hex, &error), WISP_ERROR_FORMAT);
            expect_chunk(&error, &file, chunk_at(&file.chunks, places[i]));
            file.bytes[places[i]] ^= 1;
        }
        /* A byte of the first digest, with which the header is another one. */
        unsigned char *table = NULL;
        for (size_t i = 0; i + 18 < file.chunks.start && !table; i++)
            if (memcmp(file.bytes + i, "wisp.chunks.sha256", 18) == 0)
                table = file.bytes + i + 18 + 16;
        assert_non_null(table);
        table[0] ^= 1;
        write_file(file.path, file.bytes, file.size);
        assert_int_equal(open_pinned(file.path, hot_only, hex, &error), WISP_ERROR_FORMAT);
        assert_string_equal(error.field, "header_sha256");
        table[0] ^= 1;
        write_file(file.path, file.bytes, file.size);
        if (!hot_only) {
            assert_int_equal(open_pinned(plain, false, hex, &error), WISP_ERROR_UNSUPPORTED);
            assert_string_equal(error.field, "header_sha256");
        }
    }
    const char *const no_digests[] = {"", hex + 1, "ABCD"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(open_pinned(file.path, false, no_digests[i], &error), WISP_ERROR_ARGUMENT);
        assert_string_equal(error.field, "header_sha256");
    }
    hex[63] = 'F';
    assert_int_equal(open_pinned(file.path, false, hex, &error), WISP_ERROR_ARGUMENT);
    free(file.bytes);
}

static void provide_or_fail(wisp_session *session, const struct chunked *file, uint64_t offset,
                            uint64_t length) {
    wisp_error error;
    if (wisp_session_provide(session, offset, file->bytes + offset, (size_t)length, &error) !=
        WISP_OK)
        fail_msg("%s", error.message);
}

static void rows_are_taken_of_right_chunks_alone(void **state) {
    const wisp_text text = {"the man is eat food", 19};
    struct chunked file = open_chunked();
    const struct chunks *c = &file.chunks;
    const wisp_model_options hot_only = {.hot_only = true};
    float wanted[HIDDEN], row[HIDDEN];
    const wisp_range *ranges;
    size_t count;
    wisp_model *model;
    wisp_session *session;
    wisp_error error;
    (void)state;
    wisp_model *whole = open_with(file.path, WISP_COMPUTE_AUTO, WISP_PREDICTOR_LOWRANK, NULL);
    assert_int_equal(wisp_session_open(whole, NULL, &session, &error), WISP_OK);
    embed_or_fail(session, &text, 1, wanted);
    wisp_session_close(session);
    wisp_model_close(whole);
    assert_int_equal(wisp_model_open(file.path, &hot_only, &model, &error), WISP_OK);
    const struct tensor *cold = &neurons_find_rows(&model->dir, 0)->stored[COLD_ROWS];
    assert_int_equal(wisp_session_open(model, NULL, &session, &error), WISP_OK);
    assert_int_equal(wisp_embed(session, &text, 1, NULL, row, &error), WISP_NEED_RANGES);

    /* Needs are whole chunks of the cold part. */
    assert_int_equal(wisp_session_needs(session, 0, &ranges, &count, &error), WISP_OK);
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) {
        const uint64_t end = ranges[i].offset + ranges[i].length;
        assert_true(ranges[i].offset >= c->cold && (ranges[i].offset - c->cold) % CHUNK == 0);
        assert_true(end == c->end || (end - c->cold) % CHUNK == 0);
    }

    /* No row is taken of a chunk of which a byte is missing, at either end. */
    provide_or_fail(session, &file, c->cold, CHUNK - 1);
    provide_or_fail(session, &file, c->cold + 1, CHUNK);
    provide_or_fail(session, &file, 0, c->cold);
    assert_int_equal(rows_of(model), 0);

    /* Nor if one of several chunks is wrong, of any. */
    file.bytes[c->cold + 2 * CHUNK] ^= 4;
    assert_int_equal(
        wisp_session_provide(session, c->cold, file.bytes + c->cold, 4 * CHUNK, &error),
        WISP_ERROR_FORMAT);
    expect_chunk(&error, &file, c->n_hot + 2);
    assert_int_equal(rows_of(model), 0);
    assert_int_equal(wisp_embed_continue(session, &error), WISP_NEED_RANGES);
    file.bytes[c->cold + 2 * CHUNK] ^= 4;

    /* The row that lies in the first two chunks comes with both, and not with each alone. */
    const uint64_t in_first = CHUNK / cold->row_bytes;
    const uint64_t in_two = 2 * CHUNK / cold->row_bytes;
    assert_true(CHUNK % cold->row_bytes > 0 && 2 * CHUNK < cold->bytes);
    provide_or_fail(session, &file, c->cold, CHUNK);
    assert_int_equal(rows_of(model), in_first);
    provide_or_fail(session, &file, c->cold + CHUNK, CHUNK);
    assert_int_equal(rows_of(model), in_two - 1);
    provide_or_fail(session, &file, c->cold - 1, 2 * CHUNK + 2); /* with bytes around them */
    assert_int_equal(rows_of(model), in_two);
    provide_or_fail(session, &file, c->cold, c->end - c->cold);
    assert_int_equal(wisp_embed_continue(session, &error), WISP_OK);
    assert_memory_equal(row, wanted, sizeof row);

    /* Chunks that come again are compared again. */
    provide_or_fail(session, &file, c->cold, c->end - c->cold);
    for (uint64_t i = c->n_hot; i < c->n; i++) {
        const wisp_range range = chunk_range(c, i);
        const uint64_t at = range.offset + i * 7919 % range.length;
        file.bytes[at] ^= 1;
        assert_int_equal(wisp_session_provide(session, range.offset, file.bytes + range.offset,
                                              (size_t)range.length, &error),
                         WISP_ERROR_FORMAT);
        expect_chunk(&error, &file, i);
        file.bytes[at] ^= 1;
    }
    wisp_session_close(session);
    wisp_model_close(model);
    free(file.bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_follow_one_another),
        cmocka_unit_test(every_writer_of_rows_writes_right_digests),
        cmocka_unit_test(changed_bytes_are_found),
        cmocka_unit_test(a_header_can_be_pinned),
        cmocka_unit_test(rows_are_taken_of_right_chunks_alone),
    };
    return cmocka_run_group_tests_name("chunks", tests, NULL, tear_down_temporary_folder);
}
