/* SPDX-License-Identifier: Apache-2.0
 * Measures what fetching neurons ahead would win: how well the predictor of a layer chooses when it
 * runs on the input of the layer before. ahead MODEL ROW_BYTES < TEXTS, if ROW_BYTES is the size
 * of a neuron's row in the file (wisp inspect), takes the lines one by one, each as a first text of
 * a model of which no cold neuron has come yet. bench/sparse/README.md says what it prints. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/model.h"
#include "formats/schema.h"
#include "models/pass.h"

enum { MOST_LAYERS = 64, MOST_WORDS = 64, OFFSETS = 13, CHUNK_BYTES = 64 * 1024, USAGE = 2 };

/* Is added to thresholds, so that more or fewer neurons are chosen ahead. */
static const float offsets[OFFSETS] = {-2, -1, -0.5f, 0, 0.5f, 1, 1.5f, 2, 2.5f, 3, 3.5f, 4, 5};

/* A set of neurons that some tokens of a text need in a layer, and of the chunks they lie in. */
struct set {
    uint64_t neurons[MOST_WORDS];
};

struct counts {
    uint64_t needed, chosen, found;                /* (token, neuron) pairs of all neurons */
    uint64_t cold_needed, cold_chosen, cold_found; /* cold neurons of texts */
    uint64_t chunks_needed, chunks_chosen, chunks_found;
    uint64_t texts;
    /* Layers at which a text waits: without choices ahead, and if rows or chunks come ahead. */
    uint64_t rounds, rounds_by_row, rounds_by_chunk;
};

static struct {
    const wisp_model *model;
    size_t layers, width, words, tokens, row_bytes;
    size_t hot[MOST_LAYERS], first_row[MOST_LAYERS];
    float *thresholds, *moved;
    uint64_t *masks, *ahead_masks;
    float *inner;
    struct workspace space;
    struct set needed[MOST_LAYERS], ahead[OFFSETS][MOST_LAYERS];
    struct counts counts[OFFSETS];
} m;

static _Noreturn void give_up(const char *what) {
    fprintf(stderr, "ahead: %s\n", what);
    exit(EXIT_FAILURE);
}

static uint64_t ones(const uint64_t *words, size_t n) {
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (uint64_t)__builtin_popcountll(words[i]);
    return sum;
}

static void predict(size_t layer, float offset, const float *x, uint64_t *masks) {
    const struct sparse_ffn *ffn = &m.model->network.feed_forward[layer].sparse;
    struct workspace space = m.space;
    for (size_t i = 0; i < m.width; i++)
        m.moved[i] = m.thresholds[layer * m.width + i] + offset;
    sparse_ffn_predict(ffn, m.moved, x, m.tokens, masks, m.inner, space);
}

/* Joins the masks of all tokens, without hot neurons. */
static void join(size_t layer, const uint64_t *masks, struct set *set) {
    *set = (struct set){{0}};
    for (size_t i = 0; i < m.tokens * m.words; i++)
        set->neurons[i % m.words] |= masks[i];
    for (size_t i = 0; i < m.hot[layer]; i++)
        set->neurons[i / 64] &= ~(UINT64_C(1) << i % 64);
}

/* Is called before each block: chooses the neurons of this layer, as the block will, and ahead
 * those of the next. */
static wisp_status look(void *context, struct cursor at, const float *x, wisp_error *error) {
    (void)context, (void)error;
    if (at.block != PASS_FEED_FORWARD)
        return WISP_OK;
    const size_t l = at.layer, n = m.tokens * m.words;
    /* The masks of the layer before are those that were chosen ahead for this one. */
    predict(l, 0, x, m.masks);
    join(l, m.masks, &m.needed[l]);
    for (size_t o = 0; o < OFFSETS; o++) {
        uint64_t *ahead = m.ahead_masks + o * n;
        struct counts *c = &m.counts[o];
        if (l > 0) {
            c->needed += ones(m.masks, n);
            c->chosen += ones(ahead, n);
            for (size_t i = 0; i < n; i++)
                c->found += (uint64_t)__builtin_popcountll(ahead[i] & m.masks[i]);
        }
        if (l + 1 < m.layers) {
            predict(l + 1, offsets[o], x, ahead);
            join(l + 1, ahead, &m.ahead[o][l + 1]);
        }
    }
    return WISP_OK;
}

