/* SPDX-License-Identifier: Apache-2.0
 * What attention policies and the types of keys and values cost in quality: the perplexity of a
 * text, whether a sentence in it is found again, and how far logits are from others.
 *
 *     build/bench/attention_quality ppl MODEL TYPE THREADS TEXT TOKENS WINDOWS PREFILL[/DECODE]...
 *     build/bench/attention_quality needles MODEL TYPE THREADS TEXT TOKENS DEPTHS
 * PREFILL[/DECODE]...
 *     build/bench/attention_quality kl THREADS TEXT TOKENS WINDOWS MODEL:COMPUTE:TYPE...
 *
 * TYPE is that of --cache-type, each policy one of --attention, and windows of TOKENS tokens follow
 * each other in TEXT. With ppl the last 512 tokens of each are predicted in a call that reads the
 * text or, by a policy of the form full/DECODE, the last 256 one at a time. With needles "The pass
 * key is 73914." stands at a share of the window, and its end asks for the key: printed are the
 * nats of its five digits, 11.5 if they were guessed, and a star if each was the likeliest token.
 * The digits are added one at a time; the question is read by the policy for prompts.
 *
 * "oracle,N" and "full/oracle,N" are for comparison: of each query and key-value head the N
 * hundredths of the steps that have most of the weight, and the first and the last two.
 *
 * With kl the last 512 tokens of each window are predicted with each choice of model, --compute and
 * --cache-type: printed are the mean of the Kullback-Leibler divergences from the first one with
 * its standard error, the share of tokens whose likeliest successor is that of the first one, and
 * the perplexity. */
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

