/* SPDX-License-Identifier: Apache-2.0
 * Correlations and quantiles against SciPy's and NumPy's figures. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include "base/statistics.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

static const double x[] = {3, 1.5, 1.5, -2, 7.25, 0, 1.5, 4};
static const double y[] = {1, 0.5, 2, -1, 3, 3, 0.25, -0.5};

enum { N = sizeof x / sizeof *x };

static void assert_near(double value, double expected) {
    if (!(fabs(value - expected) < 1e-12))
        fail_msg("%.17g; expected %.17g", value, expected);
}

static void correlations_are_scipys(void **state) {
    (void)state;
    double rho;
    wisp_error error;
    assert_int_equal(spearman(x, y, N, &rho, &error), WISP_OK);
    assert_near(rho, 0.24544034683690802);
    assert_near(pearson(x, y, N), 0.39681457047691243);
}

static void what_has_no_order_correlates_with_nothing(void **state) {
    (void)state;
    static const double same[N] = {2, 2, 2, 2, 2, 2, 2, 2};
    double rho;
    wisp_error error;
    assert_true(isnan(pearson(x, same, N)));
    assert_true(isnan(pearson(x, y, 1)));
    assert_true(isnan(pearson(x, y, 0)));
    assert_int_equal(spearman(same, y, N, &rho, &error), WISP_OK);
    assert_true(isnan(rho));
    assert_int_equal(spearman(x, x, N, &rho, &error), WISP_OK);
    assert_near(rho, 1);
}

static void quantiles_are_numpys(void **state) {
    (void)state;
    static const double shares[] = {0, 0.01, 0.3, 0.5, 1};
    static const double expected[] = {-2, -1.86, 1.5, 1.5, 7.25};
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        double values[N];
        for (size_t j = 0; j < N; j++)
            values[j] = x[j];
        assert_near(quantile(values, N, shares[i]), expected[i]);
    }
    double one[] = {4};
    assert_near(quantile(one, 1, 0.5), 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(correlations_are_scipys),
        cmocka_unit_test(what_has_no_order_correlates_with_nothing),
        cmocka_unit_test(quantiles_are_numpys),
    };
    return cmocka_run_group_tests_name("statistics", tests, NULL, NULL);
}
