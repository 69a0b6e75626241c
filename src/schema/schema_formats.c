/* SPDX-License-Identifier: Apache-2.0
 * The formats of JSON Schema as regular expressions, after the standards that each names.
 * Compiled for size in WebAssembly. */
#include "schema/schema_formats.h"

#include <stddef.h>
#include <string.h>

/* RFC 3339. February has 29 days in years that 4 divides and 100 does not, or 400 does. */
#define LEAP_YEAR "(\\d\\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)"
#define DATE                                                                                       \
    "(\\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|"            \
    "02-(0[1-9]|1\\d|2[0-8]))|" LEAP_YEAR "-02-29)"
#define TIME "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,9})?([zZ]|[+-]([01]\\d|2[0-3]):[0-5]\\d)"

/* RFC 3339, appendix A. */
#define DAY_TIME "T(\\d{1,9}H(\\d{1,9}M(\\d{1,9}S)?)?|\\d{1,9}M(\\d{1,9}S)?|\\d{1,9}S)"
#define DURATION                                                                                   \
    "P(\\d{1,9}W|" DAY_TIME "|(\\d{1,9}Y(\\d{1,9}M(\\d{1,9}D)?)?|\\d{1,9}M(\\d{1,9}D)?|"           \
    "\\d{1,9}D)(" DAY_TIME ")?)"

#define LABEL "[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
/* In addresses the parts of a name have any length, so that a maxLength beside it is cheap. */
#define DOMAIN "[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?"
#define ATOM "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+"
#define BYTE "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define IPV4 BYTE "(\\." BYTE "){3}"

/* RFC 4291: :: stands for at least one group. */
#define H "[0-9a-fA-F]{1,4}"
#define LOW "(" H ":" H "|" IPV4 ")"
#define IPV6                                                                                       \
    "((" H ":){6}" LOW "|::(" H ":){5}" LOW "|(" H ")?::(" H ":){4}" LOW "|((" H ":){0,1}" H       \
    ")?::(" H ":){3}" LOW "|((" H ":){0,2}" H ")?::(" H ":){2}" LOW "|((" H ":){0,3}" H ")?::" H   \
    ":" LOW "|((" H ":){0,4}" H ")?::" LOW "|((" H ":){0,5}" H ")?::" H "|((" H ":){0,6}" H        \
    ")?::)"

/* RFC 3986 and, with other characters than those of ASCII, RFC 3987. */
#define PERCENT "%[0-9a-fA-F]{2}"
#define URI_OF(OTHER)                                                                              \
    "([a-zA-Z][a-zA-Z0-9+.-]*:(//" AUTHORITY(OTHER) "(/" PCHAR(OTHER) "*)*|/?(" PCHAR(             \
        OTHER) "+(/" PCHAR(OTHER) "*)*)?)" TAIL(OTHER) ")"
#define PCHAR(OTHER) "([a-zA-Z0-9._~!$&'()*+,;=:@" OTHER "-]|" PERCENT ")"
#define AUTHORITY(OTHER)                                                                           \
    "(([a-zA-Z0-9._~!$&'()*+,;=:" OTHER "-]|" PERCENT ")*@)?(\\[[0-9a-fA-F:.]+\\]|"                \
    "([a-zA-Z0-9._~!$&'()*+,;=" OTHER "-]|" PERCENT ")*)(:\\d*)?"
#define TAIL(OTHER)                                                                                \
    "(\\?([a-zA-Z0-9._~!$&'()*+,;=:@/?" OTHER "-]|" PERCENT ")*)?"                                 \
    "(#([a-zA-Z0-9._~!$&'()*+,;=:@/?" OTHER "-]|" PERCENT ")*)?"
#define RELATIVE_OF(OTHER)                                                                         \
    "((//" AUTHORITY(OTHER) "(/" PCHAR(OTHER) "*)*|/(" PCHAR(OTHER) "+(/" PCHAR(                   \
        OTHER) "*)*)?|([a-zA-Z0-9._~!$&'()*+,;=@" OTHER "-]|" PERCENT                              \
               ")+(/" PCHAR(OTHER) "*)*)?" TAIL(OTHER) ")"
#define ALL_OTHERS "\\u00A0-\\uD7FF\\uF900-\\uFDCF\\uFDF0-\\uFFEF\\u{10000}-\\u{EFFFD}"

#define POINTER "(/([^~/]|~[01])*)*"

/* Expressions of ECMA 262, in groups that are nested three deep. Ranges of letters and digits are
 * in their order. */
