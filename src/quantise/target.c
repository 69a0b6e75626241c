/* SPDX-License-Identifier: Apache-2.0
 * Chooses types for a size or a cosine.
 *
 * Each item is first rounded by itself to its smallest type in a model that is otherwise the
 * original, which shows how much the model loses for the error of that item's outputs. Its error
 * with each type, corrected as it would be, then predicts the loss with that type; losses of items
 * are added. The loss of a model is 1 - cosine of an embedding or, in models that generate, the
 * divergence of the next token's probabilities from the original's. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/number_text.h"
#include "convert/calibration_tensors.h"
#include "convert/plan.h"
#include "convert/write_model.h"
#include "engine/candidates.h"
#include "quantise/run.h"

enum {
    SAMPLE_TOKENS = 4096, /* of the texts by which items are compared */
    ROWS_STEP = 8,        /* errors are estimated by one in so many rows */
    TENSOR_ROWS = 256,    /* of those of a tensor outside of the layers */
    LOGIT_ROWS = 16,      /* tokens whose logits are compared at a time */
    ATTEMPTS = 6          /* at reaching a cosine */
};

struct target {
    struct quantise_run *run;
    struct type_choice **choices; /* [n_items] */
    struct replay_texts sample;
    float *reference, *outputs; /* of the sample, or of the texts held out: rows of hidden_size */
    uint64_t fixed_bytes;       /* of the file beside the items' tensors */
};

struct loss {
    double mean, least_cosine;
};

/* ---- what the model loses ------------------------------------------------------------------- */

/* Runs a batch from a block to the end. `rows` receives the embeddings of its texts, or the norms
 * of its tokens, from which logits are computed. */
static wisp_status finish_batch(struct quantise_run *r, const struct network *network,
                                struct cursor at, const struct replay_texts *texts, size_t first,
                                size_t end, float *state, float *rows, wisp_error *error) {
    const size_t m = texts->starts[end] - texts->starts[first];
    const uint32_t layers = network->config.layers;
    if (at.block == PASS_EMBED) {
        TRY(replay_block(&r->replay, network, at, texts, first, end, state, NULL, error));
        at = (struct cursor){0, PASS_ATTENTION};
    }
    while (at.layer < layers) {
        TRY(replay_block(&r->replay, network, at, texts, first, end, state, NULL, error));
        at.layer += at.block == PASS_FEED_FORWARD;
        at.block = at.block == PASS_ATTENTION ? PASS_FEED_FORWARD : PASS_ATTENTION;
    }
    if (r->replay.generates)
        memcpy(rows, replay_inputs(&r->replay, state, m),
               m * network->config.hidden_size * sizeof *rows);
    else
        TRY(replay_block(&r->replay, network, (struct cursor){layers, PASS_OUTPUT}, texts, first,
                         end, state, rows, error));
    return quantise_advance(r, error);
}

/* Computes the outputs of texts, whose states before block `at` are in `states`, or at PASS_EMBED
 * of their tokens. */
static wisp_status run_texts(struct quantise_run *r, const struct network *network,
                             struct cursor at, const struct replay_texts *texts,
                             const float *states, float *outputs, wisp_error *error) {
    const size_t size = network->config.hidden_size, stride = r->replay.stride;
    for (size_t i = 0, end; i < texts->n; i = end) {
        end = replay_batch_end(&r->replay, texts, i);
        const size_t first = texts->starts[i], m = texts->starts[end] - first;
        if (at.block != PASS_EMBED)
            memcpy(r->after, states + first * stride, m * stride * sizeof *states);
        TRY(finish_batch(r, network, at, texts, i, end, r->after,
                         outputs + (r->replay.generates ? first : i) * size, error));
    }
    return WISP_OK;
}

