/* SPDX-License-Identifier: Apache-2.0
 * Prepares an image for a network: it is resized to a square, or its shortest edge is resized and
 * the square in the middle is cut out.
 */
#ifndef WISP_ENGINE_IMAGE_PIXELS_H
#define WISP_ENGINE_IMAGE_PIXELS_H

#include "base/workspace.h"
#include "wisp.h"

/* The most pixels of an image's side. */
enum { IMAGE_MOST_SIDE = 65536 };

/* How an image becomes a square. */
struct image_fit {
    uint32_t side;                     /* pixels of the square */
    bool crops;                        /* the image keeps its shape, and its middle is cut out */
    const struct image_filter *filter; /* by which it is resized */
};

/* Returns the filter of this name, "bicubic" or "bilinear"; NULL: there is none. */
const struct image_filter *image_filter_named(const char *name);

/* Returns the bytes of working memory; SIZE_MAX if they cannot be addressed. The sides of the image
 * are in range. */
size_t image_fit_bytes(const wisp_image *image, const struct image_fit *fit);

/* Writes the square to out [side, side, 3]: the bytes that Pillow's filter gives, whose weights are
 * whole numbers of 22 bits and which rounds to bytes after each of two passes, over rows and over
 * columns. `space` has image_fit_bytes left.
 * Source: Pillow's resampling, with a triangle or the cubic of a = -0.5 of Keys, Cubic Convolution
 * Interpolation for Digital Image Processing (1981), widened by the scale if the image shrinks. */
void image_make_square(const wisp_image *image, const struct image_fit *fit, uint8_t *out,
                       struct workspace space);

#endif
