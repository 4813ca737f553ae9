import math

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from league.rules.rating.closed_form import moments_draw, moments_win


@settings(deadline=None)
@given(st.floats(-200.0, 8.0))
def test_moments_of_a_win_are_exact_far_into_the_tail(x):
    with mpmath.workdps(60):
        v = mpmath.npdf(x) / mpmath.ncdf(x)
        w = v * (v + x)
        assert moments_win(x) == pytest.approx((float(v), float(w)), rel=1e-9, abs=1e-12)


@settings(deadline=None)
@given(st.floats(-200.0, 200.0), st.floats(0.005, 1.0))
def test_moments_of_a_draw_are_exact_far_into_the_tail(gap, margin):
    with mpmath.workdps(60):
        a, b = margin - mpmath.mpf(abs(gap)), -margin - mpmath.mpf(abs(gap))
        inside = mpmath.ncdf(a) - mpmath.ncdf(b)
        v = (mpmath.npdf(b) - mpmath.npdf(a)) / inside
        w = v**2 + (a * mpmath.npdf(a) - b * mpmath.npdf(b)) / inside
    found_v, found_w = moments_draw(gap, margin)
    assert found_v == pytest.approx(math.copysign(1.0, gap) * float(v), rel=1e-9, abs=1e-9)
    assert found_w == pytest.approx(float(w), abs=1e-6 if abs(gap) > 20 else 1e-8)
