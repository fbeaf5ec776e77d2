"""Every keyword of interp's public functions and methods: another value changes something, or is refused by name."""

import inspect

import numpy as np
import plotly.graph_objects as go
import pytest
import torch

import interp
import interp.plots
from interp import CopyGrammar, DyckGrammar, Population, SandboxTransformer, TopicGrammar, TransformerConfig
from interp.grammars import Vocabulary, grammar_from_dict
from interp.model.hooks import NamedHooks
from interp.plots.export import find_browser
from interp.worlds.dyck import task as objective
from interp.worlds.dyck.settings import DyckSettings
from interp.worlds.markov.claims import parent
from interp.worlds.topics import task as topics
from probes import LabelledInput
from probes.audit import lay_out
from sizes import hold_out_few
from walk import Entry, Made, Pair, cases, check, check_odd, covered, missing, public, public_methods, used

GRAMMAR, START, PAD = DyckGrammar(2, 4), 4, 6
CONFIG = TransformerConfig(
    7, n_heads=2, d_model=12, d_head=6, d_mlp=10, n_ctx=9, positions="learned", pad_token=PAD, init_std=0.5
)
FOREIGN = {
    "n_layers": 1, "n_heads": 1, "d_model": 4, "d_head": 4, "d_mlp": 4, "act_fn": "relu", "n_ctx": 8, "d_vocab": 7,
}  # fmt: skip
BRACKETS = ["</s>", "]", "(", "[", "<s>", ")", "<pad>"]
SHORT = {"steps": 2, "batch": 2}


def model(seed=0, grammar=GRAMMAR):
    return SandboxTransformer.init(CONFIG, seed, grammar)


def population(seeds=(0, 1)):
    made = Population.init(CONFIG, seeds, GRAMMAR)
    rows = tuple({"seed": s, "step": t, "loss": 1.0 + t} for s in seeds for t in (0, 4))
    return Population(
        CONFIG,
        GRAMMAR,
        made.params,
        made.seeds,
        {"name": "two", "trained": False},
        rows,
        {4: made.params, 8: {name: 2 * p for name, p in made.params.items()}},
    )


def unlearned():
    """One whose provenance does not say that it was never trained."""
    return SandboxTransformer(CONFIG, GRAMMAR)


def foreign_state(scale=1.0):
    from interp._foreign_config import to_config

    made = SandboxTransformer.init(to_config(FOREIGN, None), 0)
    return {name: scale * p.detach() for name, p in made.named_parameters()}


@pytest.fixture(autouse=True)
def an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hold_out_few(monkeypatch, 6)
    monkeypatch.setattr(topics, "FINAL_DOCUMENTS", 8)
    monkeypatch.setattr(
        objective, "long_prefixes", lambda g: objective.held_out(g, 2, data="prefix", length=20, score_from=16)
    )


def halves(made):
    return [made[:1], made[1:]]


def train(**how):
    """`train_population`, a quick one unless something else is asked for."""
    quick = {} if "settings" in how or not isinstance(how.get("preset", ""), str) else SHORT
    return interp.train_population(**{"preset": "dyck-minimal", "seeds": 1, "workers": 1, **quick, **how})


def loaded(**how):
    """`load_foreign`, and what is made of the model: padding masked, labels read."""
    made = interp.load_foreign(**how)
    labelled = lay_out([LabelledInput([0, 1], "a")], made, None) if made.config.class_names else None
    return made, made(torch.arange(7)[None]), labelled


def with_words(made):
    """A model or population, and how it reads a text where it has a grammar."""
    return made, made[0].to_tokens("()") if isinstance(made, Population) else made.to_tokens("()")


def after_training(**how):
    """The same once a finished run lies there."""
    train(out="x.safetensors")
    return train(out="x.safetensors", **how)


def above(*keywords):
    """Keywords that another entry of the same signature walks."""
    return dict.fromkeys(keywords, "walked above")


OWN = TransformerConfig(7, n_layers=1, d_model=8, d_head=8, d_mlp=8)
OWN_TRAINING = {"preset": OWN, "settings": DyckSettings(**SHORT)}

