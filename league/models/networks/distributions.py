"""Distributions over actions, given by the parameters that a network returns.

    discrete         A logits: a choice, the illegal ones masked out
    multi_discrete   A_1 + ... + A_k logits: k independent choices
    continuous       d means, d log standard deviations: a Gaussian, mapped into the bounds by tanh
                     (squashed, where there are two) or clipped at them on its way to the game
    joint            the parameters of the choices, then those of the real numbers: all independent

Learners use `evaluate` and `kl` (torch, differentiable, one pass); actors use `sample` and `to_env`
(numpy results). For continuous actions the raw draw is recorded, with the log-probability of the
Gaussian: the Jacobian of the squashing cancels in every ratio.
"""

from __future__ import annotations

import functools
import itertools
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from league.envs.spaces import ActionSpec
from league.models.actor import is_certain
from storage.arrays import Bools, Floats, Floats32

SMALLEST_NOISE = 1e-30  # an exponential draw may be exactly 0, and 0 / 0 would win every argmax
LOG_STD_RANGE = (-5.0, 2.0)  # standard deviations from 0.007 to 7.4
NODES, FARTHEST = 48, 6.0  # quadrature of a squashed entropy: number of nodes, largest distance in deviations


class Distribution(ABC):
    """The distribution over actions for rows of network parameters [N, num_parameters].

    Masks are bool [N, mask_width], at least one True for each choice.
    """

    num_parameters: int

    @abstractmethod
    def evaluate(self, parameters: Tensor, mask: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Return log-probabilities [N] of raw actions [N, *shape], and entropies [N] in nats."""

    @abstractmethod
    def kl(self, p: Tensor, q: Tensor, mask: Tensor) -> Tensor:
        """Return the exact KL(p || q) [N] in nats of the distributions with these parameters."""

    @abstractmethod
    def sample(
        self, parameters: Tensor, mask: Bools, rng: np.random.Generator, temperature: float
    ) -> tuple[npt.NDArray, Floats32]:
        """Draw raw actions [n, *shape]; return them with their log-probabilities [n].

        `temperature` as in `Actor.decide`. Log-probabilities are those at this temperature, and those at 1
        for temperature 0. `parameters` may be overwritten.
        """

    @abstractmethod
    def certain(self, log_prob: Floats32, temperature: float) -> Bools:
        """Return which actions [n], sampled at `temperature` with `log_prob` [n], were certain."""

    @abstractmethod
    def probabilities(self, parameters: Tensor, mask: Tensor) -> Tensor:
        """Return the probabilities of all choices side by side [N, num_parameters].

        For real numbers: mean and log_std. `parameters` may be overwritten.
        """

    def to_env(self, raw: npt.NDArray) -> npt.NDArray:
        """Return the actions for the game."""
        return raw


@functools.lru_cache(maxsize=256)
def distribution(action: ActionSpec, squash: bool = True) -> Distribution:
    """Return the distribution over `action`; `squash` has an effect on continuous actions only."""
    if action.kind == "discrete":
        return Categorical(action.sizes[0])
    if action.kind == "multi_discrete":
        return MultiCategorical(action.sizes)
    return Joint(action, squash) if action.sizes else Gaussian(action, squash)


# ---------------------------------------------------------------------- choices


def _log_probs(logits: Tensor, mask: Tensor) -> Tensor:
    """Return log-probabilities [..., A], -inf where illegal."""
    return logits.masked_fill(~mask, -torch.inf).log_softmax(-1)


def _entropy(log_probs: Tensor) -> Tensor:
    # an illegal action adds 0 x -inf, which is NaN unless the infinity is cut first
    return -(log_probs.exp() * log_probs.clamp(min=-1e9)).sum(-1)


def _kl(p: Tensor, q: Tensor) -> Tensor:
    """Return the KL of log-probabilities [..., A] with the same legal actions."""
    return (p.exp() * (p.clamp(min=-1e9) - q.clamp(min=-1e9))).sum(-1)


def _draw(probability: Tensor, noise: Tensor) -> Tensor:
    """Draw from `probability` [..., A], normalised or not, by `noise` ~ Exponential(1).

    The largest of p / Exponential(1) is a draw from p (the Gumbel-max trick, exponentiated).
    """
    return (probability / noise).argmax(-1)


def _noise(shape: torch.Size, rng: np.random.Generator) -> Tensor:
    return torch.from_numpy(rng.standard_exponential(shape, dtype=np.float32)).add_(SMALLEST_NOISE)


def _tempered(logits: Tensor, temperature: float) -> Tensor:
    """Return the logits at `temperature`. Overwrite `logits`; do nothing at 1."""
    return logits if temperature in (0.0, 1.0) else logits.div_(temperature)


class _Choices(Distribution):
    """Distribution of one choice or several: with probabilities, not densities."""

    def certain(self, log_prob: Floats32, temperature: float) -> Bools:
        return is_certain(log_prob, temperature)


class Categorical(_Choices):
    """One of A choices."""

    def __init__(self, num_choices: int) -> None:
        self.num_parameters = num_choices

    def evaluate(self, parameters: Tensor, mask: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        log_probs = _log_probs(parameters, mask)
        return log_probs.gather(1, action.unsqueeze(1)).squeeze(1), _entropy(log_probs)

    def kl(self, p: Tensor, q: Tensor, mask: Tensor) -> Tensor:
        return _kl(_log_probs(p, mask), _log_probs(q, mask))

    def sample(
        self, parameters: Tensor, mask: Bools, rng: np.random.Generator, temperature: float
    ) -> tuple[npt.NDArray, Floats32]:
        probability = self.probabilities(_tempered(parameters, temperature), torch.from_numpy(mask))
        drawn = temperature != 0.0
        action = _draw(probability, _noise(probability.shape, rng)) if drawn else probability.argmax(1)
        return action.numpy(), probability.gather(1, action.unsqueeze(1)).squeeze(1).log().numpy()

    def probabilities(self, parameters: Tensor, mask: Tensor) -> Tensor:
        """Return probabilities [N, A]. Overwrite `parameters`."""
        return parameters.masked_fill_(~mask, -torch.inf).softmax(1)


@dataclass(frozen=True, slots=True)
class _Block:
    """Neighbouring factors of the same size, handled as one array [..., factors, size]."""

    columns: slice  # columns of the parameters
    factors: slice  # factors of the action
    size: int

    def of(self, columns: Tensor) -> Tensor:
        return columns[:, self.columns].unflatten(1, (-1, self.size))


class MultiCategorical(_Choices):
    """k independent choices. Combinations of legal choices are not checked here."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self.num_parameters = sum(sizes)
        self._num_factors = len(sizes)
        self._blocks = []
        column = factor = 0
        for size, group in itertools.groupby(sizes):
            count = len(list(group))
            self._blocks.append(
                _Block(slice(column, column + count * size), slice(factor, factor + count), size)
            )
            column, factor = column + count * size, factor + count

    def evaluate(self, parameters: Tensor, mask: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        log_prob = parameters.new_zeros(len(parameters))
        entropy = parameters.new_zeros(len(parameters))
        for block in self._blocks:
            log_probs = _log_probs(block.of(parameters), block.of(mask))
            taken = log_probs.gather(2, action[:, block.factors].unsqueeze(2)).squeeze(2)
            log_prob, entropy = log_prob + taken.sum(1), entropy + _entropy(log_probs).sum(1)
        return log_prob, entropy

    def kl(self, p: Tensor, q: Tensor, mask: Tensor) -> Tensor:
        total = p.new_zeros(len(p))
        for block in self._blocks:
            legal = block.of(mask)
            total = total + _kl(_log_probs(block.of(p), legal), _log_probs(block.of(q), legal)).sum(1)
        return total

    def sample(
        self, parameters: Tensor, mask: Bools, rng: np.random.Generator, temperature: float
    ) -> tuple[npt.NDArray, Floats32]:
        logits = _tempered(parameters, temperature).masked_fill_(~torch.from_numpy(mask), -torch.inf)
        noise = None if temperature == 0.0 else _noise(logits.shape, rng)
        action = torch.empty((len(logits), self._num_factors), dtype=torch.int64)
        log_prob = torch.zeros(len(logits))
        for block in self._blocks:
            probability = block.of(logits).softmax(2)
            chosen = probability.argmax(2) if noise is None else _draw(probability, block.of(noise))
            action[:, block.factors] = chosen
            log_prob += probability.gather(2, chosen.unsqueeze(2)).squeeze(2).log().sum(1)
        return action.numpy(), log_prob.numpy()

    def probabilities(self, parameters: Tensor, mask: Tensor) -> Tensor:
        """Return probabilities [N, A_1 + ... + A_k]. Overwrite `parameters`."""
        logits = parameters.masked_fill_(~mask, -torch.inf)
        return torch.cat([block.of(logits).softmax(2).flatten(1) for block in self._blocks], 1)


# ---------------------------------------------------------------------- real numbers


class Gaussian(Distribution):
    """d independent real numbers, with parameters (mean, log_std), within bounds if they have any."""

    def __init__(self, action: ActionSpec, squash: bool) -> None:
        self.num_parameters = 2 * len(action.low)
        self._low, self._high = action.bounds()
        self._squashed, middle, half_width = squashing(action, squash)
        self._middle, self._half_width = middle.astype(np.float32), half_width.astype(np.float32)
        inside = torch.from_numpy(self._squashed).float()  # [d], 1.0 where tanh is applied
        self._log_half_widths = float(np.log(half_width).sum())
        nodes = torch.linspace(-FARTHEST, FARTHEST, NODES, dtype=torch.float64)
        self._quadrature = nodes, (-0.5 * nodes.square()).softmax(0), inside
        self._quadratures: dict[tuple[torch.device, torch.dtype], tuple[Tensor, ...]] = {}

    def evaluate(self, parameters: Tensor, mask: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = self._split(parameters)
        entropy = (log_std + 0.5 * math.log(2.0 * math.pi * math.e)).sum(1)
        if self._squashed.any():
            entropy = entropy + self._mean_log_slope(mean, log_std)
        return self._log_prob(mean, log_std, action), entropy

    def kl(self, p: Tensor, q: Tensor, mask: Tensor) -> Tensor:
        """Return the KL, which is the same for squashed distributions: the map is one-to-one."""
        (mean, log_std), (other_mean, other_log_std) = self._split(p), self._split(q)
        log_ratio = 2.0 * (log_std - other_log_std)  # of the variances
        distance = (mean - other_mean) * (-other_log_std).exp()
        # expm1: in float32, ratio - 1 - log(ratio) loses all digits for near distributions
        return 0.5 * (log_ratio.expm1() - log_ratio + distance.square()).sum(1)

    def sample(
        self, parameters: Tensor, mask: Bools, rng: np.random.Generator, temperature: float
    ) -> tuple[npt.NDArray, Floats32]:
        mean, log_std = self._split(parameters)
        raw = mean
        if temperature != 0.0:
            if temperature != 1.0:
                log_std = log_std + math.log(temperature)
            noise = torch.from_numpy(rng.standard_normal(mean.shape, dtype=np.float32))
            raw = torch.addcmul(mean, log_std.exp(), noise)
        # of the rounded draw that is recorded, so that the learner computes the same
        return raw.numpy(), self._log_prob(mean, log_std, raw).numpy()

    def certain(self, log_prob: Floats32, temperature: float) -> Bools:
        return np.full(len(log_prob), temperature == 0.0)

    def probabilities(self, parameters: Tensor, mask: Tensor) -> Tensor:
        """Return mean and log_std [N, 2 d] of `parameters`, instead of probabilities."""
        return torch.cat(self._split(parameters), 1)

    def to_env(self, raw: npt.NDArray) -> Floats32:
        action = np.where(self._squashed, self._middle + self._half_width * np.tanh(raw), raw)
        return np.clip(action, self._low, self._high)

    @staticmethod
    def _split(parameters: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = parameters.chunk(2, 1)
        return mean, log_std.clamp(*LOG_STD_RANGE)

    @staticmethod
    def _log_prob(mean: Tensor, log_std: Tensor, raw: Tensor) -> Tensor:
        z = (raw - mean) * (-log_std).exp()
        return -(0.5 * z.square() + log_std + 0.5 * math.log(2.0 * math.pi)).sum(1)

    def _mean_log_slope(self, mean: Tensor, log_std: Tensor) -> Tensor:
        """Return E[log of the slope of the map from raw draw to action] [N], by quadrature.

        The entropy of a squashed draw is that of the Gaussian plus this. The slope of tanh is
        1 - tanh(x)^2, with the logarithm 2 (log 2 - x - softplus(-2 x)) for any x.
        Equally spaced nodes have an error of e^(-c nodes) for smooth functions that decay (Trefethen and
        Weideman 2014, doi 10.1137/130932132). For the widest draws the error is 0.002 nats; with the
        same number of Gauss-Hermite nodes, which are too far apart, it is 0.04.
        """
        place = mean.device, mean.dtype
        if place not in self._quadratures:
            self._quadratures[place] = tuple(part.to(mean) for part in self._quadrature)
        nodes, weights, inside = self._quadratures[place]
        x = mean.unsqueeze(2) + log_std.exp().unsqueeze(2) * nodes
        mean_softplus = F.softplus(-2.0 * x) @ weights
        return 2.0 * (inside * (math.log(2.0) - mean - mean_softplus)).sum(1) + self._log_half_widths


def squashing(action: ActionSpec, squash: bool) -> tuple[Bools, Floats, Floats]:
    """Return which real numbers are squashed, and middle and half the width of their bounds, [d] each.

    Those that are not have the middle 0 and half the width 1.
    """
    low, high = np.array(action.low), np.array(action.high)
    squashed = np.isfinite(low) & np.isfinite(high) & squash
    low, high = np.where(squashed, low, -1.0), np.where(squashed, high, 1.0)
    return squashed, (low + high) / 2, (high - low) / 2


# ---------------------------------------------------------------------- choices and real numbers


class Joint(Distribution):
    """k choices and d real numbers, all independent. Raw actions are rows of float32, the choices first."""

    def __init__(self, action: ActionSpec, squash: bool) -> None:
        self._choices, self._numbers = MultiCategorical(action.sizes), Gaussian(action, squash)
        self._k, self._width = len(action.sizes), action.mask_width
        self.num_parameters = self._choices.num_parameters + self._numbers.num_parameters

    def evaluate(self, parameters: Tensor, mask: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        w, k = self._width, self._k
        chosen = self._choices.evaluate(parameters[:, :w], mask, action[:, :k].long())
        drawn = self._numbers.evaluate(parameters[:, w:], mask, action[:, k:])
        return chosen[0] + drawn[0], chosen[1] + drawn[1]

    def kl(self, p: Tensor, q: Tensor, mask: Tensor) -> Tensor:
        w = self._width
        return self._choices.kl(p[:, :w], q[:, :w], mask) + self._numbers.kl(p[:, w:], q[:, w:], mask)

    def sample(
        self, parameters: Tensor, mask: Bools, rng: np.random.Generator, temperature: float
    ) -> tuple[npt.NDArray, Floats32]:
        w = self._width
        choices, log_prob = self._choices.sample(parameters[:, :w], mask, rng, temperature)
        numbers, log_density = self._numbers.sample(parameters[:, w:], mask, rng, temperature)
        return np.concatenate([choices.astype(np.float32), numbers], 1), log_prob + log_density

    def certain(self, log_prob: Floats32, temperature: float) -> Bools:
        return self._numbers.certain(log_prob, temperature)

    def probabilities(self, parameters: Tensor, mask: Tensor) -> Tensor:
        """Return the probabilities of all choices, then mean and log_std of the real numbers."""
        w = self._width
        chosen = self._choices.probabilities(parameters[:, :w], mask)
        return torch.cat([chosen, self._numbers.probabilities(parameters[:, w:], mask)], 1)

    def to_env(self, raw: npt.NDArray) -> Floats32:
        return np.concatenate([raw[:, : self._k], self._numbers.to_env(raw[:, self._k :])], 1)
