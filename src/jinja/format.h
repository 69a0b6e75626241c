/* SPDX-License-Identifier: Apache-2.0
 * The two ways in which Python fills a text with values. */
#ifndef WISP_JINJA_FORMAT_H
#define WISP_JINJA_FORMAT_H

#include "jinja/machine.h"

/* Returns `text % value`, if value may be a tuple of values. */
struct value format_percent(struct machine *m, struct value text, struct value value);

/* Returns text.format(arguments). */
struct value format_braces(struct machine *m, struct value text, const struct arguments *arguments);

#endif
