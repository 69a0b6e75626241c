/* SPDX-License-Identifier: Apache-2.0
 * A line is shown in one row of the terminal, of which a part is in view if it is longer. */
#include "cli/line_editor.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "base/list.h"
#include "base/utf8.h"
#include "cli/cli.h"

enum { ESCAPE = 0x1B, MOST_BYTES = 1 << 20, DEFAULT_COLUMNS = 80 };

/* The line that is edited. */
struct edited {
    const struct line_editor *history;
    uint32_t shown; /* the line of the history that it is a copy of, or history->n: a new one */
    const char *prompt;
    char *bytes; /* [n] of capacity */
    size_t n, cursor;
    uint32_t capacity;
    bool is_done, has_ended; /* it was entered; the input has ended */
    bool failed;             /* there was no memory for what was typed */
};

/* ---- places in the line --------------------------------------------------------------------- */

static bool is_continuation(char c) {
    return ((unsigned char)c & 0xC0) == 0x80;
}

static size_t before(const struct edited *e, size_t at) {
    at -= at > 0;
    while (at > 0 && is_continuation(e->bytes[at]))
        at--;
    return at;
}

static size_t after(const struct edited *e, size_t at) {
    at += at < e->n;
    while (at < e->n && is_continuation(e->bytes[at]))
        at++;
    return at;
}

static size_t word_before(const struct edited *e, size_t at) {
    while (at > 0 && e->bytes[at - 1] == ' ')
        at--;
    while (at > 0 && e->bytes[at - 1] != ' ')
        at--;
    return at;
}

static size_t word_after(const struct edited *e, size_t at) {
    while (at < e->n && e->bytes[at] == ' ')
        at++;
    while (at < e->n && e->bytes[at] != ' ')
        at++;
    return at;
}

/* Returns the columns of the characters in bytes [from, to). */
static size_t columns_of(const struct edited *e, size_t from, size_t to) {
    size_t columns = 0;
    while (from < to) {
        uint32_t c;
        from += utf8_decode(e->bytes + from, to - from, &c);
        const int width = c == UTF8_INVALID ? 1 : wcwidth((wchar_t)c);
        columns += width < 0 ? 1 : (size_t)width;
    }
    return columns;
}

/* ---- changes -------------------------------------------------------------------------------- */

static void insert(struct edited *e, const char *bytes, size_t n) {
    if (e->n + n > MOST_BYTES)
        return;
    if (list_grow(&e->bytes, (uint32_t)e->n, (uint32_t)n, &e->capacity, 1, NULL) != WISP_OK) {
        e->failed = true;
        return;
    }
    memmove(e->bytes + e->cursor + n, e->bytes + e->cursor, e->n - e->cursor);
    memcpy(e->bytes + e->cursor, bytes, n);
    e->n += n;
    e->cursor += n;
}

static void cut(struct edited *e, size_t from, size_t to) {
    if (from == to)
        return; /* there may be no bytes yet */
    memmove(e->bytes + from, e->bytes + to, e->n - to);
    e->n -= to - from;
    e->cursor = from;
}

/* Edits a copy of another line of the history; a line that was not entered is lost. */
static void show_line(struct edited *e, uint32_t line) {
    e->shown = line;
    cut(e, 0, e->n);
    if (line < e->history->n)
        insert(e, e->history->lines[line], strlen(e->history->lines[line]));
}

static void go_left(struct edited *e) {
    e->cursor = before(e, e->cursor);
}

static void go_right(struct edited *e) {
    e->cursor = after(e, e->cursor);
}

static void go_word_left(struct edited *e) {
    e->cursor = word_before(e, e->cursor);
}

static void go_word_right(struct edited *e) {
    e->cursor = word_after(e, e->cursor);
}

static void go_to_start(struct edited *e) {
    e->cursor = 0;
}

static void go_to_end(struct edited *e) {
    e->cursor = e->n;
}

static void go_up(struct edited *e) {
    if (e->shown > 0)
        show_line(e, e->shown - 1);
}

static void go_down(struct edited *e) {
    if (e->shown < e->history->n)
        show_line(e, e->shown + 1);
}

static void erase_left(struct edited *e) {
    cut(e, before(e, e->cursor), e->cursor);
}

