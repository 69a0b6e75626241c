/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/attention_picture.h"
#include "cli/bandwidth.h"
#include "cli/chat.h"
#include "cli/cli.h"
#include "cli/generate_lines.h"
#include "cli/generate_options.h"
#include "cli/input.h"
#include "cli/model_options.h"
#include "cli/output_file.h"
#include "cli/whole_file.h"

static const char usage[] =
    "usage: wisp generate [OPTION]... [FILE | - | --text TEXT]\n"
    "       wisp generate [OPTION]... --data FILE\n"
    "       wisp generate [OPTION]... --chat | --messages FILE\n"
    "\n"
    "Continues a prompt and writes the text as it is generated. Without FILE or --text the prompt\n"
    "is read from standard input. Ctrl-C ends the text. The default model is $WISP_GENERATOR,\n"
    "else the one that comes with wisp, which tells children's stories.\n"
    "\n"
    "With --data each line of FILE is a prompt: a JSON string, or an object with a string\n"
    "\"prompt\". Writes a JSON object for each prompt, on a line, in the same order: its "
    "\"text\",\n"
    "\"tokens\", \"prompt_tokens\", \"end\" (token, stop, length, context or grammar) and the "
    "other\n"
    "members of the prompt's object.\n"
    "\n";

struct command {
    struct model_arguments model;
    struct generate_arguments generate;
    struct chat_arguments chat;
    const char *path;             /* of the prompt; "-": standard input */
    const char *text;             /* the prompt; NULL: it is read from `path` */
    const char *data;             /* the file of prompts; NULL: there is one prompt */
    const char *state;            /* the file of the session's state; may be NULL */
    const char *picture;          /* of attention: a file; NULL: none */
    const char *grammar, *schema; /* files; NULL: none */
    unsigned long at_once, logprobs, beams;
    float length_penalty;
    const char *penalty_option; /* NULL: length_penalty was not given */
    bool echo, stats, json, force;
};

/* Takes the prompt, or the file that it is in. */
static int take_prompt(const struct command *c, const char *given, const char **prompt) {
    if (c->text || c->path) {
        complain("generate: %s: one prompt, and %s was given before (--data takes many)", given,
                 c->text ? c->text : c->path);
        return EXIT_USAGE;
    }
    *prompt = given;
    return EXIT_GOOD;
}

static int take_file(void *command, const char *path) {
    struct command *c = command;
    return take_prompt(c, path, &c->path);
}

static int take_text(void *command, const char *text) {
    struct command *c = command;
    return take_prompt(c, text, &c->text);
}

#define ARGUMENTS struct command

static const struct command_option options[] = {
    TAKEN_BY_ALL(take_text, TEXT, "text", 0, "TEXT", "the prompt"),
    OPTION(TEXT, data, "data", 0, "FILE", "many prompts, one on each line (-: standard input)"),
    COUNT(at_once, 1, 1024, "at-once", 0, "N",
          "with --data: generate N texts at a time (default: 8)"),
    COUNT(logprobs, 1, INT32_MAX, "logprobs", 0, "N",
          "with --data: add \"pieces\": the tokens with their log-probabilities\n"
          "and the N most likely tokens at each position"),
    GROUP(chat, chat_options),
    GROUP(generate, generate_options),
    OPTION(TEXT, grammar, "grammar", 0, "FILE",
           "write text that matches this grammar in GBNF, llama.cpp's notation"),
    OPTION(TEXT, schema, "json-schema", 0, "FILE",
           "write JSON that is valid under this JSON Schema"),
    COUNT(beams, 1, 64, "beams", 0, "N",
          "search for the N likeliest texts, and write a JSON object for each with\n"
          "its \"score\", \"logprob\", \"tokens\", \"end\" and \"text\""),
    MARKED(penalty_option, NUMBER, length_penalty, 0, 0, "length-penalty", 0, "X",
           "with --beams: a score is the text's log-probability divided by the\n"
           "number of tokens to the power of X (default: 1)"),
    OPTION(NONE, echo, "echo", 0, NULL, "write the prompt first"),
    OPTION(NONE, json, "json", 0, NULL,
           "write a JSON object, as --data does for each prompt; with --beams and\n"
           "--messages objects are written in any case"),
    OPTION(TEXT, state, "state", 0, "FILE",
           "load the session that an earlier run saved in FILE, if FILE exists, and\n"
           "save it there at the end: a prompt that begins like that run's text is\n"
           "computed from the first difference"),
    OPTION(NONE, stats, "stats", 0, NULL,
           "write tokens, times and tokens per second to standard error"),
    OPTION(TEXT, picture, "attention-picture", 0, "FILE",
           "write a picture (SVG) of the blocks of keys that each layer and\n"
           "key-value head has looked at"),
    GROUP(model, device_options),
    GROUP(model, cache_options),
    GROUP(model, prompt_cache_options),
    GROUP(model, memory_options),
    GROUP(model, kv_options),
    GROUP(model, generator_options),
    OPTION(NONE, force, "force", 'f', NULL, "replace an existing file of another kind"),
    LAST_OPTION,
};

