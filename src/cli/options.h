/* SPDX-License-Identifier: Apache-2.0
 * The options of a command as one table, by which arguments are parsed and --help is printed. */
#ifndef WISP_CLI_OPTIONS_H
#define WISP_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

/* The kind of an option's value, and the type of the field that stores it. */
enum value_kind {
    VALUE_NONE,    /* the option has none: bool, which becomes true */
    VALUE_TEXT,    /* const char * */
    VALUE_COUNT,   /* a whole number from `least` to `most`: unsigned long */
    VALUE_COUNT32, /* likewise: uint32_t */
    VALUE_BYTES,   /* as parse_bytes reads them: unsigned long long */
    VALUE_SHARE,   /* above 0 and below 1: double */
    VALUE_NUMBER,  /* float */
    VALUE_NONZERO, /* a number but 0, for which the option is left out: float */
    VALUE_FORMAT   /* table or json: bool, whether it is json */
};

struct command_option {
    const char *name; /* without the dashes; NULL: of a group */
    char letter;      /* 0: none */
    enum value_kind kind;
    size_t offset;     /* of the field in the command's arguments */
    const char *value; /* what --help calls the value; NULL: there is none */
    const char *help;  /* a line, and others that begin after a '\n' */
    unsigned long least, most;
    size_t given; /* of a const char * that becomes the name of the option; 0: none */
    /* Stores the value instead of what `kind` does. NULL: `kind` does. Returns EXIT_GOOD,
     * COMMAND_IS_DONE, or another exit code after complaining. */
    int (*take)(void *field, const char *value);
    const struct command_option
        *group; /* options of several commands, whose fields are from `offset` on. With `help`, the
                   text behind them, they are listed by --help-model and not by --help */
};

/* Rows of a table, whose last is LAST_OPTION, for fields of the type that the file defines
 * ARGUMENTS to be: of a kind without bounds, a count, and an option with a value that a function
 * takes. */
#define OPTION(kind, field, name, letter, value, help)                                             \
    {name, letter, VALUE_##kind, offsetof(ARGUMENTS, field), value, help, 0, 0, 0, NULL, NULL}
#define COUNT(field, least, most, name, letter, value, help)                                       \
    {name, letter, VALUE_COUNT, offsetof(ARGUMENTS, field), value, help, least, most, 0, NULL, NULL}
#define COUNT32(field, least, most, name, letter, value, help)                                     \
    {name, letter, VALUE_COUNT32, offsetof(ARGUMENTS, field), value, help, least, most,            \
     0,    NULL,   NULL}
#define TAKEN(take, field, name, letter, value, help)                                              \
    {name, letter, VALUE_TEXT, offsetof(ARGUMENTS, field), value, help, 0, 0, 0, take, NULL}
#define GROUP(field, table)                                                                        \
    {NULL, 0, VALUE_NONE, offsetof(ARGUMENTS, field), NULL, NULL, 0, 0, 0, NULL, table}
#define LAST_OPTION {.name = NULL}

/* The options of a model that --help leaves to --help-model, in a table of these. */
#define MODEL_GROUP(table, help) {NULL, 0, VALUE_NONE, 0, NULL, help, 0, 0, 0, NULL, table}

/* A function takes all arguments of a command, or of a group; without a value it gets NULL. */
#define TAKEN_BY_ALL(take, kind, name, letter, value, help)                                        \
    {name, letter, VALUE_##kind, 0, value, help, 0, 0, 0, take, NULL}

/* The field `given` becomes the name of the option. */
#define MARKED(given, kind, field, least, most, name, letter, value, help)                         \
    {name, letter, VALUE_##kind, offsetof(ARGUMENTS, field), value,                                \
     help, least,  most,         offsetof(ARGUMENTS, given), NULL,                                 \
     NULL}

/* Returned by `take` if nothing is left for the command to do. */
enum { COMMAND_IS_DONE = -1 };

/* A command as --help describes it. */
struct command_line {
    const char *usage; /* the text before the options */
    const struct command_option *options;
    int column;      /* where the descriptions of options begin */
    const char *end; /* the text after the options */
    /* Takes an argument that is not an option, in the order of all. NULL: these are left in argv,
     * from optind on. Returns as `take` does. */
    int (*argument)(void *arguments, const char *value);
};

/* Stores the values of a command's options: those of its table, --json if the table has --format,
 * --quiet and --help. Returns true, or false with the command's exit code in
 * *code, after printing the help or complaining. */
bool take_options(const struct command_line *line, void *arguments, int argc, char **argv,
                  int *code);

/* Returns whether an argument asks for the help of a command, as one may before the name of what
 * the command does. */
bool asks_for_help(const char *argument);

#endif
