/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/images.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/pool.h"
#include "host/file.h"
#include "images/library.h"

/* ---- arguments ------------------------------------------------------------------------------ */

/* Returns whether a file of a folder is taken for an image. */
static int has_ending(const struct dirent *entry) {
    static const char *const endings[] = {".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp"};
    const char *dot = strrchr(entry->d_name, '.');
    for (size_t i = 0; dot && dot != entry->d_name && i < sizeof endings / sizeof *endings; i++)
        if (strcasecmp(dot, endings[i]) == 0)
            return 1;
    return 0;
}

/* Orders names by their bytes: alphasort would go by the locale. */
static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int complain_of_folder(const char *folder) {
    complain("%s: cannot read the folder: %s", folder, strerror(errno));
    return EXIT_FAILED;
}

/* The items that take the place of others. */
struct items {
    struct input_item *list;
    size_t n, capacity;
};

static int add_item(struct items *items, const char *path, const char *text) {
    if (items->n == items->capacity) {
        const size_t capacity = 2 * items->capacity + 16;
        struct input_item *list = realloc(items->list, capacity * sizeof *list);
        if (!list)
            return complain_of_memory();
        *items = (struct items){list, items->n, capacity};
    }
    items->list[items->n++] = (struct input_item){.path = path, .text = text};
    return EXIT_GOOD;
}

static int add_names(struct input *input, struct items *items, const char *folder,
                     struct dirent *const *names, int n) {
    char path[PATH_MAX];
    wisp_error error;
    for (int i = 0; i < n; i++) {
        if (file_join(folder, names[i]->d_name, path, sizeof path, &error) != WISP_OK)
            return complain_of(&error);
        const char *kept = arena_copy_text(&input->paths, path, strlen(path));
        const int code = kept ? add_item(items, NULL, kept) : complain_of_memory();
        if (code != EXIT_GOOD)
            return code;
    }
    if (n > 0)
        return EXIT_GOOD;
    complain("%s: the folder has no images", folder);
    return EXIT_INPUT;
}

static int add_folder(struct input *input, struct items *items, const char *folder) {
    struct dirent **names;
    const int n = scandir(folder, &names, has_ending, by_name);
    if (n < 0)
        return complain_of_folder(folder);
    const int code = add_names(input, items, folder, names, n);
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
    return code;
}

int images_take_files(struct input *input) {
    struct items items = {0};
    int code = EXIT_GOOD;
    input->keep_malformed = input->skip_blank = true;
    if (input->ndjson || input->columns.separator)
        return EXIT_GOOD;
    input->bytes_total = 0;
    for (size_t i = 0; i < input->n_items && code == EXIT_GOOD; i++) {
        const struct input_item *item = &input->items[i];
        if (!item->path || strcmp(item->path, "-") == 0)
            code = add_item(&items, item->path, item->text);
        else if (file_is_folder(item->path))
            code = add_folder(input, &items, item->path);
        else
            code = add_item(&items, NULL, item->path);
    }
    free(input->items);
    input->items = items.list;
    input->n_items = items.n;
    return code;
}

/* ---- embedding ------------------------------------------------------------------------------ */

int images_open(struct image_embedder *embedder, const wisp_model *model, uint32_t threads) {
    wisp_error error;
    embedder->dimensions = wisp_model_dimensions(model);
    if (image_decoder_load(&embedder->decoder, &error) != WISP_OK ||
        wisp_images_open(model, threads, &embedder->tower, &error) != WISP_OK ||
        pool_open(threads, &embedder->team, &error) != WISP_OK)
        return complain_of(&error);
    embedder->rows = calloc(IMAGE_RECORDS, embedder->dimensions * sizeof *embedder->rows);
    return embedder->rows ? EXIT_GOOD : complain_of_memory();
}

void images_close(struct image_embedder *embedder) {
    wisp_images_close(embedder->tower);
    pool_close(embedder->team);
    free(embedder->rows);
}

/* Writes the first values of a row, normalised again if there are more. */
static void write_row(const float *values, size_t all, size_t n, float *row) {
    double squares = 0;
    for (size_t i = 0; i < n; i++)
        squares += (double)values[i] * (double)values[i];
    const float scale = n < all ? (float)(1 / fmax(sqrt(squares), 1e-12)) : 1;
    for (size_t i = 0; i < n; i++)
        row[i] = values[i] * scale;
}

/* Embeds the first n of embedder->images, and writes the row of image i to row places[i]. */
static int embed_images(struct image_embedder *e, size_t n, const size_t *places, size_t dimensions,
                        float *rows) {
    wisp_error error;
    if (wisp_images_embed(e->tower, e->images, n, e->rows, &error) != WISP_OK)
        return complain_of(&error);
    for (size_t i = 0; i < n; i++)
        write_row(e->rows + i * e->dimensions, e->dimensions, dimensions,
                  rows + places[i] * dimensions);
    return EXIT_GOOD;
}

int images_try(struct image_embedder *embedder, size_t n, size_t dimensions, float *rows) {
    enum { SIDE = 40, PIXELS = SIDE * SIDE * 3 };
    uint8_t pixels[PIXELS + IMAGE_RECORDS];
    size_t places[IMAGE_RECORDS];
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * i / 7);
    for (size_t i = 0; i < n; i++) {
        embedder->images[i] = (wisp_image){pixels + i, SIDE, SIDE};
        places[i] = i;
    }
    return embed_images(embedder, n, places, dimensions, rows);
}

