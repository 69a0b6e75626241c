"""Counts the bytes that installed packages take with all that they need."""

from importlib import metadata

from packaging import requirements


def bytes_of(*names):
    found, waiting = {}, [requirements.Requirement(name) for name in names]
    while waiting:
        wanted = waiting.pop()
        key = (wanted.name.lower().replace("_", "-"), *sorted(wanted.extras))
        if key in found:
            continue
        package = metadata.distribution(wanted.name)
        found[key] = {file.locate() for file in package.files or ()}
        for needed in map(requirements.Requirement, package.requires or ()):
            if not needed.marker or any(needed.marker.evaluate({"extra": extra}) for extra in ("", *wanted.extras)):
                waiting.append(needed)
    return sum(path.stat().st_size for path in set().union(*found.values()) if path.is_file() and path.suffix != ".pyc")
