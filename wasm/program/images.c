/* SPDX-License-Identifier: Apache-2.0
 * The module opens no model with an image tower: --images ends before one is needed. */
#include "cli/images.h"

int images_take_files(struct input *input) {
    (void)input;
    complain("--images: images are embedded by the native program, which is in npm's packages for "
             "Linux");
    return EXIT_USAGE;
}

int images_open(struct image_embedder *embedder, const wisp_model *model, uint32_t threads) {
    (void)embedder;
    (void)model;
    (void)threads;
    return EXIT_USAGE;
}

int images_name(struct batch *batch) {
    (void)batch;
    return EXIT_USAGE;
}

int images_embed(struct image_embedder *embedder, struct batch *batch,
                 struct record *const *records, size_t n, size_t dimensions, float *rows) {
    (void)embedder;
    (void)batch;
    (void)records;
    (void)n;
    (void)dimensions;
    (void)rows;
    return EXIT_USAGE;
}

int images_embed_batch(struct image_embedder *embedder, struct batch *batch, size_t dimensions,
                       float *rows, size_t *faults) {
    (void)faults;
    return images_embed(embedder, batch, NULL, batch->n, dimensions, rows);
}

void images_close(struct image_embedder *embedder) {
    (void)embedder;
}
