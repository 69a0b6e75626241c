/* SPDX-License-Identifier: Apache-2.0
 * Makes memory run out at every allocation in turn, of every operation. Each time the operation
 * must report it, leak nothing, and succeed with the same open objects once there is memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/chunks.h"
#include "support/allocations.h"
#include "support/folder.h"
#include "support/golden.h"
#include "support/opening.h"
#include "support/sparse_models.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

/* So many texts that each of three threads gets some. */
enum { BATCH = 40, SIZE = 8, MAX_IDS = 16 };

/* The files and models that operations use, which are made once. */
static struct {
    struct bytes file, rows;
    char file_path[128], rows_path[128], folder_path[128], nomic_path[128], output_path[128];
    char predicting_paths[2][128], cold_path[128], split_path[128];
    wisp_model *model;
    wisp_session *session; /* of one test, which uses it again after a failure */
} world;

static const wisp_text *texts(void) {
    static const char *const some[] = {"the man is eating food", "",
                                       "a b c a b c a b c a b c a b c a b c, and so on.",
                                       "some one plays the guitar [MASK]", "\xC3\xA9t\xC3\xA9"};
    static wisp_text list[BATCH];
    for (size_t i = 0; i < BATCH; i++)
        list[i] = wisp_text_of(some[i % (sizeof some / sizeof *some)]);
    return list;
}

/* ---- operations ----------------------------------------------------------------------------- */

static int read_bytes(void *context, uint64_t offset, void *buffer, size_t length) {
    const struct bytes *file = context;
    memcpy(buffer, file->data + offset, length);
    return 0;
}

static wisp_status open_source_and_close(struct bytes *file, bool in_place, wisp_error *error) {
    const wisp_source source = {.size = file->size,
                                .data = in_place ? file->data : NULL,
                                .read = read_bytes,
                                .context = file,
                                .name = "tiny.gguf"};
    wisp_model *model = NULL;
    const wisp_status status = wisp_model_open_source(&source, NULL, &model, error);
    assert_true((status == WISP_OK) == (model != NULL));
    wisp_model_close(model);
    return status;
}

static wisp_status open_in_place(wisp_error *error) {
    return open_source_and_close(&world.file, true, error);
}

static wisp_status open_by_reading(wisp_error *error) {
    return open_source_and_close(&world.file, false, error);
}

static wisp_status open_rows(wisp_error *error) {
    return open_source_and_close(&world.rows, true, error);
}

static wisp_status open_rows_by_reading(wisp_error *error) {
    return open_source_and_close(&world.rows, false, error);
}

static wisp_status open_path_and_close(const char *path, wisp_compute compute,
                                       wisp_predictor predictor, wisp_error *error) {
    const wisp_model_options options = {.compute = compute, .predictor = predictor};
    wisp_model *model = NULL;
    const wisp_status status = wisp_model_open(path, &options, &model, error);
    assert_true((status == WISP_OK) == (model != NULL));
    wisp_model_close(model);
    return status;
}

static wisp_status open_file(wisp_error *error) {
    return open_path_and_close(world.file_path, WISP_COMPUTE_INT8, WISP_PREDICTOR_AUTO, error);
}

static wisp_status open_folder(wisp_error *error) {
    return open_path_and_close(world.folder_path, WISP_COMPUTE_F32, WISP_PREDICTOR_AUTO, error);
}

static wisp_status open_nomic(wisp_error *error) {
    return open_path_and_close(world.nomic_path, WISP_COMPUTE_INT8, WISP_PREDICTOR_AUTO, error);
}

static wisp_status open_gated(wisp_error *error) {
    return open_path_and_close(world.nomic_path, WISP_COMPUTE_INT8, WISP_PREDICTOR_EXACT, error);
}

static wisp_status open_predicting(wisp_error *error) {
    return open_path_and_close(world.predicting_paths[0], WISP_COMPUTE_INT8, WISP_PREDICTOR_LOWRANK,
                               error);
}

static wisp_status open_gated_predicting(wisp_error *error) {
    return open_path_and_close(world.predicting_paths[1], WISP_COMPUTE_INT8, WISP_PREDICTOR_LOWRANK,
                               error);
}

/* Distances whose vectors the layers of queries and keys make, and matrices of their own. */
static wisp_status open_deberta(wisp_error *error) {
    char path[GOLDEN_PATH_BYTES];
    TRY(open_path_and_close(data_path("models/deberta-v3", path), WISP_COMPUTE_INT8,
                            WISP_PREDICTOR_AUTO, error));
    return open_path_and_close(data_path("models/deberta-v2", path), WISP_COMPUTE_F32,
                               WISP_PREDICTOR_AUTO, error);
}

