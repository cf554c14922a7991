import type { Fault } from "./blocks.ts";

/** A section of docs/settings.md: the settings of one runtime, with the lines that name them. */
export type Section = { heading: string; names: { name: string; line: number }[]; mentions: string[] };

const settingName = /[A-Z][A-Z0-9]*(?:_(?:[A-Z0-9]+|<[A-Z]+>|\*))*/;
const inBackticks = new RegExp(`\`(${settingName.source})\``, "g");

/**
 * Reads the sections of docs/settings.md. `names` are the settings in the first column of a section's tables.
 * `mentions` are all settings in the section's text, including former names.
 */
export function readSections(markdown: string): Section[] {
  const sections: Section[] = [];
  for (const [index, text] of markdown.split("\n").entries()) {
    const heading = /^## (.*)$/.exec(text)?.[1];
    if (heading) sections.push({ heading, names: [], mentions: [] });
    const section = sections.at(-1);
    if (!section) continue;
    section.mentions.push(...[...text.matchAll(inBackticks)].map(([, name = ""]) => name));
    if (!text.startsWith("|")) continue;
    const cell = text.split("|")[1] ?? "";
    section.names.push(...[...cell.matchAll(inBackticks)].map(([, name = ""]) => ({ name, line: index + 1 })));
  }
  return sections;
}

/** Returns the settings that are keys of a module's zod schemas. */
export function schemaNames(source: string): string[] {
  return [...source.matchAll(/^ +([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*): (?:z|[a-zA-Z]+)[\n.,(]/gm)].map(
    ([, name = ""]) => name,
  );
}

/** Finds settings that a section lists but the section's code does not read. */
export function unknownSettings(file: string, { names }: Section, code: string): Fault[] {
  return names
    .filter(({ name }) => !knows(code, name))
    .map(({ name, line }) => ({ file, line, message: `${name} is in no code of its section` }));
}

/** Finds settings that the code reads and the document does not name. */
export function unwrittenSettings(file: string, sections: readonly Section[], names: readonly string[]): Fault[] {
  const written = sections.flatMap(({ mentions }) => mentions);
  return names
    .filter((name) => !written.includes(name))
    .map((name) => ({ file, line: 1, message: `does not name ${name}, which the code takes` }));
}

/**
 * Reports whether code contains a setting's name. If the name has a placeholder, `<ID>` or `*`, the code must contain
 * each part around the placeholder.
 */
function knows(code: string, name: string): boolean {
  const parts = name.split(/<[A-Z]+>|\*/).filter((part) => part !== "");
  if (parts.length === 1 && parts[0] === name) return new RegExp(`\\b${name}\\b`).test(code);
  return parts.every((part) => code.includes(part));
}
