/* SPDX-License-Identifier: Apache-2.0 */
#include "base/checksum.h"

#include <string.h>

#include "base/byte_order.h"

enum { WORD = sizeof(uint64_t) };

/* Both steps can be undone, so different words give different lanes. */
static uint64_t mix(uint64_t lane, uint64_t word) {
    lane = (lane ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return lane ^ lane >> 32;
}

struct checksum checksum_begin(size_t length) {
    return (struct checksum){{1, 2, 3, length}};
}

void checksum_add(struct checksum *sum, const void *part, size_t length) {
    const unsigned char *at = part;
    uint64_t *lanes = sum->lanes;
    for (; length >= CHECKSUM_PART; length -= CHECKSUM_PART)
        for (size_t i = 0; i < CHECKSUM_LANES; i++, at += WORD) {
            lanes[i] = mix(lanes[i], load_u64(at));
        }
    for (size_t i = 0; length > 0; i++) {
        const size_t here = length < WORD ? length : WORD;
        unsigned char word[WORD] = {0};
        memcpy(word, at, here);
        lanes[i] = mix(lanes[i], load_u64(word));
        at += here;
        length -= here;
    }
}

uint64_t checksum_end(const struct checksum *sum) {
    uint64_t value = 0;
    for (size_t i = 0; i < CHECKSUM_LANES; i++)
        value = mix(value, sum->lanes[i]);
    return value;
}

uint64_t checksum(const void *bytes, size_t length) {
    struct checksum sum = checksum_begin(length);
    checksum_add(&sum, bytes, length);
    return checksum_end(&sum);
}
