/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/hub_models.h"

#include <string.h>

#include "base/byte_order.h"
#include "base/status.h"
#include "cli/progress.h"
#include "http/hub.h"
#include "http/hub_names.h"

/* ---- refusals before the weights come ------------------------------------------------------- */

/* Fails as opening the model would, without the list of all that wisp computes, and says what that
 * spared. */
static wisp_status refuse(const wisp_error *found, const char *spared, wisp_error *error) {
    const char *list = strstr(found->message, ", only ");
    const size_t length = list ? (size_t)(list - found->message) : strlen(found->message);
    return fail(error, found->status, NULL, NULL, "%.*s: %s", (int)length, found->message, spared);
}

/* Fails if wisp has no such architecture: opens a file of one key, which fails in any case. */
static wisp_status judge_gguf(const char *architecture, wisp_error *error) {
    static const char key[] = "general.architecture";
    enum { VERSION = 3, TEXT = 8, KEY = 24, TYPE = KEY + 8 + sizeof key - 1, VALUE = TYPE + 4 };
    unsigned char bytes[256] = "GGUF";
    const size_t length = strlen(architecture);
    wisp_model *model = NULL;
    wisp_error found;
    if (length >= sizeof bytes - VALUE - 8)
        return WISP_OK;
    store_u32(bytes + 4, VERSION);
    store_u64(bytes + 16, 1); /* a key, and no tensors */
    store_u64(bytes + KEY, sizeof key - 1);
    memcpy(bytes + KEY + 8, key, sizeof key - 1);
    store_u32(bytes + TYPE, TEXT);
    store_u64(bytes + VALUE, length);
    snprintf((char *)bytes + VALUE + 8, sizeof bytes - VALUE - 8, "%s", architecture);
    const wisp_source source = {.size = VALUE + 8 + length, .data = bytes};
    const wisp_status status = wisp_model_open_source(&source, NULL, &model, &found);
    wisp_model_close(model);
    if (status == WISP_ERROR_UNSUPPORTED && strcmp(found.field, key) == 0)
        return refuse(&found, "nothing more of it was fetched", error);
    return WISP_OK;
}

/* Fails if the configuration names a type of models that wisp does not have. */
static wisp_status judge_folder(const char *path, wisp_error *error) {
    wisp_file *file = NULL;
    wisp_error found;
    const wisp_status status = wisp_file_open(path, &file, &found);
    wisp_file_close(file);
    if (status == WISP_ERROR_UNSUPPORTED && strcmp(found.field, "model_type") == 0)
        return refuse(&found, "its weights were not fetched", error);
    return WISP_OK;
}

/* ---- finding -------------------------------------------------------------------------------- */

static void show(void *context, uint64_t loaded, uint64_t total) {
    struct progress *progress = context;
    progress_show(progress, (size_t)(loaded / 1000), total ? (double)loaded / (double)total : -1);
}

wisp_status find_model(const char *name, enum hub_preference preference, bool offline,
                       char path[PATH_MAX], const char **found, wisp_error *error) {
    struct progress progress;
    const struct hub_options options = {.offline = offline,
                                        .folder_first = preference == HUB_FOLDER_FIRST,
                                        .cancelled = was_interrupted,
                                        .progress = show,
                                        .judge_gguf = judge_gguf,
                                        .judge_folder = judge_folder,
                                        .context = &progress};
    *found = name;
    if (!hub_is_name(name))
        return WISP_OK;
    *found = path;
    progress_start(&progress, "kB");
    const wisp_status status = hub_find(name, &options, path, error);
    progress_end(&progress);
    return status;
}
