/* SPDX-License-Identifier: Apache-2.0
 * What `wisp index` keeps of a record, or of a piece of a long one: its id and its metadata. */
#ifndef WISP_CLI_INDEX_PIECES_H
#define WISP_CLI_INDEX_PIECES_H

#include <stdio.h>

#include "cli/input.h"

struct piece {
    const struct record *record;
    wisp_text text;
    size_t number; /* among the record's pieces, from 1; 0: the record is whole */
};

/* Returns why a record cannot get an id; NULL: it can. */
const char *piece_id_fault(const struct record *record);

/* Writes the id of a piece: that of its record, or FILE:NUMBER, or the path of an image, and
 * #PIECE. Then writes its metadata: an object with its text as `member`, unless `no_text` is set,
 * and with all members of a JSON object but its id. *id_end is where the id ends in the stream. */
void write_piece(FILE *stream, const struct piece *piece, const char *member, bool no_text,
                 size_t *id_end);

/* Makes the id of a piece of a record. The caller frees *bytes. Returns an exit code. */
int make_piece_id(const struct record *record, size_t number, wisp_text *id, char **bytes);

#endif