FUNCTIONS = {
    "parent": Entry(parent, {"number": (1, 2)}),
    "train_population": Entry(
        train,
        {
            "preset": ("dyck-minimal", "dyck-minimal-sum"),
            "seeds": (1, [3]),
            "grammar": (GRAMMAR, DyckGrammar(2, 3), OWN_TRAINING),
            "settings": (DyckSettings(**SHORT), DyckSettings(steps=3), {"preset": OWN, "grammar": GRAMMAR}),
            "options": (None, {"k": 3}),
            "steps": (2, 3),
            "batch": (2, 3),
            "out": (None, "x.safetensors"),
            "resume": (False, True),
            "workers": (1, 0),
            "device": ("cpu", "abacus"),
            "callback": (None, 3),
        },
        unwalked={"progress": "bars appear after two seconds: see test_progress.py"},
        like=interp.train_population,
    ),
    "train_population again": Entry(
        after_training,
        {"resume": (True, False)},
        unwalked=above(
            *("preset", "seeds", "grammar", "settings", "options", "steps", "batch", "out", "workers", "device"),
            *("progress", "callback"),
        ),
        like=interp.train_population,
    ),
    "load_checkpoint": Entry(interp.load_checkpoint, {"name_or_path": ("constructed/stack", "constructed/uniform")}),
    "save_checkpoint": Entry(
        interp.save_checkpoint,
        {
            "model": Pair(Made(model), Made(population), {"path": "a.safetensors"}),
            "path": Pair("a.safetensors", "b.safetensors", {"model": Made(model)}),
        },
    ),
    "list_pretrained": Entry(interp.list_pretrained, {}),
    "list_worlds": Entry(interp.list_worlds, {}),
    "get_world": Entry(interp.get_world, {"name": ("dyck", "topics")}),
    "check_world": Entry(
        interp.check_world,
        {
            "world": ("topics", "dyck", {"only": ["texts", "vouch"]}),
            "only": (["parts", "texts"], ["parts", "law"], {"world": "topics"}),
        },
    ),
    "load_foreign": Entry(
        loaded,
        {
            "source": (Made(foreign_state), Made(lambda: foreign_state(2.0))),
            "config": (FOREIGN, FOREIGN | {"act_fn": "gelu"}),
            "vocab": (None, BRACKETS),
            "grammar": (None, DyckGrammar(2, 3), {"vocab": BRACKETS}),
            "pad_token": (None, 3),
            "max_depth": (None, 3, {"vocab": BRACKETS}),
            "class_names": (list("abcdefg"), list("gfedcba")),
            "tokenizer": (None, "words", {}, "is none of transformers"),
            "task_check": (False, True, {"vocab": BRACKETS, "grammar": DyckGrammar(2, 3)}),
        },
        base={"source": Made(foreign_state), "config": FOREIGN, "task_check": False},
        unwalked={"verbose": "it prints: see test_foreign_ids.py"},
        like=interp.load_foreign,
    ),
    "grammar_from_dict": Entry(
        lambda data: grammar_from_dict(data).vocab, {"data": (GRAMMAR.to_dict(), DyckGrammar(3, 3).to_dict())}
    ),
}  # fmt: skip

ANOTHER = Vocabulary(["x", "y", "(", ")", "z", "[START]", "[PAD]"])
FIGURE = go.Figure(go.Scatter(y=[1, 2]))
UNIFORM = np.full((3, 3), 1 / 3)
browser = pytest.mark.skipif(find_browser() is None, reason="no Chromium or Chrome found")
PLOTS = {
    "attention_heatmap": Entry(
        interp.plots.attention_heatmap,
        {
            "model_or_patterns": (Made(model), Made(lambda: model(1))),
            "text_or_tokens": ("()", "[]"),
            "layer": (0, 1),
            "head": (0, 1),
            "overlay": (None, "stack_top"),
            "population": ("one", "grid", {"model_or_patterns": Made(population)}),
            "seed_labels": (None, ["a", "b"], {"model_or_patterns": Made(population), "population": "grid"}),
            "title": (None, "mine"),
            "grammar": (None, DyckGrammar(2, 3), {"text_or_tokens": "(((("}, "over max_depth 3"),
            "task_check": (False, True, {"model_or_patterns": Made(unlearned)}),
            "max_panels": (12, 1),
            "null": (None, "uniform"),
            "minus": (None, Made(lambda: model(1))),
        },
        base={"model_or_patterns": Made(model), "text_or_tokens": "()"},
    ),
    "heatmap of patterns": Entry(
        interp.plots.attention_heatmap,
        {"task_check": (True, False), "grammar": (None, GRAMMAR)},
        base={"model_or_patterns": UNIFORM},
        unwalked=above(
            *("model_or_patterns", "text_or_tokens", "layer", "head", "overlay", "population", "seed_labels", "title"),
            *("max_panels", "null", "minus"),
        ),
    ),
    "learning_curves": Entry(
        interp.plots.learning_curves,
        {"source": ("dyck-minimal", "dyck-standard"), "measures": (None, ["mass"])},
        {"source": "dyck-minimal"},
    ),
    "figure_html": Entry(
        interp.plots.figure_html, {"fig": (FIGURE, go.Figure()), "div_id": (None, "x")}, {"fig": FIGURE}
    ),
    "save_figure": Entry(
        interp.plots.save_figure,
        {
            "fig": (FIGURE, go.Figure()),
            "path": ("a.html", "b.html"),
            "include_plotlyjs": ("inline", "directory"),
            "scale": (None, 3.0),
        },
        base={"fig": FIGURE, "path": "a.html"},
    ),
}


