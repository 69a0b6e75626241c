/* SPDX-License-Identifier: Apache-2.0
 * Finds out which kernel sets run on this CPU.
 * Compiled for size in WebAssembly. */
#include <stdbool.h>
#include <string.h>

#include "kernels/kernels.h"
#include "wisp.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <stdatomic.h>

bool cpu_has_avx512_bf16(void) {
    return __builtin_cpu_supports("avx512bf16");
}

static bool runs_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("bmi2") &&
           __builtin_cpu_supports("f16c");
}

#ifdef __linux__ /* elsewhere wisp does not know how to ask for the tiles */

/* Which products of tiles there are. */
enum tiles { TILES_UNKNOWN, TILES_NONE, TILES_INT8, TILES_INT8_AND_BF16 };

/* Tells whether the CPU has tile registers with int8 products, and the system saves and grants
 * them.
 */
static enum tiles find_tiles(void) {
    enum { XCR0_TILES = 3 << 17, AMX_BF16 = 1 << 22, AMX_TILE_AND_INT8 = 3 << 24 };
    enum { OSXSAVE = 1 << 27 };
    unsigned a, b, c, d, states, high;
    if (!runs_avx512() || !__get_cpuid(1, &a, &b, &c, &d) || !(c & OSXSAVE))
        return TILES_NONE;
    __asm__("xgetbv" : "=a"(states), "=d"(high) : "c"(0));
    if ((states & XCR0_TILES) != XCR0_TILES || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return TILES_NONE;
    if ((d & AMX_TILE_AND_INT8) != AMX_TILE_AND_INT8 || !amx_permitted())
        return TILES_NONE;
    return d & AMX_BF16 ? TILES_INT8_AND_BF16 : TILES_INT8;
}

/* Keeps the answer of find_tiles: in a virtual machine cpuid traps, which takes tens of
 * microseconds.
 */
static enum tiles tiles(void) {
    static atomic_int answer = TILES_UNKNOWN;
    int known = atomic_load_explicit(&answer, memory_order_relaxed);
    if (known == TILES_UNKNOWN) {
        known = (int)find_tiles();
        atomic_store_explicit(&answer, known, memory_order_relaxed);
    }
    return (enum tiles)known;
}

static bool runs_amx(void) {
    return tiles() >= TILES_INT8;
}

/* The rows of its products are rounded by AVX512-BF16. */
bool cpu_has_amx_bf16(void) {
    return tiles() == TILES_INT8_AND_BF16 && cpu_has_avx512_bf16();
}

#endif

static bool runs_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("f16c");
}

static bool runs_avx_vnni(void) {
    return runs_avx2() && __builtin_cpu_supports("avxvnni");
}

#elif defined(__aarch64__)

#ifdef __APPLE__
#include <sys/sysctl.h>

static bool has_feature(const char *name) {
    int value = 0;
    size_t size = sizeof value;
    return sysctlbyname(name, &value, &size, NULL, 0) == 0 && value != 0;
}

static bool runs_neon(void) {
    return has_feature("hw.optional.arm.FEAT_DotProd");
}

static bool runs_neon_i8mm(void) {
    return runs_neon() && has_feature("hw.optional.arm.FEAT_I8MM");
}

#else
#include <sys/auxv.h>

static bool runs_neon(void) {
    const unsigned long dot_product = 1ul << 20; /* HWCAP_ASIMDDP */
    return (getauxval(AT_HWCAP) & dot_product) != 0;
}

static bool runs_neon_i8mm(void) {
    const unsigned long matrix_multiply = 1ul << 13; /* HWCAP2_I8MM */
    return runs_neon() && (getauxval(AT_HWCAP2) & matrix_multiply) != 0;
}
#endif

#elif defined(__wasm_relaxed_simd__)

#include <wasm_simd128.h>

/* Returns the relaxed dot product of bytes 0xff by 127. An engine takes 0xff as 255 or as -1, or
 * its 16-bit sums of two products saturate: the result tells which. The variables are volatile, or
 * the compiler would compute a result of its own. */
static int32_t probe_relaxed_dot(void) {
    volatile int8_t weight = 127, activation = -1;
    const v128_t w = wasm_i8x16_splat(weight), x = wasm_i8x16_splat(activation);
    return wasm_i32x4_extract_lane(
        wasm_i32x4_relaxed_dot_i8x16_i7x16_add(w, x, wasm_i32x4_splat(0)), 0);
}

/* Returns whether the relaxed product of bytes computes the sum of two products of large narrow
 * numbers exactly, for an activation that is unsigned or signed. */
static bool multiplies_narrow(int32_t number) {
    volatile int8_t weight = NARROW_WEIGHTS / 2, activation = (int8_t)number;
    const v128_t w = wasm_i8x16_splat(weight), x = wasm_i8x16_splat(activation);
    const int32_t sum = wasm_i16x8_extract_lane(wasm_i16x8_relaxed_dot_i8x16_i7x16(w, x), 0);
    return sum == 2 * (NARROW_WEIGHTS / 2) * number;
}

