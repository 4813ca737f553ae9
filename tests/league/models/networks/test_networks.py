"""Networks: every architecture acts, learns and remembers alike, and code comes only from who runs it."""

import copy
import sys
import types

import numpy as np
import pytest
import torch
from torch import nn

from league.envs.spaces import ActionSpec, ObservationSpec, SpacePart
from league.import_paths import OwnCodeFailed, trust
from league.models.networks.encoders import BadNetwork
from league.models.networks.networks import Network, build_network, check_network
from league.models.policies.policy import Policy, initial_weights
from league.models.spec import PolicySettings, PolicySpec
from storage.errors import Mistake, WeightsMismatch

BOARD = ObservationSpec((2, 4, 5), "int8")
DICT = ObservationSpec((18 + 4,), "float32", (SpacePart("board", (2, 3, 3)), SpacePart("hand", (4,))))
CHOICE = ActionSpec("discrete", (4,))
CHOICES = ActionSpec("multi_discrete", (3, 2))
NUMBERS = ActionSpec("continuous", low=(-1.0, 0.0), high=(1.0, 5.0))
NORMALISE = ({"kind": "normalise", "clip": 5.0},)


def spec(observation=BOARD, action=CHOICE, **settings):
    settings = {"hidden": (16, 12), **settings}
    if settings.get("torso") in ("cnn", "resnet"):
        settings["torso"] = {"kind": settings["torso"], "channels": (4,)}
    if settings.get("memory", "none") != "none":
        kind = settings["memory"]
        given = {"kind": kind} if isinstance(kind, str) else kind
        settings["memory"] = {
            "size": 8,
            **({"context": 4} if "transformer" in given.values() else {}),
            **given,
        }
    return PolicySpec(PolicySettings.model_validate(settings), observation, action)


SPECS = {
    "mlp": spec(),
    "mlp of a dict": spec(DICT, activation="tanh"),
    "mlp with a value apart": spec(separate_value=True),
    "mlp of numbers, normalised": spec(action=NUMBERS, connectors=NORMALISE),
    "cnn": spec(torso="cnn", action=CHOICES),
    "resnet of a dict": spec(DICT, torso="resnet"),
    "gru": spec(memory="gru"),
    "lstm with a value apart": spec(memory="lstm", separate_value=True, connectors=NORMALISE),
    "cnn and transformer": spec(torso="cnn", memory="transformer", action=NUMBERS),
}
LENGTHS = [3, 1, 5]
LAYOUT = torch.tensor([[0, 3, 4], [1, 9, 5], [2, 9, 6], [9, 9, 7], [9, 9, 8]])


def critic(observation=BOARD, **settings):
    """A spec whose value sees another board too."""
    own = spec(observation, separate_value=True, value_sees="all", **settings)
    return PolicySpec(own.settings, own.observation, own.action, (BOARD,))


CRITICS = {
    "mlp": critic(),
    "mlp of a dict, normalised": critic(DICT, connectors=NORMALISE),
    "cnn": critic(torso="cnn"),
    "gru": critic(memory="gru"),
}


@pytest.mark.parametrize("wanted", CRITICS.values(), ids=CRITICS)
def test_what_others_see_reaches_the_value_alone(wanted):
    network, size = built(wanted), wanted.seen.size
    rows = torch.rand(9, wanted.learned.size, generator=generator())
    changed = torch.cat([rows[:, :size], 1.0 + rows[:, size:]], 1)
    if network.normaliser is not None:
        network.normaliser.update(rows)
        assert network.normaliser.mean.shape == wanted.seen.shape
    memory = torch.zeros(9, network.memory_size) if network.memory_size else None
    parameters, value = network(rows, memory)
    same, other = network(changed, memory)
    acted, _ = network.step(rows[:, :size].reshape(9, *wanted.seen.shape), memory)
    narrow, unknown = network(rows[:, :size].reshape(9, *wanted.seen.shape), memory)
    assert torch.equal(parameters, same)
    assert torch.allclose(parameters, acted, atol=1e-6)
    assert torch.allclose(parameters, narrow, atol=1e-6)
    assert (value != other).all()
    assert unknown.isnan().all()
    check_network(wanted)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def built(wanted, seed=0):
    """The network, initialised and pushed away from what is zero or uniform when fresh."""
    network = build_network(wanted)
    network.initialise(generator(seed))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator(9))
    return network


