/* SPDX-License-Identifier: Apache-2.0
 * The description of texts that js/engine/text-engine.js writes: its numbers have their low byte
 * first, on machines of either order. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include "binding/generate/text.h"
#include "support/decoders.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

/* The token "c" of a tiny decoder (support/decoders.c), and "d" behind it. */
enum { LETTER_C = 261, LETTER_D };

/* Parts of a description: a number, the number of its bytes, and these. */
#define PART(number, size) number, 0, 0, 0, size, 0, 0, 0
#define TEXT_PART PART(0, 0)
#define THREE_TOKENS                                                                               \
    PART(1, 18), 0, 0, 0, 0, 0, 0, 0x08, 0x40, 'm', 'a', 'x', '_', 't', 'o', 'k', 'e', 'n', 's'
/* Adds 1000 to the logit of a letter. */
#define BIAS_TO(letter) PART(4, 8), letter & 255, letter >> 8, 0, 0, 0, 0, 0x7a, 0x44
#define STOP_AT(letter) PART(3, 4), letter & 255, letter >> 8, 0, 0
#define PROMPT_A PART(8, 1), 'a'

struct opened {
    struct engine *engine;
    struct opened_decoder decoder;
};

static int open_engine(void **state) {
    static struct opened opened;
    struct gguf file;
    wisp_error error;
    decoder_make(&file, &tiny_decoders[0]);
    assert_int_equal(decoder_open(&file, &opened.decoder, &error), WISP_OK);
    opened.engine = engine_new();
    assert_non_null(opened.engine);
    opened.engine->model = opened.decoder.model;
    assert_int_equal(engine_open_session(opened.engine), WISP_OK);
    *state = &opened;
    return 0;
}

static int close_engine(void **state) {
    struct opened *opened = *state;
    engine_free(opened->engine);
    opened->decoder.model = NULL;
    decoder_release(&opened->decoder);
    return 0;
}

/* Writes the text of a description and checks how it ends, and its number of tokens. */
static void expect_end(struct engine *engine, const unsigned char *description, size_t length,
                       const char *end, const char *tokens) {
    struct writing *writing = writing_new(engine);
    assert_non_null(writing);
    if (writing_open(writing, (const char *)description, length, 0) != WISP_OK)
        fail_msg("%s: %s", engine->error.field, engine->error.message);
    while (!writing_ended(writing))
        assert_int_equal(writing_run(writing, 1), WISP_OK);
    const char *found = engine_text(engine);
    if (!strstr(found, end) || !strstr(found, tokens))
        fail_msg("%s", found);
    writing_free(writing);
}

static void numbers_have_their_low_byte_first(void **state) {
    const struct opened *opened = *state;
    static const unsigned char three[] = {TEXT_PART, THREE_TOKENS, BIAS_TO(LETTER_C), PROMPT_A};
    static const unsigned char none[] = {TEXT_PART, THREE_TOKENS, BIAS_TO(LETTER_C),
                                         STOP_AT(LETTER_C), PROMPT_A};
    static const unsigned char other[] = {TEXT_PART, THREE_TOKENS, BIAS_TO(LETTER_D),
                                          STOP_AT(LETTER_C), PROMPT_A};
    expect_end(opened->engine, three, sizeof three, "\"end\":\"length\"", "\"tokens\":3,");
    expect_end(opened->engine, none, sizeof none, "\"end\":\"token\"", "\"tokens\":");
    expect_end(opened->engine, other, sizeof other, "\"end\":\"length\"", "\"tokens\":3,");
}

static void what_is_no_description_is_an_error(void **state) {
    const struct opened *opened = *state;
    static const unsigned char whole[] = {TEXT_PART, THREE_TOKENS, PROMPT_A};
    static const unsigned char unknown[] = {TEXT_PART, PART(9, 0)};
    static const unsigned char without_text[] = {PROMPT_A};
    for (size_t length = 0; length < sizeof whole; length++) {
        struct writing *writing = writing_new(opened->engine);
        const wisp_status status = writing_open(writing, (const char *)whole, length, 0);
        /* Two prefixes end with a part: a text without options, and one without a prompt. */
        const bool ends = length == 8 || length == sizeof whole - 9;
        assert_int_equal(status == WISP_OK, ends);
        if (!ends)
            assert_string_equal(opened->engine->error.field, "texts");
        writing_free(writing);
    }
    struct writing *writing = writing_new(opened->engine);
    assert_int_equal(writing_open(writing, (const char *)unknown, sizeof unknown, 0),
                     WISP_ERROR_ARGUMENT);
    writing_free(writing);
    writing = writing_new(opened->engine);
    assert_int_equal(writing_open(writing, (const char *)without_text, sizeof without_text, 0),
                     WISP_ERROR_ARGUMENT);
    writing_free(writing);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(numbers_have_their_low_byte_first, open_engine,
                                        close_engine),
        cmocka_unit_test_setup_teardown(what_is_no_description_is_an_error, open_engine,
                                        close_engine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
