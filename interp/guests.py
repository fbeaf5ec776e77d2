"""What analyzers and pictures are given: models, grammars and inputs, read by one rule whatever holds them.

A model is a `SandboxTransformer`, a `TransformerBridge`, or anything hooked alike; several are a `Population` or a
list of models of one shape. A grammar reads texts, names tokens, and has as many tokens as the model. No exception of
a library, or of a guest's own code, leaves bare: see `guest_errors`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from inspect import signature
from textwrap import shorten
from threading import RLock
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from interp.errors import AnalysisError, InterpError, RequestError, quoted
from interp.names import nearest_name
from interp.numeric_arrays import id_array
from interp.registry import read_strings
from interp.settings import first_seed
from interp.tokenizer_vocabulary import TokenizerVocabulary
from interp.torch_modes import ordinary_torch

Ints = NDArray[np.int64]
MOST = 2**31
P = ParamSpec("P")
R = TypeVar("R")
# Hooks and modes are state of a model, so two measurements of one model at a time would read each other's: whoever
# measures holds this, and threads wait for each other. Whoever holds it may measure again.
_ONE_AT_A_TIME = RLock()
SHAPE = ("n_layers", "n_heads", "d_model", "d_head", "d_mlp", "n_ctx", "d_vocab", "d_vocab_out", "attention_dir")


# -- models -------------------------------------------------------------------------------------------------


def is_model(thing: Any) -> bool:
    """Whether it is one model with hooks: a `SandboxTransformer`, a `TransformerBridge`, ..."""
    return hasattr(thing, "hook_dict") and hasattr(thing, "cfg") and not isinstance(thing, type)


def is_bridge(model: Any) -> bool:
    """Whether it is TransformerLens's wrapper of someone else's model."""
    return hasattr(model, "original_model")


def name_of(model: Any) -> str:
    """What messages call a guest: its class, or where ours wraps it (`called`), what the user knows it by."""
    return str(model.called) if hasattr(type(model), "called") else type(model).__name__


def check_attention(guest: Any, who: str) -> None:
    """Raise `AnalysisError` for a model, or one of several, of which no attention can be seen."""
    for model in guest if isinstance(guest, (list, tuple)) else [guest]:
        if getattr(model, "shows_attention", True) is False:
            raise AnalysisError(
                f"{who}: {name_of(model)} gives logits alone, so its attention cannot be seen: return (logits, "
                "[patterns of each layer]) from the function that is passed to load_foreign"
            )


def gives_logits(model: Any) -> bool:
    """Whether it answers anything: arrays of patterns do not."""
    return bool(getattr(model, "gives_logits", True))


def models_of(given: Any, who: str) -> Sequence[Any]:
    """The models that were given, as a sequence: one, several of one shape and vocabulary, or a population.

    Raises `AnalysisError` for anything else, for an empty one, and for half precision; `RequestError` for models of
    different shapes.
    """
    if is_model(given):
        models: Sequence[Any] = [given]
    elif isinstance(given, str):
        raise AnalysisError(
            f"{who}: {quoted(given)} is a name, which shows no attention: pass the model, load_checkpoint(NAME) or "
            "load_foreign(FILE)"
        )
    elif not isinstance(given, Sequence) or isinstance(given, bytes):
        raise AnalysisError(
            f"{who}: {type(given).__name__} shows no attention: pass a SandboxTransformer, a TransformerBridge, a "
            "Population or a list of models"
        )
    else:
        models = given
    if len(models) == 0:
        raise AnalysisError(f"{who}: an empty population has nothing to measure: pass at least one model")
    if hasattr(models, "params"):  # of a population all have one config
        check_precision(models.params.items(), who)
        return models
    first, at = models[0], dict[int, int]()
    for i, model in enumerate(models):
        if (before := at.setdefault(id(model), i)) != i:
            raise RequestError(f"{who}: model {i} is model {before} again: each counts as a seed of its own, once")
        if not is_model(model):
            raise AnalysisError(
                f"{who}: model {i} of the list, {quoted(model)}, shows no attention: pass hooked models"
            )
        for name in SHAPE:
            here, there = getattr(model.cfg, name, None), getattr(first.cfg, name, None)
            if here != there:
                raise RequestError(
                    f"{who}: model {i} has {name}={quoted(here)} and model 0 {quoted(there)}: models measured together "
                    "are of one shape"
                )
        if hasattr(model, "named_parameters"):
            check_precision(model.named_parameters(), who)
    return models


def layers_and_heads(model: Any) -> tuple[int, int]:
    """How many layers, and heads in each, for estimates of memory: 1 where a model does not say."""
    cfg = getattr(model, "cfg", None)
    return int(getattr(cfg, "n_layers", None) or 1), int(getattr(cfg, "n_heads", None) or 1)


def check_precision(weights: Iterable[tuple[str, Any]], who: str) -> None:
    """Raise `AnalysisError` for a weight of less than 32 bits."""
    import torch

    for name, weight in weights:
        if weight.is_floating_point() and torch.finfo(weight.dtype).bits < 32:
            raise AnalysisError(
                f"{who}: {name} is {weight.dtype}, whose rounding is too coarse for weights that sum to 1: pass "
                "model.float()"
            )


def untrained_of(given: Any) -> Sequence[Any] | None:
    """The same config and seeds before training; None where first weights cannot be drawn again.

    So of a constructed model or a ticket (which nobody trained), of a bridge, of a foreign checkpoint.
    """
    if hasattr(given, "untrained"):
        return given.untrained() if _redrawn(given) else None
    models = [given] if is_model(given) else list(given)
    for model in models:
        seed = (getattr(model, "provenance", None) or {}).get("seed")
        known = isinstance(seed, int) and not isinstance(seed, bool) and hasattr(type(model), "init")
        if not known or not _redrawn(model) or model.provenance.get("trained") is False:
            return None
    return [
        type(m)
        .init(m.config, first_seed(m.provenance, m.provenance["seed"]), m.grammar)
        .to(m.device, next(m.parameters()).dtype)
        for m in models
    ]


def _redrawn(given: Any) -> bool:
    """Whether its weights were once those that config and seed give: not where the seed is a number given later."""
    told = getattr(given, "provenance", None) or {}
    return not told.get("constructed") and told.get("seeded", True)


# -- grammars and vocabularies --------------------------------------------------------------------------


def language_of(model: Any) -> TokenizerVocabulary | None:
    """The vocabulary of a bridge's tokenizer, None without."""
    if not is_bridge(model) or getattr(model, "tokenizer", None) is None:
        return None
    return TokenizerVocabulary(model.tokenizer, model.cfg.d_vocab, lambda text: model.to_tokens(text)[0])


