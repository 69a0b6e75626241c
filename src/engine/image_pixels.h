/* SPDX-License-Identifier: Apache-2.0
 * Prepares an image for a network: its shortest edge is resized to `side` pixels, and the square in
 * the middle is cut out. */
#ifndef WISP_ENGINE_IMAGE_PIXELS_H
#define WISP_ENGINE_IMAGE_PIXELS_H

#include "base/workspace.h"
#include "wisp.h"

/* The most pixels of an image's side. */
enum { IMAGE_MOST_SIDE = 65536 };

/* Returns the bytes of working memory; SIZE_MAX if they cannot be addressed. The sides of the image
 * are in range. */
size_t image_crop_bytes(const wisp_image *image, uint32_t side);

/* Writes the square to out [side, side, 3]: the bytes that Pillow's bicubic filter gives, whose
 * weights are whole numbers of 22 bits and which rounds to bytes after each of two passes, over
 * rows and over columns. `space` has image_crop_bytes left.
 * Source: Pillow's resampling, with the cubic of a = -0.5 of Keys, Cubic Convolution Interpolation
 * for Digital Image Processing (1981), widened by the scale if the image shrinks. */
void image_crop(const wisp_image *image, uint32_t side, uint8_t *out, struct workspace space);

#endif
