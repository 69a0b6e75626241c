/* SPDX-License-Identifier: Apache-2.0
 * Embeds texts. Each worker takes the next few texts, tokenises them into one packed batch, runs a
 * pass over the batch, and writes the embeddings into the caller's rows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/product.h"
#include "engine/classify.h"
#include "engine/session.h"
#include "engine/token_vectors.h"
#include "tokenizers/pair.h"

/* The size of a batch is limited by its estimated tokens. More tokens reuse each loaded weight more
 * often; fewer tokens keep the hidden states in the second-level cache and let the workers finish
 * at about the same time. */
enum { BATCH_TEXTS = 64, BATCH_MIN_TOKENS = 64, BATCH_MAX_TOKENS = 256, BATCHES_PER_WORKER = 4 };

/* Members that split a batch compute at least this many tokens each. One thread computes fewer
 * tokens in the time that it takes to wake another thread. */
enum { MEMBER_MIN_TOKENS = 6 };

/* A device needs many tokens at once to be busy. While it computes one batch, other workers
 * tokenise the next ones. */
enum { DEVICE_BATCH_TEXTS = 2048, DEVICE_BATCH_TOKENS = 32768 };

/* A worker reserves memory for a multiple of this many tokens. */
enum { ROOM_STEP = 128 };

/* A worker reserves memory for texts of at least this many tokens. Some models take 32,768. */
enum { USUAL_TOKENS = 512 };

/* English text has about 4.5 bytes for each token. [CLS] and [SEP] come on top. */
enum { BYTES_PER_TOKEN = 4, SPECIAL_TOKENS = 2 };

/* One call of wisp_embed, wisp_rerank, wisp_classify or wisp_embed_tokens, with the plan of its
 * batches. */
struct job {
    wisp_session *session;
    const wisp_text *texts;
    size_t n;
    bool pairs;              /* each text is the second of a pair whose first is the prompt */
    bool logits;             /* of labels, in place of scores */
    const wisp_text *firsts; /* [n]: those of pairs, in place of the prompt; or NULL */
    const struct token_job *tokens; /* takes vectors of tokens, in place of rows; NULL: none does */
    wisp_text prompt;               /* is before each text */
    size_t prompt_tokens;           /* leading tokens of each text that pooling leaves out */
    size_t dimensions;              /* length of a row */
    float *rows;                    /* [n, dimensions] */
    size_t batch_tokens;            /* a batch ends before its estimated tokens exceed this */
    size_t batch_texts;             /* and has at most this many texts */
    uint32_t workers;               /* workers that take batches */
    uint32_t members;               /* workers that split one batch; 1 if each takes its own */
    uint64_t *skipped;              /* [n], or NULL */
    struct pool_work work;
};

/* Returns what is before one of the job's texts. */
static wisp_text first_of(const struct job *job, const wisp_text *text) {
    return CLASSIFIES && job->firsts ? job->firsts[text - job->texts] : job->prompt;
}

static size_t estimate_tokens(const struct job *job, const wisp_text *text) {
    const size_t bytes = first_of(job, text).length + text->length;
    const wisp_model *model = job->session->model;
    const struct codec *codec = READS_CLIP ? tokenizer_codec(model->tokenizer) : NULL;
    size_t tokens = (bytes + BYTES_PER_TOKEN - 1) / BYTES_PER_TOKEN + SPECIAL_TOKENS;
    int32_t padding;
    if (READS_CLIP && codec)
        tokens = larger(tokens, codec_fills(codec, &padding));
    return smaller(tokens, model->max_tokens);
}

/* Returns the end of the batch that begins with text `first`. */
static size_t batch_end(const void *context, size_t first) {
    const struct job *job = context;
    size_t tokens = estimate_tokens(job, &job->texts[first]), end = first + 1;
    for (; end < job->n && end - first < job->batch_texts; end++) {
        tokens += estimate_tokens(job, &job->texts[end]);
        if (tokens > job->batch_tokens)
            break;
    }
    return end;
}

/* Takes room for the ids and the index of n texts from `space`, or measures it. */
static struct batch take_batch(struct workspace *space, size_t n, size_t max_tokens, int32_t **ids,
                               size_t **starts, size_t **skipped) {
    *ids = workspace_take(space, n, max_tokens, sizeof **ids);
    *starts = workspace_take(space, 1, n + 1, sizeof **starts);
    *skipped = workspace_take(space, 1, n, sizeof **skipped);
    return (struct batch){.texts = n, .ids = *ids, .starts = *starts, .skipped = *skipped};
}

