"""One rule at every entry point: whatever holds a model, the same request gets the same kind of answer."""

import copy
import inspect

import numpy as np
import pytest
import torch

import interp.plots
import probes
from interp import load_checkpoint
from interp.config import TransformerConfig
from interp.errors import AnalysisError, InterpError, RequestError
from interp.grammars import CopyGrammar, DyckGrammar
from interp.model import SandboxTransformer
from interp.plots import attention_heatmap
from interp.population import Population
from interp.task_check import DRAWN, check_task
from probes import (
    analyze_balance,
    analyze_stack_likeness,
    analyze_topic_blocks,
    analyze_two_stages,
    analyze_variation,
    audit_claim,
    demonstrate_lottery_ticket,
    demonstrate_shared_matrix,
    scan_heads,
)

GRAMMAR = DyckGrammar(2, 4)
TEXT = "[[]]()"
CLAIM = "L1H0 attends to the previous token"
SHORT = {"num_inputs": 60, "length": 12}


def stack(model, **how):
    return analyze_stack_likeness(model, **how)


def balance(model, **how):
    return analyze_balance(model, num_inputs=4, length=6, **how)


def variation(model, **how):
    return analyze_variation(model, TEXT, **how)


def audit(model, **how):
    return audit_claim(model, CLAIM, **SHORT, **how)


def scan(model, **how):
    return scan_heads(model, ["previous"], **SHORT, **how)


def heatmap(model, **how):
    return attention_heatmap(model, TEXT, **how)


ENTRIES = [stack, balance, variation, audit, scan, heatmap]
every_entry = pytest.mark.parametrize("entry", ENTRIES, ids=lambda f: f.__name__)


@pytest.fixture(scope="module")
def trained() -> Population:
    return load_checkpoint("dyck-standard")[:3]


def native(n_ctx: int = 64, seed: int = 0):
    bridges = pytest.importorskip("transformer_lens.model_bridge")
    torch.manual_seed(seed)
    cfg = {"n_layers": 2, "d_model": 8, "n_ctx": n_ctx, "d_head": 4, "n_heads": 1, "d_vocab": 7, "act_fn": "relu"}
    return bridges.TransformerBridge.boot_native(cfg)


def given(entry, models):
    """Variation compares models; everything else takes one as well."""
    return models if entry is variation else models[0]


def renamed(model: SandboxTransformer, order: list[int]) -> SandboxTransformer:
    """The same model with other token ids: its token `order[i]` is called i."""
    other = copy.deepcopy(model)
    other.provenance = {}
    with torch.no_grad():
        other.embed.W_E.copy_(model.embed.W_E[order])
        other.unembed.W_U.copy_(model.unembed.W_U[:, order])
        other.unembed.b_U.copy_(model.unembed.b_U[order])
    return other


# ---- grammars ------------------------------------------------------------------------------------


@every_entry
@pytest.mark.parametrize("wrong", [DyckGrammar(3, 4), DyckGrammar(1, 4), CopyGrammar(4, 2)], ids=str)
def test_a_grammar_of_another_vocabulary_is_refused_everywhere(entry, wrong, trained):
    with pytest.raises(RequestError, match=f"has {wrong.vocab_size} tokens, and the model 7"):
        entry(given(entry, trained), grammar=wrong)


@every_entry
@pytest.mark.parametrize("wrong", ["dyck", 3, {}, TransformerConfig(7)], ids=lambda x: type(x).__name__)
def test_what_is_no_grammar_is_refused_everywhere(entry, wrong, trained):
    with pytest.raises(RequestError, match="is not a grammar"):
        entry(given(entry, trained), grammar=wrong)


@every_entry
def test_a_grammar_reads_texts_and_names_tokens_of_a_bridge(entry):
    bridges = [native(seed=0), native(seed=1)]
    found = entry(given(entry, bridges), grammar=GRAMMAR, task_check=False)
    assert found is not None
    if entry is heatmap:
        assert "[" in found.data[0].y[1]
    if entry is variation:
        assert (found.positions, found.inputs) == (1 + len(TEXT), (TEXT,))


@every_entry
def test_without_grammar_and_tokenizer_a_bridge_is_refused_in_one_line(entry):
    bridges = [native(seed=0), native(seed=1)]
    if entry in (audit, scan):  # whose inputs are then drawn from its ids
        found = entry(given(entry, bridges))
        assert "random tokens, a stretch of which comes twice" in found.drawn
        return
    with pytest.raises(InterpError, match="grammar") as caught:
        entry(given(entry, bridges))
    assert "\n" not in str(caught.value)


def test_models_of_other_vocabularies_are_not_measured_together(trained):
    odd = SandboxTransformer(trained.config, None, {"settings": {}})
    for entry in ENTRIES[:-1]:
        with pytest.raises(RequestError, match="model 1 has another vocabulary than model 0"):
            entry([trained[0], odd])


