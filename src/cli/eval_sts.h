/* SPDX-License-Identifier: Apache-2.0
 * Semantic textual similarity: pairs of sentences with a score, as in the STS Benchmark. */
#ifndef WISP_CLI_EVAL_STS_H
#define WISP_CLI_EVAL_STS_H

#include "cli/cli.h"
#include "cli/output.h"

struct sts_result {
    size_t pairs;
    const char *compute, *kernels;
    double spearman, pearson;                     /* of the model's cosines with the scores */
    double reference_spearman, reference_pearson; /* of the same model in f32, dense */
    double mean_cosine, low_cosine, least_cosine; /* of its embeddings to those; low: the first
                                                     percentile */
};

/* Reads pairs from the file (or standard input, "-"), embeds them with the model and with its
 * reference, and fills *result. Returns an exit code, after complaining where that is not good. */
int sts_evaluate(const struct model_arguments *arguments, const char *path,
                 struct sts_result *result);

#endif
