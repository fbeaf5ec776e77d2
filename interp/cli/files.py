"""Files of a command: outputs are checked before the work, checkpoints found and loaded."""

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from interp.errors import RequestError, quoted
from interp.names import first_duplicate


def write_json(path: Path | None, data: Any) -> None:
    """Write `data` where a path was given."""
    if path is not None:
        from interp.files import write_text
        from probes.core import written

        write_text(path, written(data))


def content_of(result: Any, **more: Any) -> dict[str, Any]:
    """What `--json` writes of a result: its header first, then what it found, and `more` beside it."""
    from probes.core import OF, Result, file_of, header_of_command

    if isinstance(result, Result):
        content = file_of(result, brief=True)
    else:  # of another package: it has a `to_dict`
        content = {OF: header_of_command(type(result).__name__), **result.to_dict()}
    return {OF: content.pop(OF), **more, **content}


def draw(path: Path | None, result: Any) -> None:
    """Write the result's figure where a path was given."""
    if path is not None:
        from interp.plots import save_figure

        save_figure(result.figure(), path)


def deliver(said: str, json_path: Path | None, data: Any, figure: Path | None = None, result: Any = None) -> None:
    """Write the files that were asked for, then print `said`.

    In this order, a reader of the output that has gone costs no file; and a file that cannot be written no summary.
    """
    try:
        write_json(json_path, data)
        draw(figure, result)
    finally:
        print(said)


def check_outputs(*paths: Path | None, keep: Path | None = None) -> None:
    """Refuse, before the work, an unwritable output, one named twice, and one that is the input (`keep`)."""
    from interp.files import check_writable

    given = [path for path in paths if path is not None]
    for i, path in enumerate(given):
        check_writable(path)
        if any(path.resolve() == other.resolve() for other in given[:i]):
            raise RequestError(f"{str(path)!r} is named for two outputs: the second would overwrite the first")
        if keep is not None and path.resolve() == keep.resolve():
            raise RequestError(f"{str(path)!r} is the checkpoint that is read: writing there would destroy it")


def check_checkpoint(path: Path) -> None:
    """One ending for all: a checkpoint named x.pt or x.html would be taken for what it is not."""
    if path.suffix != ".safetensors":
        raise RequestError(f"{str(path)!r} is not a name for a checkpoint: use one that ends in .safetensors")


def check_figure(path: Path | None) -> None:
    """Refuse, before the work, a name that no figure can have."""
    from interp.plots.export import ENDINGS

    if path is not None and path.suffix.lower() not in ENDINGS:
        raise RequestError(f"{str(path)!r} has no known ending: use one of {', '.join(ENDINGS)}")


def find(arguments: argparse.Namespace, *outputs: Path | None) -> tuple[Path, dict[str, Any]]:
    """The checkpoint's file and header (of a foreign one: what is known of it), once the outputs have been checked."""
    from interp.header import find_checkpoint, read_header
    from interp.packaged import is_packaged, packaged_file

    if not is_foreign(arguments):
        checkpoint = find_checkpoint(arguments.checkpoint)
        check_outputs(*outputs, keep=checkpoint)
        return checkpoint, read_header(checkpoint)
    if is_packaged(arguments.checkpoint):
        checkpoint = packaged_file(arguments.checkpoint)
    else:
        checkpoint = Path(arguments.checkpoint)
    if not os.path.isfile(checkpoint) and not os.path.isdir(checkpoint):  # unlike Path.is_file, these take any name
        told = "--model-config" if arguments.model_config is not None else "--vocab"
        raise RequestError(
            f"no file {str(arguments.checkpoint)!r}: with {told} it is a state dict's file, or a folder with one"
        )
    check_outputs(*outputs, keep=checkpoint)
    return checkpoint, {"kind": "model", "seeds": [0]}


