"""The rules on the use of a head, and on heads that are claimed together."""

from dataclasses import dataclass

from interp.numbers import percent
from interp.stats import Estimate
from probes.audit import thresholds as t
from probes.audit.conditions import ALWAYS, Bound, Condition, Given, Is, Not, Some, all_of, any_of
from probes.audit.edits import Head
from probes.audit.effects import Effects
from probes.audit.rules import Gather, Phrases, Rule, span
from probes.audit.stats import reach, units_to_exclude
from probes.audit.tasks import Task
from probes.claims import heads_text

# -- conditions that several rules, measurements or rows of the table speak of

ENOUGH_ITEMS = Bound("items", ">=", t.MIN_SEQUENCES)
STILL = Bound("output_change", "<=", t.EXACT)  # the output is the same whatever is read
SILENT = Bound("answer_change", "<=", t.EXACT)  # the answer is the same when the very token is exchanged
AIMS = Bound("aimed", ">=", t.AIMED)  # the claimed edges read what the donor changes, in most items
# What could have moved: these edges in all heads at once, the token itself. With power, an edit that moves nothing
# means something.
EVERY_MOVES, TOKEN_MOVES = Bound("every.value", ">=", t.POWER), Bound("token.value", ">=", t.POWER)
ENOUGH_BY_TOKEN = all_of(AIMS, TOKEN_MOVES)
POWERFUL = any_of(EVERY_MOVES, ENOUGH_BY_TOKEN)
# What the exchange moves, net of the sham and as it is.
MOVES = all_of(Bound("total.low", ">=", t.USED), Bound("raw.low", ">=", t.USED))
# A donor's value may contradict what others say, as no input does: without what varies there, something must be lost.
COSTS_MARGIN, COSTS_ANSWERS = Bound("fill.low", ">=", t.UNUSED), Bound("fill_lost.low", ">=", t.UNUSED)
COSTS = any_of(COSTS_MARGIN, COSTS_ANSWERS)
USED_WHOLE = all_of(MOVES, COSTS)
SHOWN_DIRECTLY = Bound("direct.low", ">=", t.USED)
# Later parts may make up for what is said directly; of use is what they leave.
MARGIN_LEFT = all_of(Bound("total.low", ">=", t.UNUSED), Bound("raw.low", ">=", t.UNUSED))
PART_LEFT = any_of(MARGIN_LEFT, Bound("turned.low", ">=", t.UNUSED))
USED_DIRECTLY = all_of(SHOWN_DIRECTLY, PART_LEFT, Bound("direct_fill.low", ">=", t.UNUSED))
# With the partners gone something must be left, or else the head cannot be what the model falls back on.
NEEDED_BESIDE = all_of(Bound("with_partners.low", ">=", t.USED), Bound("left_beside.low", ">=", t.USED))
# Equivalent to no effect, net of the sham or with all that it moves.
NO_TOTAL = Bound("total.reach", "<", t.UNUSED)
NONE_BESIDE = Bound("with_partners.reach", "<", t.UNUSED)
NONE_DIRECT = Bound("direct.high", "<", t.USED)
# By where the head looks: the donor's pattern over the own values, and over the donor's.
LOOK_USED = all_of(Bound("look.low", ">=", t.USED), Bound("look_raw.low", ">=", t.USED))
BOTH_USED = all_of(
    Bound("both.low", ">=", t.USED), Bound("both_raw.low", ">=", t.USED),
    Bound("pattern_change", ">", t.SAME_PATTERN),  # else it is the values alone
)  # fmt: skip
GIVES = Bound("gone.low", ">=", t.UNUSED)  # its mean in the place of all that it gives: something is lost
LOOK_BESIDE = all_of(
    Bound("left_look_beside.low", ">=", t.USED),
    any_of(
        all_of(Bound("look_beside.low", ">=", t.USED), Bound("look_beside_raw.low", ">=", t.USED)),
        all_of(Bound("both_beside.low", ">=", t.USED), Bound("both_beside_raw.low", ">=", t.USED)),
    ),
)


def _none(part: str, net: str, raw: str = "") -> Condition:
    """A number and, if there is one, what it is without its sham: either of them below `UNUSED`."""
    return any_of(*(Bound(f"{name}.{part}", "<", t.UNUSED) for name in (net, raw) if name))


def _unless(missing: str, condition: Condition) -> Condition:
    return any_of(Not(Given(missing)), condition)


