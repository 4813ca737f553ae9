"""The READMEs are true: trees, walks, commands, configs and settings."""

import ast
import re
import tomllib
from pathlib import Path

import pytest
import yaml

from league.config.loading import load
from league.tournament.settings import load as load_tournament
from storage.records import MAIN

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
ROOMS = ("league", "storage", "analysis", "tests")
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *sorted(ROOT.glob("*/*.md")),
    *sorted(ROOT.glob("tests/bench/*.md")),
]
BY_READER = [
    ROOT / "league" / f"{name}.md" for name in ("GAMES", "RULES", "LEARNING", "CLUSTER", "MEASURING")
]
PLAIN = [page for page in PAGES if page.name != "REFERENCE.md"]  # which a command makes
NUMBERS = {
    3: "three",
    4: "four",
    5: "five",
    6: "six",
    7: "seven",
    8: "eight",
    9: "nine",
    15: "fifteen",
    16: "sixteen",
}


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def page_of(room: str) -> str:
    return (ROOT / room / "README.md").read_text()


def tree_of(room: str) -> tuple[set[str], set[str]]:
    """Return the folders and the files that the tree of a room names."""
    (tree,) = blocks("tree", page_of(room))
    folders, files, stack = set(), set(), []
    for line in tree.splitlines():
        depth, name = (len(line) - len(line.lstrip())) // 2, line.split()[0]
        stack = [*stack[:depth], name.rstrip("/")]
        (folders if name.endswith("/") else files).add("/".join(stack))
    return folders, files


def folders_of(room: str) -> set[str]:
    found = {path.parent for path in (ROOT / room).rglob("*.py")}
    return {str(folder.relative_to(ROOT)) for folder in found if "kuhn_league" not in folder.parts}


@pytest.mark.parametrize("room", ["league", "storage", "analysis"])
def test_the_tree_of_a_room_names_each_folder_and_each_file_on_top(room):
    folders, files = tree_of(room)
    assert folders - {room} == folders_of(room) - {room}
    present = {str(path.relative_to(ROOT)) for path in (ROOT / room).glob("*.py")}
    assert files | {f"{room}/__init__.py"} == present | {f"{room}/__init__.py"}


def test_the_tree_of_the_tests_names_what_is_there():
    folders, files = tree_of("tests")
    assert all((ROOT / folder).is_dir() for folder in folders)
    assert files == {str(path.relative_to(ROOT)) for path in (ROOT / "tests").glob("*.py")}


@pytest.mark.parametrize("room", ROOMS)
def test_every_line_of_a_tree_has_one_clause(room):
    (tree,) = blocks("tree", page_of(room))
    for line in tree.splitlines()[1:]:
        assert len(line.split(maxsplit=1)) == 2, f"no clause: {line}"
        assert len(line) <= 118, f"too long: {line}"


def defined(path: Path) -> set[str]:
    """Return the functions, classes and methods of a file: `train`, `Session.ask`."""
    found: set[str] = set()

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                found.add(prefix + child.name)
                if isinstance(child, ast.ClassDef):
                    visit(child, f"{prefix}{child.name}.")

    visit(ast.parse(path.read_text()), "")
    return found


