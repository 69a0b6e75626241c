/* SPDX-License-Identifier: Apache-2.0
 * Makes a grammar of a JSON Schema (json-schema.org, drafts 4 to 2020-12): all its texts are valid
 * under the schema. docs/formats.md lists the keywords and what is left out. */
#ifndef WISP_SCHEMA_JSON_SCHEMA_H
#define WISP_SCHEMA_JSON_SCHEMA_H

#include "grammar/grammar.h"

/* Errors name the place in the schema: "#/properties/size". They are WISP_ERROR_FORMAT if the
 * schema is malformed or no value is valid under it, and WISP_ERROR_UNSUPPORTED for what no grammar
 * can follow. The caller closes the grammar, also after an error. */
wisp_status json_schema_compile(wisp_text schema, struct wisp_grammar *grammar, wisp_error *error);

#endif
