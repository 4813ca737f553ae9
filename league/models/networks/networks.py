"""Networks, built from a `PolicySpec`.

They map rows of observations to parameters of the action's distribution, and to values:

    normaliser > torso > memory > policy_head, value_head

A network has no state between two calls. Its memory of a seat is a row of floats that the caller passes
in and gets back, all zero when a match begins.
"""

from __future__ import annotations

import contextlib
import functools
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import psutil
import torch
from torch import Tensor, nn

from league.import_paths import OwnCodeFailed, import_callable, line_of, require_trust, running
from league.models.connectors import Normalise, try_connectors
from league.models.networks.distributions import distribution
from league.models.networks.encoders import BadNetwork, Normaliser, build_encoder, orthogonal
from league.models.networks.memory import Memory, build_memory
from league.models.networks.mirrored import MirroredLayers, checked_mirror
from league.models.spec import PolicySpec
from league.models.torsos import OwnTorso

INITIAL_LOG_STD = -0.5
OF_CARD = re.compile("cuda|cublas|cudnn", re.IGNORECASE)  # in errors that `card_errors` names
BYTES_OF_WEIGHT = 16  # in learning: the weight, its gradient, and two moments of it


class Network(nn.Module, ABC):
    """Base of all networks. Derive a network of your own from it if it has memory.

    In shapes: n, M rows; S `memory_size`; P parameters of the action's distribution; T steps; B sequences.
    """

    memory_size: int = 0  # floats of memory per seat
    normaliser: Normaliser | None  # no default here: a class attribute would hide the layer

    def __init__(self) -> None:
        super().__init__()
        self.normaliser = None

    @abstractmethod
    def step(self, observation: Tensor, memory: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Return parameters [n, P] and the memory after this step [n, S], without computing values.

        `observation` [n, *shape], `memory` [n, S]. A network without memory returns `memory` unchanged.
        """

    @abstractmethod
    def forward(self, observation: Tensor, memory: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return parameters [n, P] and values [n].

        `observation` [n, *shape] with the dtype of the spec, `memory` [n, S]. Where the value sees other
        seats, the shape is that of `PolicySpec.learned`; with the own sight alone, values are NaN.
        """

    @abstractmethod
    def unroll(self, observation: Tensor, layout: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return parameters [M, P], values [M] and the memory [B, S] after whole sequences.

        `observation` [M, *shape]. `layout` [T, B] int64: the row of each step, M where a sequence has ended;
        it holds every row once, and every sequence has a step. `memory` [B, S]: before the first steps.
        """

    def full_step(
        self, observation: Tensor, memory: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return parameters [n, P], values [n] and the memory after this step, as `step` and `forward` do."""
        parameters, after = self.step(observation, memory)
        return parameters, self.forward(observation, memory)[1], after

    def initialise(self, generator: torch.Generator) -> None:
        """Draw fresh weights in place; the same generator state gives the same weights.

        A network of your own may omit this: then its constructor draws the weights (`CustomNetwork`).
        """
        raise NotImplementedError

    @property
    def mirrored(self) -> MirroredLayers | None:
        """Layers whose weights are mirrored; `None` if the policy has no mirror."""
        return None


class LayeredNetwork(Network):
    """A torso under a policy head and a value head, with the memory of the settings between them.

    Weights are orthogonal, with gain sqrt(2) in the torso, 0.01 at the policy (so that a fresh
    policy is close to uniform) and 1 at the value.
    """

    def __init__(self, spec: PolicySpec) -> None:
        super().__init__()
        settings, seen, action = spec.settings, spec.seen, spec.action
        encoder = (settings.torso, settings.hidden, settings.activation)
        self.normaliser = _normaliser(spec)
        self.torso = build_encoder(seen, *encoder)
        self.memory: Memory | None = build_memory(settings, self.torso.width)
        self.memory_size = 0 if self.memory is None else self.memory.memory_size
        width = self.torso.width if self.memory is None else self.memory.width
        self.policy_head = nn.Linear(width, action.width)
        # the standard deviations of continuous actions do not depend on the observation
        self.log_std = nn.Parameter(torch.empty(len(action.low))) if action.low else None
        self.value_torso = build_encoder(spec.learned, *encoder) if settings.separate_value else None
        self._seen, self._beside = tuple(seen.shape), bool(spec.others)
        if self.value_torso is not None:
            width = self.value_torso.width + (0 if self.memory is None else width)
        self.value_head = nn.Linear(width, 1)
        self._mirror = checked_mirror(spec)

    @property
    def mirrored(self) -> MirroredLayers | None:
        if self._mirror is None:
            return None
        torsos = [self.torso] if self.value_torso is None else [self.torso, self.value_torso]
        return MirroredLayers(self._mirror, torsos, self.policy_head, self.value_head)

    def initialise(self, generator: torch.Generator) -> None:
        if self.normaliser is not None:
            self.normaliser.initialise()
        self.torso.initialise(generator)
        if self.memory is not None:
            self.memory.initialise(generator)
        orthogonal(self.policy_head, 0.01, generator)
        if self.log_std is not None:
            nn.init.constant_(self.log_std, INITIAL_LOG_STD)
        if self.value_torso is not None:
            self.value_torso.initialise(generator)
        orthogonal(self.value_head, 1.0, generator)
        if self.mirrored is not None:
            self.mirrored.initialise()

    def step(self, observation: Tensor, memory: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        features = self.torso(_normalised(self.normaliser, observation))
        if self.memory is not None:
            features, memory = self.memory.step(features, _given(memory))
        return self._action_parameters(features), memory

    def forward(self, observation: Tensor, memory: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return self.full_step(observation, memory)[:2]

    def full_step(
        self, observation: Tensor, memory: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        shown = _normalised(self.normaliser, observation)
        features = self.torso(self._own(shown))
        if self.memory is not None:
            features, memory = self.memory.step(features, _given(memory))
        return self._action_parameters(features), self._value(shown, features), memory

    def unroll(self, observation: Tensor, layout: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        shown = _normalised(self.normaliser, observation)
        features = self.torso(self._own(shown))
        if self.memory is not None:
            features, memory = self.memory.unroll(features, layout, memory)
        return self._action_parameters(features), self._value(shown, features), memory

    def _action_parameters(self, features: Tensor) -> Tensor:
        parameters = _in_float32(self.policy_head, features)
        if self.log_std is None:
            return parameters
        means = parameters[:, -len(self.log_std) :]  # of a traced call: a number of rows would be a constant
        return torch.cat([parameters, self.log_std.expand_as(means)], 1)

    def _own(self, shown: Tensor) -> Tensor:
        """Return the part [n, *seen.shape] of what is shown that the policy sees."""
        if not self._beside or shown.shape[1:] == self._seen:
            return shown
        return shown[:, : math.prod(self._seen)].reshape(len(shown), *self._seen)

    def _value(self, shown: Tensor, features: Tensor) -> Tensor:
        if self._beside and shown.shape[1:] == self._seen:
            return features.new_full((len(features),), math.nan)  # it would have to see other seats too
        if self.value_torso is not None:
            own = self.value_torso(shown)
            # the value reads the policy's memory, without a gradient into it
            features = own if self.memory is None else torch.cat([own, features.detach()], 1)
        return _in_float32(self.value_head, features).squeeze(-1)


def _in_float32(head: nn.Linear, features: Tensor) -> Tensor:
    """Return the head's output, under autocast too in float32: eight bits of a logit of 10 end at 0.04."""
    device = features.device.type
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        with torch.autocast(device, enabled=False):
            return head(features.float())
    return head(features)


def _given(memory: Tensor | None) -> Tensor:
    if memory is None:
        raise ValueError("this network remembers: found no memory, expected rows [n, memory_size]")
    return memory


def _normalised(normaliser: Normaliser | None, observation: Tensor) -> Tensor:
    return observation if normaliser is None else normaliser(observation)


def _normaliser(spec: PolicySpec) -> Normaliser | None:
    for connector in spec.settings.connectors:
        if isinstance(connector, Normalise):
            return Normaliser(spec.seen.shape, connector.clip, connector.epsilon)
    return None


class CustomNetwork(Network):
    """A user's `module:Class` behind the normaliser: a plain module, or a `Network` if it has memory.

    `forward(observation)` of a plain module returns (parameters [n, P], values [n]).
    """

    def __init__(self, spec: PolicySpec) -> None:
        super().__init__()
        self.normaliser = _normaliser(spec)
        options = spec.settings.torso.options if isinstance(spec.settings.torso, OwnTorso) else {}
        self._path = spec.architecture
        make = _imported(self._path)
        num_parameters = distribution(spec.action, spec.squash).num_parameters
        self._make = functools.partial(make, observation=spec.seen, num_parameters=num_parameters, **options)
        try:
            self.module = self._make()
        except Exception as error:  # an error in a user's class is reported to the user
            raise BadNetwork(
                f"{_where(spec)}: called with observation={spec.seen}, num_parameters={num_parameters} and "
                f"the options {options} it raised {type(error).__name__}: {error}"
                f"{line_of(error, spec.architecture)}"
            ) from error
        if not isinstance(self.module, nn.Module):
            raise BadNetwork(f"{_where(spec)} made {self.module!r}, expected a torch.nn.Module")
        if isinstance(self.module, Network):
            self.memory_size = self.module.memory_size
        self._remembers = isinstance(self.module, Network)

    def initialise(self, generator: torch.Generator) -> None:
        """Call the module's own `initialise(generator)`; without one, its constructor draws the weights."""
        if self.normaliser is not None:
            self.normaliser.initialise()
        own = getattr(type(self.module), "initialise", Network.initialise)
        if own is not Network.initialise:
            own(self.module, generator)
            return
        with torch.random.fork_rng(devices=[]), torch.device("cpu"):
            torch.default_generator.manual_seed(int(torch.randint(2**62, (), generator=generator)))
            self.module.load_state_dict(self._make().state_dict())

    def step(self, observation: Tensor, memory: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        shown = _normalised(self.normaliser, observation)
        with _running_own(self._path):
            return self.module.step(shown, memory) if self._remembers else (self.module(shown)[0], memory)

    def forward(self, observation: Tensor, memory: Tensor | None = None) -> tuple[Tensor, Tensor]:
        shown = _normalised(self.normaliser, observation)
        with _running_own(self._path):
            return self.module(shown, memory) if self._remembers else self.module(shown)

    def unroll(self, observation: Tensor, layout: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        shown = _normalised(self.normaliser, observation)
        with _running_own(self._path):
            if self._remembers:
                return self.module.unroll(shown, layout, memory)
            return *self.module(shown), memory


@contextlib.contextmanager
def _running_own(path: str) -> Iterator[None]:
    """Run a user's network. Raise OwnCodeFailed with file and line; errors of a GPU stay as they are."""
    try:
        with running("policy.torso", path):
            yield
    except OwnCodeFailed as failed:
        cause = failed.__cause__
        if isinstance(cause, RuntimeError) and OF_CARD.search(str(cause)):
            raise cause from None
        raise


def _where(spec: PolicySpec) -> str:
    return f"policy.torso '{spec.architecture}'"


def _check_tensor(what: str, tensor: object, shape: tuple[int, ...]) -> None:
    if not isinstance(tensor, Tensor):
        raise BadNetwork(f"{what} as {type(tensor).__name__}, expected a tensor")
    if tuple(tensor.shape) != shape or tensor.dtype != torch.float32 or tensor.device.type != "cpu":
        raise BadNetwork(
            f"{what} of shape {list(tensor.shape)}, {tensor.dtype} on {tensor.device}, expected shape "
            f"{list(shape)}, torch.float32 on cpu"
        )


def _imported(path: str) -> Callable[..., Any]:
    require_trust("policy.torso", path)
    try:
        return import_callable(path, "a class of torch.nn.Module")
    except ValueError as error:
        raise BadNetwork(f"policy.torso {error}") from error


def build_network(spec: PolicySpec) -> Network:
    """Return the network of `spec`, uninitialised.

    Raise BadNetwork if its settings do not fit the observation, and WeightsMismatch for a class that no
    `league.import_paths.trust` has admitted.
    """
    return (CustomNetwork if isinstance(spec.settings.torso, OwnTorso) else LayeredNetwork)(spec)


def check_connectors(spec: PolicySpec) -> None:
    """Run the connectors of the user's own in `spec`. Raise BadNetwork for one that does not fit."""
    try:
        spec.seen  # noqa: B018  # raises for connectors that do not fit
        try_connectors(spec.settings.connectors, spec.observation, spec.action)
    except ValueError as error:
        raise BadNetwork(f"policy.connectors: {error}") from error


def check_network(spec: PolicySpec) -> int:
    """Build the network of `spec` and run it; return the size of its memory.

    Raise Mistake with the place where it does not fit.
    """
    check_connectors(spec)
    own = isinstance(spec.settings.torso, OwnTorso)
    if not own:
        _check_size(spec)
    networks = [build_network(spec) for _ in range(2 if own else 1)]
    for network in networks:
        network.initialise(torch.Generator().manual_seed(0))
    _check_outputs(spec, networks[0].eval(), _where(spec))
    if own:
        _check_own(spec, networks)
    return networks[0].memory_size


def _check_own(spec: PolicySpec, networks: Sequence[Network]) -> None:
    """Raise BadNetwork unless networks of the same seed are equal and weights are all that they have."""
    weights, again = (network.state_dict() for network in networks)
    for name, tensor in weights.items():
        if not torch.equal(tensor, again[name]):
            raise BadNetwork(
                f"{_where(spec)}: two networks initialised by the same seed differ in '{name}'; draw it from "
                "torch's own generator, or from the one that initialise(generator) is given"
            )
    with torch.device("meta"):  # as policies share it: all numbers come from the weights
        bare = build_network(spec).eval()
    bare.load_state_dict(weights, assign=True)
    where = f"{_where(spec)}, with nothing of its own but parameters and saved buffers (see register_buffer)"
    _check_outputs(spec, bare, where)


def _check_size(spec: PolicySpec) -> None:
    """Raise BadNetwork for a network that this machine has no memory to learn with."""
    with torch.device("meta"):
        weights = sum(tensor.numel() for tensor in build_network(spec).parameters())
    needed, memory = weights * BYTES_OF_WEIGHT, psutil.virtual_memory().total
    if needed > memory:
        raise BadNetwork(
            f"{_where(spec)}: the network has {weights:,} weights for observations {list(spec.seen.shape)}, "
            f"which take {needed / 2**30:,.1f} GiB to learn, but this machine has {memory / 2**30:,.1f} GiB; "
            "make policy.hidden narrower, choose the torso nature or impala, or make the game show less"
        )


def _check_outputs(spec: PolicySpec, network: Network, where: str) -> None:
    """Raise BadNetwork unless its outputs for two rows are right, as single steps and as one sequence."""
    rng, shape = np.random.default_rng(0), (2, *spec.learned.shape)
    learned = torch.from_numpy(rng.integers(0, 2, shape).astype(spec.learned.dtype))
    rows = learned[:, : spec.seen.size].reshape(2, *spec.seen.shape) if spec.others else learned
    num_parameters = distribution(spec.action, spec.squash).num_parameters
    size = network.memory_size
    memory = torch.zeros(2, size) if size else None
    layout, first = torch.tensor([[0], [1]]), torch.zeros(1, size)
    wanted: dict[str, tuple[tuple[Tensor | None, ...], dict[str, tuple[int, ...]]]] = {
        "forward": ((learned, memory), {"parameters": (2, num_parameters), "values": (2,)}),
        "step": ((rows, memory), {"parameters": (2, num_parameters), "memory": (2, size)}),
        "unroll": (
            (learned, layout, first),
            {"parameters": (2, num_parameters), "values": (2,), "memory": (1, size)},
        ),
    }
    for method, (arguments, shapes) in wanted.items():
        try:
            with torch.no_grad():
                found = getattr(network, method)(*arguments)
        except Exception as failed:  # an error in a user's class is reported to the user
            error = failed.__cause__ if isinstance(failed, OwnCodeFailed) else failed
            assert isinstance(error, Exception)
            row = f"; as a row: policy.connectors: [{{kind: reshape, shape: [{spec.seen.size}]}}]"
            raise BadNetwork(
                f"{where}: {method} of observations {list(rows.shape)} {spec.seen.dtype} raised "
                f"{type(error).__name__}: {error}{line_of(error, spec.architecture)}"
                f"{row if len(spec.seen.shape) > 1 else ''}"
            ) from error
        if not isinstance(found, tuple) or len(found) != len(shapes):
            raise BadNetwork(
                f"{where}: {method} gave {type(found).__name__}, expected a tuple of {' and '.join(shapes)}"
            )
        for (name, expected), tensor in zip(shapes.items(), found, strict=True):
            if size or name != "memory":
                _check_tensor(f"{where}: {method} gave {name}", tensor, expected)
    if size:
        _check_memory(network, rows, found, where)


def _check_memory(network: Network, rows: Tensor, unrolled: tuple[Tensor, ...], where: str) -> None:
    """Raise BadNetwork unless two successive steps give the result of `unroll`."""
    memory: Tensor | None = torch.zeros(1, network.memory_size)
    with torch.no_grad():
        for row in range(2):
            parameters, memory = network.step(rows[row : row + 1], memory)
            if not torch.allclose(parameters[0], unrolled[0][row], atol=1e-4):
                raise BadNetwork(
                    f"{where}: unroll and step differ in the parameters of step {row + 1} by "
                    f"{float((parameters[0] - unrolled[0][row]).abs().max()):.2g}, expected the same"
                )
    if not torch.allclose(_given(memory), unrolled[2], atol=1e-4):
        raise BadNetwork(f"{where}: unroll and step leave different memories, expected the same")
