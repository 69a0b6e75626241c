/* SPDX-License-Identifier: Apache-2.0
 * Codecs of all kinds: the tokens that end a text, and typed errors for malformed metadata. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include "support/codec_fixture.h"

#undef fail /* cmocka has one of its own */
#include <cmocka.h>

/* Control tokens of known names end a text, beside those that the file names. */
static void test_ends(void **state) {
    static const char *const names[] = {"<|im_end|>",      "<|eot_id|>",    "<|eom_id|>",
                                        "<|end_of_text|>", "<|endoftext|>", "<end_of_turn>"};
    enum { NAMES = sizeof names / sizeof *names };
    static const int32_t listed[] = {S_HE, S_LL};
    struct codec_fixture f;
    (void)state;
    fixture_of_spm(&f);
    for (size_t i = 0; i < NAMES; i++)
        fixture_add_token(&f, names[i], 3);
    fixture_add_token(&f, "<|im_start|>", 3);
    fixture_put_again(&f);
    fixture_entry(&f, "tokenizer.ggml.eos_token_id")->as.u = S_H;
    fixture_put_u32(&f, "tokenizer.ggml.eot_token_id", S_E);
    fixture_put_u32(&f, "tokenizer.ggml.eom_token_id", S_L);
    fixture_put_array(&f, "wisp.tokenizer.end_tokens", VALUE_I32, listed, 2);
    fixture_must_open(&f);
    for (int32_t id = 0; id < (int32_t)codec_vocabulary_size(f.codec); id++) {
        const bool named = id == S_H || id == S_E || id == S_L || id == S_HE || id == S_LL;
        const bool known = id == EOS || (id >= SPM_TOKENS && id < SPM_TOKENS + NAMES);
        assert_int_equal(codec_is_end(f.codec, id), named || known);
    }
    fixture_tear_down(&f);
    fixture_of_spm(&f);
    fixture_add_token(&f, "<|im_end|>", 1); /* which texts may be made of */
    fixture_put_again(&f);
    fixture_must_open(&f);
    assert_false(codec_is_end(f.codec, SPM_TOKENS));
    fixture_tear_down(&f);
}

/* ---- malformed metadata --------------------------------------------------------------------- */

static void spoil_model(struct codec_fixture *f) {
    fixture_entry(f, "tokenizer.ggml.model")->as.text = wisp_text_of("bert");
}

static void spoil_no_tokens(struct codec_fixture *f) {
    fixture_entry(f, "tokenizer.ggml.tokens")->key = "other";
}

static void spoil_few_types(struct codec_fixture *f) {
    fixture_entry(f, "tokenizer.ggml.token_type")->count--;
}

static void spoil_type(struct codec_fixture *f) {
    f->types[300 % f->count] = 7;
}

static void spoil_twin(struct codec_fixture *f) {
    f->tokens[262] = f->tokens[261];
}

static void spoil_bos(struct codec_fixture *f) {
    fixture_entry(f, "tokenizer.ggml.bos_token_id")->as.u = f->count;
}

static void spoil_add_bos(struct codec_fixture *f) {
    fixture_put_u32(f, "tokenizer.ggml.add_bos_token", 1);
}

static void spoil_no_pre(struct codec_fixture *f) {
    fixture_entry(f, "tokenizer.ggml.pre")->key = "other";
}

static void spoil_pre(struct codec_fixture *f) {
    fixture_entry(f, "tokenizer.ggml.pre")->as.text = wisp_text_of("new-bpe");
}

static void spoil_prefix(struct codec_fixture *f) {
    fixture_put_bool(f, "tokenizer.ggml.add_space_prefix", true);
}

static void spoil_byte_type(struct codec_fixture *f) {
    f->types[HELLO] = 6;
}

static void spoil_no_merges(struct codec_fixture *f) {
    fixture_entry(f, "tokenizer.ggml.merges")->key = "other";
}

static void spoil_merges_type(struct codec_fixture *f) {
    *fixture_entry(f, "tokenizer.ggml.merges") = (struct metadata){.key = "tokenizer.ggml.merges",
                                                                   .type = VALUE_ARRAY,
                                                                   .element = VALUE_I32,
                                                                   .count = f->count,
                                                                   .as.numbers = f->types};
}

