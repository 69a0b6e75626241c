/* SPDX-License-Identifier: Apache-2.0 */
#include "host/processors.h"

#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "wisp.h"

bool system_line(const char *path, char *line, size_t capacity) {
    FILE *file = fopen(path, "r");
    line[0] = '\0';
    const bool good = file && fgets(line, (int)capacity, file);
    if (file)
        fclose(file);
    line[strcspn(line, "\n")] = '\0';
    return good;
}

/* Reads two numbers of a file of a folder, as far as it has them. What stands for "no limit" is no
 * number or not above 0. */
static void read_numbers(const char *folder, const char *name, double numbers[2]) {
    char path[2 * PATH_MAX + 32], line[128], *end;
    numbers[0] = numbers[1] = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (!system_line(path, line, sizeof line))
        return;
    numbers[0] = strtod(line, &end);
    numbers[1] = end > line ? strtod(end, NULL) : 0;
}

static void take_processors(struct control_group *limits, double quota, double period) {
    const double most = quota > 0 && period > 0 ? quota / period : 0;
    if (most > 0 && (limits->processors == 0 || most < limits->processors))
        limits->processors = most;
}

static void read_version_1(const char *folder, struct control_group *limits) {
    double quota[2], period[2];
    read_numbers(folder, "cpu.cfs_quota_us", quota);
    read_numbers(folder, "cpu.cfs_period_us", period);
    take_processors(limits, quota[0], period[0]);
}

static void read_version_2(const char *folder, struct control_group *limits) {
    double numbers[2];
    read_numbers(folder, "cpu.max", numbers);
    take_processors(limits, numbers[0], numbers[1]);
    read_numbers(folder, "memory.max", numbers);
    const uint64_t bytes = numbers[0] > 0 && numbers[0] < 0x1p63 ? (uint64_t)numbers[0] : 0;
    if (bytes > 0 && (limits->memory == 0 || bytes < limits->memory))
        limits->memory = bytes;
}

/* Returns whether a list such as "cpu,cpuacct" has the controller of processors. */
static bool controls_processors(const char *list, size_t length) {
    for (const char *end = list + length; list < end; list += strcspn(list, ",:") + 1)
        if (strncmp(list, "cpu", 3) == 0 && strchr(",:", list[3]))
            return true;
    return false;
}

/* Reads a line of /proc/self/cgroup, "number:controllers:/path", and the limits of this group and
 * of those above it. In a container the path may be that on its host, and what is mounted is the
 * group itself: that is where this ends. */
static void read_group(const char *root, const char *line, struct control_group *limits) {
    char folder[2 * PATH_MAX];
    const char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
    if (!path)
        return;
    const size_t length = (size_t)(path - ++list);
    if (length > 0 && !controls_processors(list, length))
        return;
    const int above = snprintf(folder, sizeof folder, "%s/sys/fs/cgroup%s%.*s", root,
                               length > 0 ? "/" : "", (int)length, list);
    if (above < 0 || (size_t)above + strlen(path) >= sizeof folder)
        return;
    snprintf(folder + above, sizeof folder - (size_t)above, "%s", path + 1);
    for (;;) {
        (length > 0 ? read_version_1 : read_version_2)(folder, limits);
        char *last = strrchr(folder + above, '/');
        if (!last)
            return;
        *last = '\0';
    }
}

struct control_group control_group_read(const char *root) {
    struct control_group limits = {0};
    char path[PATH_MAX], line[PATH_MAX];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        read_group(root, line, &limits);
    }
    if (file)
        fclose(file);
    return limits;
}

uint32_t processors_allowed(void) {
#ifdef __linux__
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return (uint32_t)CPU_COUNT(&set);
#endif
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (uint32_t)online : 1;
}

uint32_t processors_usable(uint32_t allowed, const struct control_group *limits) {
    const double most = ceil(limits->processors);
    const uint32_t usable = most > 0 && most < (double)allowed ? (uint32_t)most : allowed;
    return usable > 0 ? usable : 1;
}

uint32_t wisp_usable_threads(void) {
    const struct control_group limits = control_group_read("");
    return processors_usable(processors_allowed(), &limits);
}
