/* SPDX-License-Identifier: Apache-2.0 */
#include "http/hub_download.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/byte_order.h"
#include "base/sha256.h"
#include "host/fail_errno.h"
#include "host/file.h"
#include "http/hub_cache.h"

enum {
    START_BYTES = 512,     /* tell what a file is */
    MOST_CONTINUATIONS = 4 /* of a transfer without a byte of progress */
};

static const double first_pause = 0.1, poll_seconds = 0.1;

/* The most bytes of a file whose server does not say how many it has. */
static const uint64_t most_endless = UINT64_C(1) << 34;

/* A file on its way. */
struct transfer {
    const struct hub_options *options;
    const struct hub_wanted *wanted;
    int file; /* descriptor */
    uint64_t at, whole;
    struct sha256 hash;
    char start[START_BYTES];
    bool judged;
};

/* ---- what came ------------------------------------------------------------------------------ */

static bool ends_in(const char *text, const char *const *ends, size_t n) {
    const size_t length = strlen(text);
    for (size_t i = 0; i < n; i++) {
        const size_t end = strlen(ends[i]);
        if (length >= end && strcmp(text + length - end, ends[i]) == 0)
            return true;
    }
    return false;
}

/* Copies the architecture of a GGUF file, if it is the first of its keys, as usual. */
static void read_architecture(const char *start, size_t length, char name[64]) {
    static const char key[] = "general.architecture";
    enum { KEY = 24, TYPE = KEY + 8 + sizeof key - 1, VALUE = TYPE + 4, TEXT = 8 };
    const unsigned char *bytes = (const unsigned char *)start;
    name[0] = '\0';
    if (length < VALUE + 8 || load_u64(bytes + KEY) != sizeof key - 1 ||
        memcmp(start + KEY + 8, key, sizeof key - 1) != 0 || load_u32(bytes + TYPE) != TEXT)
        return;
    const uint64_t count = load_u64(bytes + VALUE);
    if (count < 64 && count <= length - VALUE - 8) {
        memcpy(name, start + VALUE + 8, (size_t)count);
        name[count] = '\0';
    }
}

/* Fails if the first bytes are not those of a model's file. Files of a folder tell less. */
static wisp_status judge(const struct transfer *t, size_t length, wisp_error *error) {
    static const char *const texts[] = {".txt", ".jinja"};
    static const char *const others[] = {".json",      ".txt",         ".jinja",
                                         ".model",     ".safetensors", ".bin",
                                         ".onnx_data", ".onnx",        ".onnx.data"};
    const char *start = t->start, *url = t->wanted->url;
    char name[64];
    if (length >= 4 && memcmp(start, "GGUF", 4) == 0) {
        read_architecture(start, length, name);
        return *name && t->options->judge_gguf ? t->options->judge_gguf(name, error) : WISP_OK;
    }
    /* Vocabularies and templates may begin with a token such as <s>. */
    const bool is_page = ends_in(url, texts, 2) ? strncasecmp(start, "<!doctype", 9) == 0 ||
                                                      strncasecmp(start, "<html", 5) == 0
                                                : start[0] == '<';
    const bool is_pointer = strncmp(start, "version https://git-lfs", 23) == 0;
    if (!is_page && !is_pointer && ends_in(url, others, sizeof others / sizeof *others))
        return WISP_OK;
    return fail(error, WISP_ERROR_FORMAT, url, NULL, "%s",
                is_page ? "an HTML page and not the file: a login page or a proxy may be in front "
                          "of the server"
                : is_pointer ? "a pointer of Git LFS and not the file"
                             : "not a GGUF file");
}

/* Counts bytes that have come, before or now. */
static wisp_status add(struct transfer *t, const void *bytes, size_t length, wisp_error *error) {
    const uint64_t size = t->wanted->about.size;
    if (t->at < START_BYTES) {
        const size_t room = START_BYTES - (size_t)t->at;
        memcpy(t->start + t->at, bytes, length < room ? length : room);
    }
    sha256_add(&t->hash, bytes, length);
    t->at += length;
    if (size > 0 && t->at > size)
        return fail(error, WISP_ERROR_FORMAT, t->wanted->url, NULL,
                    "more than the %llu bytes came that the server names",
                    (unsigned long long)size);
    if (size == 0 && t->at > most_endless)
        return fail(error, WISP_ERROR_IO, t->wanted->url, NULL,
                    "more than %llu bytes came, and the server does not say how many there are",
                    (unsigned long long)most_endless);
    if (t->judged || t->at < START_BYTES)
        return WISP_OK;
    t->judged = true;
    return judge(t, START_BYTES, error);
}

static wisp_status restart(struct transfer *t, wisp_error *error) {
    t->at = 0;
    t->judged = false;
    sha256_start(&t->hash);
    return ftruncate(t->file, 0) == 0 ? WISP_OK : fail_errno(error, t->wanted->path, "empty");
}

/* Takes what an ended download has left. */
static wisp_status resume(struct transfer *t, wisp_error *error) {
    char bytes[1 << 16];
    TRY(t->wanted->about.size > 0 ? WISP_OK : restart(t, error));
    for (;;) {
        const ssize_t n = pread(t->file, bytes, sizeof bytes, (off_t)t->at);
        if (n <= 0)
            return n == 0 ? WISP_OK : fail_errno(error, t->wanted->path, "read");
        TRY(add(t, bytes, (size_t)n, error));
        if (t->options->cancelled())
            return fail(error, WISP_ERROR_CANCELLED, NULL, NULL, "cancelled");
    }
}