def grammar_of(given: Any, models: Sequence[Any], grammar: Any, who: str) -> Any:
    """The grammar in force: the one passed, else the models' own, else None. Checked to fit every model.

    Raises `RequestError` for what is no grammar, for one of another number of tokens than a model, and where models
    of a list have different ones of their own.
    """
    if grammar is not None and not isinstance(getattr(grammar, "vocab_size", None), int):
        raise RequestError(
            f"{who}: grammar={quoted(grammar)} is not a grammar: pass one of a world, such as the model was trained "
            "on, or None"
        )
    if grammar is None:
        grammar = getattr(given, "grammar", None) or getattr(models[0], "grammar", None)
        for i, model in enumerate(() if hasattr(models, "params") else models):
            own = getattr(model, "grammar", None)
            if getattr(own, "vocab", None) != getattr(grammar, "vocab", None):
                raise RequestError(
                    f"{who}: model {i} has another vocabulary than model 0: models measured together have one; pass "
                    "grammar= if it is the same"
                )
    elif (own := getattr(models[0], "grammar", None)) is not None and _names_differ(own, grammar):
        raise RequestError(
            f"{who}: grammar={quoted(grammar)} names the tokens differently from the model's own {quoted(own)}: pass "
            "the grammar that it was trained on, or one with the same tokens"
        )
    if grammar is not None:
        check_fits(grammar, models[0], who)
    return grammar


def _names_differ(own: Any, grammar: Any) -> bool:
    """Whether a model that was trained on one grammar is to be read by another of as many tokens.

    Names that a user gave to ids say nothing of what they mean.
    """
    meant = hasattr(own, "sample") and hasattr(grammar, "sample")
    return meant and own.vocab_size == grammar.vocab_size and own.vocab != grammar.vocab


def check_fits(grammar: Any, model: Any, who: str) -> None:
    """Raise `RequestError` unless a grammar has as many tokens as the model, where both numbers are known."""
    size, known = getattr(grammar, "vocab_size", None), getattr(getattr(model, "cfg", None), "d_vocab", None)
    if isinstance(size, int) and isinstance(known, int) and size != known:
        raise RequestError(
            f"{who}: grammar={quoted(grammar)} has {size} tokens, and the model {known}: its token ids mean something "
            "else; pass the grammar it was trained on, or load it with load_foreign(..., vocab=[...])"
        )


