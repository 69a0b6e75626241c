/* SPDX-License-Identifier: Apache-2.0
 * WebAssembly modules for databases, with a model inside: wasm/udf has their code. */
#ifndef WISP_CLI_UDF_MODULE_H
#define WISP_CLI_UDF_MODULE_H

#include "cli/cli.h"

/* Embeds a text by a model as such a module does. Fails if it does not embed texts, or not with the
 * same bits everywhere, which is what modules compute: only encoders do. */
wisp_status udf_module_try(const char *model_path, wisp_error *error);

/* Appends the model of a GGUF file to wisp-udf-*.wasm and writes the module to `output`, which
 * appears whole or not at all; then prints the SQL by which ClickHouse runs it. `relaxed` takes the
 * module with relaxed SIMD. Returns an exit code, after complaining if it is not EXIT_GOOD. */
int udf_module_write(const char *model, const char *output, bool relaxed);

#endif
