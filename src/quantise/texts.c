/* SPDX-License-Identifier: Apache-2.0
 * wisp_quantize_for_texts: quantises a model matrix by matrix, each against what the original model
 * computes from the texts. Two copies of the model run side by side: the original, and the one
 * whose earlier matrices are quantised already. So each matrix also makes up for errors that come
 * from those before it. Native only. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/random.h"
#include "convert/calibration_tensors.h"
#include "convert/plan.h"
#include "convert/write_model.h"
#include "formats/bitnet.h"
#include "host/file.h"
#include "quantise/run.h"

enum {
    DEFAULT_TOKENS = 32768,
    LEAST_TOKENS = 64,
    LEAST_HELD_OUT = 4,
    MOST_TEXT_TOKENS = 512, /* of a text in a model that generates */
    HELD_OUT = 5            /* with a target, one in so many texts is held out */
};

static bool has_target(const struct quantise_run *r) {
    return r->options->target_bytes > 0 || r->options->target_cosine > 0;
}

/* ---- texts ---------------------------------------------------------------------------------- */

/* Writes at most `most` ids of a text, and returns their number in *n. */
static wisp_status encode(const struct quantise_run *r, wisp_text text, size_t most, int32_t *ids,
                          size_t *n, wisp_error *error) {
    struct token_list list = {0};
    if (!r->replay.generates)
        return tokenizer_encode(r->original->tokenizer, text, most, ids, n, NULL, error);
    const wisp_status status = codec_encode(r->original->codec, text, true, &list, error);
    *n = smaller(list.count, most);
    if (status == WISP_OK && *n > 0)
        memcpy(ids, list.ids, *n * sizeof *ids);
    free(list.ids);
    return status;
}

/* Chooses texts at random, by the seed, until they have about as many tokens as are asked for. */
static wisp_status choose_texts(struct quantise_run *r, const wisp_text *texts, size_t n,
                                wisp_error *error) {
    const size_t most = r->replay.generates ? smaller(r->original->max_tokens, MOST_TEXT_TOKENS)
                                            : r->original->max_tokens;
    const size_t wanted = r->options->tokens ? r->options->tokens : DEFAULT_TOKENS;
    struct replay_texts *const sets[] = {&r->texts, &r->held_out};
    size_t *order, used[2] = {0};
    uint64_t random = r->options->seed;
    ARENA_TAKE(&r->arena, order, n, error);
    for (size_t i = 0; i < 2; i++) {
        ARENA_TAKE(&r->arena, sets[i]->starts, n + 1, error);
        ARENA_TAKE(&r->arena, sets[i]->ids, wanted + most, error);
    }
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    for (size_t i = 0; i < n && used[0] + used[1] < wanted; i++) {
        const size_t other = i + (size_t)(random_next(&random) % (n - i)), text = order[other];
        const size_t set = has_target(r) && i % HELD_OUT == HELD_OUT - 1;
        size_t tokens;
        order[other] = order[i];
        TRY(encode(r, texts[text], most, sets[set]->ids + used[set], &tokens, error));
        if (tokens == 0)
            continue;
        used[set] += tokens;
        sets[set]->starts[++sets[set]->n] = used[set];
    }
    if (used[0] < LEAST_TOKENS)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "texts",
                    "%zu texts with %zu tokens; at least %d are needed", n, used[0], LEAST_TOKENS);
    if (has_target(r) && r->held_out.n < LEAST_HELD_OUT)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "texts",
                    "%zu texts, of which one in %d measures the result: at least %d are needed", n,
                    HELD_OUT, HELD_OUT * LEAST_HELD_OUT);
    return WISP_OK;
}

