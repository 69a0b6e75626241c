/* SPDX-License-Identifier: Apache-2.0
 * Times llama.cpp, or its fork ik_llama.cpp, by its C API:
 *
 *     llama_speed BACKENDS MODEL THREADS PROMPT_TOKENS TOKENS ROUNDS [WORD]...
 *
 * BACKENDS is the folder of llama.cpp's libraries; ik_llama.cpp does not need it. Each round reads
 * a prompt of random tokens in batches of 512 and then generates greedily. The words `flash` and
 * `noflash` turn flash attention on and off, else llama.cpp chooses; `q8_0` keeps keys and values
 * in 8 bits, else they are f16; `repack` interleaves rows of weights when loading, which llama.cpp
 * does without being asked; with `random` the text is random tokens, which choose other experts
 * each time. Prints the tokens a second of the prompt and of the text for each round. In a checkout
 * of llama.cpp, or with -DIK_LLAMA of ik_llama.cpp, that was built in build/:
 *
 *     cc -O2 -Iinclude -Iggml/include .../llama_speed.c -Lbuild/bin -lllama -lggml -lggml-base \
 *         -Wl,-rpath,'$ORIGIN' -o build/bin/llama_speed
 *     cc -O2 -DIK_LLAMA -Iinclude -Iggml/include .../llama_speed.c build/src/libllama.a \
 *         build/ggml/src/libggml.a -lstdc++ -fopenmp -lm -o build/bin/llama_speed */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "llama.h"

enum { BATCH = 512 };

static void report_errors(enum ggml_log_level level, const char *text, void *context) {
    (void)context;
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* What the two do not share. `flash`: -1 if llama.cpp shall choose. */
#ifdef IK_LLAMA
static struct llama_batch batch_of(llama_token *ids, int n, int position) {
    return llama_batch_get_one(ids, n, position, 0);
}

static void clear(struct llama_context *context) {
    llama_kv_cache_clear(context);
}

static void load_backends(const char *folder) {
    (void)folder;
}

static void set_repack(struct llama_model_params *params, bool repack) {
    params->repack_tensors = repack;
}

static void set_flash(struct llama_context_params *params, int flash) {
    if (flash >= 0)
        params->flash_attn = flash;
}
#else
static struct llama_batch batch_of(llama_token *ids, int n, int position) {
    (void)position; /* behind what the cache has */
    return llama_batch_get_one(ids, n);
}

static void clear(struct llama_context *context) {
    llama_memory_clear(llama_get_memory(context), true);
}

static void load_backends(const char *folder) {
    ggml_backend_load_all_from_path(folder);
}

static void set_repack(struct llama_model_params *params, bool repack) {
    (void)params;
    (void)repack;
}

static void set_flash(struct llama_context_params *params, int flash) {
    params->flash_attn_type = (enum llama_flash_attn_type)flash;
}
#endif

static void decode(struct llama_context *context, llama_token *ids, int n, int position) {
    if (llama_decode(context, batch_of(ids, n, position)) == 0)
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

static llama_token random_token(void) {
    return 1000 + rand() % 20000;
}

/* Whether `word` is one of the words after ROUNDS. */
static bool has(char **words, const char *word) {
    while (*words && strcmp(*words, word) != 0)
        words++;
    return *words;
}

int main(int argc, char **argv) {
    if (argc < 7)
        return 2;
    const int threads = atoi(argv[3]), prompt = atoi(argv[4]), tokens = atoi(argv[5]);
    char **words = argv + 7;
    const bool random_ids = has(words, "random");
    llama_log_set(report_errors, NULL);
    load_backends(argv[1]);
    struct llama_model_params model_params = llama_model_default_params();
    set_repack(&model_params, has(words, "repack"));
    struct llama_model *model = llama_model_load_from_file(argv[2], model_params);
    if (!model)
        return EXIT_FAILURE;
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = (uint32_t)(prompt + tokens);
    params.n_batch = params.n_ubatch = BATCH;
    params.n_threads = params.n_threads_batch = threads;
    set_flash(&params, has(words, "flash") ? 1 : has(words, "noflash") ? 0 : -1);
    if (has(words, "q8_0"))
        params.type_k = params.type_v = GGML_TYPE_Q8_0;
    struct llama_context *context = llama_init_from_model(model, params);
    const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
    llama_token *ids = malloc((size_t)prompt * sizeof *ids);
    if (!context || !ids)
        return EXIT_FAILURE;
    ids[0] = 1000;
    decode(context, ids, 1, 0); /* reads the weights from the file */
    for (int round = 0; round < atoi(argv[6]); round++) {
        clear(context);
        for (int i = 0; i < prompt; i++)
            ids[i] = 1000 + (i * i + 7 * round) % 20000;
        const double start = seconds();
        for (int i = 0; i < prompt; i += BATCH)
            decode(context, ids + i, prompt - i < BATCH ? prompt - i : BATCH, i);
        llama_token next = random_ids ? random_token() : likeliest(context, vocabulary);
        const double begun = seconds();
        for (int i = 0; i < tokens; i++) {
            decode(context, &next, 1, prompt + i);
            next = random_ids ? random_token() : likeliest(context, vocabulary);
        }
        const double end = seconds();
        printf("%.2f %.2f\n", prompt / (begun - start), tokens / (end - begun));
        fflush(stdout);
    }
    return EXIT_SUCCESS;
}
