/* SPDX-License-Identifier: Apache-2.0 */
#include "http/hub_choose.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "host/part_names.h"
#include "http/hub_names.h"

/* ---- GGUF files ----------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end) {
    const size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcasecmp(text + length - end_length, end) == 0;
}

bool hub_is_gguf(const char *name) {
    return ends_with(name, ".gguf");
}

/* Returns whether a text has a word in it, in letters of any case. */
static bool has_word(const char *text, const char *word) {
    for (; *text; text++)
        if (strncasecmp(text, word, strlen(word)) == 0)
            return true;
    return false;
}

static bool is_model(const char *name) {
    return hub_is_gguf(name) && !has_word(name, "mmproj") && !has_word(name, "imatrix");
}

/* Returns whether a name is that of a whole model; with `in_parts` of the first of several files.
 */
static bool is_candidate(const char *name, bool in_parts) {
    struct part_name part;
    const bool is_part = part_name_read(name, strlen(name), &part) && part.count > 1;
    return is_model(name) && (in_parts ? is_part && part.part == 1 : !is_part);
}

/* Returns whether a name is that of a type's file: "TYPE.gguf" or the first part of such a file,
 * behind nothing or a mark. */
static bool is_of_type(const char *name, const char *type) {
    struct part_name part;
    const size_t length = strlen(name), type_length = strlen(type);
    const size_t end = part_name_read(name, length, &part) ? part.at - 1 : length - strlen(".gguf");
    const char *start = end < type_length ? NULL : name + end - type_length;
    return start && strncasecmp(start, type, type_length) == 0 &&
           (start == name || strchr("-_./", start[-1]));
}

/* The types of a model's weights, in the order in which one is chosen: Q8_0 first, because int8
 * computes with it as it is. The generation of texts may want a smaller one, by its name. */
static const char *const types[] = {"Q8_0",   "Q6_K", "Q5_K_M", "Q5_K_S", "Q5_1", "Q5_0", "Q4_K_M",
                                    "Q4_K_S", "Q4_1", "Q4_0",   "F16",    "BF16", "F32"};

wisp_status hub_choose_gguf(const struct hub_files *files, const char *repo, const char **name,
                            wisp_error *error) {
    char names[512] = "";
    size_t whole = 0, candidates = 0, used = 0;
    for (uint32_t i = 0; i < files->n; i++)
        whole += is_candidate(files->all[i].name, false);
    const bool in_parts = whole == 0;
    for (uint32_t i = 0; i < files->n; i++) {
        const char *each = files->all[i].name;
        if (!is_candidate(each, in_parts))
            continue;
        candidates++;
        *name = each;
        if (used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s",
                                     used > 0 ? ", " : "", each);
    }
    if (candidates == 1)
        return WISP_OK;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        size_t of_type = 0;
        for (uint32_t i = 0; i < files->n; i++) {
            const char *each = files->all[i].name;
            if (is_candidate(each, in_parts) && is_of_type(each, types[t])) {
                of_type++;
                *name = each;
            }
        }
        if (of_type == 1)
            return WISP_OK;
        if (of_type > 1)
            break;
    }
    if (candidates > 1)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, NULL, "%s has several models: name one of %s",
                    repo, names);
    return fail(error, WISP_ERROR_NOT_FOUND, NULL, NULL,
                "%s has neither a GGUF file nor weights that wisp reads", repo);
}

/* Adds a file, whose absence is an error. */
static wisp_status add_file(const struct hub_files *files, const char *name,
                            struct hub_files *chosen, wisp_error *error) {
    for (uint32_t i = 0; i < files->n; i++)
        if (strcmp(files->all[i].name, name) == 0)
            return hub_files_add(chosen, name, files->all[i].bytes, error);
    return fail(error, WISP_ERROR_NOT_FOUND, NULL, NULL, "the repository has no file %s", name);
}

wisp_status hub_choose_parts(const struct hub_files *files, const char *first,
                             struct hub_files *chosen, wisp_error *error) {
    char name[HUB_TEXT_BYTES];
    struct part_name part;
    if (!part_name_read(first, strlen(first), &part))
        return add_file(files, first, chosen, error);
    if (snprintf(name, sizeof name, "%s", first) >= (int)sizeof name)
        return fail(error, WISP_ERROR_FORMAT, NULL, "file", "the name is too long");
    for (uint32_t i = 1; i <= part.count; i++) {
        part_name_set(name, &part, i);
        TRY(add_file(files, name, chosen, error));
    }
    return WISP_OK;
}

/* ---- folders -------------------------------------------------------------------------------- */

