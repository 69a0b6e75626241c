/* SPDX-License-Identifier: Apache-2.0 */
#include "models/dense_modules.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/product.h"
#include "formats/schema.h"
#include "models/dense_activations.h"

enum { MOST_OUTPUTS = 1 << 20 };

const char *const *dense_module_names(const struct model_config *config) {
    static const char *const names[] = {TENSOR_DENSE_2, TENSOR_DENSE_3, NULL};
    static const char *const of_head[] = {TENSOR_HEAD, TENSOR_HEAD_OUTPUT, NULL};
    return RANKS && config->pooling == POOLING_RANK ? of_head : names;
}

static wisp_status read_activation(const struct directory *dir, const char *module,
                                   const struct dense_activation **activation, wisp_error *error) {
    /* Files of llama.cpp have no key for it, and the first layer of a head has these there: that of
     * modern-bert, whose head has a norm, the second. */
    const bool is_head = RANKS && strcmp(module, TENSOR_HEAD) == 0;
    const char *name = is_head ? "tanh" : "identity";
    if (CLASSIFIES && is_head && directory_find_tensor(dir, TENSOR_HEAD_NORM TENSOR_WEIGHT))
        name = "gelu";
    char key[64];
    snprintf(key, sizeof key, KEY_DENSE_ACTIVATION, module);
    TRY(metadata_text_or(dir, key, &name, error));
    char names[128] = "";
    size_t length = 0;
    for (size_t i = 0; dense_activations[i]; i++) {
        const struct dense_activation *known = dense_activations[i];
        if (strcmp(name, known->name) == 0) {
            *activation = known;
            return WISP_OK;
        }
        length += (size_t)snprintf(names + length, sizeof names - length, "%s%s", i > 0 ? ", " : "",
                                   known->name);
    }
    return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, key, "%.32s is not supported, only %s",
                name, names);
}

/* Loads the norm of a head, if the file has one. */
static wisp_status load_norm(struct dense_modules *modules, const struct directory *dir,
                             const struct model_config *config, wisp_error *error) {
    static const char weight[] = TENSOR_HEAD_NORM TENSOR_WEIGHT,
                      bias[] = TENSOR_HEAD_NORM TENSOR_BIAS;
    const size_t size = modules->layers[0].n;
    modules->epsilon = config->norm_epsilon;
    if (!directory_find_tensor(dir, weight) && !directory_find_tensor(dir, bias))
        return WISP_OK;
    TRY(directory_load_floats(dir, weight, 1, size, &modules->norm.weight, error));
    return directory_find_tensor(dir, bias)
               ? directory_load_floats(dir, bias, 1, size, &modules->norm.bias, error)
               : WISP_OK;
}

wisp_status dense_modules_load(struct dense_modules *modules, const struct directory *dir,
                               const struct kernels *kernels, const struct model_config *config,
                               wisp_error *error) {
    const char *const *names = dense_module_names(config);
    size_t size = config->hidden_size;
    for (size_t i = 0; i < DENSE_MODULES; i++) {
        const char *const module = names[i];
        char weight[24], bias[24];
        snprintf(weight, sizeof weight, "%s" TENSOR_WEIGHT, module);
        snprintf(bias, sizeof bias, "%s" TENSOR_BIAS, module);
        const struct tensor *tensor = directory_find_tensor(dir, weight);
        const bool has_bias = directory_find_tensor(dir, bias) != NULL;
        if (!tensor && !has_bias)
            continue;
        if (i > modules->n || !tensor) {
            snprintf(weight, sizeof weight, "%s" TENSOR_WEIGHT, names[tensor ? 0 : i]);
            return fail(error, WISP_ERROR_NOT_FOUND, dir->file, weight, "the tensor is missing");
        }
        if (tensor->rows > MOST_OUTPUTS)
            return fail(error, WISP_ERROR_FORMAT, dir->file, weight, "%llu outputs are too many",
                        (unsigned long long)tensor->rows);
        TRY(read_activation(dir, module, &modules->activations[i], error));
        const struct linear_source source = {.dir = dir,
                                             .names = &module,
                                             .unbiased = !has_bias,
                                             .parts = 1,
                                             .n = (size_t)tensor->rows,
                                             .k = size};
        modules->n = i + 1;
        TRY(linear_load(&modules->layers[i], &source, kernels, WISP_COMPUTE_F32, error));
        size = (size_t)tensor->rows;
    }
    const bool is_head = RANKS && config->pooling == POOLING_RANK;
    if (is_head && (modules->n < DENSE_MODULES || (size != 1 && !CLASSIFIES)))
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, TENSOR_HEAD_OUTPUT TENSOR_WEIGHT,
                    "a head that gives %zu values, but a model that scores pairs gives one by "
                    "two layers",
                    modules->n < DENSE_MODULES ? 0 : size);
    return CLASSIFIES && is_head ? load_norm(modules, dir, config, error) : WISP_OK;
}

void dense_modules_release(struct dense_modules *modules) {
    for (size_t i = 0; i < modules->n; i++)
        linear_release(&modules->layers[i]);
    if (CLASSIFIES)
        norm_release(&modules->norm);
}

size_t dense_modules_outputs(const struct dense_modules *modules, size_t size) {
    return modules->n > 0 ? modules->layers[modules->n - 1].n : size;
}

static void take_outputs(const struct dense_modules *modules, size_t m, struct workspace *space,
                         float *outputs[DENSE_MODULES]) {
    for (size_t i = 0; i < modules->n; i++)
        outputs[i] = workspace_take(space, m, modules->layers[i].n, sizeof *outputs[i]);
}

size_t dense_modules_workspace_bytes(const struct dense_modules *modules, size_t m) {
    struct workspace measured = {0};
    float *outputs[DENSE_MODULES];
    size_t most = 0;
    take_outputs(modules, m, &measured, outputs);
    for (size_t i = 0; i < modules->n; i++)
        most = larger(most, linear_workspace_bytes(m, modules->layers[i].k));
    workspace_part(&measured, most);
    return measured.used;
}

/* Normalises rows [m, size] as torch.nn.LayerNorm does. */
static void normalise(const struct dense_modules *modules, float *rows, size_t m, size_t size) {
    const struct norm *norm = &modules->norm;
    for (float *row = rows; row < rows + m * size; row += size) {
        double sum = 0, squares = 0;
        for (size_t i = 0; i < size; i++)
            sum += (double)row[i];
        const double mean = sum / (double)size;
        for (size_t i = 0; i < size; i++)
            squares += ((double)row[i] - mean) * ((double)row[i] - mean);
        const double scale = 1 / sqrt(squares / (double)size + (double)modules->epsilon);
        for (size_t i = 0; i < size; i++)
            row[i] = (float)(((double)row[i] - mean) * scale) * norm->weight[i] +
                     (norm->bias ? norm->bias[i] : 0);
    }
}

const float *dense_modules_apply(const struct dense_modules *modules, const float *rows, size_t m,
                                 bool logits, struct workspace space) {
    float *outputs[DENSE_MODULES];
    take_outputs(modules, m, &space, outputs);
    for (size_t i = 0; i < modules->n; i++) {
        linear_apply(&modules->layers[i], rows, m, outputs[i], space);
        const bool activates = !(CLASSIFIES && logits) || i + 1 < modules->n;
        for (size_t j = 0; activates && j < m * modules->layers[i].n; j++)
            outputs[i][j] = modules->activations[i]->of(outputs[i][j]);
        if (CLASSIFIES && i == 0 && modules->norm.weight)
            normalise(modules, outputs[i], m, modules->layers[i].n);
        rows = outputs[i];
    }
    return rows;
}
