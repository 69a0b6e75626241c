/* SPDX-License-Identifier: Apache-2.0
 * Finds the decoder of images: that of the program, if it was built with one, else that of
 * libwisp-images.so, which is loaded when it is needed. */
#ifndef WISP_IMAGES_LIBRARY_H
#define WISP_IMAGES_LIBRARY_H

#include "base/status.h"
#include "images/decoder.h"

/* Sets *decoder, which stays until the process ends. Fails with WISP_ERROR_UNSUPPORTED, and says
 * what to build. */
wisp_status image_decoder_load(const struct image_decoder **decoder, wisp_error *error);

#endif
