"""One writer at a time, whichever store it is and whatever becomes of the one before."""

import threading
import time

import pytest

from storage.errors import Mistake
from storage.remote import claims
from storage.remote.claims import Claim, RemoteLocked
from storage.remote.remote import Remote, RemoteFailed, RemoteTaken
from tests.steps import wait_for
from tests.storage.object_store import BUCKET, clean_proxy, shared_server  # noqa: F401  # fixtures


@pytest.fixture(params=["file", "s3"])
def remote(request, tmp_path):
    if request.param == "file":
        return Remote(f"file://{tmp_path}/remote", make=True)
    request.getfixturevalue("proxy")
    return Remote(f"s3://{BUCKET}/{tmp_path.name}")


@pytest.fixture
def folders(tmp_path):
    """Run folders of as many writers."""
    made = [tmp_path / f"run-{n}" for n in range(16)]
    for folder in made:
        folder.mkdir()
    return made


@pytest.fixture
def hurried(monkeypatch):
    """Leases of three seconds instead of a minute; S3 tells whole seconds."""
    monkeypatch.setattr(claims, "RENEW_SECONDS", 0.05)
    monkeypatch.setattr(claims, "LEASE_SECONDS", 3.0)


def take_in_time(remote, folder):
    """The claim, as soon as the one before is silent for long enough."""
    taken = []

    def is_taken():
        try:
            taken.append(Claim(remote, folder))
        except RemoteLocked:
            return False
        return True

    wait_for(is_taken)
    return taken[0]


def is_lost(claim):
    try:
        claim.require()
    except RemoteTaken:
        return True
    return False


@pytest.mark.slow
def test_a_second_writer_is_refused_and_told_who_writes(remote, folders):
    first = Claim(remote, folders[0])
    with pytest.raises(RemoteLocked, match=r"pid \d+ on .* with run .*/run-0 writes it, last heard of"):
        Claim(remote, folders[1])
    first.require()
    first.release()


@pytest.mark.slow
def test_a_claim_given_back_is_free_at_once_and_old_ones_do_not_pile_up(remote, folders):
    for folder in folders[:3]:
        Claim(remote, folder).release()
    assert list(remote.list("writers")) == ["writers/00000003"]
    assert remote.list("probes") == {}


@pytest.mark.slow
def test_a_killed_run_takes_its_own_claim_up_at_once(remote, folders):
    Claim(remote, folders[0]).stop()
    again = Claim(remote, folders[0])
    again.require()
    again.release()


@pytest.mark.slow
def test_of_sixteen_who_race_one_gets_it(remote, folders):
    won, refused, barrier = [], [], threading.Barrier(16)

    def race(folder):
        barrier.wait()
        try:
            won.append(Claim(remote, folder))
        except RemoteLocked as error:
            refused.append(error)

    racers = [threading.Thread(target=race, args=(folder,)) for folder in folders]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert len(won) == 1
    assert len(refused) == 15
    won[0].require()
    won[0].release()


@pytest.mark.long
def test_a_claim_that_is_renewed_is_not_taken_over(remote, folders, hurried):
    first = Claim(remote, folders[0])
    until = time.monotonic() + 4.5
    while time.monotonic() < until:
        with pytest.raises(RemoteLocked):
            Claim(remote, folders[1])
        time.sleep(0.3)
    first.release()


@pytest.mark.slow
def test_a_silent_claim_is_taken_over_and_who_comes_back_is_told(remote, folders, hurried):
    first = Claim(remote, folders[0])
    first.stop()
    second = take_in_time(remote, folders[1])
    back = threading.Thread(target=first._keep)
    first._stopped.clear()
    back.start()
    wait_for(lambda: is_lost(first))
    back.join()
    with pytest.raises(RemoteTaken, match=r"with run .*/run-1 writes it now"):
        first.require()
    second.require()
    first.release()
    assert remote.get("writers/00000001") is None, "who lost it has nothing to give back"
    second.release()


@pytest.mark.slow
def test_who_could_not_renew_for_long_writes_nothing(remote, folders, monkeypatch):
    claim = Claim(remote, folders[0])
    claim.stop()
    claim.require()
    monkeypatch.setattr(claims, "FRESH_SECONDS", 0.0)
    with pytest.raises(RemoteFailed, match="could not be renewed for"):
        claim.require()


def test_a_store_that_creates_what_is_there_is_refused(proxy, folders):
    proxy.ignored_header = "if-none-match"
    remote = Remote(f"s3://{BUCKET}/unconditional")
    with pytest.raises(Mistake, match="expected one that honours If-None-Match"):
        Claim(remote, folders[0])
    assert remote.list("") == {}


@pytest.mark.slow
def test_a_claim_that_cannot_be_read_is_waited_out(remote, folders, hurried):
    remote.put("writers/00000007", b"no json")
    with pytest.raises(RemoteLocked):
        Claim(remote, folders[0])
    claim = take_in_time(remote, folders[0])
    assert list(remote.list("writers")) == ["writers/00000008"]
    claim.release()