/* Tokenises a text with the prompt before it. Of a job for vectors of tokens, sets *keys to how
 * many tokens the others see. */
static wisp_status tokenize_text(const struct job *job, struct worker *worker, wisp_text text,
                                 int32_t *ids, size_t *count, bool *truncated, size_t *keys,
                                 wisp_error *error) {
    const wisp_model *model = job->session->model;
    if (job->prompt.length > 0) {
        const size_t length = job->prompt.length + text.length;
        TRY(workspace_reserve(&worker->text, length, error));
        char *joined = worker->text.base;
        memcpy(joined, job->prompt.bytes, job->prompt.length);
        if (text.length > 0)
            memcpy(joined + job->prompt.length, text.bytes, text.length);
        text = (wisp_text){joined, length};
    }
    if (RANKS && job->tokens)
        return job->tokens->encode(job->tokens, model, text, ids, count, keys, truncated, error);
    return tokenizer_encode(model->tokenizer, text, model->max_tokens, ids, count, truncated,
                            error);
}

/* Tokenises a pair, and sets *second to the first token of its second text. */
static wisp_status tokenize_pair(const struct job *job, struct worker *worker,
                                 const wisp_text *text, int32_t *ids, size_t *count,
                                 bool *truncated, size_t *second, wisp_error *error) {
    const wisp_model *model = job->session->model;
    struct token_pair pair;
    TRY(workspace_reserve(&worker->text, model->max_tokens * sizeof *ids, error));
    TRY(tokenizer_encode_pair(model->tokenizer, first_of(job, text), *text, model->pair_separators,
                              model->max_tokens, ids, worker->text.base, &pair, error));
    *count = pair.count;
    *second = pair.second;
    *truncated = pair.truncated;
    return WISP_OK;
}

/* Refuses a text of which nothing is pooled. Vectors of tokens can be none, and values of words 0.
 */
static wisp_status require_tokens(const struct job *job, size_t text, wisp_error *error) {
    const wisp_model *model = job->session->model;
    if (job->tokens || model->network.config.pooling == POOLING_SPLADE)
        return WISP_OK;
    return fail(error, WISP_ERROR_ARGUMENT, model->dir.file, "texts",
                "text %zu has no tokens, and the model's tokenizer adds none", text);
}

/* Tokenises texts [first, end) into one batch in the worker's memory. The place for skipped tokens
 * holds where the second texts of pairs begin, or how many tokens are seen: these skip none. */
static wisp_status tokenize_batch(const struct job *job, struct worker *worker, size_t first,
                                  size_t end, struct batch *batch, wisp_error *error) {
    const wisp_model *model = job->session->model;
    const size_t n = end - first, max_tokens = model->max_tokens;
    struct workspace measured = {0};
    int32_t *ids;
    size_t *starts, *skipped, used = 0;
    take_batch(&measured, n, max_tokens, &ids, &starts, &skipped);
    TRY(workspace_reserve(&worker->batch, measured.used, error));
    *batch = take_batch(&worker->batch, n, max_tokens, &ids, &starts, &skipped);
    for (size_t i = 0; i < n; i++) {
        const wisp_text *text = &job->texts[first + i];
        size_t tokens, second = 0;
        bool truncated;
        if (RANKS && job->pairs)
            TRY(tokenize_pair(job, worker, text, ids + used, &tokens, &truncated, &second, error));
        else
            TRY(tokenize_text(job, worker, *text, ids + used, &tokens, &truncated, &second, error));
        if (RANKS && tokens == 0)
            TRY(require_tokens(job, first + i, error));
        worker->stats.truncated_texts += truncated;
        starts[i] = used;
        skipped[i] = second > 0 ? second : smaller(job->prompt_tokens, tokens - 1);
        used += tokens;
    }
    starts[n] = used;
    if (RANKS && job->pairs) {
        batch->seconds = batch->skipped;
        batch->skipped = NULL;
    } else if (RANKS && job->tokens) {
        batch->keys = batch->skipped;
        batch->skipped = NULL;
    }
    return WISP_OK;
}

/* Writes the first `dimensions` values of a pooled row. If `normalize` is set they are divided
 * by the length of its first `size` values, as torch.nn.functional.normalize(eps=1e-12) does.
 * Returns false if one of the `size` values is not finite. */