def rows(wanted, n, seed=0):
    drawn = np.random.default_rng(seed).normal(0, 2, (n, *wanted.seen.shape))
    return torch.from_numpy(drawn.astype(wanted.seen.dtype))


def every(specs=SPECS):
    return pytest.mark.parametrize("wanted", specs.values(), ids=specs)


# ---------------------------------------------------------------------- what goes in and comes out


@every()
def test_a_network_gives_parameters_of_the_action_and_values(wanted):
    network = built(wanted)
    width = {"discrete": 4, "multi_discrete": 5, "continuous": 4}[wanted.action.kind]
    memory = torch.zeros(7, network.memory_size)
    parameters, value = network(rows(wanted, 7), memory)
    assert parameters.shape == (7, width)
    assert value.shape == (7,)
    assert (parameters.dtype, value.dtype) == (torch.float32, torch.float32)
    stepped, after = network.step(rows(wanted, 7), memory)
    torch.testing.assert_close(stepped, parameters, rtol=0, atol=0)
    assert after.shape == memory.shape


@every()
def test_sequences_taken_whole_give_what_steps_give(wanted):
    network = built(wanted)
    observation = rows(wanted, 9)
    memory = torch.zeros(3, network.memory_size)
    memory = torch.cat([network.step(observation[:2], memory[:2])[1], memory[2:]]).detach()
    parameters, value, last = network.unroll(observation, LAYOUT, memory)
    start = 0
    for sequence, length in enumerate(LENGTHS):
        row = memory[sequence : sequence + 1]
        for step in range(start, start + length):
            one = observation[step : step + 1]
            wanted_parameters, wanted_value = network(one, row)
            torch.testing.assert_close(parameters[step], wanted_parameters[0], atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(value[step], wanted_value[0], atol=1e-5, rtol=1e-5)
            row = network.step(one, row)[1]
        torch.testing.assert_close(last[sequence], row[0], atol=1e-5, rtol=1e-5)
        start += length


@every()
def test_gradients_reach_every_parameter(wanted):
    network = built(wanted)
    parameters, value, _ = network.unroll(rows(wanted, 9), LAYOUT, torch.zeros(3, network.memory_size))
    (parameters.sin().sum() + value.square().sum()).backward()
    missed = [name for name, p in network.named_parameters() if p.grad is None or not p.grad.any()]
    assert missed == []


def test_a_plain_network_keeps_its_names_and_its_arithmetic():
    network = built(spec())
    assert list(network.state_dict()) == [
        f"{part}.{kind}"
        for part in ("torso.0", "torso.2", "policy_head", "value_head")
        for kind in ("weight", "bias")
    ]
    observation = rows(spec(), 6)
    features = observation.flatten(1).float()
    for layer in (network.torso[0], network.torso[2]):
        features = torch.relu(features @ layer.weight.T + layer.bias)
    parameters, value = network(observation)
    torch.testing.assert_close(parameters, network.policy_head(features))
    torch.testing.assert_close(value, network.value_head(features)[:, 0])
    assert network.memory_size == 0
    assert network.normaliser is None


def test_memory_is_asked_for_where_there_is_some():
    with pytest.raises(ValueError, match="found no memory"):
        built(SPECS["gru"]).step(rows(SPECS["gru"], 2))


def test_the_spread_of_numbers_is_the_same_for_every_row():
    network = build_network(SPECS["mlp of numbers, normalised"])
    network.initialise(generator())
    parameters, _ = network.step(rows(SPECS["mlp of numbers, normalised"], 5))
    assert (parameters[:, 2:] == -0.5).all()
    assert network.log_std.shape == (2,)


# ---------------------------------------------------------------------- a value apart


def test_a_value_apart_teaches_the_policy_nothing():
    for name in ("mlp with a value apart", "lstm with a value apart"):
        network = built(SPECS[name])
        _, value, _ = network.unroll(rows(SPECS[name], 9), LAYOUT, torch.zeros(3, network.memory_size))
        value.square().sum().backward()
        taught = {key.split(".")[0] for key, p in network.named_parameters() if p.grad is not None}
        assert taught == {"value_torso", "value_head"}


def test_a_value_apart_still_knows_what_was_remembered():
    network = built(SPECS["lstm with a value apart"])
    observation = rows(SPECS["lstm with a value apart"], 1)
    fresh = network(observation, torch.zeros(1, network.memory_size))[1]
    assert not torch.equal(fresh, network(observation, torch.ones(1, network.memory_size))[1])


# ---------------------------------------------------------------------- the normaliser


def test_the_normaliser_is_the_first_layer():
    wanted = spec(connectors=NORMALISE)
    plain, network = built(spec()), built(wanted)
    assert [name for name, _ in network.named_buffers()] == [
        "normaliser.mean",
        "normaliser.variance",
        "normaliser.count",
    ]
    network.normaliser.update(rows(wanted, 100))
    observation = rows(wanted, 4, seed=1)
    shown = network.normaliser(observation)
    assert not torch.equal(shown, observation.float())
    for found, wanted_ in zip(network(observation), plain(shown), strict=True):
        torch.testing.assert_close(found, wanted_)


def test_statistics_travel_with_the_weights():
    wanted = spec(connectors=NORMALISE)
    network = built(wanted)
    network.normaliser.update(rows(wanted, 100))
    policy = Policy(wanted, network.state_dict())
    other = Policy(wanted, initial_weights(wanted, 1))
    observation, mask = rows(wanted, 4).numpy(), np.ones((4, 4), bool)
    other.evaluate(observation, mask)  # the two share one network
    found = policy.evaluate(observation, mask)[0]
    with torch.no_grad():
        np.testing.assert_allclose(found, network(rows(wanted, 4))[0].softmax(1), rtol=1e-5)


# ---------------------------------------------------------------------- weights


@every()
def test_the_same_generator_state_gives_the_same_weights(wanted):
    first, again, other = (initial_weights(wanted, seed) for seed in (5, 5, 6))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["policy_head.weight"], other["policy_head.weight"])


