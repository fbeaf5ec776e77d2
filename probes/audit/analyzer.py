"""Auditing what is said about attention heads: does the pattern hold, does the model use it, would another seed agree?

    audit_claim(load_checkpoint("dyck-standard"), "L1H0 attends to the last unmatched open bracket")

Two findings, then one word. *Pattern*: `holds`, `fails` or `undecided`, from scores with intervals over inputs,
against rivals and nulls. *Use*: `used`, `redundant`, `unused`, `undecided` or `not asked`, from interventions on what
is read along the claimed edges and on where the head looks there. Half of the inputs chooses (rivals, partners,
heads), the other decides.
The numbers that define the words are those of `probes.audit.thresholds`; the rules are tables, which
`probes.audit.rules_table` prints. In short:

- pattern fails: `refuted`.
- pattern holds, and the claim is about attention only: `supported`; the same line says so if the head is proven
  to be of no use for the model's task.
- pattern holds and the claim is about use: `supported` if used or redundant, `misleading` if unused.
- anything else: `undecided`.

The inputs' task is the question of their world (of brackets: to predict closing ones). Its margin is logit(answer) -
logit(foil), where a minimal pair has the one answer for the string and the other for its donor: what decides is
another there. Effects are shares of the intact margin; 2 turns it over. Inputs with
labels make a task of their own: the answer is the label, and the foil is the label of the donor, another input.

Power. An edit that moves nothing means something only where something could have moved. So the claimed edges of all
heads together, or else the token itself (if the claimed edges read it), must move a quarter of the margin. Where not,
all that the head gives is exchanged for what it gives on another input: if that moves nothing, it is of no use. Else
use is undecided: the model does not do this task, or the pairs do not change what is read there. One thing is
known without a margin: a model whose output is the same for every input (Proposition 1), or whose answer does not
move *in its last bit* when the very token that the right answer turns on is exchanged, uses no head for it. That is no
failure to find an effect: nothing is left through which one could pass. Such a head is `unused`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from interp.checks import not_read, optional_whole, true_or_false
from interp.errors import RequestError, quoted
from interp.guests import grammar_of, hosting, is_bridge, language_of, models_of
from interp.recipe import num_labels
from interp.rng import check_seed
from interp.task_check import TaskCheck, check_task
from probes.audit.bridge import View, check_readout, probed, trusted_logits
from probes.audit.inputs import LENGTH, MEMORY, NUM_INPUTS, drawn_inputs, make_inputs, own_length, together
from probes.audit.labels import LaidOut, labelled, lay_out
from probes.audit.looks import Part, Plan, parts_of, tasks_of
from probes.audit.model import NULL_MODELS, Outcome
from probes.audit.pattern import Laid
from probes.audit.population import Seeds, over_seeds
from probes.audit.result import AuditResult
from probes.audit.tails import Tails
from probes.audit.tasks import NoTask, Task, task_for
from probes.audit.verdicts import reason_of
from probes.claims import (
    FORM,
    Claim,
    Condition,
    Own,
    Question,
    Relation,
    check_each_once,
    check_usable,
    heads_text,
    truth_of,
    usable,
)
from probes.core import recorded

MOST_CLAIMS = 10_000  # of one audit, and relations of one's own: a scan of 144 heads makes some 3,000


@recorded
def audit_claim(
    model: Any, claim: Claim | str, inputs: Any = None, task: Task | None = None, **how: Any
) -> AuditResult:
    """Audit one claim about a model or a population; arguments and errors are those of `audit_claims`.

    Raises `RequestError` where something given is not understood, `AnalysisError` where it cannot be measured.

    >>> from interp import load_checkpoint
    >>> from probes import audit_claim
    >>> claim = "L1H0 uses the last unmatched open bracket to predict closing brackets"
    >>> found = audit_claim(load_checkpoint("constructed/constant"), claim, num_inputs=200, length=16)
    >>> found.verdict, found.pattern, found.use
    ('misleading', 'holds', 'unused')
    """
    return audit_claims(model, [claim], inputs, task, **how)[0]


@recorded
@hosting("audit")
def audit_claims(
    model: Any,
    claims: Sequence[Claim | str],
    inputs: Any = None,
    task: Task | None = None,
    *,
    grammar: Any = None,
    relations: Sequence[Relation] = (),
    conditions: Sequence[Condition] = (),
    questions: Sequence[Question] = (),
    readout: str | None = None,
    strata: Any = None,
    seed: int = 0,
    num_inputs: int | None = None,
    length: int | None = None,
    untrained: bool = True,
    progress: bool = False,
    task_check: bool = True,
    early: bool = False,
) -> list[AuditResult]:
    """Audit claims about a model, a population, or a list of models of one shape; corrected for their number.

    `claims`: `Claim`s, or sentences that `Claim.parse` reads, with your own `relations`, `conditions` and `questions`;
    each claim once.
    `inputs`: texts, or token ids [input, pos] (START first, PAD on the right); each distinct one counts once.
    Default: `num_inputs` (400) drawn with `seed` as the grammar's world draws them, of `length` (26) where it reads
    one; of a causal model of no world 200 of 32 tokens: pieces of a text, or random tokens that come twice where a
    claim is about earlier copies, or nothing reads the text (`interp.claims.language`); the result says which.
    Or `LabelledInput`s, dicts of the same (text, label, position), or the path of a JSON file of them.
    `task`: what use is asked about; default: the inputs' labels, if they have any; else what the claim says, or what
    models of this grammar are trained for; of no world, to predict the next token.
    `readout`: where the logits of labelled inputs come from. Default: the model's own; but a `TransformerBridge` of an
    encoder may have drawn its head at random, so say "logits" if you know that its file holds the head, or "probe" for
    a linear readout of the last hidden state where an input is read, fitted on half A.
    `strata` [input] or [input, any]: what both halves of the inputs are to have alike, such as the article that a text
    is from; two texts of one article then never lie in one half. Labelled inputs: label, length and place besides.
    `grammar` replaces the model's own. `untrained=False` leaves out the null of untrained models of the same config.
    `early=True` looks at a quarter of the inputs first (`probes.audit.looks`), and at all only for claims that this
    leaves undecided; each look spends its share of the error level. A `task` is then asked of fewer tokens at first.
    `task_check=False` audits models that do not do their grammar's task as well (see `interp.task_check`); inputs with
    labels set a task of their own.

    One model: intervals over inputs. A population: each seed is audited so, and the verdict is about seeds; a named
    head stands for the best of its layer, chosen in each seed on half of the inputs, since the numbering of heads
    means nothing across seeds.

    Raises `RequestError` or `AnalysisError` for a head that is not there, a claim that is not understood, a relation
    or task that the model's grammar does not have, and inputs that cannot be read. The model is left as it was.
    """
    progress, early = true_or_false("progress", progress), true_or_false("early", early)
    own = Own(relations, conditions, questions).checked()
    ready = prepared(
        model, lambda first, known: asked_of(claims, own, first, known), inputs, task, grammar=grammar, readout=readout,
        strata=strata, seed=seed, num_inputs=num_inputs, length=length, untrained=untrained, task_check=task_check,
    )  # fmt: skip
    plan = Plan(
        ready.asked, parts_of(ready.laid, ready.seed, early), ready.about, ready.untrained, ready.seed, ready.tails
    )
    with progress_of(len(ready.models) * len(ready.asked), progress) as tick:
        found = plan.run(list(ready.views()), len(ready.models) > 1, tick)
    return _results(plan, ready, found, early)


@dataclass(frozen=True)
class Prepared:
    """What claims are asked of: models and inputs, read and checked.

    `about`: the claims, each with its task; or inputs whose labels are the task of all. `drawn`: what inputs were drawn
    for a model of no world, in words.
    """

    models: Sequence[Any]
    seeds: Sequence[int]
    grammar: Any
    given: LaidOut | None
    laid: Laid
    asked: list[Claim]
    about: "dict[Claim, Task | NoTask] | LaidOut | None"
    readout: str | None
    seed: int
    tails: Tails
    with_untrained: bool
    checked: TaskCheck | None
    drawn: str = ""

    @property
    def tasks(self) -> "dict[Claim, Task | NoTask]":
        """The claims, each with its task."""
        return tasks_of(self.about, self.asked, Part(self.laid))

    def views(self) -> Iterator[Any]:
        """The models as they are run, one at a time."""
        return (_view(one, self.grammar, self.given, self.laid, self.readout) for one in self.models)

    def untrained(self) -> Iterable[Any]:
        """Models of the same config before training, one at a time; none where that null is left out."""
        return _untrained(self.models[0]) if self.with_untrained else ()


def prepared(
    model: Any, claims: Callable[[Any, Any], list[Claim]], inputs: Any, task: Task | None, *, grammar: Any,
    readout: str | None, strata: Any, seed: int, num_inputs: int | None, length: int | None, untrained: bool,
    task_check: bool,
) -> Prepared:  # fmt: skip
    """Arguments as of `audit_claims`; `claims`: those of a model and its grammar. Refusals come before any run."""
    seed, untrained = check_seed(seed), true_or_false("untrained", untrained)
    task_check = true_or_false("task_check", task_check)
    models = models_of(model, "audit")
    _check_task(task)
    not_read("inputs are given", **({} if inputs is None else {"num_inputs": num_inputs, "length": length}))
    count = optional_whole("num_inputs", num_inputs, NUM_INPUTS, most=MEMORY)
    size = optional_whole("length", length, LENGTH, most=MEMORY)
    grammar = grammar_of(model, models, grammar, "audit") or language_of(models[0])
    asked = claims(models[0], grammar)
    drawn = None
    if inputs is None:
        if (tokens := own_length(grammar)) is not None:
            not_read(f"strings of this grammar have {tokens} tokens", length=length)
        drawn = drawn_inputs(models[0], grammar, [one.relation for one in asked], num_inputs, length, seed)
        inputs = None if drawn is None else drawn.tokens
    given = _given(inputs, models[0], grammar, readout)
    labels = _with_labels(given, models[0], readout)
    tasks = _tasks(asked, task, labels, models[0], grammar, readout)
    laid = _laid(models[0], grammar, inputs if given is None else given, count, size, seed, strata)
    tasks = _on(tasks, laid.inputs.tokens, grammar)
    checked = check_task(models, grammar, laid.inputs.tokens, seed, "audit", task_check)
    seeds, tails = getattr(model, "seeds", range(len(models))), Tails(models[0], grammar, size, seed, inputs is None)
    about, told = tasks or labels, "" if drawn is None else drawn.words
    return Prepared(
        models, tuple(seeds), grammar, given, laid, asked, about, readout, seed, tails, untrained, checked, told
    )


# -- inside -------------------------------------------------------------------------------------------------


def _check_task(task: Any) -> None:
    if task is not None and not all(hasattr(task, part) for part in ("name", "words", "items")):
        raise RequestError(
            f"task={quoted(task)} is not a task: pass an object with name, words and items (see probes.audit.tasks), "
            "or say in the claim what a head is used for"
        )


def asked_of(claims: Any, own: Own, model: Any, grammar: Any) -> list[Claim]:
    """The claims, parsed and checked: a list of at least one, each once, of heads and truths that are there."""
    single = isinstance(claims, (str, bytes, Claim)) or not isinstance(claims, Iterable)
    listed = [] if single else list(claims)
    if len(listed) > MOST_CLAIMS:
        raise RequestError(f"{len(listed):,} claims, and {MOST_CLAIMS:,} are the most that one audit corrects for")
    if not listed:
        raise RequestError(
            f"claims={quoted(claims)} is not a list of at least one claim: audit_claim takes a single one"
        )
    if (given := len(own.relations)) > MOST_CLAIMS:
        raise RequestError(f"{given:,} relations, and {MOST_CLAIMS:,} are the most: each claim is compared with all")
    asked = []
    for claim in listed:
        if isinstance(claim, str):
            claim = Claim.parse(claim, relations=own.relations, conditions=own.conditions, questions=own.questions)
        if not isinstance(claim, Claim):
            raise RequestError(f"claim {quoted(claim)} is neither a sentence nor a Claim: {FORM}")
        asked.append(claim)
    check_each_once(asked)
    for claim in asked:
        _check(claim, model, grammar)
    return asked


def _check(claim: Claim, model: Any, grammar: Any) -> None:
    layers, heads = model.cfg.n_layers, model.cfg.n_heads
    for layer, head in claim.heads:
        if layer >= layers or head >= heads:
            raise RequestError(
                f"{heads_text([(layer, head)])} in {quoted(claim.text)} is not there: the model has layers "
                f"0..{layers - 1}, heads 0..{heads - 1}"
            )
    check_usable(claim.relation, grammar)
    if claim.when is not None and not usable(claim.when, grammar):
        needed = truth_of(claim.when.needs)
        raise RequestError(f"{quoted('when ' + claim.when.words)} needs {needed}, which the model lacks")


def _given(inputs: Any, model: Any, grammar: Any, readout: str | None) -> LaidOut | None:
    """Inputs that say where they are read, laid out; None for all others."""
    entries = labelled(inputs)
    given = None if entries is None else lay_out(entries, model, grammar, free=readout == "probe")
    check_readout(readout, given)
    return given


def _laid(model: Any, grammar: Any, inputs: Any, count: int, size: int, seed: int, strata: Any) -> Laid:
    """The inputs, given (laid out where they say where they are read) or drawn, in two halves."""
    tokens, alike, lengths = inputs, None, None
    if isinstance(inputs, LaidOut):
        tokens, alike, lengths = inputs.tokens, inputs.strata, inputs.length
    return Laid(make_inputs(model, grammar, tokens, count, size, seed, together(strata, alike), lengths))


def _with_labels(given: LaidOut | None, model: Any, readout: str | None) -> LaidOut | None:
    """The inputs if any of them has a label; else None, and a readout that nothing would read is refused."""
    if given is not None and bool((given.label >= 0).any()):
        return given
    if readout == "logits" and (not is_bridge(model) or trusted_logits(model)):
        not_read("it says where labels are read, and the inputs have none", readout=readout)
    return None


def _tasks(
    asked: Sequence[Claim], task: Task | None, labels: LaidOut | None, model: Any, grammar: Any, readout: str | None
) -> "dict[Claim, Task | NoTask] | None":
    """What use is asked about, claim by claim; None: the labels, which are no task before the inputs are laid out."""
    if not any(name.endswith("attn.hook_z") for name in model.hook_dict):
        shown = "Use is not asked: this model shows its patterns, and nothing through which they could be edited."
        return dict.fromkeys(asked, NoTask(shown))
    if task is not None:
        return dict.fromkeys(asked, task)
    if labels is None:
        return {claim: _task_of(claim, model, grammar) for claim in asked}
    untrusted = _untrusted(model, readout)
    return None if untrusted is None else dict.fromkeys(asked, untrusted)


def _on(tasks: "dict[Claim, Task | NoTask] | None", tokens: Any, grammar: Any) -> "dict[Claim, Task | NoTask] | None":
    """What is asked of these inputs, of questions that depend on them."""
    if tasks is None:
        return None
    return {claim: task.on(tokens, grammar) if hasattr(task, "on") else task for claim, task in tasks.items()}


def _view(model: Any, grammar: Any, given: LaidOut | None, laid: Laid, readout: str | None) -> Any:
    """The model as it is run: padding masked, and with the probe that was asked for."""
    pad = getattr(grammar, "pad", None)
    if readout == "probe":
        assert given is not None
        return probed(model, given, laid.inputs.half_a, pad)
    return View(model, pad, logits=readout == "logits" or trusted_logits(model)) if is_bridge(model) else model


def _untrusted(model: Any, readout: str | None) -> NoTask | None:
    """Why labels cannot be read off this model's logits, or None."""
    if readout is not None or trusted_logits(model):
        return None
    return NoTask(
        "Use is not asked: the logits of a bridged encoder are noise unless its file holds the head. Declare "
        "readout='probe' (a linear probe of the last hidden state), or readout='logits' if the head is there."
    )