/* Takes memory for the states of all texts and for what layers see. */
static wisp_status open_memory(struct quantise_run *r, wisp_error *error) {
    const struct network *network = &r->original->network;
    const size_t tokens = r->texts.starts[r->texts.n];
    size_t batches = 0, products = 0, widest = network->config.hidden_size;
    for (size_t i = 0; i < r->texts.n; batches++)
        i = replay_batch_end(&r->replay, &r->texts, i);
    for (size_t i = 0; i < r->n_items; i++) {
        if (r->items[i].name)
            continue;
        const struct linear *layer = item_linear(network, &r->items[i]);
        widest = larger(widest, larger(layer->n, layer->k));
        products++;
    }
    const size_t longest = larger(replay_longest_batch(&r->replay, &r->texts),
                                  replay_longest_batch(&r->replay, &r->held_out));
    r->steps = batches * products;
    ARENA_TAKE(&r->arena, r->x0, tokens * r->replay.stride, error);
    ARENA_TAKE(&r->arena, r->x1, tokens * r->replay.stride, error);
    ARENA_TAKE(&r->arena, r->sum, longest * network->config.hidden_size, error);
    ARENA_TAKE(&r->arena, r->after, longest * r->replay.stride, error);
    ARENA_TAKE(&r->arena, r->first.x, longest * widest, error);
    ARENA_TAKE(&r->arena, r->first.y, longest * widest, error);
    ARENA_TAKE(&r->arena, r->second.x, longest * widest, error);
    ARENA_TAKE(&r->arena, r->second.y, longest * widest, error);
    return WISP_OK;
}

/* ---- types ---------------------------------------------------------------------------------- */

static wisp_status find_type(const char *option, const char *name, size_t length,
                             const struct block_format **format, wisp_error *error) {
    char text[32];
    snprintf(text, sizeof text, "%.*s", (int)smaller(length, sizeof text - 1), name);
    *format = block_format_by_name(text);
    if (*format && block_grid_of((*format)->id))
        return WISP_OK;
    return fail(error, WISP_ERROR_ARGUMENT, NULL, option,
                "%s is not one of q8_0, q5_1, q5_0, q4_1, q4_0, iq4_nl, mxfp4, tq2_0, "
                "bitnet_t158, the types that texts can improve",
                text);
}

/* Adds the types of a list to those that an item can have. */
static wisp_status add_types(struct item *item, const char *option, const char *list,
                             wisp_error *error) {
    for (const char *name = list; *name;) {
        const size_t length = strcspn(name, ",");
        struct type_choice *choice = &item->choice;
        if (choice->n == MOST_TYPES)
            return fail(error, WISP_ERROR_ARGUMENT, NULL, option, "more than %d types", MOST_TYPES);
        TRY(find_type(option, name, length, &choice->formats[choice->n++], error));
        name += length + (name[length] == ',');
    }
    return item->choice.n > 0 ? WISP_OK : fail(error, WISP_ERROR_ARGUMENT, NULL, option, "no type");
}

/* Fails if the rows of an item's tensors are not whole blocks of a type that it can have. */
static wisp_status check_rows(const struct quantise_run *r, const struct item *item,
                              const char *option, wisp_error *error) {
    char names[LINEAR_MAX_PARTS][TENSOR_NAME_BYTES];
    const size_t n = item_names(item, TENSOR_WEIGHT, names);
    for (size_t i = 0; i < n; i++) {
        const struct tensor *tensor = directory_find_tensor(&r->in, names[i]);
        for (size_t j = 0; tensor && j < item->choice.n; j++) {
            const struct block_format *format = item->choice.formats[j];
            if (format->id == BLOCK_T158 && has_target(r))
                return fail(error, WISP_ERROR_ARGUMENT, NULL, option,
                            "bitnet_t158 cannot have a target");
            /* round_item works row by row. */
            const bool may_cross = !item->name && block_crosses_rows(format);
            if (tensor->dims[0] % format->elements != 0 && !may_cross)
                return fail(error, WISP_ERROR_UNSUPPORTED, NULL, option,
                            "rows of %llu values (%s) are not whole blocks of %s, which have "
                            "%u%s",
                            (unsigned long long)tensor->dims[0], names[i], format->name,
                            format->elements,
                            item->product.role == LINEAR_ENDS && format->elements == GRID_BLOCK
                                ? "; pad_neurons adds neurons of zeros to the feed-forward layers"
                                : "");
        }
    }
    return WISP_OK;
}