/* Sets bits of the chunks in which a layer's neurons lie, and returns how many there are. */
static size_t chunks_of(size_t layer, const struct set *set, uint8_t *chunks) {
    size_t n = 0;
    for (size_t i = m.hot[layer]; i < m.width; i++) {
        if (!(set->neurons[i / 64] >> i % 64 & 1))
            continue;
        const size_t row = m.first_row[layer] + i - m.hot[layer];
        const size_t end = ((row + 1) * m.row_bytes - 1) / CHUNK_BYTES;
        for (size_t c = row * m.row_bytes / CHUNK_BYTES; c <= end; c++) {
            n += !chunks[c];
            chunks[c] = 1;
        }
    }
    return n;
}

/* Counts what a text would have fetched, by whole chunks. */
static void count_text(struct counts *c, const struct set *ahead, size_t most) {
    uint8_t *have = calloc(3, most), *needed = have + most, *chosen = needed + most;
    if (!have)
        give_up("out of memory");
    c->texts++;
    for (size_t l = 0; l < m.layers; l++) {
        size_t missing = 0, of_layer = 0, found = 0;
        memset(needed, 0, most);
        of_layer = chunks_of(l, &m.needed[l], needed);
        for (size_t i = 0; i < most; i++) {
            missing += needed[i] && !have[i];
            found += l > 0 && needed[i] && have[i];
        }
        c->rounds += of_layer > 0;
        c->rounds_by_chunk += missing > 0;
        for (size_t i = 0; i < most; i++)
            have[i] |= needed[i];
        if (l > 0) {
            const uint64_t cold = ones(m.needed[l].neurons, m.words);
            uint64_t of_cold = 0;
            for (size_t i = 0; i < m.words; i++)
                of_cold +=
                    (uint64_t)__builtin_popcountll(ahead[l].neurons[i] & m.needed[l].neurons[i]);
            c->chunks_needed += of_layer;
            c->chunks_found += found;
            c->cold_needed += cold;
            c->cold_chosen += ones(ahead[l].neurons, m.words);
            c->cold_found += of_cold;
            c->rounds_by_row += of_cold < cold;
        } else {
            c->rounds_by_row += of_layer > 0;
        }
        if (l + 1 < m.layers) {
            memset(chosen, 0, most);
            c->chunks_chosen += chunks_of(l + 1, &ahead[l + 1], chosen);
            for (size_t i = 0; i < most; i++)
                have[i] |= chosen[i];
        }
    }
    free(have);
}

static void run_text(const char *text, size_t length) {
    const wisp_model *model = m.model;
    const uint32_t size = model->network.config.hidden_size;
    int32_t ids[512];
    wisp_error error;
    if (wisp_tokenize(model, (wisp_text){text, length}, ids, 512, &m.tokens, &error) != WISP_OK)
        give_up(error.message);
    m.tokens = m.tokens < 512 ? m.tokens : 512;
    const size_t starts[] = {0, m.tokens};
    const struct pass_size most = {
        .texts = 1, .tokens = m.tokens, .longest = m.tokens, .members = 1};
    struct workspace space = {0};
    float *row = calloc(size, sizeof *row);
    m.masks = calloc(m.tokens * m.words, sizeof *m.masks);
    m.ahead_masks = calloc(OFFSETS * m.tokens * m.words, sizeof *m.ahead_masks);
    m.inner = calloc(m.tokens * model->network.neurons.rank, sizeof *m.inner);
    if (!row || !m.masks || !m.ahead_masks || !m.inner ||
        workspace_reserve(&space, pass_workspace_bytes(&model->network, &most), &error) != WISP_OK)
        give_up("out of memory");
    struct pass pass = {.network = &model->network,
                        .batch = {.texts = 1, .ids = ids, .starts = starts},
                        .rows = row,
                        .thresholds = m.thresholds,
                        .members = 1,
                        .hook = look};
    pass_begin(&pass, &space);
    if (pass_run(&pass, &error) != WISP_OK)
        give_up(error.message);
    const size_t rows = m.first_row[m.layers - 1] + m.width;
    for (size_t o = 0; o < OFFSETS; o++)
        count_text(&m.counts[o], m.ahead[o], rows * m.row_bytes / CHUNK_BYTES + 2);
    workspace_release(&space);
    free(row);
    free(m.masks);
    free(m.ahead_masks);
    free(m.inner);
}

