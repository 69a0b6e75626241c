/* SPDX-License-Identifier: Apache-2.0
 * A host program whose locale has decimal commas: what the library writes and reads has points all
 * the same. Systems have few locales installed, so localedef makes two here: one with a comma, and
 * one with a separator of two bytes, the Arabic one. */
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number_text.h"
#include "binding/generate/search.h"
#include "binding/generate/text.h"
#include "formats/directory.h"
#include "support/decoders.h"
#include "support/folder.h"
#include "support/golden.h"
#include "support/opening.h"
#include "support/rng.h"
#include "support/sparse_models.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

static const struct locale {
    const char *name, *defined, *separator;
} locales[] = {{"comma", "<U002C>", ","}, {"arabic", "<U066B>", "\xD9\xAB"}};

static void write_text_file(const char *name, const char *text) {
    write_file(name, text, strlen(text));
}

static void make_locale(const struct locale *locale) {
    char text[256], command[1024];
    snprintf(text, sizeof text,
             "comment_char %%\nescape_char /\nLC_NUMERIC\ndecimal_point \"%s\"\n"
             "thousands_sep \"\"\ngrouping -1\nEND LC_NUMERIC\n",
             locale->defined);
    write_text_file("definition", text);
    write_text_file("charmap", "<code_set_name> TINY\n<comment_char> %\n<escape_char> /\n"
                               "<mb_cur_min> 1\n<mb_cur_max> 2\nCHARMAP\n"
                               "<U002C> /x2c COMMA\n"
                               "<U066B> /xd9/xab ARABIC DECIMAL SEPARATOR\nEND CHARMAP\n");
    const char *folder = temporary_path("");
    snprintf(command, sizeof command,
             "localedef -c -f %s/charmap -i %s/definition %s/%s >/dev/null 2>&1", folder, folder,
             folder, locale->name);
    /* Its status is not 0, because the other categories of the locale are missing. */
    (void)!system(command);
}

/* Sets the locale of numbers. Returns false, after printing why, if the system has no such
 * locale. In CI that is a failure. */
static bool enter(const struct locale *locale) {
    make_locale(locale);
    setenv("LOCPATH", temporary_path(""), 1);
    if (setlocale(LC_NUMERIC, locale->name) &&
        strcmp(localeconv()->decimal_point, locale->separator) == 0)
        return true;
    setlocale(LC_NUMERIC, "C");
    if (getenv("CI"))
        fail_msg("no locale with %s can be made, and CI skips nothing", locale->defined);
    printf("skipped: numbers with %s as the separator: localedef made no such locale\n",
           locale->defined);
    return false;
}

static int leave(void **state) {
    (void)state;
    setlocale(LC_NUMERIC, "C");
    return 0;
}

static void check_number(double value, int digits, const char *wanted) {
    assert_string_equal(number_text(value, digits).text, wanted);
}

static void check_numbers(void) {
    check_number(0.5, 6, "0.5");
    check_number(-1234.5625, 17, "-1234.5625");
    check_number(0.1, 17, "0.10000000000000001");
    check_number(1.5e300, 7, "1.5e+300");
    check_number(-2.25e-9, 7, "-2.25e-09");
    check_number(3, 7, "3");
    check_number((double)INFINITY, 7, "inf");
    check_number(-1.7976931348623157e308, 17, "-1.7976931348623157e+308");
}

static void numbers_have_points(void **state) {
    (void)state;
    check_numbers();
    for (size_t i = 0; i < sizeof locales / sizeof *locales; i++)
        if (enter(&locales[i]))
            check_numbers();
}

static void check_float(float value) {
    char wanted[40];
    snprintf(wanted, sizeof wanted, "%.9g", (double)value);
    check_number((double)value, 9, wanted);
}

/* Floats are written by other code than numbers of other digits. */
static void floats_are_printfs(void **state) {
    (void)state;
    static const float edges[] = {0,       -0.0f,       1e-4f,        9.99999e-5f, 1e9f,
                                  0.5f,    0.25f,       999999999.0f, 100000000,   1e8f + 8,
                                  1.5f,    16777216,    0.1f,         -0.001f,     0.000123456789f,
                                  9.9999f, 99999.9999f, 12345678.5f};
    struct rng rng = {.state = 7};
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
        check_float(edges[i]);
        check_float(nextafterf(edges[i], 0));
        check_float(nextafterf(edges[i], INFINITY));
    }
    for (size_t i = 0; i < 200000; i++) {
        const uint32_t bits = (uint32_t)rng_bits(&rng);
        float value;
        memcpy(&value, &bits, sizeof value);
        if (isfinite(value))
            check_float(i % 2 ? value : ldexpf(value, -ilogbf(value) - (int)(bits % 16)));
    }
}