int images_name(struct batch *batch) {
    for (size_t i = 0; i < batch->n; i++) {
        struct record *record = &batch->records[i];
        if (record->fault)
            continue;
        record->image = arena_copy_text(&batch->arena, record->text.bytes, record->text.length);
        if (!record->image)
            return complain_of_memory();
    }
    return EXIT_GOOD;
}

/* Gives a record the fault of its image. */
static int take_fault(struct batch *batch, struct record *record, const wisp_error *error) {
    const size_t length = strlen(record->image);
    const char *text = error->message;
    if (error->status == WISP_ERROR_MEMORY)
        return complain_of(error);
    complain("%s", text);
    if (strncmp(text, record->image, length) == 0 && strncmp(text + length, ": ", 2) == 0)
        text += length + 2;
    record->fault = arena_copy_text(&batch->arena, text, strlen(text));
    return record->fault ? EXIT_GOOD : complain_of_memory();
}

/* Some records whose images are in memory together. */
struct group {
    struct image_embedder *embedder;
    struct batch *batch;
    struct record *const *records; /* of the call */
    size_t place[IMAGE_RECORDS];   /* of each image's record among these */
    wisp_error errors[IMAGE_RECORDS];
    size_t n;
};

/* Reads the files of records [*next, n), as many as take no more memory than one image may. Bad
 * ones are left out. */
static int read_group(struct group *group, size_t n, size_t *next) {
    struct image_embedder *e = group->embedder;
    uint64_t bytes = 0, pixels = 0;
    group->n = 0;
    for (; *next < n && group->n < IMAGE_RECORDS; ++*next) {
        struct record *record = group->records[*next];
        struct image_file *file = &e->files[group->n];
        wisp_error error;
        if (record->fault)
            continue;
        if (image_file_read(file, record->image, e->decoder, &error) != WISP_OK) {
            const int code = take_fault(group->batch, record, &error);
            image_file_release(file);
            if (code != EXIT_GOOD)
                return code;
            continue;
        }
        bytes += file->bytes.size;
        pixels += (uint64_t)file->size.width * file->size.height;
        if (group->n > 0 && (bytes > IMAGE_MOST_BYTES || pixels > IMAGE_MOST_PIXELS)) {
            image_file_release(file); /* it is the first of the next group */
            break;
        }
        group->place[group->n++] = *next;
    }
    return EXIT_GOOD;
}

/* Decodes images [first, end). */
static wisp_status decode(void *context, uint32_t member, size_t first, size_t end,
                          wisp_error *error) {
    struct group *group = context;
    struct image_embedder *e = group->embedder;
    (void)member;
    (void)error;
    for (size_t i = first; i < end; i++) {
        group->errors[i].status = WISP_OK;
        image_file_decode(&e->files[i], group->records[group->place[i]]->image, e->decoder,
                          &group->errors[i]);
    }
    return WISP_OK;
}

/* Decodes the group's images, and leaves out bad ones. */
static int decode_group(struct group *group) {
    struct image_embedder *e = group->embedder;
    struct pool_work work = {.items = group->n, .run = decode, .context = group};
    const uint32_t members = pool_size(e->team);
    size_t good = 0;
    int code = EXIT_GOOD;
    pool_each(e->team, group->n < members ? (uint32_t)group->n : members, &work, NULL);
    for (size_t i = 0; i < group->n && code == EXIT_GOOD; i++) {
        if (group->errors[i].status != WISP_OK) {
            code = take_fault(group->batch, group->records[group->place[i]], &group->errors[i]);
            continue;
        }
        e->images[good] = e->files[i].image;
        group->place[good++] = group->place[i];
    }
    group->n = good;
    return code;
}

int images_embed(struct image_embedder *embedder, struct batch *batch,
                 struct record *const *records, size_t n, size_t dimensions, float *rows) {
    struct group group = {.embedder = embedder, .batch = batch, .records = records};
    int code = EXIT_GOOD;
    for (size_t next = 0; next < n && code == EXIT_GOOD;) {
        code = was_interrupted() ? EXIT_INTERRUPTED : read_group(&group, n, &next);
        const size_t files = group.n;
        if (code == EXIT_GOOD && files > 0)
            code = decode_group(&group);
        if (code == EXIT_GOOD)
            code = embed_images(embedder, group.n, group.place, dimensions, rows);
        for (size_t i = 0; i < files; i++)
            image_file_release(&embedder->files[i]);
    }
    return code;
}

int images_embed_batch(struct image_embedder *embedder, struct batch *batch, size_t dimensions,
                       float *rows, size_t *faults) {
    struct record *records[IMAGE_RECORDS] = {NULL};
    const size_t n = batch->n;
    for (size_t i = 0; i < n; i++)
        records[i] = &batch->records[i];
    int code = images_name(batch);
    if (code == EXIT_GOOD)
        code = images_embed(embedder, batch, records, n, dimensions, rows);
    batch->n = 0;
    for (size_t i = 0; i < n && code == EXIT_GOOD; i++) {
        if (batch->records[i].fault)
            continue;
        memmove(rows + batch->n * dimensions, rows + i * dimensions, dimensions * sizeof *rows);
        batch->texts[batch->n] = batch->texts[i];
        batch->records[batch->n++] = batch->records[i];
    }
    *faults += n - batch->n;
    return code;
}
