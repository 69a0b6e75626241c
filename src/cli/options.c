/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options.h"

#include <assert.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/spelling.h"

enum {
    MOST_OPTIONS = 64,
    ARGUMENT = 1,    /* of getopt_long: an argument that is not an option */
    FIRST_LONG = 256 /* and an index, of an option: beyond all letters */
};

/* All options of a command, with those of groups. */
struct list {
    const struct command_option *option[MOST_OPTIONS];
    size_t base[MOST_OPTIONS]; /* where its fields begin in the command's arguments */
    size_t n;
    size_t model, model_end;                  /* those that --help-model lists */
    const struct command_option *model_group; /* NULL: there are none */
};

static int take_quiet(void *field, const char *value) {
    (void)field;
    (void)value;
    program_is_quiet = true;
    return EXIT_GOOD;
}

/* Options that are not in the tables of commands. */
static const struct command_option json[] = {
    {.name = "json", .kind = VALUE_NONE, .help = "the same as --format json"}, LAST_OPTION};
static const struct command_option help_model[] = {
    {.name = "help-model", .kind = VALUE_NONE, .help = "list more options, of the model"},
    LAST_OPTION};
static const struct command_option help[] = {
    {.name = "quiet",
     .kind = VALUE_NONE,
     .help = "print results and errors, and neither progress nor remarks",
     .take = take_quiet},
    {.name = "help", .letter = 'h', .kind = VALUE_NONE, .help = "this text"},
    LAST_OPTION};

static void collect(struct list *list, const struct command_option *option, size_t base) {
    for (; option->name || option->group; option++) {
        if (option->group) {
            const size_t begin = list->n;
            collect(list, option->group, base + option->offset);
            if (option->help) {
                list->model = begin;
                list->model_end = list->n;
                list->model_group = option;
            }
            continue;
        }
        assert(list->n < MOST_OPTIONS);
        list->base[list->n] = base;
        list->option[list->n++] = option;
    }
}

static void print_option(const struct command_option *o, int column) {
    int used = o->letter ? fprintf(program_output, "  -%c, --%s", o->letter, o->name)
                         : fprintf(program_output, "      --%s", o->name);
    if (o->value)
        used += fprintf(program_output, " %s", o->value);
    for (const char *text = o->help;;) {
        const size_t length = strcspn(text, "\n");
        /* After a name too long for the column stand two blanks. */
        fprintf(program_output, "%*s%.*s\n", used < column ? column - used : 2, "", (int)length,
                text);
        if (text[length] == '\0')
            break;
        text += length + 1;
        used = 0;
    }
}

/* Returns the place of an option in the list, or list->n. */
static size_t find_option(const struct list *list, const char *name) {
    size_t i = 0;
    while (i < list->n && strcmp(list->option[i]->name, name) != 0)
        i++;
    return i;
}

static void collect_all(struct list *list, const struct command_option *own) {
    collect(list, own, 0);
    if (find_option(list, "format") < list->n && find_option(list, json->name) == list->n)
        collect(list, json, 0);
    if (list->model_group)
        collect(list, help_model, 0);
    collect(list, help, 0);
}

static void print_help(const struct command_line *line, const struct list *list) {
    fputs(line->usage, program_output);
    for (size_t i = 0; i < list->n; i++)
        if (i < list->model || i >= list->model_end)
            print_option(list->option[i], line->column);
    fputs(line->end, program_output);
}

static void print_help_of_model(const struct command_line *line, const struct list *list) {
    fputs("More options of commands that use a model:\n\n", program_output);
    for (size_t i = list->model; i < list->model_end; i++)
        print_option(list->option[i], line->column);
    if (list->model_group)
        fputs(list->model_group->help, program_output);
}

static bool parse_count32(const struct command_option *o, const char *text, uint32_t *value) {
    unsigned long count;
    if (!parse_whole(o->name, text, o->least, o->most, &count))
        return false;
    *value = (uint32_t)count;
    return true;
}

static bool parse_nonzero(const char *option, const char *text, float *value) {
    if (!parse_number(option, text, value))
        return false;
    if (*value != 0)
        return true;
    complain("--%s %s: expected a number above 0; leave the option out to switch it off", option,
             text);
    return false;
}

