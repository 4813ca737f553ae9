"""The double of a GPU fails where a card would, and counts what a card would be asked for."""

import threading

import numpy as np
import pytest
import torch

from league.cluster.cards import CardFull, card_errors, limit_memory
from tests.gpu.cards import CARD, ON_DOUBLE, needs_cards, needs_double
from tests.gpu.double import counts

if ON_DOUBLE:
    from tests.gpu.double import tensors

pytestmark = [pytest.mark.alone, needs_double]


def test_tensors_of_two_devices_do_not_meet():
    on_card, here = torch.ones(3, device=CARD), torch.ones(3)
    for meet in (lambda: on_card + here, lambda: torch.cat([here, on_card]), lambda: here[on_card.long()]):
        with pytest.raises(RuntimeError, match=r"on the same device|indices should be"):
            meet()
    with pytest.raises(TypeError, match="cuda:0 device type tensor to numpy"):
        np.asarray(on_card)


@needs_cards(2)
def test_a_card_that_does_not_exist_is_refused_and_two_cards_do_not_meet():
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.ones(3, device="cuda:2")
    with pytest.raises(RuntimeError, match="on the same device"):
        torch.ones(3, device="cuda:0") + torch.ones(3, device="cuda:1")


def test_memory_beyond_the_room_is_refused_and_freed_memory_is_used_again(monkeypatch):
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    monkeypatch.setenv("DOUBLE_BYTES", str(before + 1000))
    for _ in range(3):
        kept = torch.zeros(200, device=CARD)
        assert torch.cuda.memory_allocated() == before + 800
        with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate"):
            torch.zeros(200, device=CARD)
        del kept
    assert torch.cuda.max_memory_allocated() == before + 800


def test_a_process_takes_no_more_than_its_part_of_a_card(monkeypatch):
    before = torch.cuda.memory_allocated()
    monkeypatch.setenv("DOUBLE_BYTES", str(2 * before + 4000))
    monkeypatch.setattr(tensors, "part", {0: 1.0})
    limit_memory(0.5)
    kept = torch.zeros(400, device=CARD)
    with (
        pytest.raises(
            CardFull, match=r"play: .*: 0\.00 MiB more were asked for than the \S+ MiB that this pr"
        ),
        card_errors("play", ""),
    ):
        torch.zeros(200, device=CARD)
    del kept


def test_gradients_are_computed_on_the_card_by_all_threads():
    found = []

    def learn():
        weight = torch.ones(2, 3, device=CARD, requires_grad=True)
        (weight * 2.0).sum().backward()
        found.append((weight.grad.device.type, weight.grad.tolist()))

    threads = [threading.Thread(target=learn) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [("cuda", [[2.0] * 3] * 2)] * 2


def test_launches_waits_and_copies_are_counted_by_line():
    with counts.counted(lines=True) as found:
        pageable = torch.ones(4).to(CARD)
        pinned = torch.ones(4).pin_memory()[:2].to(CARD, non_blocking=True)
        total = (pageable + 1.0).sum() + pinned.sum()
        assert total.item() == 10.0
    assert found.pageable() == 1
    assert [kind for _, kind in found.copies] == ["pageable h2d", "pin_memory", "pinned h2d"]
    assert [why for _, why in found.waits] == ["item"]
    assert sum(found.launches.values()) == 4  # two sums and two additions: copies are no kernels
    assert all(place.startswith("test_double.py:") for place, _ in [*found.launches, *found.waits])
    assert "pageable h2d, 16 bytes" in found.report()


def test_a_broken_card_fails_for_good(monkeypatch, tmp_path):
    breaks = tmp_path / "breaks"
    breaks.touch()
    monkeypatch.setenv("DOUBLE_BREAKS", f"{breaks}:0")
    monkeypatch.setattr(tensors, "_calls", {"made": 0, "broken": 0})
    for _ in range(2):
        with pytest.raises(torch.AcceleratorError, match="CUDA error"):
            torch.ones(3, device=CARD)
    assert not breaks.exists()
