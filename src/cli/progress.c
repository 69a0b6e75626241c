/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"

void progress_start(struct progress *progress, const char *what) {
    const double now = clock_seconds();
    *progress = (struct progress){
        .what = what, .started = now, .shown = now, .visible = isatty(STDERR_FILENO) == 1};
}

static void print_time_left(double seconds) {
    if (seconds < 120)
        fprintf(stderr, "%.0f s left", seconds);
    else if (seconds < 7200)
        fprintf(stderr, "%.0f min left", seconds / 60);
    else
        fprintf(stderr, "%.1f h left", seconds / 3600);
}

void progress_show(struct progress *progress, size_t done, double fraction) {
    enum { BAR = 24 };
    const double now = clock_seconds(), seconds = now - progress->started;
    const bool in_place = progress->visible;
    if (program_is_quiet || !(in_place || progress->logs) ||
        now - progress->shown < (in_place ? 0.1 : 60))
        return;
    progress->shown = now;
    const double rate = seconds > 0 ? (double)(done - progress->before) / seconds : 0;
    fprintf(stderr, "%s%zu %s, %.*f/s", in_place ? "\r\033[K" : "wisp: ", done, progress->what,
            rate < 0.095 ? 2 : rate < 9.5, rate);
    const double part = fraction - progress->before_part; /* of this run */
    if (fraction > 0 && part > 0) {
        const int filled = in_place ? (int)(fraction * (double)BAR) : 0;
        if (in_place)
            fprintf(stderr, " [%.*s%*s]", filled, "########################", BAR - filled, "");
        fprintf(stderr, " %.0f%%, ", fraction * 100);
        print_time_left(seconds * (1 - fraction) / part);
    }
    if (!in_place)
        fputc('\n', stderr);
    fflush(stderr);
}

bool progress_of_total(void *progress, size_t done, size_t total) {
    progress_show(progress, done, (double)done / (double)total);
    return !was_interrupted();
}

void progress_end(struct progress *progress) {
    if (progress->visible && progress->shown > progress->started)
        fputs("\r\033[K", stderr);
    progress->visible = false;
}
