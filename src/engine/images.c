/* SPDX-License-Identifier: Apache-2.0
 * Embeds images. The members of a team each prepare images, whose patches, and in CLIP a class,
 * they turn into states; then all of them run one pass over these. In SigLIP they pool images after
 * it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "engine/image_pixels.h"
#include "engine/model.h"
#include "layers/norm.h"
#include "models/attention_pool.h"
#include "models/pass.h"
#include "models/tensor_names.h"

enum { CHANNELS = 3, MOST_SIDE = 4096, BATCH_TOKENS = 512 };

struct wisp_images {
    const wisp_model *model;
    struct directory dir; /* of the image tower: the model's sources, but tensors of its own */
    struct network network;
    struct linear embedding;    /* of patches: W [hidden_size, CHANNELS * patch * patch] */
    float *class_state;         /* [hidden_size]; NULL: there is no class */
    struct norm first_norm;     /* of the states that a pass begins with; only with a class */
    struct attention_pool pool; /* only without a class */
    struct image_fit fit;
    uint32_t patch, patches, tokens; /* pixels of a patch; patches and tokens of an image */
    float mean[CHANNELS], std[CHANNELS];
    size_t at_once; /* images of a pass */
    struct pool *team;
    struct workspace forward;
    struct workspace *member; /* [pool_size(team)]: for an image that is prepared */
};

/* ---- opening -------------------------------------------------------------------------------- */

/* Returns the name of a tensor within the tower, which the page of clip.c has, in place of
 * llama.cpp's. */
static char *own_name(struct directory *dir, const char *name) {
    static const char *const names[][2] = {{"post_ln.", "output_norm."},
                                           {"ln1.", "attn_norm."},
                                           {"attn_out.", "attn_output."},
                                           {"ln2.", "ffn_norm."}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *found = strstr(name, names[i][0]);
        const size_t before = found ? (size_t)(found - name) : 0;
        const size_t old = strlen(names[i][0]), new = strlen(names[i][1]);
        if (!found || (before > 0 && name[before - 1] != '.'))
            continue;
        const size_t bytes = before + new + strlen(found + old) + 1;
        char *made = arena_allocate(&dir->arena, bytes);
        if (made)
            snprintf(made, bytes, "%.*s%s%s", (int)before, name, names[i][1], found + old);
        return made;
    }
    return arena_copy_text(&dir->arena, name, strlen(name));
}

/* Makes the directory of the tower: the model's metadata and sources, and its tensors. */
static wisp_status open_directory(struct wisp_images *images, wisp_error *error) {
    const struct directory *whole = &images->model->dir;
    struct directory *dir = &images->dir;
    const size_t prefix = strlen(CLIP_IMAGE_PREFIX);
    dir->file = whole->file;
    memcpy(dir->sources, whole->sources, sizeof dir->sources);
    dir->n_sources = whole->n_sources;
    for (size_t i = 0; i < whole->n_metadata; i++) {
        struct metadata *added;
        TRY(directory_add_metadata(dir, &added, error));
        *added = whole->metadata[i];
    }
    for (size_t i = 0; i < whole->n_tensors; i++) {
        const struct tensor *tensor = &whole->tensors[i];
        struct tensor *added;
        if (strncmp(tensor->name, CLIP_IMAGE_PREFIX, prefix) != 0)
            continue;
        TRY(directory_add_tensor(dir, &added, error));
        *added = *tensor;
        added->name = own_name(dir, tensor->name + prefix);
        if (!added->name)
            return fail_memory(error, strlen(tensor->name));
    }
    return directory_finish(dir, error);
}

/* Reads the mean or the standard deviation of pixels. */
static wisp_status read_channels(const struct directory *dir, const char *key, float *values,
                                 wisp_error *error) {
    const struct metadata *entry = directory_find_metadata(dir, key);
    if (!entry)
        return fail(error, WISP_ERROR_NOT_FOUND, dir->file, key, "the metadata key is missing");
    if (entry->type != VALUE_ARRAY || entry->element != VALUE_F32 || entry->count != CHANNELS)
        return fail(error, WISP_ERROR_FORMAT, dir->file, key, "not an array of three floats");
    memcpy(values, entry->as.numbers, CHANNELS * sizeof *values);
    for (size_t c = 0; c < CHANNELS; c++)
        if (!isfinite(values[c]) || (key[strlen(key) - 1] == 'd' && !(values[c] > 0)))
            return fail(error, WISP_ERROR_FORMAT, dir->file, key,
                        "a mean that is not finite, or a deviation that is not above 0");
    return WISP_OK;
}

