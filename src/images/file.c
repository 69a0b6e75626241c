/* SPDX-License-Identifier: Apache-2.0 */
#include "images/file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { CHANNELS = 3, DECODED_CHANNELS = 4, MOST_SIDE = 65536 };

/* Fails with what a decoder says. Wuffs' texts begin with a "#". */
static wisp_status fail_of(const char *fault, const char *path, wisp_error *error) {
    const bool lacks_memory = strcmp(fault, IMAGE_NO_MEMORY) == 0;
    return fail(error, lacks_memory ? WISP_ERROR_MEMORY : WISP_ERROR_FORMAT, path, NULL, "%s",
                fault + (fault[0] == '#'));
}

wisp_status image_file_read(struct image_file *file, const char *path,
                            const struct image_decoder *decoder, wisp_error *error) {
    struct stat info;
    *file = (struct image_file){0};
    if (stat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > IMAGE_MOST_BYTES)
        return fail(error, WISP_ERROR_UNSUPPORTED, path, NULL, "more than %d bytes",
                    IMAGE_MOST_BYTES);
    TRY(file_read(path, &file->bytes, error));
    const uint8_t *bytes = (const uint8_t *)file->bytes.data;
    const char *fault = decoder->measure(bytes, file->bytes.size, &file->size);
    if (fault)
        return fail_of(fault, path, error);
    const uint64_t pixels = (uint64_t)file->size.width * file->size.height;
    if (pixels == 0 || pixels > IMAGE_MOST_PIXELS || file->size.width > MOST_SIDE ||
        file->size.height > MOST_SIDE)
        return fail(error, WISP_ERROR_UNSUPPORTED, path, NULL,
                    "%u x %u pixels: a side has 1 to %d, and an image at most %d", file->size.width,
                    file->size.height, MOST_SIDE, IMAGE_MOST_PIXELS);
    file->orientation = orientation_find(bytes, file->bytes.size);
    return WISP_OK;
}

/* Replaces the pixels by upright ones. */
static wisp_status turn(struct image_file *file, uint8_t **pixels, wisp_error *error) {
    const size_t bytes = (size_t)file->size.width * file->size.height * CHANNELS;
    uint8_t *turned = malloc(bytes);
    if (!turned)
        return fail_memory(error, bytes);
    orientation_turn(file->orientation, *pixels, file->size.height, file->size.width, turned);
    free(*pixels);
    *pixels = turned;
    return WISP_OK;
}

wisp_status image_file_decode(struct image_file *file, const char *path,
                              const struct image_decoder *decoder, wisp_error *error) {
    const struct image_size size = file->size;
    const bool swaps = file->orientation >= ORIENTATION_LEFT_TOP;
    const size_t bytes = (size_t)size.width * size.height * DECODED_CHANNELS;
    uint8_t *pixels = malloc(bytes);
    if (!pixels)
        return fail_memory(error, bytes);
    const char *fault =
        decoder->decode((const uint8_t *)file->bytes.data, file->bytes.size, size, pixels);
    wisp_status status = fault ? fail_of(fault, path, error) : WISP_OK;
    if (status == WISP_OK && file->orientation != ORIENTATION_TOP_LEFT)
        status = turn(file, &pixels, error);
    free(file->bytes.data);
    file->bytes = (struct file_bytes){0};
    file->image = (wisp_image){.pixels = pixels,
                               .width = swaps ? size.height : size.width,
                               .height = swaps ? size.width : size.height};
    return status;
}

void image_file_release(struct image_file *file) {
    free(file->bytes.data);
    free((void *)(uintptr_t)file->image.pixels);
    *file = (struct image_file){0};
}
