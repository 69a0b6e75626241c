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

static int take_float(const char *option, const char *text, float *value) {
    return parse_number(option, text, value) ? EXIT_GOOD : EXIT_USAGE;
}

/* Parses a whole number from 0 to `most`. */
static int take_number(const char *option, const char *text, unsigned long most,
                       unsigned long *value) {
    *value = 0;
    if (strcmp(text, "0") == 0)
        return EXIT_GOOD;
    return parse_count(option, text, most, value) ? EXIT_GOOD : EXIT_USAGE;
}

static int take_u32(const char *option, const char *text, uint32_t *value) {
    unsigned long count;
    if (!parse_count(option, text, UINT32_MAX, &count))
        return EXIT_USAGE;
    *value = (uint32_t)count;
    return EXIT_GOOD;
}

/* Parses "ID=X". */
static int take_bias(const char *text, wisp_token_value *bias) {
    char *equals, *end;
    const long id = strtol(text, &equals, 10);
    if (equals != text && *equals == '=' && id >= 0 && id <= INT32_MAX) {
        const float value = strtof(equals + 1, &end);
        if (end != equals + 1 && *end == '\0') {
            *bias = (wisp_token_value){(int32_t)id, value};
            return EXIT_GOOD;
        }
    }
    complain("--bias %s: a token id, = and a number belong here", text);
    return EXIT_USAGE;
}

static int take_order(const char *name, bool *temperature_last) {
    *temperature_last = strcmp(name, "llama.cpp") == 0;
    return *temperature_last || strcmp(name, "transformers") == 0
               ? EXIT_GOOD
               : complain_of_choice("order", name, "transformers, llama.cpp");
}

bool take_generate_option(struct generate_arguments *a, int option, const char *value, int *code) {
    wisp_generate_options *o = &a->options;
    wisp_sampling *s = &o->sampling;
    unsigned long number;
    switch (option) {
    case OPTION_MAX_TOKENS:
        *code = take_u32("max-tokens", value, &o->max_tokens);
        return true;
    case OPTION_TEMPERATURE:
        *code = take_float("temperature", value, &s->temperature);
        return true;
    case OPTION_TOP_K:
        *code = take_u32("top-k", value, &s->top_k);
        return true;
    case OPTION_TOP_P:
        *code = take_float("top-p", value, &s->top_p);
        return true;
    case OPTION_MIN_P:
        *code = take_float("min-p", value, &s->min_p);
        return true;
    case OPTION_TYPICAL_P:
        *code = take_float("typical-p", value, &s->typical_p);
        return true;
    case OPTION_ORDER:
        *code = take_order(value, &s->temperature_last);
        return true;
    case OPTION_REPETITION:
        *code = take_float("repetition-penalty", value, &s->repetition_penalty);
        return true;
    case OPTION_PRESENCE:
        *code = take_float("presence-penalty", value, &s->presence_penalty);
        return true;
    case OPTION_FREQUENCY:
        *code = take_float("frequency-penalty", value, &s->frequency_penalty);
        return true;
    case OPTION_PENALTY_WINDOW:
        *code = take_u32("penalty-window", value, &s->penalty_window);
        return true;
    case OPTION_BIAS:
        *code = take_bias(value, &a->bias[s->biases++]);
        return true;
    case OPTION_SEED:
        *code = take_number("seed", value, ULONG_MAX, &number);
        s->seed = number;
        return true;
    case OPTION_STOP:
        a->stop[o->stops++] = value;
        *code = *value ? EXIT_GOOD : EXIT_USAGE;
        if (!*value)
            complain("--stop: an empty text would end every text");
        return true;
    case OPTION_STOP_ID:
        *code = take_number("stop-id", value, INT32_MAX, &number);
        a->stop_id[o->stop_ids++] = (int32_t)number;
        return true;
    case OPTION_CONTEXT_SHIFT:
        o->context_shift = true;
        *code = EXIT_GOOD;
        return true;
    case OPTION_KEEP:
        *code = take_u32("keep", value, &o->keep_tokens);
        return true;
    default:
        return false;
    }
}
