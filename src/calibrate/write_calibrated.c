/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/write_calibrated.h"

#include <stdlib.h>
#include <string.h>

#include "calibrate/add_tensors.h"
#include "convert/calibration_tensors.h"
#include "convert/hot.h"
#include "convert/write_model.h"
#include "formats/neurons.h"
#include "host/input_file.h"
#include "native/open_path.h"

const float calibrated_shares[CALIBRATED_LEVELS] = {0.06f, 0.08f, 0.1f, 0.13f, 0.16f, 0.2f, 0.25f,
                                                    0.3f,  0.35f, 0.4f, 0.5f,  0.6f,  0.7f, 0.8f};

/* Returns the floats that all tensors would take; quantised ones take less. */
static size_t count_floats(const struct calibrated *c) {
    const struct layer *l = c->layers;
    const size_t rank = c->tokens->fits[0].stored.rank, width = l->intermediate_size;
    const size_t predictor = rank * (l->hidden_size + width + 1) + (CALIBRATED_LEVELS + 1) * width;
    const size_t others = rank * l->hidden_size + 2 * width + 2 * l->hidden_size;
    return c->n_layers * ((c->texts ? 2 : 1) * predictor + others);
}

static wisp_status add_predictor(struct tensor_adder *a, const struct calibrated *c, size_t layer,
                                 const struct predictor_names *names,
                                 const struct predictor_set *set) {
    const struct predictor *p = &set->fits[layer].trained;
    const size_t levels = c->one_level ? 1 : CALIBRATED_LEVELS;
    const float *thresholds = (c->one_level ? set->thresholds : set->level_thresholds) +
                              layer * levels * p->intermediate_size;
    return tensor_add_predictor(a, layer, names, p, &c->formats, thresholds, levels);
}

static wisp_status add_layer(struct tensor_adder *a, const struct calibrated *c, size_t layer) {
    const struct layer *l = &c->layers[layer];
    const struct layer_fit *fit = &c->tokens->fits[layer];
    const size_t width = l->intermediate_size, hidden_size = l->hidden_size;
    const size_t rank = fit->stored.rank;
    TRY(add_predictor(a, c, layer, &predictor_of_tokens, c->tokens));
    TRY(tensor_add_floats(a, layer, TENSOR_FACTORS, "", l->factors, 1, hidden_size));
    if (l->activation == ACTIVATION_GELU) { /* all others have centers of 0 */
        float *center;                      /* by the model's numbers */
        ARENA_TAKE(&a->scratch, center, width, a->error);
        for (size_t i = 0; i < width; i++)
            center[l->order[i]] = l->center[i];
        TRY(tensor_add_floats(a, layer, TENSOR_CENTER, "", center, 1, width));
    }
    TRY(tensor_add_floats(a, layer, TENSOR_FREQUENCY, "", l->frequency, 1, width));
    if (fit->compensation) {
        TRY(tensor_add_transposed(a, layer, TENSOR_COMPENSATION, fit->compensation, hidden_size,
                                  rank, block_format_fitting(BLOCK_Q8_0, rank)));
        TRY(tensor_add_floats(a, layer, TENSOR_COMPENSATION, TENSOR_BIAS,
                              fit->compensation + rank * hidden_size, 1, hidden_size));
    }
    return c->texts ? add_predictor(a, c, layer, &predictor_of_texts, c->texts) : WISP_OK;
}

struct counted {
    uint32_t token, count;
};

static int compare_counts(const void *a, const void *b) {
    const struct counted *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count) - (x->count > y->count)
                                : (x->token > y->token) - (x->token < y->token);
}

