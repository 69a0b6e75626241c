/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/experts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

/* ---- config.json ---------------------------------------------------------------------------- */

wisp_status hf_put_experts(struct directory *dir, const struct hf_decoder *decoder,
                           const struct hf_config *config, bool normalised, wisp_error *error) {
    static const struct hf_size sizes[] = {{"num_experts", "num_local_experts", "expert_count", 0},
                                           {"num_experts_per_tok", NULL, "expert_used_count", 0}};
    static const char field[] = "norm_topk_prob";
    const struct json *given = json_get(config->root, field);
    char key[HF_KEY_BYTES];
    TRY(hf_put_sizes(dir, decoder, config, sizes, sizeof sizes / sizeof *sizes, error));
    if (given && !json_to_bool(given, &normalised))
        return fail(error, WISP_ERROR_FORMAT, config->file, field, "expected true or false");
    return directory_put_bool(dir, hf_key(decoder, "expert_weights_norm", key), normalised, error);
}

/* ---- tensors -------------------------------------------------------------------------------- */

/* Matrices [rows, columns] of tensors of their own. */
struct stacked {
    uint64_t rows;
    struct tensor *matrices; /* [experts] */
};

/* Makes rows, which may be in several matrices. */
static wisp_status make_stacked(const struct directory *dir, const struct tensor *tensor,
                                uint64_t first, uint64_t rows, struct tensor_cache *cache,
                                void *buffer, const void **bytes, wisp_error *error) {
    const struct stacked *s = tensor->maker;
    char *out = buffer;
    for (uint64_t here; rows > 0; first += here, rows -= here) {
        const uint64_t row = first % s->rows;
        const void *found;
        here = rows < s->rows - row ? rows : s->rows - row;
        const size_t size = (size_t)(here * tensor->row_bytes);
        TRY(directory_rows(dir, &s->matrices[first / s->rows], row, here, cache, out, &found,
                           error));
        if (found != out)
            memcpy(out, found, size);
        out += size;
    }
    *bytes = buffer;
    return WISP_OK;
}

wisp_status hf_stack_matrices(struct directory *dir, struct tensor *tensor, struct tensor *matrices,
                              uint64_t count, wisp_error *error) {
    const char *name = tensor->name;
    struct stacked *stacked;
    for (uint64_t e = 0; e < count; e++) {
        const struct tensor *m = &matrices[e];
        if (m->n_dims != 2 || m->format != matrices->format || m->dims[0] != matrices->dims[0] ||
            m->rows != matrices->rows)
            return fail(error, WISP_ERROR_FORMAT, dir->sources[m->source].name, m->name,
                        "not a matrix of the type and the shape of other experts'");
    }
    ARENA_TAKE(&dir->arena, stacked, 1, error);
    *stacked = (struct stacked){matrices->rows, matrices};
    *tensor = *matrices;
    tensor->name = name;
    tensor->n_dims = 3;
    tensor->dims[2] = count;
    tensor->make = make_stacked;
    tensor->maker = stacked;
    return directory_measure_tensor(dir, tensor, error);
}

/* The parts of the name of an expert's tensor: "STEM.experts." and ".REST". */
struct expert_name {
    size_t stem;
    const char *rest;
    unsigned long expert;
};

static bool read_name(const char *name, struct expert_name *parts) {
    static const char middle[] = ".experts.";
    const char *found = strstr(name, middle);
    if (!found)
        return false;
    const char *digits = found + strlen(middle);
    const size_t length = strspn(digits, "0123456789");
    if (length == 0 || length > 6 || digits[length] != '.')
        return false;
    *parts = (struct expert_name){.stem = (size_t)(digits - name),
                                  .rest = digits + length,
                                  .expert = strtoul(digits, NULL, 10)};
    return true;
}

