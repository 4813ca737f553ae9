"""An index that was damaged between two sessions costs nothing but the time to build it anew."""

import pytest

from tests.storage.faults.counts import figure, tried
from tests.storage.hostile.limited import limited

DAMAGES = tried(60, 500)


@pytest.mark.long
@pytest.mark.slow
def test_whatever_happens_to_the_index_the_next_session_opens_with_every_row_of_the_ledger(tmp_path):
    # DuckDB crashes where the address space is short, damage or not: this child has plenty
    found = limited("damaged_index:index_damages", str(tmp_path), 0, DAMAGES, room_bytes=16 * 2**30)
    figure("index: " + ", ".join(f"{name} {count}" for name, count in sorted(found.items())))
    assert sum(found.values()) == DAMAGES
    rebuilt = sum(count for name, count in found.items() if name.endswith("rebuilt"))
    assert rebuilt > DAMAGES // 3, "damage was done and noticed, not only put up with"
