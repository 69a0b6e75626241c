/* SPDX-License-Identifier: Apache-2.0
 * The sparse kernels (sparse.h), written once over the vector operations of an instruction set. The
 * including file includes rows_template.h before, and defines DOWN_VECTORS, the number of vectors
 * of sums that `down` holds in registers, a multiple of 4. */
#include <stdlib.h>

#include "kernels/sparse.h"

#include "kernels/sparse_up_template.h"

#include "kernels/sparse_contribute_template.h"

#include "kernels/sparse_down_template.h"

#define SPARSE_TABLE(quantiser, columns)                                                           \
    {.lanes = VF_LANES,                                                                            \
     .narrow = SPARSE_NARROW,                                                                      \
     .signed_columns = columns,                                                                    \
     .quantise = quantiser,                                                                        \
     .choose = sparse_choose,                                                                      \
     .up = sparse_up,                                                                              \
     .activate = sparse_activate,                                                                  \
     .contribute = sparse_contribute,                                                              \
     .compact = sparse_compact,                                                                    \
     .down = sparse_down,                                                                          \
     .add_base = sparse_add_base}

MAYBE_UNUSED const struct sparse_kernels sparse_unsigned =
    SPARSE_TABLE(sparse_quantise_unsigned, VECTOR_SIGNED_COLUMNS);
MAYBE_UNUSED const struct sparse_kernels sparse_signed = SPARSE_TABLE(sparse_quantise_signed, 1);

#define SPARSE_UNSIGNED &sparse_unsigned
