/* SPDX-License-Identifier: Apache-2.0
 * A session's memory of its last text, and a text that is generated little by little. */
#ifndef WISP_ENGINE_GENERATION_H
#define WISP_ENGINE_GENERATION_H

#include "attention/kv_cache.h"
#include "base/workspace.h"
#include "engine/reply.h"
#include "text/codec.h"

/* A session keeps this of the last text that it generated or read. */
struct generation {
    struct kv_cache cache;
    struct token_list past;     /* the tokens whose keys and values are in the cache */
    struct workspace space;     /* holds logits and the working memory of the pass */
    size_t starts[2];           /* of the pass' batch */
    struct kv_cache *caches[1]; /* likewise */
    double pause_at;            /* a pass pauses at this time (base/clock.h) */
    size_t blocks;              /* that the pass was asked about since it began or went on */
    bool paused;
};

/* Releases a generation; NULL is allowed. */
void generation_close(struct generation *generation);

/* A text that a session generates little by little, for callers that cannot wait for it:
 *
 *     status = writer_open(&writer, session, prompt, &options, &error);
 *     while (status == WISP_OK && !writer.ended)
 *         status = writer_run(&writer, 0.01, &error);
 *     writer_close(&writer);
 *
 * Until it is closed the session makes no other call. A text that is not wanted any more is just
 * closed. The text has the same bytes as that of wisp_generate. */
struct writer {
    wisp_session *session;
    wisp_generate_options options; /* what they point to outlives the writer */
    struct token_list prompt;
    struct reply reply; /* points to `options` and `result`: a writer keeps its place */
    int32_t last;       /* the last token */
    bool in_pass;       /* a pass has begun and not ended */
    bool ended;         /* `result` is complete */
    wisp_generation result;
};

/* Opens a writer, which the caller closes, also after an error. Fails as wisp_generate does. */
wisp_status writer_open(struct writer *writer, wisp_session *session, wisp_text prompt,
                        const wisp_generate_options *options, wisp_error *error);

/* Goes on until the text has ended or for about `seconds`, and for one block of a pass at least.
 * After a failure the writer may only be closed. */
wisp_status writer_run(struct writer *writer, double seconds, wisp_error *error);

void writer_close(struct writer *writer);

#endif
