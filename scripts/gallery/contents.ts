import { areas, type State } from "./define-states.ts";
import { type Shot, schemes, widths } from "./shoot.ts";

const asText = (text: string) => text.replace(/[&<>"]/g, (each) => `&#${each.charCodeAt(0)};`);
const asId = (text: string) => text.replace(/[^A-Za-z0-9]+/g, "-").toLowerCase();

const style = `
:root { color-scheme: light dark; --line: light-dark(#dde2e5, #333c41); --muted: light-dark(#566169, #a5b0b7);
  --surface: light-dark(#fff, #1a2125); --accent: light-dark(#0f5c66, #63c5c9); --bad: light-dark(#a8261c, #ff9d90); }
* { box-sizing: border-box; }
body { margin: 0; font: 14px/1.5 system-ui, sans-serif; background: light-dark(#f7f9fa, #12181b); color: light-dark(#1c2429, #eef2f4); }
header { position: sticky; top: 0; z-index: 1; display: flex; flex-wrap: wrap; gap: 8px 24px; align-items: center;
  padding: 12px 24px; background: var(--surface); border-bottom: 1px solid var(--line); }
h1 { font-size: 20px; margin: 0; } h2 { font-size: 20px; margin: 40px 0 16px; } h3 { font-size: 14px; margin: 0; }
header p, section p { margin: 0; color: var(--muted); }
form { display: flex; flex-wrap: wrap; gap: 8px 16px; align-items: center; margin-left: auto; }
input[type=search] { font: inherit; padding: 6px 10px; width: 240px; max-width: 100%; border: 1px solid #87939a; border-radius: 8px; background: var(--surface); color: inherit; }
main { max-width: 1440px; margin: 0 auto; padding: 0 24px 64px; }
nav { display: flex; flex-wrap: wrap; gap: 4px 16px; padding-top: 16px; }
a { color: var(--accent); text-underline-offset: 3px; }
section { padding: 16px; margin-bottom: 16px; border: 1px solid var(--line); border-radius: 8px; background: var(--surface); scroll-margin-top: 80px; }
section > div { display: flex; flex-wrap: wrap; gap: 4px 12px; align-items: baseline; margin-bottom: 12px; }
ul.shots { display: flex; gap: 12px; align-items: flex-start; margin: 0; padding: 0 0 8px; overflow-x: auto; list-style: none; }
.shots a { display: block; height: 300px; overflow: hidden; border: 1px solid var(--line); border-radius: 6px; }
.shots img { display: block; width: 100%; } .shots small { color: var(--muted); }
.w320 { flex: 0 0 110px; } .w640 { flex: 0 0 200px; } .w1440 { flex: 0 0 320px; } .w0 { flex: 0 0 320px; }
.faults { margin: 12px 0 0; padding-left: 20px; color: var(--bad); overflow-wrap: anywhere; }
[hidden] { display: none !important; } :focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }`;

const script = `
const form = document.forms[0];
const show = () => {
  const data = new FormData(form);
  const word = String(data.get("word")).toLowerCase();
  const on = (name, value) => !data.get(name) || data.get(name) === value;
  for (const shot of document.querySelectorAll(".shots li"))
    shot.hidden = !(on("width", shot.dataset.width) && on("scheme", shot.dataset.scheme));
  for (const state of document.querySelectorAll("main section"))
    state.hidden = !state.dataset.words.includes(word) || (data.has("faulty") && state.dataset.faulty !== "true");
  for (const area of document.querySelectorAll("main article"))
    area.hidden = ![...area.querySelectorAll("section")].some((state) => !state.hidden);
};
form.addEventListener("input", show);
form.addEventListener("submit", (event) => event.preventDefault());
show();`;

/**
 * Renders the gallery's page. Shows the states by area, each with its pictures side by side and the faults found.
 * @param options.before file names of an earlier gallery's pictures, which are in the folder `before`
 */
export function renderGallery(shots: readonly Shot[], { before }: { before: ReadonlySet<string> }): string {
  const byState = Map.groupBy(shots, ({ state }) => state);
  const shown = areas.filter((area) => [...byState.keys()].some((state) => state.area === area));
  const faulty = [...byState.values()].filter((own) => own.some(({ faults }) => faults.length > 0)).length;
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Gallery · Gatehouse</title>
<style>${style}</style></head><body>
<header><h1>Gallery</h1><p>${byState.size} states, ${shots.length} pictures${faulty > 0 ? `, ${faulty} states with faults` : ""}</p>
<form role="search"><input type="search" name="word" aria-label="Filter by word" placeholder="Filter by word">
${choice("width", widths.map(String))}${choice("scheme", schemes)}
${faulty > 0 ? '<label><input type="checkbox" name="faulty"> Faults alone</label>' : ""}</form></header>
<main><nav aria-label="Areas">${shown.map((area) => `<a href="#${asId(area)}">${area}</a>`).join("")}</nav>
${shown
  .map(
    (area) => `<article id="${asId(area)}"><h2>${area}</h2>
${[...byState]
  .filter(([state]) => state.area === area)
  .map(([state, own]) => renderState(state, own, before))
  .join("\n")}</article>`,
  )
  .join("\n")}
</main><script>${script}</script></body></html>
`;
}

function renderState(
  { area, name, route, visitor }: State,
  shots: readonly Shot[],
  before: ReadonlySet<string>,
): string {
  const faults = [...new Set(shots.flatMap((shot) => shot.faults))];
  return `<section id="${asId(`${area} ${name}`)}" data-words="${asText(`${area} ${name} ${route}`.toLowerCase())}" data-faulty="${faults.length > 0}">
<div><h3>${asText(name)}</h3><p>${asText(route.replace(/^routes\//, ""))} · seen by ${visitor}</p></div>
<ul class="shots">${shots.map((shot) => (before.has(shot.file ?? "") ? renderShot(name, shot, "before") : "") + renderShot(name, shot)).join("")}</ul>
${faults.length > 0 ? `<ul class="faults">${faults.map((fault) => `<li>${asText(fault)}</li>`).join("")}</ul>` : ""}</section>`;
}

function renderShot(name: string, { width, scheme, file: shot }: Shot, when?: "before"): string {
  if (!shot) return "";
  const file = when ? `${when}/${shot}` : shot;
  const said = [`${width} px, ${scheme}`, when ?? []].flat().join(", ");
  const alt = asText(`${name}, ${said}`);
  return `<li class="w${width}" data-width="${width}" data-scheme="${scheme}"><a href="${file}" target="_blank"><img src="${file}" loading="lazy" alt="${alt}"></a><small>${said}</small></li>`;
}

function choice(name: string, values: readonly string[]): string {
  const options = values.map((value) => `<option>${value}</option>`).join("");
  return `<label>${name} <select name="${name}"><option value="">all</option>${options}</select></label>`;
}