@every()
def test_a_fresh_policy_is_close_to_uniform_and_all_its_numbers_are_set(wanted):
    network = build_network(wanted)
    with torch.no_grad():
        for tensor in network.state_dict().values():
            tensor.fill_(torch.nan)
    network.initialise(generator())
    assert all(torch.isfinite(tensor).all() for tensor in network.state_dict().values())
    parameters, _ = network.step(rows(wanted, 50), torch.zeros(50, network.memory_size))
    means = parameters[:, :2] if wanted.action.kind == "continuous" else parameters
    assert means.abs().max() < 0.5
    assert not network.policy_head.bias.any()


@every()
def test_policies_that_share_a_network_do_not_mix_their_weights(wanted):
    a, b = (Policy(wanted, built(wanted, seed).state_dict()) for seed in (1, 2))
    assert a._network is b._network
    observation, mask = rows(wanted, 6).numpy(), np.ones((6, wanted.action.mask_width), bool)
    memory = np.zeros((6, a.memory_size), np.float32)
    before = a.evaluate(observation, mask, memory)
    for found, others in zip(before, b.evaluate(observation, mask, memory), strict=True):
        assert not np.allclose(found, others)
    for found, again in zip(before, a.evaluate(observation, mask, memory), strict=True):
        np.testing.assert_array_equal(found, again)
    mine, theirs = memory.copy(), memory.copy()
    for policy, row in ((a, mine), (b, theirs), (a, mine)):
        policy.act(observation, mask, np.random.default_rng(0), memory=row)
    again = memory.copy()
    for _ in range(2):
        a.act(observation, mask, np.random.default_rng(0), memory=again)
    np.testing.assert_array_equal(mine, again)