static void erase_right(struct edited *e) {
    cut(e, e->cursor, after(e, e->cursor));
}

static void erase_right_or_end(struct edited *e) {
    e->is_done = e->has_ended = e->n == 0;
    erase_right(e);
}

static void erase_word(struct edited *e) {
    cut(e, word_before(e, e->cursor), e->cursor);
}

static void erase_to_start(struct edited *e) {
    cut(e, 0, e->cursor);
}

static void erase_to_end(struct edited *e) {
    cut(e, e->cursor, e->n);
}

static void clear_screen(struct edited *e) {
    (void)e;
    fputs("\033[H\033[2J", stderr);
}

static void enter(struct edited *e) {
    e->is_done = true;
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* The bytes that terminals send for keys (ECMA-48, section 5.4, and xterm's control sequences).
 * Ctrl with a letter is the letter's number in the alphabet. */
static const struct {
    const char *bytes;
    void (*act)(struct edited *e);
} keys[] = {
    {"\r", enter},
    {"\n", enter},
    {"\001", go_to_start}, /* Ctrl-A */
    {"\002", go_left},
    {"\004", erase_right_or_end}, /* Ctrl-D */
    {"\005", go_to_end},
    {"\006", go_right},
    {"\b", erase_left},
    {"\177", erase_left}, /* backspace */
    {"\013", erase_to_end},
    {"\014", clear_screen}, /* Ctrl-L */
    {"\016", go_down},
    {"\020", go_up},
    {"\025", erase_to_start}, /* Ctrl-U */
    {"\027", erase_word},
    {"\033[A", go_up},
    {"\033OA", go_up},
    {"\033[B", go_down},
    {"\033OB", go_down},
    {"\033[C", go_right},
    {"\033OC", go_right},
    {"\033[D", go_left},
    {"\033OD", go_left},
    {"\033[H", go_to_start},
    {"\033OH", go_to_start},
    {"\033[1~", go_to_start},
    {"\033[F", go_to_end},
    {"\033OF", go_to_end},
    {"\033[4~", go_to_end},
    {"\033[3~", erase_right},     /* delete */
    {"\033[1;5C", go_word_right}, /* with Ctrl */
    {"\033[1;5D", go_word_left},
    {"\033f", go_word_right}, /* with Alt */
    {"\033b", go_word_left},
    {"\033\177", erase_word},
};

/* Returns how many of n > 0 bytes the first key has; 0 if more bytes are to come. */
static size_t key_length(const char *bytes, size_t n) {
    if (bytes[0] != ESCAPE) {
        const unsigned char c = (unsigned char)bytes[0];
        const size_t length = c < 0xC0 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
        return length <= n ? length : 0;
    }
    if (n < 2)
        return 0;
    if (bytes[1] == 'O')
        return n < 3 ? 0 : 3;
    if (bytes[1] != '[')
        return 2;
    for (size_t i = 2; i < n; i++) /* parameters, and a final byte */
        if (bytes[i] >= 0x40)
            return i + 1;
    return 0;
}

static void take_key(struct edited *e, const char *bytes, size_t n) {
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strlen(keys[i].bytes) == n && memcmp(keys[i].bytes, bytes, n) == 0) {
            keys[i].act(e);
            return;
        }
    uint32_t c;
    /* Ctrl-D during a reply leaves a 0 in what was typed meanwhile. */
    if (bytes[0] == '\0')
        erase_right_or_end(e);
    else if (bytes[0] == '\t')
        insert(e, " ", 1);
    else if (utf8_decode(bytes, n, &c) == n && c != UTF8_INVALID && !utf8_controls_terminal(c))
        insert(e, bytes, n);
}

/* ---- the row -------------------------------------------------------------------------------- */

static size_t terminal_columns(void) {
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col
                                                                           : DEFAULT_COLUMNS;
}

/* Draws the part of the line in which the cursor is. */
static void draw(const struct edited *e) {
    const size_t used = strlen(e->prompt) + 1, columns = terminal_columns();
    const size_t room = columns > used + 1 ? columns - used : 1;
    size_t from = 0, to = e->cursor;
    while (columns_of(e, from, e->cursor) >= room)
        from = after(e, from);
    while (to < e->n && columns_of(e, from, after(e, to)) <= room)
        to = after(e, to);
    const size_t column = strlen(e->prompt) + columns_of(e, from, e->cursor);
    fprintf(stderr, "\r%s%.*s\033[K\r\033[%zuC", e->prompt, (int)(to - from),
            e->n > 0 ? e->bytes + from : "", column);
    fflush(stderr);
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Takes the keys that are there, until one enters the line. */
static void take_ahead(struct line_editor *editor, struct edited *e) {
    size_t at = 0, length;
    while (!e->is_done && at < editor->n_ahead &&
           (length = key_length(editor->ahead + at, editor->n_ahead - at)) > 0) {
        take_key(e, editor->ahead + at, length);
        at += length;
    }
    if (at == 0 && editor->n_ahead == sizeof editor->ahead)
        at = editor->n_ahead; /* no key sends so many */
    editor->n_ahead -= at;
    memmove(editor->ahead, editor->ahead + at, editor->n_ahead);
}

/* Reads keys until the line is entered. Returns as line_editor_read does. */
static int read_keys(struct line_editor *editor, struct edited *e) {
    for (take_ahead(editor, e), draw(e); !e->is_done; take_ahead(editor, e), draw(e)) {
        if (!wait_readable(STDIN_FILENO))
            return EXIT_INTERRUPTED;
        const ssize_t n = read(STDIN_FILENO, editor->ahead + editor->n_ahead,
                               sizeof editor->ahead - editor->n_ahead);
        if (n < 0 && was_interrupted())
            return EXIT_INTERRUPTED;
        editor->n_ahead += n > 0 ? (size_t)n : 0;
        e->is_done = e->has_ended = n <= 0; /* a terminal that has hung up */
    }
    return EXIT_GOOD;
}

/* Adds the line to those that were entered, unless it is empty or like the last. */
static int keep_line(struct line_editor *editor, struct edited *e, wisp_text *line) {
    static const char end = '\0';
    *line = (wisp_text){"", 0};
    if (e->n == 0)
        return EXIT_GOOD;
    e->cursor = e->n;
    insert(e, &end, 1);
    if (e->failed)
        return complain_of_memory();
    if (editor->n == 0 || strcmp(editor->lines[editor->n - 1], e->bytes) != 0) {
        if (list_grow((void *)&editor->lines, editor->n, 1, &editor->capacity,
                      sizeof *editor->lines, NULL) != WISP_OK)
            return complain_of_memory();
        editor->lines[editor->n++] = e->bytes;
        e->bytes = NULL;
    }
    *line = wisp_text_of(editor->lines[editor->n - 1]);
    return EXIT_GOOD;
}

bool line_editor_works(void) {
    const char *kind = getenv("TERM");
    return isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1 && kind && *kind &&
           strcmp(kind, "dumb") != 0;
}

int line_editor_read(struct line_editor *editor, const char *prompt, wisp_text *line) {
    struct termios before, during;
    struct edited e = {.history = editor, .shown = editor->n, .prompt = prompt};
    *line = (wisp_text){0};
    if (tcgetattr(STDIN_FILENO, &before) != 0)
        return EXIT_GOOD; /* a terminal that has hung up */
    during = before;
    during.c_lflag &= ~(tcflag_t)(ICANON | ECHO | IEXTEN);
    during.c_iflag &= ~(tcflag_t)(ICRNL | IXON);
    during.c_cc[VMIN] = 1;
    during.c_cc[VTIME] = 0;
    during.c_cc[VSUSP] = _POSIX_VDISABLE; /* the shell would get the terminal in this state */
    /* Widths of characters do not depend on the user's language. */
    const locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    const locale_t own = utf8 ? uselocale(utf8) : (locale_t)0;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &during);
    int code = read_keys(editor, &e);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
    if (utf8) {
        uselocale(own);
        freelocale(utf8);
    }
    fputc('\n', stderr);
    if (code == EXIT_GOOD && e.failed)
        code = complain_of_memory();
    else if (code == EXIT_GOOD && !e.has_ended)
        code = keep_line(editor, &e, line);
    free(e.bytes);
    return code;
}

void line_editor_release(struct line_editor *editor) {
    for (uint32_t i = 0; i < editor->n; i++)
        free(editor->lines[i]);
    free((void *)editor->lines);
    *editor = (struct line_editor){0};
}
