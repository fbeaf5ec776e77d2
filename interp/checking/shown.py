"""Checks of what a world shows and lends: overlays, oracle embeddings, exams, constructed models, vocabularies."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from interp.checking.reading import reads_back
from interp.checking.subject import Ints, Subject, check_ids, check_mask, inputs_of, name_of
from interp.checking.suite import must
from interp.checkpoints import load_checkpoint
from interp.errors import quoted
from interp.model import SandboxTransformer
from interp.patterns import attention_patterns
from interp.plots import attention_heatmap
from interp.plots.arrays import check_patterns, even_pattern
from interp.world import load

STRANGE = ("zq-1", "zq-2", "zq-3")  # a vocabulary that is not a world's


def check_overlays(subject: Subject) -> None:
    """A value a position, in the range of its kind, that a heatmap draws."""
    for grammar, tokens in subject.asked():
        for name, overlay in subject.world.overlays.items():
            said = f"overlay {quoted(name)} of {name_of(grammar)}"
            must(isinstance(overlay.about, str) and overlay.about, f"{said} does not say what it shows")
            back = overlay.kind == "targets" and reads_back(subject, grammar)
            for row in tokens:
                values = np.asarray(overlay.of(row, grammar))
                if overlay.kind == "targets" and values.ndim == 2:  # several keys a query: the last of each
                    must(values.dtype == bool, f"{said} gives {values.dtype} by query and key: truth values are needed")
                    must(
                        values.shape == 2 * (len(row),), f"{said} has shape {list(values.shape)} for {len(row)} tokens"
                    )
                    values = np.where(values, np.arange(len(row)), -1).max(1)
                _check_values(values, overlay, len(row), said)
                beyond = np.flatnonzero(back & (values > np.arange(len(row))))
                for at in beyond[:1]:
                    must(False, f"{said} gives query {at} the key {values[at]}, which comes after it")
            row = tokens[0][tokens[0] != getattr(grammar, "pad", None)]  # which heatmaps cut off
            for causal in (True, False):
                attention_heatmap(even_pattern(len(row), causal), row, overlay=name, grammar=grammar)


def _check_values(values: np.ndarray, overlay: Any, n: int, said: str) -> None:
    must(values.dtype.kind in "iu", f"{said} gives {values.dtype}, and whole numbers are needed")
    must(values.shape == (n,), f"{said} has shape {list(values.shape)}, and {[n]} is needed")
    ranges = {"targets": (-1, n - 1), "levels": (0, None), "groups": (-1, None)}
    must(overlay.kind in ranges, f"{said} is of kind {quoted(overlay.kind)}, which is none of {', '.join(ranges)}")
    least, most = ranges[overlay.kind]
    must(values.min() >= least, f"{said} holds {values.min()}, below {least}")
    must(most is None or values.max() <= most, f"{said} holds {values.max()}, and the last key is {most}")
    words = overlay.name(int(values.max()))
    must(isinstance(words, str) and words, f"{said} calls {values.max()} {quoted(words)}, which is not a name")


def check_embeddings(subject: Subject) -> None:
    """An oracle first layer has the width it announces, reads states that its table has, and gives a model logits."""
    for name, oracle in subject.world.embeddings.items():
        said = f"embedding {quoted(name)}"
        for recipe in subject.recipes.values():
            tokens = inputs_of(recipe.grammar)
            if tokens is None or recipe.config.embedding not in (name, "learned"):
                continue
            width = oracle.width(replace(recipe.config, embedding="learned", unembed="learned"))
            config = replace(recipe.config, embedding=name, d_model=width)
            ids = torch.from_numpy(tokens)
            table, read = oracle.states(config), load(oracle.read)(config, ids)
            check_ids(read.numpy(), tokens.shape, table, f"{said}: states read")
            built = load(oracle.build)(config)(ids)
            wanted = [*tokens.shape, width]
            must(list(built.shape) == wanted, f"{said} gives vectors of shape {list(built.shape)}, not {wanted}")
            _check_logits(SandboxTransformer.init(config, 0, recipe.grammar), tokens, said)
            break
        else:
            must(False, f"{said} fits the model of no preset, so that nothing can be built on it")


def check_constructed(subject: Subject) -> None:
    """Models with weights set by hand load by their names, run, and attend by patterns whose rows sum to 1."""
    for name, about in subject.world.constructed.items():
        said = f"constructed model {quoted(name)}"
        must(isinstance(about, str) and about.strip(), f"{said} does not say what it is")
        model = load_checkpoint(name)
        must(isinstance(model, SandboxTransformer), f"{said} is {quoted(model)}, no SandboxTransformer")
        assert isinstance(model, SandboxTransformer)
        kinds = subject.world.grammars
        must(isinstance(model.grammar, kinds), f"{said} carries {quoted(model.grammar)}, no grammar of this world")
        must(model.provenance.get("constructed"), f"{said}: its provenance does not say that it is constructed")
        tokens = inputs_of(model.grammar)
        if tokens is not None:
            _check_logits(model, tokens, said)


def _check_logits(model: SandboxTransformer, tokens: Ints, said: str) -> None:
    ids = torch.from_numpy(tokens)
    with torch.no_grad():
        logits = model(ids)
    must(bool(torch.isfinite(logits).all()), f"{said} gives logits that are not finite")
    for layer in attention_patterns(model, ids[:2]):
        check_patterns(layer, f"patterns of {said}")


def check_vouch(subject: Subject) -> None:
    """The exam asks something in what it draws, has the right answer among its candidates, and tells what chance is."""
    make = subject.world.load("vouch")
    for grammar in subject.grammars:
        exam, said = make(grammar), f"exam of {name_of(grammar)}"
        tokens = exam.draw(40, 12, 0)
        must(len(tokens) == 40, f"{said} draws {len(tokens)} inputs where 40 were asked for")
        check_ids(tokens, (40, tokens.shape[1]), grammar.vocab_size, f"{said}: inputs drawn")
        must(np.array_equal(tokens, exam.draw(40, 12, 0)), f"{said}: the same seed, drawn again, gives other inputs")
        asked, right, candidates = exam.questions(tokens)
        check_mask(asked, tokens.shape, f"{said}: places asked")
        must(asked.any(), f"{said} asks nothing in 40 inputs that it draws itself")
        must(
            len(set(candidates.tolist())) == len(candidates) > 1,
            f"{said}: candidates {quoted(candidates)} leave no choice",
        )
        lost = ~np.isin(right[asked], candidates)
        must(not lost.any(), f"{said}: the right answer {right[asked][lost][:1]} is none of the candidates")
        even = 1 / len(candidates)
        must(
            abs(exam.chance - even) < 1e-9,
            f"{said}: chance is {exam.chance:g}, and {len(candidates)} candidates give {even:g}",
        )
        check_mask(exam.also_legal(right, tokens), tokens.shape, f"{said}: what else is legal")
        must(exam.kin(grammar), f"{said} does not take its own grammar for kin")
        must(isinstance(exam.task, str) and exam.task, f"{said} does not say its task")


def check_adopt(subject: Subject) -> None:
    """A vocabulary of nobody's is left alone, and one of its own mapped onto a grammar of the world, id by id."""
    adopt = subject.world.load("adopt")
    found = adopt(list(STRANGE), None, None, False, 16)
    must(found is None, f"adopt takes the vocabulary {' '.join(STRANGE)} for one of this world")
    for grammar in subject.grammars:
        own = adopt(list(grammar.vocab), grammar, None, False, 16)
        must(own is not None and own.grammar == grammar, f"adopt does not know the vocabulary of {name_of(grammar)}")
        must(
            own.order == list(range(grammar.vocab_size)),
            f"adopt maps the ids of {name_of(grammar)} to {quoted(own.order)}",
        )
