"""The notebooks run from their first cell to their last, and hold what they print."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "analysis" / "notebooks"
BOOKS = ["analyse", "evaluate", "train"]
EXECUTE = """
import sys, nbformat
from nbclient import NotebookClient

book = nbformat.read(sys.argv[1], 4)
NotebookClient(book, timeout=500, kernel_name="python3").execute()  # in the present folder
nbformat.write(book, sys.argv[2])
"""


def cells_of(path):
    """Return the code of each cell that has some, and the text that it printed or returned."""
    found = []
    for cell in json.loads(path.read_text())["cells"]:
        if cell["cell_type"] == "code":
            texts = ["".join(out.get("text", ())) for out in cell["outputs"]]
            texts += ["".join(out.get("data", {}).get("text/plain", ())) for out in cell["outputs"]]
            found.append(("".join(cell["source"]), "".join(texts)))
    return found


def test_each_of_the_three_jobs_has_a_notebook_with_outputs_and_no_machines_path():
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == BOOKS
    for book in BOOKS:
        text = (FOLDER / f"{book}.ipynb").read_text()
        assert all(printed for _, printed in cells_of(FOLDER / f"{book}.ipynb"))
        assert not any(place in text for place in ("/home/", "/root/", "/tmp/", "Traceback"))


@pytest.mark.long
@pytest.mark.parametrize("book", BOOKS)
def test_a_notebook_runs_from_its_first_cell_to_its_last(book, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", EXECUTE, FOLDER / f"{book}.ipynb", tmp_path / "done.ipynb"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    stored, fresh = cells_of(FOLDER / f"{book}.ipynb"), cells_of(tmp_path / "done.ipynb")
    assert [code for code, _ in fresh] == [code for code, _ in stored]
    assert all(printed for _, printed in fresh)
    if book == "analyse":  # nothing is drawn or trained in it: its figures are those that are stored
        assert fresh == stored
