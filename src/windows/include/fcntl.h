/* SPDX-License-Identifier: Apache-2.0 */
#include_next <fcntl.h>

#include "windows/posix.h"
