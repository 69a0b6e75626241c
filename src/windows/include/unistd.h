/* SPDX-License-Identifier: Apache-2.0 */
#include_next <unistd.h>

#include "windows/posix.h"