static void spoil_single(struct codec_fixture *f) {
    f->merges[3] = wisp_text_of("hello");
}

static void spoil_empty(struct codec_fixture *f) {
    f->merges[3] = wisp_text_of("");
}

static void spoil_triple(struct codec_fixture *f) {
    f->merges[3] = wisp_text_of("he l lo");
}

static void spoil_half(struct codec_fixture *f) {
    f->merges[3] = wisp_text_of("he ");
}

static void spoil_first(struct codec_fixture *f) {
    f->merges[3] = wisp_text_of("hx llo");
}

static void spoil_second(struct codec_fixture *f) {
    f->merges[3] = wisp_text_of("he lxo");
}

static void spoil_alphabet(struct codec_fixture *f) {
    f->merges[3] = wisp_text_of("he \u65e5");
}

static void spoil_result(struct codec_fixture *f) {
    f->merges[3] = wisp_text_of("ll he");
}

static void spoil_long(struct codec_fixture *f) {
    static char text[3000];
    memset(text, 'h', sizeof text);
    text[1500] = ' ';
    f->merges[3] = (wisp_text){text, sizeof text};
}

static void spoil_repeated(struct codec_fixture *f) {
    f->merges[3] = f->merges[1];
}

static void spoil_user_defined(struct codec_fixture *f) {
    f->tokens[TOOL_X] = f->tokens[TOOL];
}

static void spoil_long_user_defined(struct codec_fixture *f) {
    static char text[257];
    memset(text, 'x', sizeof text);
    f->tokens[TOOL] = (wisp_text){text, sizeof text};
}

static void spoil_no_scores(struct codec_fixture *f) {
    fixture_entry(f, "tokenizer.ggml.scores")->key = "other";
}

static void spoil_few_scores(struct codec_fixture *f) {
    fixture_entry(f, "tokenizer.ggml.scores")->count--;
}

static void spoil_score(struct codec_fixture *f) {
    f->scores[7] = NAN;
}

static void spoil_byte_spelling(struct codec_fixture *f) {
    f->tokens[BYTE_0 + 10] = wisp_text_of("<0x0a>");
}

static void spoil_byte_token(struct codec_fixture *f) {
    f->types[BYTE_0 + 10] = 5;
}

static void spoil_prefix_name(struct codec_fixture *f) {
    fixture_put_text(f, "wisp.tokenizer.space_prefix", "last");
}

static void spoil_charsmap_type(struct codec_fixture *f) {
    fixture_put_array(f, "tokenizer.ggml.precompiled_charsmap", VALUE_I32, f->types, 4);
}

static void spoil_charsmap_size(struct codec_fixture *f) {
    fixture_put_array(f, "tokenizer.ggml.precompiled_charsmap", VALUE_U8, "\x08\0\0\0\0\0\0\0", 9);
}

static void spoil_charsmap_end(struct codec_fixture *f) {
    fixture_put_array(f, "tokenizer.ggml.precompiled_charsmap", VALUE_U8, "\x04\0\0\0\0\0\0\0x", 9);
}

static void spoil_charsmap_text(struct codec_fixture *f) {
    static unsigned char map[9 + 300] = {4};
    memset(map + 8, 'x', 300);
    fixture_put_array(f, "tokenizer.ggml.precompiled_charsmap", VALUE_U8, map, sizeof map);
}

static void spoil_ends(struct codec_fixture *f) {
    static const int32_t ids[] = {1, MAX_TOKENS};
    fixture_put_array(f, "wisp.tokenizer.end_tokens", VALUE_I32, ids, 2);
}

static void spoil_ends_type(struct codec_fixture *f) {
    fixture_put_text(f, "wisp.tokenizer.end_tokens", "1");
}

static void spoil_eom(struct codec_fixture *f) {
    fixture_put_u32(f, "tokenizer.ggml.eom_token_id", MAX_TOKENS);
}

static void spoil_flags(struct codec_fixture *f) {
    fixture_put_array(f, "wisp.tokenizer.added_tokens", VALUE_I32, f->types, 2);
    fixture_put_array(f, "wisp.tokenizer.added_flags", VALUE_U8, "\1\20", 2);
}

