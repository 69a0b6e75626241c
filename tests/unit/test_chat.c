/* SPDX-License-Identifier: Apache-2.0
 * Chat templates: what conversations become, that contents forge no marks, and typed errors.
 * tests/oracle/chat.py compares ids with transformers', tests/oracle/jinja.py texts with jinja2's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "chat/chat.h"
#include "support/allocations.h"
#include "support/codec_fixture.h"
#include "support/golden.h"
#include "support/rng.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

/* ---- a vocabulary of bytes and marks -------------------------------------------------------- */

static const char *const marks[] = {"<s>",
                                    "</s>",
                                    "[INST]",
                                    "[/INST]",
                                    "<|im_start|>",
                                    "<|im_end|>",
                                    "<bos>",
                                    "<start_of_turn>",
                                    "<end_of_turn>",
                                    "<|begin_of_text|>",
                                    "<|start_header_id|>",
                                    "<|end_header_id|>",
                                    "<|eot_id|>",
                                    "<|startoftext|>",
                                    "<|system|>",
                                    "<|user|>",
                                    "<|assistant|>",
                                    "<|end|>"};
enum { MARKS = sizeof marks / sizeof *marks, TOKENS = 256 + MARKS, TEXT_BYTES = 4096 };

struct fixture {
    struct directory dir;
    wisp_text tokens[TOKENS];
    int32_t types[TOKENS];
    char spelled[256][8];
    wisp_error error;
    struct codec *codec;
};

/* Opens byte-level BPE without merges: the id of a byte of text is the byte. Marks have the type
 * `type` of GGUF: 3 of control tokens, 4 of user-defined ones. */
static void set_up(struct fixture *f, int32_t type, const char *template, size_t n_marks) {
    uint32_t others = 0x100;
    wisp_error *e = &f->error;
    *f = (struct fixture){.dir.file = "test.gguf"};
    for (uint32_t b = 0; b < 256; b++) {
        const bool printable = (b > 0x20 && b < 0x7F) || (b > 0xA0 && b != 0xAD);
        f->spelled[b][utf8_encode(printable ? b : others++, f->spelled[b])] = 0;
        f->tokens[b] = wisp_text_of(f->spelled[b]);
        f->types[b] = 1;
    }
    for (size_t i = 0; i < n_marks; i++) {
        f->tokens[256 + i] = wisp_text_of(marks[i]);
        f->types[256 + i] = type;
    }
    struct directory *dir = &f->dir;
    const size_t count = 256 + n_marks;
    assert_int_equal(directory_put_text(dir, "tokenizer.ggml.model", wisp_text_of("gpt2"), e), 0);
    assert_int_equal(directory_put_text(dir, "tokenizer.ggml.pre", wisp_text_of("gpt-2"), e), 0);
    assert_int_equal(directory_put_texts(dir, "tokenizer.ggml.tokens", f->tokens, count, e), 0);
    assert_int_equal(
        directory_put_numbers(dir, "tokenizer.ggml.token_type", VALUE_I32, f->types, count, e), 0);
    assert_int_equal(directory_put_texts(dir, "tokenizer.ggml.merges", f->tokens, 0, e), 0);
    assert_int_equal(directory_put_u32(dir, "tokenizer.ggml.bos_token_id", 256, e), 0);
    assert_int_equal(directory_put_u32(dir, "tokenizer.ggml.eos_token_id", 257, e), 0);
    assert_int_equal(directory_put_bool(dir, "tokenizer.ggml.add_bos_token", false, e), 0);
    if (template)
        assert_int_equal(
            directory_put_text(dir, "tokenizer.chat_template", wisp_text_of(template), e), 0);
    assert_int_equal(directory_finish(dir, e), WISP_OK);
    if (codec_open(dir, &f->codec, e) != WISP_OK)
        fail_msg("%s", e->message);
}

static void tear_down(struct fixture *f) {
    codec_close(f->codec);
    directory_release(&f->dir);
}