def method(kind, name, make):
    """A method as a function of keywords, of an object that is made for each call and looked at afterwards."""

    def call(**keywords):
        one = make()
        return getattr(one, name)(**keywords), one

    return lambda **keywords: call(**keywords), getattr(kind, name)


def of(kind, make):
    """Entry of a method: `of(kind, make)(name, pairs, base)`."""

    def entry(name, pairs, base=None, **more):
        call, like = method(kind, name, make)
        return Entry(call, pairs, base or {}, like=like, **more)

    return entry


IDS = torch.tensor([[START, 0, 2, 3, 1], [START, 2, 3, PAD, PAD]])
CAUSAL = torch.ones(5, 5, dtype=torch.bool).tril()
ONE = torch.tensor([[START, 0, 1]])


def double(x, hook):
    return 2 * x


mine = of(SandboxTransformer, lambda: with_a_hook())
elsewhere = of(SandboxTransformer, lambda: model().to("meta"))
HOOK = {"name": "hook_embed", "hook": double}
MODEL = {
    "init": Entry(
        used(SandboxTransformer.init, with_words),
        {"config": (CONFIG, OWN), "seed": (0, 1), "grammar": (GRAMMAR, ANOTHER)},
        base={"config": CONFIG, "grammar": GRAMMAR},
        like=SandboxTransformer.init,
    ),
    "forward": mine(
        "forward",
        {
            "tokens": (IDS, IDS[:1]),
            "return_type": ("logits", "loss"),
            "visible": (None, CAUSAL),
            "positions": (None, torch.arange(5) + 1),
            "first": (0, 2),
            "stop_at_layer": (None, 1),
        },
        {"tokens": IDS},
    ),
    "visible_keys": mine("visible_keys", {"tokens": (IDS, IDS[:1])}),
    "run_with_cache": mine(
        "run_with_cache",
        {
            "tokens": (IDS, ONE),
            "return_cache_object": (True, False),
            "names_filter": (None, "hook_embed"),
            "device": (None, "abacus"),
            "remove_batch_dim": Pair(False, True, {"tokens": ONE}),
            "incl_bwd": Pair(False, True, {"return_type": "loss"}),
            # what TransformerLens and `forward` read of the rest
            "pos_slice": (None, 1),
            "reset_hooks_end": (True, False),
            "clear_contexts": (False, True),
            "return_type": ("logits", "loss"),
            "first": (0, 2),
        },
        {"tokens": IDS},
    ),
    "to_tokens": mine(
        "to_tokens",
        {
            "text": ("()", "[]"),
            "prepend_bos": (None, False),
            "padding_side": (None, "left", {"text": ["()", "[[]]"]}),
            "truncate": (False, True, {"text": "()()()()()"}),
        },
        {"text": "()"},
        unwalked={"move_to_device": "below, on another device"},
    ),
    "to_tokens elsewhere": elsewhere(
        "to_tokens",
        {"move_to_device": (None, False)},
        {"text": "()"},
        unwalked=above("text", "prepend_bos", "padding_side", "truncate"),
    ),
    "to_str_tokens": mine("to_str_tokens", {"text": ("()", "[]"), "prepend_bos": (None, False)}, {"text": "()"}),
    "to_single_token": mine("to_single_token", {"token": ("(", ")")}),
    "tokens_to_residual_directions": mine("tokens_to_residual_directions", {"tokens": ("(", 1)}),
    "accumulated_bias": of(SandboxTransformer, lambda: biased())(
        "accumulated_bias",
        {"layer": (1, 2), "mlp_input": (False, True), "include_mlp_biases": (True, False)},
        {"layer": 1},
    ),
}


def biased():
    made = model()
    with torch.no_grad():
        for i, (name, p) in enumerate(made.named_parameters()):
            if name.rsplit(".", 1)[-1].startswith("b_"):
                p.fill_(float(i))
    return made


def with_a_hook():
    """A lasting hook that changes nothing, and something in a hook point's context."""
    made = model()
    made.add_perma_hook("hook_embed", lambda x, hook: None)
    made.hook_dict["hook_embed"].ctx["kept"] = 1
    return made


