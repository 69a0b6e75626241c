/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_HOST_SCRATCH_FILE_H
#define WISP_HOST_SCRATCH_FILE_H

#include "base/status.h"

/* Opens an empty file in a folder, to read and write, that has no name and goes with the process,
 * however that ends. Only this user could open it meanwhile. Fails with WISP_ERROR_IO. Native
 * only. */
wisp_status scratch_file_open(const char *folder, int *file, wisp_error *error);

#endif
