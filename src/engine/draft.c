/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/draft.h"

#include <string.h>

#include "base/checked.h"

enum {
    LEAST_MATCH = 2,   /* last tokens that have to be together before */
    LONGEST_MATCH = 8, /* of which more say no more */
    FIRST_GUESS = 3,   /* tokens */
    PAUSE = 8          /* tokens, after a guess of one token was wrong */
};

/* Returns the place behind the last tokens' latest occurrence of the most of them; 0: there is
 * none.
 */
static size_t find_match(const int32_t *ids, size_t n, int32_t last) {
    size_t best = LEAST_MATCH - 1, place = 0;
    for (size_t i = n; i-- > 0 && best < LONGEST_MATCH;) {
        size_t length = 0;
        if (ids[i] != last)
            continue;
        for (length = 1;
             length < LONGEST_MATCH && length <= i && ids[i - length] == ids[n - length];)
            length++;
        if (length > best) {
            best = length;
            place = i + 1;
        }
    }
    return place;
}

void draft_guess(struct draft *draft, const int32_t *ids, size_t n, int32_t last, size_t limit) {
    const size_t most = smaller(draft->most ? draft->most : FIRST_GUESS, limit);
    draft->ids[0] = last;
    draft->n = 0;
    if (draft->pause > 0) {
        draft->pause--;
        return;
    }
    const size_t place = find_match(ids, n, last);
    if (place == 0)
        return;
    draft->n = smaller(smaller(most, MOST_DRAFTED), n + 1 - place);
    for (size_t i = 0; i < draft->n; i++)
        draft->ids[1 + i] = place + i < n ? ids[place + i] : last;
}

void draft_learn(struct draft *draft, size_t right) {
    if (draft->n == 0)
        return;
    if (right == draft->n)
        draft->most = smaller(2 * draft->n, MOST_DRAFTED);
    else if (right > 0)
        draft->most = right + 1;
    else if (draft->n > 1)
        draft->most = draft->n / 2;
    else
        draft->pause = PAUSE;
}
