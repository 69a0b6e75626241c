/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/status.h"
#include "cli/cli.h"
#include "cli/hub_models.h"
#include "cli/remote.h"
#include "host/file.h"

int complain_of(const wisp_error *error) {
    if (error->status == WISP_ERROR_CANCELLED)
        return EXIT_INTERRUPTED;
    complain("%s", error->message);
    switch (error->status) {
    case WISP_ERROR_NOT_FOUND:
    case WISP_ERROR_FORMAT:
    case WISP_ERROR_UNSUPPORTED:
        return EXIT_MODEL;
    case WISP_ERROR_ARGUMENT:
        return EXIT_USAGE;
    default:
        return EXIT_FAILED;
    }
}

int complain_of_choice(const char *option, const char *value, const char *choices) {
    complain("--%s %s: choose one of %s", option, value, choices);
    return EXIT_USAGE;
}

int complain_of_name(const char *option, const char *value, const char *(*name_of)(size_t index)) {
    char choices[256] = "";
    size_t used = 0;
    for (size_t i = 0; name_of(i) && used < sizeof choices; i++)
        used += (size_t)snprintf(choices + used, sizeof choices - used, "%s%s", i ? ", " : "",
                                 name_of(i));
    return complain_of_choice(option, value, choices);
}

bool parse_whole(const char *option, const char *text, unsigned long least, unsigned long most,
                 unsigned long *value) {
    char *end;
    errno = 0;
    *value = strtoul(text, &end, 10);
    /* strtoul takes a sign, and makes a huge number of a negative one. */
    if (errno == 0 && end != text && *end == '\0' && !strchr(text, '-') && *value >= least &&
        *value <= most)
        return true;
    complain("--%s %s: expected a whole number from %lu to %lu", option, text, least, most);
    return false;
}

bool parse_bytes(const char *option, const char *text, unsigned long long *value) {
    static const char units[] = "KMG";
    char *end;
    double bytes = strtod(text, &end);
    const char *unit = *end ? strchr(units, *end) : NULL;
    for (const char *u = units; unit && u <= unit; u++)
        bytes *= 1000;
    if (end != text && end[unit ? 1 : 0] == '\0' && bytes >= 1 && bytes < 0x1p63) {
        *value = (unsigned long long)bytes;
        return true;
    }
    complain("--%s %s: expected a number of bytes, such as 500000, 300K, 8M or 1.5G", option, text);
    return false;
}

bool parse_number(const char *option, const char *text, float *value) {
    char *end;
    *value = strtof(text, &end);
    if (end != text && *end == '\0')
        return true;
    complain("--%s %s: expected a number", option, text);
    return false;
}

bool parse_share(const char *option, const char *text, double *value) {
    char *end;
    *value = strtod(text, &end);
    if (end != text && *end == '\0' && (float)*value > 0 && (float)*value < 1)
        return true;
    complain("--%s %s: expected a number above 0 and below 1", option, text);
    return false;
}

bool parse_format(const char *name, bool *json) {
    *json = strcmp(name, "json") == 0;
    if (!*json && strcmp(name, "table") != 0) {
        complain_of_choice("format", name, "table, json");
        return false;
    }
    return true;
}

bool check_path(const char *what, const char *path) {
    if (*path == '\0')
        complain("%s: the path is empty", what);
    return *path != '\0';
}

/* ---- model ---------------------------------------------------------------------------------- */

bool find_shipped(const char *folder, const char *name, char *path, size_t capacity) {
    char program[PATH_MAX], relative[128];
    const char *const folders[] = {folder, "share/wisp"};
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length < 0)
        return false;
    program[length] = '\0';
    char *slash = strrchr(program, '/');
    if (!slash)
        return false;
    *slash = '\0';
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(relative, sizeof relative, "../%s/%s", folders[i], name);
        if (file_join(program, relative, path, capacity, NULL) == WISP_OK && file_exists(path))
            return true;
    }
    return false;
}

uint32_t threads_of(const struct model_arguments *arguments) {
    return (uint32_t)(arguments->threads ? arguments->threads : wisp_usable_threads());
}

bool is_url(const char *path) {
    return strncasecmp(path, "http://", 7) == 0 || strncasecmp(path, "https://", 8) == 0;
}

/* Makes freed weights go back to the system at once. Otherwise glibc raises its bound for that to
 * the size of blocks that were freed, and each thread keeps the weights of layers or experts that
 * it freed. */
static void give_memory_back(void) {
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 128 * 1024);
#endif
}

