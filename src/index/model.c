/* SPDX-License-Identifier: Apache-2.0
 * Tells whether an index and a session have the same model. The fingerprint of a model is its
 * embedding of a sentence: files that hold one model in different formats and quantisations have
 * different hashes, but their embeddings fit together. */
#include <stdlib.h>
#include <string.h>

#include "base/cosine.h"
#include "base/number_text.h"
#include "engine/session.h"
#include "formats/directory.h"
#include "index/index.h"

/* js/index/vector-index.js has the same sentence. It must not change. */
static const char sentence[] = "The quick brown fox jumps over the lazy dog.";

static wisp_status embed_sentence(wisp_session *session, size_t dimensions, float *row,
                                  wisp_error *error) {
    const wisp_text text = wisp_text_of(sentence);
    const wisp_embed_options options = {.prompt = "", .dimensions = dimensions};
    return wisp_embed(session, &text, 1, &options, row, error);
}

/* Returns a name of the model that fits the file. */
static wisp_text name_of(const wisp_session *session) {
    wisp_model_info info;
    wisp_model_get_info(session->model, &info);
    const wisp_text name = wisp_text_of(info.name);
    return name.length <= INDEX_MOST_NAME && index_is_utf8(name) ? name : wisp_text_of("");
}

static wisp_status keep_model(wisp_index *index, wisp_session *session, wisp_error *error) {
    const wisp_text name = name_of(session);
    index->model = arena_copy_text(&index->fixed, name.bytes, name.length);
    if (!index->model)
        return fail_memory(error, name.length);
    ARENA_TAKE(&index->fixed, index->fingerprint, index->dimensions, error);
    return embed_sentence(session, index->dimensions, index->fingerprint, error);
}

wisp_status wisp_index_create(wisp_session *session, size_t dimensions, wisp_index_kind kind,
                              wisp_index **index, wisp_error *error) {
    TRY(require(index, "index", error));
    *index = NULL;
    if (!wisp_index_kind_name(kind))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "kind", "%u is not a kind", (unsigned)kind);
    const size_t most = session ? wisp_model_dimensions(session->model) : INDEX_MOST_DIMENSIONS;
    if (dimensions == 0 && session)
        dimensions = most;
    if (dimensions == 0 || dimensions > most || dimensions > INDEX_MOST_DIMENSIONS)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "dimensions", "%zu; 1 to %zu are possible",
                    dimensions, most);
    TRY(index_new(dimensions, kind, index, error));
    const wisp_status status = session ? keep_model(*index, session, error) : WISP_OK;
    if (status != WISP_OK) {
        wisp_index_close(*index);
        *index = NULL;
    }
    return status;
}

wisp_status wisp_index_check_model(const wisp_index *index, wisp_session *session,
                                   wisp_error *error) {
    TRY(require(index, "index", error));
    TRY(require(session, "session", error));
    if (!index->fingerprint)
        return WISP_OK;
    const size_t n = index->dimensions, own = wisp_model_dimensions(session->model);
    wisp_model_info info;
    wisp_model_get_info(session->model, &info);
    if (n > own)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "model",
                    "the index has %zu dimensions of the model %s, and %s makes %zu", n,
                    index->model, info.name, own);
    float *row = malloc(n * sizeof *row);
    if (!row)
        return fail_memory(error, n * sizeof *row);
    const wisp_status status = embed_sentence(session, n, row, error);
    const double same = status == WISP_OK ? cosine(row, index->fingerprint, n) : 0;
    free(row);
    TRY(status);
    if (same < 0.9)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "model",
                    "the index has vectors of the model %s, and those of %s do not fit them "
                    "(cosine %s)",
                    index->model, info.name, number_text(same, 2).text);
    return WISP_OK;
}