/* Adds the divergences of the next token's probabilities, in nats, of m tokens. */
static wisp_status add_divergences(struct quantise_run *r, const float *reference,
                                   const float *outputs, size_t m, float *logits, double *sum,
                                   wisp_error *error) {
    struct network *networks[] = {&r->original->network, &r->working->network};
    const struct model_config *c = &networks[0]->config;
    const size_t vocabulary = c->vocabulary_size;
    float *p = logits, *q = logits + LOGIT_ROWS * vocabulary;
    TRY(workspace_reserve(&r->replay.space, linear_workspace_bytes(m, c->hidden_size), error));
    linear_apply(network_logits(networks[0]), reference, m, p, r->replay.space);
    linear_apply(network_logits(networks[1]), outputs, m, q, r->replay.space);
    if (c->logit_cap > 0)
        networks[0]->kernels->soft_cap(logits, 2 * LOGIT_ROWS * vocabulary, 1, c->logit_cap);
    for (size_t t = 0; t < m; t++, p += vocabulary, q += vocabulary) {
        const double all_p = log_sum_exp(p, vocabulary), all_q = log_sum_exp(q, vocabulary);
        for (size_t i = 0; i < vocabulary; i++) {
            const double log_p = (double)p[i] - all_p, log_q = (double)q[i] - all_q;
            *sum += exp(log_p) * (log_p - log_q);
        }
    }
    return WISP_OK;
}

static double cosine_of(const float *a, const float *b, size_t n) {
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return aa > 0 && bb > 0 ? ab / (sqrt(aa) * sqrt(bb)) : 0;
}

/* Compares the outputs of texts with those of the original. */
static wisp_status compare(struct quantise_run *r, const struct replay_texts *texts,
                           const float *reference, const float *outputs, struct loss *loss,
                           wisp_error *error) {
    const struct model_config *c = &r->original->network.config;
    const size_t size = c->hidden_size, tokens = texts->starts[texts->n];
    struct arena scratch = {0};
    wisp_status status = WISP_OK;
    *loss = (struct loss){.least_cosine = 1};
    if (!r->replay.generates) {
        for (size_t i = 0; i < texts->n; i++) {
            const double cosine = cosine_of(reference + i * size, outputs + i * size, size);
            loss->mean += (1 - cosine) / (double)texts->n;
            loss->least_cosine = fmin(loss->least_cosine, cosine);
        }
        return WISP_OK;
    }
    const size_t bytes = 2 * LOGIT_ROWS * (size_t)c->vocabulary_size * sizeof(float);
    float *logits = arena_allocate(&scratch, bytes);
    if (!logits)
        return fail_memory(error, bytes);
    for (size_t t = 0; t < tokens && status == WISP_OK; t += LOGIT_ROWS)
        status = add_divergences(r, reference + t * size, outputs + t * size,
                                 smaller(tokens - t, LOGIT_ROWS), logits, &loss->mean, error);
    loss->mean /= (double)tokens;
    arena_release(&scratch);
    return status;
}

/* ---- what each item would lose -------------------------------------------------------------- */

static size_t smallest_type(const struct type_choice *choice) {
    size_t smallest = 0;
    for (size_t i = 1; i < choice->n; i++)
        if (choice->bytes[i] < choice->bytes[smallest])
            smallest = i;
    return smallest;
}

/* Rounds the matrices of a product to a type. */
static wisp_status round_product(struct quantise_run *r, const struct item *item,
                                 const struct block_format *format, struct quantised *probe,
                                 wisp_error *error) {
    const struct linear *layer = item_linear(&r->original->network, item);
    const size_t values = layer->n * layer->k;
    struct arena scratch = {0};
    float *weights = arena_allocate(&scratch, values * sizeof *weights);
    wisp_status status = weights ? WISP_OK : fail_memory(error, values * sizeof *weights);
    if (status == WISP_OK)
        status = load_item(&r->in, item, layer->n, layer->k, weights, error);
    if (status == WISP_OK) {
        format->quantise(weights, values, probe->data);
        status = replace_item(probe, item, format, 0, error);
    }
    arena_release(&scratch);
    return status;
}

/* Measures what the model loses on the sample if only one item is rounded to its smallest type,
 * and sets the losses of all types by that. `states` are those of the original before the item's
 * block. */