static wisp_status read_settings(struct wisp_images *images, wisp_error *error) {
    const struct directory *dir = &images->dir;
    const bool has_class = !images->network.architecture->has_probe;
    const char *filter = "bicubic";
    uint32_t side;
    TRY(metadata_u32(dir, KEY_IMAGE_SIZE, &side, error));
    TRY(metadata_u32(dir, KEY_PATCH_SIZE, &images->patch, error));
    TRY(read_channels(dir, KEY_IMAGE_MEAN, images->mean, error));
    TRY(read_channels(dir, KEY_IMAGE_STD, images->std, error));
    images->fit = (struct image_fit){.side = side, .crops = true};
    TRY(metadata_bool_or(dir, KEY_IMAGE_CROPS, &images->fit.crops, error));
    TRY(metadata_text_or(dir, KEY_IMAGE_FILTER, &filter, error));
    images->fit.filter = image_filter_named(filter);
    if (!images->fit.filter)
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, KEY_IMAGE_FILTER,
                    "%.32s is not supported, only bicubic and bilinear", filter);
    images->tokens = images->network.config.max_positions;
    images->patches = images->tokens - has_class;
    if (side > MOST_SIDE || images->patch == 0 || images->patch > side ||
        images->patches != (side / images->patch) * (side / images->patch))
        return fail(error, WISP_ERROR_FORMAT, dir->file, KEY_IMAGE_SIZE,
                    "images of %u pixels, with patches of %u, do not have %u tokens", side,
                    images->patch, images->tokens);
    return WISP_OK;
}

/* Reads what is before the layers, and in SigLIP what is behind them. */
static wisp_status load_ends(struct wisp_images *images, wisp_error *error) {
    static const char *const patches = "patch_embd";
    const struct network *network = &images->network;
    const bool has_probe = network->architecture->has_probe;
    const size_t size = network->config.hidden_size;
    const struct linear_source source = {.dir = &images->dir,
                                         .names = &patches,
                                         .unbiased = !has_probe,
                                         .parts = 1,
                                         .n = size,
                                         .k = (size_t)CHANNELS * images->patch * images->patch};
    TRY(linear_load(&images->embedding, &source, network->kernels, WISP_COMPUTE_F32, error));
    if (has_probe)
        return attention_pool_load(&images->pool, network, error);
    TRY(directory_load_floats(&images->dir, "class_embd", 1, size, &images->class_state, error));
    return norm_load(&images->first_norm, &images->dir, "pre_ln", size, error);
}

static wisp_status load(struct wisp_images *images, wisp_error *error) {
    const struct network *texts = &images->model->network;
    struct network *network = &images->network;
    const size_t dimensions = wisp_model_dimensions(images->model);
    *network = (struct network){.dir = &images->dir, .architecture = texts->architecture->images};
    TRY(network->architecture->read_config(&images->dir, &network->config, error));
    TRY(tensor_names_check(&images->dir, network->architecture, &network->config, error));
    TRY(read_settings(images, error));
    TRY(network_load(network, texts->kernels, texts->compute, NULL, error));
    TRY(load_ends(images, error));
    const size_t outputs = dense_modules_outputs(&network->dense, network->config.hidden_size);
    if (outputs != dimensions)
        return fail(error, WISP_ERROR_FORMAT, images->dir.file, "images",
                    "embeddings of %zu values, but those of texts have %zu", outputs, dimensions);
    images->at_once = larger(BATCH_TOKENS / images->tokens, 1);
    return WISP_OK;
}

static wisp_status check_model(const wisp_model *model, wisp_error *error) {
    if (!model->network.architecture->images ||
        !directory_find_tensor(&model->dir, CLIP_IMAGE_PREFIX "patch_embd" TENSOR_WEIGHT))
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "images",
                    "the model has no image tower");
    if (model->dir.residency.in_memory || model->dir.residency.lacks_rows)
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "images",
                    "the model was opened with in_memory or hot_only, so that its file cannot be "
                    "read again");
    return WISP_OK;
}

wisp_status wisp_images_open(const wisp_model *model, uint32_t threads, wisp_images **images,
                             wisp_error *error) {
    TRY(require(images, "images", error));
    *images = NULL;
    TRY(require(model, "model", error));
    TRY(check_model(model, error));
    if (threads > POOL_MAX_THREADS)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "threads", "%u is above %d", threads,
                    POOL_MAX_THREADS);
    wisp_images *made = calloc(1, sizeof *made);
    if (!made)
        return fail_memory(error, sizeof *made);
    made->model = model;
    wisp_status status = open_directory(made, error);
    if (status == WISP_OK)
        status = load(made, error);
    if (status == WISP_OK)
        status = pool_open(threads > 0 ? threads : 1, &made->team, error);
    if (status == WISP_OK) {
        made->member = calloc(pool_size(made->team), sizeof *made->member);
        status = made->member ? WISP_OK : fail_memory(error, sizeof *made->member);
    }
    if (status == WISP_OK)
        *images = made;
    else
        wisp_images_close(made);
    return status;
}

