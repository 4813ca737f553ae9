"""The cache's folder is the user's own and nobody else's."""

import os
import stat

import pytest

from storage.cache.disk_budget import cache_folder
from storage.errors import DiskFailed, Mistake


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    return tmp_path


def test_the_folder_is_the_user_s_own_and_private(home, monkeypatch):
    assert cache_folder() == home / "home/.cache/checkpoint-league"
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "xdg"))
    assert cache_folder() == home / "xdg/checkpoint-league"
    assert cache_folder(home / "given") == cache_folder(str(home / "given")) == home / "given"
    for folder in (home / "home/.cache/checkpoint-league", home / "given"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert sorted(os.listdir(home)) == ["given", "home", "xdg"]


def test_a_home_that_cannot_be_written_to_is_left_for_the_temporary_folder(home):
    (home / "home").write_text("no folder")
    assert cache_folder() == home / f"temporary/checkpoint-league-{os.getuid()}"
    with pytest.raises(DiskFailed, match="given"):
        cache_folder(home / "home/given")


def test_a_folder_that_others_may_write_to_is_refused(tmp_path, monkeypatch):
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o777)
    shared.chmod(0o777)
    with pytest.raises(Mistake, match=r"shared: found a cache folder that others can write to.*cache_folder"):
        cache_folder(shared)
    own = cache_folder(tmp_path / "own")
    (tmp_path / "link").symlink_to(own)
    assert cache_folder(tmp_path / "link") == tmp_path / "link"
    monkeypatch.setattr("os.getuid", lambda: 12345)  # the folder is another user's now
    with pytest.raises(Mistake, match="expected one of user 12345 alone"):
        cache_folder(own)
