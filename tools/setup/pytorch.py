"""Installs PyTorch and transformers, for the tests of tools/train_*.py and tests/oracle/models.py.

PyPI's PyTorch brings CUDA with it: 5 GB. Debian's is for CPUs, and its testing suite has a transformers that fits it,
so they are taken from there with their own Python and C library, which a private loader starts.
"""

import platform

from .apt import fetch_debs
from .prefix import LIBRARIES, unpack
from .scripting import install_requirements, pip_of
from .workspace import (BIN, REPO, TOOLS, SetupError, building, run, step, system_program, wrap_system_program,
                        write_wrapper)

PROGRAM = "python-torch"
# Debian's PyTorch asks for any BLAS and LAPACK, and apt would take the reference ones, which are slower.
PACKAGES = ["python3-torch", "python3-transformers", "libopenblas0-pthread"]
PROBE = """\
import sys, safetensors.torch, tokenizers, torch, transformers
assert sys.version_info >= (3, 11) and int(transformers.__version__.split(".")[0]) >= 5
print(torch.__version__, transformers.__version__)
"""

PROBE_SENTENCE = """\
import sys
sys.path.insert(0, sys.argv[1])
import gguf, onnxruntime, peft, sentence_transformers
print(sentence_transformers.__version__)
"""

# These are left out: packages for GPUs of AMD, for pictures, for booting systems, and for PyTorch's own tests.
NOT_USED = (r"python3-(torchvision|networkx|hypothesis)|libtorch-test|libamdhip.*|libamd-comgr.*|libllvm.*|"
            r"systemd.*|libsystemd.*|git|git-man|openssl|perl.*|dpkg.*|passwd|tzdata|debconf.*")

# Packages of other Pythons stay hidden. OpenBLAS and gloo have folders of their own. OpenBLAS does not know PyTorch's
# number of threads, and would take all cores.
RUN_PRIVATE = f"""\
here="$tools/torch"
libraries="$here/{LIBRARIES}"
folders="$libraries/openblas-pthread:$libraries:$here/usr/lib"
export OPENBLAS_NUM_THREADS="${{OPENBLAS_NUM_THREADS:-1}}"
set -- "$here"/usr/bin/python3.[0-9]* "$@"
python=$1
shift
PYTHONHOME="$here/usr" PYTHONPATH="$here/usr/lib/python3/dist-packages" PYTHONNOUSERSITE=1 \\
    exec "$libraries"/ld-linux-*.so.* --library-path "$folders" --argv0 "$self" "$python" "$@"
"""


def use_system():
    """Makes the wrapper run the system's Python if that has the packages."""
    python = system_program("python3")
    if not python:
        return False
    try:
        run([python, "-c", PROBE])
    except SetupError:
        return False
    wrap_system_program(PROGRAM, python)
    return True


def install_torch():
    if use_system():
        return
    with building("torch") as folder:
        unpack(fetch_debs("forky", PACKAGES, NOT_USED), folder)
    write_wrapper(PROGRAM, RUN_PRIVATE)
    with step("importing PyTorch and transformers") as details:
        details.append(run([BIN / PROGRAM, "-c", PROBE]).strip())


def install_sentence():
    """Installs sentence-transformers for the Python that has PyTorch, in a folder that tests add to its path."""
    version = run([BIN / PROGRAM, "-c", "import sys; print('%d%d' % sys.version_info[:2])"]).strip()
    platforms = [word for glibc in ("2_17", "2_27", "2_28", "2014")
                 for word in ("--platform", f"manylinux{'' if glibc == '2014' else '_'}{glibc}_{platform.machine()}")]
    with building("sentence") as folder, pip_of(TOOLS / "python/bin/python") as pip:
        install_requirements(pip, REPO / "tools/requirements-sentence.txt", "--no-deps", "--only-binary=:all:",
                             "--implementation", "cp", "--python-version", version, "--abi", f"cp{version}", "--abi",
                             "abi3", "--abi", "none", *platforms, "--target", folder)
        with step("importing sentence-transformers") as details:
            details.append(run([BIN / PROGRAM, "-c", PROBE_SENTENCE, folder]).strip().splitlines()[-1])
