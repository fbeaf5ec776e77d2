"""A world that writes no task: language models, a label at each position, and a label a string."""

from dataclasses import asdict, dataclass, replace
from importlib.metadata import EntryPoint
from typing import ClassVar

import numpy as np
import pytest
import torch

from closeness import assert_close
from interp import label_exam as label_exam_module
from interp import load_checkpoint, plugins, registry, save_checkpoint, train_population
from interp import task_check as task_check_module
from interp.cli.commands import worst_measures
from interp.config import TransformerConfig
from interp.errors import AnalysisError, ConfigError, WorldError
from interp.model import SandboxTransformer
from interp.plots import attention_heatmap
from interp.recipe import Recipe
from interp.settings import TrainingSettings
from interp.task_check import check_task, exam_of
from interp.training import task as task_module
from interp.training.evaluation import evaluate, plain_set
from interp.training.layout import IGNORE
from interp.training.task import TokenTask
from interp.world import Column, Overlay, World


@dataclass(frozen=True)
class _Letters:
    """Strings of 3 letters after START, the second the double of the first modulo 3; some are short."""

    KIND: ClassVar[str] = "letters"
    vocab: ClassVar[tuple[str, ...]] = ("START", "a", "b", "c", "PAD")
    vocab_size: ClassVar[int] = 5
    pad: ClassVar[int | None] = 4
    short: float = 0.5

    def to_tokens(self, texts):
        return np.array([[0, *(self.vocab.index(letter) for letter in text)] for text in texts])

    def to_dict(self):
        return {"kind": self.KIND, **asdict(self)}

    @classmethod
    def from_dict(cls, data):
        return cls(**{name: value for name, value in data.items() if name != "kind"})

    def draw(self, rng, count):
        first = rng.integers(0, 3, count)
        last = np.where(rng.random(count) < self.short, 4, 1 + rng.integers(0, 3, count))
        return np.stack([np.zeros(count, int), 1 + first, 1 + 2 * first % 3, last], axis=1)

    def labels(self, tokens):
        """What follows; nothing after the last letter."""
        after = np.concatenate([tokens[:, 1:], np.full((len(tokens), 1), 4)], axis=1)
        return np.where(after == 4, IGNORE, after)

    def classes(self, tokens):
        return {"forced": np.arange(tokens.shape[1]) == np.ones((len(tokens), 1))}

    def rungs(self, tokens):
        return {"uniform": np.full(tokens.shape, np.log(5))}


@dataclass(frozen=True)
class _Kinds(_Letters):
    """The first letter is to be told at every later position: labels are no tokens."""

    KIND: ClassVar[str] = "kinds"
    label_names: ClassVar[tuple[str, ...]] = ("kind a", "kind b", "kind c")

    def labels(self, tokens):
        return np.where((tokens == 4) | (np.arange(4) == 0), IGNORE, np.repeat(tokens[:, 1:2] - 1, 4, axis=1))


@dataclass(frozen=True)
class _Whole(_Letters):
    """A label a string: are first and last letter the same? Nothing is short."""

    KIND: ClassVar[str] = "whole"
    label_names: ClassVar[tuple[str, ...]] = ("no", "yes")
    pad: ClassVar[None] = None
    short: float = 0.0

    def labels(self, tokens):
        out = np.full(tokens.shape, IGNORE)
        out[:, -1] = tokens[:, 1] == tokens[:, 3]
        return out


LETTERS = World("letters", "letters", (_Letters,))
KINDS = World("kinds", "kinds", (_Kinds,))
WHOLE = World("whole", "whole", (_Whole,), columns={"accuracy": "accuracy", "loss": Column("loss", "least")})


@dataclass(frozen=True)
class _Rare(_Kinds):
    """One string in some has a label at all; the law leaves doubt of the first letter alone."""

    KIND: ClassVar[str] = "rare"
    every: int = 8

    def labels(self, tokens):
        chosen = (np.arange(len(tokens)) % self.every == self.every - 1)[:, None]
        return np.where(chosen, super().labels(tokens), IGNORE)


@dataclass(frozen=True)
class _Told(_Kinds):
    """The same labels everywhere, with the exact law: they follow from the first letter."""

    KIND: ClassVar[str] = "told"
    doubt: float = 0.0

    def law_nll(self, tokens):
        return np.full(tokens.shape, self.doubt)


RARE = World("rare", "rare", (_Rare,))
TOLD = World("told", "told", (_Told,))


WORLDS = ("letters", "kinds", "whole", "rare", "told", "groups", "seldom")


