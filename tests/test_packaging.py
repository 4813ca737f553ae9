"""The wheel and the sdist hold all that the commands need; extras are as they are named."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = ("league", "storage", "analysis")


def test_extras_are_named_in_one_table_as_they_can_be_installed():
    table = re.search(
        r"^\| install \|.*\n\|---\|---\|\n((?:\|.*\n)+)", (ROOT / "README.md").read_text(), re.M
    )
    assert table is not None
    named = re.findall(r"`pip install '\.\[(\w+)\]'`", table[1])
    assert sorted(named) == sorted(PROJECT["project"]["optional-dependencies"])


def test_every_extra_that_a_message_or_a_page_names_is_one():
    pages = [path for room in PACKAGES for end in ("py", "md") for path in (ROOT / room).rglob(f"*.{end}")]
    named = re.findall(r"pip install '\.\[([\w,]+)\]", "".join(path.read_text() for path in pages))
    assert len(named) > 5
    assert {one for names in named for one in names.split(",")} < set(
        PROJECT["project"]["optional-dependencies"]
    )


def test_the_versions_of_python_are_the_same_wherever_they_are_stated():
    classifiers = PROJECT["project"]["classifiers"]
    stated = [name.rpartition(" ")[2] for name in classifiers if "Python :: 3." in name]
    assert stated == ["3.11", "3.12", "3.13"]
    assert PROJECT["project"]["requires-python"] == ">=3.11,<3.14"
    assert f"Python {stated[0]} to {stated[-1]}" in (ROOT / "README.md").read_text()
    assert PROJECT["tool"]["ruff"]["target-version"] == "py311"  # `make lint` refuses later syntax


def files_of_the_packages() -> set[str]:
    """Return all files of the packages, but for pages, by their place in this project."""
    found = (path for package in PACKAGES for path in (ROOT / package).rglob("*") if path.is_file())
    names = {str(path.relative_to(ROOT)) for path in found if "__pycache__" not in path.parts}
    return {name for name in names if not name.endswith((".md", ".png", ".svg", ".ipynb"))}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return the sdist of this project, and the wheel that is made from it."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", out, source],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return sdist, wheel


@pytest.mark.long
def test_sdist_and_wheel_hold_every_file_of_the_packages(built):
    sdist, wheel = built
    with tarfile.open(sdist) as packed:
        members = packed.getnames()
        inside = {name.partition("/")[2] for name in members}
    with zipfile.ZipFile(wheel) as zipped:
        installed = set(zipped.namelist())
    assert files_of_the_packages() - inside == set()
    assert files_of_the_packages() - installed == set()
    for package in PACKAGES:
        assert f"{package}/py.typed" in installed
    assert {name.partition("/")[0] for name in installed if "dist-info" not in name} == set(PACKAGES)
    assert {"README.md", "LICENSE", "pyproject.toml"} <= inside


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """Return the programs of a fresh environment: this wheel, and the libraries of this environment."""
    folder = tmp_path_factory.mktemp("environment") / "env"
    venv.create(folder, symlinks=True)
    site = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    beside = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    (site / "libraries.pth").write_text("\n".join(beside))  # an editable install there is not followed
    alone = ["--no-deps", "--no-index", "--ignore-installed", "--disable-pip-version-check"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", *alone, built[1]],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "bin"


@pytest.mark.long
def test_the_wheel_in_a_fresh_environment_trains_compares_and_reports(installed, tmp_path):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}

    def call(program, *arguments):
        done = subprocess.run(
            [installed / program, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    where = call("python", "-c", "import league, storage, analysis; print(league.__file__)")
    assert where.startswith(str(installed.parent))
    assert call("league", "--version") == f"league {version('checkpoint-league')}\n"
    config = ROOT / "configs" / "kuhn_poker.yaml"
    assert "kuhn_poker" in call("league", "config", "show", config)
    short = ["--set", "runners=0", "--set", "stop={minutes: 0.035}"]
    assert "Trained: run" in call("league", "train", config, "--run", "run", *short)
    assert "W-D-L" in call("league", "compare", "run", "main-0", "random", "--pairs", "20")
    call("league", "report", "run", "-o", "report.html")
    assert "main-0" in (tmp_path / "report.html").read_text()
    assert call("league", "sql", "run", "@payoff", "--format", "csv").startswith("home,away")
    call("python", "-m", "analysis.examples.kuhn_league")
    assert (tmp_path / "pictures" / "ratings.svg").exists()
