/* SPDX-License-Identifier: Apache-2.0
 * wisp doctor: what wisp finds on this machine, and what makes it slow. */
#include <fcntl.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/bandwidth.h"
#include "cli/cli.h"
#include "cli/hub_models.h"
#include "cli/machine.h"
#include "cli/model_options.h"
#include "cli/options.h"
#include "host/file.h"
#include "http/cache.h"
#include "http/curl.h"
#include "http/hub_kept.h"
#include "http/hub_settings.h"

static const char usage[] =
    "usage: wisp doctor [OPTION]...\n"
    "\n"
    "Prints what wisp finds on this machine: kernels, threads, memory and its speed, caches, and\n"
    "then what would make it faster, a line each. Takes about a second.\n"
    "\n";

struct arguments {
    const char *model;
    bool json;
};

#define ARGUMENTS struct arguments

static const struct command_option options[] = {
    TAKEN(take_model_path, model, "model", 'm', "PATH",
          "also look at this model: does it fit, how fast is it read"),
    OPTION(NONE, json, "json", 0, NULL, "print a JSON object"),
    LAST_OPTION,
};

static const struct command_line this_command = {usage, options, 22,
                                                 "\n"
                                                 "Examples:\n"
                                                 "  wisp doctor\n"
                                                 "  wisp doctor --json --model model.gguf\n"
                                                 "\nExit codes: see wisp embed --help.\n",
                                                 NULL};

/* ---- the report ----------------------------------------------------------------------------- */

enum { MOST_ADVICE = 16, ADVICE_BYTES = 256, LABEL_WIDTH = 18 };

static const uint64_t most_read = UINT64_C(256) << 20; /* bytes of a model's file */

struct report {
    bool json;
    size_t n_fields, n_advice;
    char advice[MOST_ADVICE][ADVICE_BYTES];
};

static void begin_field(struct report *r, const char *name) {
    if (!r->json) {
        fprintf(program_output, "%-*s", LABEL_WIDTH, name);
        return;
    }
    fputs(r->n_fields++ ? ",\n \"" : "{\"", program_output);
    for (const char *c = name; *c; c++)
        fputc(*c == ' ' ? '_' : *c, program_output);
    fputs("\": ", program_output);
}

static void end_field(const struct report *r) {
    if (!r->json)
        fputc('\n', program_output);
}