# ---- does it speak the grammar? ------------------------------------------------------------------


@every_entry
def test_a_model_of_other_token_ids_is_refused_and_told_the_cure(entry, trained):
    others = [renamed(model, [4, 6, 5, 0, 1, 2, 3]) for model in trained]  # START, PAD, END first: a usual order
    with pytest.raises(AnalysisError, match=r"token ids.*vocab=.*task_check=False"):
        entry(given(entry, others))
    entry(given(entry, others), task_check=False)


@every_entry
@pytest.mark.slow
def test_a_stranger_who_speaks_the_grammar_is_measured_and_what_it_can_is_said(entry, trained):
    strangers = [renamed(model, list(range(7))) for model in trained]
    found = entry(given(entry, strangers))
    if entry is heatmap:
        assert "not trained here" in str(found.layout.title)
        return
    result = found
    assert result.task_check.accuracy.value > 0.9
    assert result.task_check.accuracy.null == 0.5
    assert "not trained here" in found.summary()
    assert max(map(len, result.summary().splitlines())) <= 80
    assert result.to_dict()["task_check"]["accuracy"]["null"] == 0.5
    ours = entry(given(entry, list(trained)))
    assert ours.task_check is None


@pytest.mark.parametrize(
    "grammar", [DyckGrammar(2, 4), DyckGrammar(1, 4), DyckGrammar(3, 1), CopyGrammar(2, 4)], ids=str
)
def test_perfect_and_guessing_predictors_fall_on_their_sides(grammar):
    def right(tokens):
        from interp.worlds.dyck.exam import questions as _questions

        asked, answer, _ = _questions(tokens.numpy(), grammar)
        logits = torch.zeros(*tokens.shape, grammar.vocab_size)
        logits.scatter_(-1, torch.from_numpy(np.where(asked, answer, 0))[..., None], 5.0)
        return logits

    found = check_task([right], grammar, None, 0, "test")
    assert (found.accuracy.value, found.drawn) == (1.0, DRAWN)
    guess = torch.randn(grammar.vocab_size, generator=torch.Generator().manual_seed(0))
    for wrong in (
        lambda tokens: torch.zeros(*tokens.shape, grammar.vocab_size) + guess,
        lambda tokens: torch.randn(*tokens.shape, grammar.vocab_size, generator=torch.Generator().manual_seed(1)),
        lambda tokens: -right(tokens),
    ):
        with pytest.raises(AnalysisError, match="token ids"):
            check_task([wrong], grammar, None, 0, "test")
        assert check_task([wrong], grammar, None, 0, "test", wanted=False) is None


@pytest.mark.parametrize(("share", "refused"), [(0.6, True), (0.85, False)])
def test_the_bound_of_chance_from_both_sides(share, refused):
    """Right in a `share` of places by lot: the interval's lower end must pass .55."""

    def model(tokens):
        from interp.worlds.dyck.exam import questions as _questions

        asked, answer, _ = _questions(tokens.numpy(), GRAMMAR)
        lot, answer = np.random.default_rng(0).random(answer.shape) < share, np.where(asked, answer, 1)
        closer = np.where(lot, answer, 4 - answer)
        logits = torch.zeros(*tokens.shape, 7)
        return logits.scatter_(-1, torch.from_numpy(closer)[..., None], 5.0)

    if refused:
        with pytest.raises(AnalysisError, match=r"at chance|not legal"):
            check_task([model], GRAMMAR, None, 0, "test")
    else:
        found = check_task([model], GRAMMAR, None, 0, "test")
        assert found.accuracy.low > 0.55
        assert "probably not those of" in str(found)  # .85 of what it writes is legal


def test_few_inputs_are_joined_by_drawn_ones_and_many_are_not():
    def right(tokens):
        return load_checkpoint("constructed/stack")(tokens)

    few = GRAMMAR.to_tokens(["([()])"])
    many = GRAMMAR.to_tokens(GRAMMAR.sample(50, mode="prefix", length=12, seed=3))
    found = check_task([right], GRAMMAR, few, 0, "test")
    assert 0 < found.drawn <= DRAWN  # those in which something is asked
    assert found.accuracy.n == found.drawn + len(few)
    assert check_task([right], GRAMMAR, many, 0, "test").drawn == 0


# ---- nulls ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", [stack, balance, variation], ids=lambda f: f.__name__)
@pytest.mark.slow
def test_models_and_lists_get_the_untrained_null_that_populations_get(entry, trained):
    def null(result):
        if entry is balance:
            return [result.beta.null]
        if entry is stack:
            return [e.null["untrained"] for row in result.score for e in row]
        return [e.null["untrained"] for e in result.variation]

    whole, listed = null(entry(trained)), null(entry(list(trained)))
    assert None not in whole
    assert listed == whole
    if entry is not variation:
        assert null(entry(trained[0])) == null(entry(trained[:1]))


