/* SPDX-License-Identifier: Apache-2.0
 * Times llama.cpp by its C API, without the runtime that node-llama-cpp puts around it:
 *
 *     llama_speed BACKENDS MODEL THREADS PROMPT_TOKENS TOKENS ROUNDS
 *
 * BACKENDS is the folder of llama.cpp's libraries. Each round reads a prompt of random tokens in
 * batches of 512 and then generates greedily. Prints the tokens a second of both for each round.
 * bench/README.md says how it is compiled. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "llama.h"

enum { BATCH = 512 };

static void report_errors(enum ggml_log_level level, const char *text, void *context) {
    (void)context;
    if (level >= GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void decode(struct llama_context *context, llama_token *ids, int n) {
    if (llama_decode(context, llama_batch_get_one(ids, n)) == 0)
        return;
    fputs("llama_decode failed\n", stderr);
    exit(EXIT_FAILURE);
}

static llama_token likeliest(struct llama_context *context, int words) {
    const float *logits = llama_get_logits_ith(context, -1);
    int best = 0;
    for (int i = 1; i < words; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

int main(int argc, char **argv) {
    if (argc != 7)
        return 2;
    const int threads = atoi(argv[3]), prompt = atoi(argv[4]), tokens = atoi(argv[5]);
    llama_log_set(report_errors, NULL);
    ggml_backend_load_all_from_path(argv[1]);
    struct llama_model *model = llama_model_load_from_file(argv[2], llama_model_default_params());
    if (!model)
        return EXIT_FAILURE;
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = (uint32_t)(prompt + tokens);
    params.n_batch = params.n_ubatch = BATCH;
    params.n_threads = params.n_threads_batch = threads;
    struct llama_context *context = llama_init_from_model(model, params);
    const int words = llama_vocab_n_tokens(llama_model_get_vocab(model));
    llama_token *ids = malloc((size_t)prompt * sizeof *ids);
    if (!context || !ids)
        return EXIT_FAILURE;
    for (int round = 0; round < atoi(argv[6]); round++) {
        llama_memory_clear(llama_get_memory(context), true);
        for (int i = 0; i < prompt; i++)
            ids[i] = 1000 + (i * i + 7 * round) % 20000;
        const double start = seconds();
        for (int i = 0; i < prompt; i += BATCH)
            decode(context, ids + i, prompt - i < BATCH ? prompt - i : BATCH);
        llama_token next = likeliest(context, words);
        const double begun = seconds();
        for (int i = 0; i < tokens; i++) {
            decode(context, &next, 1);
            next = likeliest(context, words);
        }
        const double end = seconds();
        printf("%.1f %.1f\n", prompt / (begun - start), tokens / (end - begun));
        fflush(stdout);
    }
    return EXIT_SUCCESS;
}
