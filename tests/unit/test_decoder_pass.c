/* SPDX-License-Identifier: Apache-2.0
 * Passes of decoders of every architecture: tokens in pieces of any size, several sequences in one
 * batch, members that split tokens or outputs, a hook that stops the pass at any block. Logits
 * always have the same bits. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/model.h"
#include "models/pass.h"
#include "support/decoders.h"
#include "support/golden.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { MOST_WORDS = 512, TOKENS = 90, SEQUENCES = 3, MOST_MEMBERS = 4 };

enum { LONG_TOKENS = KV_PAGE + 44 }; /* of a sequence with two pages */

static const char stories[] = "models/wisp-stories.gguf";

/* The ways in which a pass is run. */
struct way {
    uint32_t members;
    bool by_outputs;
    bool stopping; /* the hook stops the pass before every block once */
};

struct decoder {
    struct bytes file; /* of a tiny model */
    wisp_model *model;
    size_t vocabulary;
    struct kv_cache caches[SEQUENCES];
    struct pool *team;
    struct workspace space;
};

/* Opens a model from its file, which is released. */
static void open_file(struct decoder *d, struct gguf *file, wisp_compute compute,
                      const char *kernels) {
    const wisp_model_options options = {.compute = compute, .kernels = kernels};
    wisp_error error;
    gguf_write_bytes(file, &d->file);
    gguf_release(file);
    const wisp_source source = {.size = d->file.size, .data = d->file.data, .name = "tiny"};
    if (wisp_model_open_source(&source, &options, &d->model, &error) != WISP_OK)
        fail_msg("%s", error.message);
}

/* Opens caches and a team for the model. */
static void open_caches(struct decoder *d, enum kv_type type) {
    wisp_error error;
    d->vocabulary = d->model->network.config.vocabulary_size;
    const struct network *network = &d->model->network;
    const struct model_config *c = &network->config;
    const struct kv_shape shape = {
        c->layers, c->kv_heads, c->head_size, network->kernels->f32_panel, type, 0};
    struct rope rope;
    network->architecture->rope(network, &rope);
    for (size_t i = 0; i < SEQUENCES; i++) {
        assert_int_equal(kv_cache_open(&d->caches[i], &shape, &error), WISP_OK);
        assert_int_equal(kv_cache_reserve(&d->caches[i], LONG_TOKENS, &rope, &error), WISP_OK);
    }
    assert_int_equal(pool_open(MOST_MEMBERS, &d->team, &error), WISP_OK);
}

/* Opens the model that comes with wisp, or a tiny one. */
static void open_decoder(struct decoder *d, const struct tiny_decoder *tiny, wisp_compute compute,
                         enum kv_type type) {
    struct gguf file;
    *d = (struct decoder){0};
    if (tiny) {
        decoder_make(&file, tiny);
        open_file(d, &file, compute, NULL);
    } else {
        d->model = open_model_or_fail(stories, compute, NULL);
    }
    open_caches(d, type);
}

static void close_decoder(struct decoder *d) {
    for (size_t i = 0; i < SEQUENCES; i++)
        kv_cache_release(&d->caches[i]);
    pool_close(d->team);
    workspace_release(&d->space);
    wisp_model_close(d->model);
    bytes_release(&d->file);
}

struct stops {
    struct cursor last;
    bool stopped;
};

static wisp_status stop_once(void *context, struct cursor at, const float *x, wisp_error *error) {
    struct stops *stops = context;
    (void)x;
    if (stops->stopped && at.layer == stops->last.layer && at.block == stops->last.block)
        return WISP_OK;
    *stops = (struct stops){at, true};
    set_error(error, WISP_ERROR_CANCELLED, NULL, NULL, "stopped");
    return WISP_ERROR_CANCELLED;
}

/* Runs one pass over `texts` sequences, text i with counts[i] ids in the cache of sequence
 * sequence[i]. Writes logits [sum of counts, vocabulary]. */