/* Makes the tensor of the one of expert 0. The directory is sorted. */
static wisp_status stack_of_first(struct directory *dir, const struct tensor *first,
                                  const struct expert_name *parts, uint32_t count,
                                  struct tensor *made, wisp_error *error) {
    char name[HF_NAME_BYTES];
    struct tensor *matrices;
    ARENA_TAKE(&dir->arena, matrices, count, error);
    for (uint32_t e = 0; e < count; e++) {
        snprintf(name, sizeof name, "%.*s%u%s", (int)parts->stem, first->name, e, parts->rest);
        const struct tensor *found = directory_find_tensor(dir, name);
        if (!found)
            return fail(error, WISP_ERROR_NOT_FOUND, dir->file, name, "the tensor is missing");
        matrices[e] = *found;
    }
    snprintf(name, sizeof name, "%.*s%s", (int)parts->stem - 1, first->name, parts->rest);
    made->name = arena_copy_text(&dir->arena, name, strlen(name));
    if (!made->name)
        return fail_memory(error, strlen(name));
    return hf_stack_matrices(dir, made, matrices, count, error);
}

wisp_status hf_stack_experts(struct directory *dir, const char *architecture, wisp_error *error) {
    struct expert_name parts;
    uint32_t count;
    size_t kept = 0, stacks = 0;
    struct tensor *made;
    char key[HF_KEY_BYTES];
    snprintf(key, sizeof key, "%s.expert_count", architecture);
    TRY(metadata_u32(dir, key, &count, error));
    if (count > dir->n_tensors)
        return fail(error, WISP_ERROR_FORMAT, dir->file, key, "%u experts in %zu tensors", count,
                    dir->n_tensors);
    ARENA_TAKE(&dir->arena, made, dir->n_tensors, error);
    for (size_t i = 0; i < dir->n_tensors; i++)
        if (read_name(dir->tensors[i].name, &parts) && parts.expert == 0)
            TRY(stack_of_first(dir, &dir->tensors[i], &parts, count, &made[stacks++], error));
    for (size_t i = 0, at = 0; i < dir->n_tensors; i++) {
        const struct tensor *tensor = &dir->tensors[i];
        const bool is_expert = read_name(tensor->name, &parts);
        if (is_expert && parts.expert >= count)
            return fail(error, WISP_ERROR_UNSUPPORTED, dir->sources[tensor->source].name,
                        tensor->name, "of an expert beyond the %u that there are", count);
        if (!is_expert)
            dir->tensors[kept++] = *tensor;
        else if (parts.expert == 0)
            dir->tensors[kept++] = made[at++];
    }
    dir->n_tensors = kept;
    return directory_finish(dir, error);
}

/* Makes one of the two tensors that `whole` stacks for each expert. */
static wisp_status divide(struct directory *dir, const struct tensor *whole, size_t which,
                          struct tensor *made, wisp_error *error) {
    const size_t count = (size_t)whole->dims[2];
    const uint64_t rows = whole->dims[1] / 2;
    struct tensor *matrices;
    ARENA_TAKE(&dir->arena, matrices, count, error);
    for (uint64_t e = 0; e < count; e++) {
        matrices[e] = *whole;
        matrices[e].n_dims = 2;
        matrices[e].dims[1] = rows;
        matrices[e].offset += (2 * e + which) * rows * whole->row_bytes;
        TRY(directory_check_tensor(dir, &matrices[e], error));
    }
    return hf_stack_matrices(dir, made, matrices, count, error);
}

wisp_status hf_divide_experts(struct directory *dir, const char *ending, const char *const names[2],
                              wisp_error *error) {
    for (size_t i = 0, n = dir->n_tensors; i < n; i++) {
        const struct tensor whole = dir->tensors[i];
        if (!hf_ends_with(whole.name, ending))
            continue;
        if (whole.n_dims != 3 || whole.dims[1] % 2 != 0 || whole.dims[2] > UINT16_MAX)
            return fail(error, WISP_ERROR_FORMAT, dir->sources[whole.source].name, whole.name,
                        "not two matrices for each expert");
        for (size_t which = 0; which < 2; which++) {
            struct tensor *made = &dir->tensors[i];
            char name[HF_NAME_BYTES];
            if (which > 0)
                TRY(directory_add_tensor(dir, &made, error));
            snprintf(name, sizeof name, "%.*s%s", (int)(strlen(whole.name) - strlen(ending)),
                     whole.name, names[which]);
            made->name = arena_copy_text(&dir->arena, name, strlen(name));
            if (!made->name)
                return fail_memory(error, strlen(name));
            TRY(divide(dir, &whole, which, made, error));
        }
    }
    return directory_finish(dir, error);
}
