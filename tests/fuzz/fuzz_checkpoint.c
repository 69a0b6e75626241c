/* SPDX-License-Identifier: Apache-2.0
 * Opens a Hugging Face folder in which a file is replaced: the first byte of the input says in
 * which folder, the second which file, and the rest is the file, or of a safetensors file the
 * header, before weights that stay. A model that opens is used for all that its kind can do. */
#include "checkpoints.h"
#include "fuzz.h"
#include "fuzz_file.h"

/* A folder with where it is on disk. */
struct original {
    struct folder folder;
    char path[96];
};

static struct original *original(unsigned number) {
    static struct original originals[CHECKPOINTS];
    struct original *o = &originals[number];
    if (o->folder.n == 0) {
        checkpoint_make(&o->folder, number);
        fuzz_path(""); /* makes the folder of all */
        snprintf(o->path, sizeof o->path, "%s/%u", fuzz_folder, number);
        folder_write(&o->folder, o->path);
    }
    return o;
}

static void put(const struct original *o, const char *name, const struct bytes *bytes) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", o->path, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes->data, 1, bytes->size, file) != bytes->size || fclose(file) != 0)
        abort();
}

/* Returns the file that the input says. */
static struct bytes replaced(const struct folder_file *file, bool whole, const uint8_t *data,
                             size_t size) {
    const size_t header = whole ? 0 : checkpoint_header(file);
    struct bytes out = {0};
    if (header > 0)
        safetensors_put(&out, (const char *)data, size, file->bytes.data + 8 + header,
                        file->bytes.size - 8 - header);
    else
        bytes_put(&out, data, size);
    return out;
}

/* Scores texts, and makes vectors of their tokens. */
static void use(const wisp_model *model) {
    const wisp_text texts[] = {wisp_text_of("the man, \xC3\xA9t\xCC\x81"), wisp_text_of("")};
    wisp_session *session = NULL;
    wisp_token_vectors *vectors;
    wisp_error error;
    float scores[2];
    if (!model)
        return;
    fuzz_use(model);
    if (wisp_session_open(model, NULL, &session, &error) != WISP_OK)
        abort();
    fuzz_check(wisp_rerank(session, texts[0], texts, 2, scores, &error), &error);
    for (int query = 0; query < 2; query++) {
        const wisp_status status = wisp_embed_tokens(session, texts, 2, query, &vectors, &error);
        fuzz_check(status, &error);
        if (status == WISP_OK)
            wisp_token_vectors_close(vectors);
    }
    wisp_session_close(session);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    wisp_model *model = NULL;
    wisp_error error;
    if (size < 2)
        return 0;
    struct original *o = original(data[0] % CHECKPOINTS);
    const unsigned number = data[1] % CHECKPOINT_WHOLE;
    struct folder_file *file = &o->folder.files[number % o->folder.n];
    struct bytes bytes = replaced(file, data[1] >= CHECKPOINT_WHOLE, data + 2, size - 2);
    put(o, file->name, &bytes);
    bytes_release(&bytes);
    const wisp_status status = wisp_model_open(o->path, NULL, &model, &error);
    if (status != WISP_ERROR_IO) /* a file may name one that is no file */
        fuzz_check(status, &error);
    use(model);
    wisp_model_close(model);
    put(o, file->name, &file->bytes);
    return 0;
}
