/* SPDX-License-Identifier: Apache-2.0
 * Prints the rate of each instruction on one core of this machine, as a JSON object of GMAC/s. */
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include "peak.h"

static const double LEAST_SECONDS = 0.001;
enum { TRIES = 300 };

#if defined(__x86_64__)

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool runs_avx2(void) {
    return __builtin_cpu_supports("avx2");
}

static bool runs_avx_vnni(void) {
    enum { AVX_VNNI = 1 << 4 };
    unsigned a, b, c, d;
    return runs_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & AVX_VNNI);
}

static bool runs_avx512_vnni(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vnni");
}

/* Asks Linux for permission to use the tiles, which a process needs. */
static bool runs_amx(void) {
    enum { AMX_TILE_AND_INT8 = 3 << 24, ARCH_REQ_XCOMP_PERM = 0x1023, TILE_DATA = 18 };
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
           (d & AMX_TILE_AND_INT8) == AMX_TILE_AND_INT8 &&
           syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) == 0;
}

#elif defined(__aarch64__)

#include <sys/auxv.h>

static bool runs_neon_dot(void) {
    return (getauxval(AT_HWCAP) & 1ul << 20) != 0; /* HWCAP_ASIMDDP */
}

static bool runs_neon_i8mm(void) {
    return (getauxval(AT_HWCAP2) & 1ul << 13) != 0; /* HWCAP2_I8MM */
}

#else

static bool runs_always(void) {
    return true;
}

#endif

static const struct {
    const char *name;
    probe *run;
    bool (*runs)(void);
} probes[] = {
#if defined(__x86_64__)
    {"amx", peak_amx, runs_amx},
    {"avx512_vnni", peak_avx512_vnni, runs_avx512_vnni},
    {"avx_vnni", peak_avx_vnni, runs_avx_vnni},
    {"avx2_narrow", peak_avx2_narrow, runs_avx2},
    {"avx2_maddubs", peak_avx2_maddubs, runs_avx2},
    {"avx2_madd", peak_avx2_madd, runs_avx2},
#elif defined(__aarch64__)
    {"neon_i8mm", peak_neon_i8mm, runs_neon_i8mm},
    {"neon_dot", peak_neon_dot, runs_neon_dot},
#elif defined(__wasm__)
#if defined(__wasm_relaxed_simd__)
    {"wasm_relaxed", peak_wasm_relaxed, runs_always},
    {"wasm_narrow", peak_wasm_narrow, runs_always},
#endif
    {"wasm_i16", peak_wasm_i16, runs_always},
#endif
};

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double seconds_of(probe *run, uint64_t steps, double *macs) {
    static volatile int32_t sink;
    const double start = seconds_now();
    *macs = run(steps, &sink);
    return seconds_now() - start;
}

/* Returns the best rate of many tries. A try is long enough for the clock, and so short that often
 * no other process interrupts it. The first tries also warm up. */
static double peak_of(probe *run) {
    uint64_t steps = 10000;
    double macs, best = 0;
    while (seconds_of(run, steps, &macs) < LEAST_SECONDS)
        steps *= 2;
    for (int i = 0; i < TRIES; i++) {
        const double rate = 1e-9 / seconds_of(run, steps, &macs);
        best = rate * macs > best ? rate * macs : best;
    }
    return best;
}

int main(void) {
    const char *comma = "";
    printf("{");
    for (size_t i = 0; i < sizeof probes / sizeof *probes; i++) {
        if (!probes[i].runs())
            continue;
        printf("%s\"%s\": %.1f", comma, probes[i].name, peak_of(probes[i].run));
        comma = ", ";
    }
    printf("}\n");
    return 0;
}