/* Lists and reads every tensor of the file. */
static wisp_status inspect(const char *path, wisp_error *error) {
    static float values[1 << 16];
    wisp_tensor tensor;
    wisp_file *file = NULL;
    wisp_status status = wisp_file_open(path, &file, error);
    assert_true((status == WISP_OK) == (file != NULL));
    for (size_t i = 0; status == WISP_OK && wisp_file_get_tensor(file, i, &tensor); i++)
        if (strcmp(tensor.type, "F32") == 0)
            status = wisp_file_read_tensor(file, i, values, error);
    wisp_file_close(file);
    return status;
}

static wisp_status inspect_rows(wisp_error *error) {
    return inspect(world.rows_path, error);
}

static wisp_status inspect_folder(wisp_error *error) {
    return inspect(world.folder_path, error);
}

static wisp_status open_sessions(uint32_t threads, wisp_error *error) {
    const wisp_session_options options = {.threads = threads};
    wisp_session *session = NULL;
    const wisp_status status = wisp_session_open(world.model, &options, &session, error);
    assert_true((status == WISP_OK) == (session != NULL));
    wisp_session_close(session);
    return status;
}

static wisp_status open_session(wisp_error *error) {
    return open_sessions(1, error);
}

static wisp_status open_session_of_three(wisp_error *error) {
    return open_sessions(3, error);
}

static wisp_status tokenize(wisp_error *error) {
    int32_t ids[MAX_IDS];
    size_t count = 0;
    return wisp_tokenize(world.model, texts()[0], ids, MAX_IDS, &count, error);
}

/* Rows must equal those of a session that never ran out of memory. */
static wisp_status embed(wisp_error *error) {
    static float expected[BATCH * SIZE];
    static bool known;
    float rows[BATCH * SIZE];
    const wisp_status status = wisp_embed(world.session, texts(), BATCH, NULL, rows, error);
    if (status != WISP_OK)
        return status;
    if (known)
        assert_memory_equal(rows, expected, sizeof rows);
    memcpy(expected, rows, sizeof rows);
    known = true;
    return WISP_OK;
}

static wisp_status convert_by(const char *input, const wisp_convert_options *options,
                              wisp_error *error) {
    const wisp_status status = wisp_convert(input, world.output_path, options, error);
    /* The output's folder must contain the output alone, or nothing. */
    assert_int_equal(remove(world.output_path), status == WISP_OK ? 0 : -1);
    char folder[128];
    snprintf(folder, sizeof folder, "%s", world.output_path);
    *strrchr(folder, '/') = '\0';
    assert_int_equal(remove(folder), 0);
    make_folder(folder);
    return status;
}

static wisp_status convert(const char *input, wisp_error *error) {
    const wisp_convert_options options = {.type = "f16", .name = "renamed"};
    return convert_by(input, &options, error);
}

static wisp_status convert_to_rows(wisp_error *error) {
    const wisp_convert_options options = {.type = "f16", .neurons = true};
    return convert_by(world.nomic_path, &options, error);
}

static wisp_status convert_rows(wisp_error *error) {
    return convert_by(world.rows_path, NULL, error);
}

static wisp_status convert_to_plain(wisp_error *error) {
    const wisp_convert_options options = {.plain = true};
    return convert_by(world.rows_path, &options, error);
}

static wisp_status convert_file(wisp_error *error) {
    return convert(world.file_path, error);
}

static wisp_status convert_folder(wisp_error *error) {
    return convert(world.folder_path, error);
}

/* Opens a model without its cold neurons, and embeds texts that wait for them. */
static wisp_status embed_cold(wisp_error *error) {
    const wisp_model_options options = {.hot_only = true};
    const wisp_session_options two = {.threads = 2};
    const wisp_text two_texts[] = {{"the man is eat food", 19}, {"red guit play", 13}};
    wisp_model *model = NULL;
    wisp_session *session = NULL;
    float rows[2 * HIDDEN];
    wisp_status status = wisp_model_open(world.cold_path, &options, &model, error);
    if (status == WISP_OK)
        status = wisp_session_open(model, &two, &session, error);
    if (status == WISP_OK)
        status = wisp_embed_from_file(session, two_texts, 2, NULL, rows, error);
    if (status != WISP_OK && session) /* the session is as good as new */
        wisp_embed_continue(session, NULL);
    wisp_session_close(session);
    wisp_model_close(model);
    return status;
}

