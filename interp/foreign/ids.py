"""Whose token is which: names of a model's ids, and their mapping onto the tokens of a world."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from interp.checks import not_read, plain
from interp.errors import ConfigError, RequestError, quoted
from interp.foreign.files import read_json
from interp.grammars import Grammar
from interp.names import printable
from interp.registry import world_of, worlds
from interp.vocabulary import Vocabulary, checked_names, find_token, needed_nowhere, special_meaning
from interp.world import Adopted

SPECIAL = ("start", "end", "pad")
FEW = 64  # names of a vocabulary that may be meant as a world's, where a language model's are thousands
SHOWN = 16  # tokens of a mapping that are listed


@dataclass(frozen=True)
class Meaning:
    """What is known of a model's ids.

    - `names`: of every id, or None.  `language`: the grammar or vocabulary that its texts are in, or None.
    - `order`: for each id of the grammar the model's own, None for one that it lacks; None: the ids are the grammar's.
    - `said`: what was mapped, in words, or what kept it from being mapped; "" where there is nothing to say.
    """

    names: tuple[str, ...] | None = None
    language: Grammar | None = None
    order: tuple[int | None, ...] | None = None
    said: str = ""

    @property
    def outputs(self) -> tuple[int | None, ...]:
        """The same of logits: where one id is START and END, what it predicts is END."""
        assert self.order is not None
        start = getattr(self.language, "start", None)
        shared = start is not None and self.order[start] in [at for i, at in enumerate(self.order) if i != start]
        return tuple(None if shared and i == start else at for i, at in enumerate(self.order))


def read_meaning(
    vocab: Any,
    size: int,
    *,
    grammar: Grammar | None,
    max_depth: int | None,
    classifier: bool,
    longest: int,
    tokenizer_names: Sequence[str] | None = None,
    spare: Collection[str] = (),
) -> Meaning:
    """What `vocab` says of `size` ids, mapped onto `grammar`, or onto the first world that finds its tokens there.

    `vocab`: names (a list, or {name: id}); or what the user's ids or names mean ({0: "START", "L": "(", ...}: values
    are a world's tokens, or several for one id); or a JSON file of either. `spare`: names of the tokenizer's that no
    language needs. Raises `ConfigError`, `RequestError`.
    """
    if isinstance(vocab, (str, Path)):
        vocab = read_json(vocab, "vocab")
    meant = _meant(vocab, size, tokenizer_names)
    names = _names(vocab) if meant is None else None
    if names is None and meant is None and tokenizer_names is not None:
        names = tuple(tokenizer_names)
    if meant is not None:
        tokens = list(dict.fromkeys(token for each in meant.values() for token in each))
        ids: list[int] = [next(i for i, each in meant.items() if token in each) for token in tokens]
    else:
        tokens, ids = list(names or ()), list(range(len(names or ())))
    if names is not None and len(names) != size and vocab is not None:
        raise ConfigError(
            f"vocab names {len(names)} tokens, and the model has {size} ids: name each, or say what some of them mean "
            "by vocab={id: token, ...}"
        )
    found: Adopted | str | None = None
    if tokens or grammar is not None:
        found = _adopted(tokens, spare, grammar, max_depth, classifier, longest)
    if not isinstance(found, Adopted):
        why = "" if found is None else f": {found}"
        if meant is not None:
            raise RequestError(
                f"vocab says that ids mean {quoted(tokens)}, in which no world finds all its tokens, START "
                f"included{why or ': pass grammar=, whose vocab lists what ids are to mean'}"
            )
        if max_depth is not None:
            raise RequestError(
                f"max_depth={quoted(max_depth)} changes nothing here: it bounds a language, and no world finds its "
                f"tokens in vocab={why}; say what ids mean by vocab={{id: token, ...}}, or leave it out"
            )
        said = ""
        if why and len(tokens) <= FEW:
            said = f"mapped onto no world{why}; vocab={{id: token, ...}} says which ids are to mean what"
        return Meaning(names, None if names is None or vocab is None else Vocabulary.of(names), said=said)
    order = tuple(None if at is None else ids[at] for at in found.order)
    return Meaning(
        names, found.grammar, order, _said(found.grammar, order, tokenizer_names if names is None else names, size)
    )


def _meant(vocab: Any, size: int, known: Sequence[str] | None) -> dict[int, tuple[str, ...]] | None:
    """{id: what it means} where `vocab` says that, by ids or by the tokenizer's names; else None."""
    if not isinstance(vocab, Mapping) or not vocab:
        return None
    if not all(isinstance(value, (str, list, tuple)) for value in vocab.values()):
        return None
    out: dict[int, tuple[str, ...]] = {}
    for key, value in vocab.items():
        told = (value,) if isinstance(value, str) else tuple(value)
        at = plain(key)
        if isinstance(at, str) and known is not None and at in known:
            at = list(known).index(at)
        elif isinstance(at, str) and at.isascii() and at.isdigit():
            at = int(at)
        if isinstance(at, bool) or not isinstance(at, int):
            whose = "and no tokenizer tells its id" if known is None else "which is not a token of the tokenizer"
            raise ConfigError(f"vocab says what {quoted(key)} means, {whose}: give the id")
        if not 0 <= at < size:
            raise ConfigError(f"vocab says what id {at} means, and the model has ids 0 to {size - 1}")
        if not told or not all(isinstance(one, str) and one for one in told):
            raise ConfigError(f"vocab says that id {at} means {quoted(value)}: a token's text, or a list of texts")
        for one in told:
            if (before := next((i for i, each in out.items() if one in each), None)) is not None:
                raise ConfigError(
                    f"vocab says of ids {before} and {at} that they mean {quoted(one)}: each token has one id"
                )
        out[at] = told
    return out


