/* SPDX-License-Identifier: Apache-2.0
 * Looks for the orientation in any bytes, and turns an image by it, of which every pixel stays. */
#include "fuzz.h"
#include "images/orientation.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { ROWS = 3, COLUMNS = 5, PIXELS = ROWS * COLUMNS };
    const enum orientation found = orientation_find(data, size);
    uint8_t pixels[3 * PIXELS], turned[3 * PIXELS];
    bool seen[PIXELS] = {false};
    if (found < ORIENTATION_TOP_LEFT || found > ORIENTATION_LEFT_BOTTOM)
        abort();
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i / 3);
    orientation_turn(found, pixels, ROWS, COLUMNS, turned);
    for (size_t i = 0; i < PIXELS; i++) {
        const uint8_t *pixel = turned + 3 * i;
        if (pixel[0] >= PIXELS || seen[pixel[0]] || pixel[1] != pixel[0] || pixel[2] != pixel[0])
            abort();
        seen[pixel[0]] = true;
    }
    return 0;
}