static void expect_windows(size_t tokens, size_t windows, const struct token_list *ids) {
    if (tokens >= 2 * QUALITY_READ && tokens * windows <= ids->count)
        return;
    fprintf(stderr, "the text has %zu tokens; a window needs %d\n", ids->count, 2 * QUALITY_READ);
    exit(2);
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

static void select_heaviest(const struct query_block *block, struct step_looks *looks) {
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
    .select_steps = select_heaviest,
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

/* ---- distances of logits -------------------------------------------------------------------- */

/* Computes the logits [QUALITY_READ, vocabulary] of the last ids of a window but one. */
static void predict_end(wisp_session *session, const int32_t *ids, size_t tokens, float *logits) {
    struct sequence *sequence = &session->generation->sequences[0];
    const size_t vocabulary = session->model->network.config.vocabulary_size;
    const size_t known = tokens - QUALITY_READ - 1;
    sequence_rewind(sequence, 0, generation_is_long(session, tokens));
    for (size_t done = 0, n; done < tokens - 1; done += n) {
        const float *made;
        n = done < known ? known - done : QUALITY_READ / 8; /* whose logits fit memory */
        n = n < PROMPT_TOKENS ? n : PROMPT_TOKENS;
        const struct addition addition = {sequence, ids + done, n, false};
        expect(generation_pass(session, &addition, 1, done >= known, &made, &error));
        if (done >= known)
            memcpy(logits + (done - known) * vocabulary, made, n * vocabulary * sizeof *made);
    }
}

/* Returns the logarithm of the sum of the powers of logits, and the index of the largest. */
static double log_sum(const float *logits, size_t n, size_t *largest) {
    double sum = 0;
    *largest = 0;
    for (size_t i = 1; i < n; i++)
        *largest = logits[i] > logits[*largest] ? i : *largest;
    for (size_t i = 0; i < n; i++)
        sum += exp((double)logits[i] - (double)logits[*largest]);
    return (double)logits[*largest] + log(sum);
}

struct distance {
    double kl, squares, nats;
    size_t same, count;
};

/* Adds the distances of logits from those of the first choice; ids [QUALITY_READ] follow them. */
static void add_distances(const float *first, const float *logits, size_t vocabulary,
                          const int32_t *ids, struct distance *d) {
    for (size_t t = 0; t < QUALITY_READ; t++) {
        const float *p = first + t * vocabulary, *q = logits + t * vocabulary;
        size_t best_p, best_q;
        const double sum_p = log_sum(p, vocabulary, &best_p);
        const double sum_q = log_sum(q, vocabulary, &best_q);
        double kl = 0;
        for (size_t i = 0; i < vocabulary; i++)
            kl += exp((double)p[i] - sum_p) * ((double)p[i] - sum_p - (double)q[i] + sum_q);
        d->kl += kl;
        d->squares += kl * kl;
        d->nats += sum_q - (double)q[ids[t]];
        d->same += best_p == best_q;
        d->count++;
    }
}

/* Opens MODEL:COMPUTE:TYPE. */
static wisp_session *open_choice(const char *choice, wisp_session_options options) {
    wisp_model_options how = {0};
    wisp_model *model;
    wisp_session *session;
    char path[1024], compute[16], type[16];
    if (sscanf(choice, "%1023[^:]:%15[^:]:%15s", path, compute, type) != 3 ||
        !wisp_compute_find(compute, &how.compute) ||
        !wisp_cache_type_find(type, &options.cache_type)) {
        fprintf(stderr, "%s: expected MODEL:COMPUTE:TYPE\n", choice);
        exit(2);
    }
    expect(wisp_model_open(path, &how, &model, &error));
    expect(wisp_session_open(model, &options, &session, &error));
    expect(generation_open(session, 1, &error));
    return session;
}

static void measure_distances(wisp_session_options options, wisp_text text, size_t tokens,
                              size_t windows, char **choices, size_t n) {
    wisp_session **sessions = calloc(n, sizeof(wisp_session *));
    struct distance *distances = calloc(n, sizeof *distances);
    for (size_t i = 0; i < n && sessions; i++)
        sessions[i] = open_choice(choices[i], options);
    if (!sessions || !distances)
        exit(1);
    const size_t vocabulary = sessions[0]->model->network.config.vocabulary_size;
    const size_t bytes = QUALITY_READ * vocabulary * sizeof(float);
    float *first = calloc(1, bytes), *logits = calloc(1, bytes);
    struct token_list ids = {0};
    expect(codec_encode(sessions[0]->model->codec, text, true, &ids, &error));
    expect_windows(tokens, windows, &ids);
    if (!first || !logits)
        expect(fail_memory(&error, bytes));
    for (size_t w = 0; w < windows; w++) {
        const int32_t *window = ids.ids + w * tokens;
        for (size_t i = 0; i < n; i++) {
            float *own = i == 0 ? first : logits;
            predict_end(sessions[i], window, tokens, own);
            add_distances(first, own, vocabulary, window + tokens - QUALITY_READ, &distances[i]);
        }
    }
    for (size_t i = 0; i < n; i++) {
        const struct distance *d = &distances[i];
        const double count = (double)d->count, kl = d->kl / count;
        const wisp_model *model = sessions[i]->model;
        printf("%-48s KL %.6f +/- %.6f, %6.2f %% alike, perplexity %8.4f\n", choices[i], kl,
               sqrt((d->squares / count - kl * kl) / (count - 1)), 100 * (double)d->same / count,
               exp(d->nats / count));
        wisp_session_close(sessions[i]);
        wisp_model_close((wisp_model *)(uintptr_t)model);
    }
    free(sessions);
    free(distances);
    free(first);
    free(logits);
    free(ids.ids);
}

/* ---- the program ---------------------------------------------------------------------------- */

static int complain_of_usage(void) {
    fputs("usage: attention_quality ppl|needles MODEL TYPE THREADS TEXT TOKENS WINDOWS|DEPTHS "
          "POLICY...\n"
          "       attention_quality kl THREADS TEXT TOKENS WINDOWS MODEL:COMPUTE:TYPE...\n",
          stderr);
    return 2;
}

int main(int argc, char **argv) {
    wisp_session_options options = {0};
    wisp_model *model;
    const bool needles = argc > 1 && strcmp(argv[1], "needles") == 0;
    if (argc > 6 && strcmp(argv[1], "kl") == 0) {
        options.threads = (uint32_t)strtoul(argv[2], NULL, 10);
        const wisp_text text = read_text(argv[3]);
        measure_distances(options, text, strtoul(argv[4], NULL, 10), strtoul(argv[5], NULL, 10),
                          argv + 6, (size_t)argc - 6);
        free((void *)(uintptr_t)text.bytes);
        return 0;
    }
    if (argc < 9 || (!needles && strcmp(argv[1], "ppl") != 0) ||
        !wisp_cache_type_find(argv[3], &options.cache_type))
        return complain_of_usage();
    options.threads = (uint32_t)strtoul(argv[4], NULL, 10);
    expect(wisp_model_open(argv[2], NULL, &model, &error));
    const wisp_text text = read_text(argv[5]);
    const size_t tokens = strtoul(argv[6], NULL, 10), times = strtoul(argv[7], NULL, 10);
    struct token_list ids = {0};
    expect(codec_encode(model->codec, text, true, &ids, &error));
    expect_windows(tokens, needles ? 1 : times, &ids);
    for (int i = 8; i < argc; i++)
        (needles ? look_for_needles : measure_perplexity)(model, options, argv[i], ids.ids, tokens,
                                                          times);
    free(ids.ids);
    free((void *)(uintptr_t)text.bytes);
    wisp_model_close(model);
    return 0;
}