static wisp_status split_tokens(wisp_error *error) {
    const wisp_convert_options hot = {.hot_tokens = 5};
    return convert_by(world.cold_path, &hot, error);
}

static wisp_status open_split_tokens(wisp_error *error) {
    const wisp_model_options options = {.hot_only = true, .in_memory = true};
    wisp_model *model = NULL;
    const wisp_status status = wisp_model_open(world.split_path, &options, &model, error);
    wisp_model_close(model);
    return status;
}

struct operation {
    const char *name;
    wisp_status (*run)(wisp_error *error);
    uint32_t threads; /* threads of a session that was opened before, if above 0 */
    bool onwards;     /* all allocations fail from one on, not only that one */
};

static const struct operation operations[] = {
    {"open in memory", open_in_place, 0, false},
    {"open in memory, from there on", open_in_place, 0, true},
    {"open by reading", open_by_reading, 0, false},
    {"open by reading, from there on", open_by_reading, 0, true},
    {"open a file", open_file, 0, false},
    {"open a file, from there on", open_file, 0, true},
    {"open a folder", open_folder, 0, false},
    {"open a folder, from there on", open_folder, 0, true},
    {"open a folder of nomic-bert", open_nomic, 0, false},
    {"open folders of DeBERTa", open_deberta, 0, false},
    {"open sparse layers that are gated", open_gated, 0, false},
    {"open sparse layers with a predictor", open_predicting, 0, false},
    {"open gated ones with a predictor", open_gated_predicting, 0, false},
    {"open neurons that are rows", open_rows, 0, false},
    {"open neurons that are rows, by reading", open_rows_by_reading, 0, false},
    {"open neurons that are rows, by reading, from there on", open_rows_by_reading, 0, true},
    {"inspect a file", inspect_rows, 0, false},
    {"inspect a folder, from there on", inspect_folder, 0, true},
    {"open a session", open_session, 0, false},
    {"open a session of three threads", open_session_of_three, 0, false},
    {"open a session of three threads, from there on", open_session_of_three, 0, true},
    {"tokenize", tokenize, 0, false},
    {"embed", embed, 1, false},
    {"embed, from there on", embed, 1, true},
    {"embed with three threads", embed, 3, false},
    {"embed with three threads, from there on", embed, 3, true},
    {"embed without cold neurons", embed_cold, 0, false},
    {"embed without cold neurons, from there on", embed_cold, 0, true},
    {"make tokens hot", split_tokens, 0, false},
    {"make tokens hot, from there on", split_tokens, 0, true},
    {"open without cold tokens", open_split_tokens, 0, false},
    {"open without cold tokens, from there on", open_split_tokens, 0, true},
    {"convert a file", convert_file, 0, false},
    {"convert a file, from there on", convert_file, 0, true},
    {"convert a folder", convert_folder, 0, false},
    {"convert a folder, from there on", convert_folder, 0, true},
    {"convert to rows", convert_to_rows, 0, false},
    {"convert rows", convert_rows, 0, false},
    {"convert rows, from there on", convert_rows, 0, true},
    {"convert rows to plain", convert_to_plain, 0, false},
};

/* ---- the loop ------------------------------------------------------------------------------- */

static void open_world_session(uint32_t threads) {
    const wisp_session_options options = {.threads = threads};
    if (threads > 0)
        assert_int_equal(wisp_session_open(world.model, &options, &world.session, NULL), WISP_OK);
}

static void close_world_session(void) {
    wisp_session_close(world.session);
    world.session = NULL;
}

/* Runs the operation with its allocation `n` failing. Returns false when it makes fewer. */
static bool fail_at(const struct operation *operation, uint64_t n) {
    wisp_error error = {0};
    allocations_watch();
    open_world_session(operation->threads);
    allocations_fail_after(n, operation->onwards);
    const wisp_status status = operation->run(&error);
    allocations_succeed();
    const bool failed = allocations_seen().failed;
    if (failed && status != WISP_OK) {
        assert_int_equal(status, WISP_ERROR_MEMORY);
        assert_int_equal(error.status, WISP_ERROR_MEMORY);
        assert_non_null(strstr(error.message, "memory"));
    } else {
        assert_int_equal(status, WISP_OK);
    }
    assert_int_equal(operation->run(&error), WISP_OK);
    close_world_session();
    assert_int_equal(allocations_seen().live, 0);
    return failed;
}

