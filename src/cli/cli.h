/* SPDX-License-Identifier: Apache-2.0
 * Functions that the commands of the wisp program share: errors, options, opening a model,
 * interruption and progress. */
#ifndef WISP_CLI_CLI_H
#define WISP_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/console.h"
#include "wisp.h"

int command_embed(int argc, char **argv);
int command_tokenize(int argc, char **argv);
int command_generate(int argc, char **argv);
int command_similarity(int argc, char **argv);
int command_index(int argc, char **argv);
int command_search(int argc, char **argv);
int command_convert(int argc, char **argv);
int command_quantize(int argc, char **argv);
int command_calibrate(int argc, char **argv);
int command_inspect(int argc, char **argv);
int command_eval(int argc, char **argv);

struct named_command {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is the name; returns an exit code */
};

/* The commands of this build of the program. The last has no name. */
extern const struct named_command program_commands[];

/* Prints the message of the error and returns the exit code for it. */
int complain_of(const wisp_error *error);

/* Prints that `option` must be one of the `choices` and not `value`. Returns EXIT_USAGE. */
int complain_of_choice(const char *option, const char *value, const char *choices);

/* Calls complain_of_choice with all names that a function of the library returns, such as
 * wisp_compute_name. */
int complain_of_name(const char *option, const char *value, const char *(*name_of)(size_t index));

/* Parses a whole number from 1 to `most`. Complains and returns false where `text` is none. */
bool parse_count(const char *option, const char *text, unsigned long most, unsigned long *value);

/* Parses a number of bytes, at least 1: "500000", "300K", "8M", "1.5G", in powers of 1000.
 * Complains and returns false where `text` is none. */
bool parse_bytes(const char *option, const char *text, unsigned long long *value);

/* Parses a number. Complains and returns false where `text` is none. */
bool parse_number(const char *option, const char *text, float *value);

/* Parses a number that as a float is above 0 and below 1. Complains and returns false where `text`
 * is none. */
bool parse_share(const char *option, const char *text, double *value);

/* Parses the --format of commands that print a table or JSON. Complains and returns false where
 * `name` is neither. */
bool parse_format(const char *name, bool *json);

/* Complains and returns false where the path is empty. `what` names the argument. */
bool check_path(const char *what, const char *path);

/* Checks that the file at `path` can be written and is not the standard output, too. Returns an
 * exit code, after complaining where it is not EXIT_GOOD. */
int check_output(const char *what, const char *path);

/* ---- model ---------------------------------------------------------------------------------- */

/* The options that every command with a model takes. */
struct model_arguments {
    const char *path; /* NULL: the default model */
    wisp_compute compute;
    const char *kernels;
    wisp_predictor predictor;
    double sparsity;       /* 0: the model's default */
    unsigned long threads; /* 0: one for each core */
    wisp_cache_type cache_type;
    bool trace;                 /* the session keeps the times that --trace writes */
    bool recall;                /* the session counts what --recall prints */
    bool generates;             /* the default model is the one that generates text */
    bool verbose;               /* open_model prints what --verbose promises */
    bool hot_only, skip_absent; /* options of the library, of wisp embed */
    bool portable;              /* an option of the library */
    unsigned long long memory;
    const char *header_sha256;   /* an option of the library */
    bool offline;                /* use the cache alone for a model at a URL */
    struct remote_model *remote; /* receives what remote_embed needs for such a model. NULL: the
                                    whole file is fetched (cli/remote.h) */
};

/* Values of getopt_long for the options of MODEL_OPTIONS. */
enum {
    OPTION_MODEL = 'm',
    OPTION_THREADS = 't',
    OPTION_COMPUTE = 1000,
    OPTION_CPU,
    OPTION_PREDICTOR,
    OPTION_SPARSITY,
    OPTION_PORTABLE,
    OPTION_VERBOSE,
    OPTION_OFFLINE,
    OPTION_HEADER_SHA256,
    OPTION_CACHE_TYPE /* of CACHE_OPTION */
};

#define MODEL_OPTIONS                                                                              \
    {"model", required_argument, NULL, OPTION_MODEL},                                              \
        {"threads", required_argument, NULL, OPTION_THREADS},                                      \
        {"compute", required_argument, NULL, OPTION_COMPUTE},                                      \
        {"predictor", required_argument, NULL, OPTION_PREDICTOR},                                  \
        {"sparsity", required_argument, NULL, OPTION_SPARSITY},                                    \
        {"portable", no_argument, NULL, OPTION_PORTABLE},                                          \
        {"cpu", required_argument, NULL, OPTION_CPU},                                              \
        {"offline", no_argument, NULL, OPTION_OFFLINE},                                            \
        {"header-sha256", required_argument, NULL, OPTION_HEADER_SHA256}, {                        \
        "verbose", no_argument, NULL, OPTION_VERBOSE                                               \
    }

