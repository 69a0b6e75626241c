/* SPDX-License-Identifier: Apache-2.0
 * Two architectures that only tests have: "other-encoder" and "other-decoder". They show that
 * nothing outside of an architecture's own file knows where its weights are, or which architectures
 * there are. */
#ifndef TESTS_OTHER_H
#define TESTS_OTHER_H

#include "models/architecture.h"
#include "support/builder.h"

/* An encoder whose norms stand before blocks and that computes queries, keys and values by a dense
 * layer each. Its tensors have the names of BERT's. other_encoder.c */
extern const struct architecture architecture_other_encoder;

/* Llama, in another struct of weights. other_decoder.c */
extern const struct architecture architecture_other_decoder;

/* Makes the file of an encoder of this shape, which is not that of a nomic-bert. */
void other_make_encoder(struct gguf *file, const struct tiny_shape *shape);

#endif
