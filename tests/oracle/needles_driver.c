/* SPDX-License-Identifier: Apache-2.0
 * Prints which needles attention policies find in a text, for tests/oracle/induction.py.
 *
 *     needles_driver MODEL TYPE KV_MEMORY TOKENS POLICY
 *
 * Reads token ids from standard input, 32-bit little-endian numbers: the TOKENS ids of a text, and
 * those that are asked about. The text is read in calls as those of a prompt, what is asked in one
 * call, and then again id by id. Keys and values are of the --cache-type TYPE, KV_MEMORY bytes of
 * them in memory (0: all), and POLICY is one of --attention. Writes a line: the likeliest
 * successors of the ids that were asked in one call, those of the ids that were added one by one,
 * a digest of the logits, the share of the keys that tokens have looked at, and the bytes that were
 * read from the file of keys and values. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "calibrate/attention_quality.h"

enum { MOST_IDS = 1 << 18 };

static wisp_error error;

static void expect(wisp_status status) {
    if (status == WISP_OK)
        return;
    fprintf(stderr, "needles_driver: %s\n", error.message);
    exit(1);
}

/* Adds ids to the session's text. Returns the logits that follow each. */
static const float *add(wisp_session *session, const int32_t *ids, size_t n) {
    const struct addition addition = {&session->generation->sequences[0], ids, n, false};
    const float *logits;
    expect(generation_pass(session, &addition, 1, true, &logits, &error));
    return logits;
}

/* Prints the likeliest successor of each of n ids, and returns the digest with theirs. */
static uint64_t print_successors(const float *logits, size_t n, size_t vocabulary,
                                 uint64_t digest) {
    for (size_t t = 0; t < n; t++, logits += vocabulary) {
        size_t best = 0;
        for (size_t i = 1; i < vocabulary; i++)
            best = logits[i] > logits[best] ? i : best;
        printf("%zu ", best);
        digest = digest * 31 + checksum(logits, vocabulary * sizeof *logits);
    }
    return digest;
}

static void ask(const wisp_model *model, wisp_session_options options, uint64_t kv_memory,
                const int32_t *ids, size_t tokens, size_t asked) {
    const size_t vocabulary = model->network.config.vocabulary_size;
    wisp_session *session;
    wisp_kv_stats stats = {0};
    uint64_t digest;
    expect(wisp_session_open(model, &options, &session, &error));
    if (kv_memory > 0)
        expect(wisp_session_limit_kv_memory(session, kv_memory, NULL, &error));
    expect(generation_open(session, 1, &error));
    for (size_t done = 0, n; done < tokens; done += n) {
        n = tokens - done < PROMPT_TOKENS ? tokens - done : PROMPT_TOKENS;
        (void)add(session, ids + done, n);
    }
    digest = print_successors(add(session, ids + tokens, asked), asked, vocabulary, 0);
    putchar('\t');
    sequence_rewind(&session->generation->sequences[0], tokens, false);
    for (size_t t = tokens; t < tokens + asked; t++)
        digest = print_successors(add(session, ids + t, 1), 1, vocabulary, digest);
    (void)wisp_session_get_kv_stats(session, &stats);
    printf("\t%016" PRIx64 "\t%.4f\t%" PRIu64 "\n", digest, attention_used(session).seen,
           stats.read_bytes);
    fflush(stdout);
    wisp_session_close(session);
}

int main(int argc, char **argv) {
    static int32_t ids[MOST_IDS];
    wisp_model *model;
    wisp_session_options options = {.threads = 1};
    if (argc != 6 || !wisp_cache_type_find(argv[2], &options.cache_type)) {
        fputs("usage: needles_driver MODEL TYPE KV_MEMORY TOKENS POLICY\n", stderr);
        return 2;
    }
    const size_t tokens = strtoul(argv[4], NULL, 10), n = fread(ids, sizeof *ids, MOST_IDS, stdin);
    if (tokens == 0 || n <= tokens) {
        fprintf(stderr, "needles_driver: %zu ids are none beyond a text of %zu\n", n, tokens);
        return 2;
    }
    expect(wisp_model_open(argv[1], NULL, &model, &error));
    options.attention = argv[5];
    ask(model, options, strtoull(argv[3], NULL, 10), ids, tokens, n - tokens);
    wisp_model_close(model);
    return 0;
}