NONE_ALONE = _none("reach", "total", "raw")
NONE_WITH_PARTNERS = _unless("with_partners", _none("reach", "with_partners", "raw_with_partners"))
NO_LOOK, NO_BOTH = _none("reach", "look", "look_raw"), _none("reach", "both", "both_raw")
NO_LOOK_BESIDE = _unless("look_beside", _none("reach", "look_beside", "look_beside_raw"))
NO_BOTH_BESIDE = _unless("both_beside", _none("reach", "both_beside", "both_beside_raw"))
NO_CHANGE = all_of(NONE_ALONE, NONE_WITH_PARTNERS, NONE_DIRECT, NO_LOOK, NO_BOTH, NO_LOOK_BESIDE, NO_BOTH_BESIDE)
# A few loud inputs can make up the margin while the answers of others turn over.
NO_TURN = Bound("turned.reach", "<", t.UNUSED)
NONE = all_of(NO_CHANGE, NO_TURN)
# The same of the intervals alone: what so few inputs show that an effect on one in twenty may have passed unseen.
NONE_SEEN = all_of(
    _none("far", "total", "raw"), _unless("with_partners", _none("far", "with_partners", "raw_with_partners")),
    Bound("direct.far", "<", t.UNUSED), _none("far", "look", "look_raw"), _none("far", "both", "both_raw"),
    _unless("look_beside", _none("far", "look_beside", "look_beside_raw")),
    _unless("both_beside", _none("far", "both_beside", "both_beside_raw")),
    Bound("turned.far", "<", t.UNUSED), Not(Bound("fill.low", ">=", t.USED)),
    Not(Bound("fill_lost.low", ">=", t.USED)),
)  # fmt: skip

# All that the heads give, exchanged for what they give on any other input of the task, also one without these edges;
# and what of that is not along the claimed edges. A head that matters, and not by what it gives off them, may tell that
# there is such an edge, or by its weight what donors leave as it is.
GIVEN_MATTERS = any_of(
    Bound("given.low", ">=", t.USED), Bound("given_turned.low", ">=", t.USED), Bound("given_lost.low", ">=", t.USED)
)
ELSEWHERE = any_of(
    Bound("elsewhere.low", ">=", t.USED), Bound("elsewhere_turned.low", ">=", t.USED),
    Bound("elsewhere_lost.low", ">=", t.USED),
)  # fmt: skip
UNSEEN = all_of(GIVEN_MATTERS, Not(ELSEWHERE))
# Before searches are made: what would be unused if they find nothing.
NONE_SO_FAR = all_of(NONE_ALONE, NONE_DIRECT, NO_TURN)

# All that the heads give, exchanged for what they give on another input: where no exchange of edges could show a use.
WHOLE_NONE = all_of(
    Bound("whole.reach", "<", t.UNUSED),
    Bound("whole_turned.reach", "<", t.UNUSED),
    any_of(Not(Given("whole_lost")), Bound("whole_lost.reach", "<", t.UNUSED)),
    any_of(Not(Given("whole_beside")), Bound("whole_beside.reach", "<", t.UNUSED)),
    any_of(Not(Given("whole_in_company")), Bound("whole_in_company.reach", "<", t.UNUSED)),
)