static void metadata_has_points(void **state) {
    (void)state;
    const double wide = 0.1;
    struct gguf made;
    if (!enter(&locales[0]))
        return;
    gguf_make(&made, &tiny_shape);
    gguf_set_f32(&made, "test.f32", 2.5f);
    gguf_set(&made, "test.f64", VALUE_F64, &wide, sizeof wide);
    char path[512]; /* later calls of temporary_path reuse what write_made returns */
    snprintf(path, sizeof path, "%s", write_made(&made, "metadata.gguf"));
    wisp_model *model = open_model_or_fail(path, WISP_COMPUTE_AUTO, NULL);
    wisp_file *file;
    wisp_error error;
    const char *key;
    char value[64];
    wisp_metadata entry;
    size_t found = 0;
    assert_int_equal(wisp_file_open(path, &file, &error), WISP_OK);
    for (size_t i = 0; wisp_model_metadata(model, i, &key, value, sizeof value); i++) {
        const char *wanted = strcmp(key, "test.f32") == 0   ? "2.5"
                             : strcmp(key, "test.f64") == 0 ? "0.10000000000000001"
                                                            : NULL;
        assert_true(wisp_file_get_metadata(file, i, &entry));
        if (wanted) {
            assert_string_equal(value, wanted);
            assert_string_equal(entry.text, wanted);
            found++;
        }
    }
    assert_int_equal(found, 2);
    wisp_file_close(file);
    wisp_model_close(model);
}

static void check_events(const struct json *events) {
    size_t timed = 0;
    assert_true(json_is(events, JSON_ARRAY));
    for (const struct json *event = events->first; event; event = event->next) {
        double start, length;
        if (!json_equals(json_get(event, "ph"), "X"))
            continue;
        assert_true(json_to_double(json_get(event, "ts"), &start) && start >= 0);
        assert_true(json_to_double(json_get(event, "dur"), &length) && length >= 0);
        timed++;
    }
    assert_true(timed > 10);
}

static void a_trace_is_json(void **state) {
    (void)state;
    const wisp_session_options options = {.trace = true};
    const wisp_text text = wisp_text_of("the man is eat food");
    if (!enter(&locales[0]))
        return;
    wisp_model *model =
        open_model_or_fail(tiny_model("trace.gguf", "gelu"), WISP_COMPUTE_AUTO, NULL);
    wisp_session *session;
    wisp_error error;
    float row[HIDDEN];
    struct arena arena = {0};
    char *raw;
    const char *path = temporary_path("trace.json");
    assert_int_equal(wisp_session_open(model, &options, &session, &error), WISP_OK);
    embed_or_fail(session, &text, 1, row);
    assert_int_equal(wisp_session_write_trace(session, path, &error), WISP_OK);
    check_events(json_get(read_json_file(path, &arena, &raw), "traceEvents"));
    arena_release(&arena);
    free(raw);
    wisp_session_close(session);
    wisp_model_close(model);
}

static void errors_have_points(void **state) {
    (void)state;
    const wisp_convert_options options = {.sparsity = 1.5f};
    wisp_error error;
    if (!enter(&locales[0]))
        return;
    assert_int_equal(
        wisp_convert(tiny_model("error.gguf", "gelu"), temporary_path("no.gguf"), &options, &error),
        WISP_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "1.5 is not between 0 and 1"));
    wisp_model *model = open_model_or_fail("models/wisp-default.gguf", WISP_COMPUTE_AUTO, NULL);
    wisp_model *tiny = open_model_or_fail(tiny_model("tiny.gguf", "gelu"), WISP_COMPUTE_AUTO, NULL);
    wisp_session *session = open_session_or_fail(model, 1), *small = open_session_or_fail(tiny, 1);
    wisp_index *index;
    assert_int_equal(wisp_index_create(session, HIDDEN, WISP_INDEX_F32, &index, &error), WISP_OK);
    assert_int_equal(wisp_index_check_model(index, small, &error), WISP_ERROR_ARGUMENT);
    const char *found = strstr(error.message, "(cosine ");
    assert_non_null(found);
    assert_null(strchr(found, ','));
    wisp_index_close(index);
    wisp_session_close(session);
    wisp_session_close(small);
    wisp_model_close(model);
    wisp_model_close(tiny);
}

