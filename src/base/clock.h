/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_BASE_CLOCK_H
#define WISP_BASE_CLOCK_H

/* Seconds on a clock that never goes backwards, from an arbitrary start. */
double clock_seconds(void);

#endif
