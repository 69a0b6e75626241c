/* SPDX-License-Identifier: Apache-2.0
 * Functions of a database that runs WebAssembly: texts in, vectors out, in batches.
 *
 * A function gets a buffer with `n` rows, each the arguments one after the other, and returns a new
 * buffer with a result for each row. This is the ABI BUFFERED_V1 of ClickHouse, with rows in its
 * format RowBinary: a string is its length as LEB128 and its bytes, an array likewise with its
 * numbers, a number has its low byte first. What cannot be done traps, which ends the query.
 * Source: ClickHouse's documentation of WebAssembly functions and of RowBinary.
 *
 * tools/udf_template.mjs makes a module without imports of this one, to which a model is appended.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cosine.h"
#include "wisp.h"
#include "wisp/sources.h"

#define EXPORT(name) __attribute__((export_name(name)))

/* Copies bytes [offset, offset + length) of the model to `buffer`. Returns 0. */
__attribute__((import_module("wisp"), import_name("read"))) int
model_read(double offset, void *buffer, size_t length);

/* Returns the size of the model in bytes. */
__attribute__((import_module("wisp"), import_name("size"))) double model_size(void);

/* ---- buffers -------------------------------------------------------------------------------- */

struct buffer {
    unsigned char *data;
    uint32_t size;
};

/* Ends the call: the host sees a trap. */
_Noreturn static void give_up(void) {
    __builtin_trap();
}

static void *allocate(size_t n, size_t bytes) {
    if (n > UINT32_MAX / bytes)
        give_up();
    void *block = malloc(n * bytes + 1);
    if (!block)
        give_up();
    return block;
}

EXPORT("clickhouse_create_buffer") struct buffer *create_buffer(uint32_t size) {
    struct buffer *buffer = allocate(1, sizeof *buffer);
    *buffer = (struct buffer){allocate(size, 1), size};
    return buffer;
}

EXPORT("clickhouse_destroy_buffer") void destroy_buffer(struct buffer *buffer) {
    free(buffer->data);
    free(buffer);
}

/* The rest of a buffer that is read or written. */
struct cursor {
    unsigned char *at, *end;
};

static wisp_text take_string(struct cursor *in) {
    size_t length = 0;
    unsigned char byte;
    unsigned shift = 0;
    do {
        if (in->at == in->end || shift > 28)
            give_up();
        byte = *in->at++;
        length |= (size_t)(byte & 0x7F) << shift;
        shift += 7;
    } while (byte & 0x80);
    if (length > (size_t)(in->end - in->at))
        give_up();
    const wisp_text text = {(const char *)in->at, length};
    in->at += length;
    return text;
}

static void put(struct cursor *out, const void *bytes, size_t length) {
    memcpy(out->at, bytes, length);
    out->at += length;
}

/* Writes the number of an array's elements, and returns its bytes. `out` may be NULL. */
static size_t put_count(struct cursor *out, size_t count) {
    size_t bytes = 0;
    do {
        const unsigned char byte = (unsigned char)((count & 0x7F) | (count > 0x7F ? 0x80 : 0));
        if (out)
            put(out, &byte, 1);
        bytes++;
        count >>= 7;
    } while (count);
    return bytes;
}

/* ---- the model ------------------------------------------------------------------------------ */

static wisp_model *model;
static wisp_session *session;
static size_t dimensions;

static int read_model(void *context, uint64_t offset, void *buffer, size_t length) {
    (void)context;
    return model_read((double)offset, buffer, length);
}

/* Opens the model when it is first needed. Embeddings are portable: they have the same bits on
 * every machine, in native code and in every engine. */
static void open_model(void) {
    const wisp_model_options options = {.portable = true};
    wisp_source source = {
        .size = (uint64_t)model_size(), .read = read_model, .name = "model", .lasting = true};
    if (session)
        return;
    if (wisp_model_open_source(&source, &options, &model, NULL) != WISP_OK ||
        wisp_session_open(model, NULL, &session, NULL) != WISP_OK)
        give_up();
    dimensions = wisp_model_dimensions(model);
}