void wisp_images_close(wisp_images *images) {
    if (!images)
        return;
    for (uint32_t i = 0; images->member && i < pool_size(images->team); i++)
        workspace_release(&images->member[i]);
    free(images->member);
    pool_close(images->team);
    workspace_release(&images->forward);
    network_release(&images->network);
    linear_release(&images->embedding);
    norm_release(&images->first_norm);
    attention_pool_release(&images->pool);
    memory_free(images->class_state);
    images->dir.n_sources = 0; /* the model's own */
    directory_release(&images->dir);
    free(images);
}

/* ---- embedding ------------------------------------------------------------------------------ */

/* Some images on their way. */
struct batch_of_images {
    struct wisp_images *images;
    const wisp_image *pictures;
    float *states;  /* [images, tokens, hidden_size] */
    const float *x; /* likewise, after the pass */
    float *pooled;  /* [images, hidden_size] */
};

/* The working memory of an image that is prepared. */
struct prepared {
    uint8_t *square; /* [side, side, CHANNELS] */
    float *inputs;   /* [patches, CHANNELS * patch * patch] */
    struct workspace rest;
};

static struct prepared take_prepared(const struct wisp_images *images, const wisp_image *picture,
                                     struct workspace *space) {
    const size_t inputs = images->embedding.k, side = images->fit.side;
    struct prepared p;
    p.square = workspace_take(space, side, side * CHANNELS, 1);
    p.inputs = workspace_take(space, images->patches, inputs, sizeof *p.inputs);
    p.rest = workspace_part(space, larger(image_fit_bytes(picture, &images->fit),
                                          linear_workspace_bytes(images->patches, inputs)));
    return p;
}

/* Cuts the square into patches, whose values are in the order of the weights: channels, rows,
 * columns. A byte x becomes (x / 255 - mean) / std. */
static void cut(const struct wisp_images *images, const struct prepared *p) {
    const size_t patch = images->patch, side = images->fit.side, across = side / patch;
    float *out = p->inputs;
    for (size_t i = 0; i < across * across; i++)
        for (size_t c = 0; c < CHANNELS; c++)
            for (size_t y = 0; y < patch; y++) {
                const size_t row = i / across * patch + y, column = i % across * patch;
                const uint8_t *pixels = p->square + (row * side + column) * CHANNELS + c;
                for (size_t x = 0; x < patch; x++)
                    *out++ = ((float)pixels[x * CHANNELS] / 255 - images->mean[c]) / images->std[c];
            }
}

/* Writes the states of images [first, end), on the thread of `member`. */
static wisp_status prepare(void *context, uint32_t member, size_t first, size_t end,
                           wisp_error *error) {
    const struct batch_of_images *batch = context;
    struct wisp_images *images = batch->images;
    const struct network *network = &images->network;
    const size_t size = network->config.hidden_size;
    struct workspace *space = &images->member[member];
    for (size_t i = first; i < end; i++) {
        const wisp_image *picture = &batch->pictures[i];
        float *states = batch->states + i * images->tokens * size;
        struct workspace measured = {0};
        take_prepared(images, picture, &measured);
        TRY(workspace_reserve(space, measured.used, error));
        const struct prepared p = take_prepared(images, picture, space);
        image_make_square(picture, &images->fit, p.square, p.rest);
        cut(images, &p);
        linear_apply(&images->embedding, p.inputs, images->patches,
                     states + (images->tokens - images->patches) * size, p.rest);
        if (!images->class_state) {
            network->kernels->add(states, network->positions->rows, images->tokens * size);
            continue;
        }
        memcpy(states, images->class_state, size * sizeof *states);
        network->kernels->layer_norm(states, network->positions->rows, images->first_norm.weight,
                                     images->first_norm.bias, network->config.norm_epsilon,
                                     images->tokens, size);
    }
    return WISP_OK;
}

/* Pools the states of images [first, end) after the pass, on the thread of `member`. */
static wisp_status pool(void *context, uint32_t member, size_t first, size_t end,
                        wisp_error *error) {
    const struct batch_of_images *batch = context;
    struct wisp_images *images = batch->images;
    const size_t size = images->network.config.hidden_size;
    struct workspace *space = &images->member[member];
    TRY(workspace_reserve(
        space, attention_pool_bytes(&images->pool, &images->network, images->tokens), error));
    for (size_t i = first; i < end; i++)
        attention_pool_apply(&images->pool, &images->network, batch->x + i * images->tokens * size,
                             images->tokens, batch->pooled + i * size, *space);
    return WISP_OK;
}

