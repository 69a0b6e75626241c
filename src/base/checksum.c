/* SPDX-License-Identifier: Apache-2.0 */
#include "base/checksum.h"

#include <string.h>

#include "base/byte_order.h"

/* The words of the bytes go to the lanes in turn, so that the multiplications of different lanes do
 * not wait for one another. */
enum { LANES = 4, WORD = sizeof(uint64_t) };

/* Both steps can be undone, so different words give different lanes. */
static uint64_t mix(uint64_t lane, uint64_t word) {
    lane = (lane ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return lane ^ lane >> 32;
}

uint64_t checksum(const void *bytes, size_t length) {
    const unsigned char *at = bytes;
    uint64_t lanes[LANES] = {1, 2, 3, length};
    for (; length >= LANES * WORD; length -= LANES * WORD)
        for (size_t i = 0; i < LANES; i++, at += WORD) {
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
    uint64_t sum = 0;
    for (size_t i = 0; i < LANES; i++)
        sum = mix(sum, lanes[i]);
    return sum;
}