static void embed_texts(const wisp_text *texts, size_t n, const char *prompt, float *rows) {
    const wisp_embed_options options = {.prompt = prompt};
    if (wisp_embed(session, texts, n, &options, rows, NULL) != WISP_OK)
        give_up();
}

/* ---- functions ------------------------------------------------------------------------------ */

static bool same_text(wisp_text a, wisp_text b) {
    return a.length == b.length && memcmp(a.bytes, b.bytes, a.length) == 0;
}

/* Embeds n texts, whose prompts are an array beside them or NULL. Texts in a row that have the same
 * prompt are embedded together. */
static struct buffer *embed_all(const wisp_text *texts, const wisp_text *prompts, size_t n) {
    const size_t bytes = put_count(NULL, dimensions) + dimensions * sizeof(float);
    if (n > UINT32_MAX / bytes)
        give_up();
    struct buffer *result = create_buffer((uint32_t)(n * bytes));
    struct cursor out = {result->data, result->data + result->size};
    enum { AT_ONCE = 256 };
    float *rows = allocate(AT_ONCE, dimensions * sizeof *rows);
    for (size_t done = 0, count; done < n; done += count) {
        for (count = 1; count < AT_ONCE && done + count < n; count++)
            if (prompts && !same_text(prompts[done], prompts[done + count]))
                break;
        char *prompt = NULL;
        if (prompts) {
            prompt = allocate(prompts[done].length, 1);
            memcpy(prompt, prompts[done].bytes, prompts[done].length);
            prompt[prompts[done].length] = '\0';
        }
        embed_texts(texts + done, count, prompt, rows);
        free(prompt);
        for (size_t i = 0; i < count; i++) {
            put_count(&out, dimensions);
            put(&out, rows + i * dimensions, dimensions * sizeof *rows);
        }
    }
    free(rows);
    return result;
}

/* Takes the arguments of n rows: `each` strings a row. Returns them column by column. */
static wisp_text *take_columns(const struct buffer *in, size_t n, size_t each) {
    struct cursor cursor = {in->data, in->data + in->size};
    wisp_text *texts = allocate(n, each * sizeof *texts);
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < each; c++)
            texts[c * n + i] = take_string(&cursor);
    return texts;
}

/* (String) -> Array(Float32): the embedding, with the model's default prompt. */
EXPORT("embed") struct buffer *embed(const struct buffer *in, uint32_t n) {
    open_model();
    wisp_text *texts = take_columns(in, n, 1);
    struct buffer *result = embed_all(texts, NULL, n);
    free(texts);
    return result;
}

/* (String, String) -> Array(Float32): the embedding with a text put before it, such as "query: ".
 */
EXPORT("embed_prompt") struct buffer *embed_prompt(const struct buffer *in, uint32_t n) {
    open_model();
    wisp_text *texts = take_columns(in, n, 2);
    struct buffer *result = embed_all(texts, texts + n, n);
    free(texts);
    return result;
}

/* (String, String) -> Float32: the cosine of the embeddings of two texts. */
EXPORT("similarity") struct buffer *similarity(const struct buffer *in, uint32_t n) {
    open_model();
    wisp_text *texts = take_columns(in, n, 2);
    struct buffer *result = create_buffer(n * (uint32_t)sizeof(float));
    struct cursor out = {result->data, result->data + result->size};
    float *rows = allocate(2, dimensions * sizeof *rows);
    for (size_t i = 0; i < n; i++) {
        const wisp_text pair[] = {texts[i], texts[n + i]};
        embed_texts(pair, 2, NULL, rows);
        const float value = (float)cosine(rows, rows + dimensions, dimensions);
        put(&out, &value, sizeof value);
    }
    free(rows);
    free(texts);
    return result;
}
