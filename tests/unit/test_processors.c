/* SPDX-License-Identifier: Apache-2.0
 * How many processors a process may use, by files of control groups in a folder of the test. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "host/file.h"
#include "host/processors.h"
#include "support/opening.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { FILES = 4, ALLOWED = 64 };

static const char version_2[] = "0::/docker/abc\n";
static const char version_1[] = "12:cpuset:/docker/abc\n4:cpu,cpuacct:/docker/abc\n0::/other\n";

static const struct limits {
    const char *what, *groups; /* /proc/self/cgroup */
    struct {
        const char *path, *text;
    } files[FILES]; /* below /sys/fs/cgroup */
    double processors;
    uint64_t memory;
    uint32_t usable;
} cases[] = {
    {"no control group", NULL, {{0}}, 0, 0, ALLOWED},
    {"a group that has no files", version_2, {{0}}, 0, 0, ALLOWED},
    {"no limit",
     version_2,
     {{"docker/abc/cpu.max", "max 100000\n"}, {"docker/abc/memory.max", "max\n"}},
     0,
     0,
     ALLOWED},
    {"a limit",
     version_2,
     {{"docker/abc/cpu.max", "200000 100000\n"}, {"docker/abc/memory.max", "1073741824\n"}},
     2,
     1073741824,
     2},
    {"a part of a processor", version_2, {{"docker/abc/cpu.max", "50000 100000\n"}}, 0.5, 0, 1},
    {"a processor and a half", version_2, {{"docker/abc/cpu.max", "150000 100000\n"}}, 1.5, 0, 2},
    {"more than there are",
     version_2,
     {{"docker/abc/cpu.max", "9900000 100000\n"}},
     99,
     0,
     ALLOWED},
    {"the least of the groups above",
     version_2,
     {{"docker/abc/cpu.max", "800000 100000\n"},
      {"docker/cpu.max", "300000 100000\n"},
      {"cpu.max", "max 100000\n"}},
     3,
     0,
     3},
    {"a container that sees its own group as the root",
     "0::/\n",
     {{"cpu.max", "100000 50000\n"}},
     2,
     0,
     2},
    {"the group's path on the host",
     "0::/kubepods/pod1/abc\n",
     {{"cpu.max", "400000 100000\n"}},
     4,
     0,
     4},
    {"version 1",
     version_1,
     {{"cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "250000\n"},
      {"cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n"}},
     2.5,
     0,
     3},
    {"version 1 without a limit",
     version_1,
     {{"cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "-1\n"},
      {"cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n"}},
     0,
     0,
     ALLOWED},
    {"version 1 in a container",
     "3:cpuacct,cpu:/docker/abc\n",
     {{"cpuacct,cpu/cpu.cfs_quota_us", "100000\n"}, {"cpuacct,cpu/cpu.cfs_period_us", "100000\n"}},
     1,
     0,
     1},
    {"another controller's limit",
     "7:cpuset:/a\n",
     {{"cpuset/a/cpu.cfs_quota_us", "100000\n"}, {"cpuset/a/cpu.cfs_period_us", "100000\n"}},
     0,
     0,
     ALLOWED},
    {"malformed files",
     "0:\nx\n0::/a\n",
     {{"a/cpu.max", "\n"}, {"a/memory.max", "-5\n"}, {"cpu.max", "nan nan\n"}},
     0,
     0,
     ALLOWED},
};

static void put(const char *root, const char *path, const char *text) {
    char whole[600];
    wisp_error error;
    snprintf(whole, sizeof whole, "%s/%s", root, path);
    assert_int_equal(file_make_folders(whole, 0700, &error), WISP_OK);
    write_file(whole, text, strlen(text));
}

static void limits_are_those_of_the_group_and_above(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct limits *c = &cases[i];
        char name[32], root[300], path[128];
        snprintf(name, sizeof name, "root-%zu", i);
        snprintf(root, sizeof root, "%s", temporary_path(name));
        if (c->groups)
            put(root, "proc/self/cgroup", c->groups);
        for (size_t k = 0; k < FILES && c->files[k].path; k++) {
            snprintf(path, sizeof path, "sys/fs/cgroup/%s", c->files[k].path);
            put(root, path, c->files[k].text);
        }
        const struct control_group found = control_group_read(root);
        if (fabs(found.processors - c->processors) > 1e-9 || found.memory != c->memory ||
            processors_usable(ALLOWED, &found) != c->usable)
            fail_msg("%s: %g processors, %llu bytes, %u threads", c->what, found.processors,
                     (unsigned long long)found.memory, processors_usable(ALLOWED, &found));
    }
}

static void there_is_always_a_thread(void **state) {
    (void)state;
    const struct control_group none = {0};
    assert_int_equal(processors_usable(0, &none), 1);
    assert_true(processors_allowed() >= 1);
    assert_in_range(wisp_usable_threads(), 1, processors_allowed());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_are_those_of_the_group_and_above),
        cmocka_unit_test(there_is_always_a_thread),
    };
    return cmocka_run_group_tests_name("processors", tests, NULL, tear_down_temporary_folder);
}
