/* SPDX-License-Identifier: Apache-2.0
 * Texts to embeddings: workers take the next few texts each, tokenise them into one packed batch,
 * run it, and write the rows where they belong. */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "engine/session.h"

/* A batch is sized by its estimated tokens: many enough to reuse each weight that is loaded, few
 * enough for the hidden states to stay in the second-level cache and for workers to finish
 * together. */
enum { BATCH_TEXTS = 64, BATCH_MIN_TOKENS = 64, BATCH_MAX_TOKENS = 256, BATCHES_PER_WORKER = 4 };

/* Of each: fewer are computed as soon as another thread is woken. */
enum { SHARE_MIN_TOKENS = 6 };

/* Memory is reserved in steps of so many tokens. */
enum { ROOM_STEP = 128 };

/* English text has about 4.5 bytes to a token. */
enum { BYTES_PER_TOKEN = 4, SPECIAL_TOKENS = 2 };

struct job {
    wisp_session *session;
    const wisp_text *texts;
    size_t n;
    wisp_text prompt;
    size_t prompt_tokens; /* that pooling leaves out */
    size_t dimensions;
    float *rows;
    size_t batch_tokens;
    uint32_t sharers;   /* workers that share a batch: 1 where each has its own */
    atomic_size_t next; /* the first text nobody has taken */
    atomic_bool failed;
    wisp_error error; /* of the worker that failed first */
};

static size_t estimate_tokens(const struct job *job, const wisp_text *text) {
    const size_t most = job->session->model->max_tokens;
    const size_t bytes = job->prompt.length + text->length;
    const size_t tokens = (bytes + BYTES_PER_TOKEN - 1) / BYTES_PER_TOKEN + SPECIAL_TOKENS;
    return tokens < most ? tokens : most;
}

/* Takes texts [*first, *end) from the job; false when none are left. */
static bool take_texts(struct job *job, size_t *first, size_t *end) {
    *first = atomic_load(&job->next);
    do {
        if (*first >= job->n)
            return false;
        size_t tokens = estimate_tokens(job, &job->texts[*first]);
        for (*end = *first + 1; *end < job->n && *end - *first < BATCH_TEXTS; ++*end) {
            tokens += estimate_tokens(job, &job->texts[*end]);
            if (tokens > job->batch_tokens)
                break;
        }
    } while (!atomic_compare_exchange_weak(&job->next, first, *end));
    return true;
}

static wisp_status join_prompt(const struct job *job, struct worker *worker, wisp_text *text,
                               wisp_error *error) {
    if (job->prompt.length == 0)
        return WISP_OK;
    const size_t length = job->prompt.length + text->length;
    TRY(workspace_reserve(&worker->text, round_up(length, MEMORY_ALIGNMENT), error));
    char *joined = workspace_take(&worker->text, 1, length, 1);
    memcpy(joined, job->prompt.bytes, job->prompt.length);
    if (text->length)
        memcpy(joined + job->prompt.length, text->bytes, text->length);
    *text = (wisp_text){joined, length};
    return WISP_OK;
}

/* Tokenises texts [first, end) into one batch in the worker's memory. */
static wisp_status tokenize_batch(const struct job *job, struct worker *worker, size_t first,
                                  size_t end, struct bert_batch *batch, wisp_error *error) {
    const wisp_model *model = job->session->model;
    const size_t n = end - first, most = model->max_tokens;
    const size_t id_bytes = round_up(n * most * sizeof(int32_t), MEMORY_ALIGNMENT);
    const size_t index_bytes = round_up((n + 1) * sizeof(size_t), MEMORY_ALIGNMENT);
    TRY(workspace_reserve(&worker->batch, id_bytes + 2 * index_bytes, error));
    int32_t *ids = workspace_take(&worker->batch, 1, id_bytes, 1);
    size_t *starts = workspace_take(&worker->batch, 1, index_bytes, 1);
    size_t *skipped = workspace_take(&worker->batch, 1, index_bytes, 1);
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        wisp_text text = job->texts[first + i];
        bool truncated;
        TRY(join_prompt(job, worker, &text, error));
        const size_t tokens =
            tokenizer_encode(model->tokenizer, text, most, ids + used, &truncated);
        worker->stats.truncated_texts += truncated;
        starts[i] = used;
        skipped[i] = job->prompt_tokens < tokens ? job->prompt_tokens : tokens - 1;
        used += tokens;
    }
    starts[n] = used;
    *batch = (struct bert_batch){.texts = n, .ids = ids, .starts = starts, .skipped = skipped};
    return WISP_OK;
}

