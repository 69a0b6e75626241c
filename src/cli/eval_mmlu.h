/* SPDX-License-Identifier: Apache-2.0
 * Accuracy of a model on MMLU, a folder of multiple-choice questions (Hendrycks et al., 2021).
 *
 * The folder has a file SUBJECT_test.csv for each subject, of six columns: question, four choices,
 * answer (A to D, or 0 to 3); a first line "question,A,B,C,D,answer" is skipped. The examples that
 * come before each question are the first of SUBJECT_dev.csv; if there is none, they are the
 * first questions of the test file, which are then not asked. The prompt is that of the authors'
 * program, and the choice is the letter whose log-probability after "Answer:" is largest. */
#ifndef WISP_CLI_EVAL_MMLU_H
#define WISP_CLI_EVAL_MMLU_H

#include "cli/cli.h"

struct mmlu_options {
    unsigned long shots; /* examples before each question */
    unsigned long limit; /* the most questions of a subject; 0: all */
    bool answers;        /* print each answer as a JSON line */
    bool json;           /* print the figures as one JSON object */
};

/* Evaluates and prints the table. After Ctrl-C the table has the questions asked so far. Returns an
 * exit code, after complaining if it is not EXIT_GOOD. */
int mmlu_evaluate(const struct model_arguments *arguments, const char *folder,
                  const struct mmlu_options *options);

#endif
