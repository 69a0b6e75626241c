/* SPDX-License-Identifier: Apache-2.0
 * What WebAssembly modules leave out within functions, where the lists of src/products cannot say
 * it. The Makefile compiles a file that has a name of these once for the modules that only embed
 * and once for others. */
#ifndef WISP_BASE_PRODUCT_H
#define WISP_BASE_PRODUCT_H

#ifdef WISP_EMBED_ONLY
enum { ONLY_EMBEDS = 1 };
#else
enum { ONLY_EMBEDS = 0 };
/* Functions that only decoders use are there, and activations that only they have. */
#define DECODER_KERNELS
#endif

#ifdef __wasm__
enum { IS_MODULE = 1 };
#else
enum { IS_MODULE = 0 };
#endif

enum {
    /* Models that score, SPLADE, vectors of tokens: those of POOLING_RANK and others with heads. */
    RANKS = !ONLY_EMBEDS,
    /* Models of a token_size, with slopes, with disentangled attention or with experts. */
    PROJECTS = !ONLY_EMBEDS,
    /* CLIP's folders and its tokenizer, whose words end with a mark. */
    READS_CLIP = !IS_MODULE,
    /* Models whose heads give scores of several labels, and the heads of ModernBERT. */
    CLASSIFIES = !IS_MODULE,
    /* Layers that see only near keys. */
    SEES_NEAR = !ONLY_EMBEDS,
    /* The texts of tokens stay in memory beside the tokenizer's copies. Modules that only embed
     * return none, and WebAssembly memory never shrinks. */
    KEEPS_TOKEN_TEXTS = !ONLY_EMBEDS,
    /* A header is compared with a digest. For modules that only embed, JavaScript does that
     * (js/ranges/cold.js). */
    HEADER_MAY_BE_PINNED = !ONLY_EMBEDS,
    /* Models that generate have low-rank predictors. */
    TEXT_IS_PREDICTED = !IS_MODULE,
    /* Models open without their cold neurons. No generator in a page brings rows, and it would load
     * the code for nothing. */
    COLD_NEURONS_MAY_BE_ABSENT = ONLY_EMBEDS || !IS_MODULE
};

#endif
