/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/adapters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/byte_order.h"
#include "base/checked.h"
#include "formats/schema.h"
#include "huggingface/tensor_names.h"

static const char parametrized[] = ".parametrizations.weight.";

/* An adapter of a matrix W [rows, columns]. */
struct change {
    struct tensor base;        /* W */
    struct tensor left, right; /* [tasks, rows, rank] and [tasks, rank, columns] */
    uint64_t task;
    uint64_t rank;
    float scale;
};

/* ---- config.json ---------------------------------------------------------------------------- */

/* Sets change->task, rank and scale. */
static wisp_status read_task(const struct directory *dir, const struct hf_config *config,
                             struct change *change, uint64_t *tasks, wisp_error *error) {
    static const char field[] = "lora_adaptations", rank[] = "lora_rank", alpha[] = "lora_alpha";
    const struct json *names = json_get(config->root, field);
    char known[256] = "";
    double scale;
    *tasks = 0;
    change->task = UINT64_MAX;
    for (const struct json *name = json_is(names, JSON_ARRAY) ? names->first : NULL; name;
         name = name->next, ++*tasks) {
        const size_t used = strlen(known);
        if (json_equals(name, dir->adapter))
            change->task = *tasks;
        snprintf(known + used, sizeof known - used, "%s%s", used > 0 ? ", " : "", hf_shown(name));
    }
    if (*tasks == 0)
        return fail(error, WISP_ERROR_ARGUMENT, config->file, "adapter",
                    "the model has no adapters (%s)", field);
    if (change->task == UINT64_MAX)
        return fail(error, WISP_ERROR_ARGUMENT, config->file, "adapter",
                    "%.64s is none of the model's: %s", dir->adapter, known);
    if (!json_to_u64(json_get(config->root, rank), &change->rank) || change->rank == 0 ||
        change->rank > UINT16_MAX)
        return fail(error, WISP_ERROR_FORMAT, config->file, rank, "not a whole number from 1 to %u",
                    UINT16_MAX);
    if (!json_to_double(json_get(config->root, alpha), &scale))
        return fail(error, WISP_ERROR_FORMAT, config->file, alpha, "not a number");
    change->scale = (float)(scale / (double)change->rank);
    return WISP_OK;
}

/* ---- tensors -------------------------------------------------------------------------------- */

/* Reads rows of a tensor as floats. The caller frees *values. */
static wisp_status read_floats(const struct directory *dir, const struct tensor *tensor,
                               uint64_t first, uint64_t rows, float **values, wisp_error *error) {
    const size_t bytes = (size_t)(rows * tensor->dims[0]) * sizeof **values;
    void *stored = malloc((size_t)(rows * tensor->row_bytes) + 1);
    *values = malloc(bytes + 1);
    const wisp_status status =
        stored && *values ? directory_floats(dir, tensor, first, rows, NULL, stored, *values, error)
                          : fail_memory(error, bytes);
    free(stored);
    return status;
}

/* out [rows, columns] += scale left [rows, rank] right [rank, columns] */
static void add_product(const struct change *change, const float *left, const float *right,
                        size_t rows, float *out) {
    const size_t columns = (size_t)change->base.dims[0], rank = (size_t)change->rank;
    for (size_t i = 0; i < rows; i++, out += columns)
        for (size_t k = 0; k < columns; k++) {
            float sum = 0;
            for (size_t r = 0; r < rank; r++)
                sum += left[i * rank + r] * right[r * columns + k];
            out[k] += change->scale * sum;
        }
}

static wisp_status make_changed(const struct directory *dir, const struct tensor *tensor,
                                uint64_t first, uint64_t rows, struct tensor_cache *cache,
                                void *buffer, const void **bytes, wisp_error *error) {
    const struct change *change = tensor->maker;
    const uint64_t all = change->base.rows, rank = change->rank;
    float *base = NULL, *left = NULL, *right = NULL;
    (void)cache;
    wisp_status status = read_floats(dir, &change->base, first, rows, &base, error);
    if (status == WISP_OK)
        status = read_floats(dir, &change->left, change->task * all + first, rows, &left, error);
    if (status == WISP_OK)
        status = read_floats(dir, &change->right, change->task * rank, rank, &right, error);
    if (status == WISP_OK) {
        add_product(change, left, right, (size_t)rows, base);
        swap_file_numbers(base, (size_t)(rows * change->base.dims[0]), sizeof *base);
        memcpy(buffer, base, (size_t)(rows * tensor->row_bytes));
    }
    free(base);
    free(left);
    free(right);
    *bytes = buffer;
    return status;
}

