/* SPDX-License-Identifier: Apache-2.0
 * The chat formats on a GGUF file's vocabulary as a filter, for tests/oracle/chat.py.
 *
 *     chat_driver FILE [FORMAT]
 *
 * Prints the name of the format, which is that of the file's template unless FORMAT names one. Then
 * it reads conversations from standard input: the number of messages, 1 for no_thinking, and the
 * role, length and bytes of each message; and writes for each the number of its ids, and the ids.
 * Numbers are 32-bit and little-endian. */
#include <stdio.h>
#include <stdlib.h>

#include "base/half.h"
#include "native/open_path.h"
#include "text/chat.h"

enum { MAX_MESSAGES = 64 };

static bool read_number(uint32_t *value) {
    unsigned char bytes[4];
    if (fread(bytes, 1, 4, stdin) != 4)
        return false;
    *value = load_u32(bytes);
    return true;
}

static bool write_number(size_t value) {
    unsigned char bytes[4];
    for (int i = 0; i < 4; i++)
        bytes[i] = (unsigned char)(value >> 8 * i);
    return fwrite(bytes, 1, 4, stdout) == 4;
}

static bool read_message(wisp_message *message) {
    uint32_t role, length;
    if (!read_number(&role) || !read_number(&length))
        return false;
    char *bytes = malloc((size_t)length + 1);
    message->role = (wisp_role)role;
    message->content = (wisp_text){bytes, length};
    return bytes && fread(bytes, 1, length, stdin) == length;
}

static wisp_status filter(const struct chat_format *format, const struct directory *dir,
                          const struct codec *codec, wisp_error *error) {
    struct token_list list = {0};
    uint32_t count, no_thinking;
    wisp_status status = WISP_OK;
    while (status == WISP_OK && read_number(&count) && read_number(&no_thinking)) {
        wisp_message messages[MAX_MESSAGES] = {0};
        const wisp_conversation conversation = {
            .messages = messages, .n = count, .no_thinking = no_thinking != 0};
        int32_t end;
        bool read = count <= MAX_MESSAGES;
        for (uint32_t i = 0; read && i < count; i++)
            read = read_message(&messages[i]);
        list.count = 0;
        status = read ? chat_encode(format, dir, codec, &conversation, &list, &end, error)
                      : fail(error, WISP_ERROR_IO, NULL, NULL, "the input is cut");
        for (uint32_t i = 0; i < count && i < MAX_MESSAGES; i++)
            free((void *)(uintptr_t)messages[i].content.bytes);
        if (status == WISP_OK)
            write_number(list.count);
        for (size_t i = 0; status == WISP_OK && i < list.count; i++)
            write_number((size_t)list.ids[i]);
    }
    free(list.ids);
    return status;
}

int main(int argc, char **argv) {
    static struct directory dir;
    const struct chat_format *format;
    struct codec *codec = NULL;
    wisp_error error = {0};
    if (argc < 2) {
        fprintf(stderr, "usage: %s FILE [FORMAT]\n", argv[0]);
        return 2;
    }
    wisp_status status = directory_open_path(&dir, argv[1], &error);
    if (status == WISP_OK)
        status = codec_open(&dir, &codec, &error);
    if (status == WISP_OK)
        status = chat_format_find(&dir, argc > 2 ? argv[2] : NULL, &format, &error);
    if (status == WISP_OK) {
        printf("%s\n", chat_format_name(format));
        status = filter(format, &dir, codec, &error);
    }
    if (status != WISP_OK)
        fprintf(stderr, "%s\n", error.message);
    codec_close(codec);
    directory_release(&dir);
    return status != WISP_OK || fflush(stdout) != 0;
}