/* Writes ids as text, with each mark between braces. */
static void show(const struct token_list *list, char *text) {
    size_t length = 0;
    for (size_t i = 0; i < list->count; i++) {
        assert_true(length + 32 < TEXT_BYTES && list->ids[i] < TOKENS);
        if (list->ids[i] < 256)
            text[length++] = (char)list->ids[i];
        else
            length += (size_t)sprintf(text + length, "{%s}", marks[list->ids[i] - 256]);
    }
    text[length] = '\0';
}

static wisp_status encode(struct fixture *f, const wisp_conversation *conversation, char *shown,
                          int32_t *end) {
    struct token_list list = {0};
    const wisp_status status = chat_encode(&f->dir, f->codec, conversation, &list, end, &f->error);
    if (status == WISP_OK)
        show(&list, shown);
    else
        assert_int_equal(list.count, 0);
    free(list.ids);
    return status;
}

static wisp_message message(wisp_role role, const char *content) {
    return (wisp_message){role, wisp_text_of(content)};
}

/* ---- templates ------------------------------------------------------------------------------ */

#define CHATML                                                                                     \
    "{%- for m in messages %}\n{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' " \
    "}}"                                                                                           \
    "\n{%- endfor %}\n{%- if add_generation_prompt %}\n{{- '<|im_start|>assistant\\n' }}\n"        \
    "{%- if enable_thinking is defined and enable_thinking is false %}\n"                          \
    "{{- '<think>\\n\\n</think>\\n\\n' }}\n{%- endif %}\n{%- endif %}\n"

static const char llama3[] =
    "{{ bos_token }}{% for m in messages %}{{ '<|start_header_id|>' ~ m.role ~ "
    "'<|end_header_id|>\n\n' ~ m.content | trim ~ '<|eot_id|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}"
    "{% endif %}";

static const char mistral[] =
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST]{{ m.content }}[/INST]"
    "{% elif m.role == 'assistant' %}{{ m.content + eos_token }}"
    "{% else %}{{ raise_exception('Only users and assistants: ' + m.role) }}{% endif %}{% endfor "
    "%}";

/* The template makes marks of the usual roles' names. */
static const char phi3[] =
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}<|assistant|>";

static void templates_are_followed(void **state) {
    static const struct {
        const char *template, *prompt;
        const char *end;
    } cases[] = {
        {CHATML,
         "{<|im_start|>}user\nHi{<|im_end|>}\n{<|im_start|>}assistant\n Hello.{<|im_end|>}\n"
         "{<|im_start|>}user\nWhy? {<|im_end|>}\n{<|im_start|>}assistant\n",
         "<|im_end|>"},
        {llama3,
         "{<s>}{<|start_header_id|>}user{<|end_header_id|>}\n\nHi{<|eot_id|>}"
         "{<|start_header_id|>}assistant{<|end_header_id|>}\n\nHello.{<|eot_id|>}"
         "{<|start_header_id|>}user{<|end_header_id|>}\n\nWhy?{<|eot_id|>}"
         "{<|start_header_id|>}assistant{<|end_header_id|>}\n\n",
         "<|eot_id|>"},
        {mistral, "{<s>}{[INST]}Hi{[/INST]} Hello.{</s>}{[INST]}Why? {[/INST]}", "</s>"},
        {phi3,
         "{<|user|>}Hi{<|end|>}{<|assistant|>} Hello.{<|end|>}{<|user|>}Why? {<|end|>}"
         "{<|assistant|>}",
         "<|end|>"},
        {"{{ messages | length }}", "3", NULL},
    };
    const wisp_message messages[] = {message(WISP_ROLE_USER, "Hi"),
                                     message(WISP_ROLE_ASSISTANT, " Hello."),
                                     message(WISP_ROLE_USER, "Why? ")};
    const wisp_conversation conversation = {.messages = messages, .n = 3};
    static const char json[] =
        "[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"H\"}, {\"type\": "
        "\"text\", \"text\": \"i\"}]}, {\"content\": \" Hello.\", \"role\": \"assistant\", \"x\": "
        "1}, "
        "{\"role\": \"user\", \"content\": \"Why? \"}]";
    const wisp_conversation same = {.json = wisp_text_of(json)};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture f;
        char shown[TEXT_BYTES];
        int32_t end;
        set_up(&f, 3, cases[i].template, MARKS);
        assert_int_equal(encode(&f, &conversation, shown, &end), WISP_OK);
        assert_string_equal(shown, cases[i].prompt);
        assert_true(cases[i].end ? end >= 256 && strcmp(marks[end - 256], cases[i].end) == 0
                                 : end == -1);
        assert_int_equal(encode(&f, &same, shown, &end), WISP_OK);
        assert_string_equal(shown, cases[i].prompt);
        tear_down(&f);
    }
}

