/* SPDX-License-Identifier: Apache-2.0 */
#include "quantise/policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/utf8.h"
#include "host/input_file.h"

enum { MOST_BYTES = 1 << 20, FIELD_BYTES = 32 };

static bool is_like(const char *pattern, const char *name) {
    const char *star = NULL, *after = NULL; /* the last "*", and where its characters end */
    while (*name) {
        if (*pattern == '*') {
            star = pattern++;
            after = name;
        } else if (*pattern == *name || *pattern == '?') {
            pattern++;
            name++;
        } else if (star) {
            pattern = star + 1;
            name = ++after;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

static wisp_status fail_line(const struct policy *policy, unsigned number, const char *problem,
                             const char *word, wisp_error *error) {
    char field[FIELD_BYTES];
    snprintf(field, sizeof field, "line %u", number);
    return fail(error, WISP_ERROR_FORMAT, policy->name, field, problem, word);
}

static bool is_pattern(const char *word) {
    const size_t known = strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                      "0123456789._-/*?");
    return word[known] == '\0';
}

static wisp_status read_line(struct policy *policy, char *text, unsigned number,
                             wisp_error *error) {
    char *rest, *comment = strchr(text, '#');
    if (comment)
        *comment = '\0';
    const char *pattern = strtok_r(text, " \t\r", &rest);
    if (!pattern)
        return WISP_OK;
    const char *type = strtok_r(NULL, " \t\r", &rest), *word = strtok_r(NULL, " \t\r", &rest);
    struct policy_line line = {.pattern = pattern, .number = number, .optional = word != NULL};
    if (!is_pattern(pattern))
        return fail_line(
            policy, number,
            "%.64s is not a pattern: letters, digits, \"._-/\", \"*\" and \"?\" make one", pattern,
            error);
    if (!type)
        return fail_line(policy, number, "no type follows the pattern %.64s", pattern, error);
    line.as_asked = strcasecmp(type, "type") == 0;
    if (!line.as_asked && strcasecmp(type, "keep") != 0) {
        line.format = block_format_by_name(type);
        if (!line.format || !line.format->quantise)
            return fail_line(policy, number,
                             "%.32s is not a type that wisp writes, and neither type nor keep",
                             type, error);
    }
    if (word && strcasecmp(word, "optional") != 0)
        return fail_line(policy, number, "%.32s; expected optional", word, error);
    if ((word = strtok_r(NULL, " \t\r", &rest)) != NULL)
        return fail_line(policy, number, "%.32s after the end of the line's words", word, error);
    policy->lines[policy->n++] = line;
    return WISP_OK;
}

/* Splits the text, which may hold no NUL, into lines. */
static wisp_status read_lines(struct policy *policy, size_t length, wisp_error *error) {
    unsigned number = 1;
    size_t lines = 1;
    for (size_t i = 0; i < length; i++) {
        if (policy->text[i] == '\0')
            return fail(error, WISP_ERROR_FORMAT, policy->name, NULL, "not text: byte %zu is 0", i);
        lines += policy->text[i] == '\n';
    }
    policy->lines = calloc(lines, sizeof *policy->lines);
    if (!policy->lines)
        return fail_memory(error, lines * sizeof *policy->lines);
    for (char *line = policy->text, *end; line; line = end, number++) {
        end = strchr(line, '\n');
        if (end)
            *end++ = '\0';
        TRY(read_line(policy, line, number, error));
    }
    if (policy->n == 0)
        return fail(error, WISP_ERROR_FORMAT, policy->name, NULL, "the policy has no lines");
    return WISP_OK;
}

static wisp_status read_file(struct policy *policy, size_t *length, wisp_error *error) {
    struct file_bytes file;
    wisp_status status = WISP_OK;
    TRY(file_read(policy->name, &file, error));
    if (file.size > MOST_BYTES)
        status = fail(error, WISP_ERROR_UNSUPPORTED, policy->name, NULL,
                      "%zu bytes, more than the %d that a policy may have", file.size, MOST_BYTES);
    const size_t mark = utf8_mark((const char *)file.data, file.size);
    *length = file.size - mark;
    if (status == WISP_OK && !(policy->text = calloc(1, *length + 1)))
        status = fail_memory(error, *length + 1);
    if (status == WISP_OK)
        memcpy(policy->text, (const char *)file.data + mark, *length);
    free(file.data);
    return status;
}

wisp_status policy_open(struct policy *policy, const char *name, wisp_error *error) {
    const char *known = wisp_policy_text(name);
    size_t length = known ? strlen(known) : 0;
    *policy = (struct policy){.name = name};
    if (!known)
        TRY(read_file(policy, &length, error));
    else if (!(policy->text = strdup(known)))
        return fail_memory(error, length + 1);
    return read_lines(policy, length, error);
}

wisp_status policy_find(struct policy *policy, const char *tensor, const struct block_format *asked,
                        const struct block_format **format, wisp_error *error) {
    for (size_t i = 0; i < policy->n; i++) {
        if (!is_like(policy->lines[i].pattern, tensor))
            continue;
        policy->lines[i].used = true;
        *format = policy->lines[i].as_asked ? asked : policy->lines[i].format;
        return WISP_OK;
    }
    return fail(error, WISP_ERROR_UNSUPPORTED, policy->name, tensor,
                "no line of the policy is like the name of this matrix; \"* keep\" is like all");
}

wisp_status policy_check_used(const struct policy *policy, wisp_error *error) {
    for (size_t i = 0; i < policy->n; i++)
        if (!policy->lines[i].used && !policy->lines[i].optional)
            return fail_line(policy, policy->lines[i].number,
                             "no matrix takes its type by the pattern %.64s, and the line is not "
                             "marked optional",
                             policy->lines[i].pattern, error);
    return WISP_OK;
}

void policy_release(struct policy *policy) {
    free(policy->text);
    free(policy->lines);
    *policy = (struct policy){0};
}
