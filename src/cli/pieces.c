/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pieces.h"

#include <stdbool.h>
#include <string.h>

#include "base/checked.h"
#include "base/status.h"

/* Bytes a token: of the first guess, and at most. */
enum { FIRST_GUESS = 4, MOST_BYTES = 64 };

/* A text of which as much as possible has to fit into a model behind a prompt. */
struct fitting {
    const wisp_model *model;
    const char *prompt;
    wisp_text text; /* at most this much of it */
    size_t most;    /* tokens */
};

static wisp_status fits(const struct fitting *f, size_t n, bool *good, wisp_error *error) {
    size_t tokens;
    const wisp_status status =
        wisp_count_prompted(f->model, f->prompt, (wisp_text){f->text.bytes, n}, &tokens, error);
    *good = status == WISP_OK && tokens <= f->most;
    return status;
}

/* Returns the last beginning of a character at or before n. */
static size_t whole_characters(const char *text, size_t n) {
    while (n > 0 && ((unsigned char)text[n] & 0xC0) == 0x80)
        n--;
    return n;
}

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Returns the end of the last sentence in the second half of the first n bytes, else of the last
 * word, else n. */
static size_t good_end(const char *text, size_t n) {
    size_t word = 0;
    for (size_t i = n; i > 1; i--) {
        if (!is_space(text[i - 1]))
            continue;
        word = word ? word : i;
        if (i < n / 2)
            break;
        if (strchr(".!?", text[i - 2]) && text[i - 2] != '\0')
            return i;
    }
    return word ? word : n;
}

/* Finds the most bytes of a text that fit, in steps that double and then halve. */
static wisp_status most_bytes(const struct fitting *f, size_t *n, wisp_error *error) {
    const char *text = f->text.bytes;
    const size_t length = f->text.length;
    size_t low = 0, high = f->most * FIRST_GUESS;
    bool good = true;
    while (good) {
        high = whole_characters(text, high < length ? high : length);
        const wisp_status status = fits(f, high, &good, error);
        if (status != WISP_OK)
            return status;
        low = good ? high : low;
        if (good && high == length)
            break;
        high *= good ? 2 : 1;
    }
    while (low < high) {
        const size_t middle = whole_characters(text, low + (high - low) / 2);
        if (middle == low)
            break;
        const wisp_status status = fits(f, middle, &good, error);
        if (status != WISP_OK)
            return status;
        low = good ? middle : low;
        high = good ? high : middle;
    }
    *n = low;
    return WISP_OK;
}

wisp_status piece_length(const wisp_model *model, const char *prompt, wisp_text text,
                         size_t *length, wisp_error *error) {
    wisp_model_info info;
    wisp_model_get_info(model, &info);
    size_t n = smaller(text.length, (size_t)info.max_tokens * MOST_BYTES);
    if (n < text.length)
        n = whole_characters(text.bytes, n);
    const struct fitting f = {model, prompt, {text.bytes, n}, info.max_tokens};
    const wisp_status status = most_bytes(&f, length, error);
    if (status != WISP_OK)
        return status;
    if (*length == 0)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "prompt",
                    "leaves no room for a text in the model's %u tokens", info.max_tokens);
    if (*length < text.length)
        *length = good_end(text.bytes, *length);
    return WISP_OK;
}
