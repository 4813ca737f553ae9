"""Kernels of cells of recurrent networks that only CUDA has, written with operators that the CPU has too."""

from __future__ import annotations

import torch


def gru_cell(igates, hgates, hx, b1=None, b2=None):
    """Return the next memory and what `gru_cell_backward` needs: `_thnn_fused_gru_cell`."""
    i, h = igates, hgates
    if b1 is not None:
        i, h = i + b1, h + b2
    i_reset, i_input, i_new = i.chunk(3, 1)
    h_reset, h_input, h_new = h.chunk(3, 1)
    reset, kept = (i_reset + h_reset).sigmoid(), (i_input + h_input).sigmoid()
    new = (i_new + reset * h_new).tanh()
    return new + kept * (hx - new), torch.cat([reset, kept, new, hx, h_new], 1)


def gru_cell_backward(grad, workspace, has_bias):
    """Return the gradients of `gru_cell`."""
    reset, kept, new, hx, h_new = workspace.chunk(5, 1)
    of_kept = grad * (hx - new) * (1 - kept) * kept
    of_new = grad * (1 - kept) * (1 - new * new)
    of_reset = of_new * h_new * (1 - reset) * reset
    of_igates = torch.cat([of_reset, of_kept, of_new], 1)
    of_hgates = torch.cat([of_reset, of_kept, of_new * reset], 1)
    b1, b2 = (of_igates.sum(0), of_hgates.sum(0)) if has_bias else (None, None)
    return of_igates, of_hgates, grad * kept, b1, b2


def lstm_cell(igates, hgates, cx, b1=None, b2=None):
    """Return output, next state and what `lstm_cell_backward` needs: `_thnn_fused_lstm_cell`."""
    gates = igates + hgates
    if b1 is not None:
        gates = gates + b1 + b2
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat([i, f, g, o], 1)


def lstm_cell_backward(grad_hy, grad_cy, cx, cy, workspace, has_bias):
    """Return the gradients of `lstm_cell`."""
    i, f, g, o = workspace.chunk(4, 1)
    hy = torch.zeros_like(cy) if grad_hy is None else grad_hy
    t = cy.tanh()
    of_cy = hy * o * (1 - t * t)
    of_cy = of_cy if grad_cy is None else of_cy + grad_cy
    parts = [of_cy * g * i * (1 - i), of_cy * cx * f * (1 - f), of_cy * i * (1 - g * g), hy * t * o * (1 - o)]
    of_gates = torch.cat(parts, 1)
    return of_gates, of_cy * f, of_gates.sum(0) if has_bias else None


_aten = torch.ops.aten
CELLS = {
    _aten._thnn_fused_gru_cell.default: gru_cell,
    _aten._thnn_fused_gru_cell_backward.default: gru_cell_backward,
    _aten._thnn_fused_lstm_cell.default: lstm_cell,
    _aten._thnn_fused_lstm_cell_backward_impl.default: lstm_cell_backward,
}
