"""The floors of the house: which part may import which, read from the code itself."""

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("league", "storage", "analysis")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
PARTS = ("rules", "rollout", "learning", "envs", "models")
PURE = ("statistics", "solution", "exploitability", "gates")
READERS = ("history", "tournaments", "diagnostics", "plots", "report", "server")


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def imported(path: Path, *, lazy: bool = True) -> frozenset[str]:
    """Names of the modules that a file imports, for type checkers too; if `lazy`, inside functions too."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
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
    return frozenset(found)


def uses(path: Path, package: str, *, lazy: bool = True) -> bool:
    return any(name == package or name.startswith(package + ".") for name in imported(path, lazy=lazy))


def files_of(prefix: str) -> list[Path]:
    chosen = [path for path in FILES if (module_name(path) + ".").startswith(prefix + ".")]
    assert chosen, prefix
    return chosen


def graph() -> dict[str, set[str]]:
    """Each module's imports of ours: those for type checkers and those inside functions count."""
    modules = {module_name(path): path for path in FILES}
    edges: dict[str, set[str]] = {}
    for name, path in modules.items():
        targets = imported(path) & modules.keys()
        # `from package import module` names both; what is meant is the module
        named = {
            t
            for t in targets
            if not any(other.startswith(t + ".") for other in imported(path) & modules.keys())
        }
        edges[name] = named - {name}
    return edges


@pytest.mark.slow
def test_no_import_goes_in_a_circle_not_even_for_type_checkers_or_inside_functions():
    try:
        TopologicalSorter(graph()).prepare()
    except CycleError as error:
        pytest.fail(f"import circle: {' > '.join(error.args[1])}")


@pytest.mark.slow
def test_a_circle_would_be_found():
    with pytest.raises(CycleError):
        TopologicalSorter({**graph(), "storage.errors": {"league.commands.app"}}).prepare()


@pytest.mark.slow
def test_storage_knows_nothing_of_leagues_analysis_ray_or_training():
    for path in files_of("storage"):
        for package in ("league", "analysis", "ray", "gymnasium"):
            assert not uses(path, package), f"{path.name} imports {package}"


@pytest.mark.slow
def test_storage_touches_torch_only_in_blobs():
    assert [path.name for path in files_of("storage") if uses(path, "torch")] == ["blobs.py"]


@pytest.mark.parametrize("part", ["reader", "archive", "disk", "ledger", "tables", "snapshots", "cache"])
def test_reading_a_folder_never_reaches_for_the_remote(part):
    for path in files_of(f"storage.{part}"):
        assert not uses(path, "storage.remote"), f"{path.name} imports storage.remote"


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


@pytest.mark.slow
def test_analysis_imports_storage_only():
    for path in files_of("analysis"):
        for package in ("league", "ray", "torch"):
            assert not uses(path, package, lazy=False), f"{path.name} imports {package}"


@pytest.mark.parametrize("room", PURE)
def test_the_pure_floor_of_analysis_reads_no_run(room):
    allowed = re.compile(
        rf"storage(\.(arrays|records|errors|suggestions)(\..*)?)?$|analysis(\.({'|'.join(PURE)})(\..*)?)?$"
    )
    for path in files_of(f"analysis.{room}"):
        for name in imported(path):
            if name.split(".")[0] in PACKAGES:
                assert allowed.match(name), f"{path.name} imports {name}"


def test_readers_of_runs_are_imported_by_commands_only():
    """`analysis.open_run` and the like, too: what trains and plays reads no history."""
    commands = set(files_of("league.commands"))
    for path in set(files_of("league")) - commands:
        for name in imported(path):
            inside = name.split(".")[1:2]
            assert not name.startswith("analysis.") or inside[0] in PURE, f"{path.name} imports {name}"


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("part", ["league.rules", "league.tournament.schedules"])
def test_rules_and_schedules_are_pure(part):
    for path in files_of(part):
        for package in IMPURE:
            assert not uses(path, package), f"{path.name} imports {package}"


