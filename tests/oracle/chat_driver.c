/* SPDX-License-Identifier: Apache-2.0
 * The chat template of a file as a filter, for tests/oracle/chat.py.
 *
 *     chat_driver FILE
 *
 * Reads conversations from standard input, each a JSON object with "messages" and "variables" after
 * the number of its bytes. Writes for each the wisp_status, the id of the mark that ends a reply,
 * and the number of its ids and these, or the number of the bytes of the error's message and these.
 * Numbers are 32-bit and little-endian. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/json.h"
#include "chat/chat.h"
#include "native/open_path.h"

static bool read_number(uint32_t *value) {
    unsigned char bytes[4];
    if (fread(bytes, 1, 4, stdin) != 4)
        return false;
    *value = load_u32(bytes);
    return true;
}

static void write_number(uint32_t value) {
    for (int i = 0; i < 4; i++)
        putchar((int)(value >> 8 * i & 0xFF));
}

static wisp_text raw_of(const struct json *value) {
    return value ? (wisp_text){value->raw, value->raw_length} : (wisp_text){0};
}

static wisp_status encode(const struct directory *dir, const struct codec *codec, wisp_text text,
                          struct token_list *list, int32_t *end, wisp_error *error) {
    struct arena arena = {0};
    const struct json *root;
    wisp_status status = json_parse(&arena, text.bytes, text.length, NULL, &root, error);
    if (status == WISP_OK) {
        const wisp_conversation conversation = {.json = raw_of(json_get(root, "messages")),
                                                .variables = raw_of(json_get(root, "variables"))};
        status = chat_encode(dir, codec, &conversation, list, end, error);
    }
    arena_release(&arena);
    return status;
}

static void filter(const struct directory *dir, const struct codec *codec) {
    uint32_t length;
    while (read_number(&length)) {
        struct token_list list = {0};
        wisp_error error;
        int32_t end = -1;
        char *bytes = malloc((size_t)length + 1);
        if (!bytes || fread(bytes, 1, length, stdin) != length)
            exit(1);
        const wisp_status status =
            encode(dir, codec, (wisp_text){bytes, length}, &list, &end, &error);
        write_number((uint32_t)status);
        write_number((uint32_t)end);
        if (status == WISP_OK) {
            write_number((uint32_t)list.count);
            for (size_t i = 0; i < list.count; i++)
                write_number((uint32_t)list.ids[i]);
        } else {
            write_number((uint32_t)strlen(error.message));
            fputs(error.message, stdout);
        }
        free(list.ids);
        free(bytes);
    }
}

int main(int argc, char **argv) {
    static struct directory dir;
    struct codec *codec = NULL;
    wisp_error error = {0};
    if (argc != 2) {
        fprintf(stderr, "usage: %s FILE\n", argv[0]);
        return 2;
    }
    wisp_status status = directory_open_path(&dir, argv[1], &error);
    if (status == WISP_OK)
        status = codec_open(&dir, &codec, &error);
    if (status == WISP_OK)
        filter(&dir, codec);
    else
        fprintf(stderr, "%s\n", error.message);
    codec_close(codec);
    directory_release(&dir);
    return status != WISP_OK || fflush(stdout) != 0;
}