static void variables_reach_the_template(void **state) {
    static const char template[] =
        "{{ tools | tojson }}|{{ documents is none }}|{{ x }}|{{ add_generation_prompt }}|"
        "{{ strftime_now('%d %b %Y') if strftime_now is defined else 'never' }}|{{ bos_token }}";
    static const char tool_template[] = "tools:{{ tools | length }}";
    const wisp_message one = message(WISP_ROLE_USER, "a");
    wisp_conversation conversation = {.messages = &one, .n = 1};
    struct fixture f;
    char shown[TEXT_BYTES];
    int32_t end;
    (void)state;
    set_up(&f, 3, template, MARKS);
    assert_int_equal(encode(&f, &conversation, shown, &end), WISP_OK);
    assert_string_equal(shown, "null|True||True|never|{<s>}");
    conversation.date = "2026-03-05";
    conversation.variables =
        wisp_text_of("{\"tools\": [{\"name\": \"<s>\"}], \"documents\": [], \"x\": 1.50, "
                     "\"add_generation_prompt\": false}");
    assert_int_equal(encode(&f, &conversation, shown, &end), WISP_OK);
    assert_string_equal(shown, "[{\"name\": \"<s>\"}]|False|1.5|False|05 Mar 2026|{<s>}");
    assert_int_equal(directory_put_text(&f.dir, "tokenizer.chat_template.tool_use",
                                        wisp_text_of(tool_template), &f.error),
                     WISP_OK);
    assert_int_equal(directory_finish(&f.dir, &f.error), WISP_OK);
    assert_int_equal(encode(&f, &conversation, shown, &end), WISP_OK);
    assert_string_equal(shown, "tools:1");
    conversation.chat_template = wisp_text_of("own {{ messages[0].content }}");
    assert_int_equal(encode(&f, &conversation, shown, &end), WISP_OK);
    assert_string_equal(shown, "own a");
    tear_down(&f);
}

static void thinking_may_be_turned_off(void **state) {
    const wisp_message one = message(WISP_ROLE_USER, "a");
    wisp_conversation conversation = {.messages = &one, .n = 1, .no_thinking = true};
    struct fixture f;
    char shown[TEXT_BYTES];
    int32_t end;
    (void)state;
    set_up(&f, 3, CHATML, MARKS);
    assert_int_equal(encode(&f, &conversation, shown, &end), WISP_OK);
    assert_string_equal(shown, "{<|im_start|>}user\na{<|im_end|>}\n{<|im_start|>}assistant\n"
                               "<think>\n\n</think>\n\n");
    conversation.format = "chatml";
    assert_int_equal(encode(&f, &conversation, shown, &end), WISP_ERROR_ARGUMENT);
    assert_string_equal(f.error.field, "no_thinking");
    tear_down(&f);
}

