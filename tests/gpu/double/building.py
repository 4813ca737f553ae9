"""Compile guard.cpp once for the torch that is installed, and load it before torch looks for such hooks."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("guard.cpp")


def torch_folder() -> Path:
    """Return the folder of torch, without importing it."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def obstacle() -> str | None:
    """Return why the double cannot be used here, or `None` if it can."""
    if (torch_folder() / "lib" / "libtorch_cuda.so").exists():
        return "the double of a GPU needs a CPU build of torch"
    if shutil.which("g++") is None:
        return "the double of a GPU needs g++"
    return None


def built() -> Path:
    """Return the compiled library, which is kept where torch keeps compiled extensions."""
    root = torch_folder()
    kept = os.environ.get("TORCH_EXTENSIONS_DIR") or Path.home() / ".cache" / "torch_extensions"
    version = SOURCE.read_bytes() + str(root).encode() + (root / "version.py").read_bytes()
    library = Path(kept) / "league_double" / f"guard-{hashlib.sha256(version).hexdigest()[:16]}.so"
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        own = library.with_suffix(f".{os.getpid()}")  # another process may compile it too
        flags = ["-std=c++20", "-O1", "-shared", "-fPIC", f"-I{root}/include", f"-L{root}/lib"]
        libraries = [f"-Wl,-rpath,{root}/lib", "-ltorch_cpu", "-lc10"]
        subprocess.run(["g++", *flags, str(SOURCE), "-o", str(own), *libraries], check=True)
        own.rename(library)
    return library


@functools.cache
def loaded() -> ctypes.CDLL:
    """Return the library in this process."""
    return ctypes.CDLL(str(built()))
