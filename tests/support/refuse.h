/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_REFUSE_H
#define TESTS_REFUSE_H

/* The descriptor that the program of refuse.c closes before main. */
enum { REFUSE_MARK = -31415 };

#endif
