/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/codec_reading.h"

#include <string.h>

#include "huggingface/json_file.h"
#include "huggingface/sorted_tokens.h"

wisp_status codec_fail_format(const struct codec_reading *r, const char *field, const char *what) {
    return fail(r->error, WISP_ERROR_FORMAT, r->file, field, "%s", what);
}

wisp_status codec_fail_unsupported(const struct codec_reading *r, const char *field,
                                   const struct json *value, const char *wanted) {
    return fail(r->error, WISP_ERROR_UNSUPPORTED, r->file, field, "%.64s is not supported, only %s",
                hf_shown(value), wanted);
}

wisp_status codec_cut_by(struct codec_reading *r, const struct pretokenizer *found) {
    const size_t length = strcspn(found->names, " ");
    r->model = "gpt2";
    r->pre = arena_copy_text(&r->dir->arena, found->names, length);
    return r->pre ? WISP_OK : fail_memory(r->error, length);
}

wisp_status codec_name_file(struct codec_reading *r, const char *name) {
    char path[HF_PATH_BYTES];
    hf_path_of(path, r->folder, name);
    r->file = arena_copy_text(&r->dir->arena, path, strlen(path));
    return r->file ? WISP_OK : fail_memory(r->error, strlen(path));
}

/* ---- tokens --------------------------------------------------------------------------------- */

wisp_status codec_put_token(struct codec_reading *r, uint64_t id, wisp_text text) {
    if (id >= r->capacity)
        return fail(r->error, WISP_ERROR_FORMAT, r->file, "vocab",
                    "\"%.60s\" has id %llu, but config.json has a vocab_size of %lu", text.bytes,
                    (unsigned long long)id, (unsigned long)r->capacity);
    if (r->tokens[id].bytes)
        return fail(r->error, WISP_ERROR_FORMAT, r->file, "vocab",
                    "\"%.60s\" and \"%.60s\" have one id", text.bytes, r->tokens[id].bytes);
    r->tokens[id] = text;
    r->types[id] = TOKEN_NORMAL;
    return WISP_OK;
}

wisp_status codec_sort_tokens(struct codec_reading *r) {
    r->n_sorted = 0;
    for (uint32_t i = 0; i < r->capacity; i++)
        if (r->tokens[i].bytes)
            r->sorted[r->n_sorted++] = &r->tokens[i];
    return hf_sort_texts(r->sorted, r->n_sorted, r->tokens, r->file, r->error);
}

int32_t codec_find_token(const struct codec_reading *r, wisp_text text) {
    return hf_find_text(r->sorted, r->n_sorted, r->tokens, text);
}

bool codec_is_beyond(const struct codec_reading *r, const struct json *entry, uint64_t id) {
    return id >= r->capacity && json_is(json_get(entry, "special"), JSON_TRUE);
}

wisp_status codec_add_token(struct codec_reading *r, const struct json *entry, uint64_t id) {
    static const char field[] = "added_tokens";
    const struct json *content = json_get(entry, "content");
    bool is_special = false;
    uint8_t flags;
    if (!json_is(content, JSON_STRING) || content->text_length == 0)
        return codec_fail_format(r, field, "every added token needs a text as its content");
    if (codec_is_beyond(r, entry, id))
        return WISP_OK;
    const wisp_text text = json_text(content);
    const int32_t own = codec_find_token(r, text);
    if (own < 0 && id == r->next_id) {
        TRY(codec_put_token(r, id, text));
        r->next_id++;
    } else if (own < 0 || (uint64_t)own != id) {
        return fail(r->error, WISP_ERROR_FORMAT, r->file, field,
                    "\"%.60s\" has id %llu, which is neither its own in the vocabulary nor the "
                    "next free one",
                    text.bytes, (unsigned long long)id);
    }
    if (!hf_read_added_flags(entry, &flags, &is_special))
        return codec_fail_format(r, field, "flags are true or false");
    r->types[id] = is_special ? TOKEN_CONTROL : TOKEN_USER_DEFINED;
    r->flags[id] = flags;
    return WISP_OK;
}
