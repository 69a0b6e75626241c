/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_CLI_MACHINE_H
#define WISP_CLI_MACHINE_H

#include <stdint.h>

/* This machine, as the system describes it. 0 and "": unknown. */
struct machine {
    char processor[128], governor[32];
    unsigned long cores, allowed; /* processors that are there, and that this process may use */
    unsigned long siblings;       /* processors that share a core */
    double quota;                 /* processors that the control group allows */
    double load;                  /* of the last minute */
    uint64_t memory, available, memory_limit; /* bytes; the last one is the control group's */
};

/* Reads all of it. */
void machine_look(struct machine *machine);

#endif