@pytest.fixture(autouse=True)
def worlds(monkeypatch):
    points = [EntryPoint(name, f"{__name__}:{name.upper()}", registry.GROUP) for name in WORLDS]
    monkeypatch.setattr(plugins, "entry_points", lambda group: points if group == registry.GROUP else [])
    monkeypatch.setattr(task_module, "EVAL_STRINGS", 40)
    monkeypatch.setattr(task_module, "FINAL_STRINGS", 60)
    registry.refresh()
    yield
    monkeypatch.undo()
    registry.refresh()


def recipe(grammar, **changes):
    outputs = len(getattr(grammar, "label_names", grammar.vocab))
    config = TransformerConfig(
        5, 1, d_model=16, d_head=16, d_mlp=16, n_ctx=8, positions="learned", d_vocab_out=outputs, pad_token=grammar.pad
    )
    settings = {"steps": 30, "batch": 12, "lr": 0.01, "eval_every": 30}
    own = {name: value for name, value in changes.items() if name in settings or name in ("loss", "l2")}
    rest = {name: value for name, value in changes.items() if name not in own}
    return Recipe("mine", grammar, replace(config, **rest), TrainingSettings(**{**settings, **own}))


GRAMMARS = [_Letters(), _Kinds(), _Whole()]
NAMED = pytest.mark.parametrize("grammar", GRAMMARS, ids=lambda grammar: grammar.KIND)


@pytest.mark.parametrize("loss", ["ce", "mse"])
@pytest.mark.parametrize(
    ("grammar", "direction"),
    [*((grammar, "causal") for grammar in GRAMMARS), (_Whole(), "bidirectional")],  # short strings: refused, see below
    ids=lambda one: getattr(one, "KIND", one),
)
def test_the_loss_is_the_masked_mean_over_labels(grammar, loss, direction):
    """Against each string by itself, without padding or neighbours."""
    r = recipe(grammar, loss=loss, l2=0.1, direction=direction)
    model = SandboxTransformer.init(replace(r.config, pad_token=None), 3).double()
    task = TokenTask(model, r, "cpu")
    inputs, targets = (torch.from_numpy(part) for part in task.draw(3, range(1)))
    params = {name: p.detach()[None] for name, p in model.named_parameters()}
    total, count = 0.0, 0
    tokens = grammar.draw(task_module.generator(3, "train", 0), r.settings.batch)
    for row, labels in zip(tokens, grammar.labels(tokens), strict=True):
        used = row[row != grammar.pad] if grammar.pad is not None else row
        logits = model(torch.from_numpy(used)[None])[0]
        for place, label in enumerate(labels):
            if label == IGNORE:
                continue
            if loss == "ce":
                total += -torch.log_softmax(logits[place], -1)[label]
            else:
                total += (logits[place] - torch.eye(logits.shape[-1])[label]).square().sum()
            count += 1
    squares = sum(p.square().sum() for p in model.parameters())
    assert_close(task(params, inputs, targets)[0].detach(), (total / count + 0.05 * squares).detach())
    assert count == int((targets != IGNORE).sum())


@NAMED
def test_a_seed_is_the_same_alone_and_in_company(grammar):
    r = recipe(grammar)
    together = train_population(r, [0, 4, 9], workers=1)
    for i, seed in enumerate((0, 4, 9)):
        alone = train_population(r, [seed], workers=1)
        for name, p in alone.params.items():
            assert torch.equal(p[0], together.params[name][i]), name
        assert alone.final_metrics()[0] == together.final_metrics()[i]


@NAMED
def test_labels_live_in_config_and_checkpoint(grammar, tmp_path):
    trained = train_population(recipe(grammar), 2, workers=1)
    back = load_checkpoint(save_checkpoint(trained, tmp_path / "m.safetensors"))
    names = getattr(grammar, "label_names", None)
    assert back.config.class_names == names
    assert back.config.d_out == (5 if names is None else len(names))
    assert back.grammar == grammar
    row = back.final_metrics()[0]
    assert {"loss", "accuracy", "accuracy_forced", "rung/uniform"} <= set(row)
    assert "excess" not in row  # no law is known
    assert "accuracy" in back.summary()
    assert "loss on the same strings of simpler predictors uniform 1.6094" in back.summary().replace("\n    ", " ")


@pytest.mark.parametrize("grammar", [_Letters(), _Kinds()], ids=lambda grammar: grammar.KIND)
def test_it_learns_what_is_forced(grammar):
    trained = train_population(recipe(grammar, steps=200, eval_every=200), 2, workers=1)
    for row in trained.final_metrics():
        assert row["accuracy_forced"] > 0.95


