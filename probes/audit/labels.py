"""Inputs with labels: read, laid out as tokens, and the task that they make.

The margin of an input is logit(label) - logit(foil) where it is read. There is no minimal pair: the donor is another of
the inputs, of the same length, read at the same place and with another label, which is the foil. Or the user says what
an input is exchanged with (`donor`), and which answer it is held against (`foil`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from interp.checks import plain
from interp.errors import InterpError, RequestError, quoted
from interp.foreign.files import read_json
from interp.foreign.ours import is_classifier
from interp.guests import pad_of
from interp.rng import generator
from interp.vocabulary import find_token, padded
from probes.audit.tasks import Bools, Ints, Items
from probes.audit.thresholds import SHARED_DONOR

FIELDS = ("text", "label", "position", "donor", "foil")


@dataclass(frozen=True)
class LabelledInput:
    """One input of an audit.

    - `text`: a string, or a list of tokens, which is read exactly as it stands (ids where there is no vocabulary).
    - `label`: the right token, or class by name or number, or None: the input then counts for patterns only.
    - `position`: where it is read; negative ones count from the end of this text, before padding.
    - `donor`: the text that it is exchanged with, of as many tokens; None: another of the inputs.
    - `foil`: the answer that the label is held against, and that a donor speaks for: needed with a donor. Without one,
      only inputs with this label are donors; None: any other label.
    """

    text: str | Sequence[str | int]
    label: str | int | None = None
    position: int = -1
    donor: str | Sequence[str | int] | None = None
    foil: str | int | None = None


@dataclass(frozen=True)
class LaidOut:
    """`tokens` [input, pos], PAD on the right; `read`, `length`, `label` [input], -1 without a label; class names.

    `foil` [input]: -1 where any other label is one. `donors` [input, pos]: those that were given, `own` [input].
    """

    tokens: Ints
    read: Ints
    length: Ints
    label: Ints
    classes: tuple[str, ...]
    foil: Ints
    donors: Ints
    own: Bools

    @property
    def strata(self) -> Ints:
        """What the two halves of the inputs have alike [input, 3]: label, length and place that is read."""
        return np.stack([self.label, self.length, self.read], axis=1)

    def part(self, rows: Ints) -> "LaidOut":
        """These inputs alone."""
        arrays = ("tokens", "read", "length", "label", "foil", "donors", "own")
        return replace(self, **{name: getattr(self, name)[rows] for name in arrays})


@dataclass(frozen=True, eq=False)
class Labels:
    """The task of labelled inputs. `seen` [input, pos]: what the position that is read sees."""

    given: LaidOut
    seen: Bools
    name: str = "labels"
    words: str = "predict the label"
    needs: str = "have a donor (given; or another input of their length, read at the same place, with another label)"

    def items(self, tokens: Ints, grammar: Any, rows: Bools, seed: int) -> Items:
        return self.items_on(tokens, grammar, rows, seed, np.zeros((*tokens.shape, 1), dtype=bool))

    def items_on(self, tokens: Ints, grammar: Any, rows: Bools, seed: int, keys: Bools) -> Items:
        """Donors whose claimed `keys` [input, query, key] lie at the same places of the row read come first.

        No input is the donor of more than `SHARED_DONOR` others: effects would hang on a few.
        """
        g, rng = self.given, generator(seed, "audit/labels")
        asked = np.flatnonzero(rows[np.arange(len(tokens)), g.read] & (g.label >= 0))
        there = asked[~g.own[asked]]
        at_read = keys[there, g.read[there]]
        chosen: list[tuple[int, int]] = []
        used = np.zeros(len(tokens), dtype=np.int64)
        for i in rng.permutation(len(there)):
            input_, key = there[i], at_read[i]
            alike = (g.length[there] == g.length[input_]) & (g.read[there] == g.read[input_])
            alike &= (g.label[there] != g.label[input_]) & (used[there] < SHARED_DONOR)
            alike &= (g.label[there] == g.foil[input_]) | (g.foil[input_] < 0)
            same = alike & (at_read == key).all(-1)
            pool = there[same if same.any() else alike]
            if len(pool):
                pool = pool[used[pool] == used[pool].min()]
                donor = int(pool[rng.integers(len(pool))])
                used[donor] += 1
                chosen.append((int(input_), donor))
        given = [(int(input_), -1) for input_ in asked[g.own[asked]]]
        base, donor_of = np.array(sorted(chosen + given), dtype=np.int64).reshape(-1, 2).T
        own = donor_of < 0
        donors = np.where(own[:, None], g.donors[base], tokens[donor_of])
        foil = np.where(own, g.foil[base], g.label[donor_of])
        unit = np.where(own, len(tokens) + base, donor_of)
        return Items(base, tokens[base], donors, g.read[base], None, g.label[base], foil, self.seen[base], unit)


# -- reading ------------------------------------------------------------------------------------------------


def labelled(given: Any) -> list[LabelledInput] | None:
    """The entries of a file or list; None where `given` is of another kind. Raises `RequestError` for a bad entry."""
    if isinstance(given, Path):
        given = read_json(given, "inputs")
        if not isinstance(given, list) or not given:
            raise RequestError('the inputs are no JSON list of {"text": ..., "label": ..., "position": ...}')
        if not all(isinstance(entry, Mapping) for entry in given):
            given = [entry if isinstance(entry, Mapping) else {"text": entry} for entry in given]
    if not isinstance(given, (list, tuple)) or not any(isinstance(e, (Mapping, LabelledInput)) for e in given):
        return None
    return [_entry(number, entry) for number, entry in enumerate(given, start=1)]


def _entry(number: int, entry: Any) -> LabelledInput:
    if isinstance(entry, Mapping):
        if unknown := [key for key in entry if key not in FIELDS]:
            raise RequestError(f"entry {number}: {quoted(unknown[0])} is none of {', '.join(FIELDS)}")
        if "text" not in entry:
            raise RequestError(f"entry {number} has no 'text'")
        entry = LabelledInput(**entry)
    if not isinstance(entry, LabelledInput):
        raise RequestError(f"entry {number}: {quoted(entry)} is no {{'text': ..., 'label': ..., 'position': ...}}")
    entry = replace(entry, position=plain(entry.position), label=plain(entry.label), foil=plain(entry.foil))
    if isinstance(entry.position, bool) or not isinstance(entry.position, int):
        raise RequestError(f"entry {number}: position {quoted(entry.position)} is not a whole number")
    return entry


def lay_out(entries: Sequence[LabelledInput], model: Any, grammar: Any, free: bool = False) -> LaidOut:
    """Tokens, read positions and labels. `free`: labels are whatever is told apart, to be read by a probe.

    Raises `RequestError` quoting the number of the entry, from 1.
    """
    rows, read, labels, donors, foils = [], [], [], [], []
    limit = model.cfg.n_ctx if _bounded(model) else None
    classes = sorted({str(e.label) for e in entries if e.label is not None}) if free else _classes(model)
    numbers = {name: i for i, name in enumerate(classes or ())}
    for number, entry in enumerate(entries, start=1):
        ids = _ids(number, entry.text, grammar, model)
        if limit is not None and len(ids) > limit:
            raise RequestError(f"entry {number}: {len(ids)} tokens are more than the model's n_ctx={limit}")
        if not -len(ids) <= entry.position < len(ids):
            raise RequestError(
                f"entry {number}: position {quoted(entry.position)} is outside its text of {len(ids)} tokens: "
                f"{-len(ids)} to {len(ids) - 1}"
            )
        rows.append(ids)
        read.append(entry.position % len(ids))
        known = None if classes is None else numbers
        labels.append(_label(number, entry.label, known, model, grammar, free))
        foils.append(_label(number, entry.foil, known, model, grammar, free))
        donors.append(ids if entry.donor is None else _ids(number, entry.donor, grammar, model))
        _check_donor(number, entry, ids, donors[-1], labels[-1], foils[-1])
    pad = pad_of(model, grammar)
    kept = _distinct(rows, read, labels, pad)
    if pad is None and getattr(model.cfg, "attention_dir", "causal") == "causal":
        pad = 0  # any token will do: nothing before it sees it, and `make_inputs` is told the lengths
    try:
        tokens = padded([rows[i] for i in kept], pad)
    except InterpError as error:
        raise RequestError(f"inputs: {error}") from error
    column = [np.array([values[i] for i in kept], dtype=np.int64) for values in (read, labels, foils)]
    length = np.array([len(rows[i]) for i in kept], dtype=np.int64)
    own = np.array([entries[i].donor is not None for i in kept])
    given = padded([donors[i] for i in kept], pad)
    return LaidOut(tokens, column[0], length, column[1], tuple(classes or ()), column[2], given, own)


def _check_donor(number: int, entry: LabelledInput, ids: list[int], donor: list[int], label: int, foil: int) -> None:
    """A donor and a foil that can be one: of the same length, another text, another answer."""
    if (entry.donor is not None or entry.foil is not None) and label < 0:
        raise RequestError(f"entry {number} has a donor or a foil and no label, against which they are held")
    if foil >= 0 and foil == label:
        raise RequestError(f"entry {number}: foil {quoted(entry.foil)} is the label itself: give another answer")
    if entry.donor is None:
        return
    if foil < 0:
        raise RequestError(f"entry {number} has a donor and no foil: say which answer the donor speaks for")
    if len(donor) != len(ids) or donor == ids:
        what = "the text itself" if donor == ids else f"of {len(donor)} tokens, and the text of {len(ids)}"
        raise RequestError(f"entry {number}: donor {quoted(entry.donor)} is {what}: give another text of that length")


def _bounded(model: Any) -> bool:
    config = getattr(model, "config", None)
    return getattr(config, "positions", "learned") == "learned" and getattr(model.cfg, "n_ctx", None) is not None


def _classes(model: Any) -> list[str] | None:
    """Names of a classifier's outputs (numbers without), None for a language model."""
    config = getattr(model, "config", None)
    if config is not None and hasattr(config, "class_names"):
        if not is_classifier(config):
            return None
        return list(config.class_names or map(str, range(config.d_out)))
    outputs, tokens = getattr(model.cfg, "d_vocab_out", None), getattr(model.cfg, "d_vocab", None)
    return [str(i) for i in range(outputs)] if outputs is not None and outputs not in (-1, tokens) else None