static bool write_row(const float *pooled, size_t size, size_t dimensions, bool normalize,
                      float *row) {
    double squares = 0;
    for (size_t i = 0; i < size; i++)
        squares += (double)pooled[i] * (double)pooled[i];
    const double length = sqrt(squares);
    const float scale = normalize ? (float)(1 / (length > 1e-12 ? length : 1e-12)) : 1;
    for (size_t i = 0; i < dimensions; i++)
        row[i] = pooled[i] * scale;
    return isfinite(squares);
}

static wisp_status fail_not_finite(const wisp_model *model, size_t text, wisp_error *error) {
    return fail(error, WISP_ERROR_FORMAT, model->dir.file, NULL,
                "the embedding of text %zu is not finite: a token's embedding is not, or weights "
                "are too large",
                text);
}

/* Returns the working memory of what follows a pass. */
static size_t head_bytes(const struct network *network) {
    return RANKS && network->config.pooling == POOLING_SPLADE
               ? splade_workspace_bytes(&network->splade)
               : dense_modules_workspace_bytes(&network->dense, larger(BATCH_TEXTS, TOKEN_ROWS));
}

/* Begins a pass over the batch, which begins with text `first` of the job. Its rows [texts,
 * hidden_size] are in the worker's memory until its next batch. */
static wisp_status begin_pass(const struct job *job, struct worker *worker, size_t first,
                              const struct batch *batch, wisp_error *error) {
    wisp_session *session = job->session;
    const struct network *network = &session->model->network;
    const size_t size = network->config.hidden_size;
    /* Reserves for 1.5 times the estimated tokens and for the most texts of a batch, so that memory
     * does not grow again with each batch that is a little larger than all before. */
    const size_t likely = job->batch_tokens + job->batch_tokens / 2;
    const size_t tokens = round_up(larger(batch->starts[batch->texts], likely), ROOM_STEP);
    size_t longest = USUAL_TOKENS;
    for (size_t i = 0; i < batch->texts; i++)
        longest = larger(longest, batch->starts[i + 1] - batch->starts[i]);
    const struct pass_size most = {
        .texts = tokens,
        .tokens = tokens,
        .longest = smaller(round_up(longest, ROOM_STEP), session->model->max_tokens),
        .members = job->members,
        .attention = session->attention};
    struct workspace measured = {.used = pass_workspace_bytes(network, &most)};
    workspace_take(&measured, BATCH_TEXTS, size, sizeof(float));
    workspace_part(&measured, head_bytes(network));
    TRY(workspace_reserve(&worker->forward, measured.used, error));

    struct pass *pass = &worker->pass;
    *pass = (struct pass){.network = network,
                          .batch = *batch,
                          .thresholds = session->thresholds,
                          .attention = session->attention,
                          .members = job->members,
                          .team = job->members > 1 ? session->team : NULL,
                          .hook = session_stop_if_cancelled,
                          .hook_context = session,
                          .skip_absent = session->skip_absent,
                          .skipped = job->skipped ? job->skipped + first : NULL};
    pass->rows = workspace_take(&worker->forward, BATCH_TEXTS, size, sizeof(float));
    worker->head = workspace_part(&worker->forward, head_bytes(network));
    for (uint32_t i = 0; i < job->members; i++)
        pass->member[i] = (struct pass_member){
            .trace = &worker[i].trace, .counts = worker[i].counts, .tokens = &worker[i].tokens};
    pass_begin(pass, &worker->forward);
    return WISP_OK;
}

static void count_batch(struct worker *worker) {
    worker->stats.texts += worker->pass.batch.texts;
    worker->stats.tokens += worker->pass.tokens;
}

/* Writes the values of words of the texts from `first` on, whose hidden states the worker's pass
 * has left. */
static wisp_status finish_words(const struct job *job, struct worker *worker, size_t first,
                                wisp_error *error) {
    const wisp_model *model = job->session->model;
    const struct model_config *config = &model->network.config;
    const struct batch *batch = &worker->pass.batch;
    for (size_t i = 0; i < batch->texts; i++) {
        float *row = job->rows + (first + i) * job->dimensions;
        splade_apply(&model->network.splade, config,
                     worker->pass.x + batch->starts[i] * config->hidden_size,
                     batch->starts[i + 1] - batch->starts[i], row, worker->head);
        if (!write_row(row, job->dimensions, job->dimensions, config->normalize, row))
            return fail_not_finite(model, first + i, error);
    }
    count_batch(worker);
    return WISP_OK;
}