static void run(struct decoder *d, struct way way, size_t texts, const size_t *sequence,
                const int32_t *const *ids, const size_t *counts, float *logits) {
    const struct network *network = &d->model->network;
    int32_t all[LONG_TOKENS];
    size_t starts[SEQUENCES + 1] = {0};
    struct kv_cache *caches[SEQUENCES];
    struct stops stops = {0};
    wisp_error error;
    for (size_t i = 0; i < texts; i++) {
        memcpy(all + starts[i], ids[i], counts[i] * sizeof *all);
        starts[i + 1] = starts[i] + counts[i];
        caches[i] = &d->caches[sequence[i]];
    }
    const struct pass_size size = {.texts = texts,
                                   .tokens = starts[texts],
                                   .longest = caches[0]->capacity,
                                   .members = way.members,
                                   .by_outputs = way.by_outputs};
    assert_int_equal(workspace_reserve(&d->space, pass_workspace_bytes(network, &size), &error),
                     WISP_OK);
    struct pass pass = {.network = network,
                        .batch = {.texts = texts,
                                  .ids = all,
                                  .starts = starts,
                                  .caches = caches,
                                  .all_logits = true},
                        .rows = logits,
                        .members = way.members,
                        .by_outputs = way.by_outputs,
                        .team = way.members > 1 ? d->team : NULL,
                        .hook = way.stopping ? stop_once : NULL,
                        .hook_context = &stops};
    pass_begin(&pass, &d->space);
    wisp_status status = pass_run(&pass, &error);
    for (; way.stopping && status == WISP_ERROR_CANCELLED; status = pass_run(&pass, &error))
        ;
    assert_int_equal(status, WISP_OK);
    for (size_t i = 0; i < texts; i++)
        caches[i]->length += counts[i];
}

static void make_ids(const struct decoder *d, int32_t *ids, int32_t n, int32_t seed) {
    for (int32_t t = 0; t < n; t++)
        ids[t] = (t * t * 31 + t * 7 + seed * 113 + 3) % (int32_t)d->vocabulary;
}

static const struct way ways[] = {{1, false, false}, {2, false, false}, {4, false, false},
                                  {2, true, false},  {3, true, false},  {4, true, true},
                                  {1, false, true},  {3, false, true}};

enum { WAYS = sizeof ways / sizeof *ways };

/* One sequence, in pieces of each size, in each way. Tiny models try fewer of them, since many
 * small pieces and many threads take long together. */
static void check_pieces(const struct tiny_decoder *tiny, wisp_compute compute) {
    static float whole[TOKENS * MOST_WORDS], again[TOKENS * MOST_WORDS];
    static const size_t pieces[] = {TOKENS, 1, 2, 7, 32, 33, 64};
    struct decoder d;
    int32_t ids[TOKENS];
    open_decoder(&d, tiny, compute, KV_F32);
    make_ids(&d, ids, TOKENS, (int32_t)compute);
    run(&d, ways[0], 1, (const size_t[]){0}, (const int32_t *const[]){ids},
        (const size_t[]){TOKENS}, whole);
    for (size_t way = 0; way < WAYS; way++)
        for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++) {
            if (tiny && (pieces[p] % 32 == 0 || (way > 0 && (way % 2 == 0 || pieces[p] < 7))))
                continue;
            if (pieces[p] < 7 && ways[way].members > 2) /* barriers of many threads take long */
                continue;
            d.caches[0].length = 0;
            for (size_t done = 0, n; done < TOKENS; done += n) {
                n = TOKENS - done < pieces[p] ? TOKENS - done : pieces[p];
                run(&d, ways[way], 1, (const size_t[]){0}, (const int32_t *const[]){ids + done}, &n,
                    again + done * d.vocabulary);
            }
            if (memcmp(again, whole, TOKENS * d.vocabulary * sizeof *whole) != 0)
                fail_msg("%s, compute %d, way %zu, pieces of %zu", tiny ? tiny->name : stories,
                         (int)compute, way, pieces[p]);
        }
    close_decoder(&d);
}