#define MODEL_HELP MODEL_HELP_OF("$WISP_MODEL")

#define MODEL_HELP_OF(variable)                                                                    \
    "  -m, --model PATH       GGUF file or Hugging Face folder (default: " variable ", else\n"     \
    "                         the model that comes with wisp); or the http(s):// address of a\n"   \
    "                         GGUF file, which is kept in a cache ($WISP_CACHE, else\n"            \
    "                         $XDG_CACHE_HOME/wisp, else ~/.cache/wisp) of at most\n"              \
    "                         $WISP_CACHE_BYTES (default: 16G)\n"                                  \
    "      --offline          of such a file use what is in the cache\n"                           \
    "      --header-sha256 HEX  refuse any file but that whose header has this SHA-256, as\n"      \
    "                         wisp inspect --verify prints it, and compare all other bytes\n"      \
    "                         with the digests in the header\n"                                    \
    "  -t, --threads N        threads to compute with (default: the number of cores)\n"            \
    "      --compute MODE     f32, int8 or auto, which is int8 where the file is quantised\n"      \
    "                         (default: auto)\n"                                                   \
    "      --predictor NAME   which neurons are computed: dense, exact, lowrank, sentence or\n"    \
    "                         auto, the fastest: lowrank of a calibrated model, else exact with\n" \
    "                         ReLU, else dense (default: auto)\n"                                  \
    "      --sparsity SHARE   of the neurons to skip, with lowrank and sentence (default: the\n"   \
    "                         model's)\n"                                                          \
    "      --portable         embed in int8 with the same bits on every machine, and in every\n"   \
    "                         engine of WebAssembly\n"                                             \
    "      --cpu SET          kernel set to use: see wisp --version (default: the fastest)\n"      \
    "      --verbose          print what is assumed where the model's file does not say, and "     \
    "what\n"                                                                                       \
    "                         the weights of dense layers became in memory\n"

/* The option of commands with a model that generates. */
#define CACHE_OPTION {"cache-type", required_argument, NULL, OPTION_CACHE_TYPE}

#define CACHE_HELP                                                                                 \
    "      --cache-type TYPE  f32, f16 or int8: how the keys and values of the text are kept.\n"   \
    "                         f16 takes half the memory of f32, int8 28 % (default: f32)\n"

/* Takes an option of MODEL_OPTIONS, or CACHE_OPTION. Sets *code and returns false where its value
 * is wrong, after complaining. */
bool take_model_option(struct model_arguments *arguments, int option, const char *value, int *code);

/* Returns the number of cores. */
unsigned long default_threads(void);

/* Returns the number of threads that compute: those asked for, else as many as there are cores. */
uint32_t threads_of(const struct model_arguments *arguments);

/* Opens model and session. Returns an exit code, after complaining where it is not EXIT_GOOD. */
int open_model(const struct model_arguments *arguments, wisp_model **model, wisp_session **session);

/* ---- interruption and progress -------------------------------------------------------------- */

/* Makes the first Ctrl-C cancel the session (which may be NULL) and the second end the program. A
 * request to terminate and the loss of the terminal do the same. */
void watch_signals(wisp_session *session);

/* Returns whether one of these signals has come. */
bool was_interrupted(void);

/* Forgets that Ctrl-C came and watches the signals again, so that the program can go on. Returns
 * false where it has to end, because it was asked to terminate. */
bool go_on_after_interrupt(void);

/* Waits until the descriptor has something to read. Returns false where Ctrl-C came before. */
bool wait_readable(int descriptor);

/* Progress of long work, shown in a line on stderr where that is a terminal. */
struct progress {
    const char *what; /* the things counted: "texts", "tensors" */
    double started, shown;
    bool visible;
};

void progress_start(struct progress *progress, const char *what);

/* Shows that `done` things are done, which are `fraction` of all. A negative fraction is unknown.
 */
void progress_show(struct progress *progress, size_t done, double fraction);

/* Shows that `done` of `total` things are done. `progress` is a struct progress: the function is
 * what wisp_convert calls. Returns false where Ctrl-C came. */
bool progress_of_total(void *progress, size_t done, size_t total);

/* Removes the line. */
void progress_end(struct progress *progress);

#endif
