/* SPDX-License-Identifier: Apache-2.0
 * Reads any bytes as JSON: the result is a tree whose every part can be read, or an error. */
#include "base/json.h"
#include "fuzz.h"

static void walk(const struct json *value) {
    int64_t i;
    uint64_t u;
    double d;
    bool b;
    size_t members = 0;
    if (value->text && strlen(value->text) > value->text_length)
        abort();
    if (json_to_u64(value, &u) && (!json_to_double(value, &d) || d < 0))
        abort();
    json_to_i64(value, &i);
    json_to_bool(value, &b);
    json_equals(value, "x");
    for (const struct json *member = value->first; member; member = member->next) {
        if (value->type == JSON_OBJECT && members < 8 &&
            !memchr(member->key, 0, member->key_length) && json_get(value, member->key) != member)
            abort();
        walk(member);
        members++;
    }
    if (members != value->count)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct arena arena = {0};
    const struct json *root;
    wisp_error error;
    const wisp_status status =
        json_parse(&arena, (const char *)data, size, "fuzz.json", &root, &error);
    fuzz_check(status, &error);
    if (status == WISP_OK)
        walk(root);
    arena_release(&arena);
    return 0;
}
