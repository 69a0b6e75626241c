/* SPDX-License-Identifier: Apache-2.0
 * Functions that the commands of the wisp program share: errors, options, opening a model
 * and interruption. */
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
int command_rerank(int argc, char **argv);
int command_classify(int argc, char **argv);
int command_index(int argc, char **argv);
int command_search(int argc, char **argv);
int command_convert(int argc, char **argv);
int command_quantize(int argc, char **argv);
int command_calibrate(int argc, char **argv);
int command_inspect(int argc, char **argv);
int command_eval(int argc, char **argv);
int command_serve(int argc, char **argv);
int command_pull(int argc, char **argv);
int command_list(int argc, char **argv);
int command_doctor(int argc, char **argv);

struct named_command {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is the name; returns an exit code */
    const char *summary;               /* of wisp --help */
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

/* Parses a whole number from `least` to `most`. Complains and returns false if `text` is not one.
 */
bool parse_whole(const char *option, const char *text, unsigned long least, unsigned long most,
                 unsigned long *value);

/* Parses a number of bytes, at least 1: "500000", "300K", "8M", "1.5G", in powers of 1000.
 * Complains and returns false if `text` is none. */
bool parse_bytes(const char *option, const char *text, unsigned long long *value);

/* Parses a number. Complains and returns false if `text` is none. */
bool parse_number(const char *option, const char *text, float *value);

/* Parses a number that as a float is above 0 and below 1. Complains and returns false if `text`
 * is none. */
bool parse_share(const char *option, const char *text, double *value);

/* Parses the --format of commands that print a table or JSON. Complains and returns false if
 * `name` is neither. */
bool parse_format(const char *name, bool *json);

/* Complains and returns false if the path is empty. `what` names the argument. */
bool check_path(const char *what, const char *path);

/* ---- model ---------------------------------------------------------------------------------- */

/* The options that every command with a model takes (cli/model_options.h). */
struct model_arguments {
    const char *path; /* NULL: the default model */
    wisp_compute compute;
    const char *kernels;
    wisp_predictor predictor;
    double sparsity;       /* 0: the model's default */
    unsigned long threads; /* 0: one for each core */
    wisp_cache_type cache_type;
    const char *attention;
    const char *prompt_cache; /* a folder; NULL: none */
    unsigned long long prompt_cache_size;
    const char *vector_cache; /* a folder; NULL: none */
    unsigned long long vector_cache_size;
    unsigned long long kv_memory; /* 0: no limit */
    bool trace;                   /* the session keeps the times that --trace writes */
    bool recall;                  /* the session counts what --recall prints */
    bool generates;               /* the default model is the one that generates text */
    bool verbose;                 /* open_model prints what --verbose promises */
    bool hot_only, skip_absent;   /* options of the library, of wisp embed */
    bool portable;                /* an option of the library */
    unsigned long long memory;
    const char *header_sha256;   /* an option of the library */
    const char *device;          /* another */
    bool offline;                /* use only the cache for a model at a URL */
    struct remote_model *remote; /* receives what remote_embed needs for such a model. NULL: the
                                    whole file is fetched (cli/remote.h) */
};

/* Finds a file that comes with wisp: in this folder of a checkout, or in share/wisp of an
 * installation. Returns false if it is in neither. */
bool find_shipped(const char *folder, const char *name, char *path, size_t capacity);

/* Returns whether a model is named by an http(s):// address. */
bool is_url(const char *path);

/* Returns the number of threads that compute: those asked for, else wisp_usable_threads. */
uint32_t threads_of(const struct model_arguments *arguments);

/* Opens model and session. Returns an exit code, after complaining if it is not EXIT_GOOD. */
int open_model(const struct model_arguments *arguments, wisp_model **model, wisp_session **session);

/* Opens model and session and runs a command with them, of which a signal cancels the session.
 * Returns an exit code, after complaining if it is not EXIT_GOOD. */
int run_with_model(const struct model_arguments *model, void *arguments,
                   int (*command)(void *arguments, const wisp_model *model, wisp_session *session));

/* Opens the model at a path or URL or of the Hub, and its session, by the other arguments. On
 * failure the model, and the session, may be open. */
wisp_status open_model_at(const struct model_arguments *arguments, const char *given,
                          wisp_model **model, wisp_session **session, wisp_error *error);

/* Warns of texts that the session has cut to the length that the model reads, and of `others`, and
 * adds `advice`. */
void warn_of_cut_texts(const wisp_session *session, const wisp_model *model, uint64_t others,
                       const char *advice);

/* ---- interruption --------------------------------------------------------------------------- */

/* Makes the first Ctrl-C cancel the session (which may be NULL) and the second end the program. A
 * request to terminate and the loss of the terminal do the same. */
void watch_signals(wisp_session *session);

/* Returns whether one of these signals has arrived. */
bool was_interrupted(void);

/* Forgets that Ctrl-C came and watches the signals again, so that the program can go on. Returns
 * false if it has to end, because it was asked to terminate. */
bool go_on_after_interrupt(void);

/* Waits until the descriptor has something to read. Returns false if Ctrl-C came before. */
bool wait_readable(int descriptor);

#endif
