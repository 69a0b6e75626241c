/* SPDX-License-Identifier: Apache-2.0 */
#include "images/orientation.h"

#include <string.h>

/* Bytes of a file. */
struct part {
    const uint8_t *bytes;
    size_t n;
};

/* Returns what is from `offset` on, at most `n` bytes; nothing if that is behind the end. */
static struct part part_from(struct part whole, size_t offset, size_t n) {
    if (offset > whole.n)
        return (struct part){0};
    const size_t left = whole.n - offset;
    return (struct part){whole.bytes + offset, n < left ? n : left};
}

/* Returns a number of `n` bytes, at most 4, which are there. */
static uint32_t number(const uint8_t *bytes, size_t n, bool little) {
    uint32_t value = 0;
    for (size_t i = 0; i < n; i++)
        value = value << 8 | bytes[little ? n - 1 - i : i];
    return value;
}

/* Reads the orientation in a TIFF file's first directory: entries of a tag, a type, a count and a
 * value. */
static enum orientation of_tiff(struct part tiff) {
    enum { HEADER = 8, ENTRY = 12, TAG = 0x0112, SHORT = 3 };
    if (tiff.n < HEADER ||
        (memcmp(tiff.bytes, "II*\0", 4) != 0 && memcmp(tiff.bytes, "MM\0*", 4) != 0))
        return ORIENTATION_TOP_LEFT;
    const bool little = tiff.bytes[0] == 'I';
    struct part rest = part_from(tiff, number(tiff.bytes + 4, 4, little), SIZE_MAX);
    if (rest.n < 2)
        return ORIENTATION_TOP_LEFT;
    const uint32_t entries = number(rest.bytes, 2, little);
    rest = part_from(rest, 2, SIZE_MAX);
    for (uint32_t i = 0; i < entries && rest.n >= ENTRY; i++) {
        const uint32_t value = number(rest.bytes + 8, 2, little);
        if (number(rest.bytes, 2, little) == TAG && number(rest.bytes + 2, 2, little) == SHORT &&
            value >= ORIENTATION_TOP_LEFT && value <= ORIENTATION_LEFT_BOTTOM)
            return (enum orientation)value;
        rest = part_from(rest, ENTRY, SIZE_MAX);
    }
    return ORIENTATION_TOP_LEFT;
}

/* Looks for the segment of EXIF in a JPEG file, before its first scan. A segment is 0xFF, a marker,
 * and a length that counts its own two bytes. */
static struct part exif_of_jpeg(struct part file) {
    enum { APP1 = 0xE1, SCAN = 0xDA, MARKED = 4 };
    static const char name[] = "Exif\0"; /* and the 0 that ends it */
    struct part rest = part_from(file, 2, SIZE_MAX);
    while (rest.n >= MARKED && rest.bytes[0] == 0xFF && rest.bytes[1] != SCAN) {
        if (rest.bytes[1] == 0xFF) { /* filling */
            rest = part_from(rest, 1, SIZE_MAX);
            continue;
        }
        const uint32_t length = number(rest.bytes + 2, 2, false);
        const struct part body = part_from(rest, MARKED, length < 2 ? 0 : length - 2);
        if (rest.bytes[1] == APP1 && body.n >= sizeof name &&
            memcmp(body.bytes, name, sizeof name) == 0)
            return part_from(body, sizeof name, SIZE_MAX);
        rest = part_from(rest, 2 + (size_t)length, SIZE_MAX);
    }
    return (struct part){0};
}

/* Looks for the chunk of EXIF in a PNG file. A chunk is a length, a name, as many bytes, and a
 * checksum. */
static struct part exif_of_png(struct part file) {
    enum { SIGNATURE = 8, NAMED = 8, CHECKSUM = 4 };
    struct part rest = part_from(file, SIGNATURE, SIZE_MAX);
    while (rest.n >= NAMED) {
        const uint32_t length = number(rest.bytes, 4, false);
        if (memcmp(rest.bytes + 4, "eXIf", 4) == 0)
            return part_from(rest, NAMED, length);
        rest = part_from(part_from(rest, NAMED + CHECKSUM, SIZE_MAX), length, SIZE_MAX);
    }
    return (struct part){0};
}

enum orientation orientation_find(const uint8_t *bytes, size_t n) {
    const struct part file = {bytes, n};
    if (n >= 2 && memcmp(bytes, "\xFF\xD8", 2) == 0)
        return of_tiff(exif_of_jpeg(file));
    if (n >= 8 && memcmp(bytes, "\x89PNG\r\n\x1A\n", 8) == 0)
        return of_tiff(exif_of_png(file));
    return ORIENTATION_TOP_LEFT;
}

void orientation_turn(enum orientation orientation, const uint8_t *pixels, uint32_t rows,
                      uint32_t columns, uint8_t *out) {
    const bool swaps = orientation >= ORIENTATION_LEFT_TOP;
    const bool from_right =
        orientation == ORIENTATION_TOP_RIGHT || orientation == ORIENTATION_BOTTOM_RIGHT ||
        orientation == ORIENTATION_RIGHT_BOTTOM || orientation == ORIENTATION_LEFT_BOTTOM;
    const bool from_bottom =
        orientation == ORIENTATION_BOTTOM_RIGHT || orientation == ORIENTATION_BOTTOM_LEFT ||
        orientation == ORIENTATION_RIGHT_TOP || orientation == ORIENTATION_RIGHT_BOTTOM;
    const uint32_t height = swaps ? columns : rows, width = swaps ? rows : columns;
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++, out += 3) {
            const uint32_t row = swaps ? x : y, column = swaps ? y : x;
            const size_t r = from_bottom ? rows - 1 - row : row;
            const size_t c = from_right ? columns - 1 - column : column;
            memcpy(out, pixels + (r * columns + c) * 3, 3);
        }
}
