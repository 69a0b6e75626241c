/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/eval_retrieval.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "cli/embedders.h"
#include "cli/input.h"
#include "cli/progress.h"
#include "cli/whole_file.h"
#include "host/file.h"

enum { CUT = 10 };

static const size_t absent = SIZE_MAX;

/* Documents or queries, and their embeddings. */
struct collection {
    const char *what;
    char path[PATH_MAX];
    uint32_t n, capacity;
    struct entry {
        wisp_text id;
        size_t row;
    } *entries;     /* in the order of the file, then of their ids */
    wisp_text *ids; /* of rows */
    float *rows[MODELS];
    const char *prompts[MODELS];
    struct arena arena; /* has the ids */
};

/* How relevant somebody judged a document to be to a query. */
struct judgement {
    size_t query, document; /* absent: the corpus does not have it */
    double grade;
};

struct evaluation {
    const char *folder;
    struct embedders models;
    struct collection documents, queries;
    struct judgement *judgements; /* in the order of queries */
    uint32_t n_judgements;
    struct batch *batch;
    struct progress progress;
    size_t done;
};

/* ---- texts ---------------------------------------------------------------------------------- */

/* Makes room for `more` texts. Its lists have the same capacity. */
static bool reserve(struct collection *c, uint32_t more, size_t dimensions) {
    const size_t row = dimensions * sizeof **c->rows;
    const struct {
        void *list;
        size_t item_bytes;
    } lists[] = {{&c->entries, sizeof *c->entries},
                 {&c->ids, sizeof *c->ids},
                 {&c->rows[TESTED], row},
                 {&c->rows[REFERENCE], row}};
    uint32_t capacity = c->capacity;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        capacity = c->capacity;
        if (list_grow(lists[i].list, c->n, more, &capacity, lists[i].item_bytes, NULL) != WISP_OK)
            return false;
    }
    c->capacity = capacity;
    return true;
}

/* Joins title and text of a document with a space, as BEIR does. */
static bool join(struct arena *arena, const struct record *record, wisp_text *text) {
    const struct json *title = json_get(record->object, "title");
    *text = record->text;
    if (!json_is(title, JSON_STRING) || title->text_length == 0)
        return true;
    const size_t length = title->text_length + 1 + record->text.length;
    char *joined = arena_allocate(arena, length);
    if (!joined)
        return false;
    memcpy(joined, title->text, title->text_length);
    joined[title->text_length] = ' ';
    memcpy(joined + title->text_length + 1, record->text.bytes, record->text.length);
    *text = (wisp_text){joined, length};
    return true;
}

static int take_id(struct collection *c, const struct record *record, wisp_text *id) {
    const struct json *given = json_get(record->object, "_id");
    if (!json_is(given, JSON_STRING) && !json_is(given, JSON_NUMBER)) {
        complain("%s: line %zu: _id: expected a string or a number", c->path, record->line);
        return EXIT_INPUT;
    }
    const char *copy = arena_copy_text(&c->arena, given->text, given->text_length);
    *id = (wisp_text){copy, given->text_length};
    return copy ? EXIT_GOOD : complain_of_memory();
}

static int add_batch(struct evaluation *e, struct collection *c) {
    const uint32_t n = (uint32_t)e->batch->n; /* at most BATCH_RECORDS */
    const size_t size = e->models.dimensions;
    wisp_text texts[BATCH_RECORDS];
    wisp_error error;
    if (!reserve(c, n, size))
        return complain_of_memory();
    for (size_t i = 0; i < n; i++) {
        wisp_text id;
        const int code = take_id(c, &e->batch->records[i], &id);
        if (code != EXIT_GOOD)
            return code;
        if (!join(&e->batch->arena, &e->batch->records[i], &texts[i]))
            return complain_of_memory();
        c->ids[c->n + i] = id;
        c->entries[c->n + i] = (struct entry){id, c->n + i};
    }
    for (size_t m = 0; m < MODELS; m++) {
        const wisp_embed_options options = {.prompt = c->prompts[m]};
        if (wisp_embed(e->models.of[m].session, texts, n, &options, c->rows[m] + c->n * size,
                       &error) != WISP_OK)
            return complain_of(&error);
    }
    c->n += n;
    e->done += n;
    progress_show(&e->progress, e->done, -1);
    return was_interrupted() ? EXIT_INTERRUPTED : EXIT_GOOD;
}

static int compare_texts(wisp_text a, wisp_text b) {
    const size_t n = a.length < b.length ? a.length : b.length;
    const int order = memcmp(a.bytes, b.bytes, n);
    return order ? order : (a.length > b.length) - (a.length < b.length);
}

static int compare_entries(const void *a, const void *b) {
    return compare_texts(((const struct entry *)a)->id, ((const struct entry *)b)->id);
}

