/* SPDX-License-Identifier: Apache-2.0
 * Makes a grammar of a JSON Schema (json-schema.org, draft 2020-12): all its texts are valid under
 * the schema, but not all valid texts are among them. docs/formats.md lists the keywords and what
 * is left out.
 * */
#ifndef WISP_TEXT_JSON_SCHEMA_H
#define WISP_TEXT_JSON_SCHEMA_H

#include "base/status.h"

/* Writes the grammar as GBNF. Errors name the place in the schema: "#/properties/size". They are
 * WISP_ERROR_FORMAT where the schema is malformed and WISP_ERROR_UNSUPPORTED for keywords that no
 * grammar is made of. The caller frees gbnf->bytes. */
wisp_status json_schema_to_gbnf(wisp_text schema, wisp_text *gbnf, wisp_error *error);

#endif
