"""The command line: `interp` or `python -m interp`. Starts in milliseconds; torch is loaded when work begins."""

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from interp.errors import InterpError, RequestError

STUDIES = {
    "dyck-attention": "accuracy, attention maps and variation across seeds (Wen et al. 2023, 4.1)",
    "dyck-balance": "balance violation against length generalisation, contrastive training (4.2)",
    "dyck-copying": "interpretable attention patterns of models that only copy, and whether they are used (App. B.1)",
    "head-claims": "what the literature says of attention heads, audited over seeds and on a real encoder",
    "lottery-ticket": "random Transformers pruned into trained and constructed ones (Wen et al. 2023, Theorem 2)",
    "topics": "where a one-layer model keeps the topics of its documents (Li et al. 2023)",
    "topics-wikipedia": "topics in a pretrained encoder's attention and embeddings, on real text (Tables 2.3-2.5)",
}
ANALYZERS = ("balance", "stack", "topics", "variation")
DEFAULT_OVERLAYS = {"stack_top": "stack_top", "topic_blocks": "topic_of"}  # of `heatmap`, by what the grammar has
MATRICES = ("value", "embedding", "attention")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns 0 (done), 1 (the work failed) or 2 (the request was wrong)."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a name the terminal cannot show is no failure
    arguments = argparse.Namespace()
    try:
        arguments = _parser().parse_args(argv)
        return int(arguments.run(arguments))
    except InterpError as error:
        _complain(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        print(f"interp: interrupted{_going_on(arguments)}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader (head, less) has gone
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:  # whatever it is, a user gets one line; INTERP_DEBUG=1 shows where it came from
        if os.environ.get("INTERP_DEBUG"):
            raise
        _complain(f"the work failed: {type(error).__name__}: {error} (INTERP_DEBUG=1 shows where)")
        return 1


def _going_on(arguments: argparse.Namespace) -> str:
    """What to do after an interruption: nothing is kept but training runs."""
    run = getattr(arguments, "run", None)
    if run is _train:
        return "; the same command with --resume continues an unfinished training run"
    return "; the same command again keeps what was trained" if run is _report else ""


def _complain(message: str) -> None:
    """One line on standard error, however long or broken the message."""
    line = " ".join(message.split())
    print(f"interp: {line if len(line) <= 1000 else line[:1000] + ' ...'}", file=sys.stderr)


class _Parser(argparse.ArgumentParser):
    """argparse whose errors are one line, like all others."""

    def error(self, message: str) -> NoReturn:
        raise RequestError(f"{message} (see: {self.prog} --help)")

    def format_help(self) -> str:
        more: Callable[[], str] | None = self.get_default("more_help")
        return super().format_help() + (more() if more else "")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="interp",
        description="Mechanistic interpretability of Transformers trained on synthetic grammars.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    train = _command(commands, "train", _train, "train a population of one preset")
    train.add_argument("preset", metavar="PRESET", help="see `interp list`")
    train.add_argument("--seeds", type=_whole(1, 100_000), default=40, metavar="S", help="how many models (default 40)")
    train.add_argument("--first-seed", type=_whole(0), default=0, metavar="N", help="number of the first seed")
    train.add_argument("--steps", type=_whole(1), metavar="N", help="training steps (default: the preset's)")
    train.add_argument("--batch", type=_whole(1), metavar="B", help="strings a seed and step")
    train.add_argument("--out", type=Path, metavar="FILE.safetensors", help="default: PRESET.safetensors")
    train.add_argument("--resume", action="store_true", help="continue a run that was stopped on the way")
    train.add_argument("--workers", type=_whole(1), metavar="W", help="processes (default: one a core)")
    train.add_argument("--device", default="cpu", help="cpu (default) or a torch device such as cuda")
    train.add_argument("--json", type=Path, metavar="FILE", help="also write the table of measurements")
    train.add_argument(
        "--set",
        dest="options",
        type=_key_value,
        action="append",
        default=[],
        metavar="key=value",
        help="change an option of the preset, e.g. positions=linear, k=3, lr=1e-3 (repeatable)",
    )

    train.add_argument(
        "--snapshot",
        type=_whole(0),
        action="append",
        default=[],
        metavar="STEP",
        help="keep the weights of this step and their norms (repeatable)",
    )

    analyze = _command(commands, "analyze", _analyze, "measure a checkpoint")
    analyze.add_argument("analyzer", metavar="{" + ",".join(ANALYZERS) + "}", help="what to measure")
    analyze.add_argument("checkpoint", metavar="CHECKPOINT", help="a file, or a bundled name from `interp list`")
    _foreign_options(analyze)
    analyze.add_argument("--text", action="append", metavar="STRING", help="input (repeatable, equal lengths)")
    analyze.add_argument(
        "--matrix", choices=MATRICES, help="of `analyze topics`: default value, or embedding if learned"
    )
    analyze.add_argument("--seed", type=_whole(0), default=0, help="for whatever is drawn at random")
    analyze.add_argument("--device", default="cpu", help="cpu (default) or a torch device such as cuda")
    analyze.add_argument("--json", type=Path, metavar="FILE", help="write the whole result")
    analyze.add_argument("--figure", type=Path, metavar="FILE.{html,png,svg,pdf}", help="draw the result")

    audit = _command(commands, "audit", _audit, "test what is said about attention heads")
    audit.add_argument(
        "checkpoint", metavar="CHECKPOINT", nargs="?", help="a file, or a bundled name from `interp list`"
    )
    audit.add_argument(
        "--bench", action="store_true", help="instead: the audit's own error rates, on claims whose truth is known"
    )
    audit.add_argument(
        "--per-family", type=_whole(1), metavar="N", help="claims of each family of the bench (default 72: 30 CPU min)"
    )
    audit.add_argument(
        "--claim", action="append", default=[], metavar="TEXT", help="a sentence, see below (repeatable)"
    )
    audit.add_argument("--claims", type=Path, metavar="FILE", help="a text file of claims, one a line; # comments")
    audit.add_argument(
        "--inputs", type=Path, metavar="FILE.json",
        help='a list of {"text": ..., "label": ..., "position": ...}; use is then about the labels',
    )  # fmt: skip
    _foreign_options(audit)
    audit.add_argument("--seed", type=_whole(0), default=0, help="for whatever is drawn at random")
    audit.add_argument("--device", default="cpu", help="cpu (default) or a torch device such as cuda")
    audit.add_argument(
        "--json", type=Path, metavar="FILE", help='the whole result; of several claims {"audits": [...]}'
    )
    audit.add_argument("--figure", type=Path, metavar="FILE.{html,png,svg,pdf}", help="draw the evidence of one claim")
    audit.set_defaults(more_help=_wordings)

    heatmap = _command(commands, "heatmap", _heatmap, "draw attention patterns")
    heatmap.add_argument("checkpoint", metavar="CHECKPOINT", help="a file, or a bundled name from `interp list`")
    _foreign_options(heatmap)
    heatmap.add_argument("--text", required=True, metavar="STRING")
    heatmap.add_argument("--layer", type=_whole(0), metavar="L")
    heatmap.add_argument("--head", type=_whole(0), metavar="H")
    heatmap.add_argument("--seed", type=_whole(0), metavar="N", help="one model of a population, by seed")
    heatmap.add_argument(
        "--population", choices=("grid", "mean", "sd"), default="grid", help="how to show several models"
    )
    heatmap.add_argument(
        "--overlay",
        choices=("stack_top", "partner", "depth", "topic_blocks", "none"),
        action="append",
        help="the truth over the pattern (repeatable; default stack_top, topic_blocks for topic models)",
    )
    heatmap.add_argument(
        "--null",
        choices=("uniform", "untrained", "sharpness"),
        action="append",
        default=[],
        help="show this null beside each pattern (repeatable)",
    )
    heatmap.add_argument("--out", type=Path, required=True, metavar="FILE.{html,png,svg,pdf}")

    prune = _command(commands, "prune", _prune, "prune a random Transformer into a given one (a lottery ticket)")
    prune.add_argument("target", metavar="TARGET", help="a checkpoint; of a population the first model")
    prune.add_argument(
        "--candidates",
        type=_whole(1),
        default=20,
        metavar="N",
        help="products an entry is chosen from (default 20): two more halve the error twice and double the time",
    )
    prune.add_argument("--seed", type=_whole(0), default=0, metavar="N", help="of the random network")
    prune.add_argument("--out", type=Path, required=True, metavar="FILE.safetensors", help="the pruned network")
    prune.add_argument("--json", type=Path, metavar="FILE", help="write the whole result")
    prune.add_argument("--figure", type=Path, metavar="FILE.{html,png,svg,pdf}", help="draw the result")

    report = _command(commands, "report", _report, "run a case study and write its report")
    report.add_argument("study", metavar="STUDY", help="see `interp list`")
    size = report.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="minutes, few seeds (default)")
    size.add_argument("--full", action="store_true", help="the paper's size: 40 seeds; resumable")
    report.add_argument("--out", type=Path, required=True, metavar="DIR")
    report.add_argument("--corpus", metavar="FILE", help="of topics-wikipedia: a dump (.xml.bz2) or a document a line")
    report.add_argument("--model", metavar="NAME", help="of topics-wikipedia: an encoder's folder or Hugging Face name")
    report.add_argument("--workers", type=_whole(1), metavar="W", help="processes (default: one a core)")
    report.add_argument("--device", default="cpu", help="where to train: cpu (default) or a torch device such as cuda")

    listing = _command(commands, "list", _list, "presets, studies and bundled checkpoints")
    listing.add_argument("--json", type=Path, metavar="FILE", help="write the same as JSON")
    return parser


def _command(commands: Any, name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text.capitalize() + ".")
    parser.set_defaults(run=run)
    return parser


def _foreign_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model-config",
        type=Path,
        metavar="FILE.json",
        help="CHECKPOINT is a TransformerLens state dict of this config",
    )
    parser.add_argument("--vocab", type=Path, metavar="FILE.json", help="names of its token ids: a list, or {name: id}")


