/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/machine.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static const char cgroup_root[] = "/sys/fs/cgroup";

/* Reads the first line of a file. Returns false if there is none. */
static bool read_line(const char *path, char *line, size_t capacity) {
    FILE *file = fopen(path, "r");
    line[0] = '\0';
    const bool good = file && fgets(line, (int)capacity, file);
    if (file)
        fclose(file);
    line[strcspn(line, "\n")] = '\0';
    return good;
}

/* Reads what stands behind a name and a colon in a file of such lines. */
static bool read_field(const char *path, const char *name, char *value, size_t capacity) {
    char line[256];
    FILE *file = fopen(path, "r");
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        found = colon && strncmp(line, name, strlen(name)) == 0;
        if (found) {
            colon += 1 + strspn(colon + 1, " \t");
            snprintf(value, capacity, "%.*s", (int)strcspn(colon, "\n"), colon);
        }
    }
    if (file)
        fclose(file);
    return found;
}

static uint64_t read_kilobytes(const char *name) {
    char text[64];
    return read_field("/proc/meminfo", name, text, sizeof text) ? strtoull(text, NULL, 10) * 1024
                                                                : 0;
}

/* Counts the processors of a list such as "0-3,8". */
static unsigned long count_list(const char *text) {
    unsigned long n = 0;
    for (char *end; *text; text = *end == ',' ? end + 1 : "") {
        const unsigned long first = strtoul(text, &end, 10);
        n += *end == '-' ? strtoul(end + 1, &end, 10) - first + 1 : 1;
    }
    return n;
}

/* Takes the least limits of this process's control group (version 2) and those above it. */
static void read_limits(struct machine *m) {
    char group[PATH_MAX], path[2 * PATH_MAX], line[128];
    if (!read_line("/proc/self/cgroup", group, sizeof group) || strncmp(group, "0::", 3) != 0)
        return;
    for (char *name = group + 3;; *strrchr(name, '/') = '\0') {
        snprintf(path, sizeof path, "%s%s/cpu.max", cgroup_root, name);
        char *end = line;
        const double most = read_line(path, line, sizeof line) ? strtod(line, &end) : 0;
        const double period = end > line ? strtod(end, NULL) : 0; /* "max" is no number */
        if (period > 0 && (m->quota == 0 || most / period < m->quota))
            m->quota = most / period;
        snprintf(path, sizeof path, "%s%s/memory.max", cgroup_root, name);
        const uint64_t limit =
            read_line(path, line, sizeof line) ? strtoull(line, NULL, 10) : 0; /* "max" is 0 */
        if (limit > 0 && (m->memory_limit == 0 || limit < m->memory_limit))
            m->memory_limit = limit;
        if (!strrchr(name, '/'))
            return;
    }
}

void machine_look(struct machine *m) {
    char siblings[64];
    cpu_set_t set;
    *m = (struct machine){.cores = default_threads()};
    if (!read_field("/proc/cpuinfo", "model name", m->processor, sizeof m->processor))
        snprintf(m->processor, sizeof m->processor, "unknown");
    m->allowed =
        sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned long)CPU_COUNT(&set) : m->cores;
    if (read_line("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", siblings,
                  sizeof siblings))
        m->siblings = count_list(siblings);
    read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", m->governor,
              sizeof m->governor);
    if (getloadavg(&m->load, 1) != 1)
        m->load = 0;
    m->memory = read_kilobytes("MemTotal");
    m->available = read_kilobytes("MemAvailable");
    read_limits(m);
}