static void spoil_few_flags(struct codec_fixture *f) {
    fixture_put_array(f, "wisp.tokenizer.added_tokens", VALUE_I32, f->types, 2);
    fixture_put_array(f, "wisp.tokenizer.added_flags", VALUE_U8, "\1", 1);
}

static void spoil_added(struct codec_fixture *f) {
    static const int32_t ids[] = {-1};
    fixture_put_array(f, "wisp.tokenizer.added_tokens", VALUE_I32, ids, 1);
    fixture_put_array(f, "wisp.tokenizer.added_flags", VALUE_U8, "\1", 1);
}

static void spoil_all_pieces(struct codec_fixture *f) {
    for (size_t i = 0; i < f->count; i++)
        f->types[i] = f->types[i] == 1 ? 5 : f->types[i];
}

static void spoil_long_piece(struct codec_fixture *f) {
    static char text[513];
    memset(text, 'x', sizeof text);
    f->tokens[S_ABC] = (wisp_text){text, sizeof text};
}

static void spoil_merge(struct codec_fixture *f) {
    static const wisp_text merges[] = {{"h l", 3}};
    assert_int_equal(directory_put_texts(&f->dir, "tokenizer.ggml.merges", merges, 1, &f->error),
                     WISP_OK);
}

struct fault {
    void (*spoil)(struct codec_fixture *f);
    wisp_status status;
    const char *field, *says;
};

static void check_fault(struct codec_fixture *f, const struct fault *fault) {
    fault->spoil(f);
    const wisp_status status = fixture_open(f);
    assert_int_equal(status, fault->status);
    assert_null(f->codec);
    assert_string_equal(f->error.file, "test.gguf");
    assert_string_equal(f->error.field, fault->field);
    if (!strstr(f->error.message, fault->says))
        fail_msg("\"%s\" does not say \"%s\"", f->error.message, fault->says);
    assert_int_equal(codec_open(&f->dir, &f->codec, NULL), fault->status);
    fixture_tear_down(f);
}

