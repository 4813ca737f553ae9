"""Commands that go back to the past of a run."""
