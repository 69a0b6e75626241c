/* SPDX-License-Identifier: Apache-2.0
 * Longer paths than those that Windows once had: bytes of UTF-8. */
#include_next <limits.h>

#ifndef WISP_WINDOWS_LIMITS_H
#define WISP_WINDOWS_LIMITS_H

#undef PATH_MAX
#define PATH_MAX 4096
#define NAME_MAX 765 /* 255 units of UTF-16 */

#endif
