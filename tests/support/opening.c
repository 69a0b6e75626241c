/* SPDX-License-Identifier: Apache-2.0 */
#include "support/opening.h"

#include <ftw.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/utf8.h"
#include "support/allocations.h"

enum { MAX_HIDDEN = 1024, PATH_BYTES = 512 };

/* ---- the temporary folder ------------------------------------------------------------------- */

static char folder[64];

const char *temporary_path(const char *name) {
    static char paths[4][PATH_BYTES];
    static unsigned next;
    if (!*folder) {
        strcpy(folder, "/tmp/wisp-test-XXXXXX");
        if (!mkdtemp(folder))
            fail_msg("cannot make %s", folder);
    }
    char *path = paths[next++ % 4];
    assert_true(snprintf(path, PATH_BYTES, "%s/%s", folder, name) < PATH_BYTES);
    return path;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *walk) {
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

void remove_temporary_folder(void) {
    if (*folder)
        nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    *folder = '\0';
}

int tear_down_temporary_folder(void **state) {
    (void)state;
    remove_temporary_folder();
    return 0;
}

void write_file(const char *path, const void *data, size_t size) {
    FILE *file = fopen(*path == '/' ? path : temporary_path(path), "wb");
    assert_non_null(file);
    if (size)
        assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

const char *write_made(struct gguf *file, const char *name) {
    struct bytes bytes = {0};
    gguf_write_bytes(file, &bytes);
    write_file(name, bytes.data, bytes.size);
    gguf_release(file);
    bytes_release(&bytes);
    return temporary_path(name);
}

const char *write_tiny(const struct tiny_shape *shape, const char *name) {
    struct gguf file;
    gguf_make(&file, shape);
    return write_made(&file, name);
}

void make_folder(const char *path) {
    assert_int_equal(mkdir(path, 0777), 0);
}

/* ---- what holds for every opening ----------------------------------------------------------- */

/* The most memory that opening a file of `size` bytes and embedding with it may need: the file's
 * weights unpacked (1.7 bits a weight to 32), tables of fixed size, and the working memory of a
 * call. */
static uint64_t allowed_at_once(uint64_t size) {
    return 20 * size + 512 * 1024;
}

/* Checks that a message is UTF-8 without control characters, whatever the file holds. */
static void check_printable(const char *text) {
    for (size_t length = strlen(text); length > 0;) {
        uint32_t c;
        const size_t step = utf8_decode(text, length, &c);
        assert_true(c != UTF8_INVALID && c >= 0x20 && c != 0x7F);
        text += step;
        length -= step;
    }
}

static void check_error(wisp_status status, const wisp_error *error) {
    assert_int_equal(error->status, status);
    assert_true(*error->message);
    assert_non_null(memchr(error->file, '\0', sizeof error->file));
    assert_non_null(memchr(error->field, '\0', sizeof error->field));
    assert_non_null(memchr(error->message, '\0', sizeof error->message));
    check_printable(error->file);
    check_printable(error->field);
    check_printable(error->message);
    if (strlen(error->file) + strlen(error->field) + 8 < sizeof error->message) {
        assert_non_null(strstr(error->message, error->file));
        assert_non_null(strstr(error->message, error->field));
    }
}

static void check_memory(uint64_t size) {
    const struct allocations seen = allocations_seen();
    assert_int_equal(seen.live, 0);
    if (seen.largest > allowed_at_once(size))
        fail_msg("%llu bytes were asked for at once, for a file of %llu",
                 (unsigned long long)seen.largest, (unsigned long long)size);
}

static wisp_status embed(const wisp_model *model, wisp_error *error) {
    const wisp_text texts[] = {wisp_text_of("The man is eating some [MASK] food, \xC3\xA9t!"),
                               wisp_text_of("")};
    const size_t size = wisp_model_dimensions(model);
    static float rows[2 * MAX_HIDDEN];
    wisp_session *session = NULL;
    wisp_token_vectors *vectors = NULL;
    wisp_model_info info;
    wisp_model_get_info(model, &info);
    assert_true(size <= MAX_HIDDEN);
    wisp_status status = wisp_session_open(model, NULL, &session, error);
    if (status == WISP_OK && strcmp(info.pooling, "tokens") == 0)
        status = wisp_embed_tokens(session, texts, 2, true, &vectors, error);
    else if (status == WISP_OK)
        status = wisp_embed(session, texts, 2, NULL, rows, error);
    wisp_token_vectors_close(vectors);
    for (size_t i = 0; i < 2 * size && status == WISP_OK; i++)
        assert_true(isfinite(rows[i]));
    wisp_session_close(session);
    return status;
}

/* Generates from a text and from a conversation, if the file has a template, and decodes any
 * ids.
 */
static wisp_status generate(const wisp_model *model, wisp_error *error) {
    const wisp_message message = {WISP_ROLE_USER, wisp_text_of("the <|im_end|> \xC3\xA9t\xFF!")};
    const wisp_conversation conversation = {.messages = &message, .n = 1};
    const wisp_generate_options options = {.max_tokens = 6, .sampling.temperature = 1};
    wisp_session *session = NULL;
    wisp_model_info info;
    wisp_text source;
    char text[256];
    size_t length;
    wisp_model_get_info(model, &info);
    wisp_status status = wisp_session_open(model, NULL, &session, error);
    if (status == WISP_OK)
        status = wisp_generate(session, message.content, &options, NULL, error);
    if (status == WISP_OK && wisp_model_chat_template(model, &source, NULL) == WISP_OK)
        status = wisp_chat(session, &conversation, &options, NULL, error);
    /* A file may well say that the model's context is shorter than these prompts, and have a
     * template that refuses the conversation. */
    if (status == WISP_ERROR_ARGUMENT && (strcmp(error->field, "prompt") == 0 ||
                                          strcmp(error->field, "tokenizer.chat_template") == 0))
        status = WISP_OK;
    wisp_session_close(session);
    for (int32_t id = 0; (uint32_t)id < info.vocabulary_size && status == WISP_OK; id++)
        status = wisp_detokenize(model, &id, 1, NULL, text, sizeof text, &length, error);
    return status;
}

/* Makes every request that a program may make of a model. */
static void read_all(const wisp_model *model) {
    wisp_model_info info;
    const char *key;
    char value[64];
    wisp_model_get_info(model, &info);
    for (size_t i = 0; wisp_model_metadata(model, i, &key, value, sizeof value); i++)
        assert_true(strlen(value) < sizeof value);
    wisp_model_prompt(model, "query");
    assert_non_null(wisp_model_prompt(model, NULL));
}

static bool embeds(const wisp_model *model) {
    wisp_model_info info;
    wisp_model_get_info(model, &info);
    return *info.pooling != '\0';
}

static void finish(struct opening *opening, wisp_model *model, uint64_t size) {
    if (opening->status == WISP_OK) {
        assert_non_null(model);
        read_all(model);
        opening->status =
            embeds(model) ? embed(model, &opening->error) : generate(model, &opening->error);
    } else {
        assert_null(model);
    }
    wisp_model_close(model);
    if (opening->status != WISP_OK)
        check_error(opening->status, &opening->error);
    check_memory(size);
}

/* ---- the ways to open ----------------------------------------------------------------------- */

struct memory {
    const unsigned char *data;
    uint64_t size;
    int closed;
};

static int read_memory(void *context, uint64_t offset, void *buffer, size_t length) {
    const struct memory *memory = context;
    assert_true(length > 0 && offset <= memory->size && length <= memory->size - offset);
    memcpy(buffer, memory->data + offset, length);
    return 0;
}

static void close_memory(void *context) {
    struct memory *memory = context;
    memory->closed++;
}

struct opening open_source(const wisp_source *source, uint64_t size) {
    struct opening opening = {0};
    wisp_model *model = NULL;
    allocations_watch();
    opening.status = wisp_model_open_source(source, NULL, &model, &opening.error);
    finish(&opening, model, size);
    return opening;
}

static struct opening open_bytes(const void *data, size_t size, bool in_place) {
    unsigned char *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    if (size)
        memcpy(copy, data, size);
    struct memory memory = {.data = copy, .size = size};
    const wisp_source source = {.size = size,
                                .data = in_place ? copy : NULL,
                                .read = in_place ? NULL : read_memory,
                                .close = close_memory,
                                .context = &memory,
                                .name = "tiny.gguf"};
    const struct opening opening = open_source(&source, size);
    assert_int_equal(memory.closed, 1);
    free(copy);
    return opening;
}

struct opening open_data(const void *data, size_t size) {
    return open_bytes(data, size, true);
}

struct opening open_read(const void *data, size_t size) {
    return open_bytes(data, size, false);
}

struct opening open_path(const char *path, uint64_t size) {
    struct opening opening = {0};
    wisp_model *model = NULL;
    allocations_watch();
    opening.status = wisp_model_open(path, NULL, &model, &opening.error);
    finish(&opening, model, size);
    return opening;
}

void expect_memory_errors(const char *path) {
    bool failed = true;
    for (uint64_t calls = 0; failed; calls++) {
        wisp_model *model = NULL;
        wisp_error error;
        allocations_watch();
        allocations_fail_after(calls, false);
        const wisp_status status = wisp_model_open(path, NULL, &model, &error);
        failed = allocations_seen().failed;
        allocations_succeed();
        wisp_model_close(model);
        assert_int_equal(status, failed ? WISP_ERROR_MEMORY : WISP_OK);
        assert_int_equal(allocations_seen().live, 0);
    }
}

/* ---- expectations --------------------------------------------------------------------------- */

void expect_outcome(const struct opening *opening, wisp_status status, const char *field,
                    const char *says) {
    if (opening->status != status)
        fail_msg("%s instead of %s: %s", wisp_status_name(opening->status),
                 wisp_status_name(status), opening->error.message);
    if (field)
        assert_string_equal(opening->error.field, field);
    if (says && !strstr(opening->error.message, says))
        fail_msg("\"%s\" does not say \"%s\"", opening->error.message, says);
}

void expect_typed(const struct opening *opening) {
    switch (opening->status) {
    case WISP_OK:
    case WISP_ERROR_FORMAT:
    case WISP_ERROR_UNSUPPORTED:
    case WISP_ERROR_NOT_FOUND:
        return;
    default:
        fail_msg("%s: %s", wisp_status_name(opening->status), opening->error.message);
    }
}

void expect_opening(const struct bytes *file, wisp_status status, const char *field,
                    const char *says) {
    const struct opening in_place = open_data(file->data, file->size);
    const struct opening read = open_read(file->data, file->size);
    expect_outcome(&in_place, status, field, says);
    expect_outcome(&read, status, field, says);
    write_file("tiny.gguf", file->data, file->size);
    const char *path = temporary_path("tiny.gguf");
    const struct opening from_file = open_path(path, file->size);
    expect_outcome(&from_file, status, field, says);
    if (status != WISP_OK) {
        assert_string_equal(in_place.error.file, "tiny.gguf");
        assert_string_equal(read.error.file, "tiny.gguf");
        assert_string_equal(from_file.error.file, path);
    }
}
