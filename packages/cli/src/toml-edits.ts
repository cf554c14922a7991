import { z } from "zod";

/** Top-level values and whole tables to set in a TOML file; values and bodies are TOML text. */
export interface TomlEdits {
  values: Readonly<Record<string, string>>;
  tables: Readonly<Record<string, string>>;
}

/** What was written, and what it replaced: null if nothing was there. Texts are whole lines. */
const replacedEntriesSchema = z.record(z.string(), z.object({ written: z.string(), before: z.string().nullable() }));
export const tomlUndo = z.object({ values: replacedEntriesSchema, tables: replacedEntriesSchema });
export type TomlUndo = z.infer<typeof tomlUndo>;

const noUndo: TomlUndo = { values: {}, tables: {} };

/** The lines of a top-level value or a table: `start` is the first line, `end` the line after the last. */
interface Span {
  name: string;
  start: number;
  end: number;
}
type Table = Span & { keys: string[] };

/**
 * Sets top-level values and tables, and leaves all other lines as they are.
 * @param options.previous how to undo edits that an earlier call made to this text
 */
export function applyTomlEdits(
  source: string,
  { edits, previous = noUndo }: { edits: TomlEdits; previous?: TomlUndo },
): { text: string; undo: TomlUndo } {
  let text = undoTomlEdits(source, previous);
  const undo: TomlUndo = { values: {}, tables: {} };
  for (const [name, body] of Object.entries(edits.tables)) {
    const written = `[${name}]\n${body.trimEnd()}\n`;
    const change = replace(text, { kind: "tables", name, written });
    text = change.text;
    undo.tables[name] = { written, before: change.before };
  }
  for (const [name, value] of Object.entries(edits.values)) {
    const written = `${name} = ${value}\n`;
    const change = replace(text, { kind: "values", name, written });
    text = change.text;
    undo.values[name] = { written, before: change.before };
  }
  return { text, undo };
}

/** Undoes edits, unless somebody has changed the lines since. */
export function undoTomlEdits(source: string, { values, tables }: TomlUndo): string {
  let text = source;
  for (const [kind, changes] of [
    ["values", values],
    ["tables", tables],
  ] as const) {
    for (const [name, { written, before }] of Object.entries(changes)) {
      const found = read(text, { kind, name });
      if (found?.trimEnd() === written.trimEnd()) text = replace(text, { kind, name, written: before ?? "" }).text;
    }
  }
  return text;
}

/**
 * Returns whether the file defines a table by a dotted key or an inline table, which a separate header cannot extend.
 */
export function hasInlineTable(source: string, name: string): boolean {
  const { values, tables } = findSpans(source);
  const around = tables.filter((table) => name.startsWith(`${table.name}.`));
  const keys = [
    ...values,
    ...around.flatMap(({ name: outer, keys }) => keys.map((key) => ({ name: `${outer}.${key}` }))),
  ];
  return keys.some(({ name: key }) => key === name || key.startsWith(`${name}.`));
}

type EntryKey = { kind: "values" | "tables"; name: string };

function read(text: string, { kind, name }: EntryKey): string | null {
  const span = findSpans(text)[kind].find((one) => one.name === name);
  return span ? linesOf(text).slice(span.start, span.end).join("") : null;
}

/** Replaces the lines of a value or a table, or adds them: values at the beginning, tables at the end. */
function replace(
  text: string,
  { kind, name, written }: EntryKey & { written: string },
): { text: string; before: string | null } {
  const lines = linesOf(text);
  const span = findSpans(text)[kind].find((one) => one.name === name);
  if (span) {
    const before = lines.splice(span.start, span.end - span.start, ...(written ? [written] : [])).join("");
    // Also removes the blank line that was added above the table.
    if (!written && kind === "tables" && lines[span.start - 1]?.trim() === "") lines.splice(span.start - 1, 1);
    return { text: lines.join(""), before };
  }
  if (!written) return { text, before: null };
  if (kind === "values") return { text: written + text, before: null };
  const head = text === "" || text.endsWith("\n") ? text : `${text}\n`;
  return { text: `${head}${head === "" ? "" : "\n"}${written}`, before: null };
}

/** Splits a text into lines with their line breaks. */
function linesOf(text: string): string[] {
  return text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
}

/** Matches a bare or quoted key, and keys joined by dots (https://toml.io/en/v1.0.0#keys). */
const simpleKey = /[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'/;
const dottedKey = `(?:${simpleKey.source})(?:\\s*\\.\\s*(?:${simpleKey.source}))*`;
const headerLine = new RegExp(`^\\s*\\[\\[?\\s*(${dottedKey})\\s*\\]\\]?\\s*(?:#.*)?$`);
const keyLine = new RegExp(`^\\s*(${dottedKey})\\s*=`);

/** Finds the top-level values and tables. A line inside a multi-line string or array is never a header or key. */
function findSpans(text: string): { values: Span[]; tables: Table[] } {
  const values: Span[] = [];
  const tables: Table[] = [];
  let table: Table | null = null;
  let open = "";
  for (const [index, line] of linesOf(text).entries()) {
    const isContinued = open !== "";
    const header = isContinued ? null : headerLine.exec(line.trimEnd());
    const key = isContinued ? null : keyLine.exec(line);
    if (header) {
      table = { name: plainName(header[1] ?? ""), start: index, end: index + 1, keys: [] };
      tables.push(table);
    } else if (table) {
      // Comments and blank lines before the next header belong to that header's table.
      if (isContinued || key) table.end = index + 1;
      if (key) table.keys.push(plainName(key[1] ?? ""));
    } else if (key) {
      values.push({ name: plainName(key[1] ?? ""), start: index, end: index + 1 });
    } else if (isContinued) {
      const last = values.at(-1);
      if (last) last.end = index + 1;
    }
    if (!header) open = findOpenDelimiters(line, open);
  }
  return { values, tables };
}

/** Returns a key without blanks, and without quotation marks that it does not need. */
function plainName(name: string): string {
  const parts = name.match(new RegExp(simpleKey, "g")) ?? [];
  return parts.map((part) => /^["']([A-Za-z0-9_-]+)["']$/.exec(part)?.[1] ?? part).join(".");
}

/** Returns what is still open after a line: the quotation marks of a multi-line string, or brackets. */
function findOpenDelimiters(line: string, open: string): string {
  let state = open;
  for (let at = 0; at < line.length; ) {
    const rest = line.slice(at);
    if (state.startsWith('"""') || state.startsWith("'''")) {
      const mark = state.slice(0, 3);
      if (rest.startsWith(mark)) {
        state = state.slice(3);
        at += 3;
      } else at += mark === '"""' && rest.startsWith("\\") ? 2 : 1;
      continue;
    }
    if (rest.startsWith("#")) break;
    const mark = /^(?:"""|''')/.exec(rest)?.[0];
    const word = /^(?:"(?:[^"\\\n]|\\.)*"|'[^'\n]*')/.exec(rest)?.[0];
    if (mark) {
      state = mark + state;
      at += 3;
    } else if (word) at += word.length;
    else {
      if (/^[[{]/.test(rest)) state += "[";
      else if (/^[\]}]/.test(rest)) state = state.slice(0, -1);
      at++;
    }
  }
  return state;
}
