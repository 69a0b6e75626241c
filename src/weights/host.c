/* SPDX-License-Identifier: Apache-2.0
 * Weights in the memory of the program.
 * Compiled for size in WebAssembly. */
#include "base/checked.h"
#include "base/memory.h"
#include "weights/weight_kind.h"

wisp_status host_weights_load(const struct weight_kind *kind, const struct kernels *kernels,
                              size_t n, size_t k, struct weight_rows *rows, void **weights,
                              size_t *bytes, wisp_error *error) {
    *bytes = kind->bytes(kernels, n, k);
    unsigned char *packed = *weights = memory_allocate(*bytes);
    if (!packed)
        return fail_memory(error, *bytes);
    for (size_t first = 0; first < n; first += rows->at_once) {
        const size_t here = smaller(n - first, rows->at_once);
        const void *data;
        TRY(rows->read(rows, first, here, &data, error));
        kind->pack(kernels, data, here, k, packed);
        packed += kind->bytes(kernels, here, k);
    }
    return WISP_OK;
}

void host_weights_release(void *weights) {
    memory_free(weights);
}

/* Takes room for blocks of NARROW_BLOCK, and so for those of INT8_BLOCK, which are fewer. */
static struct quantised_rows take_quantised_rows(struct workspace *space, size_t m, size_t k) {
    struct quantised_rows rows;
    rows.q = workspace_take(space, m, int8_row_bytes(k), 1);
    rows.scale = workspace_take(space, m, narrow_blocks(k), sizeof *rows.scale);
    rows.zero = workspace_take(space, m, narrow_blocks(k), sizeof *rows.zero);
    rows.part_sums = workspace_take(space, m, 2 * (k / Q4_BLOCK), sizeof *rows.part_sums);
    return rows;
}

size_t weight_workspace_bytes(size_t m, size_t k) {
    struct workspace measured = {0};
    take_quantised_rows(&measured, m, k);
#ifndef __wasm__
    struct workspace bfloats = {0};
    workspace_take(&bfloats, m, bf16_row(k), sizeof(uint16_t));
    return larger(measured.used, bfloats.used);
#else
    return measured.used;
#endif
}

void host_weights_apply(const struct weight_kind *kind, const struct weight_product *p,
                        struct workspace space) {
    const struct kernels *kernels = p->kernels;
    const size_t before = kind->bytes(kernels, p->first, p->k);
    struct quantised_rows q = {0};
    if (kind->compute == WISP_COMPUTE_INT8) {
        q = take_quantised_rows(&space, p->m, p->k);
        (kind->narrow ? kernels->quantise_narrow : kernels->quantise)(p->x, p->m, p->k, q);
        if (kind->sums)
            sum_parts(q, p->m, p->k, kind->sums, kernels->signed_activations);
    }
    kind->product(kernels, p->x, q, (const unsigned char *)p->weights + before, p->bias + p->first,
                  p->y + p->first, p->ldy, p->m, p->n, p->k);
}