/* Runs the worker's pass over texts [first, end) to its end, and writes their rows. If the pass
 * needs ranges the worker waits. */
static wisp_status finish_batch(const struct job *job, struct worker *worker, size_t first,
                                size_t end, wisp_error *error) {
    const wisp_model *model = job->session->model;
    const struct dense_modules *dense = &model->network.dense;
    const size_t size = dense_modules_outputs(dense, model->network.config.hidden_size);
    /* sentence-transformers normalises the whole row and then cuts it if the model says so. A
     * caller that asks for fewer values receives them normalised again. */
    const bool cut = job->dimensions < model->dimensions;
    const bool normalize = model->network.config.normalize || cut;
    const struct batch *batch = &worker->pass.batch;
    const float *pooled = worker->pass.rows;
    const wisp_status status = pass_run(&worker->pass, error);
    worker->waits = status == WISP_NEED_RANGES;
    worker->first = first;
    worker->end = end;
    TRY(status);
    if (RANKS && model->network.config.pooling == POOLING_SPLADE)
        return finish_words(job, worker, first, error);
    if (RANKS && job->tokens) {
        count_batch(worker);
        return job->tokens->finish(job->tokens, model, &worker->pass, first, worker->head, error);
    }
    pooled = dense_modules_apply(dense, pooled, batch->texts, job->logits, worker->head);
    for (size_t i = first; i < end; i++)
        if (!write_row(pooled + (i - first) * size, cut ? job->dimensions : size, job->dimensions,
                       normalize, job->rows + i * job->dimensions))
            return fail_not_finite(model, i, error);
    count_batch(worker);
    return WISP_OK;
}

/* Embeds a batch on the model's device. */
static wisp_status embed_on_device(const struct job *job, struct worker *worker, size_t first,
                                   const struct batch *batch, wisp_error *error) {
    const wisp_model *model = job->session->model;
    const bool cut = job->dimensions < model->dimensions;
    const size_t length = cut ? job->dimensions : model->network.config.hidden_size;
    const struct device_batch on_device = {.texts = batch->texts,
                                           .ids = batch->ids,
                                           .starts = batch->starts,
                                           .skipped = batch->skipped,
                                           .dimensions = job->dimensions,
                                           .normalize =
                                               model->network.config.normalize || cut ? length : 0,
                                           .rows = job->rows + first * job->dimensions};
    TRY(session_stop_if_cancelled(job->session, (struct cursor){0}, NULL, error));
    TRY(device_embed(&model->device, &on_device, model->dir.file, error));
    trace_mark(&worker->trace, STAGE_WAIT, NO_LAYER);
    for (size_t i = 0; i < batch->texts; i++)
        if (isnan(on_device.rows[i * job->dimensions]))
            return fail_not_finite(model, first + i, error);
    worker->stats.texts += batch->texts;
    worker->stats.tokens += batch->starts[batch->texts];
    return WISP_OK;
}

/* Embeds texts [first, end) as one batch on the thread of `member`. */
static wisp_status embed_batch(void *context, uint32_t member, size_t first, size_t end,
                               wisp_error *error) {
    const struct job *job = context;
    struct worker *worker = &job->session->workers[member];
    struct batch batch;
    trace_start(&worker->trace);
    TRY(tokenize_batch(job, worker, first, end, &batch, error));
    trace_mark(&worker->trace, STAGE_TOKENIZE, NO_LAYER);
    if (device_computes(&job->session->model->device))
        return embed_on_device(job, worker, first, &batch, error);
    TRY(begin_pass(job, worker, first, &batch, error));
    return finish_batch(job, worker, first, end, error);
}

/* Goes on with the batch of `member`'s worker, if that waits with one. */
static wisp_status resume_batch(void *context, uint32_t member, wisp_error *error) {
    const struct job *job = context;
    struct worker *worker = &job->session->workers[member];
    if (!worker->waits)
        return WISP_OK;
    pass_mark(&worker->pass, 0, pass_cursor(&worker->pass), STAGE_WAIT);
    return finish_batch(job, worker, worker->first, worker->end, error);
}

/* Chooses how large batches are and how many workers take them, so that every worker has several.
 * If the texts make only one batch, its tokens are split among the members instead, provided
 * that each member has enough of them. So are those of every batch if the memory of cold
 * neurons and tokens is limited: it has to hold the needs of one batch, not of several. */
