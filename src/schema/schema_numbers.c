/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include "schema/schema_numbers.h"

#include <string.h>

enum { MOST_DIGITS = 20, MOST_SIGNIFICANT = 40, MOST_EXPONENT = 400, MOST_DIVISOR = 20000 };

/* ---- characters ----------------------------------------------------------------------------- */

enum { OTHER, PLUS, MINUS, POINT, EXPONENT, DIGIT, CLASSES = DIGIT + 10 };

static const uint32_t begins[] = {0,   '+', ',', '-', '.', '/', '0', '1', '2', '3', '4',
                                  '5', '6', '7', '8', '9', ':', 'E', 'F', 'e', 'f'};
static const uint32_t classes[] = {OTHER,     PLUS,      OTHER,     MINUS,     POINT,     OTHER,
                                   DIGIT,     DIGIT + 1, DIGIT + 2, DIGIT + 3, DIGIT + 4, DIGIT + 5,
                                   DIGIT + 6, DIGIT + 7, DIGIT + 8, DIGIT + 9, OTHER,     EXPONENT,
                                   OTHER,     EXPONENT,  OTHER};

static wisp_status make(struct arena *arena, const struct state_rules *rules, uint32_t length,
                        struct automaton **made, wisp_error *error) {
    static const uint32_t start[8] = {0};
    ARENA_TAKE(arena, *made, 1, error);
    **made = (struct automaton){.begin = begins,
                                .class_of = classes,
                                .ranges = sizeof begins / sizeof *begins,
                                .classes = CLASSES};
    return automaton_make(arena, *made, rules, start, length, error);
}

/* ---- the numbers of JSON -------------------------------------------------------------------- */

enum { START, SIGN, ZERO, WHOLE, DOT, FRACTION, E_LETTER, E_SIGN, E_SHORT, E_LONG };

struct syntax {
    bool whole;
};

/* A key has the phase and the number of digits. Exponents of three digits begin with 1 or 2. */
/* Returns whether so many digits may become one more. */
static bool may_repeat(uint32_t phase, uint32_t count) {
    const uint32_t most = phase == WHOLE || phase == FRACTION ? MOST_DIGITS
                          : phase == E_LONG                   ? 3
                          : phase == E_SHORT                  ? 2
                                                              : 0;
    return count < most;
}

static wisp_status step_syntax(void *context, struct state_maker *maker, const uint32_t *key,
                               uint32_t length, uint32_t class, uint32_t *next) {
    const struct syntax *syntax = context;
    const uint32_t phase = key[0], count = key[1];
    const bool digit = class >= DIGIT, may_go_on = !syntax->whole;
    uint32_t to = START, digits = 0;
    if (phase == START && class == MINUS)
        to = SIGN;
    else if (phase <= SIGN && digit)
        to = class == DIGIT ? ZERO : WHOLE, digits = 1;
    else if (digit && may_repeat(phase, count))
        to = phase, digits = count + 1;
    else if ((phase == ZERO || phase == WHOLE) && class == POINT && may_go_on)
        to = DOT;
    else if (phase == DOT && digit)
        to = FRACTION, digits = 1;
    else if ((phase == ZERO || phase == WHOLE || phase == FRACTION) && class == EXPONENT &&
             may_go_on)
        to = E_LETTER;
    else if (phase == E_LETTER && (class == PLUS || class == MINUS))
        to = E_SIGN;
    else if ((phase == E_LETTER || phase == E_SIGN) && digit)
        to = class == DIGIT + 1 || class == DIGIT + 2 ? E_LONG : E_SHORT, digits = 1;
    const uint32_t found[] = {to, digits};
    return to == START ? WISP_OK : state_of_key(maker, found, length, next);
}

static uint32_t tag_syntax(void *context, const uint32_t *key, uint32_t length) {
    (void)context, (void)length;
    return key[0] == ZERO || key[0] == WHOLE || key[0] == FRACTION || key[0] >= E_SHORT;
}