static wisp_status measure_item(struct target *t, struct item *item, const float *states,
                                const float *importances, struct quantised *probe,
                                wisp_error *error) {
    struct quantise_run *r = t->run;
    struct type_choice *choice = &item->choice;
    const size_t smallest = smallest_type(choice);
    const struct block_format *format = choice->formats[smallest];
    struct cursor at = {0, PASS_EMBED};
    struct loss loss;
    probe->used = 0;
    if (item->name) {
        TRY(round_item(probe, item, format, importances, error));
    } else {
        at = (struct cursor){item->layer, item->product.block};
        TRY(round_product(r, item, format, probe, error));
    }
    TRY(use_item(r, &probe->out, item, error));
    TRY(run_texts(r, &r->working->network, at, &t->sample, states, t->outputs, error));
    TRY(compare(r, &t->sample, t->reference, t->outputs, &loss, error));
    if (!isfinite(loss.mean))
        return fail(error, WISP_ERROR_UNSUPPORTED, r->input, item->name,
                    "weights so large that outputs on the texts are not finite");
    TRY(use_item(r, &r->in, item, error));
    const double error_of_it = choice->plain[smallest];
    for (size_t i = 0; i < choice->n; i++)
        choice->loss[i] =
            error_of_it > 0 ? fmax(loss.mean, 0) * choice->errors[i] / error_of_it : 0;
    return WISP_OK;
}

/* Sets the relative squared errors of a tensor outside of the layers with each type. The rows of
 * the token embedding count as often as the texts have the token. */
static wisp_status estimate_tensor(struct quantise_run *r, struct item *item,
                                   const float *importances, struct arena *scratch,
                                   wisp_error *error) {
    char names[LINEAR_MAX_PARTS][TENSOR_NAME_BYTES];
    struct type_choice *choice = &item->choice;
    item_names(item, TENSOR_WEIGHT, names);
    const struct tensor *tensor = directory_find_tensor(&r->in, names[0]);
    const bool by_token = strcmp(item->name, "token_embd") == 0;
    const size_t n = (size_t)tensor->dims[0], tokens = r->texts.starts[r->texts.n];
    const size_t rows = smaller(by_token ? tokens : (size_t)tensor->rows, TENSOR_ROWS);
    float *values, *back;
    unsigned char *stored;
    double squares = 0;
    ARENA_TAKE(scratch, values, n, error);
    ARENA_TAKE(scratch, back, n, error);
    ARENA_TAKE(scratch, stored, larger((size_t)tensor->row_bytes, n * sizeof(float)), error);
    for (size_t i = 0; i < rows; i++) {
        const uint64_t row = by_token ? (uint64_t)r->texts.ids[i * tokens / rows]
                                      : (uint64_t)i * tensor->rows / rows;
        TRY(directory_floats(&r->in, tensor, row, 1, NULL, stored, values, error));
        for (size_t j = 0; j < n; j++)
            squares += (double)(importances ? importances[j] : 1) * (double)(values[j] * values[j]);
        for (size_t type = 0; type < choice->n; type++) {
            const struct block_format *format = choice->formats[type];
            if (format->elements == 1)
                continue; /* floats of positions */
            grid_quantise(block_grid_of(format->id), values, importances, n, stored);
            format->dequantise(stored, n, back);
            for (size_t j = 0; j < n; j++)
                choice->errors[type] += (double)(importances ? importances[j] : 1) *
                                        (double)((values[j] - back[j]) * (values[j] - back[j]));
        }
    }
    for (size_t type = 0; type < choice->n; type++) {
        choice->errors[type] /= squares > 0 ? squares : 1;
        choice->plain[type] = choice->errors[type];
    }
    return WISP_OK;
}

