/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/eval_sts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cosine.h"
#include "base/statistics.h"
#include "cli/embedders.h"
#include "cli/input.h"
#include "cli/progress.h"

enum { STS_COLUMNS = 7, SIMPLE_COLUMNS = 3, STS_SCORE = 4 };

/* A model's embeddings of a batch and its scores of all pairs so far. */
struct measured {
    float *rows;    /* [2 BATCH_RECORDS, dimensions] */
    double *scores; /* [pairs]: cosines of the pairs */
};

struct evaluation {
    const char *path;
    struct input input;
    struct batch *batch;
    struct embedders models;
    struct measured of[MODELS];
    size_t pairs, capacity;
    double *human;   /* [pairs] */
    double *cosines; /* [2 pairs]: between the two models' embeddings of a text */
    struct progress progress;
};

/* ---- lines ---------------------------------------------------------------------------------- */

/* Splits a line at tabs and returns the number of columns; only the first `most` are stored. */
static size_t split_columns(wisp_text line, wisp_text *columns, size_t most) {
    size_t n = 0;
    for (const char *at = line.bytes, *end = at + line.length;; n++) {
        const char *tab = memchr(at, '\t', (size_t)(end - at));
        const char *stop = tab ? tab : end;
        if (n < most)
            columns[n] = (wisp_text){at, (size_t)(stop - at)};
        if (!tab)
            return n + 1;
        at = tab + 1;
    }
}

static bool parse_score(wisp_text column, double *score) {
    char digits[64], *end;
    if (column.length == 0 || column.length >= sizeof digits)
        return false;
    memcpy(digits, column.bytes, column.length);
    digits[column.length] = '\0';
    *score = strtod(digits, &end);
    return *end == '\0' && isfinite(*score);
}

static int parse_line(const struct evaluation *e, size_t number, wisp_text line, double *score,
                      wisp_text pair[2]) {
    wisp_text columns[STS_COLUMNS];
    const size_t n = split_columns(line, columns, STS_COLUMNS);
    if (n != SIMPLE_COLUMNS && n < STS_COLUMNS) {
        complain("%s: line %zu: %zu columns; expected 3 or at least 7", e->path, number, n);
        return EXIT_INPUT;
    }
    const wisp_text *at = columns + (n == SIMPLE_COLUMNS ? 0 : STS_SCORE);
    if (!parse_score(at[0], score)) {
        complain("%s: line %zu: the score \"%.*s\" is not a number", e->path, number,
                 (int)(at[0].length < 40 ? at[0].length : 40), at[0].bytes);
        return EXIT_INPUT;
    }
    pair[0] = at[1];
    pair[1] = at[2];
    return EXIT_GOOD;
}

/* ---- batches -------------------------------------------------------------------------------- */

static bool grow(double **values, size_t n) {
    double *moved = realloc(*values, n * sizeof *moved);
    if (!moved)
        return false;
    *values = moved;
    return true;
}

static bool reserve_pairs(struct evaluation *e, size_t pairs) {
    if (pairs <= e->capacity)
        return true;
    e->capacity = 2 * pairs;
    return grow(&e->human, e->capacity) && grow(&e->of[TESTED].scores, e->capacity) &&
           grow(&e->of[REFERENCE].scores, e->capacity) && grow(&e->cosines, 2 * e->capacity);
}

static int embed_texts(const struct evaluation *e, size_t model, const wisp_text *texts) {
    wisp_error error;
    const struct measured *m = &e->of[model];
    const size_t n = e->batch->n, size = e->models.dimensions;
    if (wisp_embed(e->models.of[model].session, texts, 2 * n, NULL, m->rows, &error) != WISP_OK)
        return complain_of(&error);
    for (size_t i = 0; i < n; i++) {
        const float *row = m->rows + 2 * i * size;
        m->scores[e->pairs + i] = cosine(row, row + size, size);
    }
    return EXIT_GOOD;
}

