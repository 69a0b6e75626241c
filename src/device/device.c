/* SPDX-License-Identifier: Apache-2.0 */
#include "device/device.h"

wisp_status device_check(enum device_status status, const char *file, const char *message,
                         wisp_error *error) {
    static const wisp_status statuses[] = {[DEVICE_OK] = WISP_OK,
                                           [DEVICE_ABSENT] = WISP_ERROR_UNSUPPORTED,
                                           [DEVICE_UNSUPPORTED] = WISP_ERROR_UNSUPPORTED,
                                           [DEVICE_NO_MEMORY] = WISP_ERROR_MEMORY,
                                           [DEVICE_LOST] = WISP_ERROR_IO};
    return status == DEVICE_OK ? WISP_OK
                               : fail(error, statuses[status], file, "device", "%s", message);
}

wisp_status device_embed(const struct device *device, const struct device_batch *batch,
                         const char *file, wisp_error *error) {
    char message[DEVICE_MESSAGE_BYTES] = "";
    return device_check(device->library->embed(device->encoder, batch, message), file, message,
                        error);
}

void device_close(struct device *device) {
    if (device->library) {
        device->library->close(device->encoder);
        device->library->decoder.close(device->decoder);
    }
    *device = (struct device){0};
}
