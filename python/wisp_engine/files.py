"""Finds the file of a model: a path, a URL, a name on the Hugging Face Hub, or a model that comes with wisp."""

import hashlib
import http.client
import os
import re
import stat
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from . import errors
from .library import HERE

CHUNK = 1 << 20
TIMEOUT = 60  # seconds without a byte
MOST_BYTES = 1 << 40
# The first file of a model in several, as llama-gguf-split names them, and the most that wisp opens.
PART = re.compile(r"-00001-of-(\d{5})\.gguf$")
MOST_FILES = 256
# What wisp opens of a repository: GGUF files, or a folder with safetensors.
FOLDER = ["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja", "artifact.metadata", "*_Pooling/*",
          "*_Dense/*", "*_Normalize/*"]


def shipped(name: str) -> str:
    """Returns the path of a model that comes with wisp."""
    return str(HERE / "models" / f"{name}.gguf")


def find(model: str | os.PathLike[str] | None, default: str) -> str:
    """Returns the path of a model's file or folder; downloads it first if it has to be.

    Parameters
    ----------
    model : str, PathLike or None
        A path; an http(s) URL of a GGUF file; "hf:owner/name", "hf:owner/name/file.gguf" or, with a revision,
        "hf:owner/name@revision"; None for the file that the environment's WISP_MODEL names, else the default. Of a
        model in several files (NAME-00001-of-00003.gguf) the first.
    default : str
        The name of the model that comes with wisp.
    """
    if model is None:
        model = os.environ.get("WISP_MODEL") or shipped(default)
    name = os.fspath(model)
    if name.startswith("hf:"):
        return from_hub(name[3:])
    if name.startswith(("http://", "https://")):
        return from_url(name)
    if not os.path.exists(name):
        raise errors.NotFoundError(f"{name}: no such file or folder{suggestion(name)}", file=name)
    return name


def suggestion(name: str) -> str:
    return f' (for the Hugging Face Hub write "hf:{name}")' if name.count("/") == 1 and name[0] not in "./~" else ""


def from_hub(name: str) -> str:
    try:
        import huggingface_hub
    except ImportError:
        raise errors.UnsupportedError(f"hf:{name} needs huggingface_hub: pip install huggingface_hub") from None
    name, _, revision = name.partition("@")
    parts = name.split("/", 2)
    if len(parts) < 2 or not all(parts):
        raise errors.ArgumentError(f"hf:{name}: expected hf:owner/name or hf:owner/name/file.gguf", field="model")
    repository, chosen = "/".join(parts[:2]), revision or None
    try:
        if len(parts) == 3:
            files = [huggingface_hub.hf_hub_download(repository, file, revision=chosen) for file in files_of(parts[2])]
            return files[0]
        return huggingface_hub.snapshot_download(repository, revision=chosen, allow_patterns=FOLDER)
    except (OSError, ValueError, huggingface_hub.errors.HfHubHTTPError) as failure:
        raise errors.InputOutputError(f"hf:{name}: {failure}", file=f"hf:{name}") from failure


def files_of(name: str) -> list[str]:
    """Returns the names of all files of a model in several, of which the first is named; else the name."""
    found = PART.search(name)
    count = int(found[1]) if found else 1
    if not 1 < count <= MOST_FILES:
        return [name]
    return [PART.sub(f"-{i:05}-of-{count:05}.gguf", name) for i in range(1, count + 1)]


def cache_folder() -> Path:
    """Returns the folder of files from URLs: of WISP_CACHE, else below the user's cache."""
    base = os.environ.get("WISP_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "wisp")
    return Path(base) / "python"


class SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect from https to http, and to no other protocol."""

    def redirect_request(self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any,
                         newurl: str) -> urllib.request.Request | None:
        before, after = urlsplit(req.full_url).scheme, urlsplit(newurl).scheme
        if after not in ("http", "https") or (before == "https" and after == "http"):
            raise OSError(f"it redirects from {before} to {after}, which is not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


OPENER = urllib.request.build_opener(SafeRedirects)


def check_own(path: Path, is_kind: Callable[[int], bool], kind: str) -> None:
    """Fails if others may have put something into the cache."""
    about = os.lstat(path)
    if not is_kind(about.st_mode):
        raise OSError(f"{path} is not {kind}")
    if hasattr(os, "geteuid") and (about.st_uid != os.geteuid() or about.st_mode & 0o022):
        raise OSError(f"{path} is of another user, or others can write to it: name another folder (WISP_CACHE)")


def without_secrets(url: str) -> str:
    """Returns a URL without its user, password and query, which may be a signature."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def from_url(url: str) -> str:
    """Downloads a model once: a file, or all files of one in several, which have names that belong together."""
    try:
        parts, key = urlsplit(url), hashlib.sha256(url.encode()).hexdigest()[:32]
    except ValueError:
        raise errors.InputOutputError("the URL of the model is invalid", field="model") from None
    first, *others = files_of(parts.path)
    for path in others:
        download(parts._replace(path=path).geturl(), f"{key}-{os.path.basename(path)}")
    return download(url, f"{key}-{os.path.basename(first)}")


def download(url: str, name: str) -> str:
    """Downloads a file once. It appears in the cache when it is complete."""
    temporary = None
    try:
        target = cache_folder() / name
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        check_own(target.parent, stat.S_ISDIR, "a folder")
        if os.path.lexists(target):
            check_own(target, stat.S_ISREG, "a file")
            return str(target)
        with OPENER.open(url, timeout=TIMEOUT) as response, tempfile.NamedTemporaryFile(
                dir=target.parent, delete=False) as file:
            temporary = file.name
            length = response.headers.get("Content-Length")
            expected = MOST_BYTES if length is None else int(length)
            if not 0 <= expected <= MOST_BYTES:
                raise OSError(f"the server says that the file has {length} bytes")
            received = 0
            while chunk := response.read(CHUNK):
                if received == 0 and not chunk.startswith(b"GGUF"):
                    raise OSError("the server sent something that is not a GGUF file")
                received += len(chunk)
                if received > expected:
                    raise OSError(f"the server sent more than {expected} bytes")
                file.write(chunk)
            if length is not None and received != expected:
                raise OSError(f"the server sent {received} of {expected} bytes")
            if received == 0:
                raise OSError("the server sent nothing")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
        temporary = None
    except (OSError, ValueError, http.client.HTTPException) as failure:
        shown = without_secrets(url)
        raise errors.InputOutputError(f"{shown}: {failure or type(failure).__name__}", file=shown) from failure
    finally:
        if temporary is not None:
            os.unlink(temporary)
    return str(target)
