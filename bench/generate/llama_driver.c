/* SPDX-License-Identifier: Apache-2.0
 * llama.cpp as a filter, for tests/oracle/llama.py, which compiles it against llama.cpp's header.
 *
 *     llama_driver BACKENDS MODEL logits | exact | ids
 *
 * BACKENDS is the folder of llama.cpp's libraries. `logits` and `exact` read and write what
 * logits_driver.c does: with llama.cpp's usual settings, or with floats in its cache and without
 * flash attention, which computes in 16 bits. `ids` reads and writes what codec_driver.c does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llama.h"

enum { MOST_IDS = 4096, PIECE = 4096 };

static void report_errors(enum ggml_log_level level, const char *text, void *context) {
    (void)context;
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

static int write_logits(struct llama_model *model, bool exact) {
    static int32_t ids[MOST_IDS];
    const uint32_t n = (uint32_t)fread(ids, sizeof *ids, MOST_IDS, stdin);
    const size_t words = (size_t)llama_vocab_n_tokens(llama_model_get_vocab(model));
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = params.n_batch = params.n_ubatch = n;
    params.n_threads = params.n_threads_batch = 1;
    if (exact) {
        params.type_k = params.type_v = GGML_TYPE_F32;
        params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    }
    struct llama_context *context = llama_init_from_model(model, params);
    struct llama_batch batch = llama_batch_init((int32_t)n, 0, 1);
    batch.n_tokens = (int32_t)n;
    for (uint32_t i = 0; i < n; i++) {
        batch.token[i] = ids[i];
        batch.pos[i] = (llama_pos)i;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = 1;
    }
    if (!context || llama_decode(context, batch) != 0)
        return 1;
    for (uint32_t i = 0; i < n; i++)
        if (fwrite(llama_get_logits_ith(context, (int32_t)i), sizeof(float), words, stdout) !=
            words)
            return 1;
    return 0;
}

static void write_number(size_t value) {
    for (int i = 0; i < 4; i++)
        putchar((int)(value >> 8 * i & 255));
}

static int write_ids(const struct llama_vocab *vocab) {
    unsigned char header[4];
    while (fread(header, 1, 4, stdin) == 4) {
        const size_t length = header[0] | (size_t)header[1] << 8 | (size_t)header[2] << 16;
        const size_t most = 2 * length + 16;
        char *text = malloc(length + 1), piece[PIECE];
        llama_token *ids = malloc(most * sizeof *ids);
        if (!text || !ids || fread(text, 1, length, stdin) != length)
            return 1;
        const int32_t n =
            llama_tokenize(vocab, text, (int32_t)length, ids, (int32_t)most, false, false);
        size_t bytes = 0;
        if (n < 0)
            return 1;
        write_number((size_t)n);
        for (int32_t i = 0; i < n; i++) {
            write_number((size_t)ids[i]);
            bytes += (size_t)llama_token_to_piece(vocab, ids[i], piece, PIECE, 0, true);
        }
        write_number(bytes);
        for (int32_t i = 0; i < n; i++)
            fwrite(piece, 1, (size_t)llama_token_to_piece(vocab, ids[i], piece, PIECE, 0, true),
                   stdout);
        free(text);
        free(ids);
    }
    return 0;
}

int main(int argc, char **argv) {
    struct llama_model_params params = llama_model_default_params();
    if (argc != 4)
        return 2;
    llama_log_set(report_errors, NULL);
    ggml_backend_load_all_from_path(argv[1]);
    params.vocab_only = strcmp(argv[3], "ids") == 0;
    struct llama_model *model = llama_model_load_from_file(argv[2], params);
    if (!model)
        return 1;
    const int result = params.vocab_only ? write_ids(llama_model_get_vocab(model))
                                         : write_logits(model, strcmp(argv[3], "exact") == 0);
    return fflush(stdout) == 0 ? result : 1;
}
