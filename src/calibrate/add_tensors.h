/* SPDX-License-Identifier: Apache-2.0
 * Adds the tensors of a calibration to a directory. */
#ifndef WISP_CALIBRATE_ADD_TENSORS_H
#define WISP_CALIBRATE_ADD_TENSORS_H

#include "calibrate/predictor.h"
#include "formats/directory.h"

/* Tensors are quantised into memory, which becomes a source of the directory. */
struct tensor_adder {
    struct directory *dir;
    struct arena scratch;
    unsigned char *data; /* [capacity]: the source */
    size_t used, capacity;
    uint32_t source;
    wisp_error *error;
};

/* Makes room for `floats` values. The caller releases adder->scratch, also after an error. */
wisp_status tensor_adder_open(struct tensor_adder *adder, struct directory *dir, size_t floats,
                              wisp_error *error);

/* Adds the tensor of a layer that is called `part` and `suffix` (formats/schema.h), [rows,
 * columns], in floats. */
wisp_status tensor_add_floats(struct tensor_adder *adder, size_t layer, const char *part,
                              const char *suffix, const float *values, size_t rows, size_t columns);

/* Adds the weight [rows, columns] that is the transpose of w [columns, rows]. */
wisp_status tensor_add_transposed(struct tensor_adder *adder, size_t layer, const char *part,
                                  const float *w, size_t rows, size_t columns,
                                  const struct block_format *format);

/* The names of a predictor's parts. */
struct predictor_names {
    const char *p, *q, *thresholds;
};

extern const struct predictor_names predictor_of_tokens, predictor_of_texts;

/* Adds a predictor, and its thresholds [levels, intermediate_size]. */
wisp_status tensor_add_predictor(struct tensor_adder *adder, size_t layer,
                                 const struct predictor_names *names,
                                 const struct predictor *predictor,
                                 const struct predictor_formats *formats, const float *thresholds,
                                 size_t levels);

#endif
