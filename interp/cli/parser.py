"""What can be asked on the command line: commands, options, and the kinds of their values."""

import argparse
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

from interp.cli import audit, commands, replay, scan
from interp.cli.flags import ACTIONS
from interp.errors import RequestError, quoted
from interp.names import nearest_name
from interp.numbers import Written, written_whole
from probes.analyzers import Flag, every_flag, find_analyzers

CHECKPOINT = "a file or folder (other people's models too), or a bundled name from `interp list`"


class Parser(argparse.ArgumentParser):
    """argparse whose errors are one line, like all others; every flag is written out."""

    late: Callable[["Parser"], None] | None = None  # adds options that are looked up once the command is asked for

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs, allow_abbrev=False)  # `train --seed 7` is not `--seeds 7`
        for name, action in ACTIONS.items():
            self.register("action", name, action)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse's, but what a command does not know is refused by that command, which names what is near."""
        self.complete()
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            near = nearest_name(unknown[0].split("=")[0], self._option_string_actions)
            hint = "" if near is None else f" (did you mean {near}?)"
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return found, unknown

    def complete(self) -> None:
        """Add the options that are not known before the command is asked for."""
        late, self.late = self.late, None
        if late is not None:
            late(self)

    def error(self, message: str) -> NoReturn:
        raise RequestError(f"{message} (see: {self.prog} --help)")

    def format_help(self) -> str:
        more: Callable[[], str] | None = self.get_default("more_help")
        return super().format_help() + (more() if more else "")