/* Adds the order of the tokens by how often they occur. */
static wisp_status add_token_order(struct tensor_adder *a, const uint32_t *counts) {
    struct directory *dir = a->dir;
    const struct tensor *embedding = directory_find_tensor(dir, TENSOR_TOKENS);
    const size_t n = embedding ? (size_t)embedding->rows : 0;
    const bool small = n <= UINT16_MAX + 1;
    struct counted *counted;
    uint16_t *small_order;
    int32_t *order;
    ARENA_TAKE(&a->scratch, counted, n, a->error);
    ARENA_TAKE(&dir->arena, small_order, small ? n : 0, a->error);
    ARENA_TAKE(&dir->arena, order, small ? 0 : n, a->error);
    for (size_t i = 0; i < n; i++)
        counted[i] = (struct counted){(uint32_t)i, counts[i]};
    if (n > 0)
        qsort(counted, n, sizeof *counted, compare_counts);
    for (size_t i = 0; i < n; i++)
        if (small)
            small_order[i] = (uint16_t)counted[i].token;
        else
            order[i] = (int32_t)counted[i].token;
    return directory_put_numbers(dir, KEY_TOKENS_ORDER, small ? VALUE_U16 : VALUE_I32,
                                 small ? (const void *)small_order : order, n, a->error);
}

static wisp_status add_keys(struct directory *dir, const struct calibrated *c, wisp_error *error) {
    const size_t width = c->layers->intermediate_size;
    int32_t *order, *hot;
    float *shares;
    ARENA_TAKE(&dir->arena, order, c->n_layers * width, error);
    ARENA_TAKE(&dir->arena, hot, c->n_layers, error);
    const size_t levels = c->one_level ? 1 : CALIBRATED_LEVELS;
    ARENA_TAKE(&dir->arena, shares, levels, error);
    for (size_t l = 0; l < c->n_layers; l++) {
        memcpy(order + l * width, c->layers[l].order, width * sizeof *order);
        hot[l] = (int32_t)c->layers[l].hot;
    }
    memcpy(shares, c->one_level ? &c->share : calibrated_shares, levels * sizeof *shares);
    TRY(directory_put_numbers(dir, KEY_SPARSE_ORDER, VALUE_I32, order, c->n_layers * width, error));
    TRY(directory_put_numbers(dir, KEY_SPARSE_HOT, VALUE_I32, hot, c->n_layers, error));
    TRY(directory_put_numbers(dir, KEY_SPARSE_SHARES, VALUE_F32, shares, levels, error));
    return directory_put_f32(dir, KEY_SPARSE_SHARE, c->share, error);
}

static wisp_status write_all(struct tensor_adder *a, const char *output,
                             const struct calibrated *c) {
    struct directory *dir = a->dir;
    struct gguf_plan plan = {.hot_tokens = c->hot_tokens};
    const bool chooses_hot = c->hot != 0 || c->hot_bytes > 0;
    TRY(strip_calibration(dir, false, a->error));
    TRY(add_token_order(a, c->token_counts));
    for (size_t l = 0; l < c->n_layers; l++)
        TRY(add_layer(a, c, l));
    TRY(add_keys(dir, c, a->error));
    TRY(directory_finish(dir, a->error));
    ARENA_TAKE(&a->scratch, plan.formats, dir->n_tensors + 1, a->error); /* for cold tokens */
    for (size_t i = 0; i < dir->n_tensors; i++)
        plan.formats[i] = dir->tensors[i].format;
    if (chooses_hot)
        TRY(choose_hot(dir, plan.formats, (double)c->hot, c->hot_bytes, a->error));
    TRY(directory_finish(dir, a->error));
    return write_model(dir, &plan, chooses_hot ? NEURONS_ALL : NEURONS_WHERE_POSSIBLE, output,
                       a->error);
}

wisp_status check_calibrated_input(const struct directory *dir, const struct directory *calibrated,
                                   wisp_error *error) {
    bool same = dir->n_sources == calibrated->n_sources;
    for (uint32_t i = 0; same && i < dir->n_sources; i++)
        same = file_source_same(&dir->sources[i], &calibrated->sources[i]);
    return same ? WISP_OK
                : fail(error, WISP_ERROR_IO, dir->file, NULL,
                       "the file changed while the model was calibrated");
}

wisp_status write_calibrated(const char *input, const char *output,
                             const struct calibrated *calibrated, wisp_error *error) {
    struct directory dir;
    struct tensor_adder adder = {0};
    TRY(directory_open_path(&dir, input, error));
    wisp_status status = check_calibrated_input(&dir, calibrated->input, error);
    if (status == WISP_OK)
        status = tensor_adder_open(&adder, &dir, count_floats(calibrated), error);
    if (status == WISP_OK)
        status = write_all(&adder, output, calibrated);
    arena_release(&adder.scratch);
    directory_release(&dir);
    return status;
}
