/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/console.h"
#include "cli/whole_file.h"

static const char help[] =
    "usage: wisp generate [OPTION]... [FILE | - | --text TEXT]\n"
    "\n"
    "Continues a prompt and writes the text as it is generated. Without FILE or --text the prompt\n"
    "is read from standard input. Ctrl-C ends the text. The default model is $WISP_GENERATOR, "
    "else\n"
    "the one that comes with wisp, which tells children's stories.\n"
    "\n"
    "      --text TEXT        the prompt\n"
    "  -n, --max-tokens N     generate at most N tokens (default: as many as fit the model)\n"
    "      --temperature T    0 takes the most likely token each time; 1 draws tokens by their\n"
    "                         probability; more is more random (default: 0)\n"
    "      --top-k K          draw from the K most likely tokens\n"
    "      --top-p P          draw from the fewest tokens whose probabilities reach P\n"
    "      --min-p P          draw from tokens at least P times as likely as the most likely one\n"
    "      --repetition-penalty X, --presence-penalty X, --frequency-penalty X\n"
    "                         make tokens that stand in the text already less likely\n"
    "      --seed N           of the random numbers: the same seed gives the same text (default: "
    "0)\n"
    "      --stop TEXT        end before this text (may be given more than once)\n"
    "      --echo             write the prompt first\n"
    "      --stats            write tokens, times and tokens per second to standard "
    "error\n" MODEL_HELP "  -h, --help             this text\n"
    "\n"
    "Exit codes: see wisp embed --help.\n";

enum {
    OPTION_TEXT = 256,
    OPTION_TEMPERATURE,
    OPTION_TOP_K,
    OPTION_TOP_P,
    OPTION_MIN_P,
    OPTION_REPETITION,
    OPTION_PRESENCE,
    OPTION_FREQUENCY,
    OPTION_SEED,
    OPTION_STOP,
    OPTION_ECHO,
    OPTION_STATS
};

static const struct option options[] = {
    {"text", required_argument, NULL, OPTION_TEXT},
    {"max-tokens", required_argument, NULL, 'n'},
    {"temperature", required_argument, NULL, OPTION_TEMPERATURE},
    {"top-k", required_argument, NULL, OPTION_TOP_K},
    {"top-p", required_argument, NULL, OPTION_TOP_P},
    {"min-p", required_argument, NULL, OPTION_MIN_P},
    {"repetition-penalty", required_argument, NULL, OPTION_REPETITION},
    {"presence-penalty", required_argument, NULL, OPTION_PRESENCE},
    {"frequency-penalty", required_argument, NULL, OPTION_FREQUENCY},
    {"seed", required_argument, NULL, OPTION_SEED},
    {"stop", required_argument, NULL, OPTION_STOP},
    {"echo", no_argument, NULL, OPTION_ECHO},
    {"stats", no_argument, NULL, OPTION_STATS},
    MODEL_OPTIONS,
    {"help", no_argument, NULL, 'h'},
    {0}};

struct command {
    struct model_arguments model;
    wisp_generate_options generate;
    const char **stops; /* [argc]: what generate.stop points to */
    const char *path;   /* of the prompt; "-": standard input */
    const char *text;   /* the prompt; NULL: it is read from `path` */
    bool echo, stats, wants_help;
};

static bool take_float(const char *option, const char *text, float *value) {
    char *end;
    *value = strtof(text, &end);
    if (end != text && *end == '\0')
        return true;
    complain("--%s %s: a number belongs here", option, text);
    return false;
}

