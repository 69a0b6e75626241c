/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "calibrate/gates.h"
#include "calibrate/write_calibrated.h"
#include "convert/calibration_tensors.h"
#include "convert/write_model.h"
#include "formats/schema.h"
#include "native/open_path.h"

/* Adds a tensor of n floats, which is a part of a source in memory. */
static wisp_status add_floats(struct directory *dir, uint32_t source, size_t offset, size_t layer,
                              const char *part, size_t n, wisp_error *error) {
    char name[TENSOR_NAME_BYTES];
    struct tensor *tensor;
    layer_tensor_name(name, layer, part, "");
    TRY(directory_add_tensor(dir, &tensor, error));
    const char *copy = arena_copy_text(&dir->arena, name, strlen(name));
    if (!copy)
        return fail_memory(error, sizeof name);
    *tensor = (struct tensor){.name = copy,
                              .format = block_format_by_id(BLOCK_F32),
                              .n_dims = 1,
                              .dims = {n, 1, 1, 1},
                              .offset = offset,
                              .source = source};
    return directory_check_tensor(dir, tensor, error);
}

static wisp_status add_tensors(const struct gate_calibration *c, struct directory *dir,
                               wisp_error *error) {
    const size_t levels = GATE_LEVELS, each = c->neurons + levels;
    const struct block_format *floats = block_format_by_id(BLOCK_F32);
    const size_t bytes = c->layers * each * sizeof(float);
    unsigned char *data = malloc(bytes);
    uint32_t source;
    if (!data)
        return fail_memory(error, bytes);
    const wisp_source memory = {
        .size = bytes, .data = data, .close = free, .context = data, .name = "calibration"};
    TRY(directory_add_source(dir, &memory, &source, error));
    for (size_t l = 0; l < c->layers; l++) {
        const size_t at = l * each * sizeof(float), then = at + c->neurons * sizeof(float);
        floats->quantise(c->weights + l * c->neurons, c->neurons, data + at);
        floats->quantise(c->levels + l * levels, levels, data + then);
        TRY(add_floats(dir, source, at, l, TENSOR_GATE_WEIGHTS, c->neurons, error));
        TRY(add_floats(dir, source, then, l, TENSOR_GATE_LEVELS, GATE_LEVELS, error));
    }
    return WISP_OK;
}

static wisp_status write_all(const struct gate_calibration *c, struct directory *dir,
                             struct arena *arena, const char *output, wisp_error *error) {
    struct gguf_plan plan = {0};
    float *shares;
    TRY(strip_calibration(dir, false, error));
    TRY(add_tensors(c, dir, error));
    ARENA_TAKE(&dir->arena, shares, GATE_LEVELS, error);
    memcpy(shares, c->shares, GATE_LEVELS * sizeof *shares);
    TRY(directory_put_numbers(dir, KEY_GATE_SHARES, VALUE_F32, shares, GATE_LEVELS, error));
    TRY(directory_put_f32(dir, KEY_GATE_SHARE, 1 - c->options->sparsity, error));
    TRY(directory_finish(dir, error));
    ARENA_TAKE(arena, plan.formats, dir->n_tensors + 1, error);
    for (size_t i = 0; i < dir->n_tensors; i++)
        plan.formats[i] = dir->tensors[i].format;
    return write_model(dir, &plan, NEURONS_PLAIN, output, error);
}

wisp_status gates_write(const struct gate_calibration *c, const char *input, const char *output,
                        wisp_error *error) {
    struct arena arena = {0};
    struct directory dir;
    TRY(directory_open_path(&dir, input, error));
    wisp_status status = check_calibrated_input(&dir, c->model->network.dir, error);
    if (status == WISP_OK)
        status = write_all(c, &dir, &arena, output, error);
    arena_release(&arena);
    directory_release(&dir);
    return status;
}
