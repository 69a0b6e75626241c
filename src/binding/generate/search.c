/* SPDX-License-Identifier: Apache-2.0 */
#include "binding/generate/search.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/number_text.h"
#include "engine/beams.h"

struct search {
    struct engine *engine;
    struct arena arena; /* owns the ids that end a text */
    struct beam_search *beams;
    size_t found; /* texts */
};

EXPORT("search_new") struct search *search_new(struct engine *engine) {
    struct search *search = calloc(1, sizeof *search);
    if (search)
        search->engine = engine;
    return search;
}

EXPORT("search_free") void search_free(struct search *search) {
    beams_close(search->beams);
    arena_release(&search->arena);
    free(search);
}

/* Appends a text to the JSON of the run. */
static void take_hypothesis(void *context, const wisp_hypothesis *h) {
    struct search *search = context;
    struct engine *engine = search->engine;
    put(engine, "%s{\"text\":", search->found++ ? "," : "");
    put_string(engine, h->text);
    put(engine, ",\"score\":%s,\"logprob\":%s,\"end\":\"%s\",\"ids\":[",
        number_text(h->score, 17).text, number_text(h->logprob, 17).text, wisp_end_name(h->end));
    for (size_t i = 0; i < h->tokens; i++)
        put(engine, "%s%d", i ? "," : "", h->ids[i]);
    put(engine, "]}");
}

EXPORT("search_open")
wisp_status search_open(struct search *search, const char *prompt, size_t length, uint32_t n,
                        uint32_t max_tokens, double length_penalty, const int32_t *stop_id,
                        size_t stop_ids) {
    struct engine *engine = search->engine;
    int32_t *copy;
    ARENA_TAKE(&search->arena, copy, stop_ids + 1, &engine->error);
    if (stop_ids > 0)
        memcpy(copy, stop_id, stop_ids * sizeof *copy);
    const wisp_beam_options options = {.beams = n,
                                       .max_tokens = max_tokens,
                                       .length_penalty = (float)length_penalty,
                                       .stop_id = copy,
                                       .stop_ids = stop_ids,
                                       .hypothesis = take_hypothesis,
                                       .context = search};
    return beams_open(&search->beams, engine->session, (wisp_text){prompt, length}, &options,
                      &engine->error);
}

bool search_ended(const struct search *search) {
    return beams_ended(search->beams);
}

EXPORT("search_run")
wisp_status search_run(struct search *search, double seconds) {
    struct engine *engine = search->engine;
    begin(engine, "{\"found\":[");
    TRY(beams_run(search->beams, seconds, &engine->error));
    put(engine, "],\"ended\":%s}", search_ended(search) ? "true" : "false");
    return engine->out_of_memory ? fail_memory(&engine->error, engine->capacity) : WISP_OK;
}