def make_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = Parser(
        prog="interp",
        description="Mechanistic interpretability of Transformers trained on synthetic grammars.",
    )
    parser.add_argument("--version", action="version", version=f"interp {version('interp-sandbox')}")
    parser.set_defaults(run=None)
    listed = parser.add_subparsers(metavar="COMMAND")

    train = _command(listed, "train", commands.train, "train a population of one preset")
    train.add_argument("preset", metavar="PRESET", help="see `interp list`")
    train.add_argument("--seeds", type=whole(1, 100_000), default=40, metavar="S", help="how many models (default 40)")
    train.add_argument("--first-seed", type=whole(0), default=0, metavar="N", help="number of the first seed")
    train.add_argument("--steps", type=whole(1), metavar="N", help="training steps (default: the preset's)")
    train.add_argument("--batch", type=whole(1), metavar="B", help="strings per seed and step")
    train.add_argument("--out", type=Path, metavar="FILE.safetensors", help="default: PRESET.safetensors")
    train.add_argument("--resume", action="store_true", help="continue a run that was stopped before its end")
    train.add_argument("--workers", type=whole(1), metavar="W", help="processes (default: one per core)")
    train.add_argument("--device", default="cpu", help="cpu (default) or a torch device such as cuda")
    train.add_argument("--json", type=Path, metavar="FILE", help="also write the table of measurements")
    train.add_argument(
        "--set",
        dest="options",
        type=key_value,
        action="append",
        default=[],
        metavar="key=value",
        help="change an option of the preset, e.g. positions=linear, k=3, lr=1e-3 (repeatable)",
    )

    train.add_argument(
        "--snapshot",
        type=whole(0),
        action="append",
        default=[],
        metavar="STEP",
        help="keep the weights of this step and their norms (repeatable)",
    )

    train.add_argument("--tensorboard", type=Path, metavar="DIR", help="also write the measures there, for TensorBoard")
    train.add_argument("--wandb", metavar="PROJECT", help="also send the measures to Weights & Biases")
    train.set_defaults(more_help=commands.options_help)

    analyze = _command(listed, "analyze", commands.analyze, "measure a checkpoint")
    analyze.add_argument("analyzer", metavar="{" + ",".join(find_analyzers()[0]) + "}", help="what to measure")
    _checkpoints(analyze, "+")
    foreign_options(analyze)
    for flag in every_flag():
        _analyzer_option(analyze, flag)
    analyze.add_argument("--seed", type=whole(0), default=0, help="seed of all that is drawn at random")
    analyze.add_argument("--device", default="cpu", help="cpu (default) or a torch device such as cuda")
    analyze.add_argument("--json", type=Path, metavar="FILE", help="write the whole result")
    analyze.add_argument("--figure", type=Path, metavar="FILE.{html,png,svg,pdf}", help="draw the result")

    audits = _command(listed, "audit", audit.audit, "test claims about attention heads")
    _checkpoints(audits, "*")
    audits.add_argument(
        "--bench",
        nargs="?",
        const="written",
        choices=("written", "trained"),
        help="instead: measure the audit's own error rates, on claims whose truth is known: about hand-written models "
        "(default), or about trained ones (docs/trained-bench.md)",
    )
    audits.add_argument(
        "--half",
        choices=("develop", "judge", "both", "fresh"),
        default="develop",
        help="which seeds of --bench trained, or the fresh families, on which no rule was developed (default develop; "
        "how often the others were run is counted)",
    )
    audits.add_argument(
        "--models", type=Path, default=Path("trained-bench"), metavar="DIR",
        help="where --bench trained keeps its models (default trained-bench)",
    )  # fmt: skip
    audits.add_argument(
        "--runs", type=Path, metavar="FILE.json",
        help="where --bench trained counts runs of the judging half (default docs/trained-bench-runs.json of a "
        "source tree)",
    )  # fmt: skip
    audits.add_argument(
        "--per-family", type=whole(1), metavar="N", help="claims of each family of the bench (default 72: 30 CPU min)"
    )
    audits.add_argument(
        "--claim", action="append", default=[], metavar="TEXT", help="a sentence, see below (repeatable)"
    )
    audits.add_argument("--claims", type=Path, metavar="FILE", help="a text file of claims, one per line; # comments")
    audits.add_argument(
        "--relations",
        type=Path,
        metavar="FILE.py",
        help="your own relations, conditions and questions for claims: lists RELATIONS, CONDITIONS, QUESTIONS of a "
        "Python file, which is run (give none that you do not trust)",
    )
    audits.add_argument(
        "--inputs", type=Path, metavar="FILE.json",
        help='a list of {"text": ..., "label": ..., "position": ...}; use is then tested on these labels',
    )  # fmt: skip
    audits.add_argument(
        "--num-inputs",
        type=whole(2),
        metavar="N",
        help="how many inputs are drawn where none are given (default 400; 200 for a model of no world)",
    )
    audits.add_argument(
        "--early",
        action="store_true",
        help="look at a quarter of the inputs first, and at all of them only for claims that this leaves undecided",
    )
    foreign_options(audits)
    audits.add_argument(
        "--strict",
        action="store_true",
        help="exit with 1 unless every claim is supported (default: 0, since any verdict is an answer)",
    )
    audits.add_argument("--seed", type=whole(0), default=0, help="seed of all that is drawn at random")
    audits.add_argument("--device", default="cpu", help="cpu (default) or a torch device such as cuda")
    audits.add_argument(
        "--json", type=Path, metavar="FILE", help='the whole result; of several claims {"audits": [...]}'
    )
    audits.add_argument("--figure", type=Path, metavar="FILE.{html,png,svg,pdf}", help="draw the evidence of one claim")
    audits.set_defaults(more_help=audit.wordings_help)

    scans = _command(listed, "scan", scan.scan, "compare every head with every relation, and test whether it matters")
    scans.add_argument(
        "checkpoints",
        metavar="CHECKPOINT",
        nargs="+",
        help=f"{CHECKPOINT}; several models are reported by layer, as shares of seeds",
    )
    foreign_options(scans)
    scans.add_argument(
        "--relation",
        action="append",
        default=[],
        metavar="TEXT",
        help="its name or words, as in a claim (repeatable; default: all that are built in and have keys)",
    )
    scans.add_argument(
        "--inputs", type=Path, metavar="FILE.json",
        help='a list of {"text": ..., "label": ..., "position": ...}; a head then matters if it moves these labels',
    )  # fmt: skip
    scans.add_argument(
        "--num-inputs",
        type=whole(2),
        metavar="N",
        help="how many inputs are drawn where none are given (default 400; 200 for a model of no world)",
    )
    scans.add_argument("--seed", type=whole(0), default=0, help="seed of all that is drawn at random")
    scans.add_argument("--device", default="cpu", help="cpu (default) or a torch device such as cuda")
    scans.add_argument("--json", type=Path, metavar="FILE", help="write the whole result: every head, every relation")
    scans.add_argument("--figure", type=Path, metavar="FILE.{html,png,svg,pdf}", help="draw the result")

    heatmap = _command(listed, "heatmap", commands.heatmap, "draw attention patterns")
    _checkpoints(heatmap, "+")
    foreign_options(heatmap)
    heatmap.add_argument("--text", required=True, metavar="STRING", help="what the model reads, e.g. '([])'")
    heatmap.add_argument(
        "--layer",
        type=whole(),
        metavar="L",
        help="from 0, negative from the end (default: all of one model, else the last)",
    )
    heatmap.add_argument("--head", type=whole(), metavar="H", help="from 0, negative from the end (default: all)")
    heatmap.add_argument("--seed", type=whole(0), metavar="N", help="one model of a population, by seed")
    heatmap.add_argument(
        "--population", choices=("grid", "mean", "sd"), help="how to show several models (default grid)"
    )
    heatmap.add_argument(
        "--overlay",
        action="append",
        metavar="NAME",
        help="ground truth of the model's world to draw over the pattern (`interp list`), or none (repeatable)",
    )
    heatmap.add_argument(
        "--null",
        choices=("uniform", "untrained", "sharpness"),
        action="append",
        default=[],
        help="show this null beside each pattern (repeatable)",
    )
    heatmap.add_argument("--out", type=Path, required=True, metavar="FILE.{html,png,svg,pdf}")

    prune = _command(listed, "prune", commands.prune, "prune a random Transformer into a given one (a lottery ticket)")
    prune.add_argument("target", metavar="TARGET", help="a checkpoint; of a population the first model")
    prune.add_argument(
        "--candidates",
        type=whole(1),
        default=20,
        metavar="N",
        help="products to choose each entry from (default 20): two more divide the error by 4 and double the time",
    )
    prune.add_argument("--seed", type=whole(0), default=0, metavar="N", help="of the random network")
    prune.add_argument("--out", type=Path, required=True, metavar="FILE.safetensors", help="the pruned network")
    prune.add_argument("--json", type=Path, metavar="FILE", help="write the whole result")
    prune.add_argument("--figure", type=Path, metavar="FILE.{html,png,svg,pdf}", help="draw the result")

    merge = _command(listed, "merge", commands.merge, "make one checkpoint of shards of seeds")
    merge.set_defaults(model_config=None, vocab=None)
    merge.add_argument(
        "checkpoints", metavar="CHECKPOINT", nargs="+", help="populations of one recipe, different seeds"
    )
    merge.add_argument("--out", type=Path, required=True, metavar="FILE.safetensors")

    report = _command(listed, "report", commands.report, "run a case study and write its report")
    report.add_argument("study", metavar="STUDY", help="see `interp list`")
    size = report.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="minutes, few seeds (default)")
    size.add_argument("--full", action="store_true", help="the paper's size: 40 seeds; resumable")
    report.add_argument("--out", type=Path, required=True, metavar="DIR")
    report.add_argument(
        "--seeds", type=whole(1, 100_000), metavar="N", help="models of each population (default: the size's)"
    )
    report.add_argument("--steps", type=whole(1), metavar="N", help="training steps (default: each population's own)")
    report.add_argument("--workers", type=whole(1), metavar="W", help="processes (default: one per core)")
    report.add_argument("--device", default="cpu", help="where to train: cpu (default) or a torch device such as cuda")
    report.late = study_options

    curves = _command(listed, "curves", commands.curves, "show what a run measured while it trained, or is measuring")
    curves.add_argument(
        "file", metavar="FILE", help="a checkpoint, the folder FILE.run of a run under way, or its metrics.jsonl"
    )
    curves.add_argument(
        "--measure", action="append", metavar="NAME", help="as in the history (repeatable; default: what tables show)"
    )
    curves.add_argument("--json", type=Path, metavar="FILE", help="also write the rows and their means")
    curves.add_argument("--figure", type=Path, metavar="FILE.{html,png,svg,pdf}", help="draw the learning curves")

    replays = _command(listed, "replay", replay.replay, "compute a result again from its file, and compare")
    replays.add_argument("file", metavar="FILE.json", help="what --json or result.save() wrote")
    replays.add_argument(
        "--checkpoint", metavar="CHECKPOINT", help="where the models are now, if not where the file says"
    )

    listing = _command(listed, "list", commands.list_all, "presets, studies and bundled checkpoints")
    listing.add_argument("--json", type=Path, metavar="FILE", help="write the same as JSON")
    return parser


