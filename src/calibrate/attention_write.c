/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "calibrate/attention.h"
#include "calibrate/write_calibrated.h"
#include "convert/write_model.h"
#include "formats/schema.h"
#include "native/open_path.h"

wisp_status attention_put(const struct attention_calibration *c, struct directory *dir,
                          wisp_error *error) {
    const struct attention_masks *m = &c->masks;
    const size_t heads = m->layers * m->kv_heads, bytes = heads * attention_mask_bytes(m->steps);
    unsigned char *model, *kinds, *bits;
    int32_t *windows;
    directory_drop_metadata(dir, KEY_ATTENTION_PREFIX);
    TRY(directory_finish(dir, error));
    ARENA_TAKE(&dir->arena, model, MASK_MODEL_BYTES, error);
    ARENA_TAKE(&dir->arena, kinds, heads, error);
    ARENA_TAKE(&dir->arena, windows, heads, error);
    ARENA_TAKE(&dir->arena, bits, bytes, error);
    TRY(attention_masks_model(dir, model, error));
    memcpy(kinds, m->kinds, heads);
    memcpy(windows, m->windows, heads * sizeof *windows);
    memcpy(bits, m->bits, bytes);
    if (*c->choice)
        TRY(directory_put_text(dir, KEY_ATTENTION_AUTO, wisp_text_of(c->choice), error));
    TRY(directory_put_numbers(dir, KEY_ATTENTION_MODEL, VALUE_U8, model, MASK_MODEL_BYTES, error));
    TRY(directory_put_u32(dir, KEY_ATTENTION_STEPS, (uint32_t)m->steps, error));
    TRY(directory_put_u32(dir, KEY_ATTENTION_SINKS, (uint32_t)m->sinks, error));
    TRY(directory_put_numbers(dir, KEY_ATTENTION_KINDS, VALUE_U8, kinds, heads, error));
    TRY(directory_put_numbers(dir, KEY_ATTENTION_WINDOWS, VALUE_I32, windows, heads, error));
    TRY(directory_put_numbers(dir, KEY_ATTENTION_MASKS, VALUE_U8, bits, bytes, error));
    return directory_finish(dir, error);
}

static wisp_status write_all(const struct attention_calibration *c, struct directory *dir,
                             struct arena *arena, const char *output, wisp_error *error) {
    struct gguf_plan plan = {0};
    TRY(check_calibrated_input(dir, &c->model->dir, error));
    TRY(attention_put(c, dir, error));
    ARENA_TAKE(arena, plan.formats, dir->n_tensors + 1, error);
    for (size_t i = 0; i < dir->n_tensors; i++)
        plan.formats[i] = dir->tensors[i].format;
    return write_model(dir, &plan, NEURONS_AS_THEY_ARE, output, error);
}

wisp_status attention_write(const struct attention_calibration *c, const char *input,
                            const char *output, wisp_error *error) {
    struct arena arena = {0};
    struct directory dir;
    TRY(directory_open_path(&dir, input, error));
    const wisp_status status = write_all(c, &dir, &arena, output, error);
    arena_release(&arena);
    directory_release(&dir);
    return status;
}