/* ---- what comes ----------------------------------------------------------------------------- */

static wisp_status begin_body(void *context, const struct hub_answer *answer, wisp_error *error) {
    struct transfer *t = context;
    const struct answer *a = &answer->common;
    unsigned long long numbers[3] = {0, 0, a->length};
    const bool goes_on = a->status == 206 && answer_read_range(a->range, numbers);
    const uint64_t from = goes_on ? numbers[0] : 0, size = t->wanted->about.size;
    t->whole = numbers[2];
    if (size > 0 && t->whole > 0 && t->whole != size)
        return fail(error, WISP_ERROR_FORMAT, t->wanted->url, NULL, "has %llu bytes, not %llu",
                    (unsigned long long)t->whole, (unsigned long long)size);
    if (from == t->at)
        return WISP_OK;
    if (from > 0)
        return fail(error, WISP_ERROR_IO, t->wanted->url, NULL, "bytes came from %llu on, not %llu",
                    (unsigned long long)from, (unsigned long long)t->at);
    return restart(t, error); /* the server knows no ranges */
}

static wisp_status take_body(void *context, const void *bytes, size_t length, wisp_error *error) {
    struct transfer *t = context;
    const uint64_t place = t->at;
    TRY(add(t, bytes, length, error));
    for (size_t done = 0; done < length;) {
        const ssize_t n =
            pwrite(t->file, (const char *)bytes + done, length - done, (off_t)(place + done));
        if (n < 0 && errno != EINTR)
            return fail_errno(error, t->wanted->path, "write");
        done += n > 0 ? (size_t)n : 0;
    }
    const struct hub_wanted *w = t->wanted;
    const uint64_t size = w->about.size ? w->about.size : t->whole;
    if (t->options->progress)
        t->options->progress(t->options->context, w->before + t->at, w->total ? w->total : size);
    return WISP_OK;
}

/* Reads the file to its end, in as many answers as it takes. */
static wisp_status read_all(struct hub_client *client, struct transfer *t, wisp_error *error) {
    const uint64_t size = t->wanted->about.size;
    double pause = first_pause;
    for (int tries = 0; t->at == 0 || t->at != size;) {
        struct hub_answer answer;
        struct hub_request request = {.url = t->wanted->url,
                                      .from = t->at,
                                      .begin = begin_body,
                                      .take = take_body,
                                      .context = t};
        const uint64_t before = t->at;
        const wisp_status status = hub_request_run(client, &request, &answer, error);
        if (status != WISP_OK && !client->broke)
            return status;
        if (status == WISP_OK && (size == 0 || t->at == size))
            return WISP_OK;
        if (t->at > before) {
            tries = 0;
            pause = first_pause;
        } else if (++tries > MOST_CONTINUATIONS) {
            return status != WISP_OK ? status
                                     : fail(error, WISP_ERROR_IO, t->wanted->url, NULL,
                                            "the transfer ends after %llu of %llu bytes",
                                            (unsigned long long)t->at, (unsigned long long)size);
        }
        TRY(hub_client_pause(client, pause *= 2, error));
    }
    return WISP_OK;
}

/* Writes the rest of a file, and checks the whole. */
static wisp_status transfer(struct hub_client *client, struct transfer *t, wisp_error *error) {
    const char *etag = t->wanted->about.etag;
    unsigned char digest[32];
    char found[65];
    sha256_start(&t->hash);
    TRY(resume(t, error));
    TRY(read_all(client, t, error));
    if (!t->judged)
        TRY(judge(t, t->at < START_BYTES ? (size_t)t->at : START_BYTES, error));
    sha256_finish(&t->hash, digest);
    sha256_text(digest, found);
    if (strspn(etag, "0123456789abcdef") == 64 && etag[64] == '\0' && strcmp(found, etag) != 0)
        return fail(error, WISP_ERROR_FORMAT, t->wanted->url, "sha256",
                    "the SHA-256 of the downloaded bytes is %s, not the %s that the server names. "
                    "Nothing was kept: try again",
                    found, etag);
    return fsync(t->file) == 0 ? WISP_OK : fail_errno(error, t->wanted->path, "write");
}

wisp_status hub_download(struct hub_client *client, const struct hub_options *options,
                         const struct hub_wanted *wanted, bool *is_new, wisp_error *error) {
    char blob[PATH_MAX], partial[PATH_MAX];
    TRY(hub_blob(wanted->folder, wanted->about.etag, blob, error));
    *is_new = false;
    /* If there are no links, another process makes the file of the blob. */
    while (!file_exists(blob) && !file_exists(wanted->path)) {
        struct transfer t = {.options = options, .wanted = wanted};
        TRY(hub_claim(wanted->folder, wanted->about.etag, partial, error));
        if (*partial == '\0') {
            TRY(hub_client_pause(client, poll_seconds, error));
            continue;
        }
        t.file = open(partial, O_RDWR | O_CLOEXEC);
        if (t.file < 0)
            return fail_errno(error, partial, "open");
        const wisp_status status = transfer(client, &t, error);
        close(t.file);
        if (status == WISP_ERROR_FORMAT || status == WISP_ERROR_UNSUPPORTED)
            unlink(partial);
        else if (status != WISP_OK)
            hub_leave(partial);
        TRY(status);
        /* The file may be gone: a process that took this one for ended has taken it over. */
        if (rename(partial, blob) == 0)
            return *is_new = true, WISP_OK;
        if (errno != ENOENT)
            return fail_errno(error, partial, "name");
    }
    return WISP_OK;
}
