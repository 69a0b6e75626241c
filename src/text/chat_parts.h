/* SPDX-License-Identifier: Apache-2.0
 * The parts of a chat format, for chat_formats.c, which has the formats, and chat.c, which uses
 * them. */
#ifndef WISP_TEXT_CHAT_PARTS_H
#define WISP_TEXT_CHAT_PARTS_H

#include "text/codec_parts.h"

enum { CHAT_MAX_MARKS = 4 };

struct chat_writer;

struct chat_format {
    const char *name;
    const char *marks[CHAT_MAX_MARKS]; /* the tokens of the format, as vocabularies spell them */
    const char *end;                   /* the mark that ends a reply; NULL: none */
    const char *system;                /* the system message where there is none; NULL: none */
    bool alternates;      /* user and assistant take turns, after at most one system message */
    bool skips_no_system; /* an empty system message is left out */
    bool thinks;          /* replies begin with thoughts, which later prompts leave out */
    bool places_spaces;   /* the format itself puts SentencePiece's space before texts (chat_space);
                             else it follows each mark */
    const char *recognised; /* a file's template that has this text, */
    const char *also;       /* and this one (NULL: any), */
    const char *lacks[4];   /* and none of these has the format */
    void (*write)(struct chat_writer *w, const wisp_message *messages, size_t n);
};

enum { CHAT_FORMATS = 13 };
extern const struct chat_format chat_formats[CHAT_FORMATS];

/* A prompt that is being written. After the first failure, writing does nothing. */
struct chat_writer {
    const struct chat_format *format;
    const struct codec *codec;
    bool no_thinking;
    struct token_list *list;
    int32_t ids[CHAT_MAX_MARKS]; /* of the format's marks */
    char *text;                  /* what was written since the last mark */
    size_t length, capacity;
    bool within; /* a mark or a text was encoded before this text */
    wisp_status status;
    wisp_error *error;
};

/* Append to the prompt a mark of the format, and a content. A content that spells a mark does not
 * become one. */
void chat_mark(struct chat_writer *w, const char *mark);
void chat_content(struct chat_writer *w, wisp_text content);

static inline void chat_text(struct chat_writer *w, const char *text) {
    chat_content(w, wisp_text_of(text));
}

/* Appends the space that SentencePiece, but not byte-level BPE, puts before a text. */
static inline void chat_space(struct chat_writer *w) {
    if (w->codec->add_space_prefix)
        chat_text(w, " ");
}

#endif