@every()
def test_a_copy_learns_apart_from_its_original(wanted):
    network = built(wanted)
    twin = copy.deepcopy(network)
    arguments = rows(wanted, 9), LAYOUT, torch.zeros(3, network.memory_size)
    before = network.unroll(*arguments)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter *= 1.5
    for found, wanted_ in zip(network.unroll(*arguments), before, strict=True):
        torch.testing.assert_close(found, wanted_, rtol=0, atol=0)
    assert not torch.allclose(twin.unroll(*arguments)[0], before[0])


# ---------------------------------------------------------------------- networks of one's own


class Plain(nn.Module):
    """A user's network: no memory, weights as torch draws them."""

    def __init__(self, observation, num_parameters, width=8):
        super().__init__()
        self.body = nn.Linear(observation.size, width)
        self.scale = nn.Parameter(torch.randn(width))
        self.heads = nn.Linear(width, num_parameters + 1)

    def forward(self, observation):
        out = self.heads(torch.tanh(self.body(observation.flatten(1).float())) * self.scale)
        return out[:, :-1], out[:, -1]


class Summing(Network):
    """A user's network that remembers: it acts on the sum of all that it has seen."""

    def __init__(self, observation, num_parameters):
        super().__init__()
        self.memory_size = observation.size
        self.policy = nn.Linear(observation.size, num_parameters)
        self.values = nn.Linear(observation.size, 1)

    def step(self, observation, memory=None):
        memory = memory + observation.flatten(1).float()
        return self.policy(memory), memory

    def forward(self, observation, memory=None):
        parameters, memory = self.step(observation, memory)
        return parameters, self.values(memory)[:, 0]

    def unroll(self, observation, layout, memory):
        flat = torch.cat([observation.flatten(1).float(), torch.zeros(1, memory.shape[1])])
        sums = memory + flat[layout].cumsum(0)
        present = layout < len(observation)
        seen = torch.empty_like(flat[:-1])
        seen[layout[present]] = sums[present]
        return self.policy(seen), self.values(seen)[:, 0], sums[-1]


class Forgetful(Summing):
    """Its sequences do not give what its steps give."""

    def unroll(self, observation, layout, memory):
        parameters, value = self(observation, torch.zeros(len(observation), self.memory_size))
        return parameters, value, memory


class Column(Plain):
    def forward(self, observation):
        parameters, value = super().forward(observation)
        return parameters, value.unsqueeze(1)


class Alone(Plain):
    def forward(self, observation):
        return super().forward(observation)[0]


class Whole(Plain):
    def forward(self, observation):
        return self.body(observation), observation


class Hiding(Plain):
    """A tensor that no snapshot would hold."""

    def __init__(self, observation, num_parameters):
        super().__init__(observation, num_parameters)
        self.shift = torch.ones(num_parameters)

    def forward(self, observation):
        parameters, value = super().forward(observation)
        return parameters + self.shift, value


class Careless(Plain):
    """Draws from a generator that no seed of ours reaches."""

    def __init__(self, observation, num_parameters):
        super().__init__(observation, num_parameters)
        self.noise = nn.Parameter(torch.from_numpy(np.random.default_rng().random(3, np.float32)))


@pytest.fixture
def own(monkeypatch):
    """The spec of a class of this file as a user's own network, named in the user's config."""
    classes = (Plain, Summing, Forgetful, Column, Alone, Whole, Hiding, Careless, Late)
    module = types.SimpleNamespace(**{each.__name__: each for each in classes}, number=3, make=lambda **_: 3)
    monkeypatch.setitem(sys.modules, "my_networks", module)

    def make(name, **settings):
        trust(f"my_networks:{name}")
        return spec(torso={"use": f"my_networks:{name}", **settings.pop("options", {})}, **settings)

    return make


