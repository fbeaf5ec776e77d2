"""The style sheet of reports and of their list."""

PRINTED = 0.75  # of figures on paper, where no less is needed for one page

STYLE = """
:root { color-scheme: only light; /* figures are drawn on white */
  --ink: #1f2933; --muted: #5b6770; --line: #dde2e7; --accent: #0072b2; }
* { box-sizing: border-box; }
body { margin: 0; background: #fff; color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", Arial, sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.3rem; margin: 2.5rem 0 .75rem; padding-top: .75rem; border-top: 1px solid var(--line); }
p { max-width: 75ch; }
h1, h2, p, li { overflow-wrap: anywhere; }
.asked { color: var(--muted); font-size: 1.1rem; margin: 0 0 1rem; }
.brief { display: grid; grid-template-columns: max-content minmax(0, 100ch); margin: 0; row-gap: .6rem; }
.brief dt { color: var(--muted); font-weight: 600; padding: .5rem 1.25rem .5rem 0; }
.brief dd { margin: 0; padding: .5rem 1rem; border-left: 4px solid var(--line); }
.brief dd.answer { background: #f3f7fa; border-left-color: var(--accent); }
.brief p { margin: 0; max-width: none; }
.brief ul, ul.answer { margin: 0; padding: 0 0 0 1.1rem; }
.brief li, ul.answer li { margin: .2rem 0; }
ul.answer { padding: .75rem 1rem .75rem 2.25rem; background: #f3f7fa; border-left: 4px solid var(--accent);
  max-width: 100ch; }
@media screen and (max-width: 700px) {
  .brief { grid-template-columns: minmax(0, 1fr); row-gap: 0; }
  .brief dt { padding: .6rem 0 .2rem; }
}
nav ol { display: flex; flex-wrap: wrap; gap: .25rem 1.5rem; padding: 0; margin: 1.25rem 0 0; list-style: none; }
a { color: var(--accent); }
/* A shadow at the edge behind which there is more of a wide table. */
.scroll { overflow-x: auto; margin: 1rem 0; background:
  linear-gradient(to right, #fff 30%, #fff0) left / 2.5rem 100% no-repeat local,
  linear-gradient(to left, #fff 30%, #fff0) right / 2.5rem 100% no-repeat local,
  radial-gradient(farthest-side at 0 50%, #1f293340, #1f293300) left / .8rem 100% no-repeat scroll,
  radial-gradient(farthest-side at 100% 50%, #1f293340, #1f293300) right / .8rem 100% no-repeat scroll; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .92rem; }
/* Cells break only where a table would be wider than the page; `typeset` says where they may not. */
th, td { text-align: right; padding: .32rem .7rem; border-bottom: 1px solid var(--line); }
thead th { color: var(--muted); font-weight: 600; vertical-align: bottom; }
/* Names of rows stay where a table is scrolled. */
th:first-child { text-align: left; padding-left: 0; position: sticky; left: 0; background: #fff; }
tbody th { font-weight: 500; }
.text { text-align: left; max-width: 26rem; }
.name { min-width: 11rem; }
.long { min-width: 16rem; }
.whole { white-space: nowrap; }
td small, th small { display: block; color: var(--muted); font-weight: 400; }
.word { font-weight: 600; }
/* The hues that verdicts have in pictures (interp.plots.style.VERDICTS), dark enough for text. */
.supported { color: #00684b; }
.misleading { color: #8c2f5a; }
.refuted { color: #a84400; }
.undecided { color: #7a5200; }
@media screen and (max-width: 700px) {
  .name { min-width: 9rem; }
  th.long { position: static; } /* else it would take half of the window */
}
.note { margin-top: -.4rem; }
.note, figcaption { color: var(--muted); font-size: .88rem; max-width: 85ch; }
figure { margin: 1.25rem 0; overflow-x: auto; }
pre { background: #f6f8fa; padding: .75rem 1rem; font-size: .88rem; white-space: pre-wrap; overflow-wrap: anywhere; }
@media screen and (max-width: 800px) {
  figcaption::before { content: "Scroll sideways to see all of a wide picture. "; font-style: italic; }
}
footer p { margin: .3rem 0; color: var(--muted); font-size: .85rem; overflow-wrap: anywhere; max-width: none; }
@page { size: A4 landscape; margin: 12mm; }
@media print {
  main { max-width: none; padding: 0; }
  nav, .modebar-container { display: none; }
  h2 { break-after: avoid; }
  figure, .tabled, tr, pre, p, li { break-inside: avoid; }
  p:has(+ .tabled), p:has(+ figure) { break-after: avoid; } /* what introduces them */
  figure { overflow: visible; zoom: var(--printed, .75); }
  .scroll { overflow: visible; background: none; zoom: .7; }
  th:first-child { position: static; }
  th, td { padding: .15rem .6rem; line-height: 1.4; }
}
"""
