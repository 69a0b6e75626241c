/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_BASE_CLOCK_H
#define WISP_BASE_CLOCK_H

/* Returns the seconds since an arbitrary start, on a clock that never goes backwards. */
double clock_seconds(void);

#endif
