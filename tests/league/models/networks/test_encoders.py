"""Encoders keep boards whole, take dict observations apart, and refuse what does not fit."""

import math

import pytest
import torch
from torch import nn

from league.envs.spaces import ObservationSpec, SpacePart
from league.models.networks import encoders
from league.models.networks.encoders import (
    BadNetwork,
    Boards,
    DenseEncoder,
    ResidualBlock,
    build_encoder,
    orthogonal,
)
from league.models.spec import PolicySettings

BOARD = ObservationSpec((2, 6, 7), "int8")
DICT = ObservationSpec((2 * 3 * 3 + 4 + 1 * 2 * 5,), "float32", (
    SpacePart("near", (2, 3, 3)), SpacePart("pieces", (4,)), SpacePart("far", (1, 2, 5)),
))  # fmt: skip


def encoder(kind, seen=BOARD, hidden=(16,), activation="relu", seed=0, **torso):
    given = {"kind": kind, **({"channels": (4, 8)} if kind != "mlp" else {}), **torso}
    made = build_encoder(seen, PolicySettings(torso=given).torso, hidden, activation)
    made.initialise(torch.Generator().manual_seed(seed))
    return made


@pytest.mark.parametrize("architecture", ["cnn", "resnet"])
@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_convolutions_keep_rows_and_columns(architecture, kernel):
    made = encoder(architecture, kernel=kernel)
    assert made.boards[0](torch.zeros(3, 2, 6, 7)).shape == (3, 8, 6, 7)


@pytest.mark.parametrize("architecture", ["cnn", "resnet"])
def test_a_shifted_board_gives_shifted_planes(architecture):
    stack = encoder(architecture, ObservationSpec((1, 15, 15), "float32")).boards[0]
    board, shifted = torch.zeros(1, 1, 15, 15), torch.zeros(1, 1, 15, 15)
    board[0, 0, 7, 7] = shifted[0, 0, 8, 9] = 1.0
    torch.testing.assert_close(stack(board)[:, :, 1:12, 1:12], stack(shifted)[:, :, 2:13, 3:14])


def test_a_residual_block_adds_to_what_it_is_given():
    block = ResidualBlock(2, 2, 3, "relu")
    nn.init.zeros_(block.second.weight)
    nn.init.constant_(block.second.bias, -0.25)
    board = torch.rand(3, 2, 4, 4)
    torch.testing.assert_close(block(board), (board - 0.25).relu())


def test_a_residual_block_of_other_channels_takes_its_input_through_1_by_1_kernels():
    block = ResidualBlock(2, 3, 3, "relu")
    nn.init.zeros_(block.second.weight)
    nn.init.zeros_(block.second.bias)
    board = torch.rand(1, 2, 4, 4)
    by_hand = torch.einsum("oi,nirc->norc", block.shortcut.weight[:, :, 0, 0], board)
    torch.testing.assert_close(block(board), (by_hand + block.shortcut.bias.view(3, 1, 1)).relu())


def test_many_residual_blocks_do_not_blow_the_features_up():
    planes = encoder("resnet", channels=(16,) * 20).boards[0](torch.randn(8, 2, 6, 7))
    assert 0.1 < planes.std() < 10


def test_each_part_of_a_dict_goes_its_own_way():
    made = encoder("cnn", DICT)
    assert [stack[0].in_channels for stack in made.boards] == [2, 1]
    row = torch.randn(5, DICT.size)
    near, pieces, far = row[:, :18].reshape(5, 2, 3, 3), row[:, 18:22], row[:, 22:].reshape(5, 1, 2, 5)
    flat = torch.cat([made.boards[0](near).flatten(1), pieces, made.boards[1](far).flatten(1)], 1)
    torch.testing.assert_close(made(row), made.dense(flat))


def test_whole_numbers_and_floats_give_the_same():
    for architecture in ("mlp", "cnn", "resnet"):
        made = encoder(architecture)
        board = torch.randint(0, 2, (3, 2, 6, 7), generator=torch.Generator().manual_seed(1))
        torch.testing.assert_close(made(board.to(torch.int8)), made(board.float()), rtol=0, atol=0)
        torch.testing.assert_close(made(board.bool()), made(board.float()), rtol=0, atol=0)


def test_fresh_layers_are_orthogonal_with_gain_sqrt_2():
    made = encoder("cnn", hidden=(16, 8))
    assert isinstance(made, Boards)
    assert isinstance(made.dense, DenseEncoder)
    for layer in (made.boards[0][0], made.boards[0][2], made.dense[0], made.dense[2]):
        rows = layer.weight.flatten(1)
        torch.testing.assert_close(rows @ rows.T, 2 * torch.eye(len(rows)), atol=1e-5, rtol=0)
        assert not layer.bias.any()


