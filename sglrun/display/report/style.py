"""The style: how the page looks, on a screen light or dark, a phone, and paper."""

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #fff; --ink: #1c1d1f; --soft: #66696e; --rule: #e3e4e6; --wash: #f5f5f4;
  --main: #3a5a8c; --pale: #b9c7dd; --bad: #b3372b; --good: #3f7355;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #141517; --ink: #e4e4e2; --soft: #989b9f; --rule: #2c2e31;
    --wash: #1c1d20; --main: #8badde; --pale: #3c4f6e; --bad: #e8806f;
    --good: #7fb795;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0 auto; padding: 2.5rem clamp(1rem, 4vw, 3rem) 4rem; max-width: 72rem;
  background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue",
    Arial, sans-serif;
  font-variant-numeric: tabular-nums;
}
header p, h1, h2, h3, p, dl, dd, table, figure, ul { margin: 0; padding: 0; }
h1 {
  font-size: 1.7rem; font-weight: 600; line-height: 1.2; letter-spacing: -0.012em;
  overflow-wrap: anywhere;
}
h2 { font-size: 1rem; font-weight: 600; line-height: 1.5; }
h3 { font-size: 0.8rem; font-weight: 500; color: var(--soft); margin-bottom: 0.4rem; }
.soft, footer, .unit { color: var(--soft); }
.small { font-size: 0.8rem; }
.bad { color: var(--bad); }
.good { color: var(--good); }
.text { white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: isolate; }
code, .code {
  font-family: ui-monospace, "SF Mono", SFMono-Regular, Menlo, Consolas,
    "DejaVu Sans Mono", monospace;
  font-size: 0.85em; overflow-wrap: anywhere;
}
header { padding-bottom: 1.6rem; }
header .kicker { color: var(--soft); margin-bottom: 0.3rem; }
header .what { margin-top: 0.35rem; color: var(--soft); overflow-wrap: anywhere; }
section {
  display: grid; grid-template-columns: 10.5rem minmax(0, 1fr); column-gap: 2rem;
  padding: 1.5rem 0 1.7rem; border-top: 1px solid var(--rule);
}
section > * + * { grid-column: 2; }
section > * + * + * { margin-top: 1.3rem; }
section > h2 { grid-row: 1 / span 9; }
section > h2 small {
  display: block; font-weight: 400; font-size: 0.8rem; color: var(--soft);
  line-height: 1.4; padding-right: 0.5rem; margin-top: 0.15rem;
}
.figures { display: flex; flex-wrap: wrap; gap: 1rem 2.4rem; }
.figures div { display: flex; flex-direction: column-reverse; }
.figures dt { font-size: 0.8rem; color: var(--soft); white-space: nowrap; }
.figures dd {
  font-size: 1.5rem; line-height: 1.25; letter-spacing: -0.01em; white-space: nowrap;
}
.figures.less dd { font-size: 1.15rem; }
.bar { display: flex; height: 0.5rem; gap: 2px; }
.bar i { display: block; min-width: 2px; background: var(--main); }
.bar i.bad { background: var(--bad); }
.bar i.pale { background: var(--pale); }
.bar i.left { background: var(--rule); }
.key { display: flex; flex-wrap: wrap; gap: 0.2rem 1.4rem; margin-top: 0.5rem;
  font-size: 0.8rem; color: var(--soft); }
.key i { display: inline-block; width: 0.6rem; height: 0.6rem; margin-right: 0.45rem;
  background: var(--main); }
.key i.pale { background: var(--pale); }
.key i.bad { background: var(--bad); }
.key i.left { background: var(--rule); }
svg { display: block; width: 100%; height: 7.5rem; overflow: visible; }
svg .main { fill: var(--main); }
svg .bad { fill: var(--bad); }
svg .base { stroke: var(--rule); stroke-width: 1; vector-effect: non-scaling-stroke; }
svg .mark { stroke: var(--ink); stroke-width: 1; stroke-dasharray: 2 3;
  vector-effect: non-scaling-stroke; opacity: 0.6; }
.axis { display: flex; justify-content: space-between; margin-top: 0.3rem;
  font-size: 0.75rem; color: var(--soft); }
.above { margin: 0 0 0.3rem; }
h3 + .facts, h3 + dl { margin-top: 0.4rem; }
.facts { display: grid; grid-template-columns: max-content minmax(0, 1fr);
  gap: 0.15rem 1.5rem; }
.facts dt { color: var(--soft); }
.facts dd { overflow-wrap: anywhere; }
.scroll { overflow-x: auto; min-height: min-content; }
table { border-collapse: collapse; width: 100%; font-size: 0.87rem; }
th { font-weight: 500; font-size: 0.8rem; color: var(--soft); text-align: left; }
th, td { padding: 0.28rem 1.2rem 0.28rem 0; vertical-align: top; }
th:last-child, td:last-child { padding-right: 0; }
tbody tr { border-top: 1px solid var(--rule); }
td.n, th.n { text-align: right; white-space: nowrap; }
td.wide { width: 45%; vertical-align: middle; }
td .fill { display: block; height: 0.5rem; min-width: 1px; background: var(--main); }
.several { display: grid; gap: 1.5rem 3rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 21rem), 1fr)); }
.item { border-top: 1px solid var(--rule); padding: 0.7rem 0; }
.item:first-child { border-top: 0; padding-top: 0; }
.item:last-child { padding-bottom: 0; }
.item .head { display: flex; flex-wrap: wrap; gap: 0 1rem; align-items: baseline; }
.item .head .end { margin-left: auto; color: var(--soft); font-size: 0.8rem;
  white-space: nowrap; }
details.item > summary { cursor: pointer; list-style-position: outside; }
.values { display: grid; grid-template-columns: minmax(5rem, 9rem) minmax(0, 1fr);
  gap: 0.15rem 1.2rem; margin-top: 0.35rem; font-size: 0.87rem; }
.values dt { color: var(--soft); overflow-wrap: anywhere; }
.values dd { max-width: 46rem; }
footer { border-top: 1px solid var(--rule); padding-top: 1rem; font-size: 0.8rem; }
@media (max-width: 46rem) {
  body { padding-top: 1.5rem; }
  section { display: block; padding: 1.1rem 0 1.4rem; }
  section > * + * { margin-top: 0.9rem; }
  section > h2 small { display: inline; margin-left: 0.5rem; }
  .figures { gap: 0.7rem 1.6rem; }
  .facts { grid-template-columns: minmax(0, 1fr); gap: 0; }
  .facts dt { font-size: 0.8rem; margin-top: 0.4rem; }
  .values { grid-template-columns: minmax(0, 1fr); gap: 0; }
  .values dt { margin-top: 0.3rem; font-size: 0.8rem; }
  td.wide { width: 25%; }
}
@media print {
  :root {
    --paper: #fff; --ink: #000; --soft: #555; --rule: #ccc; --wash: #fff;
    --main: #3a5a8c; --pale: #b9c7dd; --bad: #a02c20; --good: #2f5c43;
  }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  body { padding: 0; max-width: none; font-size: 10pt; }
  section { grid-template-columns: 8rem minmax(0, 1fr); padding: 1rem 0; }
  figure, tr, .item, .figures { break-inside: avoid; }
  h2 { break-after: avoid; }
}
"""
