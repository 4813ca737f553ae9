"""A child process with little memory: what crashes or eats up memory there is found out, and nobody hurt.

python -m tests.storage.hostile.limited MODULE:FUNCTION '[ARGUMENTS]'
"""

from __future__ import annotations

import importlib
import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
ROOM_BYTES = 512 * 2**20  # beyond what Python and the libraries have mapped when the work begins


def limited(function: str, *arguments: Any, room_bytes: int = ROOM_BYTES) -> Any:
    """What `module:function` of this package returns for `arguments` (JSON both), called in a child that can
    map no more than `room_bytes` of memory. Fails when the child does not come back."""
    command = [sys.executable, "-m", __name__, function, json.dumps(arguments), str(room_bytes)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (
        f"{function}: exit {done.returncode}\n{done.stdout[-500:]}{done.stderr[-3000:]}"
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    function, arguments, room_bytes = sys.argv[1:]
    module, name = function.split(":")
    work = getattr(importlib.import_module(f"tests.storage.hostile.{module}"), name)
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + int(room_bytes),) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    print(json.dumps(work(*json.loads(arguments))))


if __name__ == "__main__":
    main()
