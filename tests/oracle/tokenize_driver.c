/* SPDX-License-Identifier: Apache-2.0
 * The tokenizer as a filter, for tests/oracle/tokenizer.py.
 *
 *     tokenize_driver FOLDER MAX_TOKENS
 *
 * Opens the tokenizer of a Hugging Face folder. Reads texts from standard input, each as its length
 * (32 bits, little-endian) and its bytes, and writes for each the number of its ids, with the upper
 * bit set if any were left out, and the ids, all as 32-bit little-endian numbers. */
#include <stdio.h>
#include <stdlib.h>

#include "base/half.h"
#include "huggingface/folder.h"
#include "tokenizers/tokenizer.h"

struct buffer {
    unsigned char *bytes;
    size_t capacity;
};

static bool reserve(struct buffer *buffer, size_t bytes) {
    if (bytes <= buffer->capacity)
        return true;
    unsigned char *moved = realloc(buffer->bytes, bytes * 2);
    if (!moved)
        return false;
    buffer->bytes = moved;
    buffer->capacity = bytes * 2;
    return true;
}

static void store_u32(unsigned char *out, uint32_t value) {
    for (int i = 0; i < 4; i++)
        out[i] = (unsigned char)(value >> 8 * i);
}

static bool write_ids(const int32_t *ids, size_t count, bool truncated) {
    unsigned char bytes[4];
    store_u32(bytes, (uint32_t)count | (truncated ? 1u << 31 : 0));
    if (fwrite(bytes, 1, 4, stdout) != 4)
        return false;
    for (size_t i = 0; i < count; i++) {
        store_u32(bytes, (uint32_t)ids[i]);
        if (fwrite(bytes, 1, 4, stdout) != 4)
            return false;
    }
    return true;
}

static int filter(const struct tokenizer *tokenizer, size_t max_tokens) {
    struct buffer text = {0};
    int32_t *ids = malloc(max_tokens * sizeof *ids);
    unsigned char header[4];
    bool good = ids != NULL, truncated;
    while (good && fread(header, 1, 4, stdin) == 4) {
        const size_t length = load_u32(header);
        good = reserve(&text, length) && fread(text.bytes, 1, length, stdin) == length;
        if (!good)
            break;
        const wisp_text whole = {(const char *)text.bytes, length};
        size_t count;
        good = tokenizer_encode(tokenizer, whole, max_tokens, ids, &count, &truncated, NULL) ==
                   WISP_OK &&
               write_ids(ids, count, truncated);
    }
    free(text.bytes);
    free(ids);
    return good && fflush(stdout) == 0 ? 0 : 1;
}

static wisp_status open_folder(const char *folder, struct directory *dir,
                               struct tokenizer **tokenizer, wisp_error *error) {
    dir->file = folder;
    TRY(hf_read_tokenizer(dir, folder, false, error));
    TRY(directory_finish(dir, error));
    return tokenizer_open(dir, tokenizer, error);
}

int main(int argc, char **argv) {
    static struct directory dir;
    struct tokenizer *tokenizer = NULL;
    wisp_error error = {0};
    if (argc < 3) {
        fprintf(stderr, "usage: %s FOLDER MAX_TOKENS\n", argv[0]);
        return 2;
    }
    const size_t max_tokens = strtoul(argv[2], NULL, 10);
    int result = 1;
    if (open_folder(argv[1], &dir, &tokenizer, &error) != WISP_OK)
        fprintf(stderr, "%s\n", error.message);
    else
        result = filter(tokenizer, max_tokens < 2 ? 2 : max_tokens);
    tokenizer_close(tokenizer);
    directory_release(&dir);
    return result;
}