OPEN = "Use cannot be decided: "
USE_RULES = (
    Rule("few_items", Not(ENOUGH_ITEMS), "undecided",
         OPEN + "{items} inputs {needs}, and {MIN_SEQUENCES} are needed: give more inputs", ("items",)),
    Rule("dead_edit", Given("dead"), "undecided",
         OPEN + "{dead}, so an edit of it proves nothing", ("edit",)),
    Rule("still", STILL, "unused",
         "The model's output is the same whatever it reads, so nothing that it attends to is used", ("still",)),
    Rule("silent_unpaired", all_of(SILENT, AIMS, Is("paired", False), Not(UNSEEN)), "unused",
         "The answer does not move in its last bit when all that these edges read is exchanged for what another "
         "input has there: it is not used", ("silent",)),
    Rule("silent", all_of(SILENT, AIMS, Not(UNSEEN)), "unused",
         "The right answer to '{task}' turns on the token that is exchanged, and the model's does not move "
         "in its last bit: what is read there is not used", ("silent",)),
    Rule("no_margin", Bound("margin.low", "<=", 0.0), "undecided",
         OPEN + "the model does not {task} (margin {margin})", ("margin",)),
    Rule("unused_whole", all_of(WHOLE_NONE, Not(UNSEEN)), "unused",
         "The model does not use it to {task}{where}: exchanging all that {heads} gives for what it gives on another "
         "input moves {whole} of the margin{beside}, each less than {UNUSED}{turns}",
         ("whole", "whole_turned", "whole_lost", "whole_beside", "whole_in_company")),
    Rule("no_power_not_aimed", all_of(Not(EVERY_MOVES), Not(AIMS)), "undecided",
         OPEN + "exchanging the values of these edges in all heads moves {every} of the margin, less than {POWER}, "
         "and the {pairs} do not change the tokens that are read there", ("every_head", "aimed")),
    Rule("no_power", all_of(Not(EVERY_MOVES), AIMS, Not(TOKEN_MOVES)), "undecided",
         OPEN + "exchanging the values of these edges in all heads moves {every} of the margin, less than {POWER}, "
         "and exchanging the token itself moves {token}", ("every_head", "token")),
    Rule("used", USED_WHOLE, "used",
         "To {task} the model uses it: {moved}, net of a sham of the same size",
         ("effect", "raw", ("mean_fill", COSTS_MARGIN), ("fill_lost", Not(COSTS_MARGIN)))),
    Rule("used_directly", USED_DIRECTLY, "used",
         "To {task} the model uses it, and what comes later makes up for a part: {moved}, and {direct} with later "
         "patterns and the scales of norms frozen",
         (("effect", MARGIN_LEFT), ("raw", MARGIN_LEFT), ("turned", Not(MARGIN_LEFT)), "direct", "direct_fill")),
    Rule("used_by_look", all_of(LOOK_USED, GIVES), "used",
         "To {task} the model uses it by where it looks: the donor's pattern over its own values moves {look} of the "
         "margin through the claimed edges, the donor's values under its own pattern {raw}",
         ("look", "look_raw", "gone")),
    Rule("used_by_both", all_of(BOTH_USED, GIVES), "used",
         "To {task} the model uses it by where it looks and by what is there: the donor's pattern with the donor's "
         "values moves {both} of the margin through the claimed edges, values alone {raw}, the pattern alone {look}",
         ("both", "both_raw", "gone")),
    Rule("used_by_answers", all_of(Bound("turned.low", ">=", t.TURNED), COSTS), "used",
         "To {task} the model uses it: exchanging what {heads} reads there turns over {turned} of the answers, net of "
         "shams of the same size, and moves {total} of the margin",
         ("turned", ("mean_fill", COSTS_MARGIN), ("fill_lost", Not(COSTS_MARGIN)))),
    Rule("redundant",
         all_of(NEEDED_BESIDE, Bound("raw_with_partners.low", ">=", t.USED), Bound("fill_beside.low", ">=", t.USED),
                any_of(Not(Given("held_with_partners")), Bound("held_with_partners.low", ">=", t.USED))),
         "redundant",
         "To {task} the model can do without it, but not without it and {partners}: {moved}, and {with_partners} once "
         "the others are ablated; the mean there then costs {fill_beside}",
         ("with_partners", "raw_with_partners", "held_with_partners", "left_beside", "fill_beside")),
    Rule("redundant_by_look", all_of(LOOK_BESIDE, Bound("gone_beside.low", ">=", t.USED)), "redundant",
         "To {task} the model can do without where it looks, but not without that and {look_partners}: with these "
         "ablated the donor's pattern moves {look_beside} of the margin through the claimed edges, with the donor's "
         "values {both_beside}, and the mean of all that it gives then costs {gone_beside}",
         ("look_beside", "both_beside", "left_look_beside", "gone_beside")),
    Rule("made_up_for", all_of(SHOWN_DIRECTLY, Not(PART_LEFT)), "undecided",
         OPEN + "{exchanged}, and {direct} with later patterns and the scales of norms frozen: what comes later makes "
         "up for it, or takes it back", ("effect", "raw", "turned", "direct")),
    Rule("sham_hides_it", all_of(Bound("total.low", ">=", t.USED), Bound("raw.low", "<", t.USED)), "undecided",
         OPEN + "{moved}, but {raw} with what a sham of the same size moves", ("raw",)),
    Rule("mean_is_enough", all_of(any_of(MOVES, Bound("turned.low", ">=", t.TURNED)), Not(COSTS)), "undecided",
         OPEN + "{moved}, but filling in the mean there costs {fill}, which is not {UNUSED} for sure: without what "
         "varies there the rest may be enough", ("mean_fill", "fill_lost")),
    Rule("output_is_enough", all_of(any_of(LOOK_USED, BOTH_USED), Not(GIVES)), "undecided",
         OPEN + "the donor's pattern moves {look} of the margin through the claimed edges, with the donor's values "
         "{both}, but the mean of all that it gives costs {gone}, which is not {UNUSED} for sure", ("gone",)),
    Rule("works_against", all_of(Bound("total.high", "<=", -t.USED), Bound("raw.high", "<=", -t.USED)), "undecided",
         OPEN + "{moved}: what it reads there works against the right answer", ("effect", "raw")),
    Rule("one_of_many", all_of(NONE, Given("in_company"), Not(Bound("in_company.reach", "<", t.UNUSED))), "undecided",
         OPEN + "{moved}, but {in_company} while {company} give what they give for the donor: it may be one of many "
         "that say the same", ("in_company",)),
    Rule("mean_matters", all_of(NONE, Bound("fill.low", ">=", t.USED)), "undecided",
         OPEN + "{moved}, but filling in the mean costs {fill}: what it reads there matters by something other than "
         "what the minimal pairs change", ("mean_fill",)),
    Rule("answers_lost", all_of(NONE, Bound("fill_lost.low", ">=", t.USED)), "undecided",
         OPEN + "{moved}, but filling in the mean turns over {fill_lost} of the right answers: what it reads there "
         "matters by something that donors and foils do not show", ("fill_lost",)),
    Rule("output_matters", all_of(NONE, UNSEEN), "undecided",
         OPEN + "{moved}, but exchanging all that it gives for what it gives on any other input moves {given} and "
         "turns over {given_turned} of the answers and loses {given_lost} of the right ones, and not by what it reads "
         "elsewhere: it may tell that such a key is there, or something by how much weight it puts there",
         (("given", Bound("given.low", ">=", t.USED)), ("given_turned", Bound("given_turned.low", ">=", t.USED)),
          ("given_lost", Bound("given_lost.low", ">=", t.USED)))),
    Rule("answers_turn", all_of(NO_CHANGE, Not(NO_TURN)), "undecided",
         OPEN + "{moved}, but turns over {turned} of the answers", ("turned",)),
    Rule("unused", NONE, "unused",
         "The model does not use it to {task}{where}: {nothing}{also}, each less than {UNUSED}{turns}",
         (("effect", NO_TOTAL), ("raw", Not(NO_TOTAL)), "direct", ("with_partners", NONE_BESIDE),
          ("raw_with_partners", Not(NONE_BESIDE)), "in_company", ("look", Bound("look.reach", "<", t.UNUSED)),
          ("look_raw", Not(Bound("look.reach", "<", t.UNUSED))), ("both", Bound("both.reach", "<", t.UNUSED)),
          ("both_raw", Not(Bound("both.reach", "<", t.UNUSED))), "look_beside", "both_beside", "turned")),
    Rule("too_few_to_exclude", all_of(NONE_SEEN, Bound("unseen", ">=", t.UNUSED)), "undecided",
         OPEN + "{moved}, and no other exchange as much as {UNUSED}, net of a sham or as it is, but the {items} inputs "
         "of the half that decides are too few to exclude an effect on {rare} of all: it needs {enough} at least",
         ("effect", "turned")),
    Rule("neither", ALWAYS, "undecided",
         OPEN + "{open}, neither {USED} for sure nor below {UNUSED}",
         (("effect", Not(NONE_ALONE)), ("with_partners", Not(NONE_WITH_PARTNERS)), ("direct", Not(NONE_DIRECT)),
          ("look", Not(NO_LOOK)), ("both", Not(NO_BOTH)), ("look_beside", Not(NO_LOOK_BESIDE)),
          ("both_beside", Not(NO_BOTH_BESIDE)))),
)  # fmt: skip


