/* SPDX-License-Identifier: Apache-2.0
 * Usage: embed MODEL TEXTS ROWS. Embeds the texts of golden-default.jsonl with every kernel set and
 * compares with PyTorch's rows in golden-default.f32. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

enum { SIZE = 384, TEXTS = 40 };

static void *read_all(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0)
        return NULL;
    *size = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*size + 1);
    const bool good = bytes && fread(bytes, 1, *size, file) == *size;
    fclose(file);
    if (good)
        bytes[*size] = '\0';
    return good ? bytes : NULL;
}

static int give_up(const char *message) {
    fprintf(stderr, "embed: %s\n", message);
    return 1;
}

/* Reads the texts, whose strings live in the arena. Returns false if a line is not what it
 * should be. */
static bool read_texts(struct arena *arena, char *lines, wisp_text texts[TEXTS]) {
    for (size_t i = 0; i < TEXTS; i++) {
        char *end = strchr(lines, '\n');
        const struct json *root, *text;
        wisp_error error;
        if (!end ||
            json_parse(arena, lines, (size_t)(end - lines), "texts", &root, &error) != WISP_OK)
            return false;
        text = json_get(root, "text");
        if (!json_is(text, JSON_STRING))
            return false;
        texts[i] = (wisp_text){text->text, text->text_length};
        lines = end + 1;
    }
    return true;
}

/* Returns the least cosine of the rows to PyTorch's, or a number below -1 and a message. */
static double least_cosine(const char *path, const wisp_model_options *options,
                           const wisp_text texts[TEXTS], const float *expected) {
    static float rows[TEXTS * SIZE];
    const wisp_session_options two = {.threads = 2};
    wisp_model *model = NULL;
    wisp_session *session = NULL;
    wisp_error error;
    wisp_status status = wisp_model_open(path, options, &model, &error);
    if (status == WISP_OK)
        status = wisp_session_open(model, &two, &session, &error);
    if (status == WISP_OK)
        status = wisp_embed(session, texts, TEXTS, NULL, rows, &error);
    wisp_session_close(session);
    wisp_model_close(model);
    if (status != WISP_OK)
        return give_up(error.message) - 3;
    double least = 1;
    for (size_t i = 0; i < TEXTS; i++) {
        double sum = 0; /* rows have length 1 */
        for (size_t c = 0; c < SIZE; c++)
            sum += (double)rows[i * SIZE + c] * (double)expected[i * SIZE + c];
        least = fmin(least, sum);
    }
    return least;
}

int main(int argc, char **argv) {
    struct arena arena = {0};
    wisp_text texts[TEXTS];
    size_t text_bytes, row_bytes;
    if (argc != 4)
        return give_up("usage: embed MODEL TEXTS ROWS");
    char *lines = read_all(argv[2], &text_bytes);
    float *expected = read_all(argv[3], &row_bytes);
    if (!lines || !expected)
        return give_up("cannot read the files");
    if (row_bytes != TEXTS * SIZE * sizeof *expected || !read_texts(&arena, lines, texts))
        return give_up("the reference files are not those of the default model");
    bool good = true;
    const char *kernels;
    for (size_t i = 0; (kernels = wisp_kernels_name(i)) != NULL; i++)
        for (wisp_compute compute = WISP_COMPUTE_F32; compute <= WISP_COMPUTE_INT8; compute++) {
            const wisp_model_options options = {.compute = compute, .kernels = kernels};
            const double least = least_cosine(argv[1], &options, texts, expected);
            printf("%s %s: least cosine %.8f\n", kernels, wisp_compute_name(compute), least);
            good = good && least >= (compute == WISP_COMPUTE_F32 ? 0.999999 : 0.995);
        }
    arena_release(&arena);
    free(lines);
    free(expected);
    return good ? 0 : 1;
}