static const struct command_line this_command = {
    usage, options, 25,
    "\n"
    "Examples:\n"
    "  wisp generate --text 'Once upon a time'\n"
    "  wisp generate --chat --model hf:Qwen/Qwen3-0.6B-GGUF\n"
    "  wisp generate --data prompts.ndjson --json-schema answer.json > answers.ndjson\n"
    "\nExit codes: see wisp embed --help.\n",
    take_file};

/* Returns whether an option of sampling is given, by which another token than the most likely one
 * may be chosen. */
static bool chooses_by_options(const wisp_sampling *s) {
    return s->temperature != 0 || s->top_k > 0 || s->top_p != 0 || s->min_p != 0 ||
           s->typical_p != 0 || s->repetition_penalty != 0 || s->presence_penalty != 0 ||
           s->frequency_penalty != 0 || s->penalty_window > 0 || s->biases > 0 || s->seed > 0 ||
           s->temperature_last;
}

static int check_usage(const struct command *c) {
    const char *clash = c->text ? "--text" : c->path ? "a FILE" : c->echo ? "--echo" : NULL;
    if (c->data && clash) {
        complain("--data and %s exclude each other", clash);
        return EXIT_USAGE;
    }
    if (!chat_check_usage(&c->chat, clash      ? clash
                                    : c->data  ? "--data"
                                    : c->beams ? "--beams"
                                               : NULL))
        return EXIT_USAGE;
    if (c->json && c->chat.interactive) {
        complain("--chat and --json exclude each other (--messages writes JSON)");
        return EXIT_USAGE;
    }
    if (!c->data && (c->at_once || c->logprobs)) {
        complain("--%s requires --data", c->at_once ? "at-once" : "logprobs");
        return EXIT_USAGE;
    }
    if (c->grammar && (c->schema || c->beams)) {
        complain("--grammar and --%s exclude each other", c->schema ? "json-schema" : "beams");
        return EXIT_USAGE;
    }
    if (c->schema && c->beams) {
        complain("--json-schema and --beams exclude each other");
        return EXIT_USAGE;
    }
    if (c->penalty_option && !c->beams) {
        complain("--length-penalty requires --beams");
        return EXIT_USAGE;
    }
    const wisp_generate_options *o = &c->generate.options;
    if (o->keep_tokens > 0 && !o->context_shift) {
        complain("--keep requires --context-shift");
        return EXIT_USAGE;
    }
    if (c->beams && (c->data || c->echo || c->stats || o->stops || o->context_shift ||
                     chooses_by_options(&o->sampling))) {
        complain(
            "--beams excludes --data, --echo, --stats, --stop, --context-shift and the options "
            "of sampling");
        return EXIT_USAGE;
    }
    return check_caches(&c->model);
}