/* Runs the operation once before allocations are counted: memory that libc keeps for later, such as
 * the stacks of threads, would look like a leak. */
static void warm_up(const struct operation *operation) {
    open_world_session(operation->threads);
    assert_int_equal(operation->run(NULL), WISP_OK);
    close_world_session();
}

static void run_operation(void **state) {
    uint64_t n = 0;
    assert_true(allocations_are_watched());
    warm_up(*state);
    while (fail_at(*state, n))
        n++;
    assert_true(n > 0);
    print_message("             %llu allocations\n", (unsigned long long)n);
}

/* An error that the caller does not want must not cause another one. */
static void no_error_wanted(void **state) {
    (void)state;
    for (uint64_t n = 0;; n++) {
        allocations_watch();
        allocations_fail_after(n, false);
        const wisp_status status = open_folder(NULL);
        allocations_succeed();
        assert_int_equal(allocations_seen().live, 0);
        if (status == WISP_OK)
            return;
        assert_int_equal(status, WISP_ERROR_MEMORY);
    }
}

/* ---- the world ------------------------------------------------------------------------------ */

/* Together these two models have everything that a sparse layer may have: centers or gates, a
 * shared P or not. */
static void make_predicting_models(void) {
    for (int gated = 0; gated < 2; gated++) {
        const char *activation = gated ? "silu" : "gelu";
        const struct predicting p = {.shape = tiny_shape_of(activation),
                                     .activation = activation,
                                     .rank = 32,
                                     .type = gated ? BLOCK_Q8_0 : BLOCK_F32,
                                     .compensated = true,
                                     .shared = gated != 0};
        snprintf(world.predicting_paths[gated], sizeof world.predicting_paths[gated], "%s",
                 predicting_model(gated ? "gated.gguf" : "sparse.gguf", &p));
    }
}

static int make_world(void **state) {
    struct gguf file;
    struct folder folder;
    (void)state;
    gguf_make(&file, &tiny_shape);
    gguf_write_bytes(&file, &world.file);
    gguf_release(&file);
    gguf_make(&file, &tiny_nomic_rows_q8_0);
    gguf_write_bytes(&file, &world.rows);
    gguf_release(&file);
    snprintf(world.rows_path, sizeof world.rows_path, "%s", temporary_path("rows.gguf"));
    write_file(world.rows_path, world.rows.data, world.rows.size);
    snprintf(world.file_path, sizeof world.file_path, "%s", temporary_path("tiny.gguf"));
    snprintf(world.folder_path, sizeof world.folder_path, "%s", temporary_path("model"));
    snprintf(world.nomic_path, sizeof world.nomic_path, "%s", temporary_path("nomic"));
    snprintf(world.output_path, sizeof world.output_path, "%s", temporary_path("out/x.gguf"));
    write_file(world.file_path, world.file.data, world.file.size);
    folder_make(&folder, &tiny_shape);
    folder_write(&folder, world.folder_path);
    folder_release(&folder);
    folder_make(&folder, &tiny_nomic);
    folder_write(&folder, world.nomic_path);
    folder_release(&folder);
    make_folder(temporary_path("out"));
    make_predicting_models();
    snprintf(world.cold_path, sizeof world.cold_path, "%s",
             cold_model("cold.gguf", "gelu", false, BLOCK_Q8_0));
    snprintf(world.split_path, sizeof world.split_path, "%s", temporary_path("split.gguf"));
    const wisp_convert_options hot = {.hot_tokens = 5};
    if (wisp_convert(world.cold_path, world.split_path, &hot, NULL) != WISP_OK)
        return -1;
    set_chunks(world.split_path, MIN_CHUNK_BYTES);
    return wisp_model_open(world.file_path, NULL, &world.model, NULL) == WISP_OK ? 0 : -1;
}

static int end_world(void **state) {
    (void)state;
    wisp_model_close(world.model);
    bytes_release(&world.file);
    bytes_release(&world.rows);
    remove_temporary_folder();
    return 0;
}

int main(void) {
    enum { OPERATIONS = sizeof operations / sizeof *operations };
    static struct CMUnitTest tests[OPERATIONS + 1];
    for (size_t i = 0; i < OPERATIONS; i++)
        tests[i] = (struct CMUnitTest){.name = operations[i].name,
                                       .test_func = run_operation,
                                       .initial_state = (void *)(uintptr_t)&operations[i]};
    tests[OPERATIONS] = (struct CMUnitTest)cmocka_unit_test(no_error_wanted);
    return cmocka_run_group_tests(tests, make_world, end_world);
}
