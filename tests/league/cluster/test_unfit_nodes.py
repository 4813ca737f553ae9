"""A node of a cluster that cannot do its part gets nothing to do until it can, and the league goes on."""

import re
import time

import pytest

from tests.league.cluster.test_clusters import cluster, no_token, raylet  # noqa: F401  # a fixture
from tests.league.cluster.test_elastic import OPEN, Training

pytestmark = [pytest.mark.long, pytest.mark.alone]


def test_a_node_whose_cache_others_can_write_to_gets_work_when_that_is_corrected(tmp_path):
    """It ended the league with exit code 2, and was not named."""
    caches = tmp_path / "caches"
    folder = caches / "checkpoint-league"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    with cluster(**OPEN) as address, raylet(f"--address={address}", XDG_CACHE_HOME=str(caches), **OPEN):
        time.sleep(8.0)
        soon = "import league.cluster.fitness as fitness; fitness.AGAIN_SECONDS = 3.0"
        training = Training(tmp_path, address, "runners={min: 2, max: 7}", first=soon)
        try:
            training.wait("found a cache folder that others can write to", seconds=180)
            folder.chmod(0o700)
            corrected = time.monotonic()
            training.wait("is fit again, and gets work", seconds=180)
            training.wait("7 of 7 play", corrected, seconds=180)
            history = training.stop()
        finally:
            training.end()
    incidents = history.sql("SELECT kind, who, cause, remedy FROM incidents")
    assert incidents["kind"].tolist() == ["node"], incidents.to_string()
    assert re.fullmatch(r"node \S+ \(\d+\.\d+\.\d+\.\d+, [0-9a-f]{8}\)", incidents["who"][0])
    assert "set storage.cache_folder to another" in incidents["cause"][0]
    ids = history.sql("SELECT count(*) AS n, count(DISTINCT match_id) AS d FROM matches")
    assert ids["n"][0] == ids["d"][0] > 0
    raw = [line for _, line in training.lines if line.startswith(("[", "("))]
    assert raw == []


@pytest.mark.parametrize("runners", [0, 2])
def test_a_cache_of_this_machine_that_cannot_be_used_is_one_line_before_anything_begins(
    tmp_path, runners, league_here
):
    folder = tmp_path / "cache"
    folder.write_text("no folder")
    config = tmp_path / "league.yaml"
    config.write_text(
        f"env: {{id: tic_tac_toe}}\nrunners: {runners}\nstorage: {{cache_folder: '{folder}'}}\n"
    )
    done = league_here("train", config, "--run", tmp_path / "run")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.endswith(
        f"{folder}: cannot be written to, expected a folder for the node's cache; set storage.cache_folder "
        "to another folder"
    )
    assert not (tmp_path / "run").exists()
