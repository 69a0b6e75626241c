/* SPDX-License-Identifier: Apache-2.0
 * Opens any bytes as an index. If the lowest bit of the first byte is set, the size and all
 * checksums are made right, so that contents are reached that no checksum protects. An index that
 * opens is changed, searched and saved, and what was saved opens, too. */
#include <stdbool.h>

#include "base/byte_order.h"
#include "base/checksum.h"
#include "fuzz.h"

/* docs/formats.md describes the header. */
enum {
    AT_KIND = 12,
    AT_SIZE = 16,
    AT_DIMENSIONS = 24,
    AT_ROW_BYTES = 28,
    AT_ROWS = 32,
    AT_TEXT_BYTES = 48,
    AT_NAME_BYTES = 56,
    AT_HAS_MODEL = 60,
    AT_CHECKSUMS = 64,
    AT_CHECKSUM = 120,
    HEADER = 128,
    SECTIONS = 7
};

static void mend(unsigned char *bytes, size_t size) {
    if (size < HEADER)
        return;
    const uint64_t rows = load_u64(bytes + AT_ROWS), dimensions = load_u32(bytes + AT_DIMENSIONS);
    const bool is_int8 = load_u32(bytes + AT_KIND) == 0;
    const uint64_t lengths[SECTIONS] = {load_u32(bytes + AT_NAME_BYTES),
                                        load_u32(bytes + AT_HAS_MODEL) ? 4 * dimensions : 0,
                                        is_int8 ? 4 * rows : 0,
                                        rows / 8 + (rows % 8 > 0),
                                        8 * rows,
                                        load_u64(bytes + AT_TEXT_BYTES),
                                        rows * load_u32(bytes + AT_ROW_BYTES)};
    uint64_t at = HEADER;
    for (int s = 0; s < SECTIONS; s++) {
        at = (at + 63) / 64 * 64;
        if (at > size || lengths[s] > size - at)
            break;
        store_u64(bytes + AT_CHECKSUMS + 8 * s, checksum(bytes + at, (size_t)lengths[s]));
        at += lengths[s];
    }
    store_u64(bytes + AT_SIZE, size);
    store_u64(bytes + AT_CHECKSUM, checksum(bytes, AT_CHECKSUM));
}

static void use(wisp_index *index) {
    wisp_index_info info;
    wisp_match matches[8];
    wisp_text id = wisp_text_of("new");
    wisp_error error;
    size_t found, size;
    wisp_index_get_info(index, &info);
    float *row = calloc(info.dimensions, sizeof *row);
    if (!row)
        abort();
    row[0] = 1;
    fuzz_check(wisp_index_search(index, row, 1, 8, matches, &found, &error), &error);
    for (uint64_t i = 0; i < info.rows; i++)
        if (wisp_index_get_vector(index, i, row) && !wisp_index_get(index, i, &id, NULL))
            abort();
    memset(row, 0, info.dimensions * sizeof *row); /* that of a row may be infinite */
    fuzz_check(wisp_index_add(index, &id, NULL, row, 1, &error), &error);
    fuzz_check(wisp_index_remove(index, &id, 1, NULL, &error), &error);
    fuzz_check(wisp_index_compact(index, &error), &error);
    fuzz_check(wisp_index_save_bytes(index, NULL, 0, &size, &error), &error);
    unsigned char *bytes = malloc(size);
    wisp_index *again;
    if (!bytes || wisp_index_save_bytes(index, bytes, size, &size, &error) != WISP_OK ||
        wisp_index_open_bytes(bytes, size, &again, &error) != WISP_OK)
        abort();
    wisp_index_close(again);
    free(bytes);
    free(row);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    wisp_index *index;
    wisp_error error;
    if (size == 0)
        return 0;
    unsigned char *bytes = malloc(size); /* one more than is opened, so that none is no NULL */
    if (!bytes)
        abort();
    memcpy(bytes, data + 1, size - 1);
    if (data[0] & 1)
        mend(bytes, size - 1);
    const wisp_status status = wisp_index_open_bytes(bytes, size - 1, &index, &error);
    fuzz_check(status, &error);
    if ((status == WISP_OK) != (index != NULL))
        abort();
    if (index)
        use(index);
    wisp_index_close(index);
    free(bytes);
    return 0;
}