def test_three_walks_are_written_down_and_each_step_is_in_the_code():
    walks = [walk for room in ROOMS for walk in blocks("walk", page_of(room))]
    assert len(walks) == 3  # a match result, a setting, a snapshot
    for walk in walks:
        assert len(walk.splitlines()) > 5
        for line in walk.splitlines():
            path, name, _ = line.split(maxsplit=2)
            assert name in defined(ROOT / path), line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_a_page_names_exists(page):
    text = page.read_text()
    named = set(
        re.findall(
            r"(?<![\w/.:-])((?:league|storage|analysis|tests|configs)/[\w/.-]+\.(?:py|md|sql|ya?ml))", text
        )
    )
    assert {name for name in named if not (ROOT / name).is_file()} == set()
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert target.startswith("http") or (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_module_that_a_page_runs_exists(page):
    modules = re.findall(r"python -m (tests\.[\w.]+\w)", page.read_text())
    missing = {
        module
        for module in modules
        if module != "tests.bench.NAME" and not (ROOT / f"{module.replace('.', '/')}.py").is_file()
    }
    assert missing == set()


def test_every_benchmark_of_the_table_exists():
    page = (ROOT / "tests/bench/README.md").read_text()
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", page.partition("## Training")[2], re.M)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    present = {path.stem for path in (ROOT / "tests/bench").glob("*.py")}
    assert len(named) > 30
    assert named - present == set()


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_heading_that_a_page_links_to_is_there(page):
    links = re.findall(r"\]\(((?!http)[^)#]*)#([^)]+)\)", page.read_text())
    missing = {
        (target, anchor)
        for target, anchor in links
        if anchor not in anchors((page.parent / target) if target else page)
    }
    assert missing == set()


def test_the_readme_is_short():
    assert len(README.splitlines()) < 200


def test_the_map_of_league_is_short_and_so_is_each_page_beside_it():
    assert len(page_of("league").splitlines()) <= 120
    assert [page.name for page in BY_READER if len(page.read_text().splitlines()) >= 250] == []


def paragraphs(page: Path) -> list[str]:
    """Return the lines of a page that are prose: no code, no row of a table."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return [line for line in prose.splitlines() if not line.startswith("|")]


@pytest.mark.parametrize("page", PLAIN, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_no_long_line_and_no_long_paragraph(page):
    assert [line for line in page.read_text().splitlines() if len(line) > 400] == []
    assert [line for line in paragraphs(page) if len(line.split()) > 100] == []


def test_the_map_names_each_page_beside_it():
    beside = {page.name for page in (ROOT / "league").glob("*.md")} - {"README.md"}
    assert beside == set(re.findall(r"\]\((\w+\.md)\)", page_of("league")))


def imports_ray(path: Path) -> bool:
    """Return whether a file imports Ray when it runs, also inside a function."""
    text = path.read_text()
    return bool(re.search(r"^ *(import ray\b|from ray\b)", text, re.MULTILINE))


def test_the_map_of_league_counts_files_that_import_ray_and_the_verbs_of_the_loop():
    users = [path for path in (ROOT / "league").rglob("*.py") if imports_ray(path)]
    loop = (ROOT / "league/training/loop.py").read_text()
    (turn,) = re.findall(
        r"^ +while not \(session\.clock\.finished.*\n((?: +session\.\w+\(\)\n)+)", loop, re.MULTILINE
    )
    verbs = NUMBERS[len(turn.splitlines())]
    assert f"Ray is imported in {NUMBERS[len(users)]} files" in page_of("league")
    assert f"one page, {verbs} verbs" in page_of("league")
    assert f"## The loop, in {verbs} lines" in README


def test_the_evening_tour_is_as_long_as_it_says():
    """That each file exists is tested with all links."""
    (tour,) = re.findall(r"in an evening, in (\w+) files:\n\n((?:\|.*\n)+)", README)
    files = [ROOT / path for path in re.findall(r"\]\((\S+\.py)\)", tour[1])]
    assert tour[0] == NUMBERS[len(files)]
    assert sum(len(path.read_text().splitlines()) for path in files) < 5_700


def test_the_changelog_is_short_and_has_the_version_that_is_installed():
    text = (ROOT / "CHANGELOG.md").read_text()
    assert len(text.splitlines()) < 80
    versions = re.findall(r"^## (\S+)", text, re.M)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert versions[:2] == ["Unreleased", project["version"]]


def test_there_are_exactly_two_set_up_commands():
    commands = [line for block in blocks("sh") for line in block.splitlines() if "pip install" in line]
    assert len(commands) == 2
    assert "league train configs/connect_four.yaml" in commands[0]
    assert "make test" in commands[1]


def test_the_test_command_of_ci_is_the_readmes():
    assert "README.md" in (ROOT / ".ci/run").read_text()


def test_every_config_is_mentioned():
    mentioned = set(re.findall(r"configs/([a-z_]+\.yaml)", page_of("configs")))
    assert mentioned == {path.name for path in (ROOT / "configs").glob("*.yaml")}


@pytest.mark.slow
def test_the_settings_shown_are_settings():
    fields = {"env": {"id": "connect_four"}, "runners": 2}
    texts = [page.read_text() for page in PAGES if page.name == "README.md" or page in BY_READER]
    shown = [yaml.safe_load(block) for text in texts for block in blocks("yaml", text)]
    tournaments = [block for block in shown if "competitors" in block]
    assert [load_tournament(block).schedule.kind for block in tournaments] == ["round_robin"]
    shown = [block for block in shown if block not in tournaments]
    loaded = [load(fields | block) for block in shown]
    assert {key for block in shown for key in block} >= {"env", "league", "bots", "policy", "storage"}
    planes = [settings for settings in loaded if settings.policy.connectors]
    assert [settings.policy_spec("main-0", MAIN).seen.shape for settings in planes] == [(2, 7, 6)]
