/* SPDX-License-Identifier: Apache-2.0
 * Defines the probe of one instruction. The including file defines
 *
 *     VECTOR         the type of an accumulator
 *     SPLAT(n)       an accumulator whose lanes are the number n
 *     ADD(a, b)      the sum of two accumulators
 *     NUMBER(v)      a number made of one
 *     KEEP_IN        the constraint of a register that holds one; not defined: nothing forces
 *                    accumulators into registers
 *
 * and before each probe
 *
 *     PROBE          the probe's name
 *     FACTORS        the declarations of factors, made of *sink, which the compiler does not know
 *     PRODUCT(c)     the accumulator c with products added to it
 *     PRODUCT_MACS   the multiply-adds of one PRODUCT
 *
 * The accumulators are factors if an instruction multiplies but does not add: the compiler would
 * move a product of constants out of the loop. */
#include "peak.h"

#define START(i) VECTOR c##i = SPLAT(i + 1);
#define STEP(i) c##i = PRODUCT(c##i);
#ifdef KEEP_IN
#define KEEP(i) __asm__("" : KEEP_IN(c##i));
#else
#define KEEP(i)
#endif
#define FOLD(i) sum = ADD(sum, c##i);

double PROBE(uint64_t steps, volatile int32_t *sink) {
    FACTORS
    EACH_CHAIN(START)
    for (uint64_t step = 0; step < steps; step++) {
        EACH_CHAIN(STEP)
        EACH_CHAIN(KEEP)
    }
    VECTOR sum = c0;
    EACH_CHAIN(FOLD)
    *sink = NUMBER(sum);
    return (double)(PRODUCT_MACS * CHAINS * steps);
}

#undef START
#undef STEP
#undef KEEP
#undef FOLD
#undef PROBE
#undef FACTORS
#undef PRODUCT
#undef PRODUCT_MACS
