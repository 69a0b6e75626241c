/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sha256.h"

#include <string.h>

/* FIPS 180-4, section 4.2.2: the first 32 bits of the fractional parts of the cube roots of the
 * first 64 primes. */
static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, unsigned bits) {
    return x >> bits | x << (32 - bits);
}

/* Adds a block of 64 bytes. The working variables a to h move on by one place in each round, so in
 * round i variable j is s[(j - i) mod 8], and after eight rounds each is where it was. */
static void add_block(struct sha256 *hash, const unsigned char *block) {
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++, block += 4)
        w[i] = (uint32_t)block[0] << 24 | (uint32_t)block[1] << 16 | (uint32_t)block[2] << 8 |
               block[3];
    for (int i = 16; i < 64; i++) {
        const uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] +
               (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
    memcpy(s, hash->state, sizeof s);
    for (int first = 0; first < 64; first += 8) {
#pragma GCC unroll 8 /* gcc computes the places at run time otherwise, a third slower */
        for (int i = 0; i < 8; i++) {
            const uint32_t a = s[(8 - i) % 8], b = s[(9 - i) % 8], c = s[(10 - i) % 8];
            const uint32_t e = s[(12 - i) % 8], f = s[(13 - i) % 8], g = s[(14 - i) % 8];
            const uint32_t one = s[(15 - i) % 8] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
                                 ((e & f) ^ (~e & g)) + constants[first + i] + w[first + i];
            s[(11 - i) % 8] += one;
            s[(15 - i) % 8] = one + (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) +
                              ((a & b) ^ (a & c) ^ (b & c));
        }
    }
    for (int i = 0; i < 8; i++)
        hash->state[i] += s[i];
}

void sha256_start(struct sha256 *hash) {
    *hash = (struct sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                      0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void sha256_add(struct sha256 *hash, const void *bytes, size_t length) {
    const unsigned char *from = bytes;
    while (length > 0) {
        if (hash->length % 64 == 0 && length >= 64) {
            add_block(hash, from);
            hash->length += 64;
            from += 64;
            length -= 64;
            continue;
        }
        const size_t used = (size_t)(hash->length % 64), room = 64 - used;
        const size_t step = length < room ? length : room;
        memcpy(hash->block + used, from, step);
        hash->length += step;
        from += step;
        length -= step;
        if (used + step == 64)
            add_block(hash, hash->block);
    }
}

void sha256_finish(struct sha256 *hash, unsigned char digest[32]) {
    static const unsigned char padding[64] = {0x80};
    unsigned char bits[8];
    const uint64_t length = hash->length;
    for (int i = 0; i < 8; i++)
        bits[i] = (unsigned char)(length * 8 >> (56 - 8 * i));
    sha256_add(hash, padding, 1 + (119 - (size_t)(length % 64)) % 64);
    sha256_add(hash, bits, sizeof bits);
    for (int i = 0; i < 32; i++)
        digest[i] = (unsigned char)(hash->state[i / 4] >> (24 - i % 4 * 8));
}

void sha256_text(const unsigned char digest[32], char text[65]) {
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 32; i++) {
        text[2 * i] = digits[digest[i] >> 4];
        text[2 * i + 1] = digits[digest[i] & 15];
    }
    text[64] = '\0';
}