/* Compiles the grammar of the options, if there is one. */
static int open_grammar(const struct command *c, wisp_grammar **grammar) {
    const char *path = c->grammar ? c->grammar : c->schema;
    char *text = NULL;
    size_t length;
    wisp_error error;
    if (!path)
        return EXIT_GOOD;
    int code = read_whole_file(path, &text, &length);
    const wisp_text read = {text, length};
    if (code == EXIT_GOOD &&
        (c->grammar ? wisp_grammar_open(read, grammar, &error)
                    : wisp_grammar_open_schema(read, grammar, &error)) != WISP_OK)
        code = complain_of_text(path, 0, &error);
    free(text);
    return code;
}

/* ---- one prompt ----------------------------------------------------------------------------- */

/* A text that is written as it is generated, or kept for the object of --json. */
struct written {
    FILE *kept; /* NULL: it is written */
    int code;
};

static bool write_text(struct written *written, wisp_text text) {
    fwrite(text.bytes, 1, text.length, written->kept ? written->kept : program_output);
    if (!written->kept)
        written->code = finish_output();
    return written->code == EXIT_GOOD;
}

static bool write_piece(void *context, const wisp_piece *piece) {
    return piece->text.length == 0 || write_text(context, piece->text);
}

/* Prints what the prompt cache did, if there is one. */
static void print_prompt_cache(const wisp_session *session) {
    wisp_prompt_cache_stats s;
    if (!wisp_session_get_prompt_cache_stats(session, &s))
        return;
    fprintf(stderr,
            "prompt cache: %llu tokens known, %llu blocks read (%.1f MB, %.3f s), %llu written "
            "(%.1f MB, %.3f s), %llu removed\n",
            (unsigned long long)s.known_tokens, (unsigned long long)s.read_blocks,
            (double)s.read_bytes / 1e6, s.read_seconds, (unsigned long long)s.written_blocks,
            (double)s.written_bytes / 1e6, s.write_seconds, (unsigned long long)s.removed_blocks);
}

/* Prints what a limit of the memory of keys and values costs, if there is one. */
static void print_kv(const wisp_session *session) {
    wisp_kv_stats s;
    if (!wisp_session_get_kv_stats(session, &s))
        return;
    fprintf(
        stderr,
        "keys and values: %.1f MB in memory; %llu blocks used, %llu of them read ahead and %llu "
        "waited for (%.3f s); %.1f MB read in %llu reads (%.3f s), %.1f MB written\n",
        (double)s.resident_bytes / 1e6, (unsigned long long)s.held_blocks,
        (unsigned long long)s.ahead_blocks, (unsigned long long)s.waited_blocks, s.waited_seconds,
        (double)s.read_bytes / 1e6, (unsigned long long)s.reads, s.read_seconds,
        (double)s.written_bytes / 1e6);
    if (s.chosen_blocks > 0)
        fprintf(stderr,
                "chosen: %llu blocks for tokens, %.1f %% of them also for the token before\n",
                (unsigned long long)s.chosen_blocks,
                100 * (double)s.recurring_blocks / (double)s.chosen_blocks);
}

/* Prints what each layer has looked at and, if it skips neurons, which share of those of generated
 * tokens it has computed. Tokens of prompts have all. */
static void print_layers(const wisp_session *session, size_t prompt_tokens) {
    wisp_layer_stats s;
    for (uint32_t l = 0; wisp_session_get_layer_stats(session, l, &s); l++) {
        const uint64_t prompt = s.tokens > 0 ? s.neurons / s.tokens * prompt_tokens : 0;
        if (s.keys_visible > 0)
            fprintf(stderr, "layer %u: attended to %.1f %% of %llu keys, %.1f MB read\n", l,
                    100 * (double)s.keys_seen / (double)s.keys_visible,
                    (unsigned long long)s.keys_visible, (double)s.kv_bytes / 1e6);
        if (s.computed < s.neurons && prompt <= s.contributing && prompt < s.neurons)
            fprintf(stderr, "layer %u: computed %.1f %% of the neurons, of which %.1f %% counted\n",
                    l, 100 * (double)(s.computed - prompt) / (double)(s.neurons - prompt),
                    100 * (double)(s.contributing - prompt) / (double)(s.computed - prompt));
    }
}

