/* SPDX-License-Identifier: Apache-2.0
 * Encoders of the architecture bert on a device: the parts of device_open and device_load for them.
 */
#ifndef WISP_DEVICE_ENCODER_H
#define WISP_DEVICE_ENCODER_H

#include "device/device.h"

wisp_status device_encoder_open(struct device *device, const char *name,
                                const struct network *network, bool int8, wisp_error *error);
wisp_status device_encoder_load(struct device *device, const struct network *network,
                                wisp_error *error);

#endif