/* A sequence of two pages, in caches of each type. */
static void pieces_change_nothing_in_any_cache(void **state) {
    static float whole[LONG_TOKENS * MOST_WORDS], again[LONG_TOKENS * MOST_WORDS];
    static float floats[LONG_TOKENS * MOST_WORDS];
    static const struct {
        struct way way;
        size_t piece;
    } tries[] = {{{1, false, false}, 1}, {{2, false, false}, 37}, {{2, true, false}, 100}};
    (void)state;
    for (int type = KV_F32; type <= KV_INT8; type++) {
        struct decoder d;
        int32_t ids[LONG_TOKENS];
        double error = 0, size = 0;
        open_decoder(&d, NULL, WISP_COMPUTE_F32, (enum kv_type)type);
        make_ids(&d, ids, LONG_TOKENS, 1);
        run(&d, ways[0], 1, (const size_t[]){0}, (const int32_t *const[]){ids},
            (const size_t[]){LONG_TOKENS}, whole);
        for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
            d.caches[0].length = 0;
            for (size_t done = 0, n; done < LONG_TOKENS; done += n) {
                n = LONG_TOKENS - done < tries[i].piece ? LONG_TOKENS - done : tries[i].piece;
                run(&d, tries[i].way, 1, (const size_t[]){0}, (const int32_t *const[]){ids + done},
                    &n, again + done * d.vocabulary);
            }
            if (memcmp(again, whole, LONG_TOKENS * d.vocabulary * sizeof *whole) != 0)
                fail_msg("cache type %d, pieces of %zu", type, tries[i].piece);
        }
        /* Logits are near those of floats, and others. */
        if (type == KV_F32)
            memcpy(floats, whole, sizeof whole);
        for (size_t i = 0; i < LONG_TOKENS * d.vocabulary; i++) {
            const double difference = (double)whole[i] - (double)floats[i];
            error += difference * difference;
            size += (double)floats[i] * (double)floats[i];
        }
        assert_true(sqrt(error / size) <= (type == KV_F16 ? 1e-3 : 2e-2));
        assert_true(type == KV_F32 ? error == 0 : error > 0);
        close_decoder(&d);
    }
}

/* Sequences of different lengths in one batch, each after tokens of its own. */
static void check_batch(const struct tiny_decoder *tiny, wisp_compute compute) {
    static const size_t before[SEQUENCES] = {0, 17, 40}, counts[SEQUENCES] = {33, 1, 9};
    static float alone[SEQUENCES][TOKENS * MOST_WORDS], unused[TOKENS * MOST_WORDS];
    static float together[TOKENS * MOST_WORDS];
    struct decoder d;
    int32_t ids[SEQUENCES][TOKENS];
    const int32_t *now[SEQUENCES];
    open_decoder(&d, tiny, compute, KV_F32);
    for (size_t i = 0; i < SEQUENCES; i++) {
        const int32_t *first = ids[i];
        make_ids(&d, ids[i], TOKENS, (int32_t)i);
        now[i] = ids[i] + before[i];
        if (before[i] > 0)
            run(&d, ways[0], 1, &i, &first, &before[i], unused);
        run(&d, ways[0], 1, &i, &now[i], &counts[i], alone[i]);
    }
    for (size_t way = 0; way < WAYS; way++) {
        for (size_t i = 0; i < SEQUENCES; i++)
            d.caches[i].length = before[i];
        run(&d, ways[way], SEQUENCES, (const size_t[]){0, 1, 2}, now, counts, together);
        const float *row = together;
        for (size_t i = 0; i < SEQUENCES; i++) {
            if (memcmp(row, alone[i], counts[i] * d.vocabulary * sizeof *row) != 0)
                fail_msg("%s, compute %d, way %zu, sequence %zu", tiny ? tiny->name : stories,
                         (int)compute, way, i);
            row += counts[i] * d.vocabulary;
        }
    }
    close_decoder(&d);
}