def test_rules_know_nothing_of_storage_but_its_records():
    allowed = ("storage.records", "storage.arrays", "storage.suggestions", "storage.errors")
    for path in files_of("league.rules"):
        for name in imported(path):
            assert not name.startswith("storage.") or name.startswith(allowed), f"{path.name}: {name}"


@pytest.mark.slow
def test_nothing_below_the_loop_holds_an_archive_or_imports_upwards():
    for part in (*PARTS, "episode"):
        for path in files_of(f"league.{part}"):
            for name in ("training", "config", "commands", "tournament", "exploit", "watching", "teaching"):
                assert not uses(path, f"league.{name}"), f"{path.name} imports league.{name}"
            assert not uses(path, "storage.archive"), f"{path.name} imports storage.archive"


def test_a_tournament_knows_nothing_of_training_settings_or_the_command_line():
    for part in ("tournament", "competitors"):
        for path in files_of(f"league.{part}"):
            for name in (
                "config.settings",
                "config.loading",
                "training.loop",
                "training.session",
                "commands",
            ):
                assert not uses(path, f"league.{name}"), f"{path.name} imports league.{name}"


@pytest.mark.parametrize("room", ["arena", "yardsticks"])
def test_measures_stand_above_competitors_and_below_what_uses_them(room):
    above = ("commands", "config", "training", "tournament", "exploit", "watching", "teaching")
    for path in files_of(f"league.{room}"):
        for name in (*above, *(["yardsticks"] if room == "arena" else [])):
            assert not uses(path, f"league.{name}"), f"{path.name} imports league.{name}"
    for path in files_of("league.competitors"):
        assert not uses(path, f"league.{room}"), f"{path.name} imports league.{room}"


@pytest.mark.slow
def test_only_commands_import_commands():
    for path in set(files_of("league")) - set(files_of("league.commands")):
        if path.name != "__main__.py":
            assert not uses(path, "league.commands"), path.name


def test_the_config_knows_the_parts_and_not_the_loop():
    for path in files_of("league.config"):
        assert not uses(path, "league.training"), path.name


def test_learning_needs_no_game():
    for path in files_of("league.learning"):
        assert not uses(path, "league.envs"), path.name


LEARNING = ("maths", "settings", "data", "learner", "groups")  # the lowest floor first


def floor_of_learning(module: str) -> int:
    """Return the number of the floor that a module of league.learning is on."""
    return LEARNING.index(module.split(".")[2])


def test_no_floor_of_learning_imports_a_higher_one():
    for path in files_of("league.learning"):
        name = module_name(path)
        if name == "league.learning":
            continue
        for other in imported(path):
            if other.startswith("league.learning."):
                assert floor_of_learning(other) <= floor_of_learning(name), f"{name} imports {other}"


@pytest.mark.slow
def test_ray_is_imported_in_few_files_and_there_only_when_needed():
    users = {module_name(path) for path in FILES if uses(path, "ray")}
    assert users == {
        "league.cluster.runtime",
        "league.cluster.nodes",
        "league.cluster.probe",  # a process of its own
        "league.cluster.calls",  # in actors
        "league.cluster.reservation",
        "league.rollout.runner_group",
        "league.learning.groups.ray_learners",
    }
    assert not any(uses(path, "ray", lazy=False) for path in FILES)


@pytest.mark.slow
def test_a_runner_imports_neither_duckdb_nor_pandas():
    """Each of many runners would pay for them with a second of the processor, and with memory."""
    code = "import sys, league.rollout.runner_group; print({'duckdb', 'pandas', 'ray'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_import_paths_suggestions_and_settings_errors_have_one_module_each():
    texts = {module_name(path): path.read_text() for path in FILES}
    using = {name for name, text in texts.items() if "get_close_matches" in text}
    assert using == {"storage.suggestions"}
    translating = {name for name, text in texts.items() if "Value error, " in text}
    assert translating <= {"league.mistakes"}
    sections = {
        name for name, text in texts.items() if 'extra="forbid"' in text and name.startswith("league")
    }
    assert sections == {"league.section"}


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
