/* SPDX-License-Identifier: Apache-2.0
 * Decoders of Llama's family on a device: the parts of device_open and device_load for them. */
#ifndef WISP_DEVICE_DECODER_H
#define WISP_DEVICE_DECODER_H

#include "device/device.h"

wisp_status device_decoder_open(struct device *device, const char *name,
                                const struct network *network, bool int8, bool sparse,
                                wisp_error *error);
wisp_status device_decoder_load(struct device *device, const struct network *network,
                                wisp_error *error);

#endif