static bool parse_value(const struct command_option *o, const char *text, void *field) {
    switch (o->kind) {
    case VALUE_NONE:
        return *(bool *)field = true;
    case VALUE_TEXT:
        *(const char **)field = text;
        return true;
    case VALUE_COUNT:
        return parse_whole(o->name, text, o->least, o->most, field);
    case VALUE_COUNT32:
        return parse_count32(o, text, field);
    case VALUE_BYTES:
        return parse_bytes(o->name, text, field);
    case VALUE_SHARE:
        return parse_share(o->name, text, field);
    case VALUE_NUMBER:
        return parse_number(o->name, text, field);
    case VALUE_NONZERO:
        return parse_nonzero(o->name, text, field);
    case VALUE_FORMAT:
        return parse_format(text, field);
    }
    return false;
}

/* Returns an exit code, after complaining if it is not EXIT_GOOD, or COMMAND_IS_DONE. */
static int store(const struct command_option *o, char *arguments, const char *text) {
    if (o->given)
        *(const char **)(void *)(arguments + o->given) = o->name;
    if (o->take)
        return o->take(arguments + o->offset, text);
    return parse_value(o, text, arguments + o->offset) ? EXIT_GOOD : EXIT_USAGE;
}

/* Describes the options for getopt_long. */
static void describe(const struct list *list, struct option *longs, char *letters) {
    for (size_t i = 0; i < list->n; i++) {
        const struct command_option *o = list->option[i];
        *longs++ = (struct option){o->name, o->kind == VALUE_NONE ? no_argument : required_argument,
                                   NULL, FIRST_LONG + (int)i};
        if (o->letter) {
            *letters++ = o->letter;
            if (o->kind != VALUE_NONE)
                *letters++ = ':';
        }
    }
    *longs = (struct option){0};
    *letters = '\0';
}

/* Names the option that is meant by an argument that getopt_long has complained of, if it begins
 * with two dashes and is near to one. An abbreviation of several is near to none: getopt_long
 * names these. */
static void suggest(const struct list *list, const char *argument) {
    char typed[64] = "";
    if (strncmp(argument, "--", 2) == 0)
        snprintf(typed, sizeof typed, "%.*s", (int)strcspn(argument + 2, "="), argument + 2);
    struct spelling spelling = {.typed = typed};
    for (size_t i = 0; i < list->n && *typed; i++) {
        if (strncmp(typed, list->option[i]->name, strlen(typed)) == 0)
            return;
        spelling_compare(&spelling, list->option[i]->name);
    }
    if (spelling.nearest)
        complain("did you mean --%s?", spelling.nearest);
}

/* Takes what getopt_long has found; the last argument that it has read is `argument`. Returns as
 * `store` does. */
static int take_found(const struct command_line *line, const struct list *list, int found,
                      const char *argument, void *arguments) {
    size_t i = 0;
    if (line->argument && found == ARGUMENT)
        return line->argument(arguments, optarg);
    while (i < list->n && found != FIRST_LONG + (int)i && found != list->option[i]->letter)
        i++;
    if (i == list->n) { /* getopt_long has said what is wrong */
        suggest(list, argument);
        return EXIT_USAGE;
    }
    if (list->option[i] == &help[1])
        return print_help(line, list), COMMAND_IS_DONE;
    if (list->option[i] == help_model)
        return print_help_of_model(line, list), COMMAND_IS_DONE;
    const bool is_json = list->option[i] == json;
    if (is_json)
        i = find_option(list, "format");
    assert(i < list->n); /* --json of this file stands beside --format alone */
    return store(list->option[i], (char *)arguments + list->base[i], is_json ? json->name : optarg);
}

bool take_options(const struct command_line *line, void *arguments, int argc, char **argv,
                  int *code) {
    static char prefix[] = "wisp"; /* of getopt's messages, as of complain's */
    struct option longs[MOST_OPTIONS + 1];
    char letters[2 * MOST_OPTIONS + 2] = "-"; /* asks for the order of all arguments */
    struct list list = {.n = 0};
    int found;
    collect_all(&list, line->options);
    describe(&list, longs, letters + 1);
    argv[0] = prefix;
    *code = EXIT_GOOD;
    while (*code == EXIT_GOOD &&
           (found = getopt_long(argc, argv, letters + !line->argument, longs, NULL)) != -1)
        *code = take_found(line, &list, found, argv[optind - 1], arguments);
    for (; line->argument && *code == EXIT_GOOD && optind < argc; optind++) /* after "--" */
        *code = line->argument(arguments, argv[optind]);
    if (*code == EXIT_GOOD)
        return true;
    if (*code == COMMAND_IS_DONE)
        *code = EXIT_GOOD;
    return false;
}

bool asks_for_help(const char *argument) {
    return strcmp(argument, "-h") == 0 || strcmp(argument, "--help") == 0 ||
           strcmp(argument, "--help-model") == 0;
}
