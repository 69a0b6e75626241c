/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/calibrate_attention.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/options.h"
#include "cli/progress.h"

struct run {
    struct progress progress;
    const char *stage;
    uint32_t layer; /* of the line that is being printed, from 1 on; 0: none */
    size_t tried;
};

static void show_progress(void *context, const char *stage, size_t done, size_t total) {
    struct run *run = context;
    if (!run->stage || strcmp(run->stage, stage) != 0) {
        progress_end(&run->progress);
        progress_start(&run->progress, stage);
        run->stage = stage;
    }
    progress_show(&run->progress, total ? done : run->tried,
                  total ? (double)done / (double)total : -1);
}

static bool is_cancelled(void *context) {
    (void)context;
    return was_interrupted();
}

static void print_head(void *context, const wisp_learned_attention *found) {
    struct run *run = context;
    progress_end(&run->progress);
    if (run->layer == 0)
        fprintf(program_output, "what each key-value head keeps of its keys, and lacks of its "
                                "output\nlayer");
    if (run->layer != found->layer + 1)
        fprintf(program_output, "\n%5u", found->layer);
    run->layer = found->layer + 1;
    fprintf(program_output, "  %-6s %3.0f %% %.3f", found->kind, 100 * found->kept, found->error);
}

static void print_policy(void *context, const wisp_tried_attention *t) {
    struct run *run = context;
    progress_end(&run->progress);
    run->stage = NULL;
    if (run->tried++ == 0)
        fprintf(program_output, "\n\n%-44s    keys    read  perplexity     loss  found\n",
                "policy");
    fprintf(program_output, "%-44s %5.1f %% %5.1f %% %11.4f %6.2f %%  ", t->policies, 100 * t->seen,
            100 * t->read, t->perplexity, 100 * t->loss);
    if (t->passes)
        fprintf(program_output, "all %u\n", t->found);
    else
        fputs(t->searched ? "not all\n" : "loses too much\n", program_output);
    fflush(program_output);
}

/* Prints what --attention auto is from now on. */
static int print_choice(const char *output) {
    wisp_file *file;
    wisp_metadata metadata;
    wisp_error error;
    if (wisp_file_open(output, &file, &error) != WISP_OK)
        return complain_of(&error);
    for (size_t i = 0; wisp_file_get_metadata(file, i, &metadata); i++)
        if (strcmp(metadata.key, "wisp.attention.auto") == 0)
            fprintf(program_output, "--attention auto: %s\n", metadata.text);
    wisp_file_close(file);
    return EXIT_GOOD;
}

int calibrate_attention(const char *model, const char *output, const wisp_text *texts, size_t n,
                        const wisp_calibrate_attention_options *options) {
    wisp_calibrate_attention_options reported = *options;
    struct run run = {.stage = NULL};
    const double start = clock_seconds();
    wisp_error error;
    reported.context = &run;
    reported.progress = show_progress;
    reported.cancelled = is_cancelled;
    reported.learned = print_head;
    reported.tried = print_policy;
    const wisp_status status = wisp_calibrate_attention(model, output, texts, n, &reported, &error);
    progress_end(&run.progress);
    if (status != WISP_OK)
        return complain_of(&error);
    const int code = print_choice(output);
    fprintf(program_output, "%.1f s\n", clock_seconds() - start);
    const int closed = finish_output();
    return code == EXIT_GOOD ? closed : code;
}
