/* SPDX-License-Identifier: Apache-2.0 */
#include "windows/system.h"

long windows_sysconf(int name) {
    DWORD_PTR own, all;
    if (name != _SC_NPROCESSORS_ONLN || !GetProcessAffinityMask(GetCurrentProcess(), &own, &all))
        return -1;
    /* 0: the process has threads in several groups of 64 */
    return own ? (long)__builtin_popcountll(own)
               : (long)GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
}
