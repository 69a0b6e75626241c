/* SPDX-License-Identifier: Apache-2.0
 * tokenizer.model: SentencePiece's ModelProto, a message of Protocol Buffers.
 * Sources: sentencepiece_model.proto; the encoding of Protocol Buffers. */
#include <stdlib.h>
#include <string.h>

#include "base/byte_order.h"
#include "host/input_file.h"
#include "huggingface/codec_reading.h"

/* ---- Protocol Buffers ----------------------------------------------------------------------- */

struct message {
    const unsigned char *at, *end;
};

/* A field of a message. */
struct field {
    uint64_t number;
    uint64_t value;      /* a number, or the bits of a 32-bit float */
    struct message part; /* a string or a message */
    bool is_part;
};

static bool read_varint(struct message *m, uint64_t *value) {
    *value = 0;
    for (unsigned shift = 0; shift < 64 && m->at < m->end; shift += 7) {
        const unsigned char byte = *m->at++;
        *value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

/* Reads the next field. Returns false at the end, and where the message is malformed: m->at is not
 * m->end then. */
static bool next_field(struct message *m, struct field *f) {
    const unsigned char *start = m->at;
    uint64_t key;
    *f = (struct field){0};
    if (m->at == m->end)
        return false;
    bool good = read_varint(m, &key);
    const size_t left = (size_t)(m->end - m->at);
    f->number = key >> 3;
    switch (good ? key & 7 : 7) {
    case 0:
        good = read_varint(m, &f->value);
        break;
    case 1: /* 64 bits, which no field that is read here has */
        good = left >= 8;
        m->at += good ? 8 : 0;
        break;
    case 2:
        good = read_varint(m, &f->value) && f->value <= (uint64_t)(m->end - m->at);
        f->part = (struct message){m->at, m->at + (good ? f->value : 0)};
        f->is_part = true;
        m->at = f->part.end;
        break;
    case 5:
        good = left >= 4;
        f->value = good ? load_u32(m->at) : 0;
        m->at += good ? 4 : 0;
        break;
    default:
        good = false;
    }
    if (!good)
        m->at = start;
    return good;
}

static wisp_status check_end(const struct codec_reading *r, const struct message *m,
                             const char *field) {
    return m->at == m->end ? WISP_OK
                           : codec_fail_format(r, field, "a malformed message of Protocol Buffers");
}

/* ---- the model ------------------------------------------------------------------------------ */

/* Numbers of fields. */
enum { MODEL_PIECES = 1, MODEL_TRAINER = 2, MODEL_NORMALIZER = 3 };
enum { PIECE_TEXT = 1, PIECE_SCORE = 2, PIECE_TYPE = 3 };
enum {
    TRAINER_TYPE = 3,
    TRAINER_SPACE_AS_SUFFIX = 24,
    TRAINER_UNKNOWN = 40,
    TRAINER_BOS = 41,
    TRAINER_EOS = 42
};
enum {
    NORMALIZER_CHARSMAP = 2,
    NORMALIZER_PREFIX = 3,
    NORMALIZER_SQUEEZE = 4,
    NORMALIZER_ESCAPE = 5
};
enum { TYPE_UNIGRAM = 1, TYPE_BPE = 2 };

/* The settings that count, with SentencePiece's defaults. */
struct settings {
    uint64_t type;
    bool space_as_suffix, prefix, squeeze, escape;
    int64_t unknown, bos, eos;
};

static wisp_status read_piece(struct codec_reading *r, struct message piece, uint64_t id) {
    wisp_text text = {"", 0};
    uint64_t type = TOKEN_NORMAL;
    float score = 0;
    for (struct field f; next_field(&piece, &f);) {
        const uint32_t bits = (uint32_t)f.value;
        if (f.number == PIECE_TEXT && f.is_part)
            text = (wisp_text){(const char *)f.part.at, (size_t)(f.part.end - f.part.at)};
        if (f.number == PIECE_SCORE)
            memcpy(&score, &bits, sizeof score);
        if (f.number == PIECE_TYPE)
            type = f.value;
    }
    TRY(check_end(r, &piece, "pieces"));
    if (type < TOKEN_NORMAL || type > TOKEN_BYTE)
        return codec_fail_format(r, "pieces", "a type that is not one of 1 to 6");
    char *copy = arena_copy_text(&r->dir->arena, text.bytes, text.length);
    if (!copy)
        return fail_memory(r->error, text.length);
    TRY(codec_put_token(r, id, (wisp_text){copy, text.length}));
    r->types[id] = (int32_t)type;
    r->scores[id] = score;
    return WISP_OK;
}

static wisp_status read_trainer(struct codec_reading *r, struct message m, struct settings *s) {
    for (struct field f; next_field(&m, &f);) {
        switch (f.number) {
        case TRAINER_TYPE:
            s->type = f.value;
            break;
        case TRAINER_SPACE_AS_SUFFIX:
            s->space_as_suffix = f.value != 0;
            break;
        case TRAINER_UNKNOWN:
            s->unknown = (int64_t)f.value;
            break;
        case TRAINER_BOS:
            s->bos = (int64_t)f.value;
            break;
        case TRAINER_EOS:
            s->eos = (int64_t)f.value;
            break;
        default:
            break;
        }
    }
    return check_end(r, &m, "trainer_spec");
}

static wisp_status read_normalizer(struct codec_reading *r, struct message m, struct settings *s) {
    for (struct field f; next_field(&m, &f);) {
        if (f.number == NORMALIZER_CHARSMAP && f.is_part)
            r->charsmap = (wisp_text){(const char *)f.part.at, (size_t)(f.part.end - f.part.at)};
        if (f.number == NORMALIZER_PREFIX)
            s->prefix = f.value != 0;
        if (f.number == NORMALIZER_SQUEEZE)
            s->squeeze = f.value != 0;
        if (f.number == NORMALIZER_ESCAPE)
            s->escape = f.value != 0;
    }
    return check_end(r, &m, "normalizer_spec");
}

/* Returns an id of a special token, or -1 where the model has no token of it. */
static int32_t special(const struct codec_reading *r, int64_t id) {
    return id >= 0 && id < (int64_t)r->next_id ? (int32_t)id : -1;
}

static wisp_status read_model(struct codec_reading *r, struct message m) {
    struct settings s = {
        .type = TYPE_UNIGRAM, .prefix = true, .squeeze = true, .escape = true, .bos = 1, .eos = 2};
    ARENA_TAKE(&r->dir->arena, r->scores, (size_t)r->capacity, r->error);
    for (struct field f; next_field(&m, &f);) {
        if (f.number == MODEL_PIECES && f.is_part)
            TRY(read_piece(r, f.part, r->next_id++));
        if (f.number == MODEL_TRAINER && f.is_part)
            TRY(read_trainer(r, f.part, &s));
        if (f.number == MODEL_NORMALIZER && f.is_part)
            TRY(read_normalizer(r, f.part, &s));
    }
    TRY(check_end(r, &m, NULL));
    if (r->next_id == 0)
        return codec_fail_format(r, "pieces", "there are none");
    if (s.type != TYPE_UNIGRAM && s.type != TYPE_BPE)
        return fail(r->error, WISP_ERROR_UNSUPPORTED, r->file, "model_type",
                    "%llu is not supported, only 1 (UNIGRAM) and 2 (BPE)",
                    (unsigned long long)s.type);
    if (s.space_as_suffix || !s.escape)
        return fail(r->error, WISP_ERROR_UNSUPPORTED, r->file,
                    s.escape ? "treat_whitespace_as_suffix" : "escape_whitespaces",
                    "%s is not supported", s.escape ? "true" : "false");
    r->model = s.type == TYPE_BPE ? "llama" : "t5";
    r->prefix = "each";
    r->adds_space = s.prefix;
    r->model_count = r->next_id;
    r->squeezes_spaces = s.squeeze;
    r->unknown = special(r, s.unknown);
    r->bos = special(r, s.bos);
    r->eos = special(r, s.eos);
    r->add_bos = s.type == TYPE_BPE && r->bos >= 0; /* as LlamaTokenizer does */
    return codec_sort_tokens(r);
}

wisp_status codec_read_sentencepiece(struct codec_reading *r) {
    struct file_bytes file;
    TRY(file_read(r->file, &file, r->error));
    const unsigned char *bytes = (const unsigned char *)file.data;
    wisp_status status = read_model(r, (struct message){bytes, bytes + file.size});
    if (status == WISP_OK && r->charsmap.length > 0) {
        r->charsmap.bytes = arena_copy_text(&r->dir->arena, r->charsmap.bytes, r->charsmap.length);
        status = r->charsmap.bytes ? WISP_OK : fail_memory(r->error, r->charsmap.length);
    }
    free(file.data);
    return status;
}
