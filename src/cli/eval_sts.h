/* SPDX-License-Identifier: Apache-2.0
 * Evaluation by semantic textual similarity: pairs of sentences that people have scored, as in the
 * STS Benchmark. */
#ifndef WISP_CLI_EVAL_STS_H
#define WISP_CLI_EVAL_STS_H

#include "cli/cli.h"
#include "cli/output.h"

struct sts_result {
    size_t pairs;
    const char *compute, *kernels;
    double spearman, pearson; /* correlations of the model's cosines with the scores */
    double reference_spearman, reference_pearson; /* of its cosines with them */
    /* Cosines between the model's embeddings and the reference's; low is the first percentile. */
    double mean_cosine, low_cosine, least_cosine;
};

/* Reads pairs from the file (or from standard input, "-"), embeds them with the model and with the
 * reference, which is the same model in f32 with all neurons, and fills *result. Returns an exit
 * code, after complaining if it is not EXIT_GOOD. */
int sts_evaluate(const struct model_arguments *arguments, const char *path,
                 struct sts_result *result);

#endif
