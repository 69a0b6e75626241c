/* SPDX-License-Identifier: Apache-2.0
 * The types of the generated tables of NFC, for nfc.c only. */
#ifndef WISP_TEXT_UNICODE_NFC_H
#define WISP_TEXT_UNICODE_NFC_H

#include <stdint.h>

enum {
    UNICODE_NFC_PARTS = 2060,
    UNICODE_NFC_PAIRS = 940,
    UNICODE_NFC_CLASSES = 333,
    UNICODE_NFC_LIMIT = 0x2FA80 /* NFC leaves all code points from here on as they are */
};

/* Code points, and the first and the second that each decomposes to, or 0 if there is no second,
 * which decomposes no further. Sorted by the code points. The three bytes of code points are apart,
 * the low ones first: so the tables are a third smaller once compressed. */
enum nfc_part { NFC_WHOLE, NFC_FIRST, NFC_SECOND };
extern const uint8_t unicode_nfc_parts[3 * 3 * UNICODE_NFC_PARTS];

/* Indices of those that are composed again, sorted by their first and second code points. */
extern const uint16_t unicode_nfc_pairs[UNICODE_NFC_PAIRS];

/* Runs of combining code points, sorted: the bytes of the first, how many follow it, and their
 * class. */
extern const uint8_t unicode_nfc_class_firsts[3 * UNICODE_NFC_CLASSES];
extern const uint8_t unicode_nfc_class_more[UNICODE_NFC_CLASSES];
extern const uint8_t unicode_nfc_classes[UNICODE_NFC_CLASSES];

/* A block has a bit for each of its 128 code points: whether it is combining, decomposes for good,
 * or may be composed with the code point before it. */
extern const uint8_t unicode_nfc_unsure_index[UNICODE_NFC_LIMIT / 128];
extern const uint8_t unicode_nfc_unsure_blocks[];

#endif
