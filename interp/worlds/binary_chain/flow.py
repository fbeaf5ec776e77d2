"""The canonical model of a binary chain: a Transformer of three numbers, its loss, its gradient flow and its basins.

The slides reduce the one-layer model to theta = (e, w, a) and set the attention scalar a to 0 (L2184-2231); what a
does otherwise stands neither there nor in the released code. With a = 0 (read off Bond1995/Markov, Markov-Fixed)

    logit of 1 after x = e^2 (1 + 2 w |w|) x + b - e^2 / 2,    e: embedding, w: MLP, b: output bias.

Only the gap g = e^2 (1 + 2 w |w|) between the log-odds after 1 and after 0 tells whether the chain is learned: the
kernel needs g = log((1-p)(1-q)/(pq)), its sign that of 1 - p - q. With b always at its optimum, gradient flow

    de/dt = -2 e (1 + 2 w |w|) L_g,    dw/dt = -4 e^2 |w| L_g

keeps E = e^2 - w^2 - sign(w) log|w|, and so where it ends can be read off where it starts. Where one number stands for
many weights its pace differs: with r times de/dt, E = e^2 - r (w^2 + sign(w) log|w|). Imports no torch.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from interp.checks import finite_number, whole_number
from interp.errors import RequestError, quoted
from interp.numeric_arrays import real_array
from interp.worlds.binary_chain.grammar import BinaryChain

Array = NDArray[np.float64]
End = Literal["global", "unigram", "boundary", "both"]
SADDLE = -1 / math.sqrt(2)  # w at which the gap is 0 whatever e is
SADDLE_LEVEL = -(1 + math.log(2)) / 2  # E at (e, w) = (0, SADDLE)
MOST = 20.0  # of |e| and |w| at which the flow starts: beyond, a gap is a number of no use
FARTHEST = 1e6  # of |e| and |w| anywhere: beyond, powers of them leave floating point
LONGEST = 1e5  # of gradient flow
TIMES = (1e-6, 1e9)  # for which the flow is followed
POINTS = 10**6  # of a trajectory
STEEP = 1000.0  # of minus a gap: beyond, `best_log_odds` has its limit's form, and exponentials overflow
IN_WEIGHTS = (
    16.0  # pace of e in `canonical_weights`: de/dt = -2 dL/de, dw/dt = -dL/dw / 8, from the norms of dW/de, dW/dw
)
NEAR = 1e-12  # of the boundary between two basins, in E
TINY = 1e-300


class Path(NamedTuple):
    """A trajectory: `time`, `e`, `w`, `b` and `loss`, each [n]."""

    time: Array
    e: Array
    w: Array
    b: Array
    loss: Array


class Point(NamedTuple):
    """A place (e, w)."""

    e: float
    w: float


@dataclass(frozen=True)
class CanonicalFlow:
    """The canonical model for P(1 after 0) = p, P(0 after 1) = q. Raises `GrammarError` for other than probabilities.

    `pace`: how many times faster than w the flow takes e down its slope: 1 in the released reduced model, `IN_WEIGHTS`
    where tied weights are trained themselves. Arguments e, w, b are numbers or arrays that broadcast; losses in nats.
    Methods raise `RequestError` for what is not finite, or too large.
    """

    p: float
    q: float
    pace: float = 1.0

    def __post_init__(self) -> None:
        _pace(self.pace)
        object.__setattr__(self, "p", self.chain.p)
        object.__setattr__(self, "q", self.chain.q)

    @cached_property
    def chain(self) -> BinaryChain:
        """The chain itself."""
        return BinaryChain(self.p, self.q)

    @property
    def target(self) -> float:
        """The gap that gives the kernel."""
        return self.chain.log_odds_gap

    # -- the model ------------------------------------------------------------------------------------------

    def logits(self, e: ArrayLike, w: ArrayLike, b: ArrayLike) -> tuple[Array, Array]:
        """Log-odds of state 1 after state 0 and after state 1."""
        if b is None:
            raise RequestError("b=None is no bias: give a number, such as that of best_bias(e, w)")
        return self._logits(*_arrays(e=e, w=w, b=b))

    def _logits(self, e: Array, w: Array, b: Array | None) -> tuple[Array, Array]:
        after_0 = (self._best_bias(e, w) if b is None else b) - e**2 / 2
        return after_0, after_0 + _gap(e, w)

    def loss(self, e: ArrayLike, w: ArrayLike, b: ArrayLike | None = None) -> Array:
        """Expected cross entropy; without b at the best one."""
        return self._loss_at(*self._logits(*_arrays(e=e, w=w, b=b)))

    def gradient(self, e: ArrayLike, w: ArrayLike, b: ArrayLike | None = None) -> Array:
        """Derivatives of the loss by e, w and b [3, ...]; without b at the best one, where the last is 0."""
        return self._gradient(*_arrays(e=e, w=w, b=b))

    def _gradient(self, e: Array, w: Array, b: Array | None) -> Array:
        e, w = np.broadcast_arrays(e, w)
        after_0, after_1 = self._logits(e, w, b)
        pi_0, pi_1 = self.chain.stationary
        by_gap = pi_1 * (sigmoid(after_1) - (1 - self.q))
        by_bias = by_gap + pi_0 * (sigmoid(after_0) - self.p) if b is not None else np.zeros_like(by_gap)
        by_e = 2 * e * (1 + 2 * w * np.abs(w)) * by_gap - e * by_bias
        return np.stack(np.broadcast_arrays(by_e, 4 * e**2 * np.abs(w) * by_gap, by_bias))

    def best_log_odds(self, g: ArrayLike) -> Array:
        """Of all predictions with a gap of g, the best: their log-odds of 1 after 0.

        With y = exp(that), stationarity leaves q exp(g) y^2 + (q - p) y - p = 0.
        """
        return self._best_log_odds(*_arrays(g=g))

    def _best_log_odds(self, g: Array) -> Array:
        near = np.maximum(g, -STEEP)  # below, y is proportional to exp(-g) where p > q, and constant where p < q
        half = np.exp(-near / 2)
        root = np.hypot((self.p - self.q) * half, 2 * math.sqrt(self.p * self.q))
        lead = (self.p - self.q) * half
        y = (lead + root) / (2 * self.q) if self.p >= self.q else 2 * self.p / (root - lead)
        return np.asarray(np.log(y) - g / 2 + np.sign(self.p - self.q) * (near - g) / 2)

    def best_bias(self, e: ArrayLike, w: ArrayLike) -> Array:
        """The b that minimises the loss at (e, w)."""
        return self._best_bias(*_arrays(e=e, w=w))

    def _best_bias(self, e: Array, w: Array) -> Array:
        return np.asarray(self._best_log_odds(_gap(e, w)) + e**2 / 2)

    def _loss_at(self, after_0: Array, after_1: Array) -> Array:
        pi_0, pi_1 = self.chain.stationary
        each = [
            self.p * softplus(-after_0) + (1 - self.p) * softplus(after_0),
            (1 - self.q) * softplus(-after_1) + self.q * softplus(after_1),
        ]
        return np.asarray(pi_0 * each[0] + pi_1 * each[1])

    # -- where the flow ends --------------------------------------------------------------------------------

    def basin(self, e: float, w: float) -> End:
        """Where gradient flow from (e, w) ends: at `global` minima or on the line of `unigram` points, e = 0.

        On the `boundary` between the two it ends at the saddle (0, -1/sqrt 2). `both`: at p + q = 1 the unigram
        is the kernel. e = 0 stays where it is.
        """
        e, w = _place(e, w)
        if self.target == 0:
            return "both"
        if e == 0:
            return "unigram"
        if w >= 0:
            return "global" if self.target > 0 else "unigram"
        left, above = w < SADDLE, float(invariant(e, w, self.pace)) - self.pace * SADDLE_LEVEL
        if left == (self.target < 0):
            return "global"
        if w == SADDLE:  # the gap is 0 there, and only w moves
            return "global"
        if abs(above) <= NEAR * (1 + e**2 + self.pace * w**2):
            return "boundary"
        return "global" if above > 0 else "unigram"

    def end(self, e: float, w: float) -> Point:
        """The point (e, w) at which gradient flow from there ends, from the invariant alone; e keeps its sign."""
        from scipy.optimize import brentq

        found = self.basin(e, w)
        e, w = _place(e, w)
        if e == 0 or found == "boundary":
            return Point(0.0, w if e == 0 else SADDLE)
        if w == 0:  # it stays, and e alone moves
            return Point(math.copysign(math.sqrt(max(self.target, 0.0)), e), 0.0)
        level = float(invariant(e, w, self.pace))

        def height(at: float) -> float:  # e^2 on the level curve
            return level + self.pace * (at**2 + math.copysign(1.0, at) * math.log(abs(at)))

        if found == "both" and w < 0 and level > self.pace * SADDLE_LEVEL:
            return Point(math.copysign(math.sqrt(height(SADDLE)), e), SADDLE)
        if found == "global":  # where the curve meets the gap wanted, on the side of 0 on which w is
            low, high = (-2 * MOST, SADDLE) if self.target < 0 else (SADDLE, -TINY) if w < 0 else (TINY, 2 * MOST)
            at = float(brentq(lambda x: height(x) * (1 + 2 * x * abs(x)) - self.target, low, high, xtol=TINY))
            return Point(math.copysign(math.sqrt(height(at)), e), at)
        low, high = (-2 * MOST, SADDLE) if w < SADDLE else (SADDLE, -TINY) if w < 0 else (TINY, 2 * MOST)
        return Point(0.0, float(brentq(height, low, high, xtol=TINY)))

    def flow(self, e: float, w: float, b: float | None = None, time: float = LONGEST, points: int = 200) -> Path:
        """Gradient flow from (e, w) for a `time`, by an implicit method to a relative error of 1e-9 a step.

        Without b it is at its optimum throughout, as in the portraits; with one it flows, too: the three-number flow of
        the released code, which keeps E only as far as b is at its optimum. Times are spaced by their logarithms.
        """
        from scipy.integrate import solve_ivp

        e, w = _place(e, w)
        start = [e, w] if b is None else [e, w, finite_number("b", b)]
        if not TIMES[0] <= finite_number("time", time) <= TIMES[1]:
            raise RequestError(f"time={quoted(time)} is not between {TIMES[0]:g} and {TIMES[1]:g}")
        points = whole_number("points", points, 3, POINTS)  # 0, one between, and `time`
        at = np.concatenate([[0.0], np.geomspace(min(1e-3, time / 2), time, points - 1)])

        def velocity(_: float, theta: Array) -> Array:
            slope = -self._gradient(theta[0], theta[1], None if b is None else theta[2])
            slope[0] *= self.pace
            return np.asarray(slope[: len(start)])

        found = solve_ivp(velocity, (0.0, time), start, method="LSODA", t_eval=at, rtol=1e-9, atol=1e-12)
        if not found.success:
            raise RequestError(f"gradient flow from e={quoted(e)}, w={quoted(w)} fails: {found.message}")
        bias = self._best_bias(found.y[0], found.y[1]) if b is None else found.y[2]
        loss = self._loss_at(*self._logits(found.y[0], found.y[1], bias))
        return Path(found.t, found.y[0], found.y[1], bias, loss)

    def global_share(self, std: float) -> float:
        """Share of starts e, w ~ N(0, std^2), independent, from which gradient flow learns the kernel."""
        from scipy.integrate import quad
        from scipy.special import ndtr

        if not (real := finite_number("std", std)) > 0:
            raise RequestError(f"std={quoted(std)} is not a standard deviation above 0")
        if self.target == 0:
            return 1.0

        def above(w: float) -> float:
            density = math.exp(-((w / real) ** 2) / 2) / (real * math.sqrt(2 * math.pi))
            return density * 2 * float(ndtr(-math.sqrt(max(float(_boundary(np.asarray(w), self.pace)), 0.0)) / real))

        left = float(ndtr(SADDLE / real))
        if self.target > 0:  # all right of the saddle, and what is above the boundary to the left
            far = -max(8 * real, 1.0) + SADDLE
            return 1 - left + float(quad(above, far, SADDLE, limit=200)[0])
        return left + float(quad(above, SADDLE, 0, points=[-real] if real < -SADDLE else None, limit=200)[0])


def gap(e: ArrayLike, w: ArrayLike) -> Array:
    """e^2 (1 + 2 w |w|): log-odds of 1 after 1 less those after 0."""
    return _gap(*_arrays(e=e, w=w))


def _gap(e: Array, w: Array) -> Array:
    return np.asarray(e**2 * (1 + 2 * w * np.abs(w)))


def invariant(e: ArrayLike, w: ArrayLike, pace: float = 1.0) -> Array:
    """E = e^2 - pace (w^2 + sign(w) log|w|), which gradient flow keeps; infinite at w = 0, where w stays."""
    at_e, at_w = _arrays(e=e, w=w)
    return _invariant(at_e, at_w, _pace(pace))


def _invariant(e: Array, w: Array, pace: float) -> Array:
    with np.errstate(divide="ignore"):
        logarithm = np.log(np.abs(w))
    return np.asarray(e**2 - pace * (w**2 + np.where(w < 0, -1.0, 1.0) * logarithm))


def boundary(w: ArrayLike, pace: float = 1.0) -> Array:
    """e^2 on the curve through the saddle that parts the basins, w < 0: pace (w^2 - log|w| - (1 + log 2) / 2)."""
    (at,) = _arrays(w=w)
    if not (at < 0).all():
        raise RequestError(f"w={quoted(at.tolist())} is not below 0, where the boundary lies")
    return _boundary(at, _pace(pace))


def _boundary(w: Array, pace: float) -> Array:
    return np.asarray(pace * SADDLE_LEVEL - _invariant(np.asarray(0.0), w, pace))


def sigmoid(x: ArrayLike) -> Array:
    """1 / (1 + exp(-x))."""
    from scipy.special import expit

    return np.asarray(expit(np.asarray(x, np.float64)))


def softplus(x: ArrayLike) -> Array:
    """log(1 + exp(x)), nats of a prediction whose log-odds against what came are x."""
    return np.logaddexp(0.0, x)


def _arrays(**given: Any) -> list[Any]:
    """The arguments as arrays that broadcast, a b of None as it is. Raises `RequestError`, by name, for what is not
    finite, e and w beyond `FARTHEST`, and shapes that do not broadcast."""
    said = {name: one for name, one in given.items() if name != "b" or one is not None}
    found = {name: real_array(one, f"{name}={quoted(one)}", RequestError) for name, one in said.items()}
    for name, one in found.items():
        if not np.isfinite(one).all():
            raise RequestError(f"{name}={quoted(one.tolist())} holds something other than finite numbers")
        if name in Point._fields and (np.abs(one) > FARTHEST).any():
            raise RequestError(f"{name}={quoted(one.tolist())} is not between -{FARTHEST:g} and {FARTHEST:g}")
    try:
        np.broadcast_shapes(*(one.shape for one in found.values()))
    except ValueError:
        told = ", ".join(f"{name} {list(one.shape)}" for name, one in found.items())
        raise RequestError(f"arrays of shapes {told} do not broadcast") from None
    return [found.get(name) for name in given]


def _pace(pace: float) -> float:
    if not 0 < finite_number("pace", pace) <= 1e3:
        raise RequestError(f"pace={quoted(pace)} is not above 0 and at most 1000")
    return float(pace)


def _place(e: float, w: float) -> Point:
    found = Point(finite_number("e", e), finite_number("w", w))
    for name, value in zip(Point._fields, found, strict=True):
        if abs(value) > MOST:
            raise RequestError(f"{name}={quoted(value)} is not between -{MOST:g} and {MOST:g}")
    return found
