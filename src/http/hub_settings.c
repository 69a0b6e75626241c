/* SPDX-License-Identifier: Apache-2.0 */
#include "http/hub_settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool hub_is_on(const char *variable) {
    static const char *const values[] = {"1", "on", "yes", "true"};
    const char *value = getenv(variable);
    for (size_t i = 0; value && i < 4; i++)
        if (strcasecmp(value, values[i]) == 0)
            return true;
    return false;
}

/* Appends text that is not terminated. Returns false if it does not fit. */
static bool append(char path[PATH_MAX], size_t *used, const char *text, size_t length) {
    if (length >= PATH_MAX - *used)
        return false;
    memcpy(path + *used, text, length);
    path[ *used += length] = '\0';
    return true;
}

/* Writes a path with its variables ($NAME, ${NAME}) and a leading ~ replaced. */
static bool expand(const char *text, char path[PATH_MAX]) {
    const char *home = getenv("HOME");
    size_t used = 0;
    path[0] = '\0';
    if (text[0] == '~' && (text[1] == '/' || text[1] == '\0') && home) {
        if (!append(path, &used, home, strlen(home)))
            return false;
        text++;
    }
    while (*text) {
        static const char letters[] =
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
        char name[128];
        const bool braces = text[0] == '$' && text[1] == '{';
        const char *start = text + (braces ? 2 : 1);
        const size_t length = braces ? strcspn(start, "}") : strspn(start, letters);
        const bool named = text[0] == '$' && length > 0 && length < sizeof name &&
                           (!braces || start[length] == '}');
        snprintf(name, sizeof name, "%.*s", named ? (int)length : 0, start);
        const char *value = named ? getenv(name) : NULL;
        if (!append(path, &used, value ? value : text, value ? strlen(value) : 1))
            return false;
        text = value ? start + length + braces : text + 1;
    }
    return true;
}

/* Returns the value of a variable, or NULL if it is not set or empty. */
static const char *value_of(const char *variable) {
    const char *value = getenv(variable);
    return value && *value ? value : NULL;
}

/* Finds a path: that of the first variable that is set, else `below` of the folder of huggingface.
 */
static wisp_status find_path(const char *const variables[2], const char *below, char path[PATH_MAX],
                             wisp_error *error) {
    static const char *const homes[] = {"HF_HOME", "XDG_CACHE_HOME", "HOME"};
    static const char *const places[] = {"", "/huggingface", "/.cache/huggingface"};
    char text[PATH_MAX];
    for (size_t i = 0; i < 2 && variables[i]; i++) {
        const char *given = value_of(variables[i]);
        if (given && expand(given, path))
            return WISP_OK;
    }
    for (size_t i = 0; i < 3; i++) {
        const char *home = value_of(homes[i]);
        const int length =
            home ? snprintf(text, sizeof text, "%s%s/%s", home, places[i], below) : -1;
        if (length >= 0 && (size_t)length < sizeof text && expand(text, path))
            return WISP_OK;
    }
    return fail(error, WISP_ERROR_ARGUMENT, NULL, "HF_HOME",
                "neither this variable nor HOME says where models of the Hub are kept");
}

wisp_status hub_cache_folder(char path[PATH_MAX], wisp_error *error) {
    static const char *const variables[] = {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"};
    return find_path(variables, "hub", path, error);
}

wisp_status hub_read_token(char token[HUB_TEXT_BYTES], wisp_error *error) {
    static const char *const variables[] = {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"};
    static const char *const of_path[] = {"HF_TOKEN_PATH", NULL};
    char path[PATH_MAX];
    token[0] = '\0';
    if (hub_is_on("HF_HUB_DISABLE_IMPLICIT_TOKEN"))
        return WISP_OK;
    for (size_t i = 0; i < 2 && !token[0]; i++)
        if (getenv(variables[i]))
            snprintf(token, HUB_TEXT_BYTES, "%s", getenv(variables[i]));
    if (!token[0] && find_path(of_path, "token", path, NULL) == WISP_OK) {
        FILE *file = fopen(path, "rb");
        const size_t length = file ? fread(token, 1, HUB_TEXT_BYTES - 1, file) : 0;
        token[length] = '\0';
        if (file)
            fclose(file);
    }
    size_t from = strspn(token, " \t\r\n"), length = strlen(token);
    while (length > from && strchr(" \t\r\n", token[length - 1]))
        token[--length] = '\0';
    memmove(token, token + from, length - from + 1);
    for (const char *c = token; *c; c++)
        if (*c < 0x21 || *c > 0x7e)
            return fail(error, WISP_ERROR_ARGUMENT, NULL, "HF_TOKEN",
                        "has characters that no token has");
    return WISP_OK;
}

wisp_status hub_read_endpoint(char endpoint[HUB_TEXT_BYTES], wisp_error *error) {
    const char *given = getenv("HF_ENDPOINT");
    const int length =
        snprintf(endpoint, HUB_TEXT_BYTES, "%s", given ? given : "https://huggingface.co");
    if (length < 0 || length >= HUB_TEXT_BYTES)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "HF_ENDPOINT", "the address is too long");
    for (size_t end = (size_t)length; end > 0 && endpoint[end - 1] == '/'; end--)
        endpoint[end - 1] = '\0';
    return WISP_OK;
}
