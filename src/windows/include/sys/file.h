/* SPDX-License-Identifier: Apache-2.0 */
#include_next <sys/file.h>

#include "windows/posix.h"
