/* SPDX-License-Identifier: Apache-2.0 */
#include "http/hub_names.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/utf8.h"

bool hub_is_name(const char *name) {
    return strncasecmp(name, "hf:", 3) == 0;
}

wisp_status hub_check_path(const char *text, const char *what, wisp_error *error) {
    static const char marks[] = "\\:*?\"<>|";
    bool odd = false;
    for (const char *c = text; *c && !odd;) {
        uint32_t character;
        c += utf8_decode(c, strlen(c), &character);
        odd = character == UTF8_INVALID || character < 0x20 ||
              (character < 0x80 && strchr(marks, (int)character));
    }
    /* A part of dots alone is the folder itself or the one above it. */
    for (const char *part = text; !odd; part++) {
        const size_t length = strcspn(part, "/");
        odd = strspn(part, ".") == length;
        part += length;
        if (*part == '\0')
            break;
    }
    return odd ? fail(error, WISP_ERROR_ARGUMENT, NULL, what,
                      "'%s' is not the name of a file or revision", text)
               : WISP_OK;
}

static wisp_status copy(char to[HUB_TEXT_BYTES], const char *from, size_t length, const char *what,
                        wisp_error *error) {
    if (length >= HUB_TEXT_BYTES)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, what, "the name is too long");
    memcpy(to, from, length);
    to[length] = '\0';
    return hub_check_path(to, what, error);
}

static int hex_digit(char c) {
    return isdigit((unsigned char)c) ? c - '0' : (c | 0x20) - 'a' + 10;
}

/* Decodes a revision, whose slashes are %2F in an address. */
static void decode(char *text) {
    char *to = text;
    for (const char *from = text; *from; from++) {
        const bool escaped =
            *from == '%' && isxdigit((unsigned char)from[1]) && isxdigit((unsigned char)from[2]);
        *to++ = escaped ? (char)(hex_digit(from[1]) << 4 | hex_digit(from[2])) : *from;
        from += escaped ? 2 : 0;
    }
    *to = '\0';
}

/* Returns how long a revision is: to the next slash, but for those that the Hub itself makes for
 * pull requests and conversions. */
static size_t revision_length(const char *text) {
    static const char *const own[] = {"refs/pr/", "refs/convert/"};
    for (size_t i = 0; i < 2; i++) {
        const size_t length = strlen(own[i]);
        if (strncmp(text, own[i], length) == 0 && text[length] != '/' && text[length] != '\0')
            return length + strcspn(text + length, "/");
    }
    return strcspn(text, "/");
}

wisp_status hub_parse_name(const char *text, struct hub_name *name, wisp_error *error) {
    *name = (struct hub_name){.revision = "main"};
    const char *owner = text + (hub_is_name(text) ? 3 : 0);
    const size_t owner_length = strcspn(owner, "/@");
    const char *slash = owner + owner_length;
    const size_t repo_length = owner_length + 1 + (*slash == '/' ? strcspn(slash + 1, "/@") : 0);
    const char *rest = owner + repo_length;
    if (owner_length == 0 || *slash != '/' || repo_length == owner_length + 1)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "name",
                    "'%s' is not hf:owner/name[@revision][/file]", text);
    TRY(copy(name->repo, owner, repo_length, "name", error));
    if (*rest == '@') {
        const size_t length = revision_length(++rest);
        TRY(copy(name->revision, rest, length, "revision", error));
        decode(name->revision);
        TRY(hub_check_path(name->revision, "revision", error));
        name->has_revision = true;
        rest += length;
    }
    return *rest == '/' ? copy(name->file, rest + 1, strlen(rest + 1), "file", error) : WISP_OK;
}
