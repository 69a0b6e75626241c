/* SPDX-License-Identifier: Apache-2.0
 * Which blocks of keys the layers and heads of a session have looked at. A map begins with cells of
 * one step; when a text outgrows it, four cells become one. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "engine/device_texts.h"
#include "engine/session.h"

enum { CELLS = WISP_ATTENTION_CELLS };

struct cell {
    uint64_t seen, visible;
};

/* The steps that a worker has attended to in a layer. */
struct layer_map {
    size_t steps; /* of a cell, each way */
    size_t kv_heads;
    struct cell cells[]; /* [kv_heads, queries, keys] */
};

static struct cell *cell_at(struct layer_map *map, size_t kv_head, size_t query, size_t key) {
    return &map->cells[(kv_head * CELLS + query) * CELLS + key];
}

static void double_cells(struct layer_map *map) {
    for (size_t h = 0; h < map->kv_heads; h++)
        for (size_t q = 0; q < CELLS; q++)
            for (size_t k = 0; k < CELLS; k++) { /* no cell is written before it was read */
                const struct cell from = *cell_at(map, h, q, k);
                struct cell *to = cell_at(map, h, q / 2, k / 2);
                *cell_at(map, h, q, k) = (struct cell){0};
                to->seen += from.seen;
                to->visible += from.visible;
            }
    map->steps *= 2;
}

static void see(void *context, size_t kv_head, size_t query_step, size_t key_step, uint64_t seen,
                uint64_t visible) {
    struct layer_map *map = context;
    while (query_step >= CELLS * map->steps)
        double_cells(map);
    struct cell *cell = cell_at(map, kv_head, query_step / map->steps, key_step / map->steps);
    cell->seen += seen;
    cell->visible += visible;
}

wisp_status wisp_session_watch_attention(wisp_session *session, wisp_error *error) {
    TRY(require(session, "session", error));
    const struct model_config *c = &session->model->network.config;
    TRY(texts_need_host(session->model, "attention", "a map of attention", error));
    if (config_embeds(c))
        return fail(error, WISP_ERROR_UNSUPPORTED, session->model->dir.file, "attention",
                    "maps of attention are for models that generate text");
    const size_t bytes =
        sizeof(struct layer_map) + (size_t)c->kv_heads * CELLS * CELLS * sizeof(struct cell);
    for (uint32_t i = 0; i < session->n_workers; i++) {
        struct attention_counts *counts = session->workers[i].attention;
        if (counts->map)
            continue;
        unsigned char *maps = calloc(c->layers, bytes);
        if (!maps)
            return fail_memory(error, c->layers * bytes);
        for (size_t l = 0; l < c->layers; l++) {
            struct layer_map *map = (struct layer_map *)(void *)(maps + l * bytes);
            map->steps = 1;
            map->kv_heads = c->kv_heads;
            counts[l].map = map;
            counts[l].see = see;
        }
    }
    return WISP_OK;
}

bool wisp_session_get_attention_map(const wisp_session *session, uint32_t layer, uint32_t kv_head,
                                    wisp_attention_map *found) {
    const struct model_config *c = &session->model->network.config;
    struct cell sums[CELLS][CELLS] = {{{0}}};
    size_t steps = 0;
    *found = (wisp_attention_map){0};
    if (layer >= c->layers || kv_head >= c->kv_heads)
        return false;
    for (uint32_t i = 0; i < session->n_workers; i++) {
        const struct layer_map *map = session->workers[i].attention[layer].map;
        if (!map) /* memory ran out when the session began to watch */
            return false;
        steps = larger(steps, map->steps);
    }
    for (uint32_t i = 0; i < session->n_workers; i++) {
        struct layer_map *map = session->workers[i].attention[layer].map;
        const size_t ratio = steps / map->steps;
        for (size_t q = 0; q < CELLS; q++)
            for (size_t k = 0; k < CELLS; k++) {
                sums[q / ratio][k / ratio].seen += cell_at(map, kv_head, q, k)->seen;
                sums[q / ratio][k / ratio].visible += cell_at(map, kv_head, q, k)->visible;
            }
    }
    found->positions = (uint32_t)(steps * KV_STEP);
    for (size_t q = 0; q < CELLS; q++)
        for (size_t k = 0; k < CELLS; k++) {
            const struct cell *sum = &sums[q][k];
            found->seen[q][k] =
                sum->visible > 0 ? (float)((double)sum->seen / (double)sum->visible) : -1;
            if (sum->visible > 0)
                found->cells = (uint32_t)q + 1;
        }
    return true;
}