/* The portable set of an engine whose dot product takes activations as unsigned has narrow products
 * of unsigned ones, and likewise for signed. */

static bool runs_relaxed_unsigned(void) {
    return probe_relaxed_dot() == 4 * 127 * 255 && multiplies_narrow(NARROW_STEPS + 1);
}

static bool runs_relaxed_signed(void) {
    return probe_relaxed_dot() == 4 * 127 * -1 && multiplies_narrow(-128);
}

static bool runs_relaxed_narrow(void) {
    return multiplies_narrow(NARROW_STEPS + 1);
}

#endif

static bool runs_always(void) {
    return true;
}

/* In WebAssembly a portable scalar set would only make the modules larger. */
#ifdef __wasm__
#define SCALAR_PORTABLE NULL
#else
#define SCALAR_PORTABLE &kernels_scalar_portable
#endif

/* Modules that only embed have only narrow products in this set. */
#ifdef DECODER_KERNELS
#define RELAXED_PORTABLE &kernels_relaxed_narrow_portable
#else
#define RELAXED_PORTABLE &kernels_relaxed_narrow
#endif

/* All sets of this machine, fastest first, each with its portable set, which runs if it does. */
static const struct {
    const struct kernels *set, *portable;
    bool (*runs)(void);
} sets[] = {
#if defined(__x86_64__)
#ifdef __linux__
    {&kernels_amx, &kernels_avx512_portable, runs_amx},
#endif
    {&kernels_avx512, &kernels_avx512_portable, runs_avx512},
    {&kernels_avx_vnni, &kernels_avx_vnni_portable, runs_avx_vnni},
    {&kernels_avx2, &kernels_avx2_portable, runs_avx2},
#elif defined(__aarch64__)
    {&kernels_neon_i8mm, &kernels_neon_i8mm_portable, runs_neon_i8mm},
    {&kernels_neon, &kernels_neon_portable, runs_neon},
#elif defined(__wasm_relaxed_simd__)
    {&kernels_relaxed_unsigned, RELAXED_PORTABLE, runs_relaxed_unsigned},
    {&kernels_relaxed_signed, &kernels_relaxed_narrow_signed, runs_relaxed_signed},
    {&kernels_relaxed_narrow, RELAXED_PORTABLE, runs_relaxed_narrow},
#elif defined(__wasm_simd128__)
    {&kernels_simd128, &kernels_simd128_portable, runs_always},
#endif
    {&kernels_scalar, SCALAR_PORTABLE, runs_always},
};

enum { SETS = sizeof sets / sizeof *sets };

const struct kernels *kernels_at(size_t index) {
    for (size_t i = 0; i < SETS; i++)
        if (sets[i].runs() && index-- == 0)
            return sets[i].set;
    return NULL;
}

const struct kernels *kernels_find(const char *name) {
    if (!name)
        return kernels_at(0);
    const struct kernels *set;
    for (size_t i = 0; (set = kernels_at(i)) != NULL; i++)
        if (strcmp(set->name, name) == 0)
            return set;
    return NULL;
}

const struct kernels *kernels_find_portable(const char *name) {
    const struct kernels *set = kernels_find(name);
    for (size_t i = 0; i < SETS; i++)
        if (sets[i].set == set)
            return sets[i].portable;
    return NULL;
}

const char *wisp_kernels_name(size_t index) {
    const struct kernels *set = kernels_at(index);
    return set ? set->name : NULL;
}

const char *wisp_cpu_features(void) {
#if defined(__x86_64__)
#define AVX512 "avx2 fma bmi2 avx512f avx512bw avx512dq avx512vl avx512vnni"
#define AVX512_BF16 AVX512 " avx512bf16"
#ifdef __linux__
    if (cpu_has_amx_bf16())
        return AVX512_BF16 " amx-tile amx-int8 amx-bf16";
    if (runs_amx())
        return AVX512 " amx-tile amx-int8";
#endif
    if (runs_avx512())
        return cpu_has_avx512_bf16() ? AVX512_BF16 : AVX512;
    if (runs_avx_vnni())
        return "avx2 fma avxvnni";
    return runs_avx2() ? "avx2 fma" : "";
#elif defined(__aarch64__)
    if (runs_neon_i8mm())
        return "neon dotprod i8mm";
    return runs_neon() ? "neon dotprod" : "neon";
#elif defined(__wasm_relaxed_simd__)
    if (runs_relaxed_unsigned())
        return "simd128 relaxed-simd (unsigned dot)";
    return runs_relaxed_signed() ? "simd128 relaxed-simd (signed dot)"
                                 : "simd128 relaxed-simd (saturating dot, not used)";
#elif defined(__wasm_simd128__)
    return "simd128";
#else
    return "";
#endif
}