/* Takes one option. Returns an exit code, after complaining where it is not EXIT_GOOD. */
static int take_option(struct command *c, int option) {
    wisp_sampling *s = &c->generate.sampling;
    const struct {
        int option;
        const char *name;
        float *value;
    } floats[] = {{OPTION_TEMPERATURE, "temperature", &s->temperature},
                  {OPTION_TOP_P, "top-p", &s->top_p},
                  {OPTION_MIN_P, "min-p", &s->min_p},
                  {OPTION_REPETITION, "repetition-penalty", &s->repetition_penalty},
                  {OPTION_PRESENCE, "presence-penalty", &s->presence_penalty},
                  {OPTION_FREQUENCY, "frequency-penalty", &s->frequency_penalty}};
    unsigned long count;
    int code = EXIT_GOOD;
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        if (option == floats[i].option)
            return take_float(floats[i].name, optarg, floats[i].value) ? EXIT_GOOD : EXIT_USAGE;
    switch (option) {
    case 1:
        c->path = optarg;
        return EXIT_GOOD;
    case OPTION_TEXT:
        c->text = optarg;
        return EXIT_GOOD;
    case 'n':
        if (!parse_count("max-tokens", optarg, UINT32_MAX, &count))
            return EXIT_USAGE;
        c->generate.max_tokens = (uint32_t)count;
        return EXIT_GOOD;
    case OPTION_TOP_K:
        if (!parse_count("top-k", optarg, UINT32_MAX, &count))
            return EXIT_USAGE;
        s->top_k = (uint32_t)count;
        return EXIT_GOOD;
    case OPTION_SEED:
        if (strcmp(optarg, "0") == 0)
            count = 0;
        else if (!parse_count("seed", optarg, ULONG_MAX, &count))
            return EXIT_USAGE;
        s->seed = count;
        return EXIT_GOOD;
    case OPTION_STOP:
        if (!*optarg) {
            complain("--stop: an empty text would end every text");
            return EXIT_USAGE;
        }
        c->stops[c->generate.stops++] = optarg;
        return EXIT_GOOD;
    case OPTION_ECHO:
        c->echo = true;
        return EXIT_GOOD;
    case OPTION_STATS:
        c->stats = true;
        return EXIT_GOOD;
    case 'h':
        c->wants_help = true;
        return EXIT_GOOD;
    default:
        return take_model_option(&c->model, option, optarg, &code) ? EXIT_GOOD : code;
    }
}

/* Writes text. Returns false where it cannot be written. */
static bool write_text(int *code, wisp_text text) {
    fwrite(text.bytes, 1, text.length, program_output);
    *code = finish_output();
    return *code == EXIT_GOOD;
}

/* Writes text as it is generated. */
static bool write_piece(void *context, const wisp_piece *piece) {
    return piece->text.length == 0 || write_text(context, piece->text);
}

static void print_stats(const wisp_generation *r) {
    const size_t computed = r->prompt_tokens - r->reused_tokens;
    fprintf(stderr, "prompt: %zu tokens in %.3f s, %.1f tokens/s\n", r->prompt_tokens,
            r->prompt_seconds, (double)computed / r->prompt_seconds);
    fprintf(stderr, "text:   %zu tokens in %.3f s, %.1f tokens/s\n", r->tokens, r->seconds,
            (double)r->tokens / r->seconds);
}

static int run(const struct command *c, wisp_session *session) {
    char *read = NULL;
    size_t length = c->text ? strlen(c->text) : 0;
    int code = c->text ? EXIT_GOOD : read_whole_file(c->path ? c->path : "-", &read, &length);
    const wisp_text prompt = {c->text ? c->text : read, length};
    wisp_generate_options generate = c->generate;
    int written = EXIT_GOOD;
    wisp_generation result;
    wisp_error error;
    generate.stop = c->stops;
    generate.piece = write_piece;
    generate.context = &written;
    if (code == EXIT_GOOD && c->echo)
        write_text(&written, prompt);
    if (code == EXIT_GOOD && written == EXIT_GOOD) {
        if (wisp_generate(session, prompt, &generate, &result, &error) != WISP_OK)
            code = complain_of(&error);
        if (code == EXIT_GOOD || code == EXIT_INTERRUPTED)
            write_text(&written, wisp_text_of("\n"));
        if (code == EXIT_GOOD && c->stats)
            print_stats(&result);
    }
    free(read);
    return code != EXIT_GOOD ? code : written;
}

int command_generate(int argc, char **argv) {
    struct command c = {.model = {.generates = true},
                        .stops = calloc((size_t)argc, sizeof *c.stops)};
    wisp_model *model = NULL;
    wisp_session *session = NULL;
    int option, code = EXIT_GOOD;
    if (!c.stops) {
        complain("out of memory");
        code = EXIT_FAILED;
    }
    while (code == EXIT_GOOD && (option = getopt_long(argc, argv, "-m:t:n:h", options, NULL)) != -1)
        code = take_option(&c, option);
    if (code == EXIT_GOOD && optind < argc)
        c.path = argv[optind];
    if (code == EXIT_GOOD && c.wants_help)
        fputs(help, program_output);
    else if (code == EXIT_GOOD)
        code = open_model(&c.model, &model, &session);
    if (session) {
        watch_signals(session);
        code = run(&c, session);
    }
    wisp_session_close(session);
    wisp_model_close(model);
    free(c.stops);
    return code;
}