/* Returns the row of an id. */
static size_t find_row(const struct collection *c, wisp_text id) {
    const struct entry key = {id, 0};
    const struct entry *found =
        bsearch(&key, c->entries, c->n, sizeof *c->entries, compare_entries);
    return found ? found->row : absent;
}

static int read_collection(struct evaluation *e, struct collection *c) {
    struct input input;
    wisp_error error;
    int code = EXIT_GOOD;
    if (file_join(e->folder, c->what, c->path, sizeof c->path, &error) != WISP_OK)
        return complain_of(&error);
    if (!input_open(&input, 1))
        return EXIT_FAILED;
    input.ndjson = true;
    input_add(&input, c->path, NULL);
    do {
        code = input_next(&input, e->batch);
        if (code == EXIT_GOOD && e->batch->n > 0)
            code = add_batch(e, c);
    } while (code == EXIT_GOOD && e->batch->n > 0);
    input_close(&input);
    if (code != EXIT_GOOD)
        return code;
    qsort(c->entries, c->n, sizeof *c->entries, compare_entries);
    for (size_t i = 1; i < c->n; i++)
        if (compare_entries(&c->entries[i - 1], &c->entries[i]) == 0) {
            complain("%s: two lines have the _id %.80s", c->path, c->entries[i].id.bytes);
            return EXIT_INPUT;
        }
    return EXIT_GOOD;
}

/* ---- judgements ----------------------------------------------------------------------------- */

/* Takes the text up to the next tab or the end of the line. Returns what is behind it, or NULL if
 * the line ends there. */
static const char *take_column(const char *at, const char *end, wisp_text *column) {
    const char *tab = memchr(at, '\t', (size_t)(end - at)), *stop = tab ? tab : end;
    *column = (wisp_text){at, (size_t)(stop - at)};
    return tab ? tab + 1 : NULL;
}

static int parse_judgement(const struct evaluation *e, const char *path, size_t number,
                           const char *line, const char *end, struct judgement *j) {
    wisp_text query, document, grade;
    char digits[32] = "", *after = digits;
    const char *at = take_column(line, end, &query);
    at = at ? take_column(at, end, &document) : NULL;
    if (at)
        take_column(at, end, &grade);
    if (at && grade.length > 0 && grade.length < sizeof digits) {
        memcpy(digits, grade.bytes, grade.length);
        digits[grade.length] = '\0';
        j->grade = strtod(digits, &after);
    }
    if (after == digits || *after || !isfinite(j->grade)) {
        complain("%s: line %zu: expected the id of a query, that of a document and a number, with "
                 "tabs between them",
                 path, number);
        return EXIT_INPUT;
    }
    j->query = find_row(&e->queries, query);
    j->document = find_row(&e->documents, document);
    if (j->query == absent) {
        complain("%s: line %zu: %s has no query %.*s", path, number, e->queries.path,
                 (int)(query.length < 80 ? query.length : 80), query.bytes);
        return EXIT_INPUT;
    }
    return EXIT_GOOD;
}

static int compare_judgements(const void *a, const void *b) {
    const struct judgement *x = a, *y = b;
    return x->query != y->query ? (x->query > y->query) - (x->query < y->query)
                                : (x->grade < y->grade) - (x->grade > y->grade);
}

/* Reads the judgements and sorts them by query, those with the best grade first. */
static int read_judgements(struct evaluation *e) {
    char path[PATH_MAX], *text = NULL;
    wisp_error error;
    size_t length, number = 1;
    if (file_join(e->folder, "qrels/test.tsv", path, sizeof path, &error) != WISP_OK)
        return complain_of(&error);
    int code = read_whole_file(path, &text, &length);
    const char *line = text, *const end = text + length;
    uint32_t capacity = 0;
    for (; code == EXIT_GOOD && line < end; number++) {
        const char *newline = memchr(line, '\n', (size_t)(end - line)),
                   *stop = newline ? newline : end;
        if (list_grow(&e->judgements, e->n_judgements, 1, &capacity, sizeof *e->judgements, NULL) !=
            WISP_OK)
            code = complain_of_memory();
        if (code == EXIT_GOOD && number > 1 && stop > line) /* the first is the header */
            code = parse_judgement(e, path, number, line, stop, &e->judgements[e->n_judgements++]);
        line = newline ? newline + 1 : end;
    }
    free(text);
    if (code == EXIT_GOOD && e->n_judgements > 0)
        qsort(e->judgements, e->n_judgements, sizeof *e->judgements, compare_judgements);
    return code;
}

/* ---- scores --------------------------------------------------------------------------------- */

/* Finds the rows of the documents with the largest products with a query, best first; among equal
 * ones the earlier. A document with the query's own id does not count. Returns how many. */
