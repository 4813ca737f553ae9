"""Tests: a package of its own name, as some libraries install one called `tests` too."""
