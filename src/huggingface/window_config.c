/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/window_config.h"

#include <stdio.h>

#include "huggingface/decoder.h"

enum { KEY_BYTES = 96, USUAL_WINDOW = 4096, USUAL_FIRST_LOCAL = 28, MOST_LAYERS = 1 << 16 };

static const char WINDOW[] = "sliding_window", USES[] = "use_sliding_window",
                  TYPES[] = "layer_types", FIRST_LOCAL[] = "max_window_layers",
                  SLIDING[] = "sliding_attention", FULL[] = "full_attention";

/* Reads the number of tokens in a window; 0 if it leaves nothing out. */
static wisp_status read_window(const struct hf_config *config, uint32_t *window,
                               wisp_error *error) {
    static const struct hf_field field = {WINDOW, NULL, NULL};
    uint64_t positions = 0;
    *window = 0;
    if (json_is(json_get(config->root, WINDOW), JSON_NULL))
        return WISP_OK;
    TRY(hf_read_size_or(config, &field, USUAL_WINDOW, window, error));
    json_to_u64(json_get(config->root, "max_position_embeddings"), &positions);
    if (*window >= positions)
        *window = 0;
    return WISP_OK;
}

static wisp_status put_window(struct directory *dir, const char *architecture, uint32_t window,
                              wisp_error *error) {
    char key[KEY_BYTES];
    snprintf(key, sizeof key, "%s.attention.sliding_window", architecture);
    return directory_put_u32(dir, key, window, error);
}

/* Adds the pattern, which says of each layer whether it is local. */
static wisp_status put_pattern(struct directory *dir, const char *architecture, const bool *local,
                               uint32_t layers, wisp_error *error) {
    char key[KEY_BYTES];
    snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", architecture);
    return directory_put_numbers(dir, key, VALUE_BOOL, local, layers, error);
}

wisp_status hf_put_window(struct directory *dir, const struct hf_config *config,
                          const char *architecture, wisp_error *error) {
    uint32_t window;
    TRY(read_window(config, &window, error));
    return window > 0 ? put_window(dir, architecture, window, error) : WISP_OK;
}

wisp_status hf_put_layer_windows(struct directory *dir, const struct hf_config *config,
                                 const char *architecture, wisp_error *error) {
    static const struct hf_field field = {"num_hidden_layers", NULL, NULL};
    const struct json *uses = json_get(config->root, USES), *list = json_get(config->root, TYPES);
    const struct json *first = json_get(config->root, FIRST_LOCAL);
    uint64_t first_local = USUAL_FIRST_LOCAL;
    uint32_t layers, window = 0, n_local = 0;
    bool used = false, *local;
    TRY(hf_read_size_or(config, &field, 0, &layers, error));
    if (!json_is_absent(uses) && !json_to_bool(uses, &used))
        return fail(error, WISP_ERROR_FORMAT, config->file, USES, "expected true or false");
    used = used && !json_is(json_get(config->root, WINDOW), JSON_NULL);
    if (used)
        TRY(read_window(config, &window, error));
    if (first && !json_to_u64(first, &first_local))
        return fail(error, WISP_ERROR_FORMAT, config->file, FIRST_LOCAL,
                    "%.32s is not a whole number", hf_shown(first));
    if (layers > MOST_LAYERS) /* the architecture's page refuses it */
        return WISP_OK;
    ARENA_TAKE(&dir->arena, local, layers, error);
    if (!json_is_absent(list))
        TRY(hf_read_layer_types(config, SLIDING, FULL, layers, local, error));
    else
        for (uint32_t i = 0; i < layers; i++)
            local[i] = used && i >= first_local;
    for (uint32_t i = 0; i < layers; i++)
        n_local += local[i];
    if (n_local > 0 && !used)
        return fail(error, WISP_ERROR_FORMAT, config->file, TYPES,
                    "%s, but %s and %s give no window", SLIDING, USES, WINDOW);
    if (window == 0 || n_local == 0)
        return WISP_OK;
    TRY(put_window(dir, architecture, window, error));
    return put_pattern(dir, architecture, local, layers, error);
}

wisp_status hf_put_periodic_windows(struct directory *dir, const struct hf_config *config,
                                    const char *architecture, uint32_t usual, bool may_differ,
                                    wisp_error *error) {
    static const struct hf_field layers_field = {"num_hidden_layers", NULL, NULL};
    static const struct hf_field period_field = {"sliding_window_pattern", NULL, NULL};
    static const struct hf_field window_field = {WINDOW, NULL, NULL};
    const struct json *list = json_get(config->root, TYPES);
    uint32_t layers, window, period = usual, n_local = 0;
    bool *local, is_usual = true;
    TRY(hf_read_size_or(config, &layers_field, 0, &layers, error));
    if (may_differ && json_is_absent(list))
        TRY(hf_read_size_or(config, &period_field, usual, &period, error));
    if (layers > MOST_LAYERS) /* the architecture's page refuses it */
        return WISP_OK;
    ARENA_TAKE(&dir->arena, local, layers, error);
    if (!json_is_absent(list))
        TRY(hf_read_layer_types(config, SLIDING, FULL, layers, local, error));
    for (uint32_t i = 0; i < layers; i++) {
        if (json_is_absent(list))
            local[i] = (i + 1) % period != 0;
        n_local += local[i];
        is_usual = is_usual && local[i] == ((i + 1) % usual != 0);
    }
    if (n_local == 0 && json_is(json_get(config->root, WINDOW), JSON_NULL))
        return put_window(dir, architecture, 0, error);
    TRY(hf_read_size_or(config, &window_field, USUAL_WINDOW, &window, error));
    TRY(put_window(dir, architecture, window, error));
    return is_usual ? WISP_OK : put_pattern(dir, architecture, local, layers, error);
}