static void plan_batches(struct job *job) {
    const size_t threads = pool_size(job->session->team);
    const size_t workers = job->session->model->cold_limited ? 1 : threads;
    size_t total = 0;
    for (size_t i = 0; i < job->n; i++)
        total += estimate_tokens(job, &job->texts[i]);
    job->batch_texts = BATCH_TEXTS;
    job->members = 1;
    if (device_computes(&job->session->model->device)) {
        job->batch_texts = DEVICE_BATCH_TEXTS;
        job->batch_tokens = DEVICE_BATCH_TOKENS;
        job->workers = (uint32_t)smaller(total / DEVICE_BATCH_TOKENS + 1, workers);
        return;
    }
    const size_t even = workers > 1 ? total / (workers * BATCHES_PER_WORKER) + 1 : BATCH_MAX_TOKENS;
    job->batch_tokens = smaller(larger(even, BATCH_MIN_TOKENS), BATCH_MAX_TOKENS);
    job->workers = (uint32_t)smaller(total / job->batch_tokens + 1, workers);
    const size_t members = total / MEMBER_MIN_TOKENS;
    if ((job->workers == 1 || job->n == 1) && members > 1) {
        job->members = (uint32_t)smaller(members, smaller(threads, PASS_MAX_MEMBERS));
        job->workers = 1;
    }
}

/* Runs the job, or continues it. If it needs ranges, the session keeps a copy of it. */
static wisp_status run_job(struct job *job, wisp_error *error) {
    wisp_session *session = job->session;
    wisp_status status = pool_each(session->team, job->workers, &job->work, error);
    if (atomic_exchange(&session->cancelled, false))
        status = fail(error, WISP_ERROR_CANCELLED, NULL, NULL, "cancelled");
    if (COLD_NEURONS_MAY_BE_ABSENT && status == WISP_NEED_RANGES && !session->job) {
        session->job = malloc(sizeof *job);
        if (session->job) {
            *session->job = *job;
            session->job->work.context = session->job;
        } else {
            status = fail_memory(error, sizeof *job);
        }
    }
    if (status != WISP_NEED_RANGES)
        wisp_embed_give_up(session); /* frees the job */
    return status;
}

/* Runs a job whose texts, rows and prompt are set. */
static wisp_status begin_job(struct job *job, wisp_error *error) {
    plan_batches(job);
    job->work = (struct pool_work){.items = job->n,
                                   .group_end = batch_end,
                                   .run = embed_batch,
                                   .resume = resume_batch,
                                   .context = job};
    return run_job(job, error);
}

wisp_status wisp_rerank(wisp_session *session, wisp_text query, const wisp_text *texts, size_t n,
                        float *scores, wisp_error *error) {
    TRY(require(session, "session", error));
    TRY(require_texts(&query, 1, error));
    TRY(require_texts(texts, n, error));
    if (n > 0)
        TRY(require(scores, "scores", error));
    wisp_embed_give_up(session);
    pool_renew(session->team);
    const wisp_model *model = session->model;
    if (model->network.config.pooling == POOLING_TOKENS)
        return n == 0 ? WISP_OK : token_rerank(session, query, texts, n, scores, error);
    if (rank_by_asking && !config_embeds(&model->network.config))
        return rank_by_asking(session, query, texts, n, scores, error);
    if (model->network.config.pooling != POOLING_RANK)
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "pooling_type",
                    "the model does not score pairs of texts: it is not a cross-encoder");
    if (CLASSIFIES && !wisp_model_ranks(model))
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "pooling_type",
                    "the model gives a text or a pair scores of %u labels, and not one: wisp "
                    "classify and wisp_classify write these",
                    model->dimensions);
    struct job job = {.session = session,
                      .texts = texts,
                      .n = n,
                      .pairs = true,
                      .prompt = query,
                      .dimensions = 1,
                      .rows = scores};
    return n == 0 ? WISP_OK : begin_job(&job, error);
}

wisp_status class_job_run(wisp_session *session, const wisp_text *texts, const wisp_text *seconds,
                          size_t n, float *logits, wisp_error *error) {
    wisp_embed_give_up(session);
    pool_renew(session->team);
    struct job job = {.session = session,
                      .texts = seconds ? seconds : texts,
                      .firsts = seconds ? texts : NULL,
                      .n = n,
                      .pairs = seconds != NULL,
                      .logits = true,
                      .dimensions = session->model->dimensions,
                      .rows = logits};
    return n == 0 ? WISP_OK : begin_job(&job, error);
}

