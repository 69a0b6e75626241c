/* SPDX-License-Identifier: Apache-2.0
 * Scores texts with Qwen3-Reranker, a model that generates: its prompt asks whether a text meets a
 * query. Source of the prompt: its model card. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "engine/session.h"
#include "tokenizers/codec_parts.h"

static const char before[] =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    "the Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n"
    "<|im_start|>user\n";
static const char instruction[] =
    "<Instruct>: Given a web search query, retrieve relevant passages "
    "that answer the query\n<Query>: ";
static const char between[] = "\n<Document>: ";
static const char after[] = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";

/* Tokens of the prompt that no text becomes. */
enum { MARKS = 4 };
static const char *const marks[MARKS] = {"<|im_start|>", "<|im_end|>", "<think>", "</think>"};

/* The prompt that a model is asked with, and the tokens of its answers. */
struct judge {
    wisp_session *session;
    int32_t mark[MARKS], yes, no;
    struct token_list ids; /* of the prompt's text */
    struct token_list end; /* of what follows that */
    struct workspace text; /* query and text, joined */
    size_t begun;          /* ids of what comes before the query */
    float *logits;         /* [vocabulary_size] */
};

static wisp_status encode_text(const struct judge *j, wisp_text text, struct token_list *list,
                               wisp_error *error) {
    return text.length > 0 ? codec_encode_text(j->session->model->codec, text, false, list, error)
                           : WISP_OK;
}

/* Returns the mark that the text begins with, or MARKS. */
static size_t mark_at(const char *text) {
    size_t m = 0;
    while (m < MARKS && strncmp(text, marks[m], strlen(marks[m])) != 0)
        m++;
    return m;
}

/* Appends the ids of a part of the prompt. */
static wisp_status encode(const struct judge *j, const char *text, struct token_list *list,
                          wisp_error *error) {
    const char *at = text;
    for (; *at; at++) {
        const size_t m = mark_at(at);
        if (m == MARKS)
            continue;
        TRY(encode_text(j, (wisp_text){text, (size_t)(at - text)}, list, error));
        TRY(token_list_add(list, j->mark[m], error));
        text = at + strlen(marks[m]);
        at = text - 1;
    }
    return encode_text(j, (wisp_text){text, (size_t)(at - text)}, list, error);
}

static wisp_status fail_token(const struct judge *j, const char *text, wisp_error *error) {
    return fail(error, WISP_ERROR_UNSUPPORTED, j->session->model->dir.file, "tokenizer.ggml.tokens",
                "the model has no token %s, with which texts are judged", text);
}

static wisp_status find_marks(struct judge *j, wisp_error *error) {
    wisp_text spelling;
    for (size_t m = 0; m < MARKS; m++)
        j->mark[m] = -1;
    for (int32_t id = 0; wisp_token_spelling(j->session->model, id, &spelling); id++)
        for (size_t m = 0; m < MARKS; m++)
            if (spelling.length == strlen(marks[m]) &&
                memcmp(spelling.bytes, marks[m], spelling.length) == 0)
                j->mark[m] = id;
    for (size_t m = 0; m < MARKS; m++)
        if (j->mark[m] < 0)
            return fail_token(j, marks[m], error);
    return WISP_OK;
}

/* Finds the token that an answer is. */
static wisp_status find_answer(const struct judge *j, const char *text, int32_t *id,
                               wisp_error *error) {
    struct token_list list = {0};
    const wisp_status status = encode(j, text, &list, error);
    const bool found = list.count == 1;
    if (found)
        *id = list.ids[0];
    free(list.ids);
    TRY(status);
    return found ? WISP_OK : fail_token(j, text, error);
}

static wisp_status judge_open(struct judge *j, wisp_error *error) {
    const wisp_model *model = j->session->model;
    const size_t bytes = model->network.config.vocabulary_size * sizeof *j->logits;
    if (strcmp(model->network.architecture->name, "qwen3") != 0)
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "general.architecture",
                    "the model does not score pairs of texts: it is not a cross-encoder, and no "
                    "Qwen3-Reranker");
    TRY(find_marks(j, error));
    TRY(find_answer(j, "yes", &j->yes, error));
    TRY(find_answer(j, "no", &j->no, error));
    TRY(encode(j, before, &j->ids, error));
    TRY(encode(j, after, &j->end, error));
    j->begun = j->ids.count;
    j->logits = malloc(bytes);
    if (!j->logits)
        return fail_memory(error, bytes);
    return model->max_tokens > j->begun + j->end.count
               ? WISP_OK
               : fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "context_length",
                      "%u tokens, and the prompt that judges texts has more", model->max_tokens);
}

static void judge_close(struct judge *j) {
    free(j->ids.ids);
    free(j->end.ids);
    free(j->logits);
    workspace_release(&j->text);
}

/* Makes the ids of the prompt for a text. */
static wisp_status make_prompt(struct judge *j, wisp_text query, wisp_text text,
                               wisp_error *error) {
    const wisp_model *model = j->session->model;
    const wisp_text parts[] = {wisp_text_of(instruction), query, wisp_text_of(between), text};
    const size_t room = model->max_tokens - j->end.count;
    wisp_text joined = {NULL, 0};
    for (size_t i = 0; i < 4; i++)
        joined.length += parts[i].length;
    TRY(workspace_reserve(&j->text, joined.length, error));
    char *at = j->text.base;
    joined.bytes = at;
    for (size_t i = 0; i < 4; at += parts[i++].length)
        if (parts[i].length > 0)
            memcpy(at, parts[i].bytes, parts[i].length);
    j->ids.count = j->begun;
    TRY(encode_text(j, joined, &j->ids, error));
    if (j->ids.count > room) {
        j->ids.count = room;
        j->session->workers[0].stats.truncated_texts++;
    }
    for (size_t i = 0; i < j->end.count; i++)
        TRY(token_list_add(&j->ids, j->end.ids[i], error));
    return WISP_OK;
}

static wisp_status judge_all(struct judge *j, wisp_text query, const wisp_text *texts, size_t n,
                             float *scores, wisp_error *error) {
    TRY(judge_open(j, error));
    for (size_t i = 0; i < n; i++) {
        TRY(make_prompt(j, query, texts[i], error));
        TRY(wisp_next_logits(j->session, j->ids.ids, j->ids.count, j->logits, error));
        scores[i] = (float)(1 / (1 + exp((double)j->logits[j->no] - (double)j->logits[j->yes])));
    }
    return WISP_OK;
}

wisp_status wisp_judge(wisp_session *session, wisp_text query, const wisp_text *texts, size_t n,
                       float *scores, wisp_error *error) {
    TRY(require(session, "session", error));
    TRY(require_texts(&query, 1, error));
    TRY(require_texts(texts, n, error));
    if (n == 0)
        return WISP_OK;
    TRY(require(scores, "scores", error));
    struct judge j = {.session = session};
    const wisp_status status = judge_all(&j, query, texts, n, scores, error);
    judge_close(&j);
    return status;
}