static wisp_status estimate_product(struct quantise_run *r, struct item *item,
                                    struct arena *scratch, wisp_error *error) {
    const struct linear *layer = item_linear(&r->original->network, item);
    struct layer_sums s = {.n = layer->n, .k = layer->k};
    char names[LINEAR_MAX_PARTS][TENSOR_NAME_BYTES];
    struct type_choice *choice = &item->choice;
    struct corrected c = {.tensor_rows = s.n / item_names(item, TENSOR_WEIGHT, names)};
    float *weights, *bias = NULL;
    ARENA_TAKE(scratch, weights, s.n * s.k, error);
    if (item_has_bias(&r->in, item))
        ARENA_TAKE(scratch, bias, s.n, error);
    TRY(load_item(&r->in, item, s.n, s.k, weights, error));
    c.weights = weights;
    c.bias = bias;
    TRY(sum_product(r, item, &s, scratch, error));
    TRY(correct_estimate(&s, &c, choice->formats, choice->n, ROWS_STEP, choice->errors,
                         choice->plain, r->team, error));
    for (size_t i = 0; i < choice->n; i++)
        if (!isfinite(choice->plain[i]) || !isfinite(choice->errors[i]))
            return fail(error, WISP_ERROR_UNSUPPORTED, r->input, names[0],
                        "weights so large that outputs on the texts are not finite");
    return WISP_OK;
}

static wisp_status estimate_item(struct target *t, struct item *item, struct quantised *probe,
                                 struct arena *scratch, wisp_error *error) {
    struct quantise_run *r = t->run;
    const size_t size = r->original->network.config.hidden_size;
    const size_t values = r->texts.starts[r->texts.n] * r->replay.stride;
    float *importances = NULL, *before;
    if (item->name && strcmp(item->name, "output") == 0) {
        ARENA_TAKE(scratch, importances, size, error);
        logits_importances(r, r->x0, importances);
    }
    if (item->name) {
        TRY(estimate_tensor(r, item, importances, scratch, error));
        return measure_item(t, item, r->x0, importances, probe, error);
    }
    /* sum_product moves on the states before which the item's block begins. */
    const size_t sampled = t->sample.starts[t->sample.n] * r->replay.stride;
    ARENA_TAKE(scratch, before, sampled, error);
    memcpy(before, r->x0, sampled * sizeof *before);
    TRY(estimate_product(r, item, scratch, error));
    if (item->product.role == LINEAR_ENDS)
        memcpy(r->x1, r->x0, values * sizeof *r->x0);
    return measure_item(t, item, before, NULL, probe, error);
}

static wisp_status estimate_items(struct target *t, struct quantised *probe, wisp_error *error) {
    struct quantise_run *r = t->run;
    const size_t values = r->texts.starts[r->texts.n] * r->replay.stride;
    const struct cursor start = {0, PASS_EMBED};
    TRY(run_texts(r, &r->original->network, start, &t->sample, NULL, t->reference, error));
    TRY(embed_texts(r, &r->original->network, r->x0, error));
    memcpy(r->x1, r->x0, values * sizeof *r->x0);
    for (size_t i = 0; i < r->n_items; i++) {
        struct arena scratch = {0};
        const wisp_status status = estimate_item(t, &r->items[i], probe, &scratch, error);
        arena_release(&scratch);
        TRY(status);
    }
    return WISP_OK;
}

/* ---- sizes ---------------------------------------------------------------------------------- */

