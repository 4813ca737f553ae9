"""Files of games that were played elsewhere: CSV, JSON lines, Parquet, and the headers of PGN.

A file becomes one Arrow table. The line of a row that is wrong is looked for only then.
"""

from __future__ import annotations

import csv
import json
import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from analysis.statistics.given import columns_of, results_of
from storage.errors import Mistake
from storage.records import ResultBatch

PGN_COLUMNS = {"home": "White", "away": "Black", "result": "Result", "date": "Date", "pair": "pair"}
_TAG = re.compile(rb'\[\s*(\w+)\s+"((?:[^"\\]|\\.)*)"\s*\]')
_TAGS = ("White", "Black", "Result", "Date", "Round", "FEN")
_SAID = 160  # characters of another library's message


def read_games(path: Path, columns: Mapping[str, str], *, first: int = 0) -> ResultBatch:
    """Return the games in the file, numbered from `first` on; `columns` as in `results_of`.

    Raise Mistake for a file that cannot be read, and for the first line that is no game.
    """
    kind = path.suffix.lower()
    if kind not in _READERS:
        raise Mistake(f"{path}: ends with '{path.suffix}', expected a file of games: {', '.join(_READERS)}")
    try:
        if not path.stat().st_size:
            raise Mistake(f"{path}: found an empty file, expected games")
        read, line = _READERS[kind]
        chess = kind == ".pgn"
        return results_of(
            read(path, columns),
            str(path),
            {**(PGN_COLUMNS if chess else {}), **columns},
            where=lambda row: f"{path}: {line(path, row)}",
            first=first,
            env="chess" if chess else "games",
        )
    except OSError as error:
        raise Mistake(
            f"{path}: cannot be read ({error.strerror or error}), expected a file of games"
        ) from None
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise Mistake(f"{path}: cannot be read: {_short(error)}; expected {kind[1:]} in UTF-8") from None


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:_SAID].rstrip(".")


# ---------------------------------------------------------------------- CSV


def _csv(path: Path, columns: Mapping[str, str]) -> pa.Table:
    names = [name for _, row in zip(range(1), _csv_rows(path), strict=False) for name in row[1]]
    if any("\0" in name or "\ufffd" in name for name in names):
        raise Mistake(f"{path}: cannot be read: its header is not UTF-8 text; expected CSV in UTF-8")
    of = columns_of(names, str(path), columns)
    texts = pa.dictionary(pa.int32(), pa.string())
    kinds = {of[role]: texts for role in ("home", "away", "result", "winner", "competitor") if role in of}
    try:
        return pyarrow.csv.read_csv(
            path,
            parse_options=pyarrow.csv.ParseOptions(delimiter=_delimiter(path), newlines_in_values=True),
            convert_options=pyarrow.csv.ConvertOptions(
                include_columns=list(dict.fromkeys(of.values())),
                column_types=kinds,
                strings_can_be_null=True,
                null_values=[""],
            ),
        )
    except pa.ArrowInvalid as error:
        for line, row in _csv_rows(path):
            if row and len(row) != len(names):
                raise Mistake(
                    f"{path}: line {line}: found {len(row)} columns, expected {len(names)}"
                ) from None
        raise error


