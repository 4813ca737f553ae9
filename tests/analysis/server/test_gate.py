"""Requests pass with the token of the server; without it they get one sentence and nothing else."""

import asyncio
import secrets

import pytest

from analysis.server.app import REFUSAL, TokenGate, checked_token, new_token
from storage.errors import Mistake

TOKEN = "a-token-of-24-characters"


async def page(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"the run"})


def answer(path="/", query="", *, cookie=None, method="GET", name="league"):
    """Status, headers and body of the answer to a request."""
    headers = [] if cookie is None else [(b"cookie", cookie.encode())]
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": headers,
    }
    sent = []

    async def send(message):
        sent.append(message)

    gate = TokenGate(page, TOKEN, {"Cache-Control": "no-store"}, name)
    asyncio.run(gate(scope, None, send))
    found = {key.decode(): value.decode() for key, value in sent[0]["headers"]}
    return sent[0]["status"], found, sent[1]["body"].decode()


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"query": "token="},
        {"query": f"token={TOKEN}x"},
        {"query": f"token={TOKEN[:-1]}"},
        {"query": f"token={TOKEN}&token=other"},
        {"query": f"token={TOKEN}", "method": "POST"},
        {"cookie": "league=other"},
        {"cookie": f"league-1={TOKEN}"},
        {"cookie": "league=\u00e9; ==;"},
    ],
)
def test_without_the_token_there_is_one_sentence(given):
    status, headers, body = answer(**given)
    assert (status, body) == (403, f"{REFUSAL}\n")
    assert headers["cache-control"] == "no-store"
    assert headers["content-type"].startswith("text/plain")
    assert TOKEN not in str(headers)


def test_the_token_of_an_address_becomes_a_cookie_and_leaves_the_address():
    status, headers, body = answer("/play", f"token={TOKEN}&since=4&name=a%20b", name="league-8642")
    assert (status, headers["location"], body) == (303, "./play?since=4&name=a+b", "")
    pair, *flags = headers["set-cookie"].split("; ")
    assert pair == f"league-8642={TOKEN}"
    assert {"HttpOnly", "SameSite=Lax", "Path=/"} == set(flags)
    assert answer("/", f"token={TOKEN}")[1]["location"] == "./"
    assert answer(cookie=f"other=1; {pair}", name="league-8642") == (200, {}, "the run")
    assert answer(cookie=f"league={TOKEN}", method="POST")[0] == 200


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("//elsewhere.example", "./elsewhere.example"),
        ("/a/https:", "./https%3A"),
        ("/x\r\ny: z", "./x%0D%0Ay%3A%20z"),
    ],
)
def test_the_way_to_the_address_without_token_leads_nowhere_else(path, place):
    assert answer(path, f"token={TOKEN}")[1]["location"] == place


def test_a_token_is_compared_in_a_time_that_says_nothing_of_it(monkeypatch):
    compared = []
    monkeypatch.setattr(secrets, "compare_digest", lambda a, b: compared.append((a, b)) or False)
    assert answer(query="token=guess", cookie="league=other")[0] == 403
    assert [given for given, _ in compared] == [b"other", b"guess"]
    assert {known for _, known in compared} == {TOKEN.encode()}


def test_a_token_is_new_each_time_or_long_enough():
    assert new_token() != new_token()
    assert checked_token(new_token())
    for bad in ("short", "sixteen characters", "x" * 15, "semicolon;semicolon"):
        with pytest.raises(Mistake, match="expected at least 16"):
            checked_token(bad)