def test_metrics_are_weighted_means_over_what_was_drawn():
    grammar = _Letters()
    model = SandboxTransformer.init(recipe(grammar).config, 1).double()
    data = plain_set(grammar, 200)
    found = evaluate(model, {name: p.detach()[None] for name, p in model.named_parameters()}, data)
    tokens = grammar.draw(task_module.generator(0, "held-out"), 200)
    with torch.no_grad():
        logits = model(torch.from_numpy(tokens))
    labels = torch.from_numpy(grammar.labels(tokens))
    asked = labels != IGNORE
    nll = -torch.log_softmax(logits, -1).gather(-1, labels.clamp(min=0)[..., None])[..., 0]
    right = logits.argmax(-1) == labels
    forced = asked & torch.from_numpy(grammar.classes(tokens)["forced"])
    for name, value in (
        ("loss", nll[asked].mean()),
        ("accuracy", right[asked].double().mean()),
        ("accuracy_forced", right[forced].double().mean()),
        ("rung/uniform", torch.tensor(5.0).double().log()),
    ):
        assert_close(torch.tensor(found[name][0]), value, scale=1)


class _Sums:
    """40 or 10 bits; asked is their sum modulo 2, at one position."""

    vocab: ClassVar[tuple[str, ...]] = ("0", "1")
    vocab_size: ClassVar[int] = 2

    def __init__(self, length, at):
        self.length, self.at = length, at

    def draw(self, rng, count):
        return (rng.random((count, self.length)) < 0.5).astype(np.int64)

    def labels(self, tokens):
        labels = np.full(tokens.shape, IGNORE)
        labels[:, self.at] = tokens.sum(1) % 2
        return labels


@pytest.mark.parametrize("positions", ["learned", "none"])
@pytest.mark.parametrize(("length", "at"), [(40, 0), (10, 9), (16, 0)])
def test_a_model_of_both_directions_is_measured_on_the_string_and_nothing_else(length, at, positions):
    """Tokens behind the label are read; what fills a row up is not, although there is no PAD to tell it by."""
    shape = {"n_layers": 1, "d_model": 12, "d_head": 12, "d_mlp": 12, "d_vocab_out": 2, "n_ctx": 40, "init_std": 0.5}
    model = SandboxTransformer.init(TransformerConfig(2, direction="bidirectional", positions=positions, **shape), 0)
    data = plain_set(_Sums(length, at), 100)
    found = evaluate(model, {name: p.detach()[None] for name, p in model.named_parameters()}, data)
    with torch.no_grad():
        nats = -model(torch.from_numpy(data.inputs[:, :length]))[:, at].log_softmax(-1)
    each = nats.gather(1, torch.from_numpy(data.targets[:, at, None]))[:, 0].double().numpy()
    assert_close(found["loss"][0], np.average(each, weights=data.weight), ulps=16, dtype=torch.float32)


def test_outputs_must_be_as_many_as_labels():
    r = recipe(_Kinds())
    with pytest.raises(ConfigError, match="vocabulary of 5 and 3 labels"):
        Recipe("mine", r.grammar, replace(r.config, d_vocab_out=4, class_names=None), r.settings)


def test_padding_that_would_be_seen_is_refused():
    with pytest.raises(ConfigError, match="give strings of one length"):
        train_population(recipe(_Kinds(), direction="bidirectional"), 1, workers=1)


def test_a_batch_without_a_label_teaches_nothing_and_stops_nothing():
    """Where labels are rare, a batch may have none; a large sample without one is an error."""
    r = recipe(_Rare(), batch=4, steps=3, eval_every=3)  # of 4 strings none has a label, of 60 some have
    task = TokenTask(SandboxTransformer.init(r.config, 0), r, "cpu")
    inputs, targets = (torch.from_numpy(part) for part in task.draw(0, range(1)))
    assert (targets == IGNORE).all()
    params = {n: p.detach()[None] for n, p in SandboxTransformer.init(r.config, 0).named_parameters()}
    assert task(params, inputs, targets).tolist() == [0.0]
    assert train_population(r, 1, workers=1).final_metrics()[0]["step"] == 3
    with pytest.raises(WorldError, match=r"labels gives no label at all in \d+ strings"):
        plain_set(_Rare(every=100), 60)


def test_the_worst_seed_is_the_one_with_the_largest_loss():
    rows = [{"seed": seed, "step": 1, "accuracy": a, "loss": b} for seed, a, b in ((0, 0.5, 0.9), (1, 0.75, 0.25))]
    assert worst_measures({"history": rows, "grammar": {"kind": "whole"}}) == {"accuracy": 0.5, "loss": 0.9}