static size_t search(const struct evaluation *e, size_t m, size_t query, size_t found[CUT]) {
    const size_t size = e->models.dimensions;
    const struct collection *documents = &e->documents;
    const float *q = e->queries.rows[m] + query * size;
    float scores[CUT];
    size_t n = 0;
    for (size_t i = 0; i < documents->n; i++) {
        const float score = wisp_dot(q, documents->rows[m] + i * size, size);
        if ((n == CUT && !(score > scores[CUT - 1])) ||
            compare_texts(documents->ids[i], e->queries.ids[query]) == 0)
            continue;
        size_t at = n < CUT ? n++ : CUT - 1;
        for (; at > 0 && score > scores[at - 1]; at--) {
            scores[at] = scores[at - 1];
            found[at] = found[at - 1];
        }
        scores[at] = score;
        found[at] = i;
    }
    return n;
}

static double discount(size_t rank) {
    return 1 / log2((double)rank + 2);
}

/* Adds the scores of a query, of which `judged` are the judgements, those with the best grade
 * first. */
static void add_scores(const struct evaluation *e, size_t m, const struct judgement *judged,
                       size_t n, struct retrieval_scores *sums) {
    size_t found[CUT], relevant = 0, hits = 0;
    double gained = 0, ideal = 0;
    const size_t n_found = search(e, m, judged->query, found);
    for (size_t i = 0; i < n && judged[i].grade > 0; i++) {
        relevant++;
        ideal += i < CUT ? judged[i].grade * discount(i) : 0;
        for (size_t k = 0; k < n_found; k++)
            if (found[k] == judged[i].document) {
                gained += judged[i].grade * discount(k);
                hits++;
            }
    }
    sums->ndcg += gained / ideal;
    sums->recall += (double)hits / (double)relevant;
}

static int score_all(struct evaluation *e, struct retrieval_result *r) {
    struct retrieval_scores sums[MODELS] = {{0}};
    wisp_model_info info;
    wisp_model_get_info(e->models.of[TESTED].model, &info);
    *r = (struct retrieval_result){
        .documents = e->documents.n, .compute = info.compute, .kernels = info.kernels};
    for (size_t i = 0, n; i < e->n_judgements; i += n) {
        const struct judgement *judged = &e->judgements[i];
        for (n = 1; i + n < e->n_judgements && judged[n].query == judged->query;)
            n++;
        if (judged->grade <= 0)
            continue;
        for (size_t m = 0; m < MODELS; m++)
            add_scores(e, m, judged, n, &sums[m]);
        r->queries++;
        progress_show(&e->progress, e->done, -1);
        if (was_interrupted())
            return EXIT_INTERRUPTED;
    }
    if (r->queries == 0) {
        complain("%s: no query has a relevant document", e->folder);
        return EXIT_INPUT;
    }
    const double n = (double)r->queries;
    r->model = (struct retrieval_scores){sums[TESTED].ndcg / n, sums[TESTED].recall / n};
    r->reference = (struct retrieval_scores){sums[REFERENCE].ndcg / n, sums[REFERENCE].recall / n};
    return EXIT_GOOD;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static void choose_prompts(struct evaluation *e) {
    static const char *const names[] = {"document", "passage", "corpus"};
    for (size_t m = 0; m < MODELS; m++) {
        const wisp_model *model = e->models.of[m].model;
        e->queries.prompts[m] = wisp_model_prompt(model, "query");
        for (size_t i = 0; i < sizeof names / sizeof *names && !e->documents.prompts[m]; i++)
            e->documents.prompts[m] = wisp_model_prompt(model, names[i]);
    }
}

static int evaluate(struct evaluation *e, const struct model_arguments *arguments,
                    struct retrieval_result *result) {
    int code = embedders_open(&e->models, arguments);
    if (code != EXIT_GOOD)
        return code;
    choose_prompts(e);
    watch_signals(e->models.of[TESTED].session);
    progress_start(&e->progress, "texts");
    code = read_collection(e, &e->queries);
    if (code == EXIT_GOOD)
        code = read_collection(e, &e->documents);
    if (code == EXIT_GOOD)
        code = read_judgements(e);
    if (code == EXIT_GOOD)
        code = score_all(e, result);
    progress_end(&e->progress);
    watch_signals(NULL);
    return code;
}

static void collection_release(struct collection *c) {
    free(c->entries);
    free(c->ids);
    for (size_t m = 0; m < MODELS; m++)
        free(c->rows[m]);
    arena_release(&c->arena);
}

int retrieval_evaluate(const struct model_arguments *arguments, const char *folder,
                       struct retrieval_result *result) {
    struct evaluation e = {.folder = folder,
                           .documents = {.what = "corpus.jsonl"},
                           .queries = {.what = "queries.jsonl"},
                           .batch = calloc(1, sizeof *e.batch)};
    const int code = e.batch ? evaluate(&e, arguments, result) : complain_of_memory();
    embedders_close(&e.models);
    collection_release(&e.documents);
    collection_release(&e.queries);
    free(e.judgements);
    batch_close(e.batch);
    return code;
}
