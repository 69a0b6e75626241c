/* SPDX-License-Identifier: Apache-2.0
 * Token ids to text, with the models that come with wisp: whole characters in any cut of the ids,
 * control tokens, too little room, and errors. tests/oracle/codecs.py compares what codecs decode
 * with Hugging Face's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "support/allocations.h"
#include "support/golden.h"
#include "support/rng.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { IDS = 600, TEXT_BYTES = 4096, BYTE_0 = 3, BOS = 1 };

static wisp_model *stories, *encoder;

static int set_up(void **state) {
    (void)state;
    stories = open_model_or_fail("models/wisp-stories.gguf", WISP_COMPUTE_AUTO, NULL);
    encoder = open_model_or_fail("models/wisp-default.gguf", WISP_COMPUTE_AUTO, NULL);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    wisp_model_close(stories);
    wisp_model_close(encoder);
    return 0;
}

static size_t decode(const wisp_model *model, const int32_t *ids, size_t n, wisp_decoder *decoder,
                     char *text) {
    size_t length;
    wisp_error error;
    if (wisp_detokenize(model, ids, n, decoder, text, TEXT_BYTES - 1, &length, &error) != WISP_OK)
        fail_msg("%s", error.message);
    assert_true(length < TEXT_BYTES);
    text[length] = '\0';
    return length;
}

static size_t encode(const wisp_model *model, const char *text, int32_t *ids) {
    size_t count;
    assert_int_equal(wisp_tokenize(model, wisp_text_of(text), ids, IDS, &count, NULL), WISP_OK);
    assert_true(count <= IDS);
    return count;
}

static bool is_well_formed(const char *text, size_t length) {
    for (size_t at = 0; at < length;) {
        uint32_t c;
        at += utf8_decode(text + at, length - at, &c);
        if (c == UTF8_INVALID)
            return false;
    }
    return true;
}

static void texts_come_back(void **state) {
    static const char *const texts[] = {"", "Once upon a time", " two  spaces ",
                                        "\xC3\xA9 \xE6\x97\xA5\xE6\x9C\xAC \xF0\x9F\x98\x80",
                                        "a\n\tb"};
    int32_t ids[IDS];
    char text[TEXT_BYTES];
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        decode(stories, ids, encode(stories, texts[i], ids), NULL, text);
        assert_string_equal(text, texts[i]);
    }
}

/* Any ids, also those of bytes that make no character, in any cut: each call gives whole
 * characters, and all of them the text of one call. */
static void streams_have_whole_characters(void **state) {
    struct rng rng = {rng_seed()};
    (void)state;
    for (int round = 0; round < 500; round++) {
        int32_t ids[40];
        char whole[TEXT_BYTES], joined[TEXT_BYTES], part[TEXT_BYTES];
        size_t n = rng_below(&rng, 40), length = 0;
        for (size_t i = 0; i < n; i++) {
            static const char bits[] = "\xF0\x9F\x98\x80\xE6\x97\xA5\xC3\xA9\xFF\xED\xA0";
            const size_t kind = rng_below(&rng, 4);
            ids[i] =
                kind == 0 ? (int32_t)rng_below(&rng, 512)
                : kind == 1
                    ? BYTE_0 + (int32_t)rng_below(&rng, 256)
                    : BYTE_0 + (unsigned char)bits[(i + rng_below(&rng, 2)) % (sizeof bits - 1)];
        }
        const bool special = rng_below(&rng, 2) == 0;
        wisp_decoder one = {.special = special}, stream = {.special = special, .more = true};
        const size_t expected = decode(stories, ids, n, &one, whole);
        assert_true(is_well_formed(whole, expected));
        for (size_t at = 0; at < n;) {
            const size_t most = rng_range(&rng, 1, 4), taken = most < n - at ? most : n - at;
            const size_t got = decode(stories, ids + at, taken, &stream, part);
            assert_true(is_well_formed(part, got));
            memcpy(joined + length, part, got);
            length += got;
            at += taken;
        }
        stream.more = false;
        const size_t got = decode(stories, NULL, 0, &stream, part);
        memcpy(joined + length, part, got);
        assert_int_equal(length + got, expected);
        assert_memory_equal(joined, whole, expected);
    }
}

static void characters_wait_for_their_end(void **state) {
    const int32_t ids[] = {BYTE_0 + 0xE6, BYTE_0 + 0x97, BYTE_0 + 0xA5, BYTE_0 + 0xE6,
                           BYTE_0 + 0x97, BYTE_0 + 0xFF, BYTE_0 + 0xC3};
    static const char *const parts[] = {"", "", "\xE6\x97\xA5", "", "", "\xEF\xBF\xBD\xEF\xBF\xBD",
                                        ""};
    wisp_decoder decoder = {.more = true};
    char text[TEXT_BYTES];
    (void)state;
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        decode(stories, &ids[i], 1, &decoder, text);
        assert_string_equal(text, parts[i]);
    }
    decoder.more = false;
    decode(stories, NULL, 0, &decoder, text);
    assert_string_equal(text, "\xEF\xBF\xBD");
}