# -- whether it was learnt ----------------------------------------------------------------------------


def test_a_model_that_tells_no_label_is_refused():
    """Labels that follow from what is read are asked of who was not trained here; one who learnt them passes."""
    r = recipe(_Told(), steps=200, eval_every=200)
    trained = train_population(r, 1, workers=1)[0]
    tokens = _Told().draw(task_module.generator(0, "asked"), 30)
    stranger = SandboxTransformer(trained.config, trained.grammar)
    stranger.load_state_dict(trained.state_dict())
    found = check_task([stranger], _Told(), tokens, 0, "test")
    assert found is not None
    assert found.accuracy.value > 0.9
    assert_close(found.accuracy.null, 1 / 3)
    assert found.task == "tells the labels that follow from what is read"
    untrained = SandboxTransformer.init(trained.config, 0, trained.grammar)
    with pytest.raises(AnalysisError, match="its most probable label is illegal at"):
        check_task([untrained], _Told(), tokens, 0, "test")
    assert check_task([untrained], _Told(), tokens, 0, "test", wanted=False) is None


@pytest.mark.parametrize("grammar", [_Kinds(), _Told(doubt=0.1)], ids=["no law is known", "none follows"])
def test_labels_that_do_not_follow_are_not_asked(grammar):
    assert exam_of(grammar) is None
    model = SandboxTransformer.init(recipe(grammar).config, 0, grammar)
    assert check_task([model], grammar, None, 0, "test") is None


def test_outputs_of_other_names_are_not_asked():
    """A classifier of something else does not tell these labels."""
    config = replace(recipe(_Told()).config, class_names=("x", "y", "z"))
    assert check_task([SandboxTransformer.init(config, 0)], _Told(), None, 0, "test") is None


# -- label names in pictures --------------------------------------------------------------------------


@dataclass(frozen=True)
class _Groups(_Whole):
    """Names that HTML would read, and classes of positions that a bidirectional pattern is sorted by."""

    KIND: ClassVar[str] = "groups"
    label_names: ClassVar[tuple[str, ...]] = ("<b>no", "yes")

    def labels(self, tokens):
        return np.where(np.arange(tokens.shape[1]) == 2, IGNORE, (tokens == tokens[:, 1:2]).astype(int))


GROUPS = World(
    "groups", "groups", (_Groups,),
    overlays={"letters": Overlay("groups", lambda tokens, grammar: tokens, about="letter")},
)  # fmt: skip


@pytest.mark.parametrize("sorted_by", [None, "letters"])
def test_pictures_name_the_label_of_each_query(sorted_by):
    pattern, tokens = np.full((4, 4), 0.25), np.array([0, 2, 1, 2])
    shown = attention_heatmap(pattern, tokens, grammar=_Groups(), overlay=sorted_by).data[0]
    names = {0: " (label '&lt;b&gt;no')", 1: " (label 'yes')", 2: "", 3: " (label 'yes')"}
    order = (0, 2, 1, 3) if sorted_by else (0, 1, 2, 3)
    vocab = _Groups.vocab
    assert list(shown.y) == [f"query {at} '{vocab[tokens[at]]}'{names[at]}" for at in order]
    assert list(shown.x) == [f"key {at} '{vocab[tokens[at]]}'" for at in order]


def test_pictures_of_words_and_of_labels_that_are_tokens_name_none():
    pattern = np.full((4, 4), 0.25)
    for shown in (attention_heatmap(pattern, list("abca"), grammar=_Groups()),
                  attention_heatmap(pattern, np.array([0, 2, 1, 2]), grammar=_Letters())):  # fmt: skip
        assert not any("label" in name for name in shown.data[0].y)


@pytest.mark.parametrize(
    ("name", "best", "least", "most"),
    [
        ("loss", "least", 0.0, np.inf),
        ("excess", "least", -np.inf, np.inf),
        ("rung/uniform", "least", 0.0, np.inf),
        ("accuracy", "most", 0.0, 1.0),
        ("accuracy_forced", "most", 0.0, 1.0),
    ],
)
def test_a_column_declared_by_its_head_is_of_the_kind_that_its_name_says(name, best, least, most):
    assert replace(LETTERS, columns={name: "head"}).shown == {name: Column("head", best, least, most)}
    own = Column("head", "most", -1.0, 2.0)
    assert replace(LETTERS, columns={name: own}).shown == {name: own}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"head": ""}, "head='' of a column is not a text"),
        ({"head": 3}, "head=3 of a column is not a text"),
        ({"best": "fewest"}, "best='fewest' of column 'nats' is neither"),
        ({"least": 1.0}, "from least=1.0 to most=1.0: nowhere"),
        ({"most": float("nan")}, "to most=nan: nowhere"),
    ],
)
def test_a_column_that_means_nothing_is_refused(given, said):
    with pytest.raises(WorldError, match=said):
        Column(**{"head": "nats", **given})


