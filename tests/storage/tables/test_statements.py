import pytest

from storage.tables.statements import tables_in

KNOWN = {"matches", "seats", "played", "payoff"}


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (
            "SELECT purpose, sum(matches), matches FROM played p WHERE matches > 3 ORDER BY matches",
            {"played"},
        ),
        ("FROM Matches", {"matches"}),
        ('SELECT * FROM main."matches" m, run_1.seats', {"matches", "seats"}),
        ("FROM played SELECT matches", {"played"}),
        ("SELECT (SELECT max(seq) FROM matches), seats FROM payoff", {"matches", "payoff"}),
        (
            "WITH x AS (FROM seats) SELECT matches FROM x JOIN (payoff JOIN played ON true) USING (seq)",
            {"seats", "payoff", "played"},
        ),
        ("SELECT 'FROM matches' -- FROM seats\n/* JOIN played */ FROM payoff", {"payoff"}),
        ("SELECT '--', $$ ' $$, x FROM matches", {"matches"}),
        ("PIVOT matches ON purpose USING sum(env_steps)", {"matches"}),
        ("SUMMARIZE matches", {"matches"}),
        (
            "SELECT * FROM (SELECT sum(matches) AS n FROM played) WHERE n IN (SELECT seq FROM seats)",
            {"played", "seats"},
        ),
        ("INSERT INTO t SELECT matches FROM x UNION ALL SELECT seats FROM payoff", {"payoff"}),
        ("SELECT 1; FROM seats", {"seats"}),
        (")) FROM seats", {"seats"}),
        ("", set()),
    ],
)
def test_names_count_where_a_table_may_be(statement, expected):
    assert tables_in(statement, KNOWN) == expected