static void formats_are_for_files_without_a_template(void **state) {
    const wisp_message messages[] = {
        message(WISP_ROLE_SYSTEM, "Be kind."), message(WISP_ROLE_USER, "Hi"),
        message(WISP_ROLE_ASSISTANT, " Hello."), message(WISP_ROLE_USER, "Why?")};
    wisp_conversation conversation = {.messages = messages, .n = 4, .format = "plain"};
    struct fixture f;
    char shown[TEXT_BYTES];
    int32_t end;
    (void)state;
    set_up(&f, 3, NULL, MARKS);
    assert_int_equal(encode(&f, &conversation, shown, &end), WISP_OK);
    assert_string_equal(shown, "Be kind.\nHi Hello.\nWhy?");
    assert_int_equal(end, -1);
    conversation.format = "chatml";
    conversation.n = 2;
    assert_int_equal(encode(&f, &conversation, shown, &end), WISP_OK);
    assert_string_equal(shown, "{<|im_start|>}system\nBe kind.{<|im_end|>}\n{<|im_start|>}user\nHi"
                               "{<|im_end|>}\n{<|im_start|>}assistant\n");
    assert_string_equal(marks[end - 256], "<|im_end|>");
    assert_string_equal(wisp_chat_format_name(0), "chatml");
    assert_string_equal(wisp_chat_format_name(1), "plain");
    assert_null(wisp_chat_format_name(2));
    tear_down(&f);
}

/* ---- contents are text ---------------------------------------------------------------------- */

static size_t count(const char *shown, const char *mark) {
    char braced[40];
    size_t n = 0;
    snprintf(braced, sizeof braced, "{%s}", mark);
    for (const char *at = shown; (at = strstr(at, braced)); at++)
        n++;
    return n;
}

/* Writes parts of marks, and whole ones. */
static wisp_text forge(struct rng *rng, char bytes[200]) {
    size_t length = 0;
    for (size_t parts = rng_below(rng, 5); parts > 0; parts--) {
        const char *mark = marks[rng_below(rng, MARKS)];
        const size_t all = strlen(mark), n = rng_below(rng, 2) ? all : rng_below(rng, 5);
        memcpy(bytes + length, mark, n < all ? n : all);
        length += n < all ? n : all;
    }
    return (wisp_text){bytes, length};
}

/* Contents spell marks, parts of them, and marks inside others. The vocabulary may even list marks
 * among the tokens that texts are made of: a text then still makes none of them. */
static void contents_forge_no_marks(void **state) {
    static const char *const templates[] = {CHATML, llama3, phi3};
    struct rng rng = {rng_seed()};
    (void)state;
    for (size_t round = 0; round < 6; round++) {
        struct fixture f;
        int32_t end;
        /* Only what is spelled as a control token counts as one if the file says it is a word.
         */
        const int32_t type = round < 3 ? 3 : 4;
        set_up(&f, type, templates[round % 3], MARKS);
        for (size_t i = 0; i < 100; i++) {
            char bytes[4][200], honest[TEXT_BYTES], shown[TEXT_BYTES];
            wisp_message forged[4], good[4];
            for (size_t k = 0; k < 4; k++) {
                const wisp_role role = k % 2 ? WISP_ROLE_ASSISTANT : WISP_ROLE_USER;
                forged[k] = (wisp_message){role, forge(&rng, bytes[k])};
                good[k] = message(role, "x");
            }
            assert_int_equal(
                encode(&f, &(wisp_conversation){.messages = forged, .n = 4}, shown, &end), WISP_OK);
            assert_int_equal(
                encode(&f, &(wisp_conversation){.messages = good, .n = 4}, honest, &end), WISP_OK);
            for (size_t k = 0; k < MARKS; k++)
                if (type == 3 || strncmp(marks[k], "<|", 2) == 0)
                    assert_int_equal(count(honest, marks[k]), count(shown, marks[k]));
        }
        tear_down(&f);
    }
}

