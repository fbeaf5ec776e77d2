"""Four readings of attention tables, the released code's training, and the turning of W_V: against literal loops."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from case_studies.populations import Family
from case_studies.study import Obtained
from case_studies.topics import readings, released
from case_studies.topics.counts import count_sums
from case_studies.topics.lookup import released_vocabulary
from case_studies.topics.readings import RELEASED, RESCALED, RIGHT, WHOLE, left_over
from case_studies.topics.released import END, MASK, SPECIAL, START, Length, Setting, Trained
from case_studies.topics.released_rows import VISIBLE, left_sentence, on_diagonal, row_of
from case_studies.topics.turning import VALUE, measure_turning
from closeness import assert_close
from interp import TopicGrammar
from probes.topics import pair_sums

SMALL = TopicGrammar(num_topics=2, words_per_topic=5, min_length=12, max_length=16)
ONEHOT = Setting("toy", "Adam", 0.01, None)
TIED = Setting("toy, tied", "SGD", 1.0, 0.1, "tied")


def patterns_of(scores, tokens):
    """Softmax over the positions of each document, position by position."""
    out = []
    for row in tokens:
        logits = scores[np.ix_(row, row)]
        weight = np.exp(logits - logits.max(1, keepdims=True))
        out.append(weight / weight.sum(1, keepdims=True))
    return np.stack(out)[:, None]


def test_sums_from_counts_are_those_of_patterns():
    rng = np.random.default_rng(0)
    tokens, scores = rng.integers(0, 7, (5, 9)), rng.normal(size=(7, 7))
    counts = np.stack([np.bincount(row, minlength=7) for row in tokens]).astype(float)
    expected = pair_sums(patterns_of(scores, tokens), tokens, 7)
    found = count_sums(scores, counts, rescaled=True)
    plain = count_sums(scores, counts, rescaled=False)
    for name in ("sums", "counts", "own_sums", "own_counts"):
        assert_close(getattr(found, name), getattr(expected, name))
    assert_close(plain.sums, expected.sums * 100 / 9)


def test_the_released_vocabulary_by_hand():
    assert released_vocabulary(SMALL, released=False).tolist() == [-1] * 4 + [0] * 5 + [1] * 5
    assert released_vocabulary(SMALL, released=True).tolist() == [0] * 5 + [1] * 5 + [-1] * 4
    documents = readings.released_documents(SMALL)
    assert (documents[:, [0, MASK, END]] == 0).all()
    assert (documents[:, START] == 1).all()
    assert set(documents.sum(1).astype(int)) <= set(range(13, 18))


def test_printed_rows_leave_what_they_leave_by_hand():
    # Even attention: were a row of even means printed, its uncounted pairs would have that mean too.
    left = left_over(TopicGrammar())
    assert set(left) == {(k, length) for k in (RIGHT, RELEASED) for length in (RESCALED, WHOLE)}
    counts = readings.released_documents(TopicGrammar())
    share = 1 - ((counts[:, 4:].sum(1) ** 2).sum() + len(counts)) / (counts.sum(1) ** 2).sum()
    assert_close(left[RIGHT, RESCALED].share, share, scale=1)
    best = left[RELEASED, WHOLE]
    labels = released_vocabulary(TopicGrammar(), released=True)
    pairs = counts.T @ counts
    itself, same = np.eye(104, dtype=bool), labels[:, None] == labels
    known = (labels[:, None] >= 0) & (labels >= 0)
    told = 0.00759 * pairs[itself].sum() + 0.0108 * pairs[known & same & ~itself].sum()
    told += 0.00689 * pairs[known & ~same & ~itself].sum()
    rest = pairs[~itself & ~known].sum()
    assert_close(best.mean["Table 2.1, Adam .003"], (counts.sum() - told) / rest, scale=1)


def test_the_sentence_names_the_reading_that_leaves_least():
    near = readings.Left(0.1, {"a": 0.01, "b": 0.01}, {"a": 0.9, "b": 1.1})
    far = readings.Left(0.1, {"a": 0.05, "b": -0.01}, {"a": 5.0, "b": -1.0})
    said = left_sentence({(RIGHT, RESCALED): far, (RELEASED, WHOLE): near})
    assert "released lookup and documents as they are these have 0.90 to 1.10 times" in said
    assert "5.00 to 5.00 times" in said
    assert "Negative" in said
    other = left_sentence({(RIGHT, RESCALED): near, (RELEASED, WHOLE): far})
    assert "topics of the words and documents as of 100 words these have 0.90" in other


# -- the released code's training ---------------------------------------------------------------------------------


def literal_loss(params, data, documents):
    """Mean over predicted positions of -log p(true token), position by position."""
    embed = params.get("W_E", np.eye(params["W_Q"].shape[-1]))
    q, k, v = (embed @ params[f"W_{n}"] + params[f"b_{n}"] for n in "QKV")
    total = count = 0.0
    for document in documents:
        keys = np.repeat(np.arange(len(embed)), data.attended[document].astype(int))
        for row in range(data.first[document], data.first[document + 1]):
            scores = k[keys] @ q[data.query[row]] / math.sqrt(q.shape[-1])
            weight = np.exp(scores - scores.max())
            out = weight @ v[keys] / weight.sum()
            logits = out @ embed.T + params["b_U"][0] if "W_E" in params else out
            logs = logits - logits.max() - math.log(np.exp(logits - logits.max()).sum())
            total -= float(data.target[row] @ logs)
            count += float(data.target[row].sum())
    return total / count


@pytest.mark.parametrize("setting", [ONEHOT, TIED])
def test_the_loss_is_that_of_a_literal_loop(setting):
    draws = [np.random.default_rng(seed) for seed in (1, 2)]
    params = {name: 3 * p for name, p in released.initial(setting, draws, 14).items()}
    data = [released.data_of(released.documents_of(SMALL, 6, 0, "toy"), rng, 14) for rng in draws]
    documents = [np.array([0, 3]), np.array([5, 1])]
    found = released.losses_of(params, data, documents).numpy()
    expected = [
        literal_loss({name: p[run].double().numpy() for name, p in params.items()}, data[run], documents[run])
        for run in range(2)
    ]
    assert_close(found, expected, dtype=torch.float32)


def test_what_is_predicted_is_not_attended_to_and_ends_are():
    tokens = released.documents_of(SMALL, 200, 0, "toy")
    data = released.data_of(tokens, np.random.default_rng(0), 14)
    assert (data.attended[:, [START, END]] == 1).all()
    assert (data.attended[:, [0, MASK]] == 0).all()
    targets = np.array([data.target[a:b].sum() for a, b in zip(data.first, data.first[1:], strict=False)])
    assert_close(data.attended[:, SPECIAL:].sum(1) + targets, (tokens >= 0).sum(1), dtype=torch.float32)
    assert 0.12 < targets.sum() / (tokens >= 0).sum() < 0.18


def test_runs_are_trained_once_keep_their_best_and_repeat(tmp_path):
    (tmp_path / "again").mkdir()
    first = released.train(ONEHOT, Length(2, 20, 5), SMALL, tmp_path)
    (path,) = tmp_path.glob("*.safetensors")
    written = path.stat().st_mtime_ns
    again = released.train(ONEHOT, Length(2, 20, 5), SMALL, tmp_path)
    elsewhere = released.train(ONEHOT, Length(2, 20, 5), SMALL, tmp_path / "again")
    assert path.stat().st_mtime_ns == written
    for other in (again, elsewhere):
        assert other.loss == first.loss
        assert all(np.array_equal(other.params[name], p) for name, p in first.params.items())
    assert set(first.step) <= {0, 5, 10, 15, 20}
    assert max(first.loss) < math.log(14)  # better than even over all tokens


@pytest.mark.parametrize(("step", "capped"), [((12_000, 11_000, 4_000), 2), ((10_750, 11_000), 1)])
def test_runs_that_would_have_gone_on_are_counted(step, capped):
    """The limit ends them within four epochs of their best look: later, a loss that no longer fell did."""
    assert Trained(ONEHOT, {}, (1.0,) * len(step), step, "x", 12_000).capped() == capped


def test_only_runs_with_a_visible_diagonal_are_kept(tmp_path):
    plain = released.train(TIED, Length(2, 4, 2), SMALL, tmp_path)
    values = np.stack([plain.params["W_V"][0] * 0 + np.eye(14, dtype=np.float32), plain.params["W_V"][1]])
    made = SimpleNamespace(
        setting=TIED, digest="x", loss=plain.loss, step=plain.step, params=plain.params, scores=plain.scores,
        values=lambda: values.astype(np.float64), capped=lambda: 0,
    )  # fmt: skip
    shares = on_diagonal(values)
    assert_close(shares[0], 1)
    assert shares[1] < VISIBLE
    row = row_of(made, SMALL)
    assert (row.runs, row.kept) == (2, 1)
    assert row.readings.relations[RELEASED, WHOLE].ratio.n == 1
    assert row.to_dict()["released_lookup_whole"]["ratio"]["n"] == 1


# -- turning --------------------------------------------------------------------------------------------------


def staged(values, boundary=100.0):
    snapshots = {step: {VALUE: torch.tensor(v)[None, None]} for step, v in values.items()}
    one = Obtained(Family("toy", "topic-joint"), SimpleNamespace(snapshots=snapshots), "x")
    return one, SimpleNamespace(runs=[SimpleNamespace(two_stages=True, boundary=boundary)])


def test_turning_and_growth_by_hand():
    quarter = {100: [[1.0, 0.0]], 150: [[0.0, 2.0]], 200: [[-2.0, 0.0]], 50: [[9.0, 9.0]]}
    found = measure_turning(*staged(quarter))
    assert_close(found.angle.value, math.pi / 2)
    assert_close(found.growth.value, 0.5)  # doubled, then the same
    assert_close(found.ratio.value, math.pi)
    assert found.lag == 50
    grows = measure_turning(*staged({0: [[1.0, 0.0]], 50: [[2.0, 0.0]], 100: [[4.0, 0.0]]}, boundary=0.0))
    assert_close(grows.angle.value, 0, scale=1)


def test_no_turning_without_stages_or_snapshots():
    one, result = staged({0: [[1.0]], 50: [[2.0]], 100: [[3.0]]}, boundary=0.0)
    assert measure_turning(one, result) is not None
    assert measure_turning(one, SimpleNamespace(runs=[SimpleNamespace(two_stages=False, boundary=None)])) is None
    assert measure_turning(one, SimpleNamespace(runs=[SimpleNamespace(two_stages=True, boundary=90.0)])) is None
    assert measure_turning(*staged({}, boundary=0.0)) is None