@pytest.mark.slow
def test_constructed_and_foreign_models_have_no_untrained_null():
    made = analyze_stack_likeness(load_checkpoint("constructed/stack"))
    assert made.untrained is None
    assert analyze_stack_likeness(native(), grammar=GRAMMAR, task_check=False).untrained is None


# ---- what guests cannot do -----------------------------------------------------------------------


@every_entry
def test_a_guest_that_raises_is_told_of_in_one_line_and_left_as_it_was(entry, trained):
    models = list(trained)

    def stop(x, hook):
        raise ZeroDivisionError("of my own\nand more")

    for model in models:
        model.train()
        model.add_hook("blocks.1.hook_resid_pre", stop)
    with pytest.raises(AnalysisError, match="ZeroDivisionError: of my own") as caught:
        entry(given(entry, models))
    assert "\n" not in str(caught.value)
    assert any(isinstance(e, ZeroDivisionError) for e in (caught.value.__cause__, caught.value.__context__))
    assert all(model.training for model in [given(entry, models)] if entry is not variation)
    assert len(models[0].hook_dict["blocks.1.hook_resid_pre"].fwd_hooks) == 1


@pytest.mark.parametrize("entry", [variation, stack, balance, audit], ids=lambda f: f.__name__)
def test_interruptions_pass_through(entry, trained):
    models = list(trained)

    def stop(x, hook):
        raise KeyboardInterrupt

    models[0].add_hook("blocks.1.hook_resid_pre", stop)
    with pytest.raises(KeyboardInterrupt):
        entry(given(entry, models))


@every_entry
def test_inputs_longer_than_a_bridge_takes_are_refused_by_name(entry):
    bridges = [native(5, seed=0), native(5, seed=1)]
    how = {"length": 28} if entry is stack else {}  # where none is given, strings are drawn that fit
    with pytest.raises(InterpError, match=r"are more than the model's n_ctx=5:|n_ctx=5 has no room for"):
        entry(given(entry, bridges), grammar=GRAMMAR, task_check=False, **how)


@pytest.mark.parametrize("n_ctx", [12, 15, 37, 64, 93])
@pytest.mark.parametrize("length", [3, 6, 28])
@pytest.mark.slow
def test_balance_inserts_what_n_ctx_has_room_for_or_says_what_fits(n_ctx, length):
    needed = 1 + 2 * GRAMMAR.max_depth + length
    bridge = native(n_ctx)
    if needed > n_ctx:
        with pytest.raises(AnalysisError, match=f"length={n_ctx - 9} is the longest that fits"):
            analyze_balance(bridge, grammar=GRAMMAR, length=length, num_inputs=3, task_check=False)
    else:
        counts = analyze_balance(bridge, grammar=GRAMMAR, length=length, num_inputs=3, task_check=False).by_count
        wanted = [1, 2, 3, 4] + [c for c in (8, 16, 32) if 1 + 2 * c + length <= n_ctx]
        assert list(counts) == wanted


@every_entry
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_refused_everywhere(entry, dtype, trained):
    models = [model.to(dtype) for model in trained]
    with pytest.raises(AnalysisError, match=r"pass model\.float\(\)"):
        entry(given(entry, models))


@every_entry
@pytest.mark.parametrize(
    "wrong", [None, 3, "dyck-standard", [], object(), [None, None], torch.nn.Linear], ids=lambda x: type(x).__name__
)
def test_what_is_no_model_is_refused_everywhere(entry, wrong):
    with pytest.raises(InterpError):
        entry(wrong)


# ---- ids -----------------------------------------------------------------------------------------

TAKE_INPUTS = {
    "variation": lambda p, x: analyze_variation(p, x),
    "stack": lambda p, x: analyze_stack_likeness(p[0], x),
    "audit": lambda p, x: audit_claim(p[0], CLAIM, x),
    "heatmap": lambda p, x: attention_heatmap(p[0], x),
}


@pytest.mark.parametrize("name", TAKE_INPUTS)
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ([[4, 0, 1, 99]], "token id 99, and the model knows ids 0 to 6"),
        ([[4, 0, 1, -1]], "token id -1, and the model knows ids 0 to 6"),
        ([[4.0, 0.5]], "neither texts nor token ids"),
        ([[4, 0, 0], [4, 0]], "neither texts nor token ids"),
        ({"a": 1}, "neither texts nor token ids"),
        (np.zeros((2, 2, 2), int), "neither texts nor token ids"),
        (torch.zeros(2, 3, dtype=torch.bfloat16), "neither texts nor token ids"),
        (5, "neither texts nor token ids"),
        (["()", 3], "neither texts nor token ids"),
        (np.zeros((0, 3), int), "hold no token"),
    ],
    ids=str,
)
def test_ids_are_read_by_one_rule(name, wrong, words, trained):
    with pytest.raises(InterpError, match=words):
        TAKE_INPUTS[name](trained, wrong)