def _delimiter(path: Path) -> str:
    with path.open(errors="replace") as file:
        header = file.readline()
    return max("\t;,", key=header.count)


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the line and the cells of each row, with the header."""
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
        rows = csv.reader(file, delimiter=_delimiter(path))
        before = 0
        try:
            for row in rows:
                yield before + 1, row
                before = rows.line_num
        except csv.Error as error:
            raise Mistake(f"{path}: line {rows.line_num}: {error}, expected CSV") from None


def _csv_line(path: Path, row: int) -> str:
    rows = (line for line, cells in _csv_rows(path) if cells)
    return f"line {next(line for number, line in enumerate(rows, -1) if number == row)}"


# ---------------------------------------------------------------------- JSON


def _json_lines(path: Path, columns: Mapping[str, str]) -> pa.Table:
    with path.open("rb") as file:
        if file.read(64).removeprefix(BOM_UTF8).lstrip()[:1] == b"[":
            return _json_list(path)
    try:
        return pyarrow.json.read_json(path)
    except pa.ArrowInvalid:
        rows = []
        for line, text in _lines(path):
            try:
                rows.append(json.loads(text))
            except ValueError as error:
                raise Mistake(f"{path}: line {line}: no JSON ({error}), expected an object a line") from None
            if not isinstance(rows[-1], dict):
                raise Mistake(
                    f"{path}: line {line}: found '{text[:40]}', expected an object a line"
                ) from None
    return _of_objects(rows)


def _json_list(path: Path) -> pa.Table:
    try:
        rows = json.loads(path.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise Mistake(f"{path}: no JSON ({_short(error)}), expected a list of objects") from None
    odd = next((i for i, row in enumerate(rows) if not isinstance(row, dict)), None)
    if odd is not None:
        raise Mistake(f"{path}: entry {odd}: found '{str(rows[odd])[:40]}', expected an object")
    return _of_objects(rows)


def _of_objects(rows: list[dict[str, Any]]) -> pa.Table:
    """Return a table of objects whose values need not be of one type."""
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table(
        {name: [None if row.get(name) is None else str(row[name]) for row in rows] for name in names}
    )


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line that is not empty."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        yield from ((number, line.strip()) for number, line in enumerate(file, 1) if line.strip())


def _json_line(path: Path, row: int) -> str:
    lines = [line for _, (line, _) in zip(range(row + 1), _lines(path), strict=False)]
    return f"line {lines[-1]}" if len(lines) == row + 1 else f"entry {row}"


# ---------------------------------------------------------------------- PGN


def _pgn(path: Path, _: Mapping[str, str]) -> pa.Table:
    """Return the tags of each game, and `pair`: the round, where it has both colours of its players once."""
    games: dict[str, list[str | None]] = {tag: [] for tag in _TAGS}
    for line, tags in _headers(path):
        for tag in ("White", "Black", "Result"):
            if tag not in tags:
                raise Mistake(
                    f"{path}: line {line}: this game has no tag {tag}, expected White, Black, Result"
                )
        for tag in _TAGS:
            games[tag].append(tags.get(tag))
    by_round = _pairs(games["White"], games["Black"], list(zip(games["Round"], games["FEN"], strict=True)))
    return pa.table({**games, "pair": pa.array(by_round, pa.string())})


def _pairs(white: list[Any], black: list[Any], key: list[tuple[Any, Any]]) -> list[str | None]:
    """Return the key of each game that was played twice with it, once with either colour."""
    met = Counter(zip(white, black, key, strict=True))
    pairs: list[str | None] = []
    for a, b, own in zip(white, black, key, strict=True):
        whole = own[0] not in (None, "?", "-") and met[a, b, own] == met[b, a, own] == 1
        pairs.append(json.dumps([*sorted((str(a), str(b))), *own]) if whole else None)
    return pairs


def _headers(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the first line and the tags of each game."""
    tags: dict[str, str] = {}
    begun, ended = 0, True
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            line = line.removeprefix(BOM_UTF8) if number == 1 else line
            found = _TAG.match(line) if line[:1] == b"[" else None
            if found is None:
                ended = ended or bool(line.strip())  # moves
                continue
            if ended:
                if tags:
                    yield begun, tags
                tags, begun, ended = {}, number, False
            value = found[2].decode("utf-8", "replace").replace('\\"', '"').replace("\\\\", "\\")
            tags[found[1].decode()] = value
    if tags:
        yield begun, tags


def _pgn_line(path: Path, row: int) -> str:
    return f"line {next(line for number, (line, _) in enumerate(_headers(path)) if number == row)}"


def _parquet(path: Path, columns: Mapping[str, str]) -> pa.Table:
    names = pyarrow.parquet.read_schema(path).names
    chosen = dict.fromkeys(columns_of(names, str(path), columns).values())
    return pyarrow.parquet.read_table(path, columns=list(chosen))


_Reader = Callable[[Path, Mapping[str, str]], pa.Table]
_READERS: dict[str, tuple[_Reader, Callable[[Path, int], str]]] = {
    ".csv": (_csv, _csv_line),
    ".tsv": (_csv, _csv_line),
    ".jsonl": (_json_lines, _json_line),
    ".ndjson": (_json_lines, _json_line),
    ".json": (_json_lines, _json_line),
    ".parquet": (_parquet, lambda path, row: f"row {row}"),
    ".pgn": (_pgn, _pgn_line),
}