hooked = of(NamedHooks, with_a_hook)
CACHING = {
    "incl_bwd": (False, True),
    "device": (None, "abacus"),
    "cache": (None, Made(lambda: {"kept": 1})),
}
NO_BATCH = {"remove_batch_dim": "read when the hooks run: walked with run_with_cache"}
HOOKS = {
    "add_hook": hooked(
        "add_hook",
        {
            "name": ("hook_embed", "hook_pos_embed"),
            "hook": (double, 3),
            "dir": ("fwd", "bwd"),
            "is_permanent": (False, True),
            "level": (None, 1),
            "prepend": (False, True),
        },
        HOOK,
    ),
    "get_caching_hooks": hooked(
        "get_caching_hooks",
        {"names_filter": (None, "hook_embed"), "pos_slice": (None, "last"), **CACHING},
        unwalked=NO_BATCH,
    ),
    "add_caching_hooks": hooked(
        "add_caching_hooks", {"names_filter": (None, "hook_embed"), **CACHING}, unwalked=NO_BATCH
    ),
}

ours = of(Population, population)
POPULATION = {
    "init": Entry(
        used(Population.init, with_words),
        {"config": (CONFIG, OWN), "seeds": ([0], [1]), "grammar": (GRAMMAR, ANOTHER)},
        base={"config": CONFIG, "seeds": [0], "grammar": GRAMMAR},
        like=Population.init,
    ),
    "from_models": Entry(Population.from_models, {"models": (Made(lambda: [model()]), Made(lambda: [model(1)]))}),
    "concat": Entry(
        Population.concat,
        {
            "parts": (
                Made(lambda: [population()[:1], population()[1:]]),
                Made(lambda: [population()[1:], population()[:1]]),
            )
        },
    ),
    "untrained": ours("untrained", {}),
    "to": ours("to", {"device": ("cpu", "meta")}),
    "at_step": ours("at_step", {"step": (4, 8)}),
    "final_metrics": ours("final_metrics", {}),
    "summary": ours("summary", {}),
}

BALANCED = np.array([[0, 2, 3, 1]])
brackets = of(DyckGrammar, lambda: DyckGrammar(3, 4))
LENGTHS = {"mode": ("complete", "prefix"), "min_length": (None, 4), "max_length": (None, 8)}
DYCK = {
    "parse": brackets(
        "parse",
        {"text": ("()", "[]"), "require_complete": (False, True, {"text": "("}, "open bracket")},
        {"text": "()"},
    ),
    "check_inputs": brackets(
        "check_inputs",
        {
            "tokens": ([[6, 0, 1]], [[6, 1, 0]], {}, "closes nothing"),
            "start": (False, True, {"tokens": [[0, 1]]}, "does not belong there"),
        },
        {"tokens": [[6, 0, 1]]},
    ),
    "format": brackets("format", {"tokens": ([0], [1]), "specials": Pair(False, True, {"tokens": [6, 0]})}),
    "to_tokens": brackets("to_tokens", {"texts": ("()", "[]")}),
    "length_distribution": brackets("length_distribution", {"min_length": (2, 4), "max_length": (26, 8)}),
    "fill": brackets(
        "fill",
        {"uniforms": (np.full((1, 4), 0.2), np.full((1, 4), 0.9)), "lengths": ([4], [2])},
        {"uniforms": np.full((1, 4), 0.2), "lengths": [4]},
    ),
    "fill_prefix": brackets("fill_prefix", {"uniforms": (np.full((1, 4), 0.2), np.full((1, 4), 0.9))}),
    "sample": brackets(
        "sample",
        {"count": (2, 3), "seed": (0, 1), **LENGTHS, "length": (28, 9, {"mode": "prefix"}), "stream": ("a", "b")},
        {"count": 2, "seed": 0},
    ),
    "sample complete": brackets(
        "sample", {"length": (None, 9)}, {"count": 2, "seed": 0},
        unwalked=above("count", "seed", "mode", "min_length", "max_length", "stream"),
    ),
    "sample prefix": brackets(
        "sample", {"min_length": (None, 4), "max_length": (None, 9)}, {"count": 2, "seed": 0, "mode": "prefix"},
        unwalked=above("count", "seed", "mode", "length", "stream"),
    ),
    **{
        name: brackets(name, {"tokens": (BALANCED, BALANCED[:, :2])})
        for name in ("depth", "partner", "stack_top", "unmatched")
    },
    "validate": brackets("validate", {"tokens": Pair([[0]], [[1]], refusal="closes nothing")}),
    "counterfactual": brackets(
        "counterfactual",
        {
            "tokens": (BALANCED, BALANCED[:, :3]), "position": (0, 1), "new_type": (None, 2),
            "seed": Pair(None, 0, {"new_type": 2}),
        },
        {"tokens": BALANCED, "position": 0},
    ),
    "next_token_probs": brackets(
        "next_token_probs", {"tokens": (np.array([[6, 0, 1]]), np.array([[6, 0, 2]])), **LENGTHS},
        {"tokens": np.array([[6, 0]])},
    ),
    "log_prob": brackets("log_prob", {"tokens": (BALANCED, BALANCED[:, :2]), **LENGTHS}, {"tokens": BALANCED}),
    "entropy_floor": brackets("entropy_floor", {**LENGTHS, "length": (28, 9, {"mode": "prefix"})}),
    "depth_only_floor": brackets(
        "depth_only_floor",
        {**LENGTHS, "length": (28, 9, {"mode": "prefix"}), "start_visible": (True, False)},
    ),
    "to_dict": brackets("to_dict", {}),
    "from_dict": Entry(DyckGrammar.from_dict, {"data": (GRAMMAR.to_dict(), DyckGrammar(2, 3).to_dict())}),
}  # fmt: skip

