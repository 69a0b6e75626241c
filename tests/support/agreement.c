/* SPDX-License-Identifier: Apache-2.0 */
#include "support/agreement.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include "support/golden.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

struct agreement agreement_of(wisp_session *session, const wisp_text *texts, size_t n,
                              const float *expected, size_t size, struct sampling sampling) {
    wisp_text *chosen = calloc(n, sizeof *chosen);
    size_t *places = calloc(n, sizeof *places);
    float *rows = calloc(n * size, sizeof *rows);
    struct agreement a = {.min = 1};
    wisp_error error;
    double squares = 0;
    assert_true(chosen && places && rows);
    for (size_t i = 0; i < n; i += sampling_stride(&sampling)) {
        places[a.n] = i;
        chosen[a.n++] = texts[i];
    }
    if (wisp_embed(session, chosen, a.n, NULL, rows, &error) != WISP_OK)
        fail_msg("%s", error.message);
    for (size_t i = 0; i < a.n; i++) {
        const double c = cosine(rows + i * size, expected + places[i] * size, size);
        a.mean += c / (double)a.n;
        squares += c * c / (double)a.n;
        a.min = fmin(a.min, c);
    }
    const double left_out = n > 1 ? (double)(n - a.n) / (double)(n - 1) : 0;
    a.error = sqrt(fmax(squares - a.mean * a.mean, 0) / (double)a.n * left_out);
    free(rows);
    free(places);
    free(chosen);
    return a;
}

bool mean_reaches(const struct agreement *agreement, double bound) {
    return agreement->mean + 4 * agreement->error >= bound;
}
