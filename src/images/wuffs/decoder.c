/* SPDX-License-Identifier: Apache-2.0
 * Decodes images by Wuffs, whose decoders cannot read or write outside of the memory they are
 * given: its compiler proves it. */
#include <stdlib.h>
#include <string.h>

#define WUFFS_IMPLEMENTATION
#define WUFFS_CONFIG__STATIC_FUNCTIONS
#define WUFFS_CONFIG__MODULES
#define WUFFS_CONFIG__MODULE__ADLER32
#define WUFFS_CONFIG__MODULE__BASE
#define WUFFS_CONFIG__MODULE__BMP
#define WUFFS_CONFIG__MODULE__CRC32
#define WUFFS_CONFIG__MODULE__DEFLATE
#define WUFFS_CONFIG__MODULE__GIF
#define WUFFS_CONFIG__MODULE__JPEG
#define WUFFS_CONFIG__MODULE__PNG
#define WUFFS_CONFIG__MODULE__WEBP
#define WUFFS_CONFIG__MODULE__ZLIB
#include <wuffs.c>

#include "images/decoder.h"

/* The formats, by the codes of wuffs_base__magic_number_guess_fourcc. */
static wuffs_base__image_decoder *open_decoder(wuffs_base__slice_u8 bytes) {
    switch (wuffs_base__magic_number_guess_fourcc(bytes, true)) {
    case WUFFS_BASE__FOURCC__BMP:
        return wuffs_bmp__decoder__alloc_as__wuffs_base__image_decoder();
    case WUFFS_BASE__FOURCC__GIF:
        return wuffs_gif__decoder__alloc_as__wuffs_base__image_decoder();
    case WUFFS_BASE__FOURCC__JPEG:
        return wuffs_jpeg__decoder__alloc_as__wuffs_base__image_decoder();
    case WUFFS_BASE__FOURCC__PNG:
        return wuffs_png__decoder__alloc_as__wuffs_base__image_decoder();
    case WUFFS_BASE__FOURCC__WEBP:
        return wuffs_webp__decoder__alloc_as__wuffs_base__image_decoder();
    default:
        return NULL;
    }
}

/* Turns blue, green, red and alpha into red, green and blue. Wuffs can write these in their order,
 * but mistakes it in a JPEG of fewer than 32 columns (version 0.4 of January 2025). */
static void pack(uint8_t *pixels, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const uint8_t blue = pixels[4 * i], green = pixels[4 * i + 1], red = pixels[4 * i + 2];
        pixels[3 * i] = red;
        pixels[3 * i + 1] = green;
        pixels[3 * i + 2] = blue;
    }
}

static const char *decode_into(wuffs_base__image_decoder *decoder, wuffs_base__io_buffer *source,
                               struct image_size size, uint8_t *pixels) {
    wuffs_base__pixel_config config = wuffs_base__null_pixel_config();
    wuffs_base__pixel_config__set(&config, WUFFS_BASE__PIXEL_FORMAT__BGRA_NONPREMUL,
                                  WUFFS_BASE__PIXEL_SUBSAMPLING__NONE, size.width, size.height);
    const uint64_t count = (uint64_t)size.width * size.height;
    wuffs_base__pixel_buffer buffer = {0};
    wuffs_base__status status = wuffs_base__pixel_buffer__set_from_slice(
        &buffer, &config, wuffs_base__make_slice_u8(pixels, (size_t)(4 * count)));
    if (status.repr)
        return status.repr;
    const uint64_t work_bytes = wuffs_base__image_decoder__workbuf_len(decoder).max_incl;
    uint8_t *work = work_bytes <= SIZE_MAX ? malloc(work_bytes > 0 ? (size_t)work_bytes : 1) : NULL;
    if (!work)
        return IMAGE_NO_MEMORY;
    status = wuffs_base__image_decoder__decode_frame(
        decoder, &buffer, source, WUFFS_BASE__PIXEL_BLEND__SRC,
        wuffs_base__make_slice_u8(work, (size_t)work_bytes), NULL);
    free(work);
    return status.repr;
}

/* Reads what is before the pixels. */
static const char *begin(const uint8_t *bytes, size_t n, wuffs_base__io_buffer *source,
                         wuffs_base__image_decoder **decoder, struct image_size *size) {
    wuffs_base__image_config config = {0};
    *source = wuffs_base__ptr_u8__reader((uint8_t *)(uintptr_t)bytes, n, true);
    *decoder = open_decoder(wuffs_base__make_slice_u8((uint8_t *)(uintptr_t)bytes, n));
    if (!*decoder)
        return "not an image of PNG, JPEG, GIF, BMP or WebP";
    wuffs_base__image_decoder__set_quirk(*decoder, WUFFS_BASE__QUIRK_QUALITY,
                                         WUFFS_BASE__QUIRK_QUALITY__VALUE__HIGHER_QUALITY);
    const wuffs_base__status status =
        wuffs_base__image_decoder__decode_image_config(*decoder, &config, source);
    if (status.repr)
        return status.repr;
    size->width = wuffs_base__pixel_config__width(&config.pixcfg);
    size->height = wuffs_base__pixel_config__height(&config.pixcfg);
    return NULL;
}

static const char *measure(const uint8_t *bytes, size_t n, struct image_size *size) {
    wuffs_base__io_buffer source;
    wuffs_base__image_decoder *decoder;
    const char *fault = begin(bytes, n, &source, &decoder, size);
    free(decoder);
    return fault;
}

static const char *decode(const uint8_t *bytes, size_t n, struct image_size size, uint8_t *pixels) {
    wuffs_base__io_buffer source;
    wuffs_base__image_decoder *decoder;
    struct image_size again;
    const size_t count = (size_t)size.width * size.height;
    const char *fault = begin(bytes, n, &source, &decoder, &again);
    if (!fault && (again.width != size.width || again.height != size.height))
        fault = "the size has changed";
    /* Pixels that the first frame of a GIF leaves out are black. */
    if (!fault)
        memset(pixels, 0, 4 * count);
    if (!fault)
        fault = decode_into(decoder, &source, size, pixels);
    if (!fault)
        pack(pixels, count);
    free(decoder);
    return fault;
}

__attribute__((visibility("default"))) const struct image_decoder *wisp_image_decoder(void) {
    static const struct image_decoder decoder = {IMAGE_DECODER_VERSION, measure, decode};
    return &decoder;
}
