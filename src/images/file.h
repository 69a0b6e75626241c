/* SPDX-License-Identifier: Apache-2.0
 * An image from a file: its size first, so that the caller can divide its memory among images, and
 * then its pixels. */
#ifndef WISP_IMAGES_FILE_H
#define WISP_IMAGES_FILE_H

#include "base/status.h"
#include "host/input_file.h"
#include "images/decoder.h"
#include "images/orientation.h"

/* The most bytes of a file, and the most pixels of an image, which is Pillow's bound: a file of a
 * few bytes can decode to any number of pixels. */
enum { IMAGE_MOST_BYTES = 1 << 28, IMAGE_MOST_PIXELS = 178956970 };

struct image_file {
    struct file_bytes bytes; /* none once it is decoded */
    struct image_size size;  /* as in the file */
    enum orientation orientation;
    wisp_image image; /* upright; its pixels are owned, and NULL before they are decoded */
};

/* Reads a file and the size of its image. Fails with WISP_ERROR_FORMAT if it is not one that the
 * decoder knows, WISP_ERROR_UNSUPPORTED if it is too large, or as file_read does. */
wisp_status image_file_read(struct image_file *file, const char *path,
                            const struct image_decoder *decoder, wisp_error *error);

/* Decodes the image and turns it upright, as its EXIF data say. Takes 4 bytes for each pixel, or 6
 * if it is turned. Fails with WISP_ERROR_FORMAT if the file is damaged or ends too soon, and with
 * WISP_ERROR_MEMORY. */
wisp_status image_file_decode(struct image_file *file, const char *path,
                              const struct image_decoder *decoder, wisp_error *error);

/* Also after a failure. */
void image_file_release(struct image_file *file);

#endif
