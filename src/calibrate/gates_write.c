/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "calibrate/add_tensors.h"
#include "calibrate/gates.h"
#include "calibrate/write_calibrated.h"
#include "convert/calibration_tensors.h"
#include "convert/write_model.h"
#include "formats/schema.h"
#include "native/open_path.h"

/* Returns the floats that all tensors would take. */
static size_t count_floats(const struct gate_calibration *c) {
    const struct model_config *config = &c->model->network.config;
    const size_t rank = c->options->rank, n = c->neurons;
    const size_t predictor = rank * (config->hidden_size + n + 1) + (CALIBRATED_LEVELS + 1) * n;
    return c->layers * (n + GATE_LEVELS + (rank > 0 ? predictor : 0));
}

static wisp_status add_tensors(const struct gate_calibration *c, struct tensor_adder *a) {
    for (size_t l = 0; l < c->layers; l++) {
        TRY(tensor_add_floats(a, l, TENSOR_GATE_WEIGHTS, "", c->weights + l * c->neurons, 1,
                              c->neurons));
        TRY(tensor_add_floats(a, l, TENSOR_GATE_LEVELS, "", c->levels + l * GATE_LEVELS, 1,
                              GATE_LEVELS));
        if (c->options->rank > 0)
            TRY(tensor_add_predictor(
                a, l, &predictor_of_tokens, c->predictors.fitted + l, &c->predictors.formats,
                c->predictors.thresholds + l * CALIBRATED_LEVELS * c->neurons, CALIBRATED_LEVELS));
    }
    return WISP_OK;
}

/* Adds the keys of shares. */
static wisp_status add_shares(struct directory *dir, const char *shares_key, const float *shares,
                              size_t levels, const char *share_key, float share,
                              wisp_error *error) {
    float *copy;
    ARENA_TAKE(&dir->arena, copy, levels, error);
    memcpy(copy, shares, levels * sizeof *copy);
    TRY(directory_put_numbers(dir, shares_key, VALUE_F32, copy, levels, error));
    return directory_put_f32(dir, share_key, share, error);
}

static wisp_status write_all(const struct gate_calibration *c, struct directory *dir,
                             struct tensor_adder *adder, const char *output, wisp_error *error) {
    const float share = 1 - c->options->sparsity;
    struct gguf_plan plan = {0};
    TRY(strip_calibration(dir, false, error));
    TRY(add_tensors(c, adder));
    TRY(add_shares(dir, KEY_GATE_SHARES, c->shares, GATE_LEVELS, KEY_GATE_SHARE, share, error));
    if (c->options->rank > 0)
        TRY(add_shares(dir, KEY_SPARSE_SHARES, calibrated_shares, CALIBRATED_LEVELS,
                       KEY_SPARSE_SHARE, share, error));
    TRY(directory_finish(dir, error));
    ARENA_TAKE(&adder->scratch, plan.formats, dir->n_tensors + 1, error);
    for (size_t i = 0; i < dir->n_tensors; i++)
        plan.formats[i] = dir->tensors[i].format;
    return write_model(dir, &plan, NEURONS_PLAIN, output, error);
}

wisp_status gates_write(const struct gate_calibration *c, const char *input, const char *output,
                        wisp_error *error) {
    struct tensor_adder adder = {0};
    struct directory dir;
    TRY(directory_open_path(&dir, input, error));
    wisp_status status = check_calibrated_input(&dir, c->model->network.dir, error);
    if (status == WISP_OK)
        status = tensor_adder_open(&adder, &dir, count_floats(c), error);
    if (status == WISP_OK)
        status = write_all(c, &dir, &adder, output, error);
    arena_release(&adder.scratch);
    directory_release(&dir);
    return status;
}