static void open_all(const char *path) {
    const wisp_model_options options = {.predictor = WISP_PREDICTOR_LOWRANK};
    wisp_model *model;
    wisp_error error;
    if (wisp_model_open(path, &options, &model, &error) != WISP_OK)
        give_up(error.message);
    const struct model_config *c = &model->network.config;
    const struct metadata *hot = directory_find_metadata(&model->dir, KEY_SPARSE_HOT);
    m.model = model;
    m.layers = c->layers;
    m.width = c->intermediate_size;
    m.words = sparse_mask_words(m.width);
    if (m.layers > MOST_LAYERS || m.words > MOST_WORDS)
        give_up("the model is too large");
    m.thresholds = calloc(m.layers * m.width, sizeof *m.thresholds);
    m.moved = calloc(m.width, sizeof *m.moved);
    if (!m.thresholds || !m.moved)
        give_up("out of memory");
    for (size_t l = 0; l < m.layers; l++) {
        int64_t n;
        if (!hot || !metadata_array_i64(hot, l, &n))
            give_up("the file does not say which neurons are hot");
        m.hot[l] = (size_t)n;
        m.first_row[l] = l ? m.first_row[l - 1] + m.width - m.hot[l - 1] : 0;
        sparse_ffn_thresholds(&model->network.feed_forward[l].sparse, &model->plan,
                              model->plan.share, m.thresholds + l * m.width);
    }
    if (workspace_reserve(&m.space,
                          sparse_ffn_workspace_bytes(c->hidden_size, m.width,
                                                     model->network.neurons.rank, c->activation),
                          &error) != WISP_OK)
        give_up(error.message);
}

static double share(uint64_t part, uint64_t whole) {
    return whole ? (double)part / (double)whole : 0;
}

int main(int argc, char **argv) {
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    if (argc != 3 || (m.row_bytes = strtoul(argv[2], NULL, 10)) == 0) {
        fputs("usage: ahead MODEL ROW_BYTES < TEXTS\n", stderr);
        return USAGE;
    }
    open_all(argv[1]);
    while ((length = getline(&line, &capacity, stdin)) > 0)
        run_text(line, (size_t)length - (line[length - 1] == '\n'));
    free(line);
    printf("offset   size  recall |  cold: size  recall | chunks: size  recall | rounds a text: "
           "alone, rows ahead, chunks ahead\n");
    for (size_t o = 0; o < OFFSETS; o++) {
        const struct counts *c = &m.counts[o];
        printf("%6.2f %6.2f  %6.3f | %11.2f  %6.3f | %12.2f  %6.3f | %20.2f %11.2f %13.2f\n",
               (double)offsets[o], share(c->chosen, c->needed), share(c->found, c->needed),
               share(c->cold_chosen, c->cold_needed), share(c->cold_found, c->cold_needed),
               share(c->chunks_chosen, c->chunks_needed), share(c->chunks_found, c->chunks_needed),
               share(c->rounds, c->texts), share(c->rounds_by_row, c->texts),
               share(c->rounds_by_chunk, c->texts));
    }
    return EXIT_SUCCESS;
}