static void test_malformed(void **state) {
    static const char tokens[] = "tokenizer.ggml.tokens", merges[] = "tokenizer.ggml.merges";
    static const char types[] = "tokenizer.ggml.token_type", scores[] = "tokenizer.ggml.scores";
    static const char map[] = "tokenizer.ggml.precompiled_charsmap";
    static const struct fault both[] = {
        {spoil_model, WISP_ERROR_UNSUPPORTED, "tokenizer.ggml.model", "\"bert\""},
        {spoil_no_tokens, WISP_ERROR_NOT_FOUND, tokens, "missing"},
        {spoil_few_types, WISP_ERROR_FORMAT, types, "one for each"},
        {spoil_type, WISP_ERROR_FORMAT, types, "entry "},
        {spoil_twin, WISP_ERROR_FORMAT, tokens, "262"},
        {spoil_bos, WISP_ERROR_FORMAT, "tokenizer.ggml.bos_token_id", "id "},
        {spoil_add_bos, WISP_ERROR_FORMAT, "tokenizer.ggml.add_bos_token", ""},
        {spoil_ends, WISP_ERROR_FORMAT, "wisp.tokenizer.end_tokens", "entry 1"},
        {spoil_ends_type, WISP_ERROR_FORMAT, "wisp.tokenizer.end_tokens", "array"},
        {spoil_eom, WISP_ERROR_FORMAT, "tokenizer.ggml.eom_token_id", "id "},
        {spoil_flags, WISP_ERROR_FORMAT, "wisp.tokenizer.added_flags", "entry 1"},
        {spoil_few_flags, WISP_ERROR_FORMAT, "wisp.tokenizer.added_flags", "one for each"},
        {spoil_added, WISP_ERROR_FORMAT, "wisp.tokenizer.added_tokens", "entry 0"},
    };
    static const struct fault bpe[] = {
        {spoil_no_pre, WISP_ERROR_NOT_FOUND, "tokenizer.ggml.pre", ""},
        {spoil_pre, WISP_ERROR_UNSUPPORTED, "tokenizer.ggml.pre", "\"new-bpe\""},
        {spoil_prefix, WISP_ERROR_UNSUPPORTED, "tokenizer.ggml.add_space_prefix", "space"},
        {spoil_byte_type, WISP_ERROR_FORMAT, tokens, "token 259"},
        {spoil_no_merges, WISP_ERROR_NOT_FOUND, merges, "missing"},
        {spoil_merges_type, WISP_ERROR_FORMAT, merges, "strings"},
        {spoil_single, WISP_ERROR_FORMAT, merges, "entry 3 is not a pair"},
        {spoil_empty, WISP_ERROR_FORMAT, merges, "entry 3 is not a pair"},
        {spoil_triple, WISP_ERROR_FORMAT, merges, "entry 3 is not a pair"},
        {spoil_half, WISP_ERROR_FORMAT, merges, "entry 3 is not a pair"},
        {spoil_first, WISP_ERROR_FORMAT, merges, "first part of entry 3"},
        {spoil_second, WISP_ERROR_FORMAT, merges, "second part of entry 3"},
        {spoil_alphabet, WISP_ERROR_FORMAT, merges, "second part of entry 3"},
        {spoil_long, WISP_ERROR_FORMAT, merges, "first part of entry 3"},
        {spoil_result, WISP_ERROR_FORMAT, merges, "entry 3 make no token"},
        {spoil_repeated, WISP_ERROR_FORMAT, merges, "entry 3 repeats"},
        {spoil_user_defined, WISP_ERROR_FORMAT, tokens, "appears twice"},
        {spoil_long_user_defined, WISP_ERROR_UNSUPPORTED, tokens, "token 269"},
    };
    static const struct fault spm[] = {
        {spoil_no_scores, WISP_ERROR_NOT_FOUND, scores, "floats"},
        {spoil_few_scores, WISP_ERROR_FORMAT, scores, "floats"},
        {spoil_score, WISP_ERROR_FORMAT, scores, "score 7"},
        {spoil_byte_spelling, WISP_ERROR_FORMAT, tokens, "byte token 13"},
        {spoil_byte_token, WISP_ERROR_FORMAT, tokens, "byte 10"},
        {spoil_prefix_name, WISP_ERROR_UNSUPPORTED, "wisp.tokenizer.space_prefix", "last"},
        {spoil_charsmap_type, WISP_ERROR_FORMAT, map, "bytes"},
        {spoil_charsmap_size, WISP_ERROR_FORMAT, map, "8 bytes of a trie"},
        {spoil_charsmap_end, WISP_ERROR_FORMAT, map, "end with a 0"},
        {spoil_charsmap_text, WISP_ERROR_UNSUPPORTED, map, "replacement of 300 bytes"},
        {spoil_merge, WISP_ERROR_FORMAT, merges, "entry 0 make no token"},
    };
    static const struct fault unigram[] = {
        {spoil_no_scores, WISP_ERROR_NOT_FOUND, scores, "floats"},
        {spoil_twin, WISP_ERROR_FORMAT, tokens, "piece 26"},
        {spoil_all_pieces, WISP_ERROR_FORMAT, tokens, "0 pieces"},
        {spoil_long_piece, WISP_ERROR_UNSUPPORTED, tokens, "longer than 512"},
        {spoil_prefix_name, WISP_ERROR_UNSUPPORTED, "wisp.tokenizer.space_prefix", "last"},
    };
    struct codec_fixture f;
    (void)state;
    for (size_t i = 0; i < sizeof both / sizeof *both; i++) {
        fixture_of_bpe(&f, "gpt-2");
        check_fault(&f, &both[i]);
        fixture_of_spm(&f);
        check_fault(&f, &both[i]);
    }
    for (size_t i = 0; i < sizeof bpe / sizeof *bpe; i++) {
        fixture_of_bpe(&f, "llama-bpe");
        check_fault(&f, &bpe[i]);
    }
    for (size_t i = 0; i < sizeof spm / sizeof *spm; i++) {
        fixture_of_spm(&f);
        check_fault(&f, &spm[i]);
    }
    for (size_t i = 0; i < sizeof unigram / sizeof *unigram; i++) {
        fixture_of_unigram(&f);
        check_fault(&f, &unigram[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_malformed),
    };
    return cmocka_run_group_tests_name("codecs", tests, NULL, NULL);
}