/* Weights of a model in the order in which wisp prefers them. Those in parts follow an index. */
static const struct {
    const char *whole, *part_begin, *part_end;
} weights[] = {
    {"model.safetensors", "model", ".safetensors"},
    {"pytorch_model.bin", "pytorch_model", ".bin"},
    {"model.onnx", NULL, NULL},
    {"onnx/model.onnx", NULL, NULL},
    {"onnx/model_fp16.onnx", NULL, NULL},
    {"onnx/model_quantized.onnx", NULL, NULL},
    {"onnx/model_int8.onnx", NULL, NULL},
    {"onnx/model_uint8.onnx", NULL, NULL},
    {"model_quantized.onnx", NULL, NULL},
    {"onnx/model_q4.onnx", NULL, NULL},
    {"onnx/model_q4f16.onnx", NULL, NULL},
};

/* Returns how many characters of a name are the folder of one of sentence-transformers' modules,
 * such as "1_Pooling/", or 0. */
static size_t module_length(const char *name) {
    const size_t digits = strspn(name, "0123456789");
    size_t end = digits + 1;
    if (digits == 0 || name[digits] != '_')
        return 0;
    while (isalnum((unsigned char)name[end]) || name[end] == '_')
        end++;
    return end > digits + 1 && name[end] == '/' ? end + 1 : 0;
}

/* Returns whether a file describes the model or its tokenizer. */
static bool is_description(const char *name) {
    const size_t length = strlen(name);
    static const char *const ends[] = {".json", ".txt", ".jinja"};
    for (size_t i = 0; i < 3 && !strchr(name, '/'); i++) {
        const size_t end = strlen(ends[i]);
        if (length >= end && strcmp(name + length - end, ends[i]) == 0)
            return true;
    }
    return strcmp(name, "tokenizer.model") == 0 || strcmp(name, "spiece.model") == 0;
}

/* Returns whether the file is the weights of this row: 1 if whole, or with a graph's weights beside
 * it, 2 if a part of them. */
static int kind_of_weights(const char *name, size_t row) {
    const char *whole = weights[row].whole;
    const size_t length = strlen(name), whole_length = strlen(whole);
    if (strncmp(name, whole, whole_length) == 0 &&
        (name[whole_length] == '\0' || strcmp(name + whole_length, "_data") == 0 ||
         strcmp(name + whole_length, ".data") == 0))
        return 1;
    const char *begin = weights[row].part_begin, *end = weights[row].part_end;
    return begin && length >= strlen(begin) + strlen(end) &&
                   strncmp(name, begin, strlen(begin)) == 0 &&
                   strcmp(name + length - strlen(end), end) == 0
               ? 2
               : 0;
}

/* Adds the weights of one folder of a repository: the model's own, or a module's. */
static wisp_status choose_weights(const struct hub_files *files, const char *folder, size_t length,
                                  struct hub_files *chosen, wisp_error *error) {
    for (size_t row = 0; row < sizeof weights / sizeof *weights; row++) {
        bool has_whole = false;
        const uint32_t before = chosen->n;
        for (int pass = 0; pass < 2; pass++)
            for (uint32_t i = 0; i < files->n; i++) {
                const char *name = files->all[i].name;
                if (module_length(name) != length || strncmp(name, folder, length) != 0)
                    continue;
                if (pass == 0)
                    has_whole = has_whole || strcmp(name + length, weights[row].whole) == 0;
                else if (kind_of_weights(name + length, row) == (has_whole ? 1 : 2))
                    TRY(hub_files_add(chosen, name, files->all[i].bytes, error));
            }
        if (chosen->n > before)
            return WISP_OK;
    }
    return WISP_OK;
}

/* Returns whether the file is the first one of its folder, the model's own or a module's. */
static bool is_first(const struct hub_files *files, uint32_t file) {
    const char *name = files->all[file].name;
    const size_t length = module_length(name);
    for (uint32_t i = 0; i < file; i++)
        if (module_length(files->all[i].name) == length &&
            strncmp(files->all[i].name, name, length) == 0)
            return false;
    return true;
}

wisp_status hub_choose_folder(const struct hub_files *files, struct hub_files *chosen,
                              uint32_t *described, wisp_error *error) {
    for (uint32_t i = 0; i < files->n; i++) {
        const char *name = files->all[i].name;
        if (is_description(name + module_length(name)))
            TRY(hub_files_add(chosen, name, files->all[i].bytes, error));
    }
    *described = chosen->n;
    for (uint32_t i = 0; i < files->n; i++)
        if (is_first(files, i))
            TRY(choose_weights(files, files->all[i].name, module_length(files->all[i].name), chosen,
                               error));
    if (chosen->n == *described)
        chosen->n = 0;
    return WISP_OK;
}

bool hub_has_weights(const struct hub_files *files) {
    static const char *const ends[] = {".safetensors", ".bin", ".onnx"};
    for (uint32_t i = 0; i < files->n; i++) {
        const char *name = files->all[i].name;
        const size_t length = strlen(name);
        for (size_t k = 0; k < 3; k++)
            if (length >= strlen(ends[k]) && strcmp(name + length - strlen(ends[k]), ends[k]) == 0)
                return true;
    }
    return false;
}