def test_rows_of_a_layer_over_large_frames_are_orthogonal_too_and_the_same_for_a_seed(monkeypatch):
    """Each such layer took four seconds of a processor, and a run of frames began with four of them."""
    monkeypatch.setattr(encoders, "MOST_BY_REFLECTIONS", 2**16)
    drawn = []
    for _ in range(2):
        layer = torch.nn.Linear(2**14, 64)
        orthogonal(layer, math.sqrt(2.0), torch.Generator().manual_seed(0))
        drawn.append(layer.weight.detach())
    torch.testing.assert_close(drawn[0] @ drawn[0].T, 2 * torch.eye(64), atol=1e-5, rtol=0)
    torch.testing.assert_close(drawn[0], drawn[1], atol=0, rtol=0)
    assert drawn[0].std() == pytest.approx(math.sqrt(2 / drawn[0].shape[1]), rel=0.01)


def test_the_second_convolution_of_each_block_shrinks_with_their_number():
    blocks = [layer for layer in encoder("resnet", channels=(8,) * 4).modules() if hasattr(layer, "second")]
    assert len(blocks) == 4
    for block in blocks:
        torch.testing.assert_close(
            block.second.weight.flatten(1).norm(dim=1), torch.full((8,), 1 / math.sqrt(4))
        )


FIRST = ObservationSpec((4, 84, 84), "uint8")
LAST = ObservationSpec((84, 84, 4), "uint8")


def frames(kind, seen, **torso):
    made = build_encoder(seen, PolicySettings(torso={"kind": kind, **torso}).torso, (16,), "relu")
    made.initialise(torch.Generator().manual_seed(0))
    return made


@pytest.mark.parametrize(("kind", "size"), [("nature", 64 * 7 * 7), ("impala", 32 * 11 * 11)])
def test_frames_come_out_of_the_published_convolutions_as_small_as_there(kind, size):
    made = frames(kind, FIRST)
    assert made.dense[0].in_features == size
    assert made(torch.zeros(3, 4, 84, 84, dtype=torch.uint8)).shape == (3, 16)


@pytest.mark.parametrize("kind", ["nature", "impala"])
def test_frames_with_planes_last_give_the_features_of_planes_first(kind):
    seen = torch.randint(256, (2, 4, 84, 84), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    first, last = frames(kind, FIRST), frames(kind, LAST)
    torch.testing.assert_close(last(seen.permute(0, 2, 3, 1).contiguous()), first(seen))


@pytest.mark.parametrize("kind", ["nature", "impala"])
def test_pixels_are_scaled_and_other_numbers_are_not(kind):
    seen = torch.randint(256, (2, 4, 84, 84), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    of_floats = frames(kind, ObservationSpec(FIRST.shape, "float32"))
    torch.testing.assert_close(frames(kind, FIRST)(seen), of_floats(seen.float() / 255))


def test_many_sections_do_not_blow_the_features_up():
    made = frames("impala", FIRST, channels=[8] * 6)
    features = made.boards[0](torch.rand(4, 4, 84, 84, generator=torch.Generator().manual_seed(0)))
    assert 0.01 < features.std() < 10.0


def test_a_frame_too_small_for_strides_is_refused():
    with pytest.raises(BadNetwork, match=r"'nature': .* 20 rows and 84 columns, expected at least 36"):
        frames("nature", ObservationSpec((3, 20, 84), "uint8"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"kind": "cnn", "seen": ObservationSpec((9,), "int8")},
            r"policy.torso 'cnn': .* shape \[9\], expected a board .* connector \{kind: reshape",
        ),
        (
            {
                "kind": "resnet",
                "seen": ObservationSpec((7,), "int8", (SpacePart("a", (3,)), SpacePart("b", (2, 2)))),
            },
            r"policy.torso 'resnet': .* parts a \[3\], b \[2, 2\], expected a board",
        ),
        ({"kind": "cnn", "kernel": 4}, "policy.torso.kernel is 4, expected an odd number such as 3"),
        ({"kind": "cnn", "kernel": 2}, "policy.torso.kernel is 2, expected an odd number such as"),
        ({"kind": "resnet", "kernel": 9}, "policy.torso.kernel is 9, .* 6 rows and 7 columns"),
        ({"kind": "cnn", "kernel": 5, "seen": DICT}, "policy.torso.kernel is 5, but the board 'near'"),
    ],
)
def test_what_cannot_be_built_is_refused_with_the_setting_to_change(options, message):
    with pytest.raises(BadNetwork, match=message):
        encoder(**options)