documents = of(TopicGrammar, lambda: TopicGrammar(3, 2, min_length=4, max_length=6))
TOPICS = {
    "small": Entry(TopicGrammar.small, {}),
    "tokenize": documents("tokenize", {"text": ("t0w0", "t0w1")}),
    "to_tokens": documents("to_tokens", {"texts": ("t0w0", "t0w1")}),
    "format": documents("format", {"tokens": ([1], [2])}),
    "sample": documents(
        "sample", {"count": (2, 3), "seed": (0, 1), "stream": ("documents", "b")}, {"count": 2, "seed": 0}
    ),
    "draw": documents(
        "draw",
        {
            "rng": (Made(lambda: np.random.default_rng(0)), Made(lambda: np.random.default_rng(1))),
            "count": Pair(2, 3, {"rng": Made(lambda: np.random.default_rng(0))}),
        },
        {"count": 2},
    ),
    "topic_subsets": Entry(TopicGrammar(3, 2, law="idealised").topic_subsets, {}),
    "word_law": Entry(TopicGrammar(3, 2, law="idealised").word_law, {}),
    "shown_law": documents("shown_law", {"words": (np.full(7, 1 / 7), np.eye(7)[1])}),
    "to_dict": documents("to_dict", {}),
    "from_dict": Entry(TopicGrammar.from_dict, {"data": (TopicGrammar(3, 2).to_dict(), TopicGrammar(3, 3).to_dict())}),
}

TABLES = {
    "interp": FUNCTIONS,
    "interp.plots": PLOTS,
    "SandboxTransformer": MODEL,
    "hooks": HOOKS,
    "Population": POPULATION,
    "DyckGrammar": DYCK,
    "TopicGrammar": TOPICS,
}
ALL = [(table, name, keyword) for table, entries in TABLES.items() for name, keyword in cases(entries)]


@pytest.mark.parametrize(("table", "name", "keyword"), ALL, ids=["-".join(case) for case in ALL])
@pytest.mark.slow
def test_a_keyword_changes_the_outcome_or_is_refused_by_name(table, name, keyword, tmp_path, capsys):
    check(TABLES[table][name], keyword, tmp_path, lambda: capsys.readouterr()[:])


# Names are whatever can be shown.
ANY_LABEL = {("interp.plots", "attention_heatmap", keyword) for keyword in ("seed_labels", "title")}


@pytest.mark.parametrize(
    ("table", "name", "keyword"),
    [case for case in ALL if case not in ANY_LABEL],
    ids=["-".join(case) for case in ALL if case not in ANY_LABEL],
)
def test_values_that_no_keyword_means_are_refused_in_our_words(table, name, keyword, tmp_path):
    check_odd(TABLES[table][name], keyword, tmp_path)


@pytest.mark.parametrize("table", TABLES)
def test_every_keyword_has_an_entry(table):
    assert not missing(TABLES[table])


def test_every_public_name_has_an_entry():
    """Classes are in test_constructors.py."""
    functions = {name for name, one in public(interp).items() if inspect.isfunction(one)}
    assert len(functions) >= 9
    assert not functions - {*FUNCTIONS, *PLOTS}
    for kind, table in (
        (SandboxTransformer, MODEL),
        (NamedHooks, HOOKS),
        (Population, POPULATION),
        (DyckGrammar, DYCK),
        (TopicGrammar, TOPICS),
    ):
        assert not covered(table, public_methods(kind)), kind
    assert not public_methods(CopyGrammar)
    assert public_methods(TransformerConfig) == {"to_dict", "from_dict"}
