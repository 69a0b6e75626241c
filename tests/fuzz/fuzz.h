/* SPDX-License-Identifier: Apache-2.0
 * Shared by the fuzz targets. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wisp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Aborts unless the outcome for a malformed file is success or an error with a fitting status and a
 * message. */
static inline void fuzz_check(wisp_status status, const wisp_error *error) {
    if (status == WISP_OK)
        return;
    if (status != WISP_ERROR_FORMAT && status != WISP_ERROR_UNSUPPORTED &&
        status != WISP_ERROR_NOT_FOUND)
        abort();
    if (error->status != status || !*error->message)
        abort();
}

/* Uses an open model as a program would. NULL does nothing. */
static inline void fuzz_use(const wisp_model *model) {
    const wisp_text texts[] = {wisp_text_of("The man is eating [MASK], \xC3\xA9t\xCC\x81!"),
                               wisp_text_of("")};
    wisp_session *session = NULL;
    wisp_error error;
    if (!model)
        return;
    const size_t size = wisp_model_dimensions(model);
    float *rows = malloc(2 * size * sizeof *rows);
    if (!rows || wisp_session_open(model, NULL, &session, &error) != WISP_OK)
        abort();
    fuzz_check(wisp_embed(session, texts, 2, NULL, rows, &error), &error);
    wisp_session_close(session);
    free(rows);
    wisp_model_info info;
    const char *key;
    char value[40];
    wisp_model_get_info(model, &info);
    for (size_t i = 0; wisp_model_metadata(model, i, &key, value, sizeof value); i++)
        if (strlen(value) >= sizeof value)
            abort();
}

#endif