wisp_status numbers_all(struct arena *arena, bool whole, struct automaton **made,
                        wisp_error *error) {
    struct syntax syntax = {whole};
    return make(arena, &(struct state_rules){&syntax, step_syntax, tag_syntax}, 2, made, error);
}

/* ---- decimals ------------------------------------------------------------------------------- */

/* The number (negative ? -1 : 1) * 0.d1d2d3... * 10^exponent; n is 0 for 0. */
struct decimal {
    bool negative;
    uint32_t n;
    uint8_t digits[MOST_SIGNIFICANT]; /* the first and last are not 0 */
    int exponent;
};

/* Reads a number of JSON. Returns false if it has too many digits. */
static bool read_decimal(wisp_text text, struct decimal *d) {
    bool after_point = false, fits = true;
    int exponent = 0, sign = 1;
    *d = (struct decimal){.negative = text.length > 0 && text.bytes[0] == '-'};
    size_t at = d->negative;
    for (; at < text.length && text.bytes[at] != 'e' && text.bytes[at] != 'E'; at++) {
        const char c = text.bytes[at];
        if (c == '.') {
            after_point = true;
            continue;
        }
        if (d->n > 0 || c != '0') {
            if (d->n < MOST_SIGNIFICANT)
                d->digits[d->n++] = (uint8_t)(c - '0');
            else
                fits = fits && c == '0';
            d->exponent += !after_point;
        } else {
            d->exponent -= after_point;
        }
    }
    for (at++; at < text.length; at++) {
        const char c = text.bytes[at];
        if (c == '-')
            sign = -1;
        else if (c != '+' && exponent < MOST_EXPONENT)
            exponent = exponent * 10 + (c - '0');
    }
    d->exponent += sign * exponent;
    while (d->n > 0 && d->digits[d->n - 1] == 0)
        d->n--;
    if (d->exponent > MOST_EXPONENT)
        d->exponent = MOST_EXPONENT;
    if (d->exponent < -MOST_EXPONENT)
        d->exponent = -MOST_EXPONENT;
    return fits;
}

/* ---- comparison ----------------------------------------------------------------------------- */

struct comparison {
    struct decimal bound;
    unsigned orders;
};

enum order { LESS, SAME, MORE };

/* A number's first digit that is not 0 says by its place which of two is greater, and if the places
 * are the same, the digits do. */
struct progress {
    uint32_t phase; /* START ... E_SHORT */
    uint32_t negative;
    uint32_t nonzero;  /* there was a digit other than 0 */
    uint32_t whole;    /* digits before the point, or zeros after it before the first digit */
    uint32_t place;    /* how the place of the first digit compares, once it is known */
    uint32_t digits;   /* how the digits compare so far */
    uint32_t at;       /* digits compared */
    uint32_t exponent; /* 2 * its value so far + its sign */
};

enum { PROGRESS = sizeof(struct progress) / sizeof(uint32_t) };

static uint32_t order_of(int64_t a, int64_t b) {
    return a < b ? LESS : a > b ? MORE : SAME;
}

static uint32_t capped(uint32_t value, int64_t cap) {
    return (int64_t)value > cap ? (uint32_t)cap : value;
}

static void compare_digit(const struct decimal *bound, struct progress *p, uint32_t digit) {
    if (p->digits == SAME)
        p->digits = order_of((int64_t)digit, p->at < bound->n ? (int64_t)bound->digits[p->at] : 0);
    p->at = p->digits == SAME ? capped(p->at + 1, bound->n) : 0;
}