/* Adds an item, which can have the types of `list`. Without a list its tensors stay as they are. */
static wisp_status add_item(struct quantise_run *r, struct item item, const char *option,
                            const char *list, wisp_error *error) {
    char names[LINEAR_MAX_PARTS][TENSOR_NAME_BYTES];
    const size_t n = item_names(&item, TENSOR_WEIGHT, names);
    for (size_t i = 0; i < n; i++) {
        const struct tensor *tensor = directory_find_tensor(&r->in, names[i]);
        if (!tensor)
            return fail(error, WISP_ERROR_NOT_FOUND, r->input, names[i], "not in the file");
        item.elements += tensor->rows * tensor->dims[0];
    }
    if (list)
        TRY(add_types(&item, option, list, error));
    TRY(check_rows(r, &item, option, error));
    item.format = list ? item.choice.formats[0] : NULL;
    if (!has_target(r))
        item.choice.n = 0;
    r->items[r->n_items++] = item;
    return WISP_OK;
}

static bool is_ternary(const struct block_format *format) {
    return format->id == BLOCK_TQ2_0 || format->id == BLOCK_T158;
}

/* Lists what is quantised. Token embeddings and logits keep their type if the other matrices are
 * ternary and none is named: three values do not tell tokens apart. */
static wisp_status list_items(struct quantise_run *r, const char *types, wisp_error *error) {
    const wisp_quantize_options *o = r->options;
    const struct network *network = &r->original->network;
    struct linear_entry products[MOST_LINEARS];
    const struct block_format *first = NULL;
    const bool has_positions = !r->replay.generates && network->positions;
    ARENA_TAKE(&r->arena, r->items, network->config.layers * MOST_LINEARS + 3, error);
    TRY(find_type("type", types, strcspn(types, ","), &first, error));
    const char *others = is_ternary(first) && !has_target(r) ? NULL : types;
    const char *ffn = o->ffn_type ? o->ffn_type : types;
    if (network->config.experts.count > 0)
        return fail(error, WISP_ERROR_UNSUPPORTED, r->in.file, "texts",
                    "the %u experts of a layer are quantised without texts only",
                    network->config.experts.count);
    if (!has_target(r) && strchr(types, ','))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "type",
                    "%s: several types need target_bytes or target_cosine", types);
    if (o->position_type && !has_positions)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "position_type",
                    "the model has no position embeddings");
    TRY(add_item(r, (struct item){.name = "token_embd"}, "embedding_type",
                 o->embedding_type ? o->embedding_type : others, error));
    if (o->position_type || (has_positions && has_target(r))) {
        TRY(add_item(r, (struct item){.name = "position_embd"}, "position_type",
                     o->position_type ? o->position_type : others, error));
        struct type_choice *choice = &r->items[r->n_items - 1].choice;
        if (!o->position_type && choice->n < MOST_TYPES)
            choice->formats[choice->n++] = block_format_by_id(BLOCK_F32);
    }
    for (uint32_t l = 0; l < network->config.layers; l++) {
        const size_t n = network_linears(network, l, products);
        for (size_t i = 0; i < n; i++) {
            const struct item item = {.layer = l, .index = i, .product = products[i]};
            const bool in_ffn = products[i].block == PASS_FEED_FORWARD;
            TRY(add_item(r, item, in_ffn && o->ffn_type ? "ffn_type" : "type", in_ffn ? ffn : types,
                         error));
        }
    }
    if (r->replay.generates && directory_find_tensor(&r->in, "output.weight"))
        return add_item(r, (struct item){.name = "output"}, "output_type",
                        o->output_type ? o->output_type : others, error);
    if (o->output_type)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "output_type",
                    "the model has no tensor output.weight");
    return WISP_OK;
}

/* ---- all together --------------------------------------------------------------------------- */

/* Returns the type that the file is named after: that of the attention layers, or with a target the
 * one that most numbers have. */
static const struct block_format *main_format(const struct quantise_run *r) {
    const struct block_format *main = NULL;
    uint64_t most = 0;
    for (size_t i = 0; i < r->n_items; i++) {
        const struct block_format *format = r->items[i].format;
        uint64_t elements = 0;
        for (size_t j = 0; j < r->n_items; j++)
            if (r->items[j].format == format)
                elements += r->items[j].elements;
        if (!has_target(r) && !r->items[i].name)
            return format;
        if (format && elements > most) {
            most = elements;
            main = format;
        }
    }
    return main;
}

