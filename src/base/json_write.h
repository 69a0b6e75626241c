/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_BASE_JSON_WRITE_H
#define WISP_BASE_JSON_WRITE_H

#include "base/byte_sink.h"

/* Writes a text as a string of JSON, quotes included: at most 6 bytes for each of the text's, and
 * 2. Characters that control a terminal are escaped too, and ill-formed UTF-8 becomes U+FFFD. */
wisp_status json_write_string(const struct byte_sink *sink, wisp_text text, wisp_error *error);

#endif
