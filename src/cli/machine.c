/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/processors.h"

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

void machine_look(struct machine *m) {
    char siblings[64];
    const struct control_group limits = control_group_read("");
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    *m = (struct machine){
        .allowed = processors_allowed(), .quota = limits.processors, .memory_limit = limits.memory};
    m->cores = online > 0 ? (unsigned long)online : m->allowed;
    if (!read_field("/proc/cpuinfo", "model name", m->processor, sizeof m->processor))
        snprintf(m->processor, sizeof m->processor, "unknown");
    if (system_line("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", siblings,
                    sizeof siblings))
        m->siblings = count_list(siblings);
    system_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", m->governor,
                sizeof m->governor);
    if (getloadavg(&m->load, 1) != 1)
        m->load = 0;
    m->memory = read_kilobytes("MemTotal");
    m->available = read_kilobytes("MemAvailable");
}