/* Prints which experts were in memory, if the model has some. */
static void print_experts(const wisp_model *model) {
    wisp_expert_stats s;
    if (!wisp_model_get_expert_stats(model, &s))
        return;
    fprintf(stderr,
            "experts: %u layers of %u, a token uses %u; %.1f of %.1f MB in memory; %llu needed, "
            "%llu of them read, %.1f MB\n",
            s.layers, s.experts, s.used, (double)s.resident_bytes / 1e6, (double)s.bytes / 1e6,
            (unsigned long long)s.held, (unsigned long long)s.read, (double)s.read_bytes / 1e6);
}

/* Prints which neurons of texts were in memory, if some may be absent. */
static void print_neurons(const wisp_model *model) {
    wisp_neuron_stats s;
    if (!wisp_model_get_neuron_stats(model, &s) || s.needed == 0)
        return;
    fprintf(stderr, "neurons: %llu needed, %.1f %% of them in memory; %llu read, %.1f MB\n",
            (unsigned long long)s.needed, 100 * (double)(s.needed - s.read) / (double)s.needed,
            (unsigned long long)s.read, (double)s.read_bytes / 1e6);
}

/* Says what of the prompt cache could not be used. */
static void report_damage(const wisp_session *session) {
    wisp_prompt_cache_stats s;
    if (wisp_session_get_prompt_cache_stats(session, &s) && *s.failure)
        fprintf(
            stderr,
            "wisp: prompt cache: %llu blocks were damaged and computed again, %llu could not be "
            "written: %s\n",
            (unsigned long long)s.damaged_blocks, (unsigned long long)s.failed_blocks, s.failure);
}

/* Returns the threads that measure the speed of memory. None do if memory is limited, since that
 * takes 256 MB. */
static uint32_t measuring_threads(const struct command *c) {
    return c->model.memory > 0 ? 0 : threads_of(&c->model);
}

/* Prints tokens, times and the speed of memory: each generated token reads all weights, keys and
 * values once, so that their bytes divided by its time are bytes a second. */
static void print_stats(const wisp_session *session, const wisp_generation *r, uint32_t threads) {
    const size_t computed = r->prompt_tokens - r->reused_tokens;
    wisp_stats stats;
    wisp_session_get_stats(session, &stats);
    fprintf(stderr, "prompt: %zu tokens in %.3f s, %.1f tokens/s", r->prompt_tokens,
            r->prompt_seconds, (double)computed / r->prompt_seconds);
    if (r->reused_tokens > 0)
        fprintf(stderr, " (%zu tokens were known)", r->reused_tokens);
    fprintf(stderr, "\ntext:   %zu tokens in %.3f s", r->tokens, r->seconds);
    if (r->tokens > 1) /* the first comes with the prompt */
        fprintf(stderr, ", %.1f tokens/s", (double)(r->tokens - 1) / r->seconds);
    putc('\n', stderr);
    if (r->dropped_tokens > 0)
        fprintf(stderr, "dropped: %zu tokens, for which the context had no room\n",
                r->dropped_tokens);
    fprintf(stderr, "time to the first token: %.3f s\n", r->prompt_seconds);
    fprintf(stderr, "keys and values as %s\n",
            wisp_cache_type_name(wisp_session_get_cache_type(session)));
    if (r->drafted > 0)
        fprintf(stderr, "drafted: %zu tokens, accepted: %zu\n", r->drafted, r->accepted);
    if (r->read_bytes > 0) { /* the first token follows from the prompt's pass */
        const double read = (double)r->read_bytes / r->seconds;
        const double fastest = threads > 0 ? measure_bandwidth(threads) : 0;
        fprintf(stderr, "read for the text: %.1f MB of weights, keys and values, %.2f GB/s",
                (double)r->read_bytes / 1e6, read / 1e9);
        if (fastest > 0)
            fprintf(stderr, ", %.0f %% of the %.2f GB/s that these threads read from memory",
                    100 * read / fastest, fastest / 1e9);
        fputc('\n', stderr);
    }
    if (r->file_bytes > 0 && r->tokens > 1)
        fprintf(stderr, "read from the file for the text: %.1f MB, %.2f MB a token\n",
                (double)r->file_bytes / 1e6, (double)r->file_bytes / 1e6 / (double)(r->tokens - 1));
    for (size_t i = 0; i < WISP_STAGES; i++)
        if (stats.stage_seconds[i] > 0)
            fprintf(stderr, "%-16s %9.3f s\n", wisp_stage_name(i), stats.stage_seconds[i]);
    print_prompt_cache(session);
    print_kv(session);
    print_layers(session, computed);
}

