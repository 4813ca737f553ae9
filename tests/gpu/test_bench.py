"""The benchmark of GPUs: on a machine without one it runs on the CPU, and says that nothing was measured."""

import sys

import pytest
import torch

from tests.bench import gpu


@pytest.mark.slow
def test_all_of_the_benchmark_runs_on_the_cpu_and_without_ray(capsys):
    before = "ray" in sys.modules
    gpu.main(["--device", "cpu", "--quick"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "the CPU: these figures are of no card"
    played = [line.split() for line in lines[3:5]]
    assert [int(row[0]) for row in played] == [1, 2]
    assert all(float(row[1].replace(",", "")) > 0 for row in played)
    learned = [line.split() for line in lines[7:]]
    wanted = [(players, precision) for players in ("1", "2") for precision in ("float32", "bfloat16")]
    assert [tuple(row[:2]) for row in learned] == wanted
    assert all(float(row[2]) > 0 for row in learned)
    assert ("ray" in sys.modules) == before


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_benchmark_says_so_in_one_line(capsys):
    gpu.main([])
    assert capsys.readouterr().out == f"{gpu.NO_GPU}\n"
