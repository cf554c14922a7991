import { styleText } from "node:util";
import { figureText, goalText, noteText, type Row, verdictOf } from "./rows.ts";

const gap = "  ";
const colours = { met: "green", missed: "red", "not measured": "yellow" } as const;

/** The rows as a table for a terminal. @param stream where it goes, for its colours; none without it */
export function renderTable(rows: readonly Row[], stream?: NodeJS.WriteStream): string {
  const cells = rows.map((row) => [row.what, goalText(row), figureText(row), verdictOf(row)] as const);
  const head = ["what", "goal", "measured", ""] as const;
  const widths = head.map((_, column) => Math.max(...[head, ...cells].map((line) => (line[column] ?? "").length)));
  const pad = (line: readonly string[]) =>
    line
      .slice(0, -1)
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join(gap) + gap;
  const lines = rows.flatMap((row, index) => {
    const line = cells[index] ?? head;
    const verdict = line[3];
    const coloured = verdict && stream ? styleText(colours[verdict], verdict, { stream }) : verdict;
    return [`${pad(line)}${coloured}`, ...(noteText(row) ? [`${gap}${noteText(row)}`] : [])];
  });
  const ruler = "─".repeat(widths.reduce((sum, width) => sum + width + gap.length, -gap.length));
  return [pad(head), ruler, ...lines].join("\n");
}
