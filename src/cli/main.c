/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/spelling.h"

static void print_help(FILE *output) {
    fputs("usage: wisp COMMAND [OPTION]...\n\n", output);
    for (const struct named_command *c = program_commands; c->name; c++)
        fprintf(output, "  wisp %-11s %s\n", c->name, c->summary);
    fputs("  wisp --version   print build, CPU features, kernel sets and devices\n"
          "\n"
          "wisp help COMMAND lists the options of a command.\n",
          output);
}

static int print_version(void) {
    const char *name;
    fprintf(program_output, "%s\n", wisp_build());
    fprintf(program_output, "cpu features: %s\n",
            *wisp_cpu_features() ? wisp_cpu_features() : "none used");
    fputs("kernel sets: ", program_output);
    for (size_t i = 0; (name = wisp_kernels_name(i)) != NULL; i++)
        fprintf(program_output, "%s%s", i ? ", " : "", name);
    fputs(" (the first is the default)\ndevices: cpu", program_output);
    char gpu[WISP_DEVICE_BYTES];
    for (uint32_t i = 0; wisp_cuda_device(i, gpu); i++)
        fprintf(program_output, ", cuda (%s)", gpu);
    fputs("\n", program_output);
    return EXIT_GOOD;
}

/* Runs a command with its arguments. */
static int run_command(const char *name, int argc, char **argv) {
    struct spelling spelling = {.typed = name};
    for (const struct named_command *c = program_commands; c->name; c++) {
        if (strcmp(name, c->name) == 0)
            return c->run(argc, argv);
        spelling_compare(&spelling, c->name);
    }
    if (spelling.nearest)
        complain("there is no command %s; did you mean %s?", name, spelling.nearest);
    else
        complain("there is no command %s (see wisp --help)", name);
    return EXIT_USAGE;
}

static bool is_one_of(const char *argument, const char *letter, const char *name) {
    return strcmp(argument, letter) == 0 || strcmp(argument, name) == 0;
}

static int run(int argc, char **argv) {
    static char help_option[] = "--help";
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    if (is_one_of(argv[1], "-V", "--version"))
        return print_version();
    const bool is_help = strcmp(argv[1], "help") == 0;
    if (is_help && argc > 2) {
        char *arguments[] = {argv[0], help_option, NULL};
        return run_command(argv[2], 2, arguments);
    }
    if (is_help || is_one_of(argv[1], "-h", "--help")) {
        print_help(program_output);
        return EXIT_GOOD;
    }
    return run_command(argv[1], argc - 1, argv + 1);
}

int main(int argc, char **argv) {
    /* A write to a closed pipe, or past the limit on the size of files, is an error and no signal:
     * temporary files are deleted then. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    if (!console_open()) {
        complain("cannot prepare the standard streams");
        return EXIT_FAILED;
    }
    const int code = run(argc, argv);
    return code == EXIT_GOOD ? finish_output() : code;
}