@pytest.mark.parametrize("name", ["variation", "stack", "heatmap"])
@pytest.mark.slow
def test_text_ids_arrays_and_tensors_are_the_same_input(name, trained):
    def answer(x):
        found = TAKE_INPUTS[name](trained, x)
        return [trace.z for trace in found.data] if name == "heatmap" else found.to_dict()

    ids = GRAMMAR.to_tokens(TEXT)
    told = answer(TEXT)
    for same in (ids, torch.from_numpy(ids), ids.tolist(), ids[0], torch.from_numpy(ids[0]).int()):
        found = answer(same)
        if name == "heatmap":
            assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(found, told, strict=True))
        else:
            assert found == told


def test_an_input_without_choice_has_no_variation(trained):
    for empty in ("", [[4]], [""]):
        with pytest.raises(RequestError, match="leave attention no choice"):
            analyze_variation(trained, empty)


def test_a_call_that_python_would_refuse_stays_pythons_own_error(trained):
    for entry in (analyze_stack_likeness, analyze_balance, analyze_variation, analyze_topic_blocks, scan_heads):
        with pytest.raises(TypeError, match="nonsense"):
            entry(trained, nonsense=1)
    for entry in (analyze_two_stages, demonstrate_lottery_ticket):
        with pytest.raises(TypeError):
            entry()
    with pytest.raises(TypeError):
        demonstrate_shared_matrix(trained)


# ---- every public function -----------------------------------------------------------------------


class Broken:
    """A guest of which nothing can be asked."""

    def __getattr__(self, name):
        raise KeyError(name)


PUBLIC = {
    f"{package.__name__}.{name}": getattr(package, name)
    for package in (probes, interp.plots)
    for name in package.__all__
    if inspect.isfunction(getattr(package, name)) and not name.startswith("check_")  # suites, which take no guest
}
BESIDE = {
    "probes.audit_claim": ("L0H0 attends to START",),
    "probes.audit_claims": (["L0H0 attends to START"],),
    "probes.demonstrate_shared_matrix": (Broken(),),
    "interp.plots.attention_heatmap": ("()",),
    "interp.plots.save_figure": ("figure.html",),
}


@pytest.mark.parametrize("name", PUBLIC)
@pytest.mark.parametrize("guest", [Broken(), [Broken(), Broken()]], ids=["one", "two"])
def test_a_guest_of_which_nothing_can_be_asked_is_refused_everywhere(name, guest, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InterpError) as caught:
        PUBLIC[name](guest, *BESIDE.get(name, ()))
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["probes.audit_claims", "probes.scan_heads", "probes.analyze_balance"])
def test_a_guest_that_breaks_on_the_way_is_refused_everywhere(name, trained):
    """What `cfg` raises where it is asked for a number, with everything else in place."""

    class Config:
        def __getattr__(self, attribute):
            raise KeyError(attribute)

    models = list(trained)
    for model in models:
        monkey = type("Changed", (type(model),), {"cfg": property(lambda self: Config())})
        model.__class__ = monkey
    for guest in (models[0], models):
        with pytest.raises(InterpError, match="KeyError") as caught:
            PUBLIC[name](guest, *BESIDE.get(name, ()))
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("turn", [1, -1], ids=["callable first", "model first"])
def test_a_mixed_list_is_refused_whatever_stands_first(turn, trained):
    mixed = [trained[0].forward, trained[0]][::turn]
    for entry in (balance, stack, variation, audit, scan, heatmap):
        with pytest.raises(InterpError, match=r"in one list|shows no attention|of type object"):
            entry(mixed, grammar=GRAMMAR)


@pytest.mark.parametrize("name", TAKE_INPUTS)
@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", ">i4"])
@pytest.mark.slow
def test_ids_of_any_integer_type_are_the_same_input(name, kind, trained):
    if name == "audit":  # wants many inputs
        ids = GRAMMAR.to_tokens(GRAMMAR.sample(40, mode="prefix", length=8, seed=0)).astype(kind)
    else:
        ids = GRAMMAR.to_tokens("([])").astype(kind)
    TAKE_INPUTS[name](trained, ids)
    wrong = ids.copy()
    wrong[0, 1] = np.iinfo(kind).max
    with pytest.raises(InterpError, match=rf"(token id|holds) {np.iinfo(kind).max}[,:]"):
        TAKE_INPUTS[name](trained, wrong)
