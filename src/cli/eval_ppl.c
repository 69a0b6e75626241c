/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/eval_ppl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/console.h"
#include "cli/progress.h"
#include "cli/whole_file.h"

enum { USUAL_CONTEXT = 512, LEAST_CONTEXT = 4 };

struct perplexity {
    wisp_model *model;
    wisp_session *session;
    size_t context, stride;
    int32_t *ids; /* [n]: of the whole text */
    size_t n;
    bool has_first;       /* ids[0] is the token that begins any text of this model */
    int32_t *chunk;       /* [context] */
    float *logprobs;      /* [context] */
    double loss, squares; /* sums over the predicted tokens, in nats */
    struct ppl_result *result;
};

/* Converts the text to ids. */
static int tokenize(struct perplexity *p, wisp_text text) {
    wisp_error error;
    size_t n;
    if (wisp_tokenize(p->model, wisp_text_of(""), NULL, 0, &n, &error) != WISP_OK)
        return complain_of(&error);
    p->has_first = n > 0;
    if (wisp_tokenize(p->model, text, NULL, 0, &n, &error) != WISP_OK)
        return complain_of(&error);
    p->ids = malloc((n + 1) * sizeof *p->ids);
    if (!p->ids)
        return complain_of_memory();
    if (wisp_tokenize(p->model, text, p->ids, n, &p->n, &error) != WISP_OK)
        return complain_of(&error);
    if (p->n >= 2)
        return EXIT_GOOD;
    complain("eval ppl: the text has %zu tokens, of which none can be predicted", p->n);
    return EXIT_INPUT;
}

/* Predicts the tokens [first, n) of a chunk of n ids. Chunks that overlap are cut out of the text
 * as they are; others begin as texts of this model do. llama.cpp makes the same difference. */
static int predict(struct perplexity *p, const int32_t *ids, size_t n, size_t first) {
    wisp_error error;
    memcpy(p->chunk, ids, n * sizeof *ids);
    if (p->has_first && p->stride == 0)
        p->chunk[0] = p->ids[0];
    if (wisp_score(p->session, p->chunk, n, first, p->logprobs, &error) != WISP_OK)
        return complain_of(&error);
    for (size_t t = first; t < n; t++) {
        const double loss = -(double)p->logprobs[t - first];
        wisp_text text = {0};
        wisp_token_text(p->model, ids[t], &text);
        p->loss += loss;
        p->squares += loss * loss;
        p->result->tokens++;
        p->result->bytes += text.length;
    }
    p->result->chunks++;
    return EXIT_GOOD;
}

/* Predicts the tokens of all chunks. As llama.cpp's program does, it leaves out the token in the
 * middle of a chunk, which only the first half predicts, and with a stride a last chunk that ends
 * where the text does. */
static int predict_all(struct perplexity *p) {
    struct progress progress;
    int code = EXIT_GOOD;
    if (p->n <= p->context)
        return predict(p, p->ids, p->n, 1);
    const size_t step = p->stride ? p->stride : p->context;
    const size_t predicted = p->stride ? p->stride : p->context - p->context / 2 - 1;
    const size_t chunks =
        p->stride ? (p->n - p->context + step - 1) / step : (p->n - p->context) / step + 1;
    progress_start(&progress, "chunks");
    for (size_t i = 0; i < chunks && code == EXIT_GOOD; i++) {
        code = predict(p, p->ids + i * step, p->context, p->context - predicted);
        if (was_interrupted())
            code = EXIT_INTERRUPTED;
        progress_show(&progress, i + 1, (double)(i + 1) / (double)chunks);
    }
    progress_end(&progress);
    return code;
}

static int evaluate(struct perplexity *p, wisp_text text, unsigned long context) {
    struct ppl_result *r = p->result;
    wisp_model_info info;
    wisp_model_get_info(p->model, &info);
    p->context = context ? context : USUAL_CONTEXT;
    if (p->context > info.max_tokens && !context)
        p->context = info.max_tokens;
    if (p->context > info.max_tokens || p->context < LEAST_CONTEXT) {
        complain("--context %zu: the model takes %d to %u tokens", p->context, LEAST_CONTEXT,
                 info.max_tokens);
        return EXIT_USAGE;
    }
    if (p->stride >= p->context) {
        complain("--stride %zu: expected a number below the %zu tokens of a chunk", p->stride,
                 p->context);
        return EXIT_USAGE;
    }
    int code = tokenize(p, text);
    if (code != EXIT_GOOD)
        return code;
    p->chunk = malloc(p->context * sizeof *p->chunk);
    p->logprobs = malloc(p->context * sizeof *p->logprobs);
    if (!p->chunk || !p->logprobs)
        return complain_of_memory();
    code = predict_all(p);
    if (code != EXIT_GOOD)
        return code;
    const double n = (double)r->tokens, mean = p->loss / n;
    const double variance = n > 1 ? (p->squares / n - mean * mean) / (n - 1) : 0;
    r->context = p->context;
    r->compute = info.compute;
    r->kernels = info.kernels;
    r->perplexity = exp(mean);
    r->standard_error = sqrt(fmax(variance, 0)) * r->perplexity;
    r->bits_per_byte = r->bytes > 0 ? p->loss / log(2) / (double)r->bytes : NAN;
    return EXIT_GOOD;
}

int ppl_evaluate(const struct model_arguments *arguments, const char *path, unsigned long context,
                 unsigned long stride, struct ppl_result *result) {
    struct perplexity p = {.stride = stride, .result = result};
    char *text = NULL;
    size_t length;
    *result = (struct ppl_result){0};
    int code = read_whole_file(path, &text, &length);
    if (code == EXIT_GOOD)
        code = open_model(arguments, &p.model, &p.session);
    if (code == EXIT_GOOD) {
        watch_signals(p.session);
        code = evaluate(&p, (wisp_text){text, length}, context);
        watch_signals(NULL);
    }
    wisp_session_close(p.session);
    wisp_model_close(p.model);
    free(p.ids);
    free(p.chunk);
    free(p.logprobs);
    free(text);
    return code;
}