__attribute__((format(printf, 3, 4))) static void say(struct report *r, const char *name,
                                                      const char *format, ...) {
    char text[PATH_MAX + 256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    begin_field(r, name);
    if (r->json)
        print_json_string(program_output, wisp_text_of(text));
    else
        print_text(program_output, wisp_text_of(text), SIZE_MAX);
    end_field(r);
}

/* Says a number, which has a unit in the table. */
static void say_number(struct report *r, const char *name, double number, double scale,
                       const char *unit) {
    begin_field(r, name);
    if (r->json)
        fprintf(program_output, number == floor(number) ? "%.0f" : "%.3f", number);
    else
        fprintf(program_output, "%.4g%s", number / scale, unit);
    end_field(r);
}

__attribute__((format(printf, 2, 3))) static void advise(struct report *r, const char *format,
                                                         ...) {
    va_list args;
    if (r->n_advice == MOST_ADVICE)
        return;
    va_start(args, format);
    vsnprintf(r->advice[r->n_advice++], ADVICE_BYTES, format, args);
    va_end(args);
}

/* ---- the machine ---------------------------------------------------------------------------- */

static void report_kernels(struct report *r) {
    char names[256] = "", gpu[WISP_DEVICE_BYTES];
    size_t used = 0;
    for (size_t i = 0; wisp_kernels_name(i) && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                                 wisp_kernels_name(i));
    say(r, "wisp", "%s", wisp_build());
    say(r, "features", "%s", *wisp_cpu_features() ? wisp_cpu_features() : "none used");
    say(r, "kernel sets", "%s", names);
    say(r, "used", "%s, the fastest that this processor runs", wisp_kernels_name(0));
    if (strcmp(wisp_kernels_name(0), "scalar") == 0)
        advise(r, "this processor has no vector instructions that wisp uses: in a virtual machine, "
                  "let it have those of the host");
    say(r, "gpu", "%s", wisp_cuda_device(0, gpu) ? gpu : "none, or no libwisp-cuda.so");
}

static void report_processors(struct report *r, const struct machine *m) {
    const double cores = (double)m->cores;
    say(r, "processor", "%s", m->processor);
    say_number(r, "processors", cores, 1, "");
    if (m->allowed < m->cores)
        say_number(r, "allowed", (double)m->allowed, 1, "");
    if (m->quota > 0)
        say_number(r, "cgroup limit", m->quota, 1, " processors");
    say_number(r, "threads", (double)wisp_usable_threads(), 1, " unless --threads says otherwise");
    say_number(r, "load", m->load, 1, "");
    if (m->load > cores / 2)
        advise(r,
               "other programs keep %.1f of %lu processors busy: wisp is slower than it could "
               "be",
               m->load, m->cores);
    if (m->siblings > 1 && m->cores > 1) {
        say_number(r, "threads a core", (double)m->siblings, 1, "");
        advise(r, "each core is %lu processors: texts are often generated as fast by --threads %lu",
               m->siblings, m->cores / m->siblings);
    }
    if (strcmp(m->governor, "powersave") == 0)
        advise(r, "the processor's clock is governed by powersave: performance is faster");
}

static void report_memory(struct report *r, const struct machine *m) {
    const uint32_t threads = wisp_usable_threads();
    say_number(r, "memory", (double)m->memory, 1e9, " GB");
    say_number(r, "available", (double)m->available, 1e9, " GB");
    if (m->memory_limit > 0)
        say_number(r, "memory limit", (double)m->memory_limit, 1e9, " GB");
    say_number(r, "bandwidth of 1", measure_bandwidth(1), 1e9, " GB/s");
    if (threads > 1)
        say_number(r, "bandwidth of all", measure_bandwidth(threads), 1e9, " GB/s");
}

/* ---- caches --------------------------------------------------------------------------------- */

static void count_kept(void *context, const struct hub_kept *kept) {
    *(uint64_t *)context += kept->bytes;
}

static void count_url(void *context, const char *url, uint64_t bytes, int64_t used) {
    (void)url;
    (void)used;
    *(uint64_t *)context += bytes;
}

/* Reports a cache's folder, which is made when it is first needed, below one that is there. */
static void report_cache(struct report *r, const char *name, const char *path, uint64_t bytes,
                         const char *variable) {
    char parent[PATH_MAX];
    struct stat info;
    snprintf(parent, sizeof parent, "%s", path);
    while (!file_exists(parent) && strrchr(parent, '/') > parent)
        *strrchr(parent, '/') = '\0';
    const bool writable = access(parent, W_OK) == 0;
    const bool others = stat(path, &info) == 0 && info.st_uid != geteuid();
    say(r, name, "%s, %.1f MB%s%s", path, (double)bytes / 1e6, writable ? "" : ", not writable",
        others ? ", of another user" : "");
    if (!writable)
        advise(r, "%s cannot be written to: name another folder (%s)", path, variable);
}

static void report_caches(struct report *r) {
    char path[PATH_MAX];
    const struct curl *curl;
    uint64_t bytes = 0;
    if (hub_cache_folder(path, NULL) == WISP_OK &&
        hub_visit_kept(count_kept, &bytes, NULL) == WISP_OK)
        report_cache(r, "hub cache", path, bytes, "HF_HOME");
    bytes = 0;
    if (cache_folder(path, sizeof path, NULL) == WISP_OK &&
        cache_visit(count_url, &bytes, NULL) == WISP_OK)
        report_cache(r, "url cache", path, bytes, "WISP_CACHE");
    const bool found = curl_load("", &curl, NULL) == WISP_OK;
    say(r, "libcurl", "%s", found ? "found" : "none");
    if (!found)
        advise(r, "without libcurl no model is fetched: install it (Debian: libcurl4)");
}

/* ---- a model -------------------------------------------------------------------------------- */

/* Reads the beginning of a file from the disk, and not from the system's memory as far as that can
 * be told to forget it. Returns bytes a second, or 0. */
static double read_speed(const char *path, uint64_t size) {
    static char bytes[1 << 20];
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    uint64_t done = 0;
    if (file < 0)
        return 0;
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    const double start = clock_seconds();
    for (ssize_t n; done < size && done < most_read && (n = read(file, bytes, sizeof bytes)) > 0;)
        done += (uint64_t)n;
    const double seconds = clock_seconds() - start;
    close(file);
    return seconds > 0 ? (double)done / seconds : 0;
}

static int report_model(struct report *r, const char *name, const struct machine *m) {
    char path[PATH_MAX];
    const char *found;
    wisp_error error;
    wisp_file *file = NULL;
    wisp_file_part part;
    uint64_t bytes = 0;
    double speed = 0;
    if (find_model(name, HUB_GGUF_FIRST, false, path, &found, &error) != WISP_OK ||
        wisp_file_open(found, &file, &error) != WISP_OK)
        return complain_of(&error);
    for (size_t i = 0; wisp_file_get_part(file, i, &part); i++) {
        speed = i == 0 ? read_speed(part.path, part.size) : speed;
        bytes += part.size;
    }
    wisp_file_close(file);
    say(r, "model", "%s", found);
    say_number(r, "model bytes", (double)bytes, 1e6, " MB");
    say_number(r, "disk", speed, 1e6, " MB/s");
    const uint64_t room =
        m->memory_limit > 0 && m->memory_limit < m->available ? m->memory_limit : m->available;
    if (room > 0 && bytes > room)
        advise(r,
               "the model has %.1f GB and %.1f GB of memory are free: quantise it further "
               "(wisp quantize)",
               (double)bytes / 1e9, (double)room / 1e9);
    if (speed > 0 && (double)bytes / speed > 5)
        advise(r, "reading the model from this disk takes %.0f s", (double)bytes / speed);
    return EXIT_GOOD;
}

/* ---- all ------------------------------------------------------------------------------------ */

static void print_advice(const struct report *r) {
    fputs(r->json ? ",\n \"advice\": [" : "\n", program_output);
    for (size_t i = 0; i < r->n_advice; i++) {
        if (r->json) {
            fputs(i ? ", " : "", program_output);
            print_json_string(program_output, wisp_text_of(r->advice[i]));
        } else {
            fputs("* ", program_output);
            print_text(program_output, wisp_text_of(r->advice[i]), SIZE_MAX);
            fputc('\n', program_output);
        }
    }
    if (r->json)
        fputs("]}\n", program_output);
    else if (r->n_advice == 0)
        fputs("nothing here makes wisp slow\n", program_output);
}

int command_doctor(int argc, char **argv) {
    struct arguments a = {0};
    struct machine machine;
    int code;
    if (!take_options(&this_command, &a, argc, argv, &code))
        return code;
    if (optind < argc) {
        complain("doctor takes no arguments: %s", argv[optind]);
        return EXIT_USAGE;
    }
    struct report report = {.json = a.json};
    machine_look(&machine);
    report_processors(&report, &machine);
    report_kernels(&report);
    report_memory(&report, &machine);
    report_caches(&report);
    if (a.model)
        code = report_model(&report, a.model, &machine);
    print_advice(&report);
    const int printed = finish_output();
    return code == EXIT_GOOD ? printed : code;
}
