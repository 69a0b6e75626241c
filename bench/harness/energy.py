"""Reads how much energy the processors of this machine have used, from the counters under /sys/class/powercap (RAPL of
Intel and AMD)."""

from pathlib import Path

COUNTERS = Path("/sys/class/powercap")
PACKAGE = "package-"  # a processor with its cores, caches and memory controllers; others are parts of it


class Meter:
    """Adds up the microjoules of all packages since it was made."""

    def __init__(self, counters=COUNTERS):
        self.packages, self.reason = {}, f"there is no {counters}"
        for zone in sorted(counters.glob("*:*")) if counters.exists() else ():
            self.reason = f"no counter of a package under {counters} can be read"
            try:
                if (zone / "name").read_text(encoding="ascii").startswith(PACKAGE):
                    limit = int((zone / "max_energy_range_uj").read_text(encoding="ascii"))
                    self.packages[zone / "energy_uj"] = limit, self.value(zone / "energy_uj")
            except OSError as error:
                self.reason = str(error)

    @staticmethod
    def value(path):
        return int(path.read_text(encoding="ascii"))

    def joules(self):
        """Returns the energy since the last call, or None if `reason` says why nothing can be read. Counters begin again
        at 0 after their limit, which takes minutes."""
        if not self.packages:
            return None
        total = 0
        for path, (limit, before) in self.packages.items():
            now = self.value(path)
            total += (now - before) % (limit + 1)
            self.packages[path] = limit, now
        return total / 1e6
