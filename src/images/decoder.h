/* SPDX-License-Identifier: Apache-2.0
 * The functions by which the program decodes files of images: a table in a library of its own
 * (libwisp-images.so), or in a static program. */
#ifndef WISP_IMAGES_DECODER_H
#define WISP_IMAGES_DECODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Changes with this header. */
enum { IMAGE_DECODER_VERSION = 1 };

struct image_size {
    uint32_t width, height;
};

/* What is wrong if memory is short. */
#define IMAGE_NO_MEMORY "out of memory"

struct image_decoder {
    uint32_t version;
    /* Reads the size of an image from the bytes of its file. Returns NULL, or what is wrong. */
    const char *(*measure)(const uint8_t *bytes, size_t n, struct image_size *size);
    /* Decodes the first frame to pixels [height, width, 3], red, green and blue in sRGB, for which
     * there is room of 4 bytes for each pixel. The size must be that of `measure`. What is
     * transparent has the colours that the file has there, as if it were opaque. Returns NULL, or
     * what is wrong, also if the file ends before its last pixel. */
    const char *(*decode)(const uint8_t *bytes, size_t n, struct image_size size, uint8_t *pixels);
};

#define IMAGE_DECODER_FUNCTION "wisp_image_decoder"
typedef const struct image_decoder *image_decoder_function(void);
image_decoder_function wisp_image_decoder;

#endif