/* Calls a check for the model that comes with wisp and for all tiny ones. */
static void each_decoder(void (*check)(const struct tiny_decoder *tiny, wisp_compute compute)) {
    for (int compute = WISP_COMPUTE_F32; compute <= WISP_COMPUTE_INT8; compute++) {
        check(NULL, (wisp_compute)compute);
        for (const struct tiny_decoder *tiny = tiny_decoders; tiny->name; tiny++)
            check(tiny, (wisp_compute)compute);
    }
}

static void pieces_change_nothing(void **state) {
    (void)state;
    each_decoder(check_pieces);
}

static void sequences_share_a_batch(void **state) {
    (void)state;
    each_decoder(check_batch);
}

/* Replaces the matrices of all feed-forward layers by those of `wide` neurons, of which W_up and
 * W_gate have these types. */
static void replace_feed_forward(struct gguf *file, uint32_t wide, uint32_t up, uint32_t gate) {
    const struct {
        const char *name;
        uint32_t inputs, outputs, type;
    } parts[] = {{"ffn_up", DECODER_HIDDEN, wide, up},
                 {"ffn_gate", DECODER_HIDDEN, wide, gate},
                 {"ffn_down", wide, DECODER_HIDDEN, BLOCK_Q8_0}};
    gguf_set_u32(file, "llama.feed_forward_length", wide);
    for (unsigned layer = 0; layer < DECODER_LAYERS; layer++)
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            char name[64];
            snprintf(name, sizeof name, "blk.%u.%s.weight", layer, parts[i].name);
            gguf_drop_tensor(file, name);
            tiny_add_tensor(file, name, parts[i].inputs, parts[i].outputs, parts[i].type);
        }
    gguf_settle(file);
}

/* Members split W_up and W_gate at other outputs if the panels of their types differ, as those
 * of Q4_0 and int8 do with AVX-512. Which member is first is chance, so each way is tried often. */
static void gates_may_have_another_type(void **state) {
    static float whole[TOKENS * MOST_WORDS], again[TOKENS * MOST_WORDS];
    static const uint32_t types[][2] = {{BLOCK_Q4_0, BLOCK_Q8_0}, {BLOCK_Q8_0, BLOCK_Q4_0}};
    enum { WIDE = 160, TRIES = 20 };
    const char *kernels;
    (void)state;
    for (size_t k = 0; (kernels = wisp_kernels_name(k)) != NULL; k++)
        for (size_t i = 0; i < 2; i++) {
            struct decoder d = {0};
            struct gguf file;
            int32_t ids[TOKENS];
            decoder_make(&file, &tiny_decoders[0]);
            replace_feed_forward(&file, WIDE, types[i][0], types[i][1]);
            open_file(&d, &file, WISP_COMPUTE_INT8, kernels);
            open_caches(&d, KV_F32);
            make_ids(&d, ids, TOKENS, 1);
            for (uint32_t try = 0; try <= TRIES; try++) {
                const struct way way = {try == 0 ? 1 : 2 + try % 3, try > 0, false};
                d.caches[0].length = 0;
                run(&d, way, 1, (const size_t[]){0}, (const int32_t *const[]){ids},
                    (const size_t[]){TOKENS}, try == 0 ? whole : again);
                if (try > 0 && memcmp(again, whole, TOKENS * d.vocabulary * sizeof *whole) != 0)
                    fail_msg("%s, types %zu, %u members", kernels, i, way.members);
            }
            close_decoder(&d);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_change_nothing),
        cmocka_unit_test(pieces_change_nothing_in_any_cache),
        cmocka_unit_test(sequences_share_a_batch),
        cmocka_unit_test(gates_may_have_another_type),
    };
    return cmocka_run_group_tests_name("decoder_pass", tests, NULL, NULL);
}
