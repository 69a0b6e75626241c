/* SPDX-License-Identifier: Apache-2.0
 * wisp pull: fetches models into the caches from which all commands take them. */
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/hub_models.h"
#include "cli/options.h"
#include "cli/remote.h"
#include "http/hub_names.h"

static const char usage[] =
    "usage: wisp pull [OPTION]... NAME...\n"
    "\n"
    "Fetches models, unless they are there, and prints the path of each. NAME is\n"
    "hf:owner/name[@revision][/file] on the Hugging Face Hub, or the http(s):// address of a GGUF\n"
    "file. Of a repository comes its GGUF file, of several the one of type Q8_0 or the next best;\n"
    "else its configuration, tokenizer and weights. What is interrupted continues the next time.\n"
    "Every command takes these names for a model, and fetches what is absent.\n"
    "\n";

struct arguments {
    bool folder, json;
};

#define ARGUMENTS struct arguments

static const struct command_option options[] = {
    OPTION(NONE, folder, "folder", 0, NULL,
           "of a repository that has both, fetch the weights of training and not\n"
           "the GGUF file, as wisp convert does"),
    OPTION(NONE, json, "json", 0, NULL, "print a JSON array of objects"),
    LAST_OPTION,
};

static const struct command_line this_command = {
    usage, options, 17,
    "\n"
    "Variables: HF_TOKEN for private and gated models, HF_ENDPOINT for another server, "
    "HF_HUB_CACHE\n"
    "or HF_HOME for another folder, HF_HUB_OFFLINE=1 to fetch nothing, CURL_CA_BUNDLE, "
    "https_proxy.\n"
    "\n"
    "Examples:\n"
    "  wisp pull hf:Qwen/Qwen3-0.6B-GGUF\n"
    "  wisp generate --model hf:Qwen/Qwen3-0.6B-GGUF --text 'Once upon a time'\n"
    "\n"
    "Exit codes: see wisp embed --help.\n",
    NULL};

/* Fetches the file at an address, by opening it. */
static wisp_status pull_url(const char *url, wisp_error *error) {
    const struct model_arguments arguments = {0};
    wisp_model *model = NULL;
    const wisp_status status = remote_open(url, &arguments, NULL, &model, error);
    wisp_model_close(model);
    return status;
}

static int pull(const char *name, bool folder, bool json) {
    char path[PATH_MAX];
    const char *found = name;
    wisp_error error;
    const bool is_hub = hub_is_name(name);
    if (!is_hub && !is_url(name)) {
        complain("pull: %s: neither hf:owner/name nor an http(s):// address", name);
        return EXIT_USAGE;
    }
    const wisp_status status = is_hub ? find_model(name, folder ? HUB_FOLDER_FIRST : HUB_GGUF_FIRST,
                                                   false, path, &found, &error)
                                      : pull_url(name, &error);
    if (status != WISP_OK)
        return complain_of(&error);
    const wisp_text shown = {found, is_hub ? strlen(found) : strcspn(found, "?#")};
    if (json) {
        fputs("{\"name\": ", program_output);
        print_json_string(program_output, is_hub ? wisp_text_of(name) : shown);
        if (is_hub) {
            fputs(", \"path\": ", program_output);
            print_json_string(program_output, shown);
        }
        fputc('}', program_output);
    } else {
        print_text(program_output, shown, SIZE_MAX);
        fputc('\n', program_output);
    }
    return finish_output();
}

int command_pull(int argc, char **argv) {
    struct arguments a = {0};
    int code;
    if (!take_options(&this_command, &a, argc, argv, &code))
        return code;
    if (optind == argc) {
        complain("pull: give a name (see --help)");
        return EXIT_USAGE;
    }
    watch_signals(NULL);
    for (int i = optind; i < argc && code == EXIT_GOOD; i++) {
        if (a.json)
            fputs(i == optind ? "[" : ",\n ", program_output);
        code = pull(argv[i], a.folder, a.json);
    }
    if (a.json)
        fputs("]\n", program_output);
    return code;
}
