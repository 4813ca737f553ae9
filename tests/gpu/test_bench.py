"""The page about one GPU: its stages run on a double or on the CPU, and one that hangs costs no other."""

import argparse
import json
import re
import sys

import pytest
import torch

from tests.bench import gpu, gpu_loads, gpu_stages
from tests.gpu.cards import needs_cards


@pytest.mark.slow
def test_speed_is_measured_on_the_cpu_and_without_ray(tmp_path, capsys):
    before = "ray" in sys.modules
    gpu.main(["--device", "cpu", "--quick", "--only", "machine", "speed", "--out", str(tmp_path)])
    machine, speed = json.loads((tmp_path / "report.json").read_text())
    assert (machine["ended"], speed["ended"]) == ("done", "done")
    assert machine["notes"][0]["found"] == "the CPU: these figures are of no card"
    rows = [note for note in speed["notes"] if note["table"] in ("play", "learn")]
    assert {row["load"] for row in rows} == {load.name for load in gpu_loads.loads(quick=True)}
    assert len(rows) == 3 * (2 + len(gpu_stages.modes("cpu"))) + 1
    assert all(row.get("env steps/s", row.get("updates/s", 0.0)) > 0.0 for row in rows)
    printed = capsys.readouterr().out
    assert (tmp_path / "report.md").read_text() in printed
    assert "| boards | 1 |" in printed
    assert ("ray" in sys.modules) == before


@pytest.mark.slow
def test_a_stage_that_hangs_is_stopped_and_keeps_what_it_had_noted(tmp_path, monkeypatch):
    given = argparse.Namespace(device="cpu", quick=True)
    shown = []
    monkeypatch.setattr(gpu, "PAGE_SECONDS", 0.2)
    found = gpu.run_stage("speed", given, 0.5, tmp_path / "log", shown.append)
    assert found["ended"] == "stopped"
    assert {early["ended"] for early in shown} == {"under way"}  # the page has it before the stage ends
    assert found["seconds"] < 30.0
    assert "speed" in gpu.page([found])


@pytest.mark.alone
@needs_cards()
def test_every_kind_of_a_few_agrees_on_a_card_and_its_failures_are_written_down(tmp_path):
    gpu.main(["--quick", "--only", "numerics", "failures", "--minutes", "5", "--out", str(tmp_path)])
    numerics, failures = json.loads((tmp_path / "report.json").read_text())
    assert [note for note in numerics["notes"] if note["table"] == "kinds that differ"] == []
    tried = [note for note in numerics["notes"] if note["table"] == "kinds tried"]
    assert [note["kinds"] for note in tried] == [12]
    ends = [note for note in failures["notes"] if note["table"] == "failures"]
    assert len(ends) == 3
    for end in ends:
        assert (end["code"], end["sentences"], end["traceback"]) == (1, 1, False)
    said = {note["what"]: note["line"] for note in failures["notes"] if "line" in note}
    assert re.search(
        "player main.*: GPU 0 of .* were asked for, .* set learner.micro_steps", said[ends[0]["what"]]
    )
    assert re.search("play: GPU 0 of .* were asked for, .*policy_map_capacity", said[ends[1]["what"]])
    assert "GPU 0 of" in said[ends[2]["what"]]


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_benchmark_says_so_in_one_line(capsys):
    gpu.main([])
    assert capsys.readouterr().out == f"{gpu.NO_GPU}\n"
