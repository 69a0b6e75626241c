/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_WASM_HOST_H
#define WISP_WASM_HOST_H

#include "binding/engine.h"

/* Returns a model of `size` bytes, which the host reads. */
wisp_source host_source(double size);

#endif
