/* SPDX-License-Identifier: Apache-2.0
 * wisp list: what the caches of models hold. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/list.h"
#include "base/status.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "host/part_names.h"
#include "http/cache.h"
#include "http/hub_kept.h"

static const char usage[] =
    "usage: wisp list [OPTION]...\n"
    "\n"
    "Lists the models that were fetched: those of the Hugging Face Hub, whichever program has\n"
    "fetched them, and files of other servers. The last used come first.\n"
    "\n";

enum { MOST_REMOVALS = 64 };

struct arguments {
    bool json;
    const char *removed[MOST_REMOVALS];
    size_t n_removed;
};

static int take_removal(void *arguments, const char *value) {
    struct arguments *a = arguments;
    if (a->n_removed == MOST_REMOVALS) {
        complain("--remove: at most %d at a time", MOST_REMOVALS);
        return EXIT_USAGE;
    }
    a->removed[a->n_removed++] = value;
    return EXIT_GOOD;
}

#define ARGUMENTS struct arguments

static const struct command_option options[] = {
    OPTION(NONE, json, "json", 0, NULL, "print a JSON array of objects"),
    TAKEN_BY_ALL(take_removal, TEXT, "remove", 0, "NAME",
                 "delete a model, by a name as listed; hf:owner/name: all of the\n"
                 "repository. May be repeated"),
    LAST_OPTION,
};

static const struct command_line this_command = {
    usage, options, 22,
    "\n"
    "Variables: HF_HUB_CACHE or HF_HOME, and WISP_CACHE, say where the caches are.\n"
    "\n"
    "Examples:\n"
    "  wisp list\n"
    "  wisp list --remove hf:Qwen/Qwen3-0.6B-GGUF\n"
    "\n"
    "Exit codes: see wisp embed --help.\n",
    NULL};

/* ---- the list ------------------------------------------------------------------------------- */

struct row {
    char *name, *path; /* no path: the cache has the file under a name of its own */
    uint64_t bytes;
    int64_t used;
};

struct table {
    struct row *rows; /* [capacity] */
    uint32_t n, capacity;
    bool out_of_memory;
};

static void add_row(struct table *table, const char *name, const char *path, uint64_t bytes,
                    int64_t used) {
    struct row row = {
        .name = strdup(name), .path = path ? strdup(path) : NULL, .bytes = bytes, .used = used};
    if (row.name && (row.path || !path) &&
        list_grow((void *)&table->rows, table->n, 1, &table->capacity, sizeof row, NULL) ==
            WISP_OK) {
        table->rows[table->n++] = row;
        return;
    }
    free(row.name);
    free(row.path);
    table->out_of_memory = true;
}

static void add_kept(void *context, const struct hub_kept *kept) {
    add_row(context, kept->name, kept->path, kept->bytes, kept->used);
}

/* A query may hold a secret. */
static void add_url(void *context, const char *url, uint64_t bytes, int64_t used) {
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(url, "?#"), url);
    add_row(context, name, NULL, bytes, used);
}

static int compare_rows(const void *a, const void *b) {
    const struct row *x = a, *y = b;
    return x->used != y->used ? (x->used < y->used ? 1 : -1) : strcmp(x->name, y->name);
}

static void print_json(const struct table *table) {
    fputs("[", program_output);
    for (uint32_t i = 0; i < table->n; i++) {
        const struct row *row = &table->rows[i];
        fputs(i > 0 ? ",\n {\"name\": " : "{\"name\": ", program_output);
        print_json_string(program_output, wisp_text_of(row->name));
        fprintf(program_output, ", \"bytes\": %llu, \"used\": %lld", (unsigned long long)row->bytes,
                (long long)row->used);
        if (row->path) {
            fputs(", \"path\": ", program_output);
            print_json_string(program_output, wisp_text_of(row->path));
        }
        fputc('}', program_output);
    }
    fputs("]\n", program_output);
}

static void print_table(const struct table *table) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < table->n; i++) {
        const struct row *row = &table->rows[i];
        const time_t used = (time_t)row->used;
        struct tm local;
        char date[32] = "";
        if (localtime_r(&used, &local))
            strftime(date, sizeof date, "%Y-%m-%d %H:%M", &local);
        fprintf(program_output, "%10.1f MB  %s  ", (double)row->bytes / 1e6, date);
        print_text(program_output, wisp_text_of(row->name), SIZE_MAX);
        fputc('\n', program_output);
        total += row->bytes;
    }
    if (table->n > 1)
        fprintf(program_output, "%10.1f MB  in all\n", (double)total / 1e6);
}

static int list(bool json) {
    struct table table = {0};
    wisp_error error;
    wisp_status status = hub_visit_kept(add_kept, &table, &error);
    if (status == WISP_OK)
        status = cache_visit(add_url, &table, &error);
    int code = status != WISP_OK     ? complain_of(&error)
               : table.out_of_memory ? complain_of_memory()
                                     : EXIT_GOOD;
    if (code == EXIT_GOOD) {
        if (table.n > 1)
            qsort(table.rows, table.n, sizeof *table.rows, compare_rows);
        if (json)
            print_json(&table);
        else if (table.n > 0)
            print_table(&table);
        else
            remark("no models were fetched: see wisp pull --help");
        code = finish_output();
    }
    for (uint32_t i = 0; i < table.n; i++) {
        free(table.rows[i].name);
        free(table.rows[i].path);
    }
    free(table.rows);
    return code;
}

/* ---- removal -------------------------------------------------------------------------------- */

/* Deletes the file at a URL, and if that is the first of several all of them. */
static wisp_status remove_url(const char *text, uint64_t *freed, wisp_error *error) {
    struct part_name part;
    const bool in_parts = part_name_read(text, strcspn(text, "?#"), &part) && part.part == 1 &&
                          part.count <= MOST_PARTS;
    const uint32_t files = in_parts ? part.count : 1;
    char *url = strdup(text);
    wisp_status status = url ? WISP_OK : fail_memory(error, strlen(text));
    for (uint32_t i = 1; i <= files && status == WISP_OK; i++) {
        if (in_parts)
            part_name_set(url, &part, i);
        status = cache_remove(url, freed, error);
    }
    free(url);
    return status;
}

static int remove_model(const char *text) {
    struct hub_name name;
    wisp_error error;
    uint64_t freed = 0;
    size_t n = 0;
    wisp_status status;
    if (is_url(text)) {
        status = remove_url(text, &freed, &error);
        n = freed > 0;
    } else {
        status = hub_parse_name(text, &name, &error);
        if (status == WISP_OK)
            status = hub_remove_kept(&name, &freed, &n, &error);
    }
    if (status != WISP_OK)
        return complain_of(&error);
    if (n == 0) {
        complain("list: %.*s is not in the cache", (int)strcspn(text, "?#"), text);
        return EXIT_MODEL;
    }
    fprintf(program_output, "%.1f MB are free now\n", (double)freed / 1e6);
    return finish_output();
}

int command_list(int argc, char **argv) {
    struct arguments a = {0};
    int code;
    if (!take_options(&this_command, &a, argc, argv, &code))
        return code;
    if (optind < argc) {
        complain("list takes no arguments: %s", argv[optind]);
        return EXIT_USAGE;
    }
    for (size_t i = 0; i < a.n_removed && code == EXIT_GOOD; i++)
        code = remove_model(a.removed[i]);
    return a.n_removed > 0 ? code : list(a.json);
}
