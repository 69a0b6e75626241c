/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/sorted_tokens.h"

#include <stdlib.h>
#include <string.h>

static int compare_texts(const void *a, const void *b) {
    const wisp_text x = **(const wisp_text *const *)a, y = **(const wisp_text *const *)b;
    const int order = memcmp(x.bytes, y.bytes, x.length < y.length ? x.length : y.length);
    return order != 0 ? order : (x.length > y.length) - (x.length < y.length);
}

wisp_status hf_sort_texts(const wisp_text **sorted, size_t count, const wisp_text *tokens,
                          const char *file, wisp_error *error) {
    qsort((void *)sorted, count, sizeof *sorted, compare_texts);
    for (size_t i = 1; i < count; i++)
        if (compare_texts(&sorted[i - 1], &sorted[i]) == 0)
            return fail(error, WISP_ERROR_FORMAT, file, "vocab",
                        "tokens %ld and %ld are both \"%.60s\"", (long)(sorted[i - 1] - tokens),
                        (long)(sorted[i] - tokens), sorted[i]->bytes);
    return WISP_OK;
}

int32_t hf_find_text(const wisp_text *const *sorted, size_t count, const wisp_text *tokens,
                     wisp_text text) {
    const wisp_text *key = &text;
    const wisp_text *const *found =
        bsearch(&key, (const void *)sorted, count, sizeof *sorted, compare_texts);
    return found ? (int32_t)(*found - tokens) : -1;
}