/* Returns the format in which a tensor is written. */
static const struct block_format *written_format(const struct quantise_run *r,
                                                 const struct quantised *q,
                                                 const struct tensor *tensor) {
    const bool ours = tensor->source == q->source;
    if (ours && bitnet_made(tensor))
        return block_format_by_id(BLOCK_T158);
    if (ours || is_calibration_tensor(tensor->name))
        return tensor->format;
    for (size_t i = 0; i < r->n_items; i++) {
        char names[LINEAR_MAX_PARTS][TENSOR_NAME_BYTES];
        item_names(&r->items[i], TENSOR_WEIGHT, names);
        /* BF16 has the number of BITNET_T158 in a file. */
        if (!r->items[i].format && strcmp(names[0], tensor->name) == 0 &&
            tensor->format->id != BLOCK_BF16)
            return tensor->format;
    }
    return block_format_by_id(BLOCK_F32);
}

static wisp_status write_all(struct quantise_run *r, struct quantised *q, const char *output,
                             wisp_error *error) {
    struct gguf_plan plan = {0};
    ARENA_TAKE(&r->arena, plan.formats, q->out.n_tensors + 1, error);
    for (size_t i = 0; i < q->out.n_tensors; i++)
        plan.formats[i] = written_format(r, q, &q->out.tensors[i]);
    TRY(put_file_type(&q->out, main_format(r), error));
    return write_model(&q->out, &plan, NEURONS_PLAIN, output, error);
}

static wisp_status quantise_texts(struct quantise_run *r, struct quantised *q, const char *output,
                                  const wisp_text *texts, size_t n, wisp_error *error) {
    TRY(choose_texts(r, texts, n, error));
    TRY(open_memory(r, error));
    if (has_target(r)) {
        TRY(quantise_to_target(r, q, error));
    } else {
        TRY(quantised_open(q, r, quantised_capacity(r), error));
        TRY(quantise_items(r, q, error));
    }
    quantise_report(r, q);
    return write_all(r, q, output, error);
}

static wisp_status open_model(const struct quantise_run *r, wisp_model **model, wisp_error *error) {
    const wisp_model_options dense = {.compute = WISP_COMPUTE_F32,
                                      .predictor = WISP_PREDICTOR_DENSE};
    struct directory dir = {0};
    const wisp_status status = quantise_open_input(r, &dir, error);
    if (status == WISP_OK)
        return model_load(&dir, &dense, clock_seconds(), model, error);
    directory_release(&dir);
    return status;
}

static wisp_status open_all(struct quantise_run *r, const char *types, wisp_error *error) {
    const wisp_quantize_options *o = r->options;
    TRY(open_model(r, &r->original, error));
    TRY(replay_open(&r->replay, &r->original->network, error));
    if (r->replay.generates && o->target_cosine > 0)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "target_cosine",
                    "the model has no embeddings: target_bytes is for all models");
    TRY(quantise_open_input(r, &r->in, error));
    TRY(list_items(r, types, error));
    TRY(open_model(r, &r->working, error));
    return pool_open(o->threads ? o->threads : 1, &r->team, error);
}

static wisp_status check_options(const wisp_quantize_options *o, wisp_error *error) {
    if (o->threads > POOL_MAX_THREADS)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "threads", "%u is more than %d", o->threads,
                    POOL_MAX_THREADS);
    if (!(o->target_cosine >= 0 && o->target_cosine < 1))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "target_cosine",
                    "expected a number above 0 and below 1");
    if (o->target_bytes > 0 && o->target_cosine > 0)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "target_cosine",
                    "it does not go with target_bytes");
    return WISP_OK;
}

wisp_status wisp_quantize_for_texts(const char *input, const char *output, const char *type,
                                    const wisp_text *texts, size_t n,
                                    const wisp_quantize_options *options, wisp_error *error) {
    const wisp_quantize_options defaults = {0};
    struct quantise_run r = {.options = options ? options : &defaults, .input = input};
    struct quantised q = {0};
    TRY(require(input, "input", error));
    TRY(require(output, "output", error));
    TRY(require(type, "type", error));
    TRY(require_texts(texts, n, error));
    TRY(check_options(r.options, error));
    TRY(file_check_output(output, error));
    wisp_status status = open_all(&r, type, error);
    if (status == WISP_OK)
        status = quantise_texts(&r, &q, output, texts, n, error);
    quantised_close(&q);
    replay_close(&r.replay);
    arena_release(&r.arena);
    if (r.team)
        pool_close(r.team);
    wisp_model_close(r.original);
    wisp_model_close(r.working);
    directory_release(&r.in);
    return status;
}
