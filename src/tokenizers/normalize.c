/* SPDX-License-Identifier: Apache-2.0
 * Canonical order needs no buffer here. A run of combining characters may be as long as the text,
 * but the characters that remain after accents are stripped have few combining classes, so the run
 * is read once for each class that occurs in it.
 * Compiled for size in WebAssembly. */
#include "tokenizers/normalize.h"

#include "text/unicode.h"

/* Returns whether BERT counts the character as Chinese: it lists these CJK blocks, without kana and
 * Hangul. */
static bool is_chinese(uint32_t c) {
    return c >= 0x3400 &&
           (c <= 0x4DBF || (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0xF900 && c <= 0xFAFF) ||
            (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B81F) ||
            (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0x2F800 && c <= 0x2FA1F));
}

/* Passes a code point on, in lower case if the normaliser says so. */
static void put(const struct normalizer *normalizer, uint32_t code_point, const struct sink *sink) {
    uint32_t lower[2];
    if (!normalizer->lowercase) {
        sink->take(sink->context, code_point);
        return;
    }
    const size_t count = unicode_lower(code_point, lower);
    for (size_t i = 0; i < count; i++)
        sink->take(sink->context, lower[i]);
}

/* Reads the next code point of a run of combining characters; READER_NONE if the run ends.
 * Characters that cleaning drops do not interrupt a run. */
static uint32_t next_in_run(const struct normalizer *normalizer, struct segment *text) {
    for (;;) {
        struct segment ahead = *text;
        const uint32_t code_point = segment_next(&ahead);
        if (code_point == READER_NONE || code_point == SEGMENT_MATCH)
            return READER_NONE;
        const unsigned flags = unicode_flags(code_point);
        const bool dropped = normalizer->clean_text && (flags & UNICODE_CONTROL);
        if (!dropped && !(flags & UNICODE_NONSTARTER))
            return READER_NONE;
        *text = ahead;
        if (!dropped)
            return code_point;
    }
}

/* Passes on in canonical order a run that starts with the `count` code points `first`, all of one
 * class, and goes on in `text`. */
static void put_run(const struct normalizer *normalizer, struct segment *text,
                    const uint32_t *first, size_t count, const struct sink *sink) {
    const unsigned first_rank = unicode_rank(first[0]);
    unsigned ranks = 1u << first_rank;
    uint32_t code_point;
    struct segment end = *text;
    while ((code_point = next_in_run(normalizer, &end)) != READER_NONE)
        ranks |= 1u << unicode_rank(code_point);
    for (unsigned rank = 1; rank <= UNICODE_MAX_RANK; rank++) {
        if (!(ranks >> rank & 1))
            continue;
        for (size_t i = 0; i < count && rank == first_rank; i++)
            put(normalizer, first[i], sink);
        struct segment pass = *text;
        while ((code_point = next_in_run(normalizer, &pass)) != READER_NONE)
            if (unicode_rank(code_point) == rank)
                put(normalizer, code_point, sink);
    }
    *text = end;
}

/* Passes on what is left of a code point without its accents. */
static void strip_and_put(const struct normalizer *normalizer, struct segment *text,
                          uint32_t code_point, unsigned flags, const struct sink *sink) {
    uint32_t left[3] = {code_point};
    size_t count = 1, i = 0;
    if (flags & UNICODE_MARK)
        return;
    if (flags & UNICODE_DECOMPOSES)
        count = unicode_strip(code_point, left);
    while (i < count && !(unicode_flags(left[i]) & UNICODE_NONSTARTER))
        put(normalizer, left[i++], sink);
    if (i < count)
        put_run(normalizer, text, left + i, count - i, sink);
}

void normalize(const struct normalizer *normalizer, struct segment *text, uint32_t code_point,
               const struct sink *sink) {
    const unsigned flags = unicode_flags(code_point);
    const unsigned accented = UNICODE_MARK | UNICODE_NONSTARTER | UNICODE_DECOMPOSES;
    if (normalizer->clean_text) {
        if (flags & UNICODE_CONTROL)
            return;
        if (flags & UNICODE_SPACE) {
            sink->take(sink->context, ' ');
            return;
        }
    }
    const bool chinese = normalizer->handle_chinese_chars && is_chinese(code_point);
    if (chinese)
        sink->take(sink->context, ' ');
    if (normalizer->strip_accents && (flags & accented))
        strip_and_put(normalizer, text, code_point, flags, sink);
    else if (flags & UNICODE_HAS_LOWER)
        put(normalizer, code_point, sink);
    else
        sink->take(sink->context, code_point);
    if (chinese)
        sink->take(sink->context, ' ');
}
