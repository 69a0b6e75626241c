/* SPDX-License-Identifier: Apache-2.0
 * Perplexity of a text under a model that generates, counted as llama.cpp counts it: the text's
 * tokens are cut into chunks of `context` tokens, each of which begins with the model's first token
 * instead of its own, and the tokens of the second half of each chunk are predicted. A text of
 * less than one chunk is one chunk, of which all tokens but the first are predicted. With a stride
 * a chunk begins every `stride` tokens, and its last `stride` tokens are predicted, so that each
 * has more context; that is llama.cpp's --ppl-stride. */
#ifndef WISP_CLI_EVAL_PPL_H
#define WISP_CLI_EVAL_PPL_H

#include "cli/cli.h"

struct ppl_result {
    const char *compute, *kernels;
    size_t context, chunks;
    size_t tokens, bytes;  /* that were predicted, and the text that they stand for */
    double perplexity;     /* exp of the mean loss of a token */
    double standard_error; /* of the perplexity */
    double bits_per_byte;
};

/* Reads the text from the file (or from standard input, "-"). `context` is the length of a chunk in
 * tokens; 0: 512, or the model's context if that is shorter. `stride` is below it; 0: none.
 * Returns an exit code, after complaining if it is not EXIT_GOOD. */
int ppl_evaluate(const struct model_arguments *arguments, const char *path, unsigned long context,
                 unsigned long stride, struct ppl_result *result);

#endif