static int evaluate_batch(struct evaluation *e) {
    wisp_text texts[2 * BATCH_RECORDS];
    const size_t n = e->batch->n, size = e->models.dimensions;
    int code = EXIT_GOOD;
    if (!reserve_pairs(e, e->pairs + n))
        return complain_of_memory();
    for (size_t i = 0; i < n && code == EXIT_GOOD; i++)
        code = parse_line(e, e->pairs + i + 1, e->batch->texts[i], &e->human[e->pairs + i],
                          texts + 2 * i);
    for (size_t m = 0; m < MODELS && code == EXIT_GOOD; m++)
        code = embed_texts(e, m, texts);
    for (size_t i = 0; i < 2 * n && code == EXIT_GOOD; i++)
        e->cosines[2 * e->pairs + i] =
            cosine(e->of[TESTED].rows + i * size, e->of[REFERENCE].rows + i * size, size);
    e->pairs += n;
    progress_show(&e->progress, e->pairs, input_fraction(&e->input));
    return was_interrupted() ? EXIT_INTERRUPTED : code;
}

static int evaluate_all(struct evaluation *e) {
    int code = EXIT_GOOD;
    do {
        code = input_next(&e->input, e->batch);
        if (e->batch->n > 0 && !was_interrupted()) {
            const int evaluated = evaluate_batch(e);
            code = evaluated != EXIT_GOOD ? evaluated : code;
        }
    } while (code == EXIT_GOOD && e->batch->n > 0);
    return code;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static int summarise(const struct evaluation *e, struct sts_result *r) {
    wisp_error error;
    const size_t n = e->pairs;
    wisp_model_info info;
    if (n == 0) {
        complain("%s: no pairs", e->path);
        return EXIT_INPUT;
    }
    wisp_model_get_info(e->models.of[TESTED].model, &info);
    *r = (struct sts_result){.pairs = n, .kernels = info.kernels, .compute = info.compute};
    if (spearman(e->of[TESTED].scores, e->human, n, &r->spearman, &error) != WISP_OK ||
        spearman(e->of[REFERENCE].scores, e->human, n, &r->reference_spearman, &error) != WISP_OK)
        return complain_of(&error);
    r->pearson = pearson(e->of[TESTED].scores, e->human, n);
    r->reference_pearson = pearson(e->of[REFERENCE].scores, e->human, n);
    for (size_t i = 0; i < 2 * n; i++)
        r->mean_cosine += e->cosines[i] / (double)(2 * n);
    r->low_cosine = quantile(e->cosines, 2 * n, 0.01);
    r->least_cosine = e->cosines[0];
    return EXIT_GOOD;
}

static int evaluate(struct evaluation *e, const struct model_arguments *arguments,
                    struct sts_result *result) {
    int code = embedders_open(&e->models, arguments);
    for (size_t m = 0; m < MODELS && code == EXIT_GOOD; m++) {
        e->of[m].rows = calloc(2 * BATCH_RECORDS, e->models.dimensions * sizeof *e->of[m].rows);
        code = e->of[m].rows ? EXIT_GOOD : complain_of_memory();
    }
    if (code != EXIT_GOOD)
        return code;
    input_add(&e->input, e->path, NULL);
    watch_signals(e->models.of[TESTED].session);
    progress_start(&e->progress, "pairs");
    code = evaluate_all(e);
    progress_end(&e->progress);
    watch_signals(NULL);
    return code == EXIT_GOOD ? summarise(e, result) : code;
}

int sts_evaluate(const struct model_arguments *arguments, const char *path,
                 struct sts_result *result) {
    struct evaluation e = {.path = path, .batch = calloc(1, sizeof *e.batch)};
    int code = EXIT_FAILED;
    if (!e.batch)
        complain("out of memory");
    else if (input_open(&e.input, 1))
        code = evaluate(&e, arguments, result);
    input_close(&e.input);
    embedders_close(&e.models);
    for (size_t m = 0; m < MODELS; m++) {
        free(e.of[m].rows);
        free(e.of[m].scores);
    }
    free(e.human);
    free(e.cosines);
    if (e.batch)
        arena_release(&e.batch->arena);
    free(e.batch);
    return code;
}
