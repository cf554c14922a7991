/**
 * Requirements that may be missing when the documents are checked. A block with a requirement is parsed but not run,
 * except for `python` blocks, which run wherever their packages are installed.
 */
const needs = {
  hosted: "a hosted Supabase project",
  production: "a deployed configuration",
  docker: "Docker",
  cluster: "a Kubernetes cluster",
  python: "Python with the packages that it imports; it runs where they are",
  client: "a client that is not installed with the project; `npm test -- clients` runs it",
  satellite: "an app that is not installed with the project; `npm test -- satellites` runs it",
  browser: "a browser, and a test takes it from the document",
  checkout: "a checkout or servers of its own",
  values: "values that its reader fills in",
  context: "the program that it is a part of",
} as const;

export type Need = keyof typeof needs;

const languages = ["sh", "ts", "tsx", "js", "python", "sql", "json", "ini", "yaml"] as const;
export type Language = (typeof languages)[number];
/** Languages that are only displayed: diagrams, JSON with comments, and plain text. */
const shown = ["mermaid", "jsonc", "text"];

/** A document's fenced block in one of the languages that are checked. */
export type Block = { file: string; line: number; language: Language; need?: Need; text: string };

export type Fault = { file: string; line: number; message: string };

/**
 * Returns whether a block can be run here. Python blocks count as runnable, because they run wherever their packages
 * are installed.
 */
export function isRunnable({ language, need }: Block): boolean {
  if (language === "json" || language === "ini" || language === "yaml") return false;
  return need === undefined || need === "python";
}

/** Returns why a block is not run. */
export function excuseOf({ language, need }: Block): string {
  return need ? needs[need] : `${language} does nothing`;
}

/** Formats a fault as one line with its file and line number. */
export function renderFault({ file, line, message }: Fault): string {
  return `${file}:${line}: ${message}`;
}

const fence = /^( *)(`{3,})([^`]*)$/;

/**
 * Reads a document's fenced blocks (CommonMark 4.5). The info string is the language. A block that cannot run when the
 * documents are checked adds `needs=` with a key of {@link needs}.
 */
export function readBlocks(file: string, markdown: string): { blocks: Block[]; faults: Fault[] } {
  const blocks: Block[] = [];
  const faults: Fault[] = [];
  const lines = markdown.split("\n");
  for (let at = 0; at < lines.length; at += 1) {
    const opening = fence.exec(lines[at] ?? "");
    if (!opening) continue;
    const [, indent = "", ticks = "", info = ""] = opening;
    const end = lines.findIndex((line, index) => index > at && line.trim() === ticks);
    const line = at + 1;
    if (end < 0) {
      faults.push({ file, line, message: "the block is not closed" });
      break;
    }
    const text = lines.slice(at + 1, end).map((each) => (each.startsWith(indent) ? each.slice(indent.length) : each));
    at = end;
    const [name = "", ...labels] = info.trim().split(/\s+/);
    const language = languages.find((each) => each === name);
    if (!language) {
      const known = [...languages, ...shown].join(", ");
      if (!shown.includes(name)) faults.push({ file, line, message: `no check covers “${name}”: use one of ${known}` });
      continue;
    }
    const label = labels[0]?.replace(/^needs=/, "");
    const need = (Object.keys(needs) as Need[]).find((each) => each === label);
    if (labels.length > 1 || (label !== undefined && !need)) {
      const known = Object.keys(needs).join(", ");
      faults.push({ file, line, message: `“${labels.join(" ")}” is not a label: use needs= with one of ${known}` });
    }
    blocks.push({ file, line, language, ...(need && { need }), text: `${text.join("\n")}\n` });
  }
  return { blocks, faults };
}

/** Blanks a document's fenced blocks without changing line numbers. */
export function withoutBlocks(markdown: string): string {
  let inside = "";
  return markdown
    .split("\n")
    .map((line) => {
      const ticks = fence.exec(line)?.[2];
      if (inside) {
        if (line.trim() === inside) inside = "";
        return "";
      }
      if (ticks) inside = ticks;
      return ticks ? "" : line;
    })
    .join("\n");
}
