/* SPDX-License-Identifier: Apache-2.0
 * Images among the texts of commands: with --images each text of the input is the path of one. */
#ifndef WISP_CLI_IMAGES_H
#define WISP_CLI_IMAGES_H

#include "cli/cli.h"
#include "cli/input.h"
#include "images/file.h"

/* The most records of a batch of images, which are written together. */
enum { IMAGE_RECORDS = 16 };

/* An image tower with what decodes for it. */
struct image_embedder {
    const struct image_decoder *decoder;
    wisp_images *tower;
    struct pool *team; /* that decodes */
    size_t dimensions; /* of the model */
    float *rows;       /* [IMAGE_RECORDS, dimensions] */
    struct image_file files[IMAGE_RECORDS];
    wisp_image images[IMAGE_RECORDS];
};

/* Makes each argument that was given as a file of texts an image, or if it is a folder its images
 * in the order of their names. With ndjson, csv and tsv, and of standard input, the texts are the
 * paths. From then on a bad image or line costs itself alone. Returns an exit code, after
 * complaining of a folder without images. */
int images_take_files(struct input *input);

/* Opens the image tower of a model and the decoder. Returns an exit code, after complaining if it
 * is not EXIT_GOOD. */
int images_open(struct image_embedder *embedder, const wisp_model *model, uint32_t threads);

/* Writes embeddings of n images that are made up, by which models can be told apart, to rows [n,
 * dimensions]. n is at most IMAGE_RECORDS. Returns an exit code. */
int images_try(struct image_embedder *embedder, size_t n, size_t dimensions, float *rows);

/* Says of the records of a batch which images they are (record->image). Returns an exit code. */
int images_name(struct batch *batch);

/* Writes the embeddings, of `dimensions` values and length 1, of n records' images to rows. A bad
 * image is complained of, and its record gets a fault, which is in the batch. Rows of records with
 * a fault are not written. Returns an exit code: EXIT_INTERRUPTED after Ctrl-C, and a failure if
 * there is no memory. */
int images_embed(struct image_embedder *embedder, struct batch *batch,
                 struct record *const *records, size_t n, size_t dimensions, float *rows);

/* Embeds the images of a whole batch, which is read with `most` IMAGE_RECORDS, to rows [batch->n,
 * dimensions]. Records with a fault leave the batch and are added to *faults. Returns as
 * images_embed does. */
int images_embed_batch(struct image_embedder *embedder, struct batch *batch, size_t dimensions,
                       float *rows, size_t *faults);

void images_close(struct image_embedder *embedder);

#endif
