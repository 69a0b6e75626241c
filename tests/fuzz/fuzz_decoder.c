/* SPDX-License-Identifier: Apache-2.0
 * Opens the folder of a decoder in which one file is replaced by the input: the first byte says
 * which tokenizer the folder has, the second which file. A model that opens encodes a text and
 * computes logits. */
#include "fuzz.h"
#include "fuzz_file.h"
#include "support/decoder_folder.h"

/* The folder with a tokenizer, on disk at *path. */
static struct folder *original(enum decoder_tokenizer tokenizer, const char **path) {
    static struct folder folders[DECODER_TOKENIZERS];
    static char paths[DECODER_TOKENIZERS][96];
    struct folder *folder = &folders[tokenizer];
    if (folder->n == 0) {
        char name[] = "0";
        name[0] = (char)('0' + tokenizer);
        snprintf(paths[tokenizer], sizeof paths[tokenizer], "%.90s", fuzz_path(name));
        decoder_folder_make(folder, tokenizer);
        folder_write(folder, paths[tokenizer]);
    }
    *path = paths[tokenizer];
    return folder;
}

static void put(const char *folder, const char *name, const void *data, size_t size) {
    char path[160];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0)
        abort();
}

static void use(const wisp_model *model) {
    enum { MOST = 6 };
    int32_t ids[256];
    size_t count;
    wisp_session *session = NULL;
    wisp_model_info info;
    wisp_error error;
    wisp_model_get_info(model, &info);
    fuzz_check(wisp_tokenize(model, wisp_text_of("  he\xC3\xA9llo <tool>  </s>\xFF a'll 123"), ids,
                             sizeof ids / sizeof *ids, &count, &error),
               &error);
    count = count < MOST ? count : MOST;
    float *logits = malloc(MOST * (size_t)info.vocabulary_size * sizeof *logits);
    if (!logits || wisp_session_open(model, NULL, &session, &error) != WISP_OK)
        abort();
    if (count > 0 && count <= info.max_tokens)
        fuzz_check(wisp_logits(session, ids, count, logits, &error), &error);
    wisp_session_close(session);
    free(logits);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    wisp_model *model = NULL;
    wisp_error error;
    const char *path;
    if (size < 2)
        return 0;
    struct folder *folder = original((enum decoder_tokenizer)(data[0] % DECODER_TOKENIZERS), &path);
    struct folder_file *file = &folder->files[data[1] % folder->n];
    put(path, file->name, data + 2, size - 2);
    const wisp_status status = wisp_model_open(path, NULL, &model, &error);
    fuzz_check(status, &error);
    if (status == WISP_OK)
        use(model);
    wisp_model_close(model);
    put(path, file->name, file->bytes.data, file->bytes.size);
    return 0;
}
