/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "attention/attention.h"

/* A part of the text of a choice. */
struct part {
    const char *text;
    size_t length;
};

/* Takes from the beginning of `text` what comes before the first `stop`, and that character. */
static struct part take_part(struct part *text, char stop) {
    const char *end = memchr(text->text, stop, text->length);
    const struct part part = {text->text, end ? (size_t)(end - text->text) : text->length};
    const size_t taken = part.length + (end ? 1 : 0);
    *text = (struct part){text->text + taken, text->length - taken};
    return part;
}

static bool is(struct part part, const char *name) {
    return strlen(name) == part.length && memcmp(part.text, name, part.length) == 0;
}

/* Reads a whole number of at most nine digits. Returns false if it is none. */
static bool read_number(struct part part, size_t *number) {
    *number = 0;
    for (size_t i = 0; i < part.length; i++) {
        if (part.text[i] < '0' || part.text[i] > '9')
            return false;
        *number = *number * 10 + (size_t)(part.text[i] - '0');
    }
    return part.length > 0 && part.length <= 9;
}

static wisp_status find_policy(struct part name, const struct attention_policy **policy,
                               wisp_error *error) {
    char names[128] = "";
    size_t length = 0;
    for (size_t i = 0; (*policy = attention_policies[i]); i++) {
        if (!(*policy)->needs_cache)
            continue;
        if (is(name, (*policy)->name))
            return WISP_OK;
        length += (size_t)snprintf(names + length, sizeof names - length, "%s%s",
                                   length > 0 ? ", " : "", (*policy)->name);
    }
    return fail(error, WISP_ERROR_ARGUMENT, NULL, "attention",
                "\"%.*s\" is not one of the policies %s", (int)name.length, name.text, names);
}

/* The numbers that policies take. */
static const struct {
    const char *name;
    unsigned bit;
    size_t most, field;
} settings[] = {
#define FIELD(name) offsetof(struct attention_settings, name)
    {"window", ATTENTION_TAKES_WINDOW, SIZE_MAX, FIELD(window)},
    {"sinks", ATTENTION_TAKES_SINKS, SIZE_MAX, FIELD(sinks)},
    {"stride", ATTENTION_TAKES_STRIDE, SIZE_MAX, FIELD(stride)},
    {"tokens", ATTENTION_TAKES_TOKENS, SIZE_MAX, FIELD(tokens)},
    {"mass", ATTENTION_TAKES_MASS, 1000, FIELD(mass)},
    {"budget", ATTENTION_TAKES_BUDGET, 100, FIELD(budget)},
    {"vertical", ATTENTION_TAKES_BUDGET, SIZE_MAX, FIELD(vertical)},
    {"slash", ATTENTION_TAKES_BUDGET, SIZE_MAX, FIELD(slash)},
#undef FIELD
};

static wisp_status read_setting(struct part text, const struct attention_policy *policy,
                                struct attention_settings *set, wisp_error *error) {
    const char *value = memchr(text.text, '=', text.length);
    const struct part name = {text.text, value ? (size_t)(value - text.text) : text.length};
    const struct part digits = {value ? value + 1 : text.text,
                                value ? text.length - name.length - 1 : 0};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        size_t number, least;
        if (!is(name, settings[i].name) || !(policy->settings & settings[i].bit))
            continue;
        memcpy(&least, (const char *)&policy->least + settings[i].field, sizeof least);
        if (!read_number(digits, &number) || number < least)
            return fail(error, WISP_ERROR_ARGUMENT, NULL, "attention",
                        "%s of %s is \"%.*s\", and must be a whole number of at least %zu",
                        settings[i].name, policy->name, (int)digits.length, digits.text, least);
        if (number > settings[i].most)
            return fail(error, WISP_ERROR_ARGUMENT, NULL, "attention",
                        "%s of %s is %zu, and must be at most %zu", settings[i].name, policy->name,
                        number, settings[i].most);
        memcpy((char *)set + settings[i].field, &number, sizeof number);
        return WISP_OK;
    }
    return fail(error, WISP_ERROR_ARGUMENT, NULL, "attention", "%s takes no \"%.*s\"", policy->name,
                (int)name.length, name.text);
}

/* Reads POLICY[,NAME=NUMBER]... */
static wisp_status read_policy(struct part text, const struct attention_policy **policy,
                               struct attention_settings *set, wisp_error *error) {
    TRY(find_policy(take_part(&text, ','), policy, error));
    *set = (*policy)->defaults;
    while (text.length > 0)
        TRY(read_setting(take_part(&text, ','), *policy, set, error));
    return WISP_OK;
}

/* Checks that a policy computes the calls for which it was chosen. */
static wisp_status check_calls(const struct attention_choice *choice, wisp_error *error) {
    if (choice->prefill->only_decode)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "attention",
                    "%s is for adding one token at a time, and another policy must read prompts, "
                    "as in \"full/%s\"",
                    choice->prefill->name, choice->prefill->name);
    if (choice->decode->only_prefill)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "attention",
                    "%s is for reading prompts, and another policy must add one token at a time, "
                    "as in \"%s/full\"",
                    choice->decode->name, choice->decode->name);
    return WISP_OK;
}

wisp_status attention_choose(const char *text, struct attention_choice *choice, wisp_error *error) {
    struct part decode = {text, strlen(text)};
    const struct part prefill = take_part(&decode, '/');
    TRY(read_policy(prefill, &choice->prefill, &choice->prefill_settings, error));
    choice->decode = choice->prefill;
    choice->decode_settings = choice->prefill_settings;
    if (prefill.length < strlen(text))
        TRY(read_policy(decode, &choice->decode, &choice->decode_settings, error));
    return check_calls(choice, error);
}

wisp_status attention_from_text(const struct directory *dir, size_t layers, size_t kv_heads,
                                const char *text, struct attention_choice *choice,
                                wisp_error *error) {
    (void)dir, (void)layers, (void)kv_heads;
    return attention_choose(text, choice, error);
}
