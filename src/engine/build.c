/* SPDX-License-Identifier: Apache-2.0 */
#include "wisp.h"

#if defined(__x86_64__)
#define TARGET "x86_64"
#elif defined(__aarch64__)
#define TARGET "aarch64"
#elif defined(__wasm_relaxed_simd__)
#define TARGET "wasm relaxed"
#elif defined(__wasm_simd128__)
#define TARGET "wasm simd128"
#else
#define TARGET "generic"
#endif

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

const char *wisp_build(void) {
    return "wisp " WISP_VERSION " (" TARGET ", " COMPILER ")";
}