/* What comes from a conversation stays text, whatever a template does with it. */
static void given_characters_stay_text(void **state) {
    static const char *const expressions[] = {
        "x",
        "x | upper | lower",
        "x[1:] ~ x[0]",
        "x.split('-') | join",
        "x.replace('-', '')",
        "'%s' % x",
        "'{}'.format(x)",
        "{'k': x} | tojson",
        "[x]",
        "x | trim | list | join",
        "namespace(y=x).y",
        "(x ~ '') * 2",
        "x | e | replace('&lt;', '<')",
        "'<' + x[2:]",
        "x | indent",
        "tools[0]",
        "tools | string",
        "role",
        "messages | map(attribute='content') | join",
        "'<|im_' ~ x[5:]",
    };
    const wisp_message one = message(WISP_ROLE_USER, "<-|im_end|>");
    struct fixture f;
    int32_t end;
    (void)state;
    for (int32_t type = 3; type <= 4; type++) {
        set_up(&f, type, NULL, MARKS);
        for (size_t i = 0; i < sizeof expressions / sizeof *expressions; i++) {
            char template[256], shown[TEXT_BYTES];
            snprintf(template, sizeof template,
                     "<|im_start|>{%% set x = messages[0].content %%}{{ %s }}", expressions[i]);
            const wisp_conversation conversation = {
                .messages = &one,
                .n = 1,
                .chat_template = wisp_text_of(template),
                .variables =
                    wisp_text_of("{\"tools\": [\"<|im_end|>\"], \"role\": \"<|im_end|>\"}")};
            if (encode(&f, &conversation, shown, &end) != WISP_OK)
                fail_msg("%s: %s", template, f.error.message);
            assert_int_equal(count(shown, "<|im_end|>"), 0);
            assert_int_equal(count(shown, "<|im_start|>"), 1);
        }
        tear_down(&f);
    }
}

/* A control token that is a user-defined token, and is found in normalised texts. */
static void normalised_contents_forge_no_marks(void **state) {
    static const int32_t ids[] = {BOS};
    const wisp_message one = message(WISP_ROLE_USER, "xax");
    const wisp_conversation conversation = {.messages = &one, .n = 1, .format = "plain"};
    struct codec_fixture f;
    struct token_list list = {0};
    int32_t end;
    (void)state;
    fixture_of_unigram(&f);
    f.types[BOS] = 4;
    fixture_put_array(&f, "wisp.tokenizer.added_tokens", VALUE_I32, ids, 1);
    fixture_put_array(&f, "wisp.tokenizer.added_flags", VALUE_U8, "\10", 1);
    fixture_put_array(&f, "wisp.tokenizer.end_tokens", VALUE_I32, ids, 1);
    fixture_put_bool(&f, "tokenizer.ggml.add_space_prefix", false);
    fixture_put_charsmap(&f, "<s>");
    if (fixture_open(&f) != WISP_OK)
        fail_msg("%s", f.error.message);
    assert_int_equal(chat_encode(&f.dir, f.codec, &conversation, &list, &end, &f.error),
                     WISP_ERROR_UNSUPPORTED);
    assert_string_equal(f.error.field, "messages");
    assert_int_equal(list.count, 0);
    free(list.ids);
    fixture_tear_down(&f);
}

/* Marks may take the white space beside them, as those of Phi-3 do. */
static void marks_may_strip_white_space(void **state) {
    static const int32_t ids[] = {256 + 17}; /* <|end|> */
    const wisp_message one = message(WISP_ROLE_USER, " a ");
    const wisp_conversation conversation = {
        .messages = &one,
        .n = 1,
        .chat_template = wisp_text_of("<|user|>\n{{ messages[0].content }}<|end|>\n <|end|>\nb")};
    struct fixture f;
    char shown[TEXT_BYTES];
    int32_t end;
    (void)state;
    for (unsigned flags = 0; flags < 8; flags += 2) {
        const uint8_t values[] = {(uint8_t)flags};
        static const char *const prompts[] = {
            "{<|user|>}\n a {<|end|>}\n {<|end|>}\nb", "{<|user|>}\n a{<|end|>}{<|end|>}\nb",
            "{<|user|>}\n a {<|end|>}{<|end|>}b", "{<|user|>}\n a{<|end|>}{<|end|>}b"};
        set_up(&f, 3, NULL, MARKS);
        assert_int_equal(directory_put_numbers(&f.dir, "wisp.tokenizer.added_tokens", VALUE_I32,
                                               ids, 1, &f.error),
                         WISP_OK);
        assert_int_equal(directory_put_numbers(&f.dir, "wisp.tokenizer.added_flags", VALUE_U8,
                                               values, 1, &f.error),
                         WISP_OK);
        assert_int_equal(directory_finish(&f.dir, &f.error), WISP_OK);
        assert_int_equal(encode(&f, &conversation, shown, &end), WISP_OK);
        assert_string_equal(shown, prompts[flags / 2]);
        tear_down(&f);
    }
}

