import type { Figure } from "./figures.ts";
import type { Machine } from "./machine.ts";
import { escapeHtml } from "./plots.ts";
import { figureText, goalText, noteText, type Row, verdictOf } from "./rows.ts";

const style = `
:root{color-scheme:light dark;--canvas:light-dark(#f9fafb,#111517);--surface:light-dark(#fff,#171c1f);--line:light-dark(#dde2e5,#32393d);
--ink:light-dark(#1a1f22,#eff1f2);--muted:light-dark(#545d63,#a9b1b5);--gatehouse:light-dark(#0f5f68,#5cc4c0);--bare:light-dark(#6b757b,#98a2a7);
--portkey:light-dark(#8a5a00,#e0b04c);--good:light-dark(#1b6a3c,#7fd6a0);--bad:light-dark(#a4262c,#f0918a)}
*{box-sizing:border-box}body{margin:0 auto;padding:1.5rem 1rem 4rem;max-width:76rem;background:var(--canvas);color:var(--ink);
font:1rem/1.5 system-ui,sans-serif;font-variant-numeric:tabular-nums}h1{font-size:1.5rem;margin:0 0 .25rem}h2{font-size:1.1rem;margin:0 0 .5rem}
p{margin:0 0 .5rem}.muted,.note{color:var(--muted)}.note{font-size:.875rem}.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.4rem .75rem .4rem 0;border-top:1px solid var(--line);vertical-align:top}
thead th{border-top:0;color:var(--muted);font-weight:500}tbody th{font-weight:500}.met{color:var(--good)}.missed{color:var(--bad);font-weight:600}
section{background:var(--surface);border:1px solid var(--line);border-radius:.75rem;padding:1rem;margin-top:1.5rem;min-width:0}
.figures{display:grid;gap:1.5rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,30rem),1fr));margin-top:1.5rem}.figures section{margin:0}
svg{display:block;width:100%;height:auto}svg text{fill:var(--muted);font-size:12px}.grid{stroke:var(--line)}.goal{stroke:var(--ink);stroke-dasharray:2 3;stroke-width:1.5}
.line{fill:none;stroke-width:2.25;stroke-linejoin:round}.whisker{stroke:var(--ink);stroke-width:1.25}.band{stroke:none;opacity:.16}
.line.gatehouse{stroke:var(--gatehouse)}.line.bare{stroke:var(--bare);stroke-dasharray:6 4}.line.portkey{stroke:var(--portkey);stroke-dasharray:2 3}
.band.gatehouse,.bar.gatehouse{fill:var(--gatehouse)}.band.bare,.bar.bare{fill:var(--bare)}.band.portkey,.bar.portkey{fill:var(--portkey)}
.legend{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;list-style:none;margin:0 0 .5rem;padding:0;font-size:.875rem}
td.met,td.missed,td.not-measured{white-space:nowrap}
@media(max-width:40rem){.goals thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
.goals tr{display:flex;flex-wrap:wrap;gap:0 1.25rem;padding:.5rem 0;border-top:1px solid var(--line)}.goals tr:first-child{border-top:0}
.goals th{flex:0 0 100%}.goals th,.goals td{border:0;padding:0}.goals td:empty{display:none}
.goals td[data-label]::before{content:attr(data-label) " ";color:var(--muted)}}
.legend svg{display:inline-block;width:1.75rem;height:.6rem;margin-right:.4rem}details{margin-top:.5rem;font-size:.875rem}summary{cursor:pointer}
`;

/** The results as one file that needs no other: the table of goals, and the plots with their figures below. */
export function renderPage(options: {
  machine: Machine;
  rows: readonly Row[];
  figures: readonly Figure[];
  complaints: readonly string[];
}): string {
  const { machine, rows, figures, complaints } = options;
  const { takenAt, commit, changed, cpus, memoryGb, kernel, loadBefore, versions } = machine;
  const names = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  const where = [cpus, `${memoryGb} GB`, `Linux ${kernel}`, `load ${loadBefore.toFixed(1)} before`, ...names];
  const title = `Gatehouse bench, ${takenAt.slice(0, 16).replace("T", " ")} UTC`;
  const judged = rows.map(verdictOf);
  const count = (verdict: string) => judged.filter((each) => each === verdict).length;
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>${escapeHtml(title)}</title><style>${style}</style></head><body><main>
<h1>${escapeHtml(title)}</h1>
<p class="muted">Commit ${escapeHtml(commit)}${changed ? ", with changes" : ""}. ${escapeHtml(where.join(" · "))}</p>
<p>${count("met")} goals met, ${count("missed")} missed, ${count("not measured")} not measured. Medians of the rounds, with the lowest and the highest.</p>
${complaints.map((complaint) => `<p class="missed">${escapeHtml(complaint)}</p>`).join("\n")}
<section aria-labelledby="goals"><h2 id="goals">Goals</h2><div class="scroll" role="region" aria-label="Table of goals" tabindex="0"><table class="goals">
<thead><tr><th scope="col">What</th><th scope="col">Goal</th><th scope="col">Measured</th><th scope="col">Verdict</th></tr></thead>
<tbody>${rows.map(goalLine).join("\n")}</tbody></table></div></section>
<div class="figures">${figures.map(figureSection).join("\n")}</div>
</main></body></html>
`;
}

function goalLine(row: Row): string {
  const verdict = verdictOf(row);
  const text = noteText(row);
  const note = text ? `<div class="note">${escapeHtml(text)}</div>` : "";
  return (
    `<tr><th scope="row">${escapeHtml(row.what)}${note}</th><td data-label="Goal">${escapeHtml(goalText(row))}</td>` +
    `<td data-label="Measured">${escapeHtml(figureText(row))}</td><td class="${verdict.replace(" ", "-")}">${verdict}</td></tr>`
  );
}

function figureSection({ title, plot, series, head, lines }: Figure, index: number): string {
  const sample = (kind: string) =>
    `<svg viewBox="0 0 28 10" aria-hidden="true"><path class="line ${kind}" d="M0 5H28"/></svg>`;
  const legend = series.map(({ kind, label }) => `<li>${sample(kind)}${escapeHtml(label)}</li>`).join("");
  const cells = (line: readonly string[]) =>
    line.map((cell, at) => (at === 0 ? `<th scope="row">${escapeHtml(cell)}</th>` : `<td>${escapeHtml(cell)}</td>`));
  return `<section aria-labelledby="figure-${index}"><h2 id="figure-${index}">${escapeHtml(title)}</h2>
<ul class="legend">${legend}</ul>${plot}
<details><summary>The same as a table</summary><div class="scroll" role="region" aria-label="${escapeHtml(title)}, figures" tabindex="0"><table>
<thead><tr>${head.map((cell) => (cell ? `<th scope="col">${escapeHtml(cell)}</th>` : "<td></td>")).join("")}</tr></thead>
<tbody>${lines.map((line) => `<tr>${cells(line).join("")}</tr>`).join("")}</tbody></table></div></details></section>`;
}