@pytest.mark.parametrize("name", ["Plain", "Summing"])
@pytest.mark.parametrize("connectors", [(), NORMALISE])
def test_a_network_of_ones_own_acts_learns_and_is_checked(own, name, connectors):
    wanted = own(name, connectors=connectors)
    check_network(wanted)
    network = build_network(wanted)
    network.initialise(generator())
    memory = torch.zeros(3, network.memory_size)
    parameters, value, last = network.unroll(rows(wanted, 9), LAYOUT, memory)
    assert parameters.shape == (9, 4)
    assert last.shape == memory.shape
    (parameters.sin().sum() + value.sum()).backward()
    assert all(p.grad is not None and p.grad.any() for p in network.parameters())
    policy = Policy(wanted, initial_weights(wanted, 0))
    action, _ = policy.act(rows(wanted, 5).numpy(), np.ones((5, 4), bool), np.random.default_rng(0))
    assert action.shape == (5,)


def test_a_network_of_ones_own_takes_its_options(own):
    wanted = own("Plain", options={"width": 5})
    assert build_network(wanted).module.scale.shape == (5,)
    with pytest.raises(BadNetwork, match=r"'my_networks:Plain': .*options \{'depth': 2\}.*TypeError.*depth"):
        build_network(own("Plain", options={"depth": 2}))


def test_a_network_of_ones_own_is_initialised_by_the_generator_not_by_torchs(own):
    wanted = own("Plain")
    torch.manual_seed(7)
    before = torch.get_rng_state()
    network = build_network(wanted)
    torch.set_rng_state(before)
    network.initialise(generator(3))
    assert torch.equal(torch.get_rng_state(), before)
    first, again, other = (initial_weights(wanted, seed) for seed in (3, 3, 4))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["module.scale"], other["module.scale"])


def test_a_network_of_ones_own_may_initialise_itself(own, monkeypatch):
    monkeypatch.setattr(
        Plain, "initialise", lambda self, generator: nn.init.constant_(self.scale, 2.5), raising=False
    )
    assert (initial_weights(own("Plain"), 0)["module.scale"] == 2.5).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Column", r"'my_networks:Column': forward gave values of shape \[2, 1\].*expected shape \[2\]"),
        ("Alone", r"'my_networks:Alone': forward gave Tensor, expected a tuple of parameters and values"),
        ("Whole", r"'my_networks:Whole': forward of observations \[2, 2, 4, 5\] int8 raised RuntimeError"),
        ("Hiding", r"'my_networks:Hiding', with nothing of its own but parameters and saved buffers"),
        ("Careless", "'my_networks:Careless': two networks .* same seed differ in 'module.noise'"),
        ("Forgetful", "'my_networks:Forgetful': unroll and step differ in the parameters of step 2"),
        ("number", "'my_networks:number' is 3, expected a class"),
        ("make", "'my_networks:make' made 3, expected a torch.nn.Module"),
        ("Plane", "module 'my_networks' has no 'Plane'; did you mean 'Plain'?"),
    ],
)
def test_a_network_of_ones_own_that_does_not_fit_is_told_where(own, name, message):
    with pytest.raises(BadNetwork, match=message):
        check_network(own(name))


class Late(Plain):
    """Fails with more rows than a check shows it."""

    def forward(self, shown):
        if len(shown) > 9:
            raise RuntimeError(self.said)
        return super().forward(shown)

    said = "too many rows"