/* A folder's numbers are decimal text, such as layer_norm_eps. */
static void a_folder_is_read_alike(void **state) {
    (void)state;
    const wisp_text text = wisp_text_of("the man is eat food");
    struct folder folder;
    float before[HIDDEN], after[HIDDEN];
    folder_make(&folder, &tiny_shape);
    folder_replace(&folder, "config.json", "\"layer_norm_eps\":1e-05", "\"layer_norm_eps\":0.5");
    folder_write(&folder, temporary_path("folder"));
    folder_release(&folder);
    char path[512];
    snprintf(path, sizeof path, "%s", temporary_path("folder"));
    for (int i = 0; i < 2; i++) {
        if (i == 1 && !enter(&locales[0]))
            return;
        wisp_model *model = open_model_or_fail(path, WISP_COMPUTE_F32, NULL);
        wisp_session *session = open_session_or_fail(model, 1);
        embed_or_fail(session, &text, 1, i ? after : before);
        wisp_session_close(session);
        wisp_model_close(model);
    }
    assert_memory_equal(before, after, tiny_shape.hidden * sizeof *before);
}

/* ---- JSON for JavaScript -------------------------------------------------------------------- */

static const wisp_text prompt = {"ab", 2};

/* Appends a part of a description (js/engine/text-engine.js). */
static void put_part(struct bytes *description, uint32_t part, const void *bytes, uint32_t length) {
    bytes_put(description, &part, sizeof part);
    bytes_put(description, &length, sizeof length);
    bytes_put(description, bytes, length);
}

static void put_number(struct bytes *description, const char *name, double number) {
    char bytes[32];
    memcpy(bytes, &number, sizeof number);
    memcpy(bytes + sizeof number, name, strlen(name));
    put_part(description, 1, bytes, (uint32_t)(sizeof number + strlen(name)));
}

/* Parses what the engine has written for JavaScript. */
static const struct json *read_engine_text(const struct engine *engine, struct arena *arena) {
    const char *text = engine_text(engine);
    const struct json *root;
    wisp_error error;
    if (json_parse(arena, text, strlen(text), "text", &root, &error) != WISP_OK)
        fail_msg("%s: %s", error.message, text);
    return root;
}

static void check_writing(struct engine *engine) {
    struct bytes description = {0};
    struct writing *writing = writing_new(engine);
    struct arena arena = {0};
    double seconds = -1, logprob = 1;
    put_part(&description, 0, "", 0);
    put_number(&description, "max_tokens", 2);
    put_number(&description, "logprobs", 2);
    put_part(&description, 8, prompt.bytes, (uint32_t)prompt.length);
    assert_int_equal(writing_open(writing, (const char *)description.data, description.size, 1),
                     WISP_OK);
    assert_int_equal(writing_run(writing, 1e6), WISP_OK);
    const struct json *root = read_engine_text(engine, &arena);
    const struct json *piece = json_get(root, "pieces")->first;
    assert_true(json_to_double(json_get(json_get(root, "results")->first, "seconds"), &seconds));
    assert_true(seconds >= 0);
    assert_true(json_to_double(json_get(piece, "logprob"), &logprob) && logprob < 0);
    assert_true(json_to_double(json_get(json_get(piece, "likely")->first, "logprob"), &logprob));
    arena_release(&arena);
    writing_free(writing);
    bytes_release(&description);
}

static void check_search(struct engine *engine) {
    struct search *search = search_new(engine);
    struct arena arena = {0};
    double score = 1;
    assert_int_equal(search_open(search, prompt.bytes, prompt.length, 2, 2, 1, NULL, 0), WISP_OK);
    assert_int_equal(search_run(search, 1e6), WISP_OK);
    const struct json *found = json_get(read_engine_text(engine, &arena), "found")->first;
    assert_true(json_to_double(json_get(found, "score"), &score) && score < 0);
    arena_release(&arena);
    search_free(search);
}

static void texts_for_javascript_have_points(void **state) {
    (void)state;
    struct gguf file;
    struct opened_decoder decoder;
    wisp_error error;
    decoder_make(&file, &tiny_decoders[0]);
    assert_int_equal(decoder_open(&file, &decoder, &error), WISP_OK);
    struct engine *engine = engine_new();
    engine->model = decoder.model;
    assert_int_equal(engine_open_session(engine), WISP_OK);
    if (enter(&locales[0])) {
        check_writing(engine);
        check_search(engine);
    }
    decoder.model = NULL; /* the engine closes it */
    engine_free(engine);
    decoder_release(&decoder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(numbers_have_points, leave),
        cmocka_unit_test(floats_are_printfs),
        cmocka_unit_test_teardown(metadata_has_points, leave),
        cmocka_unit_test_teardown(a_trace_is_json, leave),
        cmocka_unit_test_teardown(errors_have_points, leave),
        cmocka_unit_test_teardown(a_folder_is_read_alike, leave),
        cmocka_unit_test_teardown(texts_for_javascript_have_points, leave),
    };
    return cmocka_run_group_tests_name("locale", tests, NULL, tear_down_temporary_folder);
}
