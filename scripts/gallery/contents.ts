import { type Shot, schemes, widths } from "./shoot.ts";

const asText = (text: string) => text.replace(/[&<>"]/g, (each) => `&#${each.charCodeAt(0)};`);

const choice = (name: string, values: readonly (string | number)[]) =>
  `<label>${name} <select name="${name}"><option value="">all</option>${values
    .map((value) => `<option>${asText(String(value))}</option>`)
    .join("")}</select></label>`;

/** The gallery's page: every picture, with what is wrong on it, filtered by state, width and scheme. */
export function renderGallery(shots: readonly Shot[]): string {
  const figures = shots.map(
    ({ state, visitor, width, scheme, file, faults }) =>
      `<figure data-state="${asText(state)}" data-width="${width}" data-scheme="${scheme}" data-faulty="${faults.length > 0}">
<a href="${file}"><img src="${file}" loading="lazy" alt="${asText(state)}, ${width} px, ${scheme}"></a>
<figcaption>${asText(state)} · ${visitor} · ${width} px · ${scheme}${faults.map((fault) => `<br><b>${asText(fault)}</b>`).join("")}</figcaption>
</figure>`,
  );
  return `<!doctype html><html lang="en"><meta charset="utf-8"><title>Gallery</title>
<style>body{font:14px/1.5 system-ui;margin:16px}main{display:flex;flex-wrap:wrap;gap:16px;align-items:start}
figure{margin:0;max-width:480px}img{max-width:100%;border:1px solid #ccc}b{color:#b00020}form{display:flex;gap:16px;margin-bottom:16px}</style>
<h1>Gallery</h1><form>${choice("state", [...new Set(shots.map(({ state }) => state))])}${choice("width", widths)}${choice("scheme", schemes)}
${choice("faulty", ["true", "false"])}</form><main>${figures.join("\n")}</main>
<script>document.forms[0].addEventListener("input", (event) => {
  const wanted = [...new FormData(event.currentTarget)].filter(([, value]) => value);
  for (const figure of document.querySelectorAll("figure"))
    figure.hidden = wanted.some(([name, value]) => figure.dataset[name] !== value);
});</script></html>
`;
}
