/* SPDX-License-Identifier: Apache-2.0
 * Part of wisp.h: embeddings of images, by models that have an image tower (CLIP, SigLIP). They can
 * be compared with the model's embeddings of texts. Native only.
 */
#ifndef WISP_IMAGES_H
#define WISP_IMAGES_H

#ifndef WISP_H
#error "include wisp.h, which includes this header"
#endif

/* An image: `height` rows of `width` pixels of three bytes, red, green and blue in sRGB, without
 * space between rows. Each side has 1 to 65536 pixels. */
typedef struct wisp_image {
    const uint8_t *pixels;
    uint32_t width, height;
} wisp_image;

/* A model's image tower in memory, with a team of threads. One call uses it at a time. */
typedef struct wisp_images wisp_images;

/* Reads the image tower of a model, which must stay open, from its file. It computes as the model
 * does, without leaving out neurons. `threads`: as in wisp_session_options.
 *
 * Fails with WISP_ERROR_UNSUPPORTED if the model has no image tower, or was opened so that its file
 * cannot be read again (in_memory). */
WISP_API wisp_status wisp_images_open(const wisp_model *model, uint32_t threads,
                                      wisp_images **images, wisp_error *error);

/* Writes the embeddings of n images to rows [n, wisp_model_dimensions], each of length 1. Images
 * are resized, cropped and scaled as transformers' CLIPImageProcessor and SiglipImageProcessor do
 * it with Pillow up to 12, bit for bit; Pillow 13 resizes rows before columns or after them as it
 * is faster, which changes bytes by 1. WISP_ERROR_ARGUMENT if a side of an image is out of range.
 */
WISP_API wisp_status wisp_images_embed(wisp_images *images, const wisp_image *pictures, size_t n,
                                       float *rows, wisp_error *error);

WISP_API void wisp_images_close(wisp_images *images);

#endif
