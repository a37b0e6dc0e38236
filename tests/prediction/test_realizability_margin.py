"""The quadratic program against a general convex solver, and its certificates."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from farfield.prediction.least_norm import shortest


def drawn(seed, *, feasible):
    """A random problem; one that is feasible by construction, or one that may be neither."""
    generator = np.random.default_rng(seed)
    features = int(generator.integers(2, 9))
    matrix = generator.normal(size=(int(generator.integers(2, 20)), features))
    if feasible:
        planted = generator.normal(size=features)
        matrix *= np.where(matrix @ planted < 0, -1.0, 1.0)[:, None]
    return matrix, np.where(generator.random(len(matrix)) < 0.2, 0.0, 1.0)


def by_general_solver(matrix, margins):
    """min ||w||**2 with G w >= h by sequential quadratic programming, from a feasible point of a linear program."""
    size = matrix.shape[1]
    start = linprog(np.zeros(size), A_ub=-matrix, b_ub=-margins, bounds=[(None, None)] * size)
    if start.status == 2:
        return None
    constraint = {"type": "ineq", "fun": lambda w: matrix @ w - margins, "jac": lambda w: matrix}
    options = {"ftol": 1e-13, "maxiter": 1000}
    found = minimize(
        lambda w: w @ w / 2, start.x, jac=lambda w: w, method="SLSQP", constraints=constraint, options=options
    )
    # It may stop because no step gets any better; whether it is right is for the comparison to say.
    assert found.status in (0, 8)
    return found.x


@pytest.mark.parametrize("seed", range(50))
def test_the_solution_is_that_of_a_general_convex_solver(seed):
    matrix, margins = drawn(seed, feasible=seed % 5 != 0)
    expected, solved = by_general_solver(matrix, margins), shortest(matrix, margins)
    if expected is None:
        assert not solved.found
        assert solved.ruled_out
        return
    assert solved.kernel is not None
    scale = max(1.0, float(np.linalg.norm(expected)))
    np.testing.assert_allclose(solved.kernel, expected, atol=1e-6 * scale)
    assert solved.norm == pytest.approx(np.linalg.norm(expected), abs=1e-6 * scale)
    assert (matrix @ solved.kernel - margins).min() > -1e-12 * scale


def test_both_kinds_are_among_the_cases():
    kinds = [by_general_solver(*drawn(seed, feasible=seed % 5 != 0)) is None for seed in range(50)]
    assert 3 <= sum(kinds) <= 47


@given(seed=st.integers(0, 2**32 - 1))
def test_the_certificate_bounds_norm_and_error(seed):
    """The bound is below the norm of every kernel that meets the margins; at the solution the two nearly agree."""
    matrix, margins = drawn(seed, feasible=True)
    margins[0] = 1.0
    solved = shortest(matrix, margins)
    assert solved.kernel is not None
    assert solved.least <= solved.norm * (1 + 1e-12)
    assert solved.error < 1e-6 * solved.norm
    assert not solved.ruled_out
    generator = np.random.default_rng(seed)
    for _ in range(20):
        other = solved.kernel + generator.normal(size=len(solved.kernel)) * solved.norm
        worst = (margins[margins > 0] / (matrix @ other)[margins > 0]).max()
        if (matrix @ other > 0).all() and worst > 0:
            assert np.linalg.norm(other * worst) >= solved.least


def test_features_with_a_part_each_are_solved_apart():
    """Two blocks that share no feature: norms add up in squares, and one infeasible block rules out the whole."""
    one, two = drawn(3, feasible=True)[0], drawn(4, feasible=True)[0]
    whole = np.zeros((len(one) + len(two), one.shape[1] + two.shape[1]))
    whole[: len(one), : one.shape[1]], whole[len(one) :, one.shape[1] :] = one, two
    parts = [shortest(part, np.ones(len(part))) for part in (one, two)]
    solved = shortest(whole, np.ones(len(whole)))
    assert solved.norm == pytest.approx(math.hypot(*(part.norm for part in parts)), rel=1e-10)
    one_by_one: Any = [part.kernel for part in parts]
    assert solved.kernel is not None
    np.testing.assert_allclose(solved.kernel, np.concatenate(one_by_one), atol=1e-10)
    broken = np.concatenate([whole, -whole[-1:]])
    assert shortest(broken, np.ones(len(broken))).ruled_out


def test_a_constraint_on_nothing_is_refused_for_good():
    solved = shortest(np.array([[1.0, 0.0], [0.0, 0.0]]), np.ones(2))
    assert not solved.found
    assert math.isinf(solved.least)
    nothing_asked = shortest(np.array([[0.0, 0.0]]), np.zeros(1))
    assert nothing_asked.norm == 0


def test_a_long_kernel_is_found_where_a_longer_one_would_drown_in_rounding():
    """Two nearly opposite constraints: the norm grows as 1/angle, far past what one residual could tell from none."""
    for angle in (1e-3, 1e-6, 1e-9):
        matrix = np.array([[1.0, angle], [-1.0, angle]])
        assert shortest(matrix, np.ones(2)).norm == pytest.approx(1 / angle, rel=1e-6)
    assert not shortest(np.array([[1.0, 1e-17], [-1.0, 1e-17]]), np.ones(2)).found
