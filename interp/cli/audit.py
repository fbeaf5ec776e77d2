"""`interp audit`: claims about heads, or the audit's own error rates (`--bench`)."""

import argparse
import os
import re
from pathlib import Path
from typing import Any

from interp.cli.files import check_figure, check_outputs, content_of, deliver, find_each, load_each
from interp.cli.flags import refuse_unread
from interp.errors import InterpError, RequestError
from interp.limits import read_whole


def audit(arguments: argparse.Namespace) -> int:
    """Audit claims. Any verdict is an answer, and returns 0; with --strict all but `supported` return 1."""
    refuse_unread(arguments)
    if arguments.bench:
        check_figure(arguments.figure)
        return bench(arguments)
    if not arguments.checkpoints:
        raise RequestError("nothing to audit: give a checkpoint and --claim TEXT, or --bench")
    from probes.claims import Own, check_each_once, read_own

    check_figure(arguments.figure)
    own = Own() if arguments.relations is None else read_own(arguments.relations)
    # A wrong claim is refused before torch is loaded.
    claims = [*(_parsed(text, own) for text in arguments.claim), *_claims_of(arguments.claims, own)]
    if not claims:
        raise RequestError("nothing to audit: give --claim 'L1H0 attends to the previous token'")
    if arguments.figure is not None and len(claims) > 1:
        raise RequestError(f"--figure draws the evidence of one claim, and {len(claims)} are given")
    check_each_once(claims)
    find_each(arguments, arguments.json, arguments.figure)
    model = load_each(arguments)
    from probes import audit_claims
    from probes.core import OF, SEVERAL, header_of_several

    how: dict[str, Any] = {"seed": arguments.seed, "task_check": not arguments.no_task_check}
    how |= {"early": True} if arguments.early else {}
    results = audit_claims(
        model, claims, inputs=arguments.inputs, num_inputs=arguments.num_inputs, progress=True, **how
    )
    said = "\n\n".join(result.summary() for result in results)
    names = [str(name) for name in arguments.checkpoints]
    told: dict[str, Any] = {"checkpoint": names[0]} if len(names) == 1 else {"checkpoints": names}
    whole = [content_of(result, **told) for result in results]
    several = {OF: header_of_several(results), SEVERAL: whole}
    deliver(said, arguments.json, whole[0] if len(whole) == 1 else several, arguments.figure, results[0])
    return int(arguments.strict and any(result.verdict != "supported" for result in results))


def _parsed(text: str, own: Any) -> Any:
    from probes.claims import Claim

    return Claim.parse(text, relations=own.relations, conditions=own.conditions, questions=own.questions)


def _claims_of(path: Path | None, own: Any) -> list[Any]:
    """Claims of a text file, one per line; behind " # " there may be a comment."""
    if path is None:
        return []
    try:
        lines = read_whole(path, "claims").decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise RequestError(f"cannot read the claims {str(path)!r}: {error}") from error
    claims = []
    for number, line in enumerate(lines, start=1):
        text = "" if line.lstrip().startswith("#") else re.sub(r"\s#(\s.*)?$", "", line).strip()
        if text:
            try:
                claims.append(_parsed(text, own))
            except InterpError as error:
                raise RequestError(f"{path.name} line {number}: {error}") from error
    if not claims:
        raise RequestError(f"{str(path)!r} holds no claim: write one per line")
    return claims


def wordings_help() -> str:
    """What `Claim.parse` understands, for the help."""
    from probes.claims import meanings, wordings

    stands_for = {name: f"  (attends to {relation})" for name, relation in meanings().items()}
    parts = (
        f"{part}:\n" + "".join(f"  {phrase}{stands_for.get(phrase, '')}\n" for phrase in phrases)
        for part, phrases in wordings().items()
    )
    return (
        "\nA claim reads 'HEADS attend(s) to RELATION [when CONDITION]', 'HEADS use(s) RELATION [to ...]', or says\n"
        "what a head is called; a verdict repeats it in the words that it stands for.\n" + "".join(parts)
    )


def bench(arguments: argparse.Namespace) -> int:
    """The audit on claims whose truth is known: no checkpoint, no claims."""
    check_outputs(arguments.json, arguments.figure, arguments.runs)
    how: dict[str, Any] = {"seed": arguments.seed, "workers": min(8, os.cpu_count() or 1), "progress": True}
    result: Any
    if arguments.bench == "trained":
        from probes.audit.bench.trained import run_trained_bench

        how |= {} if arguments.runs is None else {"runs": arguments.runs}
        result = run_trained_bench(arguments.models, arguments.half, **how)
    else:
        from probes.audit.bench import PER_FAMILY, run_bench

        result = run_bench(arguments.per_family or PER_FAMILY, **how)
    deliver(result.summary(), arguments.json, content_of(result), arguments.figure, result)
    return 0
