"""The GPUs that tests of this folder need, and the marks that skip them by name where there are none.

`python -m tests.gpu.double -m pytest tests/gpu`, which is `make test-gpu`, runs them on the cards of this
machine, or else on doubles: double/tensors.py.
"""

import os

import pytest
import torch

from tests.gpu.double import building

CARD = "cuda"
ON_DOUBLE = "DOUBLE_CARDS" in os.environ


def needs_cards(count=1):
    """Mark of a test, or of all tests of a file, that needs `count` GPUs."""
    found = torch.cuda.device_count()
    why = building.obstacle() or "make test-gpu runs it on doubles of them"
    return pytest.mark.skipif(found < count, reason=f"needs {count} GPU(s), torch sees {found}; {why}")


needs_double = pytest.mark.skipif(not ON_DOUBLE, reason="looks at what only the double of a GPU shows")
