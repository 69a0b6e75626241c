/* SPDX-License-Identifier: Apache-2.0
 * What attention policies cost in quality: the perplexity of a text, and whether a sentence in it
 * is found again.
 *
 *     build/bench/attention_quality ppl MODEL TYPE THREADS TEXT TOKENS WINDOWS PREFILL[/DECODE]...
 *     build/bench/attention_quality needles MODEL TYPE THREADS TEXT TOKENS DEPTHS
 * PREFILL[/DECODE]...
 *
 * TYPE is that of --cache-type, each policy one of --attention, and windows of TOKENS tokens follow
 * each other in TEXT. With ppl the last 512 tokens of each are predicted in a call that reads the
 * text or, by a policy of the form full/DECODE, the last 256 one at a time. With needles "The pass
 * key is 73914." stands at a share of the window, and its end asks for the key: printed are the
 * nats of its five digits, 11.5 if they were guessed, and a star if each was the likeliest token.
 * The digits are added one at a time; the question is read by the policy for prompts.
 *
 * "oracle,N" and "full/oracle,N" are for comparison: of each query and key-value head the N
 * hundredths of the steps that have most of the weight, and the first and the last two. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/steps.h"
#include "base/clock.h"
#include "calibrate/attention_quality.h"

static wisp_error error;

static void expect(wisp_status status) {
    if (status == WISP_OK)
        return;
    fprintf(stderr, "%s\n", error.message);
    exit(1);
}

static wisp_text read_text(const char *path) {
    FILE *file = fopen(path, "rb");
    char *bytes = malloc(1 << 21);
    if (!file || !bytes) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(1);
    }
    const size_t length = fread(bytes, 1, 1 << 21, file);
    fclose(file);
    return (wisp_text){bytes, length};
}

/* ---- the oracle ----------------------------------------------------------------------------- */

static size_t oracle_budget; /* hundredths */

struct wanted {
    bool *looks;
    size_t left;
};

static bool enough(void *context, size_t index) {
    struct wanted *wanted = context;
    wanted->left -= wanted->left > 0 && !wanted->looks[index];
    wanted->looks[index] = true;
    return wanted->left == 0;
}

static void select_heaviest(const struct step_block *block, struct step_looks *looks) {
    const size_t n = looks->end - looks->first;
    step_weigh(block, looks);
    for (size_t i = 0; i < block->queries; i++) {
        const size_t at = i * looks->ld + looks->first;
        struct wanted wanted = {looks->at + at, (n * oracle_budget + 99) / 100};
        for (size_t s = 0; s < n; s++)
            wanted.looks[s] = s == 0 || s + 2 >= n;
        wanted.left -= wanted.left < 3 ? wanted.left : 3;
        if (wanted.left > 0)
            (void)attention_order(looks->weights + at, n, looks->order, enough, &wanted);
    }
}

static const struct attention_policy oracle = {
    .name = "oracle",
    .masks = 1u << ATTENTION_CAUSAL | 1u << ATTENTION_WINDOW,
    .needs_cache = true,
    .select_blocks = select_heaviest,
    .workspace_bytes = attention_cached_bytes,
    .run = attention_cached_run,
};

/* ---- measuring ------------------------------------------------------------------------------ */

/* Returns whether a policy is for tokens that are added one at a time. */
static bool is_for_decoding(const char *policy) {
    return strncmp(policy, "full/", 5) == 0;
}

static wisp_session *open_session(const wisp_model *model, wisp_session_options options,
                                  const char *policy) {
    const char *name = strstr(policy, "oracle,");
    wisp_session *session;
    options.attention = name ? "full" : policy;
    expect(wisp_session_open(model, &options, &session, &error));
    if (name) {
        oracle_budget = strtoul(name + strlen("oracle,"), NULL, 10);
        *(is_for_decoding(policy) ? &session->attention.decode : &session->attention.prefill) =
            &oracle;
    }
    expect(generation_open(session, 1, &error));
    return session;
}

static void measure_perplexity(const wisp_model *model, wisp_session_options options,
                               const char *policy, const int32_t *ids, size_t tokens,
                               size_t windows) {
    const bool one_by_one = is_for_decoding(policy);
    wisp_session *session = open_session(model, options, policy);
    double sum = 0, seconds = clock_seconds();
    for (size_t w = 0; w < windows; w++) {
        const struct attention_text text = {ids + w * tokens, tokens,
                                            tokens - (one_by_one ? QUALITY_ADDED : QUALITY_READ)};
        struct attention_prediction found;
        expect(attention_predict(session, &text, one_by_one, &found, &error));
        sum += found.nats;
    }
    seconds = clock_seconds() - seconds;
    printf("%-40s perplexity %8.4f, %5.1f %% of the keys seen, %.1f s\n", policy,
           exp(sum / (double)windows), 100 * attention_used(session).seen, seconds);
    fflush(stdout);
    wisp_session_close(session);
}

static void look_for_needles(const wisp_model *model, wisp_session_options options,
                             const char *policy, const int32_t *ids, size_t tokens, size_t depths) {
    int32_t *hidden = malloc(tokens * sizeof *hidden);
    wisp_session *session = open_session(model, options, policy);
    double sum = 0;
    size_t count = 0;
    if (!hidden)
        expect(fail_memory(&error, tokens * sizeof *hidden));
    printf("%-40s", policy);
    for (size_t d = 0; d < depths; d++) {
        struct attention_text text;
        struct attention_prediction found;
        expect(attention_hide_needle(model, ids, tokens, (double)d / (double)depths, 0, hidden,
                                     &text, &error));
        expect(attention_predict(session, &text, true, &found, &error));
        const double nats = found.nats * (double)(text.tokens - text.known);
        printf(" %5.2f%s", nats, found.likeliest ? "*" : " ");
        fflush(stdout);
        sum += nats;
        count += found.likeliest;
    }
    printf("  mean %.2f, found %zu of %zu\n", sum / (double)depths, count, depths);
    free(hidden);
    wisp_session_close(session);
}

int main(int argc, char **argv) {
    wisp_session_options options = {0};
    wisp_model *model;
    const bool needles = argc > 1 && strcmp(argv[1], "needles") == 0;
    if (argc < 9 || (!needles && strcmp(argv[1], "ppl") != 0) ||
        !wisp_cache_type_find(argv[3], &options.cache_type)) {
        fputs("usage: attention_quality ppl|needles MODEL TYPE THREADS TEXT TOKENS WINDOWS|DEPTHS "
              "POLICY...\n",
              stderr);
        return 2;
    }
    options.threads = (uint32_t)strtoul(argv[4], NULL, 10);
    expect(wisp_model_open(argv[2], NULL, &model, &error));
    const wisp_text text = read_text(argv[5]);
    const size_t tokens = strtoul(argv[6], NULL, 10), times = strtoul(argv[7], NULL, 10);
    struct token_list ids = {0};
    expect(codec_encode(model->codec, text, true, &ids, &error));
    if (tokens < 2 * QUALITY_READ || tokens * (needles ? 1 : times) > ids.count) {
        fprintf(stderr, "the text has %zu tokens; a window needs %d\n", ids.count,
                2 * QUALITY_READ);
        return 2;
    }
    for (int i = 8; i < argc; i++)
        (needles ? look_for_needles : measure_perplexity)(model, options, argv[i], ids.ids, tokens,
                                                          times);
    free(ids.ids);
    free((void *)(uintptr_t)text.bytes);
    wisp_model_close(model);
    return 0;
}