def _task_of(claim: Claim, model: Any, grammar: Any) -> Task | NoTask:
    """The task of `task_for`, which supposes a causal model with next-token logits."""
    if claim.question is not None:
        return claim.question
    name = None if claim.uses in ("labels", "task") else claim.uses
    if claim.uses == "labels":
        return NoTask("Use is not asked: the inputs carry no labels to predict.")
    if task := _task_named(name, model, grammar):
        return task
    return NoTask("Use cannot be examined: no task of this model is known. Give inputs with labels, or task=.")


def _task_named(name: str | None, model: Any, grammar: Any) -> Task | None:
    cfg = model.cfg
    outputs, size = getattr(cfg, "d_vocab_out", None), cfg.d_vocab if grammar is None else num_labels(grammar)
    # Labels of their own are no tokens that a model could see beforehand; and a copy is of what it sees anyway.
    copies = getattr(grammar, "copies", False) and name in (None, "copies") and trusted_logits(model)
    own = hasattr(grammar, "label_names") or copies
    causal = getattr(cfg, "attention_dir", "causal") == "causal" or own
    if causal and (outputs is None or outputs == size):
        return task_for(grammar, name)
    if name is not None:
        what = f"gives {outputs} outputs for {size} tokens" if causal else "sees the tokens that it is to predict"
        raise RequestError(f"use {quoted(name)} is read off next-token logits, and this model {what}: pass task=")
    return None


