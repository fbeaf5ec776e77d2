"""Two stages: synthetic curves whose boundary is known, curves that have none, and populations."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from closeness import assert_close
from interp.config import TransformerConfig
from interp.errors import AnalysisError, InterpError, RequestError
from interp.population import Population
from interp.stats import mean_over_seeds
from probes.topics import analyze_two_stages, rotation

STEPS = np.arange(0, 1001, 5.0)


def curves(rise: np.ndarray, growth: np.ndarray, runs: int = 1, noise: float = 0.0, seed: int = 0) -> dict:
    """Norms [runs, steps]: W_K and W_Q 3 + a multiple of `rise`, W_V 3 + 5 times `growth`; all with noise."""
    rng = np.random.default_rng(seed)
    shapes = {"W_Q": 3 + 2 * rise, "W_K": 3 + 3 * rise, "W_V": 3 + 5 * growth}
    return {name: shape + noise * rng.normal(size=(runs, len(shape))) for name, shape in shapes.items()}


def hinge(at: float) -> np.ndarray:
    return np.clip((STEPS - at) / 300, 0, None)


def plateau(scale: float = 100.0) -> np.ndarray:
    return 1 - np.exp(-STEPS / scale)


def at_once(kind: str) -> np.ndarray:
    share = STEPS / 1000
    return {"linear": share, "concave": plateau(200), "root": np.sqrt(share), "fast": plateau(30)}[kind]


# ---- a known boundary ----------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.2])
@pytest.mark.parametrize("at", [200, 400, 750])
def test_a_known_boundary_is_found(at, noise):
    r = analyze_two_stages(curves(hinge(at), plateau(), noise=noise), steps=STEPS)
    assert r.two_stages
    assert r.reason is None
    assert r.boundary.value == pytest.approx(at, abs=4 + 60 * noise)
    assert r.boundary.low <= r.boundary.value <= r.boundary.high
    assert (r.boundary.over, r.boundary.n) == ("steps", 201)
    run = r.runs[0]
    assert run.value_done == pytest.approx((1 - np.exp(-at / 100)) / (1 - np.exp(-10)), abs=0.08)  # absolute: noise
    assert abs(run.attention_done) < 0.06  # absolute: shares of a growth whose noise is up to a fifth
    assert run.slowdown < 0.2


@pytest.mark.parametrize("noise", [0.05, 0.3])
@pytest.mark.slow
def test_the_profile_interval_covers(noise):
    r = analyze_two_stages(curves(hinge(400), plateau(), 400, noise), steps=STEPS)
    assert all(run.two_stages for run in r.runs)
    inside = sum(run.low <= 400 <= run.high for run in r.runs)
    assert 0.92 * 400 <= inside <= 0.99 * 400


def test_the_boundary_is_the_onset_when_the_rise_ends_within_the_run():
    ends = np.clip((STEPS - 300) / 200, 0, 1)
    r = analyze_two_stages(curves(ends, plateau(), noise=0.05), steps=STEPS)
    assert r.boundary.value == pytest.approx(300, abs=15)  # absolute: three steps of the grid
    smooth = 1 / (1 + np.exp(-(STEPS - 500) / 40))
    r = analyze_two_stages(curves(smooth, plateau(), noise=0.02), steps=STEPS)
    assert r.two_stages
    assert 350 < r.boundary.value < 480
    # The ramp does not fit this: correlated residuals widen the interval.
    assert r.boundary.high - r.boundary.low > 10


def test_growth_from_small_numbers_counts_although_it_has_no_corner():
    """dW_K carries a factor W_Q and the other way round: they grow like exp(t) (thesis L700-702)."""
    r = analyze_two_stages(curves(np.exp((STEPS - 1000) / 120), plateau(), noise=0.01), steps=STEPS)
    assert r.two_stages
    assert r.runs[0].attention_done < 0.2


def test_units_of_steps_and_norms_change_nothing():
    given = curves(hinge(400), plateau(), 3, 0.1)
    r = analyze_two_stages(given, steps=STEPS)
    other = analyze_two_stages({name: 50 * x for name, x in given.items()}, steps=10 * STEPS + 7)
    assert other.boundary.value == pytest.approx(10 * r.boundary.value + 7)
    assert other.value_done.value == pytest.approx(r.value_done.value)
    uneven = np.concatenate([np.arange(0, 300, 2.0), np.arange(300, 1001, 20.0)])
    thinned = {name: np.stack([np.interp(uneven, STEPS, run) for run in x]) for name, x in given.items()}
    assert analyze_two_stages(thinned, steps=uneven).boundary.value == pytest.approx(r.boundary.value, rel=0.05)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("scales", [(1e160,) * 3, (1e-170,) * 3, (1e300, 1e300, 1e-300), (1e300, 1e-300, 1)])
def test_norms_of_any_size(scales):
    given = curves(hinge(400), plateau(), 2, 0.02)
    r = analyze_two_stages(given, steps=STEPS)
    scaled = {name: scale * given[name] for name, scale in zip(("W_K", "W_Q", "W_V"), scales, strict=True)}
    found = analyze_two_stages(scaled, steps=STEPS)
    assert found.boundary.value == pytest.approx(r.boundary.value)
    assert found.value_done.value == pytest.approx(r.value_done.value)
    assert rotation(1e160 * given["W_K"], 1e160 * given["W_V"]) == pytest.approx(rotation(given["W_K"], given["W_V"]))


def test_late_steps_fit_the_summary():
    r = analyze_two_stages(curves(hinge(400), plateau(), 3, 0.02), steps=1e12 * STEPS)
    assert max(map(len, r.summary().splitlines())) <= 80


# ---- none ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("kind", ["linear", "concave", "root", "fast"])
def test_monotone_growth_from_the_start_has_no_two_stages(kind, noise):
    r = analyze_two_stages(curves(at_once(kind), plateau(), 60, noise), steps=STEPS)
    assert not r.two_stages
    assert r.share.value <= 0.05
    assert r.reason == "W_K and W_Q grow from the start, as far as these steps show"


def test_norms_that_stay_have_no_two_stages():
    r = analyze_two_stages(curves(0 * STEPS, plateau(), 200, 0.1), steps=STEPS)
    assert r.share.value <= 0.02
    assert r.reason == "W_K and W_Q do not rise above their scatter"
    r = analyze_two_stages(curves(0 * STEPS, plateau()), steps=STEPS)
    assert r.reason == "W_K and W_Q never grow"
    assert r.boundary.value is None
    assert r.boundary.reason == "no run has two stages"


def test_a_late_start_is_not_enough():
    steady = STEPS / 1000
    r = analyze_two_stages(curves(hinge(700), steady, noise=0.02), steps=STEPS)
    assert r.reason == "W_V goes on growing more than half as fast when W_K and W_Q have started"
    r = analyze_two_stages(curves(hinge(200), steady, noise=0.02), steps=STEPS)
    assert r.reason == "W_V has done less than half of its growth when W_K and W_Q start"
    r = analyze_two_stages(curves(hinge(400), 0 * STEPS), steps=STEPS)
    assert r.reason == "W_V does not grow before W_K and W_Q do"
    early = 0.8 * (1 - np.exp(-STEPS / 10)) + hinge(500)
    r = analyze_two_stages(curves(early, plateau(), noise=0.02), steps=STEPS)
    assert r.reason == "W_K and W_Q have done more than a fifth of their rise before they bend upwards"
    assert not any((r.two_stages, r.runs[0].two_stages))
    assert r.runs[0].boundary == pytest.approx(500, abs=30)  # absolute: six steps of the grid


# ---- several runs --------------------------------------------------------------------------------


def test_interval_over_seeds():
    at = np.random.default_rng(0).normal(400, 40, 12)
    each = [curves(hinge(a), plateau(), noise=0.05, seed=i) for i, a in enumerate(at)]
    r = analyze_two_stages({name: np.concatenate([one[name] for one in each]) for name in each[0]}, steps=STEPS)
    assert [run.boundary for run in r.runs] == pytest.approx(at.tolist(), abs=12)  # absolute: two steps of the grid
    found = [run.boundary for run in r.runs]
    half = 2.2010 * np.std(found, ddof=1) / np.sqrt(12) / np.mean(found)
    assert r.boundary.ends == mean_over_seeds(found).ends
    assert (r.boundary.high - r.boundary.low) / np.mean(found) == pytest.approx(2 * half, rel=0.01)
    assert (r.boundary.over, r.boundary.n, r.share.value) == ("seeds", 12, 1)


def test_the_boundary_is_taken_over_runs_that_have_one():
    mixed = [curves(hinge(400), plateau(), 3, 0.02), curves(at_once("linear"), plateau(), 2, 0.02)]
    r = analyze_two_stages({name: np.concatenate([one[name] for one in mixed]) for name in mixed[0]}, steps=STEPS)
    assert r.two_stages
    assert (r.share.value, r.share.n, r.boundary.n) == (0.6, 5, 3)
    r = analyze_two_stages({name: np.concatenate([one[name] for one in mixed])[2:] for name in mixed[0]}, steps=STEPS)
    assert not r.two_stages
    assert r.reason == "W_K and W_Q grow from the start, as far as these steps show"


# ---- rotation ------------------------------------------------------------------------------------


def test_rotation_is_half_of_one_minus_the_cosine():
    a = np.array([[1.0, 0], [0, 0]])
    assert rotation(a, 3 * a) == 0
    assert rotation(a, -a) == 1
    assert rotation(a, a.T[::-1]) == pytest.approx(0.5)
    assert rotation(a, [[1, 1], [0, 0]]) == pytest.approx((1 - np.sqrt(0.5)) / 2)
    assert np.isnan(rotation(a, 0 * a))
    with pytest.raises(RequestError, match="4 and 3 numbers"):
        rotation(a, [1, 2, 3])


def test_rotation_on_the_two_sides_of_the_boundary():
    rng = np.random.default_rng(0)
    base = rng.normal(size=(4, 6, 6))
    snapshots = {step: base + (400 - step) / 50 * rng.normal(size=(4, 6, 6)) for step in range(0, 401, 100)}
    snapshots |= {step: base * step / 400 for step in range(500, 1001, 100)}
    r = analyze_two_stages(curves(hinge(420), plateau(), 4, 0.02), steps=STEPS, snapshots=snapshots)
    assert r.rotation.shape == (4, 10)
    assert r.rotation_steps == tuple(range(100, 1001, 100))
    assert r.rotation[2, 0] == pytest.approx(rotation(snapshots[0][2], snapshots[100][2]))
    assert r.rotation_stage_one.value == pytest.approx(r.rotation[:, :4].mean())
    assert_close(r.rotation_stage_two.value, 0, scale=1)
    one = analyze_two_stages(
        curves(hinge(420), plateau()), steps=STEPS, snapshots={k: torch.from_numpy(v[0]) for k, v in snapshots.items()}
    )
    assert one.rotation == pytest.approx(r.rotation[:1])
    assert analyze_two_stages(curves(hinge(420), plateau()), steps=STEPS).rotation is None


# ---- populations ---------------------------------------------------------------------------------


def population(attention: str = "learned", seeds: int = 3) -> Population:
    config = TransformerConfig(
        d_vocab=5, n_layers=1, d_model=5, d_head=5, mlp_depth=0, block="bare", norm="none", embedding="onehot",
        attention=attention,
    )  # fmt: skip
    made = Population.init(config, range(seeds))
    given = curves(hinge(400), plateau(), seeds, 0.02)
    rows = tuple(
        {"seed": seed, "step": int(step)}
        | {
            f"norm/blocks.0.attn.{name}": float(given[name][i, at])
            for name in given
            if attention == "learned" or name == "W_V"
        }
        for i, seed in enumerate(made.seeds)
        for at, step in enumerate(STEPS)
    )
    value = made.params["blocks.0.attn.W_V"]
    snapshots = {step: {**made.params, "blocks.0.attn.W_V": value + step / 300} for step in (0, 300, 600)}
    return Population(config, None, made.params, made.seeds, {}, rows, snapshots)


def test_a_population_is_read_from_its_history_and_snapshots():
    p = population()
    r = analyze_two_stages(p)
    direct = analyze_two_stages(curves(hinge(400), plateau(), 3, 0.02), steps=STEPS)
    assert r.boundary.to_dict() == direct.boundary.to_dict()
    assert (r.layer, r.num_runs, r.rotation.shape, r.rotation_steps) == (0, 3, (3, 2), (300, 600))
    with pytest.raises(RequestError, match=r"layer=1: this model has layers 0\.\.0"):
        analyze_two_stages(p, layer=1)


def test_a_population_without_norms_is_refused():
    with pytest.raises(AnalysisError, match=r"holds no norm/blocks.0.attn.W_Q: its attention is frozen uniform"):
        analyze_two_stages(population("uniform"))
    bare = Population.init(population().config, range(2))
    with pytest.raises(AnalysisError, match="train it with snapshots, or pass arrays"):
        analyze_two_stages(bare)
    p = population()
    short = Population(p.config, None, p.params, p.seeds, {}, tuple(row for row in p.history if row["step"] < 30))
    with pytest.raises(
        AnalysisError, match="norms at 6 steps, 10 at least are needed: train with a smaller eval_every"
    ):
        analyze_two_stages(short)
    p.history[3]["norm/blocks.0.attn.W_K"] = None
    with pytest.raises(AnalysisError, match=r"seed 0 has no norm/blocks.0.attn.W_K at step 15"):
        analyze_two_stages(p)


# ---- results and bad input -----------------------------------------------------------------------


def test_summary_figure_and_dict():
    both = [population(), curves(at_once("linear"), plateau(), 2, 0.1), curves(hinge(400), plateau())]
    for given in both:
        r = analyze_two_stages(given)
        assert max(map(len, r.summary().splitlines())) <= 80
        json.dumps(r.to_dict(), allow_nan=False)
        assert r.figure().to_json()
    r = analyze_two_stages(both[0])
    text = r.summary()
    assert text.startswith("Training of 3 runs, steps 0 to 1000: two stages\n")
    assert "stage 1 ends at step" in text
    assert "rotation of W_V, stage 1" in text
    assert len({trace.yaxis for trace in r.figure().data}) == 4
    assert "no two stages" in analyze_two_stages(both[1]).summary()
    assert "no two stages" in analyze_two_stages(both[1]).figure().layout.title.text


@pytest.mark.parametrize(
    ("norms", "options", "message"),
    [
        ({"W_Q": STEPS, "W_K": STEPS}, {}, "a mapping without W_V was given: pass a population, or norms of W_Q"),
        ([1, 2], {}, "list was given"),
        ({"W_Q": STEPS, "W_K": STEPS, "W_V": STEPS[:-1]}, {}, r"norms of shapes .* are not all \[runs, steps\]"),
        (dict.fromkeys(("W_Q", "W_K", "W_V"), STEPS[:5]), {}, r"shape \[1, 5\]: one run and 10 steps at least"),
        (dict.fromkeys(("W_Q", "W_K", "W_V"), -STEPS), {}, "the norm of W_Q is -1000"),
        (dict.fromkeys(("W_Q", "W_K", "W_V"), STEPS + np.nan), {}, r"norms of W_Q is not finite at \[0\]"),
        (dict.fromkeys(("W_Q", "W_K", "W_V"), "abc"), {}, "norms of W_Q of type str"),
        (curves(hinge(400), plateau()), {"steps": STEPS[:-1]}, r"steps of shape \[200\] are not 201 rising numbers"),
        (curves(hinge(400), plateau()), {"steps": STEPS[::-1]}, "are not 201 rising numbers"),
        (
            curves(hinge(400), plateau(), 2),
            {"snapshots": {0: np.eye(3), 1: np.eye(3)}},
            r"snapshots of shape \[3, 3\] do not hold 2 runs",
        ),
        (curves(hinge(400), plateau()), {"snapshots": {0: np.eye(3), 1: np.eye(4)}}, r"\[3, 3\] and \[4, 4\]"),
        (SimpleNamespace(a=1), {}, "SimpleNamespace was given"),
        (curves(hinge(400), plateau()), {"snapshots": {"0": np.eye(3), 1: np.eye(3)}}, "snapshot step '0' is not"),
        (curves(hinge(400), plateau()), {"snapshots": {0.5: np.eye(3), 1: np.eye(3)}}, r"snapshot step 0\.5 is not"),
        (curves(hinge(400), plateau()), {"snapshots": {True: np.eye(3), 2: np.eye(3)}}, "snapshot step True is not"),
        (curves(hinge(400), plateau()), {"snapshots": [np.eye(3)] * 2}, "snapshots=list is not a mapping"),
        (curves(hinge(400), plateau()), {"steps": 1e300 * STEPS}, r"step 1e\+303 is beyond 1e\+15"),
        (dict.fromkeys(("W_Q", "W_K", "W_V"), STEPS + 1j), {}, "norms of W_Q of type complex.* .complex numbers"),
        (
            dict.fromkeys(("W_Q", "W_K", "W_V"), torch.ones(20) + 1j),
            {},
            "norms of W_Q of type complex.* .complex numbers",
        ),
    ],
)
def test_bad_input_is_one_clear_line(norms, options, message):
    with pytest.raises(InterpError, match=message) as caught:
        analyze_two_stages(norms, **options)
    assert "\n" not in str(caught.value)


def test_public_names():
    import probes

    assert probes.analyze_two_stages is analyze_two_stages
    assert "analyze_topic_blocks" in dir(probes)
