/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report_files.h"

#include <limits.h>

#include "cli/output_file.h"
#include "cli/whole_file.h"

static int make_path(char path[PATH_MAX], const char *base, const char *suffix) {
    const int length = snprintf(path, PATH_MAX, "%s%s", base, suffix);
    if (length >= 0 && length < PATH_MAX)
        return EXIT_GOOD;
    complain("--report %.80s...: the path is too long", base);
    return EXIT_USAGE;
}

int report_files_check(const char *base, bool force) {
    static const char *const suffixes[] = {".json", ".svg"};
    static const enum output_kind kinds[] = {OUTPUT_REPORT, OUTPUT_PICTURE};
    char path[PATH_MAX];
    int code = EXIT_GOOD;
    for (size_t i = 0; i < 2 && code == EXIT_GOOD; i++) {
        code = make_path(path, base, suffixes[i]);
        if (code == EXIT_GOOD)
            code = check_output("--report", path, kinds[i], force);
    }
    return code;
}

static int write_report(const char *base, const char *suffix,
                        void (*print)(FILE *stream, const void *report), const void *report) {
    char path[PATH_MAX];
    const int code = make_path(path, base, suffix);
    return code == EXIT_GOOD ? write_whole_file(path, print, report) : code;
}

int report_files_write(const char *base, void (*json)(FILE *stream, const void *report),
                       void (*svg)(FILE *stream, const void *report), const void *report) {
    const int code = write_report(base, ".json", json, report);
    return code == EXIT_GOOD ? write_report(base, ".svg", svg, report) : code;
}