def _untrained(model: Any) -> Iterator[Any]:
    """A few models of the same config before training, one at a time; none where the config is not ours."""
    from interp.model import SandboxTransformer

    if isinstance(model, SandboxTransformer):
        for seed in range(NULL_MODELS):
            yield SandboxTransformer.init(model.config, seed, model.grammar)


def _results(
    plan: Plan, ready: Prepared, found: Sequence[Sequence[tuple[Outcome, Outcome]]], early: bool
) -> list[AuditResult]:  # fmt: skip
    """One result a claim. `found`: by model and claim, the best candidate and the named heads."""
    out = []
    tasks = plan.tasks(plan.parts[-1])
    for at, claim in enumerate(plan.asked):
        of_claim = [of_model[at] for of_model in found]
        common = {
            "task": getattr(tasks[claim], "name", None), "level": plan.level(), "num_claims": len(plan.asked),
            "num_inputs": max(best.num_inputs for best, _ in of_claim), "parts": claim.to_dict(), "seed": plan.seed,
            "task_check": ready.checked, "looks": plan.looks if early else (), "drawn": ready.drawn,
        }  # fmt: skip
        if len(found) == 1:
            out.append(_of_model(claim, of_claim[0][0], common))
        else:
            seeds = over_seeds(claim, ready.seeds, of_claim, plan.level_of_seeds)
            if early:
                rows = zip(seeds.rows, of_claim, strict=True)
                seeds = replace(seeds, rows=[{**row, "num_inputs": best.num_inputs} for row, (best, _) in rows])
            out.append(_of_seeds(claim, seeds, {**common, "level": plan.level_of_seeds}))
    return out