@dataclass(frozen=True)
class Idle:
    """One of several claimed heads that adds nothing to the others, and what was found of it alone."""

    head: Head
    rule: Rule
    effects: Gather[Effects]

    @property
    def finding(self) -> str:
        """The word on this head alone."""
        return self.rule.finding


@dataclass(frozen=True)
class Together:
    """The evidence on heads that are claimed together and are of use together."""

    idle: tuple[Idle, ...]
    unshown: tuple[Head, ...] = ()


# Read where the heads together are used or redundant; if none holds, that stays so.
TOGETHER_RULES = (
    Rule("one_is_unused", Some("idle", Is("finding", "unused")), "unused",
         "Exchanging what they read there moves {total} of the margin, and as much without {names}. {alone}"),
    Rule("one_is_idle", Some("idle", ALWAYS), "undecided",
         OPEN + "exchanging what they read there moves {total} of the margin, and as much without {names}, which may "
         "still be of use otherwise", ("effect",)),
    Rule("one_is_not_shown", Some("unshown", ALWAYS), "undecided",
         OPEN + "exchanging what they read there moves {total} of the margin, but nothing of it is shown to be added "
         "by {unshown}: that may add nothing, or work against the rest", ("effect",)),
)  # fmt: skip

# Said after the words of whichever rule decided.
USE_REMARKS = (
    Rule("left_out", Bound("left_out", ">", 0.0), "",
         " ({left_out} of the inputs have no claimed edge that could matter there, and are left out)"),
    Rule("untried", Bound("untried", ">", 0), "", " ({untried} other heads were not tried as partners)"),
    Rule("unnatural", Bound("unnatural", ">", t.UNNATURAL), "",
         " (edits took {outside} of the residual norms out of the natural range)"),
)  # fmt: skip


