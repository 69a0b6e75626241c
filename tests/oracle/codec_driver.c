/* SPDX-License-Identifier: Apache-2.0
 * The codec of a GGUF file as a filter, for tests/oracle/codecs.py.
 *
 *     codec_driver FILE [REPEATS | whole]
 *
 * Reads texts from standard input, each as its length and its bytes, and writes for each the number
 * of its ids, the ids, the length of what they decode to, and that. Numbers are 32-bit and
 * little-endian. With REPEATS it encodes each text that often and prints the seconds that took.
 * With "whole" texts have the special tokens around them that a model which embeds has.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/half.h"
#include "native/open_path.h"
#include "tokenizers/tokenizer.h"

static bool write_number(size_t value) {
    unsigned char bytes[4];
    for (int i = 0; i < 4; i++)
        bytes[i] = (unsigned char)(value >> 8 * i);
    return fwrite(bytes, 1, 4, stdout) == 4;
}

static bool write_result(const struct codec *codec, const struct token_list *list) {
    size_t length = 0;
    bool good = write_number(list->count);
    for (size_t i = 0; i < list->count; i++) {
        good = write_number((size_t)list->ids[i]) && good;
        length += codec_decode(codec, list->ids[i]).length;
    }
    good = write_number(length) && good;
    for (size_t i = 0; i < list->count; i++) {
        const wisp_text text = codec_decode(codec, list->ids[i]);
        good = fwrite(text.bytes, 1, text.length, stdout) == text.length && good;
    }
    return good;
}

/* Writes the ids of a text as a model that embeds has them. */
static bool write_whole(const struct tokenizer *tokenizer, wisp_text text, wisp_error *error) {
    struct token_list list = {0};
    bool good =
        tokenizer_encode(tokenizer, text, SIZE_MAX, NULL, &list.count, NULL, error) == WISP_OK;
    list.ids = malloc((list.count + 1) * sizeof *list.ids);
    good = good && list.ids &&
           tokenizer_encode(tokenizer, text, SIZE_MAX, list.ids, &list.count, NULL, error) ==
               WISP_OK &&
           write_result(tokenizer_codec(tokenizer), &list);
    free(list.ids);
    return good;
}

/* With 0 repeats texts are whole. */
static int filter(const struct tokenizer *tokenizer, int repeats, wisp_error *error) {
    const struct codec *codec = tokenizer_codec(tokenizer);
    struct token_list list = {0};
    unsigned char header[4];
    double seconds = 0;
    while (fread(header, 1, 4, stdin) == 4) {
        const size_t length = load_u32(header);
        char *bytes = malloc(length + 1);
        if (!bytes || fread(bytes, 1, length, stdin) != length)
            return 1;
        const double start = clock_seconds();
        for (int i = 0; i < repeats; i++) {
            list.count = 0;
            if (codec_encode(codec, (wisp_text){bytes, length}, true, &list, error) != WISP_OK) {
                fprintf(stderr, "%s\n", error->message);
                return 1;
            }
        }
        seconds += clock_seconds() - start;
        const bool good = repeats > 0 ? write_result(codec, &list)
                                      : write_whole(tokenizer, (wisp_text){bytes, length}, error);
        free(bytes);
        if (!good)
            return 1;
    }
    free(list.ids);
    if (repeats > 1)
        fprintf(stderr, "%.6f\n", seconds);
    return fflush(stdout) == 0 ? 0 : 1;
}

int main(int argc, char **argv) {
    static struct directory dir;
    struct tokenizer *tokenizer = NULL;
    wisp_error error = {0};
    int result = 1;
    if (argc < 2) {
        fprintf(stderr, "usage: %s FILE [REPEATS | whole]\n", argv[0]);
        return 2;
    }
    if (directory_open_path(&dir, argv[1], &error) != WISP_OK ||
        tokenizer_open(&dir, &tokenizer, &error) != WISP_OK)
        fprintf(stderr, "%s\n", error.message);
    else if (!tokenizer_codec(tokenizer))
        fprintf(stderr, "%s: WordPiece, which tokenize_driver is for\n", argv[1]);
    else
        result = filter(tokenizer, argc > 2 ? atoi(argv[2]) : 1, &error);
    tokenizer_close(tokenizer);
    directory_release(&dir);
    return result;
}
