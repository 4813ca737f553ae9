"""Files of games in several formats, which hold the same."""

import pandas as pd
import pytest

from analysis.statistics.games import games_of
from analysis.tournaments.files import read_games

ROWS = [("a", "b", "1-0"), ("b", "a", "1/2-1/2"), ("b", "c", "0-1")]
CSV = "home,away,result\n" + "".join(",".join(row) + "\n" for row in ROWS)
PGN = """[Event "Fastchess Tournament"]
[Date "2024.05.01"]
[Round "{round}"]
[White "{white}"]
[Black "{black}"]
[Result "{result}"]

1. e4 {{+0.30/10 0.1s}} e5 2. Nf3 {result}

"""


def pgn(*games):
    fields = ("white", "black", "result", "round")
    return "".join(PGN.format(**dict(zip(fields, game, strict=True))) for game in games)


def read(path, columns=None):
    results = read_games(path, columns or {})
    return games_of([results], results.matches.competitors)


def in_words(games):
    names = games.competitors
    return [
        (names[home], names[away], points)
        for home, away, points in zip(games.home, games.away, games.points, strict=True)
    ]


def written(folder, kind):
    path, frame = folder / f"games.{kind}", pd.DataFrame(ROWS, columns=["home", "away", "result"])
    match kind:
        case "csv":
            path.write_text(CSV)
        case "tsv":
            path.write_text(CSV.replace(",", "\t"))
        case "jsonl":
            frame.to_json(path, orient="records", lines=True)
        case "json":
            frame.to_json(path, orient="records")
        case "parquet":
            frame.to_parquet(path)
        case "pgn":
            path.write_text(pgn(*((*row, "-") for row in ROWS)))
    return path


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "json", "parquet", "pgn"])
def test_every_format_holds_the_same_games(tmp_path, kind):
    assert in_words(read(written(tmp_path, kind))) == [("a", "b", 1.0), ("b", "a", 0.5), ("b", "c", 0.0)]


def test_semicolons_quotes_blanks_and_a_byte_order_mark_are_taken(tmp_path):
    path = tmp_path / "games.csv"
    path.write_text(
        '\ufeffWhite;Black;Result\n"a; the first"; b ;1\n\nb;"a; the first";0.5\n', encoding="utf-8"
    )
    assert in_words(read(path)) == [("a; the first", "b", 1.0), ("b", "a; the first", 0.5)]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "json", "pgn"])
def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path, kind):
    path = written(tmp_path, kind)
    text = path.read_text()
    path.write_text(text[text.index("[White") :] if kind == "pgn" else text, encoding="utf-8-sig")
    assert len(read(path)) == 3


def test_columns_that_are_named_are_read(tmp_path):
    path = tmp_path / "games.csv"
    path.write_text("x,y,z,result\na,b,1,9\n")
    named = {"home": "x", "away": "y", "result": "z"}
    assert in_words(read(path, named)) == [("a", "b", 1.0)]
    assert in_words(read(path, {**named, "pair": "result", "count": "result"})) == [("a", "b", 1.0)] * 9


def test_a_round_with_both_colours_is_a_pair(tmp_path):
    """As cutechess and fastchess write rounds of two games; a round robin's round has one of any two."""
    path = tmp_path / "games.pgn"
    path.write_text(
        pgn(("a", "b", "1-0", "1"), ("b", "a", "1-0", "1"), ("a", "b", "0-1", "2"), ("a", "c", "*", "3"))
    )
    games = read(path)
    assert games.pair.tolist() == [0, 0, 1]
    assert in_words(games) == [("a", "b", 1.0), ("b", "a", 1.0), ("a", "b", 0.0)]


def test_comments_that_look_like_tags_are_moves(tmp_path):
    path = tmp_path / "games.pgn"
    path.write_text(pgn(("a", 'the \\"b\\"', "1-0", "1")).replace("1. e4", "[%clk 1:00]\n1. e4"))
    assert in_words(read(path)) == [("a", 'the "b"', 1.0)]
