"""The floors of the house: who may import whom, read from the code itself."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = sorted(
    path for package in ("league", "storage", "analysis") for path in (ROOT / package).rglob("*.py")
)
PARTS = ("rules", "rollout", "learning", "envs", "models")


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imported(path: Path, *, lazy: bool = True) -> set[str]:
    """Names of the modules that a file imports; `lazy`: also those inside functions.

    Imports for type checkers alone are left out: they hold nothing together.
    """
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                continue
            if isinstance(child, ast.FunctionDef) and not lazy:
                continue
            if isinstance(child, ast.Import):
                found.update(alias.name for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{path}: relative import"
                found.add(str(child.module))
                found.update(f"{child.module}.{alias.name}" for alias in child.names)
            visit(child)

    visit(ast.parse(path.read_text()))
    return found


def uses(path: Path, package: str, *, lazy: bool = True) -> bool:
    return any(name == package or name.startswith(package + ".") for name in imported(path, lazy=lazy))


def files_of(prefix: str) -> list[Path]:
    chosen = [path for path in FILES if (module_name(path) + ".").startswith(prefix + ".")]
    assert chosen, prefix
    return chosen


def test_storage_knows_nothing_of_leagues_analysis_ray_or_training():
    for path in files_of("storage"):
        for package in ("league", "analysis", "ray", "gymnasium"):
            assert not uses(path, package), f"{path.name} imports {package}"


def test_storage_touches_torch_only_in_blobs():
    assert [path.name for path in files_of("storage") if uses(path, "torch")] == ["blobs.py"]


CHANGES_FILES = set(
    """chmod fchmod fdatasync fsync ftruncate link makedirs mkdir pwrite remove removedirs rename renames
    rmdir symlink truncate unlink hardlink_to symlink_to touch write_bytes write_text""".split()  # noqa: SIM905
)


def changes_of_files(path: Path) -> list[str]:
    """Calls in a file that change files without the layer of storage/disk.py."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        owner, _, method = ast.unparse(node.func).rpartition(".")
        modes = [str(mode.value) for mode in node.args[:2] if isinstance(mode, ast.Constant)]
        opened = method == "open" and any(set(mode) & set("wax+") for mode in modes)
        if owner in ("disk()", "disk"):
            continue
        if (method in CHANGES_FILES and owner) or owner == "shutil" or opened:
            found.append(f"{path.name}:{node.lineno}: {ast.unparse(node.func)}")
    return found


def test_storage_changes_files_only_through_its_disk():
    outside = [path for path in files_of("storage") if path.name != "disk.py"]
    assert [call for path in outside for call in changes_of_files(path)] == []
    assert len(changes_of_files(ROOT / "storage" / "disk.py")) > 8


def test_analysis_imports_storage_only():
    for path in files_of("analysis"):
        for package in ("league", "ray", "torch"):
            assert not uses(path, package, lazy=False), f"{path.name} imports {package}"


def test_analysis_works_where_there_is_neither_torch_nor_ray():
    modules = [module_name(path) for path in files_of("analysis") if "examples" not in path.parts]
    missing = "import sys; sys.modules['torch'] = sys.modules['ray'] = sys.modules['league'] = None; "
    subprocess.run([sys.executable, "-c", f"{missing}import {', '.join(modules)}"], check=True)


@pytest.mark.parametrize("pillar", ["rules", "rollout", "learning"])
def test_the_three_pillars_never_import_one_another(pillar):
    others = {"rules", "rollout", "learning"} - {pillar}
    for path in files_of(f"league.{pillar}"):
        for other in others:
            assert not uses(path, f"league.{other}"), f"{path.name} imports league.{other}"


IMPURE = ("ray", "torch", "time", "datetime", "random", "os", "pathlib", "duckdb", "league.envs")


@pytest.mark.parametrize("part", ["league.rules", "league.tournament.schedules"])
def test_rules_and_schedules_are_pure(part):
    for path in files_of(part):
        for package in IMPURE:
            assert not uses(path, package), f"{path.name} imports {package}"


def test_rules_know_nothing_of_storage_but_its_records():
    for path in files_of("league.rules"):
        for name in imported(path):
            assert not name.startswith("storage.") or name.startswith("storage.records"), (
                f"{path.name}: {name}"
            )


def test_nothing_below_the_loop_holds_an_archive_or_imports_upwards():
    for part in (*PARTS, "episode"):
        for path in files_of(f"league.{part}"):
            for name in ("loop", "resume", "session", "config", "cli"):
                assert not uses(path, f"league.{name}"), f"{path.name} imports league.{name}"
            assert not uses(path, "storage.archive"), f"{path.name} imports storage.archive"


def test_the_loop_and_the_tournament_do_not_import_the_config_or_the_command_line():
    for name in ("loop", "resume", "session", "tournament"):
        for path in files_of(f"league.{name}"):
            assert not uses(path, "league.config")
            assert not uses(path, "league.commands.app")


def test_learning_needs_no_game():
    for path in files_of("league.learning"):
        assert not uses(path, "league.envs"), path.name


def test_ray_is_imported_in_three_files_and_there_only_when_needed():
    users = {module_name(path) for path in FILES if uses(path, "ray")}
    assert users == {"league.runtime", "league.rollout.runner_group", "league.learning.groups.learner_group"}
    assert not any(uses(path, "ray", lazy=False) for path in FILES)


def test_no_room_is_called_utils():
    forbidden = {"utils", "util", "common", "helpers", "misc", "scripts"}
    assert not [path for path in FILES if forbidden & {part.removesuffix(".py") for part in path.parts}]


@pytest.mark.slow
def test_a_run_without_runners_never_imports_ray(tmp_path):
    code = (
        "import sys; sys.modules['ray'] = None\n"
        "import league\n"
        "league.train({'env': {'id': 'rock_paper_scissors'}, 'policy': {'hidden': [8]}, 'runners': 0,"
        " 'learner': {'batch_steps': 64}, 'rollout': {'matches_per_request': 64},"
        " 'stop': {'env_steps': 2000}}, sys.argv[1])\n"
        "assert sys.modules['ray'] is None\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "run")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
