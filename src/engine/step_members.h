/* SPDX-License-Identifier: Apache-2.0
 * Chooses how many threads of a team compute a step of decoding. Members wait for one another
 * several times in each layer, so one whose processor is busy with another program holds up all of
 * them, and fewer members are faster until that program ends. */
#ifndef WISP_ENGINE_STEP_MEMBERS_H
#define WISP_ENGINE_STEP_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Steps are measured in windows. Zeros are a choice that has not begun. */
struct step_members {
    uint32_t most;
    uint32_t members; /* compute the next step; 0: none has been chosen */
    uint32_t fewer;   /* that the next trial leaves out: more after each one that failed */
    uint32_t kept;    /* during a trial: the number before it, which a slower trial brings back */
    size_t tokens;    /* of each step in the window */
    unsigned steps;   /* in the window */
    double seconds;   /* that the window's steps took */
    double waited;    /* seconds that their members waited in vain, all together */
    double usual;     /* seconds of a step by `kept` members */
    double pause;     /* seconds until the next trial may begin */
    double next;      /* the time from which it may */
};

/* Returns how many members, 1 to `most`, compute the next step, which has `tokens` tokens. */
uint32_t step_members_begin(struct step_members *s, uint32_t most, size_t tokens);

/* Records that the step took so many seconds and that its members waited in vain (pool_waited) for
 * `waited` seconds, all together. `now` is the time after it, in seconds of any clock. */
void step_members_end(struct step_members *s, double seconds, double waited, double now);

#endif
