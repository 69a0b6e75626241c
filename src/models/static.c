/* SPDX-License-Identifier: Apache-2.0
 * A network without layers. Its vectors are floats in memory, so that a text costs its tokenizer
 * and the memory that its tokens' vectors take. */
#include "models/static.h"

#include <string.h>

#include "base/memory.h"
#include "formats/schema.h"
#include "models/config_reader.h"
#include "models/pass.h"

enum { MAX_SIZE = 1 << 20 };

struct static_weights {
    float *vectors;  /* [vocabulary_size, hidden_size], with the weights of tokens */
    int32_t unknown; /* the token that does not count; also what is around a text in place of
                        special tokens */
};

static void static_attention(const struct network *network, uint32_t layer,
                             struct attention_shape *shape) {
    (void)network, (void)layer;
    *shape = (struct attention_shape){0}; /* there are no layers */
}

static void static_take(const struct network *network, const struct pass_size *size,
                        struct workspace *space, struct pass *pass) {
    (void)network, (void)size, (void)space;
    if (pass)
        pass->x = pass->hidden = pass->state = NULL;
}

/* row [size] = the mean of the vectors of n tokens but unknown ones, or zeros if there are none.
 * They are added from the first on, so that the bits of the mean depend only on the tokens. */
static void mean_of_tokens(const struct network *network, const int32_t *ids, size_t n,
                           float *row) {
    const struct static_weights *w = network->weights;
    const size_t size = network->config.hidden_size;
    size_t count = 0;
    memset(row, 0, size * sizeof *row);
    for (size_t t = 0; t < n; t++) {
        if (ids[t] == w->unknown)
            continue;
        network->kernels->add(row, w->vectors + (size_t)ids[t] * size, size);
        count++;
    }
    for (size_t i = 0; i < size && count > 1; i++)
        row[i] /= (float)count;
}

static wisp_status static_step(struct pass *pass, uint32_t member, struct cursor at,
                               wisp_error *error) {
    const struct batch *batch = &pass->batch;
    const size_t size = pass->network->config.hidden_size;
    (void)error;
    if (member > 0 || at.block != PASS_OUTPUT)
        return WISP_OK;
    for (size_t i = 0; i < batch->texts; i++) {
        const size_t first = batch->starts[i] + (batch->skipped ? batch->skipped[i] : 0);
        mean_of_tokens(pass->network, batch->ids + first, batch->starts[i + 1] - first,
                       pass->rows + i * size);
    }
    pass_mark(pass, member, at, STAGE_POOL);
    return WISP_OK;
}

/* ---- the weights ---------------------------------------------------------------------------- */

static size_t static_linears(const struct network *network, uint32_t layer,
                             struct linear_entry *out) {
    (void)network, (void)layer, (void)out;
    return 0;
}

/* Multiplies each vector by its token's weight. */
static wisp_status apply_weights(struct network *network, struct static_weights *w,
                                 wisp_error *error) {
    static const char name[] = "token_weights.weight";
    const size_t n = network->config.vocabulary_size, size = network->config.hidden_size;
    float *weights = NULL;
    if (!directory_find_tensor(network->dir, name))
        return WISP_OK;
    const wisp_status status = directory_load_floats(network->dir, name, 1, n, &weights, error);
    for (size_t t = 0; t < n && status == WISP_OK; t++)
        for (size_t i = 0; i < size; i++)
            w->vectors[t * size + i] *= weights[t];
    memory_free(weights);
    return status;
}

static wisp_status static_load(struct network *network, wisp_error *error) {
    struct static_weights *w = network->weights;
    const size_t n = network->config.vocabulary_size, size = network->config.hidden_size;
    uint32_t unknown;
    TRY(metadata_u32(network->dir, "tokenizer.ggml.unknown_token_id", &unknown, error));
    w->unknown = unknown < n ? (int32_t)unknown : -1;
    TRY(directory_load_floats(network->dir, TENSOR_TOKENS, n, size, &w->vectors, error));
    network->resident_bytes += n * size * sizeof *w->vectors;
    return apply_weights(network, w, error);
}

static wisp_status static_load_layer(struct network *network, uint32_t layer, wisp_error *error) {
    (void)network, (void)layer, (void)error;
    return WISP_OK;
}

static void static_release(struct network *network) {
    memory_free(((struct static_weights *)network->weights)->vectors);
}

/* ---- the hyper-parameters ------------------------------------------------------------------- */

static wisp_status read_size(const struct config_reader *r, const char *name, uint32_t *size) {
    char key[CONFIG_KEY_BYTES];
    TRY(metadata_u32(r->dir, config_key(r, name, key), size, r->error));
    if (*size == 0 || *size > MAX_SIZE)
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, key, "%u is not between 1 and %d",
                    *size, MAX_SIZE);
    return WISP_OK;
}

static wisp_status static_read_config(const struct directory *dir, struct model_config *config,
                                      wisp_error *error) {
    const struct config_reader r = {dir, architecture_static.name, config, error};
    const struct tensor *tokens = directory_find_tensor(dir, TENSOR_TOKENS);
    *config = (struct model_config){.activation = ACTIVATION_GELU, .heads = 1, .kv_heads = 1};
    TRY(read_size(&r, "embedding_length", &config->hidden_size));
    TRY(read_size(&r, "context_length", &config->max_positions));
    TRY(config_read_pooling(&r));
    if (config->pooling != POOLING_MEAN)
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, "static.pooling_type",
                    "%d is not supported, only 1 (mean)", (int)config->pooling);
    config->head_size = config->hidden_size;
    config->token_types = 1;
    if (tokens && tokens->rows <= UINT32_MAX)
        config->vocabulary_size = (uint32_t)tokens->rows;
    return WISP_OK;
}

static const char *const tensors[] = {"token_embd", "token_weights", NULL};
static const char *const layer_tensors[] = {NULL};

const struct architecture architecture_static = {.name = "static",
                                                 .tensors = tensors,
                                                 .layer_tensors = layer_tensors,
                                                 .read_config = static_read_config,
                                                 .weights_bytes = sizeof(struct static_weights),
                                                 .linears = static_linears,
                                                 .load = static_load,
                                                 .load_layer = static_load_layer,
                                                 .release = static_release,
                                                 .attention = static_attention,
                                                 .take = static_take,
                                                 .step = static_step};
