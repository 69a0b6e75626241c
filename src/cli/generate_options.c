/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/generate_options.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool generate_arguments_open(struct generate_arguments *a, int argc) {
    const size_t n = (size_t)argc;
    *a = (struct generate_arguments){.stop = calloc(n, sizeof *a->stop),
                                     .stop_id = calloc(n, sizeof *a->stop_id),
                                     .bias = calloc(n, sizeof *a->bias)};
    a->options.stop = a->stop;
    a->options.stop_id = a->stop_id;
    a->options.sampling.bias = a->bias;
    if (a->stop && a->stop_id && a->bias)
        return true;
    complain("out of memory");
    return false;
}

void generate_arguments_close(struct generate_arguments *a) {
    free((void *)a->stop);
    free(a->stop_id);
    free(a->bias);
}

/* Parses "ID=X". */
static int take_bias(void *arguments, const char *text) {
    struct generate_arguments *a = arguments;
    char *equals, *end;
    const long id = strtol(text, &equals, 10);
    if (equals != text && *equals == '=' && id >= 0 && id <= INT32_MAX) {
        const float value = strtof(equals + 1, &end);
        if (end != equals + 1 && *end == '\0') {
            a->bias[a->options.sampling.biases++] = (wisp_token_value){(int32_t)id, value};
            return EXIT_GOOD;
        }
    }
    complain("--bias %s: expected a token id, = and a number", text);
    return EXIT_USAGE;
}

static int take_order(void *field, const char *name) {
    bool *temperature_last = field;
    *temperature_last = strcmp(name, "llama.cpp") == 0;
    return *temperature_last || strcmp(name, "transformers") == 0
               ? EXIT_GOOD
               : complain_of_choice("order", name, "transformers, llama.cpp");
}

static int take_seed(void *field, const char *text) {
    unsigned long number;
    if (!parse_whole("seed", text, 0, ULONG_MAX, &number))
        return EXIT_USAGE;
    *(uint64_t *)field = number;
    return EXIT_GOOD;
}

static int take_stop(void *arguments, const char *text) {
    struct generate_arguments *a = arguments;
    a->stop[a->options.stops++] = text;
    if (*text)
        return EXIT_GOOD;
    complain("--stop: an empty text would end every text");
    return EXIT_USAGE;
}

static int take_stop_id(void *arguments, const char *text) {
    struct generate_arguments *a = arguments;
    unsigned long id;
    if (!parse_whole("stop-id", text, 0, INT32_MAX, &id))
        return EXIT_USAGE;
    a->stop_id[a->options.stop_ids++] = (int32_t)id;
    return EXIT_GOOD;
}

#define ARGUMENTS struct generate_arguments

const struct command_option generate_options[] = {
    COUNT32(options.max_tokens, 1, UINT32_MAX, "max-tokens", 'n', "N",
            "generate at most N tokens (default: as many as fit the model)"),
    OPTION(NUMBER, options.sampling.temperature, "temperature", 0, "T",
           "0 takes the most likely token each time; 1 draws tokens by their\n"
           "probability; more is more random (default: 0)"),
    COUNT32(options.sampling.top_k, 1, UINT32_MAX, "top-k", 0, "K",
            "draw from the K most likely tokens"),
    OPTION(NONZERO, options.sampling.top_p, "top-p", 0, "P",
           "draw from the fewest tokens whose probabilities reach P"),
    OPTION(NUMBER, options.sampling.min_p, "min-p", 0, "P",
           "draw from tokens at least P times as likely as the most likely one"),
    OPTION(NONZERO, options.sampling.typical_p, "typical-p", 0, "P",
           "draw from the fewest tokens of typical information that reach P"),
    TAKEN(take_order, options.sampling.temperature_last, "order", 0, "NAME",
          "the order of the steps: transformers (temperature, top-k, top-p,\n"
          "min-p, typical-p; default) or llama.cpp (top-k, typical-p, top-p,\n"
          "min-p, temperature). Bias and penalties come first"),
    OPTION(NONZERO, options.sampling.repetition_penalty, "repetition-penalty", 0, "X",
           "make tokens that are already in the text less likely"),
    OPTION(NUMBER, options.sampling.presence_penalty, "presence-penalty", 0, "X",
           "subtract X from the logits of tokens in the text"),
    OPTION(NUMBER, options.sampling.frequency_penalty, "frequency-penalty", 0, "X",
           "subtract X once for each occurrence in the text"),
    COUNT32(options.sampling.penalty_window, 1, UINT32_MAX, "penalty-window", 0, "N",
            "apply penalties to the last N tokens only"),
    TAKEN_BY_ALL(take_bias, TEXT, "bias", 0, "ID=X",
                 "add X to the logit of token ID; -inf: never (may be given more\n"
                 "than once)"),
    TAKEN(take_seed, options.sampling.seed, "seed", 0, "N",
          "seed of the random numbers (default: 0). The same seed gives the\n"
          "same text; with --data, too, so that equal prompts have equal\n"
          "texts"),
    TAKEN_BY_ALL(take_stop, TEXT, "stop", 0, "TEXT",
                 "end before this text (may be given more than once)"),
    TAKEN_BY_ALL(take_stop_id, TEXT, "stop-id", 0, "ID",
                 "end before this token (may be given more than once)"),
    OPTION(NONE, options.context_shift, "context-shift", 0, NULL,
           "when the model's context is full, drop its older half and go on\n"
           "until --max-tokens or until the model ends the text; without this\n"
           "option the text ends, and longer prompts are errors"),
    COUNT32(options.drafts, 1, 16, "draft", 0, "N",
            "guess up to N tokens if the last ones occur earlier in the text, and\n"
            "compute them together: the same text in fewer passes if it repeats\n"
            "its prompt, as edits and summaries do"),
    COUNT32(options.keep_tokens, 0, UINT32_MAX, "keep", 0, "N",
            "with --context-shift: never drop the first N tokens of the prompt"),
    LAST_OPTION,
};