static void control_tokens_are_shown_or_not(void **state) {
    int32_t ids[IDS];
    char text[TEXT_BYTES];
    (void)state;
    size_t n = encode(stories, "Once", ids);
    ids[n++] = 2;
    assert_int_equal(ids[0], BOS);
    decode(stories, ids, n, NULL, text);
    assert_string_equal(text, "Once");
    decode(stories, ids, n, &(wisp_decoder){.special = true}, text);
    assert_string_equal(text, "<s> Once</s>");
    decode(stories, ids, n, &(wisp_decoder){.begun = true}, text); /* as a text's continuation */
    assert_string_equal(text, " Once");

    n = encode(encoder, "Embeddings \xE2\x98\x83\xE2\x98\x83 caf\xC3\xA9!", ids);
    decode(encoder, ids, n, NULL, text);
    assert_string_equal(text, "embeddings cafe !");
    decode(encoder, ids, n, &(wisp_decoder){.special = true}, text);
    assert_string_equal(text, "[CLS] embeddings [UNK] cafe ! [SEP]");
}

static void spellings_are_those_of_the_vocabulary(void **state) {
    wisp_text spelling;
    (void)state;
    assert_true(wisp_token_spelling(stories, 403, &spelling));
    assert_int_equal(spelling.length, 7);
    assert_memory_equal(spelling.bytes, "\xE2\x96\x81Once", 7);
    assert_true(wisp_token_spelling(encoder, 101, &spelling));
    assert_memory_equal(spelling.bytes, "[CLS]", 5);
    assert_false(wisp_token_spelling(stories, 512, &spelling));
    assert_false(wisp_token_spelling(stories, -1, &spelling));
    assert_false(wisp_token_spelling(NULL, 1, &spelling));
    assert_false(wisp_token_spelling(stories, 1, NULL));
}

static void too_little_room_changes_nothing(void **state) {
    const int32_t ids[] = {BYTE_0 + 0xE6, BYTE_0 + 0x97, BYTE_0 + 0xA5, BYTE_0 + 0xC3};
    wisp_decoder decoder = {.more = true};
    char text[4] = "xyz";
    size_t length;
    (void)state;
    assert_int_equal(wisp_detokenize(stories, ids, 4, &decoder, text, 2, &length, NULL), WISP_OK);
    assert_int_equal(length, 3);
    assert_string_equal(text, "xyz");
    assert_true(decoder.held == 0 && !decoder.begun);
    assert_int_equal(wisp_detokenize(stories, ids, 4, &decoder, text, 3, &length, NULL), WISP_OK);
    assert_memory_equal(text, "\xE6\x97\xA5", 3);
    assert_true(decoder.held == 1 && decoder.begun);
}

static void wrong_calls_are_errors(void **state) {
    wisp_decoder strange = {.held = 5};
    wisp_error error;
    size_t length;
    char text[8];
    (void)state;
    for (int32_t id = -1; id <= 512; id += 513) {
        assert_int_equal(wisp_detokenize(stories, &id, 1, NULL, text, 8, &length, &error),
                         WISP_ERROR_ARGUMENT);
        assert_string_equal(error.field, "ids");
    }
    assert_int_equal(wisp_detokenize(NULL, NULL, 0, NULL, text, 8, &length, &error),
                     WISP_ERROR_ARGUMENT);
    assert_int_equal(wisp_detokenize(stories, NULL, 1, NULL, text, 8, &length, &error),
                     WISP_ERROR_ARGUMENT);
    assert_int_equal(wisp_detokenize(stories, NULL, 0, NULL, NULL, 8, &length, &error),
                     WISP_ERROR_ARGUMENT);
    assert_int_equal(wisp_detokenize(stories, NULL, 0, NULL, text, 8, NULL, &error),
                     WISP_ERROR_ARGUMENT);
    assert_int_equal(wisp_detokenize(stories, NULL, 0, &strange, text, 8, &length, &error),
                     WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "decoder");
}

static void memory_may_be_short(void **state) {
    int32_t ids[IDS];
    char text[TEXT_BYTES];
    const size_t n = encode(stories, "Once upon a time there was", ids);
    uint64_t calls = 0;
    (void)state;
    if (!allocations_are_watched())
        return;
    for (bool failed = true; failed; calls++) {
        size_t length;
        allocations_watch();
        allocations_fail_after(calls, false);
        const wisp_status status =
            wisp_detokenize(stories, ids, n, NULL, text, TEXT_BYTES, &length, NULL);
        failed = allocations_seen().failed;
        allocations_succeed();
        assert_int_equal(status, failed ? WISP_ERROR_MEMORY : WISP_OK);
        assert_int_equal(allocations_seen().live, 0);
    }
    assert_true(calls > 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_come_back),
        cmocka_unit_test(streams_have_whole_characters),
        cmocka_unit_test(characters_wait_for_their_end),
        cmocka_unit_test(control_tokens_are_shown_or_not),
        cmocka_unit_test(spellings_are_those_of_the_vocabulary),
        cmocka_unit_test(too_little_room_changes_nothing),
        cmocka_unit_test(wrong_calls_are_errors),
        cmocka_unit_test(memory_may_be_short),
    };
    return cmocka_run_group_tests_name("detokenize", tests, set_up, tear_down);
}