def _names(vocab: Any) -> tuple[str, ...] | None:
    if isinstance(vocab, Mapping):
        vocab = {name: plain(i) for name, i in vocab.items()}
        ids = list(vocab.values())
        whole = all(isinstance(i, int) and not isinstance(i, bool) for i in ids)
        if not whole or sorted(ids) != list(range(len(ids))):
            raise ConfigError(f"vocab maps tokens to ids {quoted(ids)}: each of 0 to {len(ids) - 1} once is needed")
        vocab = [name for name, _ in sorted(vocab.items(), key=lambda item: item[1])]
    return None if vocab is None else checked_names(vocab)


def _adopted(
    names: Sequence[str],
    spare: Collection[str],
    grammar: Grammar | None,
    max_depth: int | None,
    classifier: bool,
    longest: int,
) -> Adopted | str | None:
    """The names as a world's, first all of them, then without those that none needs; or why not, or None."""
    needed = [i for i, name in enumerate(names) if name not in spare and not needed_nowhere(name)]
    if grammar is None:
        reason = None
        for places in [list(range(len(names))), needed] if len(needed) < len(names) else [needed]:
            for world in worlds():
                if world.adopt is not None:
                    told = [names[i] for i in places]
                    found: Adopted | str | None = world.load("adopt")(told, None, max_depth, classifier, longest)
                    if isinstance(found, Adopted):
                        return _placed(found, places)
                    reason = found or reason
        return reason
    home = world_of(grammar) if isinstance(getattr(grammar, "vocab_size", None), int) else None
    if home is None:
        known = ", ".join(sorted(kind.__name__ for one in worlds() for kind in one.grammars))
        raise RequestError(f"grammar={quoted(grammar)} is none that a vocabulary is mapped onto, such as {known}")
    not_read("grammar= has its own", max_depth=max_depth)
    if not names:
        raise RequestError("a grammar is matched to token ids by the vocabulary: pass vocab=, a list of strings")
    if home.adopt is not None:
        adopted: Adopted = home.load("adopt")([names[i] for i in needed], grammar, None, classifier, longest)
        return _placed(adopted, needed)
    return Adopted([_named(grammar, i, names) for i in range(grammar.vocab_size)], grammar)


