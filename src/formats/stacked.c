/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/stacked.h"

#include <stdio.h>
#include <string.h>

#include "formats/schema.h"

wisp_status stacked_divide(struct directory *dir, size_t at, const char *ending,
                           const char *const *names, const uint64_t *rows, size_t parts,
                           wisp_error *error) {
    const struct tensor whole = dir->tensors[at];
    const size_t stem = strlen(whole.name) - strlen(ending);
    uint64_t first = 0, all = 0;
    for (size_t i = 0; i < parts; i++)
        all += rows[i];
    if (whole.n_dims != 2 || whole.rows != all)
        return fail(error, WISP_ERROR_FORMAT, dir->sources[whole.source].name, whole.name,
                    "not a matrix of the %llu rows that the model's sizes say",
                    (unsigned long long)all);
    for (size_t i = 0; i < parts; i++) {
        struct tensor *part = &dir->tensors[at];
        const size_t length = strlen(names[i]);
        char *name;
        ARENA_TAKE(&dir->arena, name, stem + length + 1, error);
        snprintf(name, stem + length + 1, "%.*s%s", (int)stem, whole.name, names[i]);
        if (i > 0)
            TRY(directory_add_tensor(dir, &part, error));
        *part = whole;
        part->name = name;
        part->dims[1] = rows[i];
        part->offset += first * whole.row_bytes;
        first += rows[i];
        TRY(directory_check_tensor(dir, part, error));
    }
    return WISP_OK;
}

static bool ends_with(const char *text, const char *ending) {
    const size_t length = strlen(text), tail = strlen(ending);
    return length >= tail && strcmp(text + length - tail, ending) == 0;
}

wisp_status stacked_divide_qkv(struct directory *dir, wisp_error *error) {
    static const char qkv[] = ".attn_qkv.weight", up[] = ".ffn_up.weight";
    static const char *const qkv_names[] = {".attn_q.weight", ".attn_k.weight", ".attn_v.weight"};
    static const char *const up_names[] = {".ffn_gate.weight", up};
    enum { LAYERS, HIDDEN, NEURONS, HEADS, KV_HEADS, HEAD_SIZE, SIZES };
    static const char *const keys[SIZES] = {
        "block_count",          "embedding_length",        "feed_forward_length",
        "attention.head_count", "attention.head_count_kv", "attention.key_length"};
    const char *architecture;
    uint32_t size[SIZES] = {0};
    TRY(metadata_text(dir, "general.architecture", &architecture, error));
    for (size_t i = 0; i < SIZES; i++) {
        char key[TENSOR_NAME_BYTES];
        snprintf(key, sizeof key, "%s.%s", architecture, keys[i]);
        if (i == KV_HEADS) {
            size[KV_HEADS] = size[HEADS];
            size[HEAD_SIZE] = size[HEADS] > 0 ? size[HIDDEN] / size[HEADS] : 0;
        }
        TRY((i < KV_HEADS ? metadata_u32 : metadata_u32_or)(dir, key, &size[i], error));
    }
    const uint64_t kv_rows = (uint64_t)size[KV_HEADS] * size[HEAD_SIZE];
    const uint64_t qkv_rows[] = {(uint64_t)size[HEADS] * size[HEAD_SIZE], kv_rows, kv_rows};
    const uint64_t up_rows[] = {size[NEURONS], size[NEURONS]};
    for (uint32_t l = 0; l < size[LAYERS]; l++) {
        const struct tensor *found;
        char name[TENSOR_NAME_BYTES];
        TRY(directory_require_tensor(dir, layer_tensor_name(name, l, "attn_qkv", ".weight"),
                                     size[HIDDEN], qkv_rows[0] + 2 * kv_rows, &found, error));
        TRY(directory_require_tensor(dir, layer_tensor_name(name, l, "ffn_up", ".weight"),
                                     size[HIDDEN], 2 * up_rows[0], &found, error));
    }
    for (size_t i = 0, n = dir->n_tensors; i < n; i++) {
        if (ends_with(dir->tensors[i].name, qkv))
            TRY(stacked_divide(dir, i, qkv, qkv_names, qkv_rows, 3, error));
        else if (ends_with(dir->tensors[i].name, up))
            TRY(stacked_divide(dir, i, up, up_names, up_rows, 2, error));
    }
    return WISP_OK;
}

wisp_status stacked_divide_halves(struct directory *dir, const char *const *names,
                                  wisp_error *error) {
    static const char up[] = ".ffn_up.weight";
    for (size_t i = 0, n = dir->n_tensors; i < n; i++) {
        const uint64_t half = dir->tensors[i].rows / 2, rows[] = {half, half};
        if (ends_with(dir->tensors[i].name, up))
            TRY(stacked_divide(dir, i, up, names, rows, 2, error));
    }
    return WISP_OK;
}

wisp_status stacked_divide_gates(struct directory *dir, wisp_error *error) {
    static const char *const names[] = {".ffn_gate.weight", ".ffn_up.weight"};
    return stacked_divide_halves(dir, names, error);
}

wisp_status stacked_divide_file(struct directory *dir, wisp_error *error) {
    const struct metadata *name = directory_find_metadata(dir, "general.architecture");
    const struct stacking *stacking = stackings;
    if (!name || name->type != VALUE_STRING || dir->n_tensors == 0)
        return WISP_OK; /* a file with only a vocabulary has nothing to divide */
    while (stacking->architecture && strcmp(name->as.text.bytes, stacking->architecture) != 0)
        stacking++;
    if (!stacking->architecture || directory_find_tensor(dir, "blk.0.ffn_gate.weight"))
        return WISP_OK;
    TRY(directory_keep_stored(dir, error));
    TRY(stacking->divide(dir, error));
    return directory_finish(dir, error);
}
