import { figureText, goalText, type Row, verdictOf } from "./rows.ts";

/** Returns a Markdown table, padded so that a terminal shows it in columns. */
export function markdownTable(head: readonly string[], lines: readonly (readonly string[])[]): string {
  const widths = head.map((_, column) => Math.max(3, ...[head, ...lines].map((line) => (line[column] ?? "").length)));
  const render = (cells: readonly string[]) =>
    `| ${widths.map((width, column) => (cells[column] ?? "").padEnd(width)).join(" | ")} |`;
  return [render(head), render(widths.map((width) => "-".repeat(width))), ...lines.map(render)].join("\n");
}

/**
 * Returns the table of goals.
 * @param options.judged whether the run was long enough for verdicts
 */
export function goalTable(rows: readonly Row[], { judged }: { judged: boolean }): string {
  const lines = rows.map((row) => [row.what, goalText(row), figureText(row), judged ? verdictOf(row) : "not judged"]);
  return markdownTable(["what", "goal", "measured", ""], lines);
}

const begin = "<!-- bench -->";
const end = "<!-- /bench -->";

/** Replaces the text between the bench's markers in a document. @throws Error if the document has no markers */
export function replaceMarked(document: string, text: string): string {
  const [from, to] = [document.indexOf(begin), document.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`The document has no ${begin} … ${end} to write between.`);
  return `${document.slice(0, from + begin.length)}\n\n${text}\n\n${document.slice(to)}`;
}