def _ids(number: int, text: Any, grammar: Any, model: Any) -> list[int]:
    where = f"entry {number}"
    if isinstance(text, str):
        if grammar is None:
            raise RequestError(f"{where}: the model has no vocabulary to read a text with: give a list of token ids")
        try:
            ids = grammar.read(text) if hasattr(grammar, "read") else grammar.to_tokens([text])[0].tolist()
        except InterpError as error:
            raise RequestError(f"{where}: {error}") from error
    elif isinstance(text, (list, tuple)):
        ids = [_token(where, token, grammar, model) for token in text]
        if hasattr(grammar, "validate"):  # a language of strings, each of which begins with START
            ids = ids if ids[:1] == [grammar.start] else [grammar.start, *ids]
            try:
                grammar.validate(np.array(ids))
            except InterpError as error:
                raise RequestError(f"{where}: {error}") from error
    else:
        raise RequestError(f"{where}: text {quoted(text)} is neither a string nor a list of tokens")
    if not ids:
        raise RequestError(f"{where}: the text {quoted(text)} holds no token")
    return list(ids)


def _token(where: str, token: Any, grammar: Any, model: Any) -> int:
    if grammar is None:
        if isinstance(token, (int, np.integer)) and not isinstance(token, bool) and 0 <= token < model.cfg.d_vocab:
            return int(token)
        raise RequestError(f"{where}: {quoted(token)} is not a token id from 0 to {model.cfg.d_vocab - 1}")
    found = find_token(grammar, token) if isinstance(token, str) else None
    if found is None:
        hint = "" if isinstance(token, str) else " (tokens go by their names, not by ids)"
        raise RequestError(
            f"{where}: {quoted(token)} is not a token of the model's vocabulary{hint}; {_first(grammar)}"
        )
    return found