# -- arguments ------------------------------------------------------------------------------------------


def _whole(least: int, most: int = 2**53) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
        if value > most:
            raise argparse.ArgumentTypeError(f"{text[:40]!r} is more than {most}")
        return value

    return parse


def _key_value(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key or not value:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form key=value")
    return key, _value(value)


def _value(text: str) -> Any:
    """A whole number, a number or a word."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _options(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    options = dict(pairs)
    if len(options) < len(pairs):
        twice = next(key for key, _ in pairs if [k for k, _ in pairs].count(key) > 1)
        raise RequestError(f"--set {twice}=... is given twice")
    return options


def _write_json(path: Path | None, data: Any) -> None:
    if path is not None:
        from interp.files import write_text

        write_text(path, json.dumps(data, indent=2, sort_keys=True, allow_nan=False) + "\n")


def _check_outputs(*paths: Path | None, keep: Path | None = None) -> None:
    """Refuse, before the work, an unwritable output, one named twice, and one that is the input (`keep`)."""
    from interp.files import check_writable

    given = [path for path in paths if path is not None]
    for i, path in enumerate(given):
        check_writable(path)
        if any(path.resolve() == other.resolve() for other in given[:i]):
            raise RequestError(f"{str(path)!r} is named for two outputs: the second would overwrite the first")
        if keep is not None and path.resolve() == keep.resolve():
            raise RequestError(f"{str(path)!r} is the checkpoint that is read: writing there would destroy it")


def _check_checkpoint(path: Path) -> None:
    """One ending for all: a checkpoint named x.pt or x.html would be taken for what it is not."""
    if path.suffix != ".safetensors":
        raise RequestError(f"{str(path)!r} is no name for a checkpoint: use one that ends in .safetensors")


def _check_figure(path: Path | None) -> None:
    from interp.plots.export import ENDINGS

    if path is not None and path.suffix.lower() not in ENDINGS:
        raise RequestError(f"{str(path)!r} has no known ending: use one of {', '.join(ENDINGS)}")


def _find(arguments: argparse.Namespace, *outputs: Path | None) -> tuple[Path, dict[str, Any]]:
    """The checkpoint's file and header (of a foreign one: what is known of it), once the outputs have been checked."""
    from interp.header import find_checkpoint, read_header

    if arguments.model_config is None:
        if arguments.vocab is not None:
            raise RequestError("--vocab names the tokens of a foreign state dict: give its --model-config too")
        checkpoint = find_checkpoint(arguments.checkpoint)
        _check_outputs(*outputs, keep=checkpoint)
        return checkpoint, read_header(checkpoint)
    checkpoint = Path(arguments.checkpoint)
    if not checkpoint.is_file():
        raise RequestError(f"no file {arguments.checkpoint!r}: with --model-config it is a state dict's file")
    _check_outputs(*outputs, keep=checkpoint)
    return checkpoint, {"kind": "model", "seeds": [0]}


def _load(arguments: argparse.Namespace) -> Any:
    """The model or population of the command's checkpoint, on the device it names, if any."""
    from interp.devices import usable_device

    device = usable_device(getattr(arguments, "device", "cpu"))
    if arguments.model_config is not None:
        from interp.foreign import load_foreign

        return load_foreign(arguments.checkpoint, arguments.model_config, arguments.vocab).to(device)
    from interp.checkpoints import load_checkpoint

    return load_checkpoint(arguments.checkpoint).to(device)


# -- commands -------------------------------------------------------------------------------------------


def _train(arguments: argparse.Namespace) -> int:
    from interp.presets import make_recipe

    recipe = make_recipe(
        arguments.preset,
        _options(arguments.options),
        steps=arguments.steps,
        batch=arguments.batch,
        snapshots=sorted(set(arguments.snapshot)),
    )
    out = arguments.out or Path(f"{arguments.preset}.safetensors")
    if arguments.out is None and out.exists() and not arguments.resume:
        raise RequestError(f"{str(out)!r} is there already: name another file with --out, or remove it")
    _check_outputs(out, arguments.json)
    _check_checkpoint(out)
    from interp.training.run import train_population

    population = train_population(
        recipe,
        range(arguments.first_seed, arguments.first_seed + arguments.seeds),
        out=out,
        resume=arguments.resume,
        workers=arguments.workers,
        device=arguments.device,
        progress=True,
    )
    print(population.summary())
    if population.timing:
        print(
            f"CPU seconds a seed: {population.timing['training_cpu_s_per_seed']:.2f} training, "
            f"{population.timing['evaluation_cpu_s_per_seed']:.2f} evaluation"
        )
    print(f"wrote {out}")
    _write_json(
        arguments.json,
        {"recipe": recipe.to_dict(), "history": list(population.history), "timing": population.timing},
    )
    return 0


def _analyze(arguments: argparse.Namespace) -> int:
    if arguments.analyzer not in ANALYZERS:
        raise RequestError(f"no analyzer {arguments.analyzer!r}; analyzers are {', '.join(ANALYZERS)}")
    _check_figure(arguments.figure)
    if arguments.text is not None and arguments.analyzer not in ("stack", "variation"):
        raise RequestError(f"--text is for `analyze stack` and `variation`; {arguments.analyzer} draws its own inputs")
    if arguments.matrix is not None and arguments.analyzer != "topics":
        raise RequestError(f"--matrix is for `analyze topics`, not {arguments.analyzer}")
    _, meta = _find(arguments, arguments.json, arguments.figure)
    kind = (meta.get("grammar") or {}).get("kind")  # a wrong file is refused before torch is loaded
    if arguments.analyzer in ("balance", "stack") and kind == "topics":
        raise RequestError(
            f"`analyze {arguments.analyzer}` needs a Dyck grammar: {arguments.checkpoint!r} is of topics"
        )
    if arguments.analyzer == "topics" and kind != "topics":
        if arguments.model_config is not None:
            raise RequestError("`analyze topics` is for topic models, and a foreign state dict is none of ours")
        raise RequestError(f"`analyze topics` is for topic models, and {arguments.checkpoint!r} is of brackets")
    model = _load(arguments)
    if arguments.analyzer == "variation":
        from probes import analyze_variation

        result: Any = analyze_variation(model, arguments.text, seed=arguments.seed)
    elif arguments.analyzer == "stack":
        from probes import analyze_stack_likeness

        result = analyze_stack_likeness(model, arguments.text, seed=arguments.seed)
    elif arguments.analyzer == "topics":
        from probes import analyze_topic_blocks

        result = analyze_topic_blocks(model, matrix=arguments.matrix, seed=arguments.seed)
    else:
        from probes import analyze_balance

        result = analyze_balance(model, seed=arguments.seed)
    print(result.summary())
    _write_json(arguments.json, result.to_dict())
    if arguments.figure is not None:
        from interp.plots import save_figure

        save_figure(result.figure(), arguments.figure)
    return 0


def _bench(arguments: argparse.Namespace) -> int:
    """The audit on claims whose truth is known: no checkpoint, no claims."""
    for name in ("checkpoint", "claim", "claims"):
        if given := getattr(arguments, name):
            what = given if name == "checkpoint" else f"--{name} {given[0] if name == 'claim' else given}"
            raise RequestError(f"--bench brings its own models and claims: leave out {str(what)!r}")
    _check_outputs(arguments.json, arguments.figure)
    from probes.bench import PER_FAMILY, run_bench

    result = run_bench(
        arguments.per_family or PER_FAMILY,
        seed=arguments.seed,
        workers=min(8, os.cpu_count() or 1),
        progress=True,
    )
    print(result.summary())
    _write_json(arguments.json, result.to_dict())
    if arguments.figure is not None:
        from interp.plots import save_figure

        save_figure(result.figure(), arguments.figure)
    return 0


def _audit(arguments: argparse.Namespace) -> int:
    if arguments.bench:
        _check_figure(arguments.figure)
        return _bench(arguments)
    if arguments.per_family is not None:
        raise RequestError(f"--per-family {arguments.per_family} is of --bench, which is not asked for")
    if arguments.checkpoint is None:
        raise RequestError("nothing to audit: give a checkpoint and --claim TEXT, or --bench")
    from probes.claims import Claim

    _check_figure(arguments.figure)
    texts = [*arguments.claim, *_claims_of(arguments.claims)]
    if not texts:
        raise RequestError("nothing to audit: give --claim 'L1H0 attends to the last unmatched open bracket'")
    claims = [Claim.parse(text) for text in texts]  # a wrong claim is refused before torch is loaded
    if arguments.figure is not None and len(claims) > 1:
        raise RequestError(f"--figure draws the evidence of one claim, and {len(claims)} are given")
    _find(arguments, arguments.json, arguments.figure)
    model = _load(arguments)
    from probes import audit_claims

    results = audit_claims(model, claims, inputs=arguments.inputs, seed=arguments.seed, progress=True)
    print("\n\n".join(result.summary() for result in results))
    whole = [{**result.to_dict(), "checkpoint": str(arguments.checkpoint)} for result in results]
    _write_json(arguments.json, whole[0] if len(whole) == 1 else {"audits": whole})
    if arguments.figure is not None:
        from interp.plots import save_figure

        save_figure(results[0].figure(), arguments.figure)
    return 1 if all(result.verdict == "undecided" for result in results) else 0


def _claims_of(path: Path | None) -> list[str]:
    """Claims of a text file, one a line."""
    if path is None:
        return []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(
            f"cannot read claims from {str(path)!r}: {getattr(error, 'strerror', None) or error}"
        ) from error
    claims = [text for line in lines if (text := line.strip()) and not text.startswith("#")]
    if not claims:
        raise RequestError(f"{str(path)!r} holds no claim: write one a line")
    return claims


def _wordings() -> str:
    """What `Claim.parse` understands, for the help."""
    from probes.claims import wordings

    parts = (f"{part}:\n" + "".join(f"  {phrase}\n" for phrase in phrases) for part, phrases in wordings().items())
    return (
        "\nA claim reads 'HEADS attend(s) to RELATION [when CONDITION]', or 'HEADS use(s) RELATION [to ...]'.\n"
        + "".join(parts)
    )


def _heatmap(arguments: argparse.Namespace) -> int:
    _check_figure(arguments.out)
    _, meta = _find(arguments, arguments.out)
    if arguments.seed is not None and arguments.seed not in meta["seeds"]:
        raise RequestError(f"no seed {arguments.seed} in {arguments.checkpoint!r}; seeds are {meta['seeds']}")
    model: Any = _load(arguments)
    from interp.plots import attention_heatmap, save_figure

    several = meta["kind"] == "population"
    if several and (arguments.seed is not None or len(meta["seeds"]) == 1):
        model = model[meta["seeds"].index(arguments.seed) if arguments.seed is not None else 0]
        several = False
    truth = next((name for name, has in DEFAULT_OVERLAYS.items() if hasattr(model.grammar, has)), "none")
    overlay: Any = arguments.overlay or [truth]
    figure = attention_heatmap(
        model,
        arguments.text,
        layer=arguments.layer,
        head=arguments.head,
        overlay=None if "none" in overlay else overlay,
        null=arguments.null,
        population=arguments.population if several else "one",
    )
    save_figure(figure, arguments.out)
    print(f"wrote {arguments.out}")
    return 0


def _prune(arguments: argparse.Namespace) -> int:
    _check_figure(arguments.figure)
    from interp.header import find_checkpoint, read_header

    checkpoint = find_checkpoint(arguments.target)
    _check_outputs(arguments.out, arguments.json, arguments.figure, keep=checkpoint)
    _check_checkpoint(arguments.out)
    meta = read_header(checkpoint)
    from interp.checkpoints import load_checkpoint, save_checkpoint
    from probes import demonstrate_lottery_ticket

    model: Any = load_checkpoint(arguments.target)
    if meta["kind"] == "population":
        model = model[0]
        print(f"target: seed {meta['seeds'][0]}, the first of {len(meta['seeds'])} models")
    result = demonstrate_lottery_ticket(model, candidates=arguments.candidates, seed=arguments.seed, progress=True)
    print(result.summary())
    save_checkpoint(result.model, arguments.out)
    print(f"wrote {arguments.out}")
    _write_json(arguments.json, result.to_dict())
    if arguments.figure is not None:
        from interp.plots import save_figure

        save_figure(result.figure(), arguments.figure)
    return 0


def _report(arguments: argparse.Namespace) -> int:
    if arguments.study not in STUDIES:
        raise RequestError(f"no study {arguments.study!r}; studies are {', '.join(STUDIES)}")
    given = {name: getattr(arguments, name) for name in ("corpus", "model") if getattr(arguments, name) is not None}
    if given and arguments.study != "topics-wikipedia":
        raise RequestError(f"--{next(iter(given))} is for topics-wikipedia, not {arguments.study}")
    from interp.files import make_folder

    make_folder(arguments.out)
    import importlib

    study = importlib.import_module(f"case_studies.{arguments.study.replace('-', '_')}.study")
    if arguments.device == "cpu":
        page = study.run(arguments.out, full=arguments.full, workers=arguments.workers, **given)
    else:
        from case_studies.populations import train_on
        from interp.devices import usable_device

        with train_on(usable_device(arguments.device)):
            page = study.run(arguments.out, full=arguments.full, workers=arguments.workers, **given)
    print(f"wrote {page}")
    return 0


def _list(arguments: argparse.Namespace) -> int:
    from interp.header import PRETRAINED, list_pretrained, read_header
    from interp.presets import PRESETS

    bundled = {}
    for name in list_pretrained():
        meta = read_header(PRETRAINED / f"{name}.safetensors")
        bundled[name] = {
            "models": len(meta["seeds"]),
            "about": meta["provenance"].get("about", ""),
            **worst_accuracy(meta),
        }
    print("Presets (interp train PRESET)")
    for name, preset in PRESETS.items():
        print(f"  {name:<20} {preset.about}")
    print("Studies (interp report STUDY)")
    for name, about in STUDIES.items():
        print(f"  {name:<20} {about}")
    print("Bundled checkpoints (load_checkpoint(NAME)); closing accuracy of the worst seed")
    for name, info in bundled.items():
        rules = ", ".join(f"{k} {v:.3f}" for k, v in info.items() if isinstance(v, float))
        count = "1 model" if info["models"] == 1 else f"{info['models']} models"
        print(f"  {name:<20} {count}: {rules or info['about']}")
    _write_json(
        arguments.json,
        {
            "presets": {name: preset.about for name, preset in PRESETS.items()},
            "studies": STUDIES,
            "checkpoints": bundled,
        },
    )
    return 0


def worst_accuracy(meta: dict[str, Any]) -> dict[str, float]:
    """The least closing accuracy over seeds at the last step, by rule, from a checkpoint's header."""
    rows = {row["seed"]: row for row in meta["history"]}
    rules = ("argmax", "argmax_closers", "mass", "mass_nontrivial")
    return {
        rule: min(row[rule] for row in rows.values())
        for rule in rules
        if rows and all(row.get(rule) is not None for row in rows.values())
    }


if __name__ == "__main__":
    sys.exit(main())