/* ---- errors --------------------------------------------------------------------------------- */

static void check_error(struct fixture *f, const wisp_conversation *conversation,
                        wisp_status status, const char *field, const char *message) {
    char shown[TEXT_BYTES];
    int32_t end;
    assert_int_equal(encode(f, conversation, shown, &end), status);
    assert_string_equal(f->error.field, field);
    if (!strstr(f->error.message, message))
        fail_msg("%s", f->error.message);
}

static void wrong_conversations_are_errors(void **state) {
    static const char own[] = "tokenizer.chat_template";
    const wisp_message user = message(WISP_ROLE_USER, "a"), system = message(WISP_ROLE_SYSTEM, "c"),
                       none = {(wisp_role)7, wisp_text_of("d")},
                       missing = {WISP_ROLE_USER, {NULL, 1}};
    const struct {
        wisp_conversation conversation;
        wisp_status status;
        const char *field, *message;
    } cases[] = {
        {{.messages = &user, .n = 1, .format = "none"},
         WISP_ERROR_ARGUMENT,
         "chat_format",
         "\"none\", only chatml and plain"},
        {{.messages = &user, .n = 1}, WISP_ERROR_NOT_FOUND, own, "--chat-template"},
        {{.n = 0, .format = "plain"}, WISP_ERROR_ARGUMENT, "messages", "there are none"},
        {{.n = 1, .format = "plain"}, WISP_ERROR_ARGUMENT, "messages", ""},
        {{.messages = &none, .n = 1, .format = "plain"},
         WISP_ERROR_ARGUMENT,
         "messages[0].role",
         "invalid wisp_role value 7"},
        {{.messages = &missing, .n = 1, .format = "plain"},
         WISP_ERROR_ARGUMENT,
         "messages[0].content",
         ""},
        {{.json = wisp_text_of("[]"), .format = "plain"}, WISP_ERROR_ARGUMENT, "messages", "none"},
        {{.json = wisp_text_of("{}"), .format = "plain"},
         WISP_ERROR_ARGUMENT,
         "messages",
         "not an array"},
        {{.json = wisp_text_of("[1,"), .format = "plain"},
         WISP_ERROR_ARGUMENT,
         "messages",
         "line 1, column"},
        {{.json = wisp_text_of("[1]"), .format = "plain"},
         WISP_ERROR_ARGUMENT,
         "messages[0]",
         "not an object"},
        {{.json = wisp_text_of("[{\"role\": 1}]"), .format = "plain"},
         WISP_ERROR_ARGUMENT,
         "messages[0].role",
         "not a string"},
        {{.json = wisp_text_of("[{}]"), .messages = &user, .n = 1, .format = "plain"},
         WISP_ERROR_ARGUMENT,
         "messages",
         "as an array and in JSON"},
        {{.messages = &user, .n = 1, .format = "plain", .chat_template = wisp_text_of("x")},
         WISP_ERROR_ARGUMENT,
         "chat_format",
         "only one"},
        {{.messages = &user, .n = 1, .format = "plain", .variables = wisp_text_of("[]")},
         WISP_ERROR_ARGUMENT,
         "variables",
         "not an object"},
        {{.messages = &user,
          .n = 1,
          .format = "plain",
          .variables = wisp_text_of("{\"messages\": 1}")},
         WISP_ERROR_ARGUMENT,
         "variables",
         "not a variable"},
        {{.messages = &user, .n = 1, .format = "plain", .date = "tomorrow"},
         WISP_ERROR_ARGUMENT,
         "date",
         "\"tomorrow\" is not a date"},
        {{.messages = &system, .n = 1, .chat_template = wisp_text_of(mistral)},
         WISP_ERROR_ARGUMENT,
         own,
         "line 1: the template refuses: Only users and assistants: system"},
        {{.messages = &user, .n = 1, .chat_template = wisp_text_of("a\n{% include 'x' %}")},
         WISP_ERROR_UNSUPPORTED,
         own,
         "line 2: the tag 'include'"},
        {{.messages = &user, .n = 1, .chat_template = wisp_text_of("\n\n{{ 1 | nosuch }}")},
         WISP_ERROR_UNSUPPORTED,
         own,
         "line 3: the filter 'nosuch'"},
        {{.messages = &user,
          .n = 1,
          .chat_template = wisp_text_of("{% set l = range(1000000) | list %}"
                                        "{% for i in l %}{{ -1 in l }}{% endfor %}")},
         WISP_ERROR_UNSUPPORTED,
         own,
         "too many steps"},
        {{.messages = &user,
          .n = 1,
          .chat_template = wisp_text_of("{% set s = namespace(x='ab') %}{% for i in range(60) %}"
                                        "{% set s.x = s.x + s.x %}{% endfor %}")},
         WISP_ERROR_UNSUPPORTED,
         own,
         "too much memory"},
        {{.messages = &user,
          .n = 1,
          .chat_template = wisp_text_of("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}")},
         WISP_ERROR_UNSUPPORTED,
         own,
         "nests too deeply"},
    };
    struct fixture f;
    (void)state;
    set_up(&f, 3, NULL, MARKS);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_error(&f, &cases[i].conversation, cases[i].status, cases[i].field, cases[i].message);
    tear_down(&f);
    set_up(&f, 3, NULL, 4); /* without <|im_start|> */
    check_error(&f, &(wisp_conversation){.messages = &user, .n = 1, .format = "chatml"},
                WISP_ERROR_UNSUPPORTED, "tokenizer.ggml.tokens", "needs the token <|im_start|>");
    tear_down(&f);
}

