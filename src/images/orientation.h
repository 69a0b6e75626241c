/* SPDX-License-Identifier: Apache-2.0
 * How a photo is turned, by what the camera has written into its EXIF data. */
#ifndef WISP_IMAGES_ORIENTATION_H
#define WISP_IMAGES_ORIENTATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first row and the first column of the pixels in the file are these sides of the picture, by
 * EXIF's numbers. Those from ORIENTATION_LEFT_TOP on change width and height. */
enum orientation {
    ORIENTATION_TOP_LEFT = 1,
    ORIENTATION_TOP_RIGHT,
    ORIENTATION_BOTTOM_RIGHT,
    ORIENTATION_BOTTOM_LEFT,
    ORIENTATION_LEFT_TOP,
    ORIENTATION_RIGHT_TOP,
    ORIENTATION_RIGHT_BOTTOM,
    ORIENTATION_LEFT_BOTTOM
};

/* Finds the orientation in the bytes of a JPEG or PNG file. It is ORIENTATION_TOP_LEFT if the file
 * does not say it, or is another file or a damaged one.
 * Source: Exif 2.3 (CIPA DC-008), TIFF 6.0, and the PNG specification's chunk eXIf. */
enum orientation orientation_find(const uint8_t *bytes, size_t n);

/* Writes the upright pixels [height, width, 3] of pixels [rows, columns, 3] as they are in the
 * file. Width and height are columns and rows, or rows and columns. */
void orientation_turn(enum orientation orientation, const uint8_t *pixels, uint32_t rows,
                      uint32_t columns, uint8_t *out);

#endif
