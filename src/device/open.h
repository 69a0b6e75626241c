/* SPDX-License-Identifier: Apache-2.0
 * Puts networks on devices: encoders (encoder.h) and decoders (decoder.h). */
#ifndef WISP_DEVICE_OPEN_H
#define WISP_DEVICE_OPEN_H

#include "device/device.h"

/* Opens a device for an opened network. Multiplies in int8 if `int8`, else in f16. A decoder
 * can choose neurons by their gates if `sparse`, and then is int8. Fails with
 * WISP_ERROR_UNSUPPORTED if there is no such device or it cannot compute this network. The caller
 * closes the device, also after an error. */
wisp_status device_open(struct device *device, const char *name, const struct network *network,
                        bool int8, bool sparse, wisp_error *error);

/* Copies a loaded network's weights from its directory to the device that was opened for it. */
wisp_status device_load(struct device *device, const struct network *network, wisp_error *error);

#endif