def _of_model(claim: Claim, found: Outcome, common: dict[str, Any]) -> AuditResult:
    return AuditResult(
        claim=claim.text,
        pattern=found.pattern.word,
        use=found.use.word,
        verdict=found.verdict,
        reason=reason_of(found.pattern, found.use, claim),
        evidence=tuple(row.to_dict() for row in (*found.pattern.evidence, *found.use.evidence)),
        heads=found.heads,
        num_models=1,
        share=None,
        floor=None,
        seeds=(),
        **{**common, "level": found.level},  # stricter where several heads were tried for "some head"
    )


def _of_seeds(claim: Claim, found: Seeds, common: dict[str, Any]) -> AuditResult:
    return AuditResult(
        claim=claim.text,
        pattern=found.pattern,
        use=found.use,
        verdict=found.verdict,
        reason=found.reason,
        evidence=tuple(row.to_dict() for row in found.evidence),
        heads=claim.heads,
        num_models=len(found.rows),
        share=found.share,
        floor=found.floor,
        seeds=tuple(found.rows),
        **common,
    )


@contextmanager
def progress_of(total: int, shown: bool, what: str = "audit", unit: str = "claims") -> Iterator[Callable[[], None]]:
    """A progress bar on standard error, or nothing."""
    from interp.progress import progress_bar

    with progress_bar(total=total, desc=what, unit=unit, disable=not shown, leave=False) as bar:

        def tick() -> None:
            bar.update(1)

        yield tick
