"""Snapshots are selected by a condition in SQL, which is told where it is wrong and reaches nothing else."""

import pyarrow as pa
import pytest

from league.arena import selection
from league.arena.selection import BadSelection, selected
from storage.archive import Archive
from storage.records import RatingChange


@pytest.fixture(scope="module")
def run(make_run, tmp_path_factory):
    """`main-0@0` to `main-0@4`, the last two of them rated."""
    run = make_run(tmp_path_factory.mktemp("selection") / "run", snapshots=5)
    with Archive.open(run) as archive:
        archive.append_ratings(
            [RatingChange("main-0@3", 30.0, 1.0, 40), RatingChange("main-0@4", 20.0, 2.0, 7)]
        )
    return run


def ids(*numbers):
    return {f"main-0@{number}" for number in numbers}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("condition", "numbers"),
    [
        ("true", (0, 1, 2, 3, 4)),
        ("player = 'main-0' AND env_steps < 2 OR snapshot_id = 'main-0@3'", (0, 1, 3)),
        ("mu > 25", (3,)),
        ("mu > 99", ()),
        ("games IS NULL", (0, 1, 2)),
        ("skill = (SELECT min(skill) FROM leaderboard)", (4,)),
        ("env_steps IN (SELECT max(env_steps) FROM snapshots)", (4,)),
        ("env_steps > 3 -- the newest (and only) one;", (4,)),
        ("role = 'main'\n  AND updates BETWEEN 1 AND 2", (1, 2)),
        ("reason <> ') OR (' AND updates = 0", (0,)),
    ],
)
def test_those_for_which_it_holds_are_selected(run, condition, numbers):
    assert selected(run, condition) == ids(*numbers)


def test_it_is_asked_of_a_run_while_that_is_written(run):
    with Archive.open(run):
        assert len(selected(run, "true")) == 5


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        (
            "muh > 3",
            r'column "muh" not found in FROM clause at character 1 \("muh > 3"\); columns that may be',
        ),
        ("mu > 3 AND\n  steps > 5", r'column "steps" not found .* at character 14 \("steps > 5"\)'),
        ("player = 'é漢' AND nope", r'column "nope" .* at character 19 \("nope"\)'),
        ("mu >", r"syntax error at or near .* at its end"),
        ("mu > > 3", r'at character 6 \("> 3"\)'),
        ("player = 'main", r"unterminated string literal at character 10"),
        ("mu > 3 /* why", r"unterminated /\* comment .* at character 8"),
        ("best(mu)", r"Function with name best does not exist.* at character 1"),
        ("sum(mu) > 3", r"aggregates at character 1"),
        ("mu > 3 LIMIT 2", r'near "LIMIT" at character 8'),
        ("mu > 3 ORDER BY " + "mu + " * 20 + "1", r'at character 8 \("ORDER BY mu \+ mu \+ mu \+\.\.\."\)'),
        ("mu > ?", "parameters"),
    ],
)
def test_sql_that_is_wrong_is_told_where(run, condition, told):
    with pytest.raises(BadSelection, match=f"^select: .*{told}") as raised:
        selected(run, condition)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("true) OR (true", r"found '\)' at character 5 .*, expected one condition"),
        ("false) UNION SELECT 'random' WHERE (true", r"found '\)' at character 6"),
        ("false) UNION SELECT 'random' --", r"found '\)' at character 6"),
        ("true; DROP TABLE snapshots", r"found ';' at character 5"),
        ("true);--", r"found '\)' at character 5"),
        ("(mu > 3 OR (mu < 2)", r"found '\(' at character 1 .*, expected '\)' somewhere behind it"),
        ("mu > 3 AND 'é' IN ('é'", r"found '\(' at character 19"),
        ("", "found nothing, expected a condition such as"),
        (" \n", "found nothing"),
        ("-- mu > 3", "found nothing"),
    ],
)
def test_it_cannot_end_before_it_ends(run, condition, told):
    with pytest.raises(BadSelection, match=f"^select: {told}"):
        selected(run, condition)


def test_it_reaches_no_file_and_no_variable(run, tmp_path, monkeypatch):
    table = tmp_path / "table.csv"
    table.write_text("a\n1\n")
    with pytest.raises(BadSelection, match="file system operations are disabled"):
        selected(run, f"EXISTS (FROM read_csv('{table}'))")
    monkeypatch.setattr(selection, "secret", pa.table({"a": [1]}), raising=False)
    with pytest.raises(BadSelection, match="Table with name secret does not exist"):
        selected(run, "EXISTS (FROM secret)")


def test_what_only_the_rows_can_tell_is_told_as_well(run):
    with pytest.raises(BadSelection, match="Could not convert string 'main-0' to BOOL"):
        selected(run, "player")