def is_foreign(arguments: argparse.Namespace) -> bool:
    """Whether the command's checkpoint is other people's: by its flags, a folder, or a file that is none of ours."""
    return is_of_others(str(arguments.checkpoint), arguments.model_config, arguments.vocab)


def is_of_others(name: str, config: Any, vocab: Any) -> bool:
    """The same of a name and of what was given beside it."""
    from interp.header import is_ours
    from interp.packaged import is_packaged

    if config is not None or vocab is not None or is_packaged(name):
        return True
    return (os.path.isfile(name) or os.path.isdir(name)) and not is_ours(name)


def find_each(arguments: argparse.Namespace, *outputs: Path | None) -> list[tuple[Path, dict[str, Any]]]:
    """`find` of every checkpoint of a command that takes several. Raises `RequestError` for one that stands twice."""
    found = [find(one, *outputs) for one in each_of(arguments)]
    if (twice := first_duplicate(str(path.resolve()) for path, _ in found)) is not None:
        at = [str(path.resolve()) for path, _ in found].index(twice)
        raise RequestError(f"checkpoint {quoted(arguments.checkpoints[at])} is given twice: each model counts once")
    if getattr(arguments, "model_seed", None) is not None:
        for one, (_, meta) in zip(each_of(arguments), found, strict=True):
            if meta["kind"] == "model":
                raise RequestError(
                    f"--model-seed {arguments.model_seed} changes nothing here: it chooses a model of a population, "
                    f"and {quoted(str(one.checkpoint))} is one model: leave it out"
                )
            if arguments.model_seed not in meta["seeds"]:
                raise no_such_seed(arguments.model_seed, list(meta["seeds"]), [one.checkpoint])
    return found


def each_of(arguments: argparse.Namespace) -> list[argparse.Namespace]:
    """The command, once for each of its checkpoints."""
    return [argparse.Namespace(**{**vars(arguments), "checkpoint": name}) for name in arguments.checkpoints]


def load_each(arguments: argparse.Namespace) -> Any:
    """The models of the command's checkpoints: the one file's, or all together (see `joined`)."""
    from interp.population import joined

    return joined(load_all(arguments))


def load_all(arguments: argparse.Namespace) -> list[Any]:
    """What each of the checkpoints holds; with --model-seed the one model of that seed."""
    wanted = getattr(arguments, "model_seed", None)
    return [load(one) if wanted is None else of_seed(load(one), wanted, one.checkpoint) for one in each_of(arguments)]


def of_seed(models: Any, seed: int, name: Any) -> Any:
    """One model of a population. Raises `RequestError` where no model of it has this seed."""
    seeds = list(models.seeds)
    if seed not in seeds:
        raise no_such_seed(seed, seeds, [name])
    return models[seeds.index(seed)]


def no_such_seed(seed: int, seeds: Sequence[int], names: Sequence[Any]) -> RequestError:
    """The error of a seed that none of these is."""
    return RequestError(f"no seed {seed} in {' and '.join(quoted(str(name)) for name in names)}; seeds are {seeds}")


def load(arguments: argparse.Namespace) -> Any:
    """The model or population of the command's checkpoint, on the device it names, if any."""
    from interp.devices import usable_device
    from interp.sources import Part, with_source

    device = usable_device(getattr(arguments, "device", "cpu"))
    if is_foreign(arguments):
        from interp.foreign import load_foreign

        check = not arguments.no_task_check
        with contextlib.redirect_stdout(sys.stderr):  # a reader of the output that has gone costs no file
            model = load_foreign(arguments.checkpoint, arguments.model_config, arguments.vocab, task_check=check)
        model = model if str(device) == "cpu" else model.to(device)  # a bridge would say that it moves
        config, vocab = (None if one is None else str(one) for one in (arguments.model_config, arguments.vocab))
        return with_source(model, (Part(str(arguments.checkpoint), config=config, vocab=vocab),))
    from interp.checkpoints import load_checkpoint

    return load_checkpoint(arguments.checkpoint).to(device)