/* Sets the bytes of each item with each type, and those of the file beside the items. */
static wisp_status measure_bytes(struct target *t, wisp_error *error) {
    struct quantise_run *r = t->run;
    struct directory dir = {0};
    struct gguf_plan plan = {0};
    uint64_t bytes = 0, of_items = 0;
    wisp_status status = quantise_open_input(r, &dir, error);
    if (status == WISP_OK)
        plan.formats = arena_allocate(&r->arena, (dir.n_tensors + 1) * sizeof *plan.formats);
    if (status == WISP_OK && !plan.formats)
        status = fail_memory(error, dir.n_tensors * sizeof *plan.formats);
    for (size_t i = 0; i < dir.n_tensors && status == WISP_OK; i++)
        plan.formats[i] = is_calibration_tensor(dir.tensors[i].name)
                              ? dir.tensors[i].format
                              : block_format_by_id(BLOCK_F32);
    for (size_t i = 0; i < r->n_items && status == WISP_OK; i++) {
        struct type_choice *choice = &r->items[i].choice;
        char names[LINEAR_MAX_PARTS][TENSOR_NAME_BYTES];
        const size_t n = item_names(&r->items[i], TENSOR_WEIGHT, names);
        for (size_t j = 0; j < n; j++) {
            const struct tensor *tensor = quantised_tensor(&dir, names[j]);
            of_items += gguf_tensor_bytes(tensor, block_format_by_id(BLOCK_F32));
            for (size_t type = 0; type < choice->n; type++)
                choice->bytes[type] += gguf_tensor_bytes(tensor, choice->formats[type]);
        }
    }
    if (status == WISP_OK) /* it adds keys, whose values do not matter here */
        status = put_file_type(&dir, block_format_by_id(BLOCK_Q8_0), error);
    if (status == WISP_OK)
        status = measure_model(&dir, &plan, &bytes, error);
    t->fixed_bytes = bytes - of_items;
    directory_release(&dir);
    return status;
}

/* ---- reaching the target -------------------------------------------------------------------- */

/* Quantises all items to what is chosen, and measures the result on the texts held out. */
static wisp_status attempt(struct target *t, struct quantised *q, struct loss *loss,
                           wisp_error *error) {
    struct quantise_run *r = t->run;
    const struct cursor start = {0, PASS_EMBED};
    for (size_t i = 0; i < r->n_items; i++)
        r->items[i].format = t->choices[i]->formats[t->choices[i]->chosen];
    TRY(quantised_open(q, r, quantised_capacity(r), error));
    TRY(quantise_items(r, q, error));
    TRY(run_texts(r, &r->original->network, start, &r->held_out, NULL, t->reference, error));
    TRY(run_texts(r, &r->working->network, start, &r->held_out, NULL, t->outputs, error));
    return compare(r, &r->held_out, t->reference, t->outputs, loss, error);
}

static uint64_t file_bytes(const struct target *t) {
    return t->fixed_bytes + chosen_bytes(t->choices, t->run->n_items);
}

static void tell_outcome(const struct target *t, uint64_t bytes, const struct loss *loss,
                         size_t attempts) {
    const struct quantise_run *r = t->run;
    wisp_quantize_outcome *outcome = r->options->outcome;
    if (!outcome)
        return;
    *outcome =
        (wisp_quantize_outcome){.bytes = bytes, .held_out = r->held_out.n, .attempts = attempts};
    if (r->replay.generates) {
        outcome->divergence = loss->mean;
    } else {
        outcome->mean_cosine = 1 - loss->mean;
        outcome->least_cosine = loss->least_cosine;
    }
}

static wisp_status reach_bytes(struct target *t, struct quantised *q, wisp_error *error) {
    struct quantise_run *r = t->run;
    const uint64_t wanted = r->options->target_bytes;
    struct loss loss;
    const uint64_t room = wanted > t->fixed_bytes ? wanted - t->fixed_bytes : 0;
    if (!choose_for_bytes(t->choices, r->n_items, room))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "target_bytes",
                    "%llu bytes cannot be reached with these types: the smallest file has %llu",
                    (unsigned long long)wanted, (unsigned long long)file_bytes(t));
    TRY(attempt(t, q, &loss, error));
    tell_outcome(t, file_bytes(t), &loss, 1);
    return WISP_OK;
}

/* Looks for the smallest file by foretold losses, whose relation to the measured ones is learned
 * from attempt to attempt. The best file so far is in *q, if there is one. */
