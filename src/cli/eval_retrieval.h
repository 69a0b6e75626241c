/* SPDX-License-Identifier: Apache-2.0
 * Quality of search on a folder as BEIR has them (Thakur et al., 2021): corpus.jsonl with "_id",
 * "title" and "text", queries.jsonl with "_id" and "text", and qrels/test.tsv with a header and, in
 * each line, the id of a query, that of a document and a grade. */
#ifndef WISP_CLI_EVAL_RETRIEVAL_H
#define WISP_CLI_EVAL_RETRIEVAL_H

#include "cli/cli.h"

struct retrieval_scores {
    double ndcg, recall; /* of the first ten documents, averages over queries */
};

struct retrieval_result {
    size_t documents, queries; /* of the latter those that have a relevant document */
    const char *compute, *kernels;
    struct retrieval_scores model, reference;
};

/* Finds, for each query, the ten documents with the largest dot products, by the model's embeddings
 * and by those of the reference, which is the same model in f32 with all neurons. Queries have the
 * model's prompt "query", and documents its prompt "document" or "passage", if there are such.
 * Fills *result. Returns an exit code, after complaining if it is not EXIT_GOOD. */
int retrieval_evaluate(const struct model_arguments *arguments, const char *folder,
                       struct retrieval_result *result);

#endif
