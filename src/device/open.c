/* SPDX-License-Identifier: Apache-2.0 */
#include "device/open.h"

#include "device/decoder.h"
#include "device/encoder.h"

wisp_status device_open(struct device *device, const char *name, const struct network *network,
                        bool int8, bool sparse, wisp_error *error) {
    TRY(device_find_library(name, &device->library, error));
    return network->architecture->generates
               ? device_decoder_open(device, name, network, int8, sparse, error)
               : device_encoder_open(device, name, network, int8, error);
}

wisp_status device_load(struct device *device, const struct network *network, wisp_error *error) {
    return device->decoder ? device_decoder_load(device, network, error)
                           : device_encoder_load(device, network, error);
}
