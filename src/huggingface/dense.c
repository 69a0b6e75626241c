/* SPDX-License-Identifier: Apache-2.0
 * sentence-transformers' module Dense. */
#include <stdio.h>
#include <string.h>

#include "formats/schema.h"
#include "host/file.h"
#include "huggingface/json_file.h"
#include "huggingface/modules.h"
#include "huggingface/weights.h"

enum { NAME_BYTES = 256 };

static const char *const tensor_names[DENSE_MODULES] = {TENSOR_DENSE_2, TENSOR_DENSE_3};

/* Classes of torch, and what wisp.dense_2.activation calls them. */
static const struct {
    const char *class, *name;
} activations[] = {{"torch.nn.modules.linear.Identity", "identity"},
                   {"torch.nn.modules.activation.Tanh", "tanh"},
                   {"torch.nn.modules.activation.ReLU", "relu"},
                   {"torch.nn.modules.activation.Sigmoid", "sigmoid"},
                   {"torch.nn.modules.activation.SiLU", "silu"},
                   {"torch.nn.modules.activation.GELU", "gelu"},
                   {"torch.nn.modules.activation.ELU", "elu"},
                   {"torch.nn.modules.activation.LeakyReLU", "leaky_relu"},
                   {"torch.nn.modules.activation.Softplus", "softplus"},
                   {"torch.nn.modules.activation.Mish", "mish"},
                   {"torch.nn.modules.activation.Softsign", "softsign"}};

/* A Dense that is read. */
struct dense {
    struct directory *dir;
    const char *folder, *file; /* file: its config.json */
    const char *name;          /* of its tensors */
    const struct json *config;
    bool of_tokens;
    wisp_error *error;
};

static wisp_status refuse(const struct dense *d, const char *field, const struct json *given,
                          const char *wanted) {
    char path[HF_PATH_BYTES];
    return fail(d->error, WISP_ERROR_UNSUPPORTED, hf_path_of(path, d->folder, d->file), field,
                "%.64s is not supported, only %s", hf_shown(given), wanted);
}

static wisp_status put_activation(const struct dense *d) {
    static const char field[] = "activation_function";
    const struct json *given = json_get(d->config, field);
    const char *name = given ? NULL : "tanh"; /* Dense's default */
    char key[64];
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
        if (json_equals(given, activations[i].class))
            name = activations[i].name;
    if (!name)
        return refuse(
            d, field, given,
            "torch's Identity, Tanh, ReLU, Sigmoid, SiLU, GELU, ELU, LeakyReLU, Softplus, "
            "Mish and Softsign");
    snprintf(key, sizeof key, KEY_DENSE_ACTIVATION, d->name);
    return directory_put_text(d->dir, key, wisp_text_of(name), d->error);
}

static wisp_status check_settings(const struct dense *d) {
    static const char *const places[] = {"module_input_name", "module_output_name"};
    const char *const wanted = d->of_tokens ? "token_embeddings" : "sentence_embedding";
    const struct json *residual = json_get(d->config, "use_residual");
    for (size_t i = 0; i < 2; i++) {
        const struct json *given = json_get(d->config, places[i]);
        if (given && !json_equals(given, wanted) && !(i == 1 && json_is(given, JSON_NULL)))
            return refuse(d, places[i], given, wanted);
    }
    if (residual && !json_is(residual, JSON_FALSE))
        return refuse(d, "use_residual", residual, "false");
    return WISP_OK;
}

/* Gives the tensors linear.weight and linear.bias, which are those from `first` on, their names,
 * and compares them with config.json. */
static wisp_status name_tensors(const struct dense *d, size_t first) {
    static const char prefix[] = "linear";
    char path[HF_PATH_BYTES], renamed[32];
    bool wants_bias = true, has_bias = false;
    uint64_t outputs;
    hf_path_of(path, d->folder, d->file);
    if (!hf_read_bool(d->config, "bias", &wants_bias))
        return fail(d->error, WISP_ERROR_FORMAT, path, "bias", "expected true or false");
    if (!json_to_u64(json_get(d->config, "out_features"), &outputs))
        return fail(d->error, WISP_ERROR_FORMAT, path, "out_features", "expected a whole number");
    for (size_t i = first; i < d->dir->n_tensors; i++) {
        struct tensor *tensor = &d->dir->tensors[i];
        const bool is_bias = strcmp(tensor->name, "linear.bias") == 0;
        if (!is_bias && strcmp(tensor->name, "linear.weight") != 0)
            return fail(d->error, WISP_ERROR_UNSUPPORTED, d->dir->sources[tensor->source].name,
                        tensor->name, "a tensor that a Dense does not have");
        if (!is_bias && tensor->rows != outputs)
            return fail(d->error, WISP_ERROR_FORMAT, path, "out_features",
                        "%llu, but the weights have %llu rows", (unsigned long long)outputs,
                        (unsigned long long)tensor->rows);
        has_bias = has_bias || is_bias;
        snprintf(renamed, sizeof renamed, "%s%s", d->name, tensor->name + sizeof prefix - 1);
        tensor->name = arena_copy_text(&d->dir->arena, renamed, strlen(renamed));
        if (!tensor->name)
            return fail_memory(d->error, strlen(renamed));
    }
    if (has_bias != wants_bias)
        return fail(d->error, WISP_ERROR_FORMAT, path, "bias", "%s, but the weights have %s",
                    wants_bias ? "true" : "false", has_bias ? "one" : "none");
    return WISP_OK;
}

/* Writes the name of a module's file of weights, which older versions of sentence-transformers call
 * pytorch_model.bin. */
static void find_weights(const char *folder, const char *module, char name[NAME_BYTES]) {
    char path[HF_PATH_BYTES];
    snprintf(name, NAME_BYTES, "%s/pytorch_model.bin", module);
    const bool has_old = file_exists(hf_path_of(path, folder, name));
    snprintf(name, NAME_BYTES, "%s/model.safetensors", module);
    if (has_old && !file_exists(hf_path_of(path, folder, name)))
        snprintf(name, NAME_BYTES, "%s/pytorch_model.bin", module);
}

wisp_status hf_read_dense_modules(struct directory *dir, const char *folder,
                                  const struct hf_modules *modules, wisp_error *error) {
    for (size_t i = 0; i < modules->n_dense; i++) {
        char file[NAME_BYTES], weights[NAME_BYTES];
        struct dense d = {.dir = dir,
                          .folder = folder,
                          .file = file,
                          .name = tensor_names[i],
                          .of_tokens = modules->of_tokens,
                          .error = error};
        const size_t first = dir->n_tensors;
        snprintf(file, sizeof file, "%s/config.json", modules->dense[i]);
        find_weights(folder, modules->dense[i], weights);
        TRY(hf_read_json(dir, folder, file, true, JSON_OBJECT, &d.config, error));
        TRY(check_settings(&d));
        TRY(put_activation(&d));
        TRY(hf_read_weights_file(dir, folder, weights, error));
        TRY(name_tensors(&d, first));
    }
    return WISP_OK;
}