def test_a_network_of_ones_own_that_fails_later_is_one_sentence_with_file_and_line(own, monkeypatch):
    monkeypatch.setattr(sys.modules["my_networks"], "__file__", __file__, raising=False)
    network = build_network(own("Late"))
    line = Late.forward.__code__.co_firstlineno + 2
    for call in (network, network.step, lambda rows: network.unroll(rows, LAYOUT, None)):
        with pytest.raises(OwnCodeFailed) as failed:
            call(rows(own("Late"), 10))
        place = f"({__file__}, line {line}, in forward)"
        assert str(failed.value) == f"policy.torso my_networks:Late: RuntimeError: too many rows {place}"
    monkeypatch.setattr(Late, "said", "CUDA error: out of memory")  # `card_errors` names the card
    with pytest.raises(RuntimeError, match=r"^CUDA error: out of memory"):
        network(rows(own("Late"), 10))


# ---------------------------------------------------------------------- checks


@every()
def test_what_can_be_built_passes_the_check(wanted):
    assert check_network(wanted) == build_network(wanted).memory_size


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (spec(ObservationSpec((9,), "int8"), torso="cnn"), r"shape \[9\], expected a board"),
        (spec(torso={"kind": "resnet", "kernel": 4}), "policy.torso.kernel is 4"),
        (spec(torso={"kind": "cnn", "kernel": 7}), "policy.torso.kernel is 7"),
        (spec(memory={"kind": "transformer", "heads": 3}), "policy.memory.size is 8, policy.memory.heads 3"),
        (spec(connectors=({"kind": "reshape", "shape": (3, 3)},)), "policy.connectors: .*reshape"),
    ],
)
def test_settings_that_do_not_fit_are_a_mistake_that_names_them(wanted, message):
    with pytest.raises(Mistake, match=message):
        check_network(wanted)


# ---------------------------------------------------------------------- whose code is run


@pytest.fixture
def canary(tmp_path, own_module):
    """A module that leaves a file behind wherever it is imported, and that file."""
    trace = tmp_path / "it was imported"
    code = f"open({str(trace)!r}, 'w').close()\nfrom torch import nn\nclass Net(nn.Module): pass\n"
    own_module("canary_network", code)
    return trace


def test_the_spec_of_a_snapshot_imports_nothing(canary):
    stored = {**spec().to_json(), "settings": {"architecture": "canary_network:Net"}}
    found = PolicySpec.from_json(stored)
    for use in (
        build_network,
        check_network,
        lambda s: initial_weights(s, 0),
        lambda s: Policy(s, {}, "main-0@5"),
    ):
        with pytest.raises(WeightsMismatch, match=r"'canary_network:Net' .* not imported; .*trust"):
            use(found)
    assert not canary.exists()
    assert "canary_network" not in sys.modules


def test_trust_is_given_to_one_class_and_not_to_its_neighbours(canary):
    trust("canary_network:Another")
    with pytest.raises(WeightsMismatch, match="not imported"):
        build_network(spec(torso="canary_network:Net"))
    assert not canary.exists()
    trust("canary_network:Net")
    with pytest.raises(BadNetwork, match="canary_network:Net"):
        check_network(spec(torso="canary_network:Net"))
    assert canary.exists()


@pytest.mark.parametrize("action", [CHOICE, CHOICES, NUMBERS])
@pytest.mark.parametrize("observation", [BOARD, DICT, ObservationSpec((1,), "float64")])
def test_a_plain_network_fits_whatever_is_seen_and_done_so_that_it_need_not_be_tried(observation, action):
    for settings in ({}, {"separate_value": True}, {"activation": "tanh", "squash": False}):
        wanted = spec(observation, action, **settings)
        assert wanted.plain
        check_network(wanted)


def test_a_network_that_may_not_fit_is_not_plain():
    plain = {"mlp", "mlp of a dict", "mlp with a value apart"}
    assert {name for name, wanted in SPECS.items() if wanted.plain} == plain
    assert not any(wanted.plain for wanted in CRITICS.values())
    assert not spec(torso="mine.nets:Deep").plain
    assert not spec(ObservationSpec((), "float32")).plain
    assert not spec(hidden=(2**16, 2**16)).plain
    board = {"observation": [2, 4, 5], "axis": 2, "actions": [4]}
    assert spec(mirror=board).plain
    assert not spec(mirror={**board, "actions": [5]}).plain
