/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static const char help[] =
    "usage: wisp COMMAND [OPTION]...\n"
    "\n"
    "  wisp embed       write the embeddings of texts as text, JSON, NPY or raw floats\n"
    "  wisp similarity  find the lines nearest in meaning to a query, or score pairs of texts\n"
    "  wisp rerank      find the lines that answer a query best, with a cross-encoder\n"
    "  wisp index       make an index of texts, add to it and remove from it\n"
    "  wisp search      find the entries of an index nearest in meaning to queries\n"
    "  wisp generate    continue a text, or talk\n"
    "  wisp tokenize    write the token ids of texts, or the text of ids\n"
    "  wisp convert     convert a model to GGUF\n"
    "  wisp quantize    quantise a model as llama.cpp does, or measure what that loses\n"
    "  wisp calibrate   make a model sparse: let it compute only the neurons that matter\n"
    "  wisp inspect     list the metadata and tensors of a model\n"
    "  wisp eval        measure the quality of a model on your data\n"
    "  wisp serve       answer requests over HTTP\n"
    "  wisp --version   print build, CPU features and kernel sets\n"
    "\n"
    "wisp COMMAND --help lists the options of a command.\n";

static int print_version(void) {
    const char *name;
    fprintf(program_output, "%s\n", wisp_build());
    fprintf(program_output, "cpu features: %s\n",
            *wisp_cpu_features() ? wisp_cpu_features() : "none used");
    fputs("kernel sets: ", program_output);
    for (size_t i = 0; (name = wisp_kernels_name(i)) != NULL; i++)
        fprintf(program_output, "%s%s", i ? ", " : "", name);
    fputs(" (the first is the default)\n", program_output);
    return EXIT_GOOD;
}

static int run(int argc, char **argv) {
    if (argc < 2) {
        fputs(help, stderr);
        return EXIT_USAGE;
    }
    for (size_t i = 0; program_commands[i].name; i++)
        if (strcmp(argv[1], program_commands[i].name) == 0) {
            static char prefix[] = "wisp"; /* of getopt's messages, as of complain's */
            argv[1] = prefix;
            return program_commands[i].run(argc - 1, argv + 1);
        }
    if (strcmp(argv[1], "--version") == 0)
        return print_version();
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        fputs(help, program_output);
        return EXIT_GOOD;
    }
    complain("there is no command %s (see wisp --help)", argv[1]);
    return EXIT_USAGE;
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