/* Those who compute the batch: the worker, or all that share it. */
static void set_members(const struct job *job, struct worker *worker, struct bert_batch *batch) {
    batch->members = job->sharers;
    batch->team = job->sharers > 1 ? job->session->team : NULL;
    for (uint32_t i = 0; i < job->sharers; i++)
        batch->member[i] = (struct bert_member){&worker[i].trace, worker[i].counts};
}

/* The first `dimensions` of a pooled row, normalised as torch.nn.functional.normalize does. False
 * where they are not finite. */
static bool write_row(const float *pooled, size_t dimensions, bool normalize, float *row) {
    double squares = 0;
    for (size_t i = 0; i < dimensions; i++)
        squares += (double)pooled[i] * (double)pooled[i];
    const double length = sqrt(squares);
    const float scale = normalize ? (float)(1 / (length > 1e-12 ? length : 1e-12)) : 1;
    for (size_t i = 0; i < dimensions; i++)
        row[i] = pooled[i] * scale;
    return isfinite(squares);
}

/* Tokens to have memory for: half as many again as were estimated, so that it does not have to grow
 * bit by bit as batches come that are larger than all before them. For the same reason there are
 * rows for as many texts as a batch may have. */
static size_t room_for(const struct job *job, size_t tokens) {
    const size_t likely = job->batch_tokens + job->batch_tokens / 2;
    return round_up(tokens > likely ? tokens : likely, ROOM_STEP);
}

static wisp_status forward_batch(const struct job *job, struct worker *worker, size_t first,
                                 struct bert_batch *batch, wisp_error *error) {
    const struct bert *bert = &job->session->model->bert;
    const size_t size = bert->config.hidden_size, tokens = batch->starts[batch->texts];
    const size_t row_bytes = round_up(BATCH_TEXTS * size * sizeof(float), MEMORY_ALIGNMENT);
    size_t bytes;
    if (!bert_workspace_bytes(bert, room_for(job, tokens), job->session->model->max_tokens,
                              job->sharers, &bytes))
        return fail_memory(error, UINT64_MAX);
    TRY(workspace_reserve(&worker->forward, row_bytes + bytes, error));
    float *pooled = workspace_take(&worker->forward, 1, row_bytes, 1);
    batch->thresholds = job->session->thresholds;
    set_members(job, worker, batch);
    TRY(bert_forward(bert, batch, pooled, &worker->forward, NULL, NULL, error));
    const bool normalize = bert->config.normalize || job->dimensions < size;
    for (size_t i = 0; i < batch->texts; i++)
        if (!write_row(pooled + i * size, job->dimensions, normalize,
                       job->rows + (first + i) * job->dimensions))
            return fail(error, WISP_ERROR_FORMAT, job->session->model->dir.file, NULL,
                        "the embedding of text %zu is not finite: a token's embedding is not, or "
                        "weights are too large",
                        first + i);
    return WISP_OK;
}

static wisp_status run_batch(const struct job *job, struct worker *worker, size_t first, size_t end,
                             wisp_error *error) {
    struct bert_batch batch;
    trace_start(&worker->trace);
    TRY(tokenize_batch(job, worker, first, end, &batch, error));
    trace_mark(&worker->trace, STAGE_TOKENIZE, NO_LAYER);
    TRY(forward_batch(job, worker, first, &batch, error));
    worker->stats.texts += batch.texts;
    worker->stats.tokens += batch.starts[batch.texts];
    return WISP_OK;
}