def _first(grammar: Any) -> str:
    return f"its first are {' '.join(grammar.vocab[:8])}"


def _label(number: int, label: Any, classes: dict[str, int] | None, model: Any, grammar: Any, free: bool) -> int:
    where = f"entry {number}: label"
    if label is None:
        return -1
    if isinstance(label, bool) or not isinstance(label, (str, int, np.integer)):
        raise RequestError(f"{where} {quoted(label)} is neither a string nor a whole number")
    if classes is None:
        return _token(where, label, grammar, model)
    if free:
        if str(label) not in classes:
            raise RequestError(f"{where} {quoted(label)} is a foil that no input has as its label: no probe tells it")
        return classes[str(label)]
    if isinstance(label, str):
        named = getattr(getattr(model, "config", None), "class_names", None)
        if not named or label not in classes:
            right = (
                f"classes are {', '.join(named)}" if named else "give class_names in the model's config, or a number"
            )
            raise RequestError(f"{where} {quoted(label)} names no class: {right}")
        return classes[label]
    if not 0 <= label < len(classes):
        raise RequestError(f"{where} {quoted(label)} is not a class from 0 to {len(classes) - 1}")
    return int(label)


def _distinct(rows: list[list[int]], read: list[int], labels: list[int], pad: int | None) -> list[int]:
    """Numbers of the first of equal entries, padding at their ends apart; the same text with another label or position
    is refused.
    """
    first: dict[tuple[int, ...], int] = {}
    for i, ids in enumerate(rows):
        bare = list(ids)
        while bare and bare[-1] == pad:
            bare.pop()
        j = first.setdefault(tuple(bare), i)
        if (read[i], labels[i]) != (read[j], labels[j]):
            but = "" if rows[i] == rows[j] else ", but for the padding that one of them ends with,"
            raise RequestError(
                f"entries {j + 1} and {i + 1} are the same text{but} with another label or position: give each text "
                "once"
            )
    return list(first.values())
