"""What is computed once and kept beside the report: scans, and what each head costs. A run that was stopped goes on."""

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from case_studies.head_claims.audits import asked_auditor
from case_studies.real_heads.ablation import Ablated, Nats
from case_studies.real_heads.decoder import Patterns
from case_studies.real_heads.inputs import Inputs
from interp import AttentionArrays
from interp.errors import RequestError
from interp.files import make_folder, write_text
from interp.header import canonical_json
from interp.limits import read_whole
from interp.progress import progress_bar
from probes import load_result, scan_heads
from probes.audit import ScanResult


def kept_scan(
    name: str,
    identity: str,
    patterns: Callable[[], Patterns],
    tokens: Any,
    words: Any,
    folder: Path,
    relations: Sequence[Any] | None,
    **how: Any,
) -> ScanResult:
    """The scan of all heads on patterns that somebody else measured [input, layer, head, query, key].

    Read from `folder` if it lies there. The file's name changes with the model, the inputs, the relations and the
    auditor.
    """
    asked = None if relations is None else [str(getattr(one, "name", one)) for one in relations]
    path = _path(folder, f"scan-{name}", [identity, _of(tokens), asked, asked_auditor()])
    if not path.is_file():
        arrays = AttentionArrays(patterns(), tokens, grammar=words)
        found = scan_heads(arrays[0], relations, tokens, **how)
        found.save(path)
    result = load_result(path)
    if not isinstance(result, ScanResult):
        raise RequestError(f"{str(path)!r} is not a scan: remove the file to scan again")
    return result


def kept_costs(
    name: str,
    identity: str,
    model: Any,
    inputs: Inputs,
    heads: Sequence[tuple[int, int]],
    folder: Path,
) -> tuple[Nats, Nats]:
    """(nats of each input with all heads, by how many more without each of `heads` [head, input]), a file per layer."""
    key = [identity, _of(inputs.tokens), _of(inputs.scored)]
    ready: list[Ablated] = []  # the model is run when the first head is missing
    found: dict[tuple[int, int], list[float]] = {}
    intact: list[float] = []
    with progress_bar(total=len(heads), desc=f"without a head, {name}", unit="heads") as bar:
        for layer in dict.fromkeys(layer for layer, _ in heads) or [0]:  # without heads, what the model loses with all
            path = _path(folder, f"costs-{name}-{layer}", key)
            held = _held(path)
            mine = [one for one in heads if one[0] == layer]
            missing = [head for _, head in mine if str(head) not in held["heads"]]
            if missing or not held["intact"]:
                if not ready:
                    ready.append(Ablated(model, inputs))
                held["intact"] = ready[0].intact().tolist()
                rows = ready[0].costs([(layer, head) for head in missing])
                held["heads"] |= {str(head): row.tolist() for head, row in zip(missing, rows, strict=True)}
                write_text(path, json.dumps(held, allow_nan=False))
            intact = held["intact"]
            found |= {one: held["heads"][str(one[1])] for one in mine}
            bar.update(len(mine))
    return np.array(intact), np.array([found[one] for one in heads]).reshape(len(heads), len(intact))


def _held(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {"intact": [], "heads": {}}
    try:
        held = json.loads(read_whole(path, "kept costs"))
        return {"intact": list(held["intact"]), "heads": dict(held["heads"])}
    except (ValueError, LookupError, TypeError) as error:
        raise RequestError(f"the kept costs {str(path)!r} are damaged: remove the file to measure again") from error


def _path(folder: Path, name: str, key: Any) -> Path:
    digest = hashlib.sha256(canonical_json(key).encode()).hexdigest()[:10]
    return make_folder(folder) / f"{name}-{digest}.json"


def _of(array: Any) -> list[Any]:
    return [list(array.shape), hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()]