static wisp_status reach_cosine(struct target *t, struct quantised *q, wisp_error *error) {
    struct quantise_run *r = t->run;
    const double wanted = 1 - r->options->target_cosine;
    double limit = wanted, enough = 0, too_much = INFINITY; /* foretold losses */
    double nearest = INFINITY;
    uint64_t nearest_bytes = 0, last = 0, best = UINT64_MAX;
    struct loss loss, found = {0};
    size_t attempts = 0;
    while (attempts < ATTEMPTS) {
        struct quantised tried = {0};
        /* If nothing else has reached it, the last attempt is with the best types. */
        choose_for_loss(t->choices, r->n_items,
                        attempts + 1 == ATTEMPTS && best == UINT64_MAX ? 0 : limit);
        const uint64_t bytes = file_bytes(t);
        const double foretold = chosen_loss(t->choices, r->n_items);
        if (bytes == last || bytes == best)
            break;
        const wisp_status status = attempt(t, &tried, &loss, error);
        const bool reached = status == WISP_OK && loss.mean <= wanted;
        attempts++;
        last = bytes;
        if (reached && bytes < best) {
            quantised_close(q);
            *q = tried;
            best = bytes;
            found = loss;
        } else {
            quantised_close(&tried);
        }
        TRY(status);
        if (loss.mean < nearest) {
            nearest = loss.mean;
            nearest_bytes = bytes;
        }
        if (reached)
            enough = fmax(enough, foretold);
        else
            too_much = fmin(too_much, foretold);
        limit = loss.mean > 0 ? foretold * wanted / loss.mean : foretold * 2;
        if (!(limit > enough && limit < too_much))
            limit = isinf(too_much) ? 2 * enough : (enough + too_much) / 2;
    }
    if (best == UINT64_MAX)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "target_cosine",
                    "a mean cosine of %s is not reached with these types: the nearest is %s, in a "
                    "file of %llu bytes",
                    number_text(r->options->target_cosine, 6).text,
                    number_text(1 - nearest, 6).text, (unsigned long long)nearest_bytes);
    tell_outcome(t, best, &found, attempts);
    return WISP_OK;
}

static wisp_status open_target(struct target *t, wisp_error *error) {
    struct quantise_run *r = t->run;
    const size_t size = r->original->network.config.hidden_size;
    const size_t *starts = r->texts.starts;
    size_t batches = 0, held_out = 0;
    t->sample = r->texts;
    t->sample.n = 0;
    while (t->sample.n < r->texts.n && starts[t->sample.n] < SAMPLE_TOKENS) {
        t->sample.n = replay_batch_end(&r->replay, &r->texts, t->sample.n);
        batches++;
    }
    for (size_t i = 0; i < r->held_out.n; held_out++)
        i = replay_batch_end(&r->replay, &r->held_out, i);
    const size_t attempts = r->options->target_bytes > 0 ? 1 : ATTEMPTS;
    r->steps = r->steps * (1 + attempts) + batches * (r->n_items + 1) + 2 * attempts * held_out;
    const size_t rows = r->replay.generates
                            ? larger(starts[t->sample.n], r->held_out.starts[r->held_out.n])
                            : larger(t->sample.n, r->held_out.n);
    ARENA_TAKE(&r->arena, t->reference, rows * size, error);
    ARENA_TAKE(&r->arena, t->outputs, rows * size, error);
    ARENA_TAKE(&r->arena, t->choices, r->n_items, error);
    for (size_t i = 0; i < r->n_items; i++)
        t->choices[i] = &r->items[i].choice;
    return measure_bytes(t, error);
}

/* Returns the bytes that any one item needs with its smallest type. */
static size_t probe_capacity(const struct quantise_run *r) {
    uint64_t most = 0;
    for (size_t i = 0; i < r->n_items; i++) {
        const struct type_choice *choice = &r->items[i].choice;
        const uint64_t bytes = choice->bytes[smallest_type(choice)];
        most = bytes > most ? bytes : most;
    }
    return (size_t)most;
}

wisp_status quantise_to_target(struct quantise_run *r, struct quantised *q, wisp_error *error) {
    struct target t = {.run = r};
    struct quantised probe = {0};
    TRY(open_target(&t, error));
    wisp_status status = quantised_open(&probe, r, probe_capacity(r), error);
    if (status == WISP_OK)
        status = estimate_items(&t, &probe, error);
    quantised_close(&probe);
    TRY(status);
    return r->options->target_bytes > 0 ? reach_bytes(&t, q, error) : reach_cosine(&t, q, error);
}
