/* SPDX-License-Identifier: Apache-2.0 */
#include_next <dirent.h>

#include "windows/posix.h"
