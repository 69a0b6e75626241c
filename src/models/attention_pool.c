/* SPDX-License-Identifier: Apache-2.0 */
#include "models/attention_pool.h"

#include <string.h>

#include "attention/attention.h"
#include "base/checked.h"
#include "base/memory.h"
#include "models/ffn_dense.h"

/* The working memory. Each row but those of qkv is one of the image. */
struct pool_rows {
    float *qkv;     /* [tokens, 3 size] */
    float *context; /* [size], and later the norm of y */
    float *inner;   /* [inner] */
    float *zeros;   /* [size] */
    struct workspace scratch;
};

/* It has the heads of the layers, and computes in f32. */
static struct attention_shape shape_of(const struct network *network) {
    struct attention_shape shape;
    network->architecture->attention(network, 0, &shape);
    shape.i16 = false;
    return shape;
}

static struct pool_rows take_rows(const struct attention_pool *pool, const struct network *network,
                                  size_t tokens, struct workspace *space) {
    const struct attention_shape shape = shape_of(network);
    const size_t size = pool->output.n, inner = pool->up.n;
    struct pool_rows r;
    r.qkv = workspace_take(space, tokens, 3 * size, sizeof *r.qkv);
    r.context = workspace_take(space, 1, size, sizeof *r.context);
    r.inner = workspace_take(space, 1, inner, sizeof *r.inner);
    r.zeros = workspace_take(space, 1, size, sizeof *r.zeros);
    r.scratch = workspace_part(
        space, larger(attention_full.workspace_bytes(network->kernels, &shape, tokens),
                      larger(linear_workspace_bytes(tokens, size),
                             linear_workspace_bytes(1, larger(size, inner)))));
    return r;
}

/* Computes the query of the probe, which is a weight of the file. */
static wisp_status load_query(struct attention_pool *pool, const struct network *network,
                              wisp_error *error) {
    static const char name[] = "pool_probe";
    const size_t size = pool->output.n;
    struct workspace space = {0}, measured = {0};
    float *probe = NULL, *qkv;
    TRY(directory_load_floats(network->dir, name, 1, size, &probe, error));
    workspace_take(&measured, 3, size, sizeof *qkv);
    workspace_part(&measured, linear_workspace_bytes(1, size));
    wisp_status status = workspace_reserve(&space, measured.used, error);
    if (status == WISP_OK) {
        qkv = workspace_take(&space, 3, size, sizeof *qkv);
        linear_apply(&pool->qkv, probe, 1, qkv, space);
        memcpy(probe, qkv, size * sizeof *qkv);
    }
    workspace_release(&space);
    pool->query = probe;
    return status;
}

wisp_status attention_pool_load(struct attention_pool *pool, const struct network *network,
                                wisp_error *error) {
    const size_t size = network->config.hidden_size, inner = network->config.intermediate_size;
    const struct {
        struct linear *linear;
        const char *name;
        size_t n, k;
    } layers[] = {{&pool->qkv, "pool_qkv", 3 * size, size},
                  {&pool->output, "pool_output", size, size},
                  {&pool->up, "pool_up", inner, size},
                  {&pool->down, "pool_down", size, inner}};
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        const struct linear_source source = {.dir = network->dir,
                                             .names = &layers[i].name,
                                             .parts = 1,
                                             .n = layers[i].n,
                                             .k = layers[i].k};
        TRY(linear_load(layers[i].linear, &source, network->kernels, WISP_COMPUTE_F32, error));
    }
    TRY(norm_load(&pool->norm, network->dir, "pool_norm", size, error));
    return load_query(pool, network, error);
}

void attention_pool_release(struct attention_pool *pool) {
    linear_release(&pool->qkv);
    linear_release(&pool->output);
    linear_release(&pool->up);
    linear_release(&pool->down);
    norm_release(&pool->norm);
    memory_free(pool->query);
}

size_t attention_pool_bytes(const struct attention_pool *pool, const struct network *network,
                            size_t tokens) {
    struct workspace measured = {0};
    take_rows(pool, network, tokens, &measured);
    return measured.used;
}

void attention_pool_apply(const struct attention_pool *pool, const struct network *network,
                          const float *x, size_t tokens, float *row, struct workspace space) {
    const struct pool_rows r = take_rows(pool, network, tokens, &space);
    const struct kernels *kernels = network->kernels;
    const struct attention_shape shape = shape_of(network);
    const size_t size = pool->output.n, head_size = shape.head_size;
    linear_apply(&pool->qkv, x, tokens, r.qkv, r.scratch);
    const struct attention_sequence image = {.q = {pool->query, size, head_size},
                                             .k = {r.qkv + size, 3 * size, head_size},
                                             .v = {r.qkv + 2 * size, 3 * size, head_size},
                                             .queries = 1,
                                             .keys = tokens,
                                             .end = 1};
    attention_full.run(kernels, &shape, &image, r.context, size, r.scratch);
    linear_apply(&pool->output, r.context, 1, row, r.scratch);
    memcpy(r.context, row, size * sizeof *row);
    memset(r.zeros, 0, size * sizeof *r.zeros);
    kernels->layer_norm(r.context, r.zeros, pool->norm.weight, pool->norm.bias,
                        network->config.norm_epsilon, 1, size);
    linear_apply(&pool->up, r.context, 1, r.inner, r.scratch);
    ffn_activate(kernels, network->config.activation, r.inner, NULL, pool->up.n);
    linear_apply(&pool->down, r.inner, 1, r.context, r.scratch);
    kernels->add(row, r.context, size);
}
