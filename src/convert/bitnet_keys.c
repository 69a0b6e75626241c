/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/bitnet_keys.h"

#include "formats/schema.h"

static const char *find_of(const struct directory *dir, const struct block_format *const *formats,
                           enum block_type type) {
    for (size_t i = 0; i < dir->n_tensors; i++)
        if (formats[i]->id == type)
            return dir->tensors[i].name;
    return NULL;
}

wisp_status bitnet_put_keys(struct directory *dir, const struct block_format *const *formats,
                            wisp_error *error) {
    static const struct {
        const char *key, *value;
    } keys[] = {{KEY_BITNET_VERSION, BITNET_VERSION},
                {KEY_BITNET_WEIGHT_ENCODING, "absmean_ternary"},
                {KEY_BITNET_ACTIVATION_BITS, "8"},
                {KEY_BITNET_BLOCK_SIZE, BITNET_BLOCK_SIZE},
                {KEY_BITNET_KERNEL_HINT, "tl1"}};
    const char *ternary = find_of(dir, formats, BLOCK_T158);
    const char *bf16 = find_of(dir, formats, BLOCK_BF16);
    directory_drop_metadata(dir, KEY_BITNET_PREFIX);
    if (ternary && bf16)
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, bf16,
                    "a file with BITNET_T158 (%s) cannot have BF16, whose number is the same",
                    ternary);
    for (size_t i = 0; ternary && i < sizeof keys / sizeof *keys; i++)
        TRY(directory_put_text(dir, keys[i].key, wisp_text_of(keys[i].value), error));
    return directory_finish(dir, error);
}