/* Writes a text of beam search. */
static void write_hypothesis(void *context, const wisp_hypothesis *h) {
    int *code = context;
    fprintf(program_output,
            "{\"score\":%.6g,\"logprob\":%.6g,\"tokens\":%zu,\"end\":\"%s\",\"text\":", h->score,
            h->logprob, h->tokens, wisp_end_name(h->end));
    print_json_string(program_output, h->text);
    fputs("}\n", program_output);
    if (*code == EXIT_GOOD)
        *code = finish_output();
}

static int search(const struct command *c, wisp_session *session, wisp_text prompt) {
    const wisp_generate_options *o = &c->generate.options;
    int written = EXIT_GOOD;
    const wisp_beam_options beams = {.beams = (uint32_t)c->beams,
                                     .max_tokens = o->max_tokens,
                                     .length_penalty = c->length_penalty,
                                     .stop_id = o->stop_id,
                                     .stop_ids = o->stop_ids,
                                     .hypothesis = write_hypothesis,
                                     .context = &written};
    wisp_error error;
    return wisp_beam_search(session, prompt, &beams, &error) == WISP_OK ? written
                                                                        : complain_of(&error);
}

/* Continues a prompt. Returns an exit code, after complaining if it is not EXIT_GOOD. */
static int continue_prompt(const struct command *c, wisp_session *session, wisp_text prompt) {
    wisp_generate_options generate = c->generate.options;
    struct written written = {.code = EXIT_GOOD};
    wisp_generation result;
    wisp_error error;
    char *kept = NULL;
    size_t length = 0;
    if (c->json && !(written.kept = open_memstream(&kept, &length)))
        return complain_of_memory();
    generate.piece = write_piece;
    generate.context = &written;
    if (c->echo)
        write_text(&written, prompt);
    int code = written.code;
    if (code == EXIT_GOOD && wisp_generate(session, prompt, &generate, &result, &error) != WISP_OK)
        code = complain_of(&error);
    if (written.kept && !close_memstream(written.kept, &kept))
        code = complain_of_memory();
    if (code == EXIT_GOOD && c->json) {
        fputc('{', program_output);
        print_generation(&result, (wisp_text){kept, length});
        fputs("}\n", program_output);
        written.code = finish_output();
    } else if ((code == EXIT_GOOD || code == EXIT_INTERRUPTED) && !c->json) {
        write_text(&written, wisp_text_of("\n"));
    }
    if (code == EXIT_GOOD && c->stats)
        print_stats(session, &result, measuring_threads(c));
    free(kept);
    return code != EXIT_GOOD ? code : written.code;
}

static int generate_text(const struct command *c, wisp_session *session) {
    char *read = NULL;
    size_t length = c->text ? strlen(c->text) : 0;
    int code = c->text ? EXIT_GOOD : read_whole_file(c->path ? c->path : "-", &read, &length);
    const wisp_text prompt = {c->text ? c->text : read, length};
    if (code == EXIT_GOOD)
        code = c->beams ? search(c, session, prompt) : continue_prompt(c, session, prompt);
    free(read);
    return code;
}

/* ---- many prompts --------------------------------------------------------------------------- */

