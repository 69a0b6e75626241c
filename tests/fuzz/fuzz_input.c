/* SPDX-License-Identifier: Apache-2.0
 * Reads any bytes as the standard input of the program: lines, or NDJSON, which embed then writes
 * with embeddings. The first byte chooses which, the second the size of the pieces that arrive. */
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "fuzz.h"

/* Each read of such a socket gets one piece. */
static void arrive(const uint8_t *data, size_t size, size_t piece) {
    int ends[2];
    if (size / 64 >= piece)
        piece = size / 64 + 1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0)
        abort();
    for (size_t at = 0; at < size; at += piece) {
        const size_t length = size - at < piece ? size - at : piece;
        if (send(ends[1], data + at, length, MSG_DONTWAIT) != (ssize_t)length)
            abort();
    }
    close(ends[1]);
    if (dup2(ends[0], STDIN_FILENO) != STDIN_FILENO)
        abort();
    close(ends[0]);
}

/* The lines of the input as anyone would divide it. */
struct lines {
    const uint8_t *at, *end;
};

static void expect_line(struct lines *lines, wisp_text text) {
    const size_t left = (size_t)(lines->end - lines->at);
    const uint8_t *newline = left ? memchr(lines->at, '\n', left) : NULL;
    size_t length = newline ? (size_t)(newline - lines->at) : left;
    const uint8_t *line = lines->at;
    if (left == 0)
        abort();
    lines->at += length + (newline != NULL);
    if (length > 0 && line[length - 1] == '\r')
        length--;
    if (text.length != length || (length && memcmp(text.bytes, line, length) != 0))
        abort();
}

/* Writes the records with embeddings as NDJSON, which must be JSON. */
static void expect_json(const struct batch *batch) {
    static const float rows[BATCH_RECORDS];
    char *written = NULL;
    size_t size = 0;
    struct output output = {
        .format = OUTPUT_NDJSON, .dimensions = 1, .stream = open_memstream(&written, &size)};
    if (!output.stream || output_rows(&output, batch, rows) != EXIT_GOOD)
        abort();
    fclose(output.stream);
    const char *at = written;
    for (size_t i = 0; i < batch->n; i++) {
        struct arena arena = {0};
        const struct json *root;
        wisp_error error;
        const char *newline = memchr(at, '\n', size - (size_t)(at - written));
        if (!newline)
            abort();
        if (json_parse(&arena, at, (size_t)(newline - at), "output", &root, &error) != WISP_OK ||
            !json_is(root, JSON_OBJECT) || !json_is(json_get(root, "embedding"), JSON_ARRAY))
            abort();
        arena_release(&arena);
        at = newline + 1;
    }
    if (at != written + size)
        abort();
    free(written);
}

/* A complaint is one line of UTF-8 without control characters. */
static void expect_complaint(const char *text, size_t size) {
    if (size < 2 || text[size - 1] != '\n')
        abort();
    for (size_t at = 0; at < size - 1;) {
        uint32_t c;
        at += utf8_decode(text + at, size - 1 - at, &c);
        if (c == UTF8_INVALID || c < 0x20 || c == 0x7F)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct batch batch;
    struct input input;
    char *complaint = NULL;
    size_t complained = 0;
    if (size < 2)
        return 0;
    const bool ndjson = data[0] & 1;
    struct lines lines = {data + 2, data + size};
    if (size >= 5 && memcmp(lines.at, "\xEF\xBB\xBF", 3) == 0)
        lines.at += 3; /* a byte order mark */
    arrive(data + 2, size - 2, (size_t)data[1] + 1);
    if (!input_open(&input, 1))
        abort();
    input.ndjson = ndjson;
    input_add(&input, "-", NULL);
    FILE *real = stderr;
    stderr = open_memstream(&complaint, &complained);
    int code;
    if (!program_output && !console_open())
        abort();
    do {
        code = input_next(&input, &batch);
        for (size_t i = 0; i < batch.n && !ndjson; i++)
            expect_line(&lines, batch.texts[i]);
        if (ndjson)
            expect_json(&batch);
    } while (code == EXIT_GOOD && batch.n > 0);
    fclose(stderr);
    stderr = real;
    if (code == EXIT_GOOD ? complained > 0 || (!ndjson && lines.at != lines.end)
                          : code != EXIT_INPUT || !ndjson)
        abort();
    if (complained > 0)
        expect_complaint(complaint, complained);
    free(complaint);
    arena_release(&batch.arena);
    input_close(&input);
    return 0;
}
