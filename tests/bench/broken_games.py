"""How long `league train` takes to refuse a broken game, and what it says of it.

    python -m tests.bench.broken_games

Each of the broken games of `tests/league/envs/trial` (batched, AEC, Parallel, gymnasium) is trained by the
command, each in a process of its own, which begins with all imports done. Printed are those that are not
refused with one line, exit code 2 and the cause that is known, and the slowest. A game that random play is
never paid in may be a hard one: that is a warning, and it is trained.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import gymnasium
import yaml

TRIAL = Path(__file__).parents[1] / "league" / "envs" / "trial"
LIMIT_SECONDS = 10.0


def refused(env: str, folder: Path) -> tuple[int, float, str, bool]:
    """Return exit code, seconds and message of `league train` on the game, and whether it left a run."""
    from league.commands.app import main as command

    config, said, run = folder / "config.yaml", folder / "said", folder / "run"
    settings = {"name": "broken", "env": {"id": env}, "league": {"preset": "none"}, "runners": 0}
    config.write_text(yaml.safe_dump(settings | {"stop": {"env_steps": 1000}}))
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        with said.open("w") as file:
            os.dup2(file.fileno(), sys.stdout.fileno())
            os.dup2(file.fileno(), sys.stderr.fileno())
        sys.argv = ["league", "train", str(config), "--run", str(run)]
        code = 70
        try:
            command()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 71
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), time.monotonic() - began, said.read_text(), run.exists()


def main() -> None:
    """Print what is not as it should be, the number of games, and the slowest."""
    sys.path.insert(0, str(TRIAL))
    import broken_batched
    import broken_gymnasium
    import broken_pettingzoo

    import league.training.loop  # noqa: F401 - what every child needs

    found = []
    for module in (broken_batched, broken_gymnasium, broken_pettingzoo):
        for game, cause in (module.FAULTS | getattr(module, "UNMADE", {})).items():
            env = f"{module.__name__}:{game.__name__}"
            if issubclass(game, gymnasium.Env):
                gymnasium.register(f"{game.__name__}-v0", entry_point=env)
                env = f"gymnasium:{game.__name__}-v0"
            with tempfile.TemporaryDirectory() as folder:
                code, seconds, said, left = refused(env, Path(folder))
            if "no seat got a reward" in cause:
                good = code == 0 and f"warning: env '{env}': {cause}" in said
            else:
                cause = cause.replace("800 decisions", "10,000 decisions")  # the tests stop sooner
                good = code == 2 and cause in said and said.count("\n") == 1 and not left
            found.append((good and seconds < LIMIT_SECONDS, seconds, env))
            if not found[-1][0]:
                print(f"NOT AS IT SHOULD BE {env}: exit code {code}, {seconds:.1f} s: {said}", flush=True)
    seconds, slowest = max((seconds, env) for _, seconds, env in found)
    named = sum(good for good, *_ in found)
    print(f"{len(found)} games, {named} named with their cause within {LIMIT_SECONDS:.0f} s")
    print(f"slowest: {slowest}, {seconds:.1f} s; all together {sum(s for _, s, _ in found):.0f} s")
    sys.exit(0 if all(good for good, *_ in found) else 1)


if __name__ == "__main__":
    main()