def _command(listed: Any, name: str, run: Callable[[argparse.Namespace], int], text: str) -> Parser:
    parser: Parser = listed.add_parser(name, help=text, description=text.capitalize() + ".")
    parser.set_defaults(run=run, command=name, given=frozenset())
    return parser


def _checkpoints(parser: argparse.ArgumentParser, count: str) -> None:
    """Checkpoints that are measured together."""
    words = f"{CHECKPOINT}; several of one shape count as a population"
    parser.add_argument("checkpoints", metavar="CHECKPOINT", nargs=count, help=words)


def foreign_options(parser: argparse.ArgumentParser) -> None:
    """Options of commands that read other people's state dicts."""
    parser.add_argument(
        "--model-config",
        type=Path,
        metavar="FILE.json",
        help="CHECKPOINT is a state dict of this config: TransformerLens's, or what a file of the GPT family does not "
        'say ({"n_head": 4}); it adds to what the file says of itself',
    )
    parser.add_argument(
        "--vocab",
        type=Path,
        metavar="FILE.json",
        help="names of its token ids: a list, {name: id}, or what ids mean: {id: token}",
    )
    parser.add_argument(
        "--no-task-check",
        action="store_true",
        help="also measure a model that does not do its grammar's task (an untrained one, say)",
    )


