/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/step_members.h"

#include <math.h>

enum { WINDOW_STEPS = 2 };
static const double WINDOW_SECONDS = 0.05; /* longer than a time slice of the system */

/* Members that wait for more than this share of their time wait for another program. Shares of work
 * that differ, as in processors with cores of two kinds, cost less. */
static const double BUSY_SHARE = 0.2;

static const double LEAST_GAIN = 0.05; /* by which a trial must be faster to be kept */

/* After a trial that failed the next one waits for so many times the seconds that it cost, and for
 * longer than the last one did. */
static const double FIRST_PAUSE = 0.1, LONGEST_PAUSE = 10, COSTS = 20;

static void begin_window(struct step_members *s) {
    s->steps = 0;
    s->seconds = s->waited = 0;
}

static void rest(struct step_members *s, double pause, double now) {
    s->kept = 0;
    s->pause = pause;
    s->next = now + pause;
}

static void begin_trial(struct step_members *s, uint32_t members) {
    s->kept = s->members;
    s->usual = s->seconds / s->steps;
    s->members = members;
}

static void end_trial(struct step_members *s, double now) {
    const double cost = s->seconds - s->steps * s->usual;
    if (cost < -LEAST_GAIN * s->seconds) {
        s->fewer = 1;
        rest(s, FIRST_PAUSE, now);
        return;
    }
    s->fewer = s->members > 1 ? 2 * s->fewer : 1; /* as several processors may be busy */
    s->members = s->kept;
    rest(s, fmin(fmax(2 * s->pause, COSTS * cost), LONGEST_PAUSE), now);
}

uint32_t step_members_begin(struct step_members *s, uint32_t most, size_t tokens) {
    if (s->members == 0 || s->members > most) {
        *s = (struct step_members){.members = most, .fewer = 1, .pause = FIRST_PAUSE};
    } else if (tokens != s->tokens) { /* the steps before say nothing about this one */
        if (s->kept)
            s->members = s->kept;
        s->kept = 0;
        begin_window(s);
    }
    s->tokens = tokens;
    s->most = most;
    return s->members;
}

void step_members_end(struct step_members *s, double seconds, double waited, double now) {
    s->steps++;
    s->seconds += seconds;
    s->waited += waited;
    if (s->steps < WINDOW_STEPS || s->seconds < WINDOW_SECONDS)
        return;
    if (s->kept)
        end_trial(s, now);
    else if (now >= s->next && s->waited > BUSY_SHARE * s->members * s->seconds)
        begin_trial(s, s->members > s->fewer ? s->members - s->fewer : 1);
    else if (now >= s->next && s->members < s->most)
        begin_trial(s, s->members + 1);
    begin_window(s);
}