static void work(void *context, uint32_t member) {
    struct job *job = context;
    struct worker *worker = &job->session->workers[member];
    size_t first, end;
    while (!atomic_load(&job->failed) && !atomic_load(&job->session->cancelled) &&
           take_texts(job, &first, &end)) {
        wisp_error error;
        if (run_batch(job, worker, first, end, &error) != WISP_OK &&
            !atomic_exchange(&job->failed, true))
            job->error = error;
    }
}

/* A call that makes one batch is shared token by token, where each of the sharers has enough. */
static uint32_t plan_sharers(const struct job *job, size_t tokens, uint32_t members) {
    const size_t workers = job->session->n_workers, most = tokens / SHARE_MIN_TOKENS;
    if ((members > 1 && job->n > 1) || most < 2)
        return 1;
    return (uint32_t)smaller(most, smaller(workers, BERT_MOST_MEMBERS));
}

/* Shares the texts evenly, so that all workers have some. One alone has nobody to wait for. */
static void plan_batches(struct job *job, uint32_t *members) {
    const size_t workers = job->session->n_workers;
    size_t total = 0;
    for (size_t i = 0; i < job->n; i++)
        total += estimate_tokens(job, &job->texts[i]);
    size_t share = workers > 1 ? total / (workers * BATCHES_PER_WORKER) + 1 : BATCH_MAX_TOKENS;
    if (share < BATCH_MIN_TOKENS)
        share = BATCH_MIN_TOKENS;
    job->batch_tokens = share < BATCH_MAX_TOKENS ? share : BATCH_MAX_TOKENS;
    const size_t batches = total / job->batch_tokens + 1;
    *members = (uint32_t)(batches < workers ? batches : workers);
    job->sharers = plan_sharers(job, total, *members);
    if (job->sharers > 1)
        *members = 1;
}

static wisp_status run(struct job *job, wisp_error *error) {
    uint32_t members;
    plan_batches(job, &members);
    pool_run(job->session->team, members, work, job);
    if (atomic_exchange(&job->session->cancelled, false))
        return fail(error, WISP_ERROR_CANCELLED, NULL, NULL, "cancelled");
    if (atomic_load(&job->failed)) {
        if (error)
            *error = job->error;
        return job->error.status;
    }
    return WISP_OK;
}

/* Tokens of the prompt alone, [CLS] included and [SEP] not, as sentence-transformers counts what
 * pooling leaves out. */
static wisp_status count_prompt_tokens(const wisp_model *model, wisp_text prompt, size_t *tokens,
                                       wisp_error *error) {
    *tokens = 0;
    if (model->pool_prompt || prompt.length == 0)
        return WISP_OK;
    TRY(wisp_tokenize(model, prompt, NULL, 0, tokens, error));
    --*tokens;
    return WISP_OK;
}

wisp_status wisp_embed(wisp_session *session, const wisp_text *texts, size_t n,
                       const wisp_embed_options *options, float *rows, wisp_error *error) {
    const wisp_embed_options defaults = {0}, *o = options ? options : &defaults;
    const wisp_model *model = session->model;
    struct job job = {.session = session, .texts = texts, .n = n, .rows = rows};
    job.prompt = wisp_text_of(o->prompt ? o->prompt : model->default_prompt);
    job.dimensions = o->dimensions ? o->dimensions : wisp_model_dimensions(model);
    if (job.dimensions > wisp_model_dimensions(model))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "dimensions",
                    "%zu were asked for, and the model has %zu", job.dimensions,
                    wisp_model_dimensions(model));
    if (n == 0)
        return WISP_OK;
    TRY(count_prompt_tokens(model, job.prompt, &job.prompt_tokens, error));
    return run(&job, error);
}

float wisp_dot(const float *a, const float *b, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return (float)sum;
}
