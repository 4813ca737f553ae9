"""Let every Python process with DOUBLE_CARDS in its environment see cards, as soon as it imports torch.

Python imports this file at its start, as the folder is on PYTHONPATH: Ray's processes get it too.
"""

import os
import sys

if os.environ.get("DOUBLE_CARDS"):
    import importlib.abc
    import importlib.machinery
    from pathlib import Path

    class _WithTorch(importlib.abc.MetaPathFinder):
        """Finder that puts the double before and behind the import of torch."""

        def find_spec(self, name, path, target=None):
            if name != "torch":
                return None
            sys.meta_path.remove(self)
            spec = importlib.machinery.PathFinder.find_spec(name, path)
            sys.path.append(str(Path(__file__).parents[4]))
            from tests.gpu.double import building

            building.loaded()  # before torch, which asks for it once
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                from tests.gpu.double import cuda

                cuda.install()

            spec.loader.exec_module = exec_module
            return spec

    sys.meta_path.insert(0, _WithTorch())