/* Returns whether a tensor stacks a matrix [rows, columns] for each task. */
static bool has_shape(const struct tensor *t, uint64_t columns, uint64_t rows, uint64_t tasks) {
    return t && t->n_dims == 3 && t->dims[0] == columns && t->dims[1] == rows &&
           t->dims[2] == tasks;
}

/* Makes the changed tensor of `base`, whose name without its ending is `stem`. Of a dense layer
 * lora_B is the left factor, of embeddings lora_A. */
static wisp_status make_change(struct directory *dir, const struct change *task, uint64_t tasks,
                               const char *stem, struct tensor *made, wisp_error *error) {
    char name[HF_NAME_BYTES + 64];
    const struct tensor *factor[2], base = *made;
    struct change *change;
    for (size_t i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%s%s0.lora_%c", stem, parametrized, i == 0 ? 'A' : 'B');
        factor[i] = directory_find_tensor(dir, name);
    }
    const size_t left = has_shape(factor[0], task->rank, base.rows, tasks) ? 0 : 1;
    if (base.n_dims != 2 || !has_shape(factor[left], task->rank, base.rows, tasks) ||
        !has_shape(factor[1 - left], base.dims[0], task->rank, tasks))
        return fail(error, WISP_ERROR_FORMAT, dir->sources[base.source].name, base.name,
                    "no adapters of rank %llu for %llu tasks fit the matrix",
                    (unsigned long long)task->rank, (unsigned long long)tasks);
    ARENA_TAKE(&dir->arena, change, 1, error);
    *change = *task;
    change->base = base;
    change->left = *factor[left];
    change->right = *factor[1 - left];
    made->format = block_format_by_id(BLOCK_F32);
    made->make = make_changed;
    made->maker = change;
    return directory_measure_tensor(dir, made, error);
}

static wisp_status put_adapter(struct directory *dir, wisp_error *error) {
    char key[HF_NAME_BYTES];
    TRY(directory_put_text(dir, KEY_ADAPTER, wisp_text_of(dir->adapter), error));
    snprintf(key, sizeof key, KEY_PROMPT_PREFIX "%.64s", dir->adapter);
    if (!directory_find_metadata(dir, key) || directory_find_metadata(dir, KEY_DEFAULT_PROMPT_NAME))
        return WISP_OK;
    return directory_put_text(dir, KEY_DEFAULT_PROMPT_NAME, wisp_text_of(dir->adapter), error);
}

wisp_status hf_merge_adapter(struct directory *dir, const struct hf_config *config,
                             wisp_error *error) {
    static const char original[] = "original";
    struct change task = {0};
    struct tensor *made;
    uint64_t tasks = 0;
    size_t kept = 0;
    TRY(directory_finish(dir, error));
    if (dir->adapter) {
        TRY(read_task(dir, config, &task, &tasks, error));
        TRY(put_adapter(dir, error));
    }
    ARENA_TAKE(&dir->arena, made, dir->n_tensors, error);
    for (size_t i = 0; i < dir->n_tensors; i++) {
        const struct tensor *tensor = &dir->tensors[i];
        const char *found = strstr(tensor->name, parametrized);
        char name[HF_NAME_BYTES];
        if (found && strcmp(found + strlen(parametrized), original) != 0)
            continue;
        made[kept] = *tensor;
        if (found) {
            snprintf(name, sizeof name, "%.*s", (int)(found - tensor->name), tensor->name);
            if (dir->adapter)
                TRY(make_change(dir, &task, tasks, name, &made[kept], error));
            snprintf(name, sizeof name, "%.*s.weight", (int)(found - tensor->name), tensor->name);
            made[kept].name = arena_copy_text(&dir->arena, name, strlen(name));
            if (!made[kept].name)
                return fail_memory(error, strlen(name));
        }
        kept++;
    }
    memcpy(dir->tensors, made, kept * sizeof *made);
    dir->n_tensors = kept;
    return WISP_OK;
}
