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
 * The digits are added one at a time; the question is read by the policy for prompts. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/generation.h"

enum { READ = 512, ADDED = 256, MOST_POLICIES = 32, DIGITS = 5 };

static wisp_error error;
static const char before_key[] = "\nThe pass key is 73914. Remember it. 73914 is the pass key.\n";
static const char question[] = "\nWhat is the pass key? The pass key is ";
static const char key[] = "73914";

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

static struct token_list encode(const wisp_model *model, wisp_text text, bool begins) {
    struct token_list list = {0};
    expect(codec_encode(model->codec, text, begins, &list, &error));
    return list;
}

/* Nats of token `id` after these logits. Clears *likeliest if another token is likelier. */
static double nats(const float *logits, size_t n, int32_t id, bool *likeliest) {
    double total = 0;
    for (size_t i = 0; i < n; i++) {
        total += exp((double)logits[i] - (double)logits[id]);
        if (logits[i] > logits[id])
            *likeliest = false;
    }
    return log(total);
}

/* Adds ids to the session's text, in calls as those of a prompt. Returns the logits that follow the
 * last id or, if `all`, each of at most READ ids. */
static const float *add(wisp_session *session, const int32_t *ids, size_t n, bool all) {
    const float *logits = NULL;
    for (size_t done = 0, step; done < n; done += step) {
        step = n - done < PROMPT_TOKENS ? n - done : PROMPT_TOKENS;
        const struct addition addition = {&session->generation->sequences[0], ids + done, step,
                                          false};
        expect(generation_pass(session, &addition, 1, all, &logits, &error));
    }
    return logits;
}

/* Predicts ids [first, n) of a window. Returns the mean of their nats. */
static double predict(wisp_session *session, const int32_t *ids, size_t first, size_t n,
                      bool one_by_one, bool *likeliest) {
    const size_t vocabulary = session->model->network.config.vocabulary_size;
    double sum = 0;
    if (one_by_one) {
        const float *logits = add(session, ids, first, false);
        for (size_t t = first; t < n; t++) {
            sum += nats(logits, vocabulary, ids[t], likeliest);
            if (t + 1 < n)
                logits = add(session, ids + t, 1, false);
        }
        return sum / (double)(n - first);
    }
    add(session, ids, first, false);
    const float *logits = add(session, ids + first, n - first, true);
    for (size_t t = first; t + 1 < n; t++)
        sum += nats(logits + (t - first) * vocabulary, vocabulary, ids[t + 1], likeliest);
    return sum / (double)(n - first - 1);
}

/* Returns the share of the keys that the session has looked at. */
static double share_seen(const wisp_session *session) {
    wisp_layer_stats s;
    double seen = 0, visible = 0;
    for (uint32_t l = 0; wisp_session_get_layer_stats(session, l, &s); l++) {
        seen += (double)s.keys_seen;
        visible += (double)s.keys_visible;
    }
    return seen / visible;
}

static wisp_session *open_session(const wisp_model *model, wisp_session_options options,
                                  const char *policy) {
    wisp_session *session;
    options.attention = policy;
    expect(wisp_session_open(model, &options, &session, &error));
    expect(generation_open(session, 1, &error));
    return session;
}

/* Returns whether a policy is for tokens that are added one at a time. */
static bool is_for_decoding(const char *policy) {
    return strncmp(policy, "full/", 5) == 0;
}

static void measure_perplexity(const wisp_model *model, wisp_session_options options,
                               const char *policy, const struct token_list *text, size_t tokens,
                               size_t windows) {
    double sum = 0, seen = 0, seconds = clock_seconds();
    for (size_t w = 0; w < windows; w++) {
        wisp_session *session = open_session(model, options, policy);
        const bool one_by_one = is_for_decoding(policy);
        bool likeliest = true;
        sum += predict(session, text->ids + w * tokens, tokens - (one_by_one ? ADDED : READ),
                       tokens, one_by_one, &likeliest);
        seen += share_seen(session);
        wisp_session_close(session);
    }
    seconds = clock_seconds() - seconds;
    printf("%-40s perplexity %8.4f, %5.1f %% of the keys seen, %.1f s\n", policy,
           exp(sum / (double)windows), 100 * seen / (double)windows, seconds);
    fflush(stdout);
}

static void look_for_needles(const wisp_model *model, wisp_session_options options,
                             const char *policy, const struct token_list *text, size_t tokens,
                             size_t depths) {
    const struct token_list needle = encode(model, wisp_text_of(before_key), false);
    const struct token_list asks = encode(model, wisp_text_of(question), false);
    const struct token_list digits = encode(model, wisp_text_of(key), false);
    const size_t rest = tokens - needle.count - asks.count - digits.count;
    int32_t *ids = malloc(tokens * sizeof *ids);
    double sum = 0;
    size_t found = 0;
    if (!ids || digits.count != DIGITS)
        expect(fail(&error, WISP_ERROR_ARGUMENT, NULL, NULL, "no room, or digits are no tokens"));
    printf("%-40s", policy);
    for (size_t d = 0; d < depths; d++) {
        const size_t at = 1 + (rest - 1) * d / depths;
        memcpy(ids, text->ids, at * sizeof *ids);
        memcpy(ids + at, needle.ids, needle.count * sizeof *ids);
        memcpy(ids + at + needle.count, text->ids + at, (rest - at) * sizeof *ids);
        memcpy(ids + rest + needle.count, asks.ids, asks.count * sizeof *ids);
        memcpy(ids + tokens - DIGITS, digits.ids, DIGITS * sizeof *ids);
        wisp_session *session = open_session(model, options, policy);
        bool likeliest = true;
        const double mean = predict(session, ids, tokens - DIGITS, tokens, true, &likeliest);
        printf(" %5.2f%s", mean * (double)DIGITS, likeliest ? "*" : " ");
        fflush(stdout);
        sum += mean * (double)DIGITS;
        found += likeliest;
        wisp_session_close(session);
    }
    printf("  mean %.2f, found %zu of %zu\n", sum / (double)depths, found, depths);
    free(ids);
    free(needle.ids);
    free(asks.ids);
    free(digits.ids);
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
    const struct token_list ids = encode(model, text, true);
    if (tokens < 2 * READ || tokens * (needles ? 1 : times) > ids.count) {
        fprintf(stderr, "the text has %zu tokens; a window needs %d\n", ids.count, 2 * READ);
        return 2;
    }
    for (int i = 8; i < argc; i++)
        (needles ? look_for_needles : measure_perplexity)(model, options, argv[i], &ids, tokens,
                                                          times);
    free(ids.ids);
    free((void *)(uintptr_t)text.bytes);
    wisp_model_close(model);
    return 0;
}
