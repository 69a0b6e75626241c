/* SPDX-License-Identifier: Apache-2.0
 * What a limit of the memory of keys and values costs: fills a text of a model with random keys and
 * values, and adds tokens to it. Reading so long a text would take hours, and its values change
 * neither bytes nor time.
 *
 *     build/bench/kv_memory MODEL TYPE TOKENS BYTES THREADS [ATTENTION]
 *
 * TYPE is that of --cache-type, BYTES the limit (0: none), ATTENTION that of --attention. Prints
 * the seconds of each token that is added, and the most memory beyond that of the open model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/generation.h"

enum { ADDED = 6 };

static wisp_error error;

static void expect(wisp_status status) {
    if (status == WISP_OK)
        return;
    fprintf(stderr, "%s\n", error.message);
    exit(1);
}

/* Returns a number of bytes that /proc/self/status has. */
static double memory(const char *field) {
    char line[256];
    double kilobytes = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, field, strlen(field)) == 0)
            kilobytes = strtod(line + strlen(field) + 1, NULL);
    if (file)
        fclose(file);
    return kilobytes * 1024;
}

/* Makes VmHWM begin anew. */
static void forget_peak(void) {
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (file) {
        fputs("5", file);
        fclose(file);
    }
}

static float *random_rows(size_t n) {
    float *rows = malloc(n * sizeof *rows);
    uint64_t state = 1;
    for (size_t i = 0; rows && i < n; i++) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        rows[i] = (float)(int32_t)(state >> 32) * 0x1p-30f;
    }
    return rows;
}

/* Writes the keys and values of n tokens, layer by layer. */
static void fill(wisp_session *session, struct sequence *sequence, size_t n) {
    const struct kv_shape *shape = &sequence->cache.shape;
    const size_t row = shape->kv_heads * shape->head_size;
    float *rows = random_rows(2 * row * KV_PAGE);
    expect(rows ? sequence_reserve(session, sequence, n + ADDED, &error)
                : fail_memory(&error, 2 * row * KV_PAGE * sizeof *rows));
    for (size_t layer = 0; layer < shape->layers; layer++)
        for (size_t at = 0; at < n; at += KV_PAGE)
            kv_cache_write(&sequence->cache, layer, at, n - at < KV_PAGE ? n - at : KV_PAGE, rows,
                           rows + row, 2 * row);
    free(rows);
    for (size_t i = 0; i < n; i++)
        expect(token_list_add(&sequence->past, 300, &error));
    sequence->cache.length = n;
}

int main(int argc, char **argv) {
    wisp_session_options options = {0};
    wisp_model *model;
    wisp_session *session;
    if (argc < 6 || argc > 7 || !wisp_cache_type_find(argv[2], &options.cache_type)) {
        fputs("usage: kv_memory MODEL TYPE TOKENS BYTES THREADS [ATTENTION]\n", stderr);
        return 2;
    }
    const size_t tokens = strtoul(argv[3], NULL, 10);
    const uint64_t bytes = strtoull(argv[4], NULL, 10);
    options.threads = (uint32_t)strtoul(argv[5], NULL, 10);
    options.attention = argc > 6 ? argv[6] : NULL;
    expect(wisp_model_open(argv[1], NULL, &model, &error));
    expect(wisp_session_open(model, &options, &session, &error));
    if (bytes > 0)
        expect(wisp_session_limit_kv_memory(session, bytes, NULL, &error));
    expect(generation_open(session, 1, &error));
    struct sequence *sequence = &session->generation->sequences[0];
    const double open = memory("VmRSS:");
    forget_peak();
    double start = clock_seconds();
    fill(session, sequence, tokens);
    printf("%zu tokens of %zu bytes in %s, limit %.1f MB: written in %.1f s\n", tokens,
           sequence->cache.shape.layers * kv_position_bytes(&sequence->cache.shape), argv[2],
           (double)bytes / 1e6, clock_seconds() - start);
    for (int i = 0; i < ADDED; i++) {
        const int32_t id = 300 + i;
        const float *logits;
        const struct addition addition = {sequence, &id, 1, false};
        start = clock_seconds();
        expect(generation_pass(session, &addition, 1, false, &logits, &error));
        printf("%s%.3f", i ? ", " : "seconds a token: ", clock_seconds() - start);
        fflush(stdout);
    }
    wisp_kv_stats stats;
    wisp_session_get_kv_stats(session, &stats);
    printf("\nmemory beyond the open model: at most %.1f MB; %.1f MB read, %.1f MB written, %.2f s "
           "waited; %llu blocks chosen, %llu for the token before, too\n",
           (memory("VmHWM:") - open) / 1e6, (double)stats.read_bytes / 1e6,
           (double)stats.written_bytes / 1e6, stats.waited_seconds,
           (unsigned long long)stats.chosen_blocks, (unsigned long long)stats.recurring_blocks);
    wisp_session_close(session);
    wisp_model_close(model);
    return 0;
}
