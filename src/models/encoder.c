/* SPDX-License-Identifier: Apache-2.0 */
#include "models/encoder.h"

#include <string.h>

#include "attention/disentangled.h"
#include "base/product.h"
#include "layers/mean.h"

wisp_status encoder_look_up(struct pass *pass, float *stored, float *x, wisp_error *error) {
    const struct network *network = pass->network;
    const struct batch *batch = &pass->batch;
    const size_t size = config_token_size(&network->config);
    while (pass->looked_up < pass->tokens) {
        const size_t first = pass->looked_up, n = pass_tokens_to_look_up(pass);
        const size_t absent = token_embedding_hold(&network->tokens, batch->ids + first, n, NULL);
        if (absent > 0)
            return fail(error, WISP_NEED_RANGES, network->dir->file, NULL,
                        "the embeddings of %zu tokens are absent: wisp_session_needs says which "
                        "bytes they are",
                        absent);
        for (size_t t = first; t < first + n; t++)
            TRY(token_embedding_row(&network->tokens, batch->ids[t], pass->member[0].tokens, stored,
                                    x + t * size, error));
        token_embedding_let_go(&network->tokens);
        pass->looked_up += n;
    }
    return WISP_OK;
}

wisp_status encoder_look_up_positions(const struct pass *pass, float *y, wisp_error *error) {
    const struct network *network = pass->network;
    const size_t size = config_token_size(&network->config);
    TRY(rest_wake(network, REST_POSITIONS, 0, error));
    for (size_t i = 0; i < pass->batch.texts; i++) {
        const size_t start = pass->batch.starts[i], tokens = pass->batch.starts[i + 1] - start;
        memcpy(y + start * size, network->positions->rows, tokens * size * sizeof *y);
    }
    rest_sleep(network, REST_POSITIONS, 0);
    return WISP_OK;
}

/* Returns rows from token `start` on. */
static struct attention_rows rows_from(struct attention_rows rows, size_t start) {
    rows.data += start * rows.row_stride;
    return rows;
}

/* Computes the member's rows of context behind the first `keys` tokens of a text, which are all
 * that these see: each alone, with the keys as those of a text that ends with it. */
static void attend_unseen(const struct pass *pass, const struct attention_shape *shape,
                          const struct encoder_rows *rows, struct text_slice slice, size_t keys,
                          float *context, struct workspace scratch) {
    const size_t ld = shape->heads * shape->head_size;
    for (size_t p = slice.first > keys ? slice.first : keys; p < slice.end; p++) {
        struct attention_shape own = *shape;
        const bool is_near = shape->mask == ATTENTION_NEAR && p > shape->window;
        const size_t first = is_near ? p - shape->window : 0, seen = keys - first;
        struct attention_sequence text = {.q = rows_from(rows->q, slice.start + p),
                                          .k = rows_from(rows->k, slice.start + first),
                                          .v = rows_from(rows->v, slice.start + first),
                                          .queries = 1,
                                          .keys = seen,
                                          .end = 1};
        own.mask = ATTENTION_ALL_KEYS;
        if (own.bias) /* full attention takes the query for the last key */
            own.bias -= p - first - (seen - 1);
        struct disentangled parts;
        if (shape->parts) {
            parts = *shape->parts;
            parts.beyond = p - first - (seen - 1);
            own.parts = &parts;
        }
        pass->attention.prefill->run(pass->network->kernels, &own, &text,
                                     context + (slice.start + p) * ld, ld, scratch);
    }
}

wisp_status encoder_attend(const struct pass *pass, uint32_t member, struct cursor at,
                           const struct encoder_rows *rows, float *context,
                           struct workspace scratch, wisp_error *error) {
    const struct network *network = pass->network;
    const struct pass_tokens own = pass_tokens(pass, member);
    struct attention_shape shape;
    network->architecture->attention(network, at.layer, &shape);
    const size_t ld = shape.heads * shape.head_size;
    for (size_t i = 0; i < pass->batch.texts; i++) {
        struct text_slice slice = pass_text_slice(pass, i, own);
        if (RANKS && pass->batch.keys && pass->batch.keys[i] < slice.tokens) {
            attend_unseen(pass, &shape, rows, slice, pass->batch.keys[i], context, scratch);
            slice.tokens = pass->batch.keys[i];
            slice.end = slice.end < slice.tokens ? slice.end : slice.tokens;
        }
        struct attention_sequence text = {.q = rows_from(rows->q, slice.start),
                                          .k = rows_from(rows->k, slice.start),
                                          .v = rows_from(rows->v, slice.start),
                                          .queries = slice.tokens,
                                          .keys = slice.tokens};
        for (text.first = slice.first; text.first < slice.end; text.first = text.end) {
            text.end =
                text.first + pass_queries_at_once(pass, slice.tokens, slice.end - text.first);
            TRY(pass_ask_hook(pass, at, text.first - slice.first, error));
            pass->attention.prefill->run(network->kernels, &shape, &text,
                                         context + (slice.start + text.first) * ld, ld, scratch);
        }
    }
    return WISP_OK;
}

void encoder_pool(const struct pass *pass) {
    const struct network *network = pass->network;
    const struct batch *batch = &pass->batch;
    const size_t size = network->config.hidden_size;
    for (size_t i = 0; i < batch->texts; i++) {
        const size_t skipped = batch->skipped ? batch->skipped[i] : 0;
        const size_t tokens = batch->starts[i + 1] - batch->starts[i];
        const float *x = pass->x + (batch->starts[i] + skipped) * size;
        if (network->config.pooling != POOLING_MEAN && !(CLASSIFIES && network->config.ranks_mean))
            memcpy(pass->rows + i * size, x, size * sizeof *x);
        else
            mean_of_rows(network->kernels, x, tokens - skipped, size, pass->rows + i * size);
    }
}