def _analyzer_option(parser: argparse.ArgumentParser, flag: Flag) -> None:
    """An option that some analyzers read; one that other commands have too is there already."""
    name = f"--{flag.dest.replace('_', '-')}"
    if any(name in action.option_strings for action in parser._actions):
        return
    told = flag.help.replace("%", "%%")
    if flag.negates:
        parser.add_argument(name, action="store_true", help=told)
    elif flag.many:
        parser.add_argument(name, action="append", metavar=flag.metavar, help=told)
    else:
        parser.add_argument(name, choices=flag.choices, metavar=flag.metavar, help=told)


def study_options(parser: argparse.ArgumentParser) -> None:
    """Options that a study reads for itself, each with the studies that do."""
    from case_studies.registry import find_studies

    for dest, readers in find_studies().reading().items():
        options = [option for declared in readers for option in declared.options if option.dest == dest]
        told = [f"of {declared.name}: {option.help}" for declared, option in zip(readers, options, strict=True)]
        parser.add_argument(f"--{options[0].name}", metavar=options[0].metavar, help="; ".join(told).replace("%", "%%"))


# -- kinds of values ------------------------------------------------------------------------------------


def whole(least: int | None = None, most: int = 2**53) -> Callable[[str], int]:
    """A kind of argument: whole numbers from `least` (None: negative ones too) to `most`."""

    def parse(text: str) -> int:
        value = written_whole(text)
        if value is None or value < (-most if least is None else least):
            upward = "" if least is None else f" of at least {least}"
            raise argparse.ArgumentTypeError(f"{quoted(text)} is not a whole number{upward}")
        if value > most:
            raise argparse.ArgumentTypeError(f"{quoted(text)} is more than {most}")
        return value

    return parse


def key_value(text: str) -> tuple[str, Any]:
    """A kind of argument: `key=value`."""
    key, equals, value = text.partition("=")
    if not equals or not key or not value:
        raise argparse.ArgumentTypeError(f"{quoted(text)} is not of the form key=value")
    return key, Written(value)