static bool step_digit(const struct decimal *bound, struct progress *p, uint32_t digit) {
    const bool zero = bound->n == 0;
    const int64_t most = zero || bound->exponent < 1 ? 2 : bound->exponent + 1;
    switch (p->phase) {
    case START:
    case SIGN:
        p->phase = digit == 0 ? ZERO : WHOLE;
        p->nonzero = digit != 0;
        p->whole = digit != 0;
        p->digits = SAME;
        if (digit != 0)
            compare_digit(bound, p, digit);
        return true;
    case WHOLE:
        p->whole = capped(p->whole + 1, most);
        compare_digit(bound, p, digit);
        return true;
    case DOT:
    case FRACTION:
        p->phase = FRACTION;
        if (!p->nonzero && digit == 0) {
            p->whole =
                zero ? 0 : capped(p->whole + 1, bound->exponent < 0 ? 1 - bound->exponent : 1);
            return true;
        }
        if (!p->nonzero)
            p->place = order_of(-(int64_t)p->whole, bound->exponent);
        if (!p->nonzero)
            p->whole = 2; /* no exponent may follow */
        p->nonzero = true;
        compare_digit(bound, p, digit);
        return true;
    case E_LETTER:
    case E_SIGN:
    case E_SHORT: {
        const int64_t place = bound->exponent - 1, bits = p->exponent & 1;
        const int64_t value = (int64_t)(p->exponent >> 1) * 10 + (int64_t)digit;
        p->phase = E_SHORT;
        p->exponent =
            zero ? 0
                 : 2 * capped((uint32_t)value, (place < 0 ? -place : place) + 1) + (uint32_t)bits;
        return true;
    }
    default:
        return false;
    }
}

static bool step_progress(const struct decimal *bound, struct progress *p, uint32_t class) {
    if (class >= DIGIT)
        return step_digit(bound, p, class - DIGIT);
    if (class == MINUS && p->phase == START) {
        p->phase = SIGN;
        p->negative = true;
        return true;
    }
    if (class == POINT && (p->phase == ZERO || p->phase == WHOLE)) {
        if (p->phase == WHOLE) {
            p->place = order_of((int64_t)p->whole, bound->exponent);
            p->whole = p->whole == 1 ? 1 : 2;
        }
        p->phase = DOT;
        return true;
    }
    if (class == EXPONENT && p->nonzero && p->whole == 1 &&
        (p->phase == WHOLE || p->phase == FRACTION)) {
        if (p->digits == SAME && p->at < bound->n)
            p->digits = LESS;
        p->phase = E_LETTER;
        p->place = p->at = 0;
        return true;
    }
    if ((class == PLUS || class == MINUS) && p->phase == E_LETTER) {
        p->phase = E_SIGN;
        p->exponent = class == MINUS;
        return true;
    }
    return false;
}

static wisp_status step_compared(void *context, struct state_maker *maker, const uint32_t *key,
                                 uint32_t length, uint32_t class, uint32_t *next) {
    const struct comparison *c = context;
    struct progress p;
    memcpy(&p, key, sizeof p);
    if (!step_progress(&c->bound, &p, class))
        return WISP_OK;
    memcpy(maker->scratch, &p, sizeof p);
    return state_of_key(maker, maker->scratch, length, next);
}

/* Returns how the number compares without the signs. */
static uint32_t size_order(const struct decimal *bound, const struct progress *p) {
    uint32_t place = p->place;
    if (bound->n == 0)
        return p->nonzero ? MORE : SAME;
    if (!p->nonzero)
        return LESS;
    if (p->phase == WHOLE)
        place = order_of((int64_t)p->whole, bound->exponent);
    if (p->phase == E_SHORT) {
        const int64_t value = (int64_t)(p->exponent >> 1);
        place = order_of(p->exponent & 1 ? -value : value, bound->exponent - 1);
    }
    if (place != SAME)
        return place;
    return p->digits == SAME && p->phase != E_SHORT && p->at < bound->n ? LESS : p->digits;
}