# -- inputs -------------------------------------------------------------------------------------------------


def is_text(inputs: Any) -> bool:
    """Whether inputs are a text or several."""
    listed = isinstance(inputs, (list, tuple)) and len(inputs) > 0
    return isinstance(inputs, str) or (listed and all(isinstance(text, str) for text in inputs))


def read_tokens(inputs: Any, model: Any, grammar: Any, who: str) -> Ints:
    """Token ids [input, pos] of texts (read by `grammar`, else by the model's tokenizer) or of ids [pos], [input, pos].

    Raises `RequestError` (a text that breaks the grammar: `GrammarError`) for what is neither, for ids that the model
    does not know, and for texts where nothing can read them.
    """
    if is_text(inputs):
        tokens = read_texts([inputs] if isinstance(inputs, str) else list(inputs), model, grammar, who)
    else:
        tokens = _whole_ids(inputs, who)
    if 0 in tokens.shape:
        raise RequestError(f"{who}: inputs of shape {list(tokens.shape)} hold no token")
    check_ids(tokens, model, who)
    tokens = tokens.astype(np.int64)
    if hasattr(grammar, "check_inputs") and not is_text(inputs):
        # By the rule that texts are held to; whose grammar was only passed may have been trained without START.
        grammar.check_inputs(tokens, start=getattr(model, "grammar", None) is not None)
    return tokens


def read_texts(texts: Sequence[str], model: Any, grammar: Any, who: str) -> Ints:
    """Token ids [text, longest] of texts, PAD on the right where their lengths differ."""
    own = getattr(model, "grammar", None)
    read_by = next((one for one in (grammar, own, language_of(model)) if one is not None), None)
    if isinstance(read_by, TokenizerVocabulary):
        with guest_errors(who, model, f"cannot read {quoted(texts[0])}", RequestError):
            for text in texts:
                read_by.check_known(text)
    if own is not None and hasattr(model, "to_tokens") and grammar in (None, own):
        return np.asarray(model.to_tokens(list(texts)).cpu(), dtype=np.int64)
    if grammar is not None:
        return np.asarray(read_strings(grammar, list(texts)), dtype=np.int64)
    language = language_of(model)
    if language is None:
        raise RequestError(
            f"{who}: this model carries neither a grammar nor a tokenizer to read {quoted(texts[0])} with: pass token "
            "ids, or grammar="
        )
    with guest_errors(who, model, f"cannot read {quoted(texts[0])}", RequestError):
        return language.to_tokens(texts)


def _whole_ids(inputs: Any, who: str) -> Ints:
    """[input, pos] from a tensor, an array or nested lists of whole numbers."""
    kind = ", ".join(str(getattr(inputs, part)) for part in ("dtype", "layout", "device") if hasattr(inputs, part))
    neither = (
        f"{who}: inputs ({kind or quoted(inputs)}) are neither texts nor token ids of one length: give a text, a list "
        "of texts, or whole numbers [input, pos], not an array"
    )
    ids = id_array(inputs, neither, RequestError)
    ids = ids[None] if ids.ndim == 1 else ids
    if ids.ndim != 2:
        raise RequestError(f"{neither} of shape {list(ids.shape)}")
    return ids


def check_ids(tokens: Ints, model: Any, who: str) -> None:
    """Raise `RequestError` for a token id that the model does not have."""
    known = getattr(getattr(model, "cfg", None), "d_vocab", None)
    known = known if isinstance(known, int) and known > 0 else MOST  # no vocabulary is larger
    for bad in (int(tokens.min()), int(tokens.max())):
        if not 0 <= bad < known:
            raise RequestError(f"{who}: inputs hold token id {bad}, and the model knows ids 0 to {known - 1}")


def pad_of(model: Any, grammar: Any) -> int | None:
    """The id that fills up short inputs: the grammar's, the model's own, or its tokenizer's; None without one."""
    for pad in (getattr(grammar, "pad", None), getattr(getattr(model, "config", None), "pad_token", None)):
        if isinstance(pad, int):
            return pad
    language = language_of(model) if grammar is None else None
    return None if language is None else language.pad


def refuse_padding(tokens: Ints, model: Any, grammar: Any, who: str) -> None:
    """Raise `RequestError` for PAD among `tokens` [input, pos]: attention to padding cannot be told from attention."""
    pad = pad_of(model, grammar)
    if pad is not None and (found := np.argwhere(tokens == pad)).size:
        raise RequestError(
            f"{who}: input {found[0][0]} holds PAD (id {pad}) at position {found[0][1]}, so their lengths differ; one "
            "call takes inputs of one length"
        )


