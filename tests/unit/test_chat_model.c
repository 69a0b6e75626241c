/* SPDX-License-Identifier: Apache-2.0
 * Tests conversations with a model: what a session computes again, and models that do not chat. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include "support/golden.h"
#include "wisp.h"

#undef fail /* base/status.h has a macro of that name */
#include <cmocka.h>

enum { TEXT_BYTES = 4096 };

static wisp_message message(wisp_role role, const char *content) {
    return (wisp_message){role, wisp_text_of(content)};
}

struct reply {
    char text[TEXT_BYTES];
    size_t length;
};

static bool take_piece(void *context, const wisp_piece *piece) {
    struct reply *reply = context;
    assert_true(reply->length + piece->text.length < TEXT_BYTES);
    if (piece->text.length > 0)
        memcpy(reply->text + reply->length, piece->text.bytes, piece->text.length);
    reply->length += piece->text.length;
    return true;
}

static void conversations_reuse_what_was_said(void **state) {
    wisp_model *model = open_model_or_fail("models/wisp-stories.gguf", WISP_COMPUTE_AUTO, NULL);
    struct reply reply = {.length = 0}, again = {.length = 0};
    wisp_session *session;
    wisp_generation result;
    wisp_error error;
    wisp_text source;
    int32_t ids[256];
    size_t count, first;
    (void)state;
    assert_int_equal(wisp_session_open(model, NULL, &session, &error), WISP_OK);
    assert_int_equal(wisp_model_chat_template(model, &source, &error), WISP_ERROR_NOT_FOUND);
    assert_string_equal(error.field, "tokenizer.chat_template");

    wisp_message messages[3] = {message(WISP_ROLE_USER, "Once upon a time")};
    wisp_conversation conversation = {.messages = messages, .n = 1, .format = "plain"};
    wisp_generate_options options = {.max_tokens = 30, .piece = take_piece, .context = &reply};
    assert_int_equal(wisp_chat(session, &conversation, &options, &result, &error), WISP_OK);
    assert_int_equal(result.reused_tokens, 0);
    assert_memory_equal(reply.text, ", there was a little girl named Lily", 36);
    first = result.prompt_tokens + result.tokens;

    messages[1] = (wisp_message){WISP_ROLE_ASSISTANT, {reply.text, reply.length}};
    messages[2] = message(WISP_ROLE_USER, "One day");
    conversation.n = 3;
    options.context = &again;
    assert_int_equal(wisp_chat(session, &conversation, &options, &result, &error), WISP_OK);
    assert_true(result.reused_tokens + 1 >= first && again.length > 0);

    /* The prompt is that of wisp_chat_tokenize, which gives few ids if there is little room. */
    assert_int_equal(wisp_chat_tokenize(model, &conversation, ids, 256, &count, &error), WISP_OK);
    assert_int_equal(count, result.prompt_tokens);
    int32_t few[2] = {-1, -1};
    assert_int_equal(wisp_chat_tokenize(model, &conversation, few, 1, &count, &error), WISP_OK);
    assert_int_equal(count, result.prompt_tokens);
    assert_true(few[0] == ids[0] && few[1] == -1);

    assert_int_equal(wisp_chat(session, NULL, NULL, NULL, &error), WISP_ERROR_ARGUMENT);
    assert_int_equal(wisp_chat(NULL, &conversation, NULL, NULL, &error), WISP_ERROR_ARGUMENT);
    assert_int_equal(wisp_chat_tokenize(model, &conversation, NULL, 1, &count, &error),
                     WISP_ERROR_ARGUMENT);
    wisp_session_close(session);
    wisp_model_close(model);
}

static void encoders_do_not_chat(void **state) {
    wisp_model *model = open_model_or_fail("models/wisp-default.gguf", WISP_COMPUTE_AUTO, NULL);
    const wisp_message hello = message(WISP_ROLE_USER, "a");
    const wisp_conversation conversation = {.messages = &hello, .n = 1, .format = "plain"};
    wisp_error error;
    wisp_text source;
    size_t count;
    (void)state;
    assert_int_equal(wisp_model_chat_template(model, &source, &error), WISP_ERROR_UNSUPPORTED);
    assert_int_equal(wisp_chat_tokenize(model, &conversation, NULL, 0, &count, &error),
                     WISP_ERROR_UNSUPPORTED);
    assert_string_equal(error.field, "general.architecture");
    wisp_model_close(model);
}

static void roles_have_names(void **state) {
    wisp_role role;
    (void)state;
    assert_string_equal(wisp_role_name(WISP_ROLE_ASSISTANT), "assistant");
    assert_null(wisp_role_name(3));
    assert_true(wisp_role_find("system", &role) && role == WISP_ROLE_SYSTEM);
    assert_false(wisp_role_find("tool", &role) || wisp_role_find(NULL, &role));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conversations_reuse_what_was_said),
        cmocka_unit_test(encoders_do_not_chat),
        cmocka_unit_test(roles_have_names),
    };
    return cmocka_run_group_tests_name("chat_model", tests, NULL, NULL);
}