def spare_names(tokenizer: Any) -> frozenset[str]:
    """A tokenizer's special tokens besides those with which texts begin and end and that fill up."""
    first = getattr(tokenizer, "bos_token", None) or getattr(tokenizer, "cls_token", None)
    last = getattr(tokenizer, "eos_token", None) or getattr(tokenizer, "sep_token", None)
    special = map(str, getattr(tokenizer, "all_special_tokens", ()))
    return frozenset(special) - {first, last, getattr(tokenizer, "pad_token", None)}


def _placed(found: Adopted, places: Sequence[int]) -> Adopted:
    """The same by places in all names, where it was found in some of them."""
    return replace(found, order=[None if at is None else places[at] for at in found.order])


def _named(grammar: Any, at: int, names: Sequence[str]) -> int | None:
    """The place in `names` of a grammar's token, by its name or, of a special one, by a usual name."""
    token = grammar.vocab[at]
    if token in names:
        return list(names).index(token)
    kind = next((kind for kind in SPECIAL if getattr(grammar, kind, None) == at), None)
    usual = [i for i, name in enumerate(names) if kind is not None and special_meaning(name) == kind]
    if len(usual) == 1:
        return usual[0]
    if kind in ("end", "pad"):
        return None
    raise RequestError(
        f"vocab {' '.join(names[:12])!r} has no {quoted(token)}: grammar={quoted(grammar)} needs "
        f"{' '.join(grammar.vocab[:12])}"
    )


def _said(grammar: Any, order: Sequence[int | None], names: Sequence[str] | None, size: int) -> str:
    """The mapping in a line: which id is which token."""

    def called(at: int) -> str:
        return f"id {at}" if names is None else f"{names[at]} (id {at})"

    pairs = [(at, grammar.vocab[i]) for i, at in enumerate(order) if at is not None]
    listed = ", ".join(printable(f"{called(at)} is {token}") for at, token in pairs[:SHOWN])
    more = f" and {len(pairs) - SHOWN} more" if len(pairs) > SHOWN else ""
    left = sorted(set(range(size)) - {at for at, _ in pairs})
    some = f"{', '.join(map(str, left[:8]))}{', ...' if len(left) > 8 else ''}"
    rest = f"; id{'s' * (len(left) > 1)} {some} {'is' if len(left) == 1 else 'are'} left out" if left else ""
    missing = [grammar.vocab[i] for i, at in enumerate(order) if at is None]
    without = f"; the model has no {', '.join(missing)}" if missing else ""
    return f"mapped onto {grammar!r}: {listed}{more}{rest}{without}"


def with_pad(told: Any, meaning: Meaning, size: int) -> tuple[int | None, Meaning]:
    """(id of PAD as the loaded model counts, the meaning that knows it)."""
    language, names, order = meaning.language, meaning.names, meaning.order
    pad = _pad(told, language, names, None if order is None else list(order), size)
    if isinstance(language, Vocabulary):
        return pad, replace(meaning, language=replace(language, pad=pad))
    return pad, meaning


def _pad(
    told: Any, language: Grammar | None, names: Sequence[str] | None, order: list[int | None] | None, size: int
) -> int | None:
    if told is None:
        return getattr(language, "pad", None)
    if isinstance(told, str):
        known = list(names or ())
        found = known.index(told) if told in known else find_token(Vocabulary.of(known or ["?"]), told)
        if found is None:
            raise ConfigError(f"pad_token={quoted(told)} is not in the vocabulary")
        told = found
    told = plain(told)
    if isinstance(told, bool) or not isinstance(told, int) or not 0 <= told < size:
        raise ConfigError(f"pad_token={quoted(told)} is not a token id below d_vocab={size}")
    named = repr(names[told] if names is not None else f"id {told}")
    if order is None:
        if told == getattr(language, "start", None):
            raise ConfigError(
                f"pad_token={told} is {named}, with which texts begin: no token attends to PAD, so it cannot be START "
                "too"
            )
        return told
    pad = getattr(language, "pad", None)
    if pad is None or order[pad] != told:
        raise ConfigError(
            f"pad_token={quoted(told)} is {named}: in a vocabulary that is mapped onto a grammar PAD is called so"
        )
    return int(pad)