def longest_input(model: Any) -> int | None:
    """How many tokens a model takes, START included; None where nothing bounds them."""
    cfg, config = getattr(model, "cfg", None), getattr(model, "config", None)
    if getattr(config, "bounded", None) is False:
        return None  # ours: without positions, or with a direction times the position
    most = getattr(cfg, "n_ctx", None)
    return most if isinstance(most, int) and most > 0 else None


def check_length(model: Any, length: int, who: str) -> None:
    """Raise `AnalysisError` for inputs of more tokens than the model takes."""
    most = longest_input(model)
    if most is not None and length > most:
        raise AnalysisError(
            f"{who}: inputs of {length} tokens are more than the model's n_ctx={most}: give shorter ones"
        )


@contextmanager
def undisturbed(model: Any) -> Iterator[None]:
    """Eval mode inside; the mode of every module as it was outside. A plain callable has none.

    One thread at a time is inside, whatever its model: see `_ONE_AT_A_TIME`.
    """
    with _ONE_AT_A_TIME:
        wrapped: Any = getattr(model, "original_model", None)  # of a bridge, which does not list its modules
        parts = [part for part in (model, wrapped) if hasattr(part, "modules")]
        modes = [(module, module.training) for part in parts for module in part.modules()]
        try:
            for module, training in modes:
                if training:  # a bridge has thousands, and torch takes its time to set what is set
                    module.training = False
            yield
        finally:
            for module, training in modes:
                if module.training != training:
                    module.training = training


# -- what guests raise --------------------------------------------------------------------------------------


@contextmanager
def guest_errors(who: str, model: Any, doing: str = "fails", kind: type[InterpError] = AnalysisError) -> Iterator[None]:
    """Turn whatever a guest raises, bar our own errors, into one of `kind`, in one line, with its cause."""
    try:
        yield
    except InterpError:
        raise
    except Exception as error:  # a library, a tokenizer, a user's hook or module: they raise what they like
        said = shortened(error)
        told = f"{type(error).__name__}: {said}" if said else type(error).__name__
        raise kind(f"{who}: {name_of(model)} {doing} ({told})") from error


def shortened(error: Exception) -> str:
    """The first line of what an exception says, with what a colon at its end announces; not cut within a word."""
    lines = str(error).strip().splitlines() or [""]
    return shorten(" ".join(lines if lines[0].rstrip().endswith(":") else lines[:1]), 200, placeholder=" ...")


def _with_nearest(said: str, known: Iterable[str]) -> str:
    """Python's words for a keyword that does not exist, with the nearest that does."""
    wrong = said.rpartition("keyword argument ")[2].strip("'")
    near = nearest_name(wrong, known) if "unexpected keyword" in said else None
    return said if near is None else f"{said}: did you mean {near!r}?"


def _own_inputs(guest: Any) -> dict[str, Any]:
    """What a guest that was measured on inputs of its own brings for them, by parameter: all, or for a picture one."""
    first = guest[0] if isinstance(guest, (list, tuple)) and guest else guest
    own = first.own_inputs if hasattr(type(first), "own_inputs") else None
    return {} if own is None else {"inputs": own, "text_or_tokens": own[:1]}


def hosting(who: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate an entry point whose first argument is a guest: all that it raises is an `InterpError`.

    A guest that was measured on inputs of its own (`own_inputs`) is asked about those, where the caller names none.
    Inside, torch is in none of the modes that the caller may have set (`ordinary_torch`), and no other thread measures
    anything (`_ONE_AT_A_TIME`).
    A wrong call (a keyword that does not exist) is Python's own `TypeError`, as everywhere.
    """

    def decorate(run: Callable[P, R]) -> Callable[P, R]:
        shape = signature(run)

        @wraps(run)
        def hosted(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                bound = shape.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{run.__name__}() {_with_nearest(str(error), shape.parameters)}") from None
            guest = args[0] if args else next(iter(kwargs.values()), None)
            for name, own in _own_inputs(guest).items():
                if name in shape.parameters and bound.arguments.get(name) is None:
                    bound.arguments[name] = own
            with _ONE_AT_A_TIME, ordinary_torch(), guest_errors(who, guest, "could not be measured"):
                check_attention(guest, who)
                return run(*bound.args, **bound.kwargs)

        return hosted

    return decorate
