"""A cluster that cannot be joined is one sentence with a remedy, in seconds."""

import json
import socket
import sys
import time

import pytest

from league.cluster import connection
from league.cluster.connection import (
    Probed,
    check_cluster,
    explain,
    own_modules,
    reach,
    run_probe,
    token_source,
    use_token,
)
from league.cluster.probe import MARK, causes, look
from storage.errors import Mistake

ADDRESS = "head:6379"
VERSIONS = """Version mismatch: The cluster was started with:
    Ray: 2.55.0
    Python: 3.12.4
This process on node 10.0.0.7 was started with:
    Ray: 2.60.0
    Python: 3.11.9
"""


@pytest.fixture(autouse=True)
def no_token(monkeypatch, tmp_path):
    """This process has no token, and what a test sets is forgotten after it."""
    for name in (connection.TOKEN_MODE, connection.TOKEN, connection.TOKEN_PATH):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(connection, "has_node", lambda: True)


@pytest.fixture
def listening():
    """The address of something that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def failed(*texts, printed=""):
    return Probed("failed", list(texts), printed=printed)


def look_of(node, *missing, version=""):
    return {"id": f"id-{node}", "node": node, "missing": list(missing), "version": version}


# ---------------------------------------------------------------- the address


def test_a_wrong_address_is_refused_at_once():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    began = time.monotonic()
    with pytest.raises(
        Mistake, match=rf"127.0.0.1:{port}: nothing can be reached there \(Connection refused\)"
    ):
        check_cluster(f"127.0.0.1:{port}", probe=lambda asked: pytest.fail("nothing to probe"))
    assert time.monotonic() - began < 3.0


@pytest.mark.parametrize("address", ["head", "head:", "head:port", "6379"])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(Mistake, match="expected host:port, such as head:6379, or auto"):
        reach(address)


def test_an_address_that_something_listens_at_is_probed(listening):
    asked = []
    env = {"working_dir": "."}
    check_cluster(listening, ["league"], env, lambda what: asked.append(what) or Probed("joined", [], ["a"]))
    assert asked == [{"address": listening, "modules": ["league"], "runtime_env": env}]


def test_a_machine_that_is_no_node_is_refused_before_ray_waits_for_it(listening, monkeypatch):
    monkeypatch.setattr(connection, "has_node", lambda: False)
    with pytest.raises(
        Mistake, match=f"this machine is no node of a cluster.*ray start --address={listening}"
    ):
        check_cluster(listening, probe=lambda asked: pytest.fail("nothing to probe"))


def test_a_warning_about_tokens_is_not_taken_for_the_cause():
    printed = "Token authentication is disabled for this Ray cluster. Anyone with network access can ..."
    assert explain(ADDRESS, failed("OSError: no luck", printed=printed), None).startswith(
        "Ray could not join"
    )


# ---------------------------------------------------------------- what a probe found


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            failed(
                "ConnectionError: Failed to connect to Ray cluster at head:6379", f"RuntimeError: {VERSIONS}"
            ),
            "the cluster runs Ray 2.55.0 with Python 3.12.4, this process Ray 2.60.0 with Python 3.11.9; "
            "install the same on every node",
        ),
        (
            Probed("connection", printed="... UNAUTHENTICATED: InvalidAuthToken ...\n" * 100),
            "the cluster requires a token, and there is none here",
        ),
        (
            failed("RuntimeError: No node info found matching attributes: ''"),
            "this machine is a node of another cluster, expected the driver on a node of that one; run `ray ",
        ),
        (Probed("connection"), "no Ray cluster answers there within 9 s"),
        (
            failed("ValueError: runtime_env: the package is 900 MiB"),
            "resources.runtime_env cannot be set up: ValueError: runtime_env: the package is 900 MiB",
        ),
        (failed("OSError: out of\nluck"), "Ray could not join: OSError: out of luck"),
        (
            Probed(printed="ModuleNotFoundError: No module named 'ray'\n"),
            "Ray could not be imported in 30 s: ",
        ),
    ],
    ids=["version", "token", "no node", "silence", "runtime_env", "other", "import"],
)
def test_what_keeps_a_process_from_joining_is_one_sentence(found, said):
    sentence = explain(ADDRESS, found, None)
    assert sentence.startswith(said)
    assert "\n" not in sentence
    assert len(sentence) < 400


def test_a_token_that_is_not_the_clusters_is_named_by_its_place(monkeypatch):
    monkeypatch.setenv(connection.TOKEN_MODE, "token")
    sentence = explain(ADDRESS, failed("AuthenticationError: invalid"), "/home/me/.ray/auth_token")
    assert sentence.startswith("the cluster does not accept the token from /home/me/.ray/auth_token; put the")


def test_a_module_that_nodes_lack_is_named_with_them():
    found = Probed(
        "node",
        nodes=["a", "b", "c"],
        looks=[look_of("a", "my_games"), look_of("b", "my_games"), look_of("c", "my_games", "pyspiel")],
    )
    assert explain(ADDRESS, found, None).startswith(
        "nodes a, b, c lack the module my_games and node c lacks the module pyspiel; install it on every "
        "node,"
    )


def test_nodes_that_lack_what_others_have_get_nothing_to_do(listening):
    """One of fifty kept a league from being trained."""
    looks = [look_of("a"), look_of("b", "my_games"), look_of("c", version="0.0.1"), look_of("d")]
    found = Probed("node", nodes=["a", "b", "c", "d"], looks=looks)
    unfit = check_cluster(listening, probe=lambda asked: found)
    assert list(unfit) == ["id-b", "id-c"]
    assert unfit["id-b"].startswith("it lacks the module my_games; install it on every node")
    assert unfit["id-c"].startswith("found checkpoint-league 0.0.1 there, expected ")


def test_a_node_that_is_slow_to_answer_is_no_mistake():
    assert explain(ADDRESS, Probed("joined", nodes=["a", "b"]), None) is None
    assert explain(ADDRESS, Probed("node", nodes=["a", "b"], looks=[look_of("a")]), None) is None


# ---------------------------------------------------------------- tokens and modules


def test_a_token_is_used_by_the_rule_of_ray_start(monkeypatch, tmp_path):
    use_token()
    assert connection.TOKEN_MODE not in connection.os.environ
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("secret")
    assert token_source() == str(tmp_path / ".ray" / "auth_token")
    monkeypatch.setenv(connection.TOKEN_MODE, "disabled")
    use_token()
    assert connection.os.environ[connection.TOKEN_MODE] == "disabled", "what the user has set holds"
    monkeypatch.delenv(connection.TOKEN_MODE)
    use_token()
    assert connection.os.environ[connection.TOKEN_MODE] == "token"
    monkeypatch.setenv(connection.TOKEN, "another")
    assert token_source() == connection.TOKEN


def test_modules_of_a_users_own_are_those_that_the_config_names():
    settings = {
        "env": {"id": "gymnasium:CartPole-v1+Acrobot-v1"},
        "policy": {"network": "json.decoder:JSONDecoder", "connectors": [{"kind": "csv:reader"}]},
        "storage": {"remote": "s3://bucket/run"},
        "league": {"bots": ["no_such_module_here:Bot"], "player": "main-0:greedy"},
    }
    assert own_modules(settings) == ["league", "gymnasium", "json.decoder", "csv"]


def test_a_look_at_a_node_finds_what_it_lacks():
    found = look(["json", "no_such_module_here", "no_such.part"])
    assert found["missing"] == ["no_such_module_here", "no_such.part"]
    assert found["node"] == socket.gethostname()


def test_causes_are_listed_down_to_the_first():
    error = ConnectionError("Failed to connect")
    error.__cause__ = RuntimeError("Version mismatch")
    assert causes(error) == ["ConnectionError: Failed to connect", "RuntimeError: Version mismatch"]


# ---------------------------------------------------------------- the process


def scripted(*lines, then=""):
    """A command that prints these steps, in the place of the probe."""
    text = "".join(f"print({MARK + json.dumps(line)!r}, flush=True);" for line in lines)
    return [sys.executable, "-c", f"import sys, time; sys.stdin.read(); print('noise'); {text}{then}"]


def test_a_probe_that_ends_gives_all_that_it_found():
    steps = {"step": "connection"}, {"step": "joined", "nodes": ["a"]}, {"step": "node", **look_of("a")}
    found = run_probe({}, scripted(*steps))
    assert (found.step, found.nodes, [each["node"] for each in found.looks]) == ("node", ["a"], ["a"])


def test_a_probe_that_hangs_is_ended_and_what_ray_printed_is_kept(monkeypatch):
    monkeypatch.setattr(connection, "JOIN_SECONDS", 0.2)
    began = time.monotonic()
    then = "sys.stderr.write('InvalidAuthToken: ...'); sys.stderr.flush(); time.sleep(99)"
    found = run_probe({}, scripted({"step": "connection"}, then=then))
    assert time.monotonic() - began < 5.0
    assert found.step == "connection"
    assert explain(ADDRESS, found, None).startswith("the cluster requires a token")


def test_a_probe_that_is_aborted_is_told_by_what_it_printed():
    """Ray aborts the process for some mistakes."""
    then = "sys.stderr.write('UNAUTHENTICATED'); sys.stderr.flush(); import os; os.abort()"
    found = run_probe({}, scripted({"step": "connection"}, then=then))
    assert explain(ADDRESS, found, None).startswith("the cluster requires a token")
