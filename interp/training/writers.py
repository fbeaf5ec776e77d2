"""Callbacks of `train_population` that show a run elsewhere. Each needs a package that is imported when it is made."""

from pathlib import Path
from typing import Any

from interp.errors import RequestError, quoted


class TensorBoardWriter:
    """Writes each measure of each seed to a folder that `tensorboard --logdir FOLDER` shows.

    Raises `RequestError` without the package tensorboard.
    """

    def __init__(self, folder: str | Path):
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise _missing("tensorboard") from None
        if not isinstance(folder, (str, Path)):
            raise RequestError(f"folder={quoted(folder)} names no folder: give text or a Path")
        try:
            self._writer: Any = SummaryWriter(str(folder))
        except OSError as error:
            raise RequestError(f"cannot write to {str(folder)!r}: {error.strerror or error}") from error

    def __call__(self, rows: list[dict[str, Any]]) -> None:
        """Write rows of the history."""
        for row in rows:
            for name, value in _measures(row):
                self._writer.add_scalar(f"{name}/seed {row['seed']}", value, row["step"])
        self._writer.flush()


class WandbWriter:
    """Sends each measure of each seed to a run of Weights & Biases; `how` goes to `wandb.init`.

    Raises `RequestError` without the package wandb.
    """

    def __init__(self, project: str, **how: Any):
        try:
            import wandb
        except ImportError:
            raise _missing("wandb") from None
        if not isinstance(project, str) or not project:
            raise RequestError(f"project={quoted(project)} is not a name of a project")
        try:
            self._run: Any = wandb.init(project=project, **how)
        except Exception as error:  # of wandb's own: no login, no network
            raise RequestError(f"wandb cannot begin a run of {quoted(project)}: {error}") from error
        self._run.define_metric("*", step_metric="step")  # seeds come one after the other, each from step 0

    def __call__(self, rows: list[dict[str, Any]]) -> None:
        """Send rows of the history."""
        for row in rows:
            told = {f"{name}/seed {row['seed']}": value for name, value in _measures(row)}
            self._run.log({**told, "step": row["step"]})


def _measures(row: dict[str, Any]) -> list[tuple[str, float]]:
    """The numbers of a row; what is not finite stands there as None."""
    return [(name, value) for name, value in row.items() if name not in ("seed", "step") and value is not None]


def _missing(package: str) -> RequestError:
    return RequestError(f"this needs the package {package}: pip install 'interp-sandbox[{package}]'")
