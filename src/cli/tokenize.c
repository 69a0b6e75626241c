/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/output.h"

static const char help[] =
    "usage: wisp tokenize [OPTION]... [FILE | - | --text TEXT]...\n"
    "\n"
    "Writes the token ids of each text as a line with a JSON array. Special tokens are included.\n"
    "Of a model that embeds, the ids are truncated to the model's limit.\n"
    "\n"
    "      --text TEXT        tokenise this text (may be given more than once)\n"
    "      --input FORMAT     lines (default), or ndjson: each line is a JSON string or an object\n"
    "                         with a string \"text\"\n"
    "  -m, --model PATH       GGUF file or Hugging Face folder (default: $WISP_MODEL, else the\n"
    "                         model that comes with wisp)\n"
    "  -h, --help             this text\n"
    "\n"
    "Exit codes: see wisp embed --help.\n";

enum { OPTION_TEXT = 256, OPTION_INPUT };

static const struct option options[] = {{"text", required_argument, NULL, OPTION_TEXT},
                                        {"input", required_argument, NULL, OPTION_INPUT},
                                        {"model", required_argument, NULL, OPTION_MODEL},
                                        {"help", no_argument, NULL, 'h'},
                                        {0}};

static int parse(struct model_arguments *model, struct input *input, bool *wants_help, int argc,
                 char **argv) {
    int option, code = EXIT_GOOD;
    while (code == EXIT_GOOD && (option = getopt_long(argc, argv, "-m:h", options, NULL)) != -1) {
        if (option == 1) {
            input_add(input, optarg, NULL);
        } else if (option == OPTION_TEXT) {
            input_add(input, NULL, optarg);
        } else if (option == 'h') {
            *wants_help = true;
        } else if (option == OPTION_INPUT) {
            input->ndjson = strcmp(optarg, "ndjson") == 0;
            if (!input->ndjson && strcmp(optarg, "lines") != 0)
                code = complain_of_choice("input", optarg, "lines, ndjson");
        } else if (!take_model_option(model, option, optarg, &code)) {
            return code;
        } else {
            code = EXIT_GOOD;
        }
    }
    for (; optind < argc; optind++)
        input_add(input, argv[optind], NULL);
    if (input->n_items == 0)
        input_add(input, "-", NULL);
    return code;
}

/* The ids of a text, with room that grows. */
struct ids {
    int32_t *data;
    size_t capacity;
};

static int print_ids(const wisp_model *model, wisp_text text, struct ids *ids) {
    size_t count;
    wisp_error error;
    if (wisp_tokenize(model, text, ids->data, ids->capacity, &count, &error) != WISP_OK)
        return complain_of(&error);
    if (count > ids->capacity) {
        int32_t *data = realloc(ids->data, count * sizeof *data);
        if (!data) {
            complain("out of memory");
            return EXIT_FAILED;
        }
        ids->data = data;
        ids->capacity = count;
        return print_ids(model, text, ids);
    }
    fputc('[', program_output);
    for (size_t i = 0; i < count; i++)
        fprintf(program_output, "%s%d", i ? "," : "", ids->data[i]);
    fputs("]\n", program_output);
    return EXIT_GOOD;
}

static int tokenize_all(const wisp_model *model, struct input *input) {
    struct batch *batch = calloc(1, sizeof *batch);
    struct ids ids = {0};
    int code = batch ? EXIT_GOOD : EXIT_FAILED;
    if (code != EXIT_GOOD)
        complain("out of memory");
    while (code == EXIT_GOOD) {
        code = input_next(input, batch);
        int printed = EXIT_GOOD;
        for (size_t i = 0; i < batch->n && printed == EXIT_GOOD; i++)
            printed = print_ids(model, batch->texts[i], &ids);
        if (printed == EXIT_GOOD)
            printed = finish_output();
        code = printed != EXIT_GOOD ? printed : code;
        if (batch->n == 0)
            break;
    }
    if (batch)
        arena_release(&batch->arena);
    free(batch);
    free(ids.data);
    return code;
}

int command_tokenize(int argc, char **argv) {
    struct model_arguments arguments = {.threads = 1};
    struct input input;
    bool wants_help = false;
    wisp_model *model = NULL;
    wisp_session *session = NULL;
    if (!input_open(&input, (size_t)argc))
        return EXIT_FAILED;
    int code = parse(&arguments, &input, &wants_help, argc, argv);
    if (code == EXIT_GOOD && wants_help)
        fputs(help, program_output);
    else if (code == EXIT_GOOD)
        code = open_model(&arguments, &model, &session);
    if (code == EXIT_GOOD && session) {
        watch_signals(NULL);
        code = tokenize_all(model, &input);
    }
    wisp_session_close(session);
    wisp_model_close(model);
    input_close(&input);
    return code;
}
