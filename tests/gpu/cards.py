"""The GPUs that tests of this folder need, and the mark that skips them by name where there are too few."""

import pytest
import torch

CARD = "cuda"


def needs_cards(count=1):
    """Mark of a test, or of all tests of a file, that needs `count` GPUs."""
    found = torch.cuda.device_count()
    return pytest.mark.skipif(found < count, reason=f"needs {count} GPU(s), torch sees {found}")
