/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/prompt.h"

#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

/* Writes the names of the model's prompts, separated by commas: "passage, query". A list that is
 * too long is cut. */
static void list_prompts(const wisp_model *model, char *names, size_t capacity) {
    static const char prefix[] = "wisp.prompt.";
    const char *key;
    char value[1];
    size_t used = 0;
    *names = '\0';
    for (size_t i = 0; wisp_model_metadata(model, i, &key, value, sizeof value); i++)
        if (strncmp(key, prefix, strlen(prefix)) == 0 && used < capacity)
            used += (size_t)snprintf(names + used, capacity - used, "%s%s", used ? ", " : "",
                                     key + strlen(prefix));
}

int choose_prompt(const wisp_model *model, const struct prompt_choice *choice,
                  const char **prompt) {
    char names[512];
    *prompt = choice->text;
    if (!choice->name)
        return EXIT_GOOD;
    if (choice->text) {
        complain("--%s and --%s-text: give one of them", choice->option, choice->option);
        return EXIT_USAGE;
    }
    *prompt = wisp_model_prompt(model, choice->name);
    if (*prompt)
        return EXIT_GOOD;
    list_prompts(model, names, sizeof names);
    if (*names)
        complain("--%s %s: the model has no prompt of this name, but %s", choice->option,
                 choice->name, names);
    else
        complain("--%s %s: the model has no prompts; --%s-text takes a text", choice->option,
                 choice->name, choice->option);
    return EXIT_USAGE;
}
