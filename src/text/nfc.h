/* SPDX-License-Identifier: Apache-2.0
 * Unicode's normalization form C, with which Qwen's tokenizers begin. */
#ifndef WISP_TEXT_NFC_H
#define WISP_TEXT_NFC_H

#include "base/status.h"

/* Normalises a text of well-formed UTF-8 in time n log n. If it is in the form already, it
 * becomes *normalized itself and *copy NULL; else *normalized is in *copy, which the caller
 * frees. Fails if memory is short. */
wisp_status nfc_normalize(wisp_text text, char **copy, wisp_text *normalized, wisp_error *error);

#endif
