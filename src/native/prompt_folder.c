/* SPDX-License-Identifier: Apache-2.0
 * The prompt cache of a session in a folder: a file for each block of a text. Native only. */
#include <stdlib.h>

#include "engine/generation.h"
#include "engine/prompt_cache.h"
#include "host/digest_files.h"

static const uint64_t usual_bytes = UINT64_C(4000000000);

_Static_assert((int)IDENTITY_BYTES == (int)DIGEST_BYTES, "names of texts are names of files");

static bool has(void *context, const struct text_name *name) {
    return digest_files_has(context, name->digest);
}

static wisp_status read_file(void *context, const struct text_name *name, void *bytes,
                             size_t capacity, size_t *length, bool *found, wisp_error *error) {
    return digest_files_read(context, name->digest, bytes, capacity, length, found, error);
}

static wisp_status write_file(void *context, const struct text_name *name, const void *bytes,
                              size_t length, wisp_error *error) {
    return digest_files_write(context, name->digest, bytes, length, error);
}

static void use(void *context, const struct text_name *name, size_t index) {
    digest_files_use(context, name->digest, index);
}

static void remove_file(void *context, const struct text_name *name) {
    digest_files_remove(context, name->digest);
}

static size_t make_room(void *context) {
    return digest_files_make_room(context);
}

/* Fails if not even one block has room. */
static wisp_status check_bytes(wisp_session *session, const char *folder, uint64_t bytes,
                               wisp_error *error) {
    TRY(generation_open(session, 1, error));
    const size_t least = text_block_bytes(&session->generation->sequences[0],
                                          CONV_STATE_EVERY - TEXT_BLOCK_TOKENS, TEXT_BLOCK_TOKENS);
    return bytes >= least ? WISP_OK
                          : fail(error, WISP_ERROR_ARGUMENT, folder, "prompt_cache_size",
                                 "%llu bytes, and %d tokens of this model take %zu",
                                 (unsigned long long)bytes, TEXT_BLOCK_TOKENS, least);
}

wisp_status wisp_session_use_prompt_cache(wisp_session *session, const char *folder, uint64_t bytes,
                                          wisp_error *error) {
    TRY(require(session, "session", error));
    TRY(require(folder, "prompt_cache", error));
    if (session->prompts)
        return fail(error, WISP_ERROR_ARGUMENT, folder, "prompt_cache",
                    "the session has a prompt cache already");
    if (bytes == 0)
        bytes = usual_bytes;
    TRY(check_bytes(session, folder, bytes, error));
    struct digest_files *files = malloc(sizeof *files);
    if (!files)
        return fail_memory(error, sizeof *files);
    const wisp_status status =
        digest_files_open(files, folder, bytes, "another prompt cache", error);
    if (status != WISP_OK) {
        free(files);
        return status;
    }
    const struct text_store store = {.context = files,
                                     .has = has,
                                     .read = read_file,
                                     .write = write_file,
                                     .use = use,
                                     .remove = remove_file,
                                     .make_room = make_room,
                                     .close = free};
    return prompt_cache_open(session, &store, error);
}
