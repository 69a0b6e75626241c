/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_CLI_BANDWIDTH_H
#define WISP_CLI_BANDWIDTH_H

#include <stdint.h>

/* Measures how many bytes a second `threads` threads read from memory together, which takes about a
 * tenth of a second. Returns 0 if there is no memory for it. */
double measure_bandwidth(uint32_t threads);

#endif