static uint32_t tag_compared(void *context, const uint32_t *key, uint32_t length) {
    const struct comparison *c = context;
    struct progress p;
    (void)length;
    memcpy(&p, key, sizeof p);
    if (p.phase != ZERO && p.phase != WHOLE && p.phase != FRACTION && p.phase != E_SHORT)
        return 0;
    const uint32_t size = size_order(&c->bound, &p);
    const bool negative = p.negative && p.nonzero;
    uint32_t order = size;
    if (c->bound.n == 0)
        order = size == SAME ? SAME : negative ? LESS : MORE;
    else if (c->bound.negative != negative)
        order = negative ? LESS : MORE;
    else if (negative)
        order = MORE - size;
    return c->orders >> order & 1;
}

wisp_status numbers_compared(struct arena *arena, wisp_text number, unsigned orders,
                             struct automaton **made, wisp_error *error) {
    struct comparison c = {.orders = orders};
    if (!read_decimal(number, &c.bound))
        return fail(error, WISP_ERROR_UNSUPPORTED, NULL, NULL, "has more than %d digits",
                    MOST_SIGNIFICANT);
    return make(arena, &(struct state_rules){&c, step_compared, tag_compared}, PROGRESS, made,
                error);
}

/* ---- multiples ------------------------------------------------------------------------------ */

struct multiple {
    uint32_t divisor;
    uint32_t places; /* the divisor divides the number times 10^places */
    bool negated;
};

/* A key has the phase, the remainder and the digits after the point. */
static wisp_status step_multiple(void *context, struct state_maker *maker, const uint32_t *key,
                                 uint32_t length, uint32_t class, uint32_t *next) {
    const struct multiple *m = context;
    uint32_t phase = key[0], rest = key[1], places = key[2];
    if (class >= DIGIT && phase != E_LETTER) {
        const uint32_t digit = class - DIGIT;
        if (phase != FRACTION || places < m->places)
            rest = (rest * 10 + digit) % m->divisor;
        else if (digit != 0) /* never a multiple */
            rest = m->divisor;
        if (rest == m->divisor && !m->negated)
            return WISP_OK;
        places += phase == FRACTION && places < m->places;
        phase = phase == START ? WHOLE : phase;
    } else if (class == MINUS && phase == START) {
        phase = WHOLE;
    } else if (class == POINT && phase == WHOLE) {
        phase = FRACTION;
    } else {
        return WISP_OK;
    }
    const uint32_t found[] = {phase, rest, places};
    return state_of_key(maker, found, length, next);
}

static uint32_t tag_multiple(void *context, const uint32_t *key, uint32_t length) {
    const struct multiple *m = context;
    uint32_t rest = key[1];
    (void)length;
    for (uint32_t i = key[2]; i < m->places && rest != m->divisor; i++)
        rest = rest * 10 % m->divisor;
    return key[0] != START && (rest == 0) != m->negated;
}

wisp_status numbers_multiple(struct arena *arena, wisp_text number, bool negated,
                             struct automaton **made, wisp_error *error) {
    struct multiple m = {.divisor = 0, .negated = negated};
    struct decimal d;
    if (!read_decimal(number, &d) || d.n == 0 || d.negative)
        return fail(error, WISP_ERROR_FORMAT, NULL, NULL, "is not a positive number");
    const int places = (int)d.n - d.exponent; /* after the point, as far as it has digits */
    for (uint32_t i = 0; i < d.n && m.divisor <= MOST_DIVISOR; i++)
        m.divisor = m.divisor * 10 + d.digits[i];
    for (int i = places; i < 0 && m.divisor <= MOST_DIVISOR; i++)
        m.divisor *= 10;
    if (m.divisor > MOST_DIVISOR || places > MOST_DIGITS)
        return fail(error, WISP_ERROR_UNSUPPORTED, NULL, NULL,
                    "has more digits than an automaton can count");
    m.places = places > 0 ? (uint32_t)places : 0;
    return make(arena, &(struct state_rules){&m, step_multiple, tag_multiple}, 3, made, error);
}