/* The working memory of a pass over some images. */
struct images_space {
    float *states; /* [n, tokens, hidden_size] */
    float *pooled; /* [n, hidden_size] */
    size_t *starts;
    struct workspace head, pass;
};

static struct images_space take_space(const struct wisp_images *images, size_t n,
                                      const struct pass_size *size, struct workspace *space) {
    const size_t hidden = images->network.config.hidden_size;
    struct images_space s;
    s.states = workspace_take(space, size->tokens, hidden, sizeof *s.states);
    s.pooled = workspace_take(space, n, hidden, sizeof *s.pooled);
    s.starts = workspace_take(space, 1, n + 1, sizeof *s.starts);
    s.head = workspace_part(space, dense_modules_workspace_bytes(&images->network.dense, n));
    s.pass = workspace_part(space, pass_workspace_bytes(&images->network, size));
    return s;
}

/* Writes a row of length 1, as torch.nn.functional.normalize does it. */
static wisp_status write_row(const struct wisp_images *images, const float *values, size_t size,
                             float *row, wisp_error *error) {
    double squares = 0;
    for (size_t i = 0; i < size; i++)
        squares += (double)values[i] * (double)values[i];
    if (!isfinite(squares))
        return fail(error, WISP_ERROR_FORMAT, images->dir.file, NULL,
                    "the embedding of an image is not finite: weights are too large");
    const float scale = (float)(1 / fmax(sqrt(squares), 1e-12));
    for (size_t i = 0; i < size; i++)
        row[i] = values[i] * scale;
    return WISP_OK;
}

/* Embeds at most images->at_once images. */
static wisp_status embed_some(struct wisp_images *images, const wisp_image *pictures, size_t n,
                              float *rows, wisp_error *error) {
    const struct network *network = &images->network;
    const size_t dimensions = dense_modules_outputs(&network->dense, network->config.hidden_size);
    const uint32_t members = (uint32_t)smaller(pool_size(images->team), PASS_MAX_MEMBERS);
    const struct pass_size size = {.texts = n,
                                   .tokens = n * images->tokens,
                                   .longest = images->tokens,
                                   .members = members,
                                   .attention = attention_default(false)};
    struct workspace measured = {0};
    take_space(images, n, &size, &measured);
    TRY(workspace_reserve(&images->forward, measured.used, error));
    struct images_space space = take_space(images, n, &size, &images->forward);
    struct batch_of_images batch = {images, pictures, space.states, NULL, space.pooled};
    struct pool_work work = {.items = n, .run = prepare, .context = &batch};
    const uint32_t workers = (uint32_t)smaller(n, pool_size(images->team));
    TRY(pool_each(images->team, workers, &work, error));
    for (size_t i = 0; i <= n; i++)
        space.starts[i] = i * images->tokens;
    struct pass pass = {
        .network = network,
        .batch = {.texts = n, .starts = space.starts, .hidden = space.states},
        .rows = space.pooled,
        .attention = size.attention,
        .members = members,
        .team = members > 1 ? images->team : NULL,
    };
    pass_begin(&pass, &space.pass);
    TRY(pass_run(&pass, error));
    batch.x = pass.x;
    work = (struct pool_work){.items = n, .run = pool, .context = &batch};
    if (network->architecture->has_probe)
        TRY(pool_each(images->team, workers, &work, error));
    const float *values = dense_modules_apply(&network->dense, space.pooled, n, false, space.head);
    for (size_t i = 0; i < n; i++)
        TRY(write_row(images, values + i * dimensions, dimensions, rows + i * dimensions, error));
    return WISP_OK;
}

wisp_status wisp_images_embed(wisp_images *images, const wisp_image *pictures, size_t n,
                              float *rows, wisp_error *error) {
    TRY(require(images, "images", error));
    if (n == 0)
        return WISP_OK;
    TRY(require(pictures, "pictures", error));
    TRY(require(rows, "rows", error));
    pool_renew(images->team);
    for (size_t i = 0; i < n; i++) {
        const wisp_image *p = &pictures[i];
        TRY(require(p->pixels, "pixels", error));
        if (p->width == 0 || p->height == 0 || p->width > IMAGE_MOST_SIDE ||
            p->height > IMAGE_MOST_SIDE)
            return fail(error, WISP_ERROR_ARGUMENT, NULL, p->width == 0 ? "width" : "height",
                        "image %zu has %u x %u pixels: a side has 1 to %d", i, p->width, p->height,
                        IMAGE_MOST_SIDE);
    }
    const size_t dimensions = wisp_model_dimensions(images->model);
    for (size_t first = 0; first < n; first += images->at_once)
        TRY(embed_some(images, pictures + first, smaller(images->at_once, n - first),
                       rows + first * dimensions, error));
    return WISP_OK;
}