wisp_status open_model_at(const struct model_arguments *arguments, const char *given,
                          wisp_model **model, wisp_session **session, wisp_error *error) {
    char found[PATH_MAX];
    const char *path;
    wisp_assumption assumption;
    const wisp_model_options options = {.compute = arguments->compute,
                                        .kernels = arguments->kernels,
                                        .predictor = arguments->predictor,
                                        .hot_only = arguments->hot_only,
                                        .memory = arguments->memory,
                                        .portable = arguments->portable,
                                        .header_sha256 = arguments->header_sha256,
                                        .device = arguments->device};
    const wisp_session_options session_options = {.threads = threads_of(arguments),
                                                  .trace = arguments->trace,
                                                  .recall = arguments->recall,
                                                  .skip_absent = arguments->skip_absent,
                                                  .cache_type = arguments->cache_type,
                                                  .attention = arguments->attention};
    TRY(find_model(given, HUB_GGUF_FIRST, arguments->offline, found, &path, error));
    wisp_status status = is_url(path) ? remote_open(path, arguments, &options, model, error)
                                      : wisp_model_open(path, &options, model, error);
    if (status != WISP_OK)
        return status;
    /* The query of a URL may hold a secret. */
    const int name = (int)(is_url(path) ? strcspn(path, "?#") : strlen(path));
    for (size_t i = 0; arguments->verbose && wisp_model_get_assumption(*model, i, &assumption); i++)
        fprintf(stderr, "wisp: %.*s: the file does not say, so wisp assumes: %s is %s\n", name,
                path, assumption.key, assumption.value);
    wisp_weights weights;
    for (size_t i = 0; arguments->verbose && wisp_model_get_weights(*model, i, &weights); i++)
        fprintf(stderr, "wisp: %.*s: dense layers in memory as %s: %llu bytes\n", name, path,
                weights.kind, (unsigned long long)weights.bytes);
    status = wisp_session_open(*model, &session_options, session, error);
    if (status == WISP_OK && arguments->verbose && arguments->generates)
        fprintf(stderr, "wisp: %.*s: keys and values in memory as %s\n", name, path,
                wisp_cache_type_name(wisp_session_get_cache_type(*session)));
    if (status == WISP_OK && arguments->sparsity > 0)
        status = wisp_session_set_sparsity(*session, (float)arguments->sparsity, error);
    return status;
}

int open_model(const struct model_arguments *arguments, wisp_model **model,
               wisp_session **session) {
    char found[PATH_MAX + 64];
    wisp_error error;
    if (arguments->memory > 0)
        give_memory_back();
    const char *variable = arguments->generates ? "WISP_GENERATOR" : "WISP_MODEL";
    const char *path = arguments->path ? arguments->path : getenv(variable);
    if (!path) {
        if (!find_shipped("models",
                          arguments->generates ? "wisp-stories.gguf" : "wisp-default.gguf", found,
                          sizeof found)) {
            if (access("/proc/self/exe", F_OK) != 0)
                complain("without /proc the program does not find the default model beside it: "
                         "name one with --model");
            else
                complain("there is no default model beside the program: name one with --model");
            return EXIT_MODEL;
        }
        path = found;
    }
    if (!check_path("WISP_MODEL", path))
        return EXIT_MODEL;
    return open_model_at(arguments, path, model, session, &error) == WISP_OK ? EXIT_GOOD
                                                                             : complain_of(&error);
}

int run_with_model(const struct model_arguments *model, void *arguments,
                   int (*command)(void *arguments, const wisp_model *model,
                                  wisp_session *session)) {
    wisp_model *opened = NULL;
    wisp_session *session = NULL;
    int code = open_model(model, &opened, &session);
    if (code == EXIT_GOOD && session) {
        watch_signals(session);
        code = command(arguments, opened, session);
        watch_signals(NULL);
    }
    wisp_session_close(session);
    wisp_model_close(opened);
    return code;
}

void warn_of_cut_texts(const wisp_session *session, const wisp_model *model, uint64_t others,
                       const char *advice) {
    wisp_model_info info;
    wisp_stats stats;
    wisp_model_get_info(model, &info);
    wisp_session_get_stats(session, &stats);
    const uint64_t n = stats.truncated_texts + others;
    if (n > 0)
        remark("%llu text%s longer than the model's %u tokens and truncated%s",
               (unsigned long long)n, n == 1 ? " is" : "s are", info.max_tokens, advice);
}
