/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_SCHEMA_FORMATS_H
#define WISP_SCHEMA_FORMATS_H

/* Returns the regular expression of JSON Schema's format of this name; NULL: it only describes. */
const char *schema_format(const char *name);

#endif
