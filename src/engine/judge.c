/* SPDX-License-Identifier: Apache-2.0
 * Scores texts with Qwen3-Reranker, a model that generates: its prompt asks whether a text meets a
 * query. Source of the prompt: its model card. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "engine/session.h"
#include "tokenizers/codec_parts.h"

/* Tokens of the prompt that no text becomes. */
enum mark { START, END, THINK, THOUGHT, MARKS };
static const char *const marks[MARKS] = {"<|im_start|>", "<|im_end|>", "<think>", "</think>"};

/* A mark of the prompt, and the text up to the next one. */
struct part {
    enum mark mark;
    const char *text;
};

static const struct part before[] = {
    {START, "system\nJudge whether the Document meets the requirements based on the Query and the "
            "Instruct provided. Note that the answer can only be \"yes\" or \"no\"."},
    {END, "\n"},
    {START, "user\n"}};
static const char instruction[] =
    "<Instruct>: Given a web search query, retrieve relevant passages "
    "that answer the query\n<Query>: ";
static const char between[] = "\n<Document>: ";
static const struct part after[] = {
    {END, "\n"}, {START, "assistant\n"}, {THINK, "\n\n"}, {THOUGHT, "\n\n"}};

/* The prompt that a model is asked with, and the tokens of its answers. A session makes it once. */
struct judge {
    int32_t mark[MARKS], yes, no;
    struct token_list ids; /* of the prompt's text */
    struct token_list end; /* of what follows that */
    struct workspace text; /* query and text, joined */
    size_t begun;          /* ids of what comes before the query */
    float *logits;         /* [vocabulary_size] */
};

static wisp_status encode_text(const wisp_model *model, wisp_text text, struct token_list *list,
                               wisp_error *error) {
    return text.length > 0 ? codec_encode_text(model->codec, text, false, list, error) : WISP_OK;
}

static wisp_status encode_parts(const wisp_model *model, const struct judge *j,
                                const struct part *parts, size_t n, struct token_list *list,
                                wisp_error *error) {
    for (size_t i = 0; i < n; i++) {
        TRY(token_list_add(list, j->mark[parts[i].mark], error));
        TRY(encode_text(model, wisp_text_of(parts[i].text), list, error));
    }
    return WISP_OK;
}

static wisp_status fail_token(const wisp_model *model, const char *text, wisp_error *error) {
    return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, CODEC_TOKENS,
                "the model has no token %s, with which texts are judged", text);
}

/* Finds the token that an answer is. */
static wisp_status find_answer(const wisp_model *model, const char *text, int32_t *id,
                               wisp_error *error) {
    struct token_list list = {0};
    const wisp_status status = encode_text(model, wisp_text_of(text), &list, error);
    const bool found = list.count == 1;
    if (found)
        *id = list.ids[0];
    free(list.ids);
    TRY(status);
    return found ? WISP_OK : fail_token(model, text, error);
}

static wisp_status judge_open(struct judge *j, const wisp_model *model, wisp_error *error) {
    const size_t bytes = model->network.config.vocabulary_size * sizeof *j->logits;
    if (!model->network.architecture->judges)
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "general.architecture",
                    "the model does not score pairs of texts: it is neither a cross-encoder nor "
                    "a Qwen3-Reranker");
    for (size_t m = 0; m < MARKS; m++) {
        j->mark[m] = codec_spelled(&model->dir, marks[m]);
        if (j->mark[m] < 0)
            return fail_token(model, marks[m], error);
    }
    TRY(find_answer(model, "yes", &j->yes, error));
    TRY(find_answer(model, "no", &j->no, error));
    TRY(encode_parts(model, j, before, sizeof before / sizeof *before, &j->ids, error));
    TRY(encode_parts(model, j, after, sizeof after / sizeof *after, &j->end, error));
    j->begun = j->ids.count;
    j->logits = malloc(bytes);
    if (!j->logits)
        return fail_memory(error, bytes);
    return model->max_tokens > j->begun + j->end.count
               ? WISP_OK
               : fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "context_length",
                      "%u tokens, and the prompt that judges texts has more", model->max_tokens);
}

void judge_close(struct judge *j) {
    if (!j)
        return;
    free(j->ids.ids);
    free(j->end.ids);
    free(j->logits);
    workspace_release(&j->text);
    free(j);
}

static wisp_status judge_of(wisp_session *session, wisp_error *error) {
    if (session->judge)
        return WISP_OK;
    struct judge *made = calloc(1, sizeof *made);
    if (!made)
        return fail_memory(error, sizeof *made);
    const wisp_status status = judge_open(made, session->model, error);
    if (status == WISP_OK)
        session->judge = made;
    else
        judge_close(made);
    return status;
}

/* Makes the ids of the prompt for a text. */
static wisp_status make_prompt(wisp_session *session, wisp_text query, wisp_text text,
                               wisp_error *error) {
    const wisp_model *model = session->model;
    struct judge *j = session->judge;
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
    TRY(encode_text(model, joined, &j->ids, error));
    if (j->ids.count > room) {
        j->ids.count = room;
        session->workers[0].stats.truncated_texts++;
    }
    for (size_t i = 0; i < j->end.count; i++)
        TRY(token_list_add(&j->ids, j->end.ids[i], error));
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
    TRY(judge_of(session, error));
    const struct judge *j = session->judge;
    for (size_t i = 0; i < n; i++) {
        TRY(make_prompt(session, query, texts[i], error));
        TRY(wisp_next_logits(session, j->ids.ids, j->ids.count, j->logits, error));
        scores[i] = (float)(1 / (1 + exp((double)j->logits[j->no] - (double)j->logits[j->yes])));
    }
    return WISP_OK;
}