static void memory_may_be_short(void **state) {
    const wisp_conversation conversation = {
        .json = wisp_text_of("[{\"role\": \"user\", \"content\": \"a<|im_end|>\"}]")};
    struct fixture f;
    uint64_t calls = 0;
    (void)state;
    if (!allocations_are_watched())
        return;
    set_up(&f, 4, CHATML, MARKS);
    for (bool failed = true; failed; calls++) {
        struct token_list list = {0};
        int32_t end;
        allocations_watch();
        allocations_fail_after(calls, false);
        const wisp_status status =
            chat_encode(&f.dir, f.codec, &conversation, &list, &end, &f.error);
        failed = allocations_seen().failed;
        allocations_succeed();
        assert_int_equal(status, failed ? WISP_ERROR_MEMORY : WISP_OK);
        assert_true(failed ? list.count == 0 : list.count > 0);
        free(list.ids);
    }
    assert_true(calls > 3);
    tear_down(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_are_followed),
        cmocka_unit_test(variables_reach_the_template),
        cmocka_unit_test(thinking_may_be_turned_off),
        cmocka_unit_test(formats_are_for_files_without_a_template),
        cmocka_unit_test(contents_forge_no_marks),
        cmocka_unit_test(given_characters_stay_text),
        cmocka_unit_test(normalised_contents_forge_no_marks),
        cmocka_unit_test(marks_may_strip_white_space),
        cmocka_unit_test(wrong_conversations_are_errors),
        cmocka_unit_test(memory_may_be_short),
    };
    return cmocka_run_group_tests_name("chat", tests, NULL, NULL);
}
