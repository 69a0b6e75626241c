/* SPDX-License-Identifier: Apache-2.0 */
#include_next <sys/stat.h>

#include "windows/posix.h"