wisp_status token_job_run(wisp_session *session, const struct token_job *tokens,
                          const wisp_text *texts, size_t n, wisp_error *error) {
    const wisp_model *model = session->model;
    wisp_embed_give_up(session);
    pool_renew(session->team);
    if (model->network.config.pooling != POOLING_TOKENS)
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "pooling_type",
                    "the model makes no vectors of tokens: it is not a ColBERT model");
    struct job job = {.session = session, .texts = texts, .n = n, .tokens = tokens};
    job.prompt = tokens->queries ? model->tokens->queries.prompt : model->tokens->documents.prompt;
    return n == 0 ? WISP_OK : begin_job(&job, error);
}

/* Returns whether a token follows the tokens of each text. */
static bool has_last_token(const wisp_model *model) {
    const struct codec *codec = RANKS ? tokenizer_codec(model->tokenizer) : NULL;
    return !codec || codec_last_token(codec) >= 0;
}

wisp_status wisp_embed(wisp_session *session, const wisp_text *texts, size_t n,
                       const wisp_embed_options *options, float *rows, wisp_error *error) {
    const wisp_embed_options defaults = {0}, *o = options ? options : &defaults;
    TRY(require(session, "session", error));
    TRY(require_texts(texts, n, error));
    if (n > 0)
        TRY(require(rows, "rows", error));
    wisp_embed_give_up(session);
    pool_renew(session->team);
    const wisp_model *model = session->model;
    if (!config_embeds(&model->network.config))
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "general.architecture",
                    "models of architecture %s make no embeddings",
                    model->network.architecture->name);
    if (RANKS && model->network.config.pooling == POOLING_RANK)
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "pooling_type",
                    "the model makes no embeddings: it scores %s",
                    CLASSIFIES && model->dimensions > 1 ? "labels of texts (wisp_classify)"
                                                        : "pairs of texts (wisp_rerank)");
    if (RANKS && model->network.config.pooling == POOLING_TOKENS)
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "pooling_type",
                    "the model makes vectors of tokens, and no embedding of a text "
                    "(wisp_embed_tokens)");
    struct job job = {
        .session = session, .texts = texts, .n = n, .rows = rows, .skipped = o->skipped};
    job.prompt = wisp_text_of(o->prompt ? o->prompt : model->default_prompt);
    job.dimensions = o->dimensions ? o->dimensions : wisp_model_dimensions(model);
    if (RANKS && model->network.config.pooling == POOLING_SPLADE &&
        job.dimensions != wisp_model_dimensions(model))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "dimensions",
                    "%zu were asked for, but each of the %zu words of the vocabulary has one",
                    job.dimensions, wisp_model_dimensions(model));
    if (job.dimensions > wisp_model_dimensions(model))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "dimensions",
                    "%zu were asked for, but the model has %zu", job.dimensions,
                    wisp_model_dimensions(model));
    if (n == 0)
        return WISP_OK;
    if (!model->pool_prompt && job.prompt.length > 0) {
        /* sentence-transformers excludes the prompt's own tokens, with [CLS] and without [SEP]. */
        TRY(wisp_tokenize(model, job.prompt, NULL, 0, &job.prompt_tokens, error));
        job.prompt_tokens -= has_last_token(model);
    }
    if (o->skipped)
        memset(o->skipped, 0, n * sizeof *o->skipped);
    return begin_job(&job, error);
}

wisp_status wisp_embed_continue(wisp_session *session, wisp_error *error) {
    TRY(require(session, "session", error));
    struct job *job = session->job;
    if (!job)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "session", "no call of wisp_embed waits");
    pool_renew(session->team);
    if (pool_size(session->team) < larger(job->workers, job->members)) {
        wisp_embed_give_up(session);
        return fail(error, WISP_ERROR_MEMORY, NULL, NULL,
                    "the system grants this process fewer threads than the call began with");
    }
    return run_job(job, error);
}

void wisp_embed_give_up(wisp_session *session) {
    if (!session)
        return;
    for (uint32_t i = 0; i < session->n_workers; i++) {
        struct worker *worker = &session->workers[i];
        if (worker->waits)
            pass_give_up(&worker->pass);
        worker->waits = false;
    }
    free(session->job);
    session->job = NULL;
}

float wisp_dot(const float *a, const float *b, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return (float)sum;
}
