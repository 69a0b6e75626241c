/* SPDX-License-Identifier: Apache-2.0
 * The policies that come with wisp. */
#include <stddef.h>
#include <string.h>

#include "wisp.h"

static const struct {
    const char *name, *text;
} policies[] = {
    {"default",
     "# Encoders and decoders: the linear layers of attention and feed-forward blocks are\n"
     "# quantised. The token embedding, the head and the routers of experts keep their type.\n"
     "token_embd.weight        keep  optional\n"
     "output.weight            keep  optional\n"
     "*.ffn_gate_inp*.weight   keep  optional\n"
     "blk.*.weight             type\n"
     "*                        keep  optional\n"},
    {"glm-4.7-flash",
     "# GLM-4.7-Flash, under the names of GGUF files and of Hugging Face folders: the\n"
     "# feed-forward layers of routed and shared experts are quantised. The router, the "
     "embeddings,\n"
     "# the head, norms, attention and the dense feed-forward layer keep their type.\n"
     "blk.*.ffn_gate_exps.weight               type  optional\n"
     "blk.*.ffn_up_exps.weight                 type  optional\n"
     "blk.*.ffn_gate_up_exps.weight            type  optional\n"
     "blk.*.ffn_down_exps.weight               type  optional\n"
     "blk.*.ffn_*_shexp.weight                 type  optional\n"
     "model.layers.*.mlp.experts.*             type  optional\n"
     "model.layers.*.mlp.shared_experts.*      type  optional\n"
     "*                                        keep\n"},
};

enum { POLICIES = sizeof policies / sizeof *policies };

const char *wisp_policy_name(size_t index) {
    return index < POLICIES ? policies[index].name : NULL;
}

const char *wisp_policy_text(const char *name) {
    for (size_t i = 0; name && i < POLICIES; i++)
        if (strcmp(policies[i].name, name) == 0)
            return policies[i].text;
    return NULL;
}