# -- exams of labels that are rare, noisy or long -----------------------------------------------------


def permuted(model, order):
    """A model that reads each id as another."""
    other = SandboxTransformer(model.config, model.grammar)
    other.load_state_dict({**model.state_dict(), "embed.W_E": model.W_E[torch.tensor(order)].detach()})
    return other


@pytest.fixture(scope="module")
def told():
    """A model that learnt the labels of `_Told`, without the provenance that would vouch for it."""
    points = [EntryPoint(name, f"{__name__}:{name.upper()}", registry.GROUP) for name in WORLDS]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugins, "entry_points", lambda group: points if group == registry.GROUP else [])
        registry.refresh()
        trained = train_population(recipe(_Told(), steps=200, eval_every=200), 1, workers=1)[0]
    registry.refresh()
    return permuted(trained, range(5))


@pytest.mark.parametrize(("doubt", "asked"), [(0.0, True), (1e-12, True), (1e-7, True), (1e-4, False)])
def test_rounding_of_a_law_leaves_no_doubt(doubt, asked):
    assert (exam_of(_Told(doubt=doubt)) is not None) == asked


def test_wrong_labels_are_not_legal(told):
    """Two of three letters mistaken: a third is right, which is chance, and the rest is illegal."""
    tokens = _Told().draw(task_module.generator(0, "asked"), 30)
    found = check_task([told], _Told(), tokens, 0, "test")
    assert found.legal > 0.9
    with pytest.raises(AnalysisError, match=r"its most probable label is illegal at .* of places"):
        check_task([permuted(told, [0, 2, 1, 3, 4])], _Told(), tokens, 0, "test")


def test_a_label_that_the_sample_does_not_hold_is_asked_where_it_stands(told, monkeypatch):
    monkeypatch.setattr(label_exam_module, "SAMPLE", 2)  # which holds two of the three labels at most
    tokens = np.array([[0, first, 1 + 2 * (first - 1) % 3, 1] for first in (1, 2, 3)])
    exam = exam_of(_Told())
    assert exam.chance == 0.5
    asked, right, candidates = exam.questions(tokens)
    assert asked[:, 1:].all()
    assert set(right[asked]) == {0, 1, 2}
    assert candidates.tolist() == [0, 1, 2]


@dataclass(frozen=True)
class _Seldom(_Told):
    """The labels follow in one string of 64 only."""

    KIND: ClassVar[str] = "seldom"

    def draw(self, rng, count):
        return np.concatenate([super().draw(rng, count), rng.integers(1, 5, (count, 3))], axis=1)

    def labels(self, tokens):
        return np.pad(super().labels(tokens[:, :4]), ((0, 0), (0, 3)), constant_values=IGNORE)

    def law_nll(self, tokens):
        sure = (tokens[:, 4:] == 1).all(1, keepdims=True)
        return np.where(sure, 0.0, 1.0) + np.zeros(tokens.shape)


SELDOM = World("seldom", "seldom", (_Seldom,))


@pytest.mark.parametrize("seed", range(6))
def test_strings_with_a_question_are_looked_for(seed):
    exam = exam_of(_Seldom())
    rows = exam.draw(40, 10, seed)
    assert rows.shape == (40, 7)
    assert exam.questions(rows)[0].any(1).all()
    assert np.array_equal(rows, exam.draw(40, 10, seed))


@pytest.mark.parametrize(("longest", "drawn"), [(3, 0), (4, 40), (None, 40)])
def test_strings_longer_than_the_model_are_not_drawn(told, monkeypatch, longest, drawn):
    """It is asked on the inputs that it is given, few as they may be."""
    monkeypatch.setattr(task_check_module, "longest_input", lambda model: longest)
    tokens = _Told().draw(task_module.generator(0, "asked"), 5)
    assert check_task([told], _Told(), tokens, 0, "test").drawn == drawn


@pytest.mark.parametrize(("nats", "taken"), [(-1e-17, True), (-2e-7, True), (-1e-5, False), (np.inf, False)])
def test_what_is_certain_may_come_out_below_zero_by_rounding(nats, taken):
    grammar = _Told(doubt=nats)
    if taken:
        assert plain_set(grammar, 20).law_nll.min() == 0
    else:
        with pytest.raises(WorldError, match="law_nll gives numbers that are no surprise"):
            plain_set(grammar, 20)
