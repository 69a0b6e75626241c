/* SPDX-License-Identifier: Apache-2.0
 * What the commands of the wisp program share. */
#ifndef WISP_CLI_CLI_H
#define WISP_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>

#include "wisp.h"

enum exit_code {
    EXIT_GOOD = 0,
    EXIT_FAILED = 1,        /* reading, writing or memory */
    EXIT_USAGE = 2,         /* the command line */
    EXIT_MODEL = 3,         /* the model is missing, malformed or not supported */
    EXIT_INPUT = 4,         /* a line of the input is malformed */
    EXIT_INTERRUPTED = 130, /* Ctrl-C, as shells report it */
    EXIT_CLOSED_PIPE = 141  /* nobody reads the output any more, as shells report it */
};

int command_embed(int argc, char **argv);
int command_tokenize(int argc, char **argv);
int command_similarity(int argc, char **argv);
int command_convert(int argc, char **argv);
int command_calibrate(int argc, char **argv);
int command_inspect(int argc, char **argv);
int command_eval(int argc, char **argv);

/* Prints "wisp: ..." to stderr. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints the error and returns the exit code that fits it. */
int complain_of(const wisp_error *error);

/* Says that `value` is none of the `choices` of `option`, and returns EXIT_USAGE. */
int complain_of_choice(const char *option, const char *value, const char *choices);

/* Says the same where the choices are the names that the library gives by index. */
int complain_of_name(const char *option, const char *value, const char *(*name_of)(size_t index));

/* A whole number from 1 to `most`; complains and returns false otherwise. */
bool parse_count(const char *option, const char *text, unsigned long most, unsigned long *value);

/* A number above 0 and below 1, as above. */
bool parse_share(const char *option, const char *text, double *value);

/* ---- model ---------------------------------------------------------------------------------- */

/* The options that every command with a model takes. */
struct model_arguments {
    const char *path; /* NULL: the default model */
    wisp_compute compute;
    const char *kernels;
    wisp_predictor predictor;
    double sparsity; /* 0: what the model says */
    unsigned long threads;
    bool trace;  /* the session keeps what --trace writes */
    bool recall; /* and counts what --recall prints */
};

/* --model, --compute, --cpu and --threads, for getopt_long. */
enum {
    OPTION_MODEL = 'm',
    OPTION_THREADS = 't',
    OPTION_COMPUTE = 1000,
    OPTION_CPU,
    OPTION_PREDICTOR,
    OPTION_SPARSITY
};

#define MODEL_OPTIONS                                                                              \
    {"model", required_argument, NULL, OPTION_MODEL},                                              \
        {"threads", required_argument, NULL, OPTION_THREADS},                                      \
        {"compute", required_argument, NULL, OPTION_COMPUTE},                                      \
        {"predictor", required_argument, NULL, OPTION_PREDICTOR},                                  \
        {"sparsity", required_argument, NULL, OPTION_SPARSITY}, {                                  \
        "cpu", required_argument, NULL, OPTION_CPU                                                 \
    }

#define MODEL_HELP                                                                                 \
    "  -m, --model PATH       GGUF file or Hugging Face folder (default: $WISP_MODEL, else the\n"  \
    "                         model that comes with wisp)\n"                                       \
    "  -t, --threads N        threads to compute with (default: the number of cores)\n"            \
    "      --compute MODE     f32, int8 or auto: int8 where the file is quantised (default)\n"     \
    "      --predictor NAME   dense, exact, lowrank, sentence or auto: which neurons are\n"        \
    "                         computed (default: what is faster: lowrank where calibrated, else\n" \
    "                         exact with ReLU, else dense)\n"                                      \
    "      --sparsity SHARE   of neurons to leave out, for lowrank and sentence (default: what\n"  \
    "                         the model says)\n"                                                   \
    "      --cpu SET          kernels to use: see wisp --version (default: the fastest)\n"

/* Takes one of the options above; sets *code and returns false where its value is wrong. */
bool take_model_option(struct model_arguments *arguments, int option, const char *value, int *code);

/* The number of cores. */
unsigned long default_threads(void);

/* Opens model and session; an exit code, after complaining, where that fails. */
int open_model(const struct model_arguments *arguments, wisp_model **model, wisp_session **session);

/* ---- interruption and progress -------------------------------------------------------------- */

/* From now on Ctrl-C cancels the session (which may be NULL) and a second one ends the program;
 * a closed pipe is an error of the write, not a signal. */
void watch_signals(wisp_session *session);

bool was_interrupted(void);

/* Waits until a read from the descriptor would not; false where Ctrl-C came first. */
bool wait_readable(int descriptor);

/* A line on stderr that follows long work, where stderr is a terminal. */
struct progress {
    const char *what; /* "texts", "tensors" */
    double started, shown;
    bool visible;
};

void progress_start(struct progress *progress, const char *what);

/* `fraction` of the whole is done, or negative where that is not known. */
void progress_show(struct progress *progress, size_t done, double fraction);

void progress_end(struct progress *progress);

#endif