def use_phrases(e: Effects, task: Task, heads: str) -> Phrases:
    """What the words of the rules on use speak of; `heads`: the names of those that are claimed."""
    value, sham = (f"{span(x)}" for x in (e.raw if not NO_TOTAL(e) else e.total, e.sham))
    exchanged = f"exchanging what {heads} reads there moves {value} of the margin towards the other answer"
    nothing = [exchanged + ("" if NO_TOTAL(e) else f" (a sham of the same size {sham})")]
    pieces = {"moves": (e.look, e.look_raw), "and with the donor's values": (e.both, e.both_raw)}
    shown = [f"{words} {span(_least(pair, e.level))}" for words, pair in pieces.items() if pair[0] is not None]
    nothing += [f"the donor's pattern there {' '.join(shown)}"] if shown else []
    return Phrases(
        e,
        task=task.words,
        heads=heads,
        beside=f", nor with {heads_text(e.whole_partners)} ablated" if e.whole_partners else "",
        exchanged=exchanged,
        nothing="; ".join(nothing),
        open=_open(e, heads),
        left_out=percent(e.left_out),
        needs=getattr(task, "needs", "have a place to read"),
        moved=f"exchanging what {heads} reads there moves {span(e.total)} of the margin towards the other answer",
        pairs="minimal pairs" if e.paired else "donors",
        turns=_turns(e.turned or e.whole_turned),
        also=f", nor with {heads_text(e.partners)} ablated" if e.partners else "",
        outside=percent(e.unnatural),
        where=f" where {e.where}" if e.where else "",
        rare=percent(e.unseen),
        enough=str(units_to_exclude(t.UNUSED, e.level)),
    )


def _turns(share: Estimate | None) -> str:
    """Of what moves next to nothing on average: whether it turns over any answer at all."""
    return f" (it turns over {span(share)} of the answers)" if share is not None and share.value else ""


def _least(pair: tuple[Estimate | None, Estimate | None], level: float) -> Estimate | None:
    """Of a net and a raw effect, the one on which an absence rests: the net one where it shows it."""
    net, raw = pair
    return net if net is None or raw is None or reach(net, level) < t.UNUSED else raw


def _open(e: Effects, heads: str) -> str:
    """The effects that leave a use open, each with its words."""
    pieces = (
        (NONE_ALONE, f"exchanging what {heads} reads there moves {span(e.total)} of the margin to the other answer"),
        (NONE_WITH_PARTNERS, f"with {heads_text(e.partners)} ablated it moves {span(e.with_partners)}"),
        (NONE_DIRECT, f"with later patterns and the scales of norms frozen {span(e.direct)}"),
        (NO_LOOK, f"the donor's pattern over its own values moves {span(e.look)} through the claimed edges"),
        (NO_BOTH, f"the donor's pattern and values move {span(e.both)} through the claimed edges"),
        (NO_LOOK_BESIDE, f"the donor's pattern moves {span(e.look_beside)} with {heads_text(e.look_partners)} ablated"),
        (NO_BOTH_BESIDE, f"pattern and values move {span(e.both_beside)} with {heads_text(e.look_partners)} ablated"),
    )
    said = [words for none, words in pieces if not none(e)]
    return "; ".join(said) if said else pieces[0][1]
