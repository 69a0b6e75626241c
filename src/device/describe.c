/* SPDX-License-Identifier: Apache-2.0 */
#include "device/device.h"

bool wisp_cuda_device(uint32_t index, char name[WISP_DEVICE_BYTES]) {
    _Static_assert((int)WISP_DEVICE_BYTES == (int)DEVICE_MESSAGE_BYTES, "libraries write as much");
    const struct device_library *library;
    char message[DEVICE_MESSAGE_BYTES];
    return DEVICES_EXIST && device_find_library("cuda", &library, NULL) == WISP_OK &&
           library->describe(index, name, message) == DEVICE_OK;
}