#define REGEX_RANGE                                                                                \
    "0-[0-9A-Za-z]|1-[1-9A-Za-z]|2-[2-9A-Za-z]|3-[3-9A-Za-z]|4-[4-9A-Za-z]|"                       \
    "5-[5-9A-Za-z]|6-[6-9A-Za-z]|7-[7-9A-Za-z]|8-[8-9A-Za-z]|9-[9-9A-Za-z]|"                       \
    "A-[A-Za-z]|B-[B-Za-z]|C-[C-Za-z]|D-[D-Za-z]|E-[E-Za-z]|F-[F-Za-z]|G-[G-Za-z]|"                \
    "H-[H-Za-z]|I-[I-Za-z]|J-[J-Za-z]|K-[K-Za-z]|L-[L-Za-z]|M-[M-Za-z]|N-[N-Za-z]|"                \
    "O-[O-Za-z]|P-[P-Za-z]|Q-[Q-Za-z]|R-[R-Za-z]|S-[S-Za-z]|T-[T-Za-z]|U-[U-Za-z]|"                \
    "V-[V-Za-z]|W-[W-Za-z]|X-[X-Za-z]|Y-[Y-Za-z]|Z-[Z-Za-z]|a-[a-z]|b-[b-z]|c-[c-z]|"              \
    "d-[d-z]|e-[e-z]|f-[f-z]|g-[g-z]|h-[h-z]|i-[i-z]|j-[j-z]|k-[k-z]|l-[l-z]|m-[m-z]|"             \
    "n-[n-z]|o-[o-z]|p-[p-z]|q-[q-z]|r-[r-z]|s-[s-z]|t-[t-z]|u-[u-z]|v-[v-z]|w-[w-z]|"             \
    "x-[x-z]|y-[y-z]|z-[z-z]"
#define REGEX_ESCAPE "\\\\([dDwWsSnrtfv0!-/:-@\\[-`{-~]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4})"
#define REGEX_SET "\\[\\^?-?(" REGEX_RANGE "| -[/~]|!-[/~]|[^\\\\\\]^-]\\^?|" REGEX_ESCAPE ")*-?\\]"
#define REGEX_REPEAT                                                                               \
    "([*+?]|\\{(\\d{1,3},?|\\d,[1-9]\\d{1,2}|0,\\d|1,[1-9]|2,[2-9]|3,[3-9]|4,[4-9]|5,[5-9]|6,[6-"  \
    "9]|"                                                                                          \
    "7,[7-9]|8,[89]|9,9)\\})\\??"
#define REGEX_OF(GROUP)                                                                            \
    "(([^\\\\()\\[\\]{}*+?|^$]|[\\]}]|" REGEX_ESCAPE "|" REGEX_SET GROUP ")(" REGEX_REPEAT         \
    ")?|[|^$]|\\\\[bB])*"
#define REGEX_GROUP(INNER) "|\\((\\?[:=!])?" INNER "\\)"
#define REGEX REGEX_OF(REGEX_GROUP(REGEX_OF(REGEX_GROUP(REGEX_OF(REGEX_GROUP(REGEX_OF("")))))))

static const struct {
    const char *name, *pattern;
} formats[] = {
    {"date-time", "^" DATE "[tT ]" TIME "$"},
    {"date", "^" DATE "$"},
    {"time", "^" TIME "$"},
    {"duration", "^" DURATION "$"},
    {"email", "^(" ATOM "(\\." ATOM ")*|\"([^\"\\\\]|\\\\.)*\")@(" DOMAIN "(\\." DOMAIN
              ")*|\\[[^\\]]*\\])$"},
    {"idn-email", "^[^\\s@]+@[^\\s@]+$"},
    {"hostname", "^" LABEL "(\\." LABEL ")*$"},
    {"ipv4", "^" IPV4 "$"},
    {"ipv6", "^" IPV6 "$"},
    {"uuid", "^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$"},
    {"uri", "^" URI_OF("") "$"},
    {"uri-reference", "^(" URI_OF("") "|" RELATIVE_OF("") ")$"},
    {"iri", "^" URI_OF(ALL_OTHERS) "$"},
    {"iri-reference", "^(" URI_OF(ALL_OTHERS) "|" RELATIVE_OF(ALL_OTHERS) ")$"},
    {"json-pointer", "^" POINTER "$"},
    {"regex", "^" REGEX "$"},
    {"relative-json-pointer", "^(0|[1-9]\\d*)(#|" POINTER ")$"},
};

const char *schema_format(const char *name) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(name, formats[i].name) == 0)
            return formats[i].pattern;
    return NULL;
}