static int generate_all(const struct command *c, wisp_session *session) {
    wisp_generate_options generate = c->generate.options;
    struct generate_totals totals = {0};
    const double start = clock_seconds();
    generate.logprobs = (uint32_t)c->logprobs;
    const int code = generate_lines(session, &generate, c->data, c->at_once, &totals);
    if (c->stats) {
        print_prompt_cache(session);
        print_kv(session);
        const double seconds = clock_seconds() - start;
        fprintf(stderr,
                "%zu texts in %.3f s: prompts of %zu tokens (%zu were known), %zu tokens "
                "generated, %.1f tokens/s\n",
                totals.texts, seconds, totals.prompt_tokens, totals.reused_tokens, totals.tokens,
                (double)totals.tokens / seconds);
    }
    return code;
}

/* ---- the command ---------------------------------------------------------------------------- */

/* Loads the session's state, if there is such a file. */
static int load_state(const struct command *c, wisp_session *session) {
    wisp_error error;
    const int code = check_output("--state", c->state, OUTPUT_STATE, c->force);
    if (code != EXIT_GOOD)
        return code;
    const wisp_status status = wisp_session_load(session, c->state, &error);
    return status == WISP_OK || status == WISP_ERROR_NOT_FOUND ? EXIT_GOOD : complain_of(&error);
}

static int generate(const struct command *c, wisp_session *session, const wisp_model *model) {
    wisp_error error;
    if (c->model.kv_memory &&
        wisp_session_limit_kv_memory(session, c->model.kv_memory, NULL, &error) != WISP_OK)
        return complain_of(&error);
    if (c->model.prompt_cache &&
        wisp_session_use_prompt_cache(session, c->model.prompt_cache, c->model.prompt_cache_size,
                                      &error) != WISP_OK)
        return complain_of(&error);
    if (c->picture && wisp_session_watch_attention(session, &error) != WISP_OK)
        return complain_of(&error);
    int code = c->state ? load_state(c, session) : EXIT_GOOD;
    if (code == EXIT_GOOD && c->picture)
        code = check_output("--attention-picture", c->picture, OUTPUT_PICTURE, c->force);
    if (code != EXIT_GOOD)
        return code;
    if (chat_is_asked_for(&c->chat))
        code = chat_run(&c->chat, model, session, &c->generate.options,
                        c->stats ? print_stats : NULL, measuring_threads(c));
    else
        code = c->data ? generate_all(c, session) : generate_text(c, session);
    if (c->stats) {
        print_experts(model);
        print_neurons(model);
    }
    if (c->stats || c->model.verbose)
        report_damage(session);
    if (code == EXIT_GOOD && c->picture)
        code = attention_picture_write(session, c->picture);
    /* A text that was interrupted is kept as far as it came. */
    if (c->state && (code == EXIT_GOOD || code == EXIT_INTERRUPTED) &&
        wisp_session_save(session, c->state, &error) != WISP_OK)
        return complain_of(&error);
    return code;
}

int command_generate(int argc, char **argv) {
    struct command c = {.model = {.generates = true}, .length_penalty = 1};
    wisp_model *model = NULL;
    wisp_session *session = NULL;
    wisp_grammar *grammar = NULL;
    int code = generate_arguments_open(&c.generate, argc) ? EXIT_GOOD : EXIT_FAILED;
    if (code == EXIT_GOOD && take_options(&this_command, &c, argc, argv, &code)) {
        code = check_usage(&c);
        if (code == EXIT_GOOD)
            code = open_grammar(&c, &grammar);
        c.generate.options.grammar = grammar;
        if (code == EXIT_GOOD)
            code = open_model(&c.model, &model, &session);
    }
    if (session) {
        watch_signals(session);
        code = generate(&c, session, model);
        watch_signals(NULL);
    }
    wisp_session_close(session);
    wisp_model_close(model);
    wisp_grammar_close(grammar);
    generate_arguments_close(&c.generate);
    return code;
}
