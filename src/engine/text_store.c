/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/text_store.h"

#include <stdlib.h>

void prompt_cache_close(struct prompt_cache *prompts) {
    if (prompts)
        prompts->store.close(prompts->store.context);
    free(prompts);
}
