"""Minibatches of several players are joined as one, and can be separated again."""

import numpy as np
import torch

from league.learning.data.batching import minibatches
from league.learning.maths.objective import vtrace_targets
from league.learning.shared_pass.joined import join


def batch_of(episodes):
    (batch,) = minibatches(episodes, episodes.num_steps, 128)
    return batch


def three(make_episodes):
    """Minibatches of unequal sizes, of which some are truncated here and there."""
    return [
        batch_of(make_episodes([3, 5, 2], [True, False, True], seed=1)),
        batch_of(make_episodes([7], seed=2, version=4)),
        batch_of(make_episodes([1, 4], [False, True], seed=3)),
    ]


def test_each_step_keeps_its_values_and_its_owner(make_episodes):
    batches = three(make_episodes)
    joined = join(batches)
    assert (joined.steps, joined.bootstraps) == ([10, 7, 5], [2, 0, 1])
    assert joined.owner.tolist() == [0] * 10 + [1] * 7 + [2] * 5
    assert joined.batch.num_steps == joined.batch.total_steps == 22
    for name in ("mask", "action", "log_prob", "reward", "lag_versions"):
        assert torch.equal(getattr(joined.batch, name), torch.cat([getattr(b, name) for b in batches])), name


def test_sequences_lead_to_the_same_rows_as_before(make_episodes):
    batches = three(make_episodes)
    joined = join(batches)
    numbers = [i * 100 + torch.arange(len(b.observation)) for i, b in enumerate(batches)]
    flat = torch.cat([joined.flat(numbers), torch.tensor([-1])])
    rows, after = joined.batch.rows, joined.batch.after
    assert rows.shape == after.shape == (7, 6)
    column = 0
    for number, batch in zip(numbers, batches, strict=True):
        steps, sequences = batch.rows.shape
        columns = slice(column, column + sequences)
        where = torch.where(batch.rows < batch.num_steps, batch.rows, -1)
        wanted = torch.cat([number, torch.tensor([-1])])
        found = flat[torch.where(rows < joined.batch.num_steps, rows, -1)][:, columns]
        assert torch.equal(found[:steps], wanted[where])
        assert (found[steps:] == -1).all()
        assert torch.equal(flat[after][:steps, columns], wanted[batch.after])
        assert (flat[after][steps:, columns] == -1).all()
        column += sequences


def test_what_is_found_for_padded_rows_is_left_out(make_episodes):
    joined = join(three(make_episodes))
    padded = [torch.full((20,), float(i)) for i in range(3)]
    assert joined.flat(padded).tolist() == [0.0] * 10 + [1.0] * 7 + [2.0] * 5 + [0.0, 0.0, 2.0]


def test_vtrace_of_the_joined_batch_is_that_of_each(make_episodes):
    batches = three(make_episodes)
    joined = join(batches)
    generator = torch.Generator().manual_seed(0)
    log_prob = [torch.randn(b.num_steps, generator=generator) - 1.0 for b in batches]
    value = [torch.randn(len(b.observation), generator=generator) for b in batches]
    together = vtrace_targets(joined.batch, torch.cat(log_prob), joined.flat(value), 0.9, 0.95)
    alone = [vtrace_targets(b, p, v, 0.9, 0.95) for b, p, v in zip(batches, log_prob, value, strict=True)]
    for found, parts in zip(together, zip(*alone, strict=True), strict=True):
        torch.testing.assert_close(found, torch.cat(parts))


def test_means_are_over_each_players_own_steps(make_episodes):
    joined = join(three(make_episodes))
    columns = torch.stack([torch.arange(22.0), torch.ones(22)])
    wanted = [[np.arange(10).mean(), 1.0], [np.arange(10, 17).mean(), 1.0], [np.arange(17, 22).mean(), 1.0]]
    np.testing.assert_allclose(joined.means(columns).numpy(), wanted)
