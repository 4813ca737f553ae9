import sys

import pytest

from league.cluster.calls import COPIED_BYTES, Inside, carried, opened
from tests.league.fake_ray import FakeRay, ObjectLostError


@pytest.fixture
def fake(monkeypatch):
    fake = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", fake)
    return fake


def test_a_reference_goes_inside_unless_what_it_refers_to_is_surely_large(fake):
    reference = fake.put("weights")
    for given in (reference, Inside(reference)):
        assert carried(fake, given) == carried(fake, given, COPIED_BYTES - 1) == Inside(reference)
        assert carried(fake, given, COPIED_BYTES) is reference
    assert carried(fake, ["episodes"]) == ["episodes"]


def test_an_actor_opens_what_is_inside_and_leaves_the_rest_in_its_place(fake):
    one, two = fake.put("one"), fake.put("two")
    assert opened(["zero", Inside(one), None, Inside(two)]) == ["zero", "one", None, "two"]


def test_nothing_is_asked_of_ray_without_references(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)  # an import fails
    assert opened(["zero", 1]) == ["zero", 1]


def test_what_was_lost_is_an_error_where_it_is_opened(fake):
    reference = fake.put("weights")
    fake.lose(reference)
    with pytest.raises(ObjectLostError):
        opened([Inside(reference)])
