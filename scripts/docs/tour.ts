import { type Block, readBlocks } from "./blocks.ts";

/** What a section asks of its reader, in its order: something to find on a page, in bold, or a block to run. */
export type Step = { kind: "words"; words: string } | { kind: "block"; block: Block };

/** Reads what the section below a heading (`## …`) asks its reader to do. */
export function readTour(file: string, markdown: string, heading: string): Step[] {
  const lines = markdown.split("\n");
  const begin = lines.indexOf(`## ${heading}`);
  if (begin < 0) throw new Error(`${file} has no section “${heading}”`);
  const rest = lines.findIndex((line, index) => index > begin && line.startsWith("## "));
  const end = rest < 0 ? lines.length : rest;
  const { blocks } = readBlocks(file, markdown);
  const steps: Step[] = [];
  for (let at = begin + 1; at < end; at += 1) {
    const block = blocks.find(({ line }) => line === at + 1);
    if (block) {
      steps.push({ kind: "block", block });
      // Past its text and its closing line.
      at += block.text.split("\n").length;
      continue;
    }
    const bold = [...(lines[at] ?? "").matchAll(/\*\*([^*]+)\*\*/g)];
    steps.push(...bold.map(([, words = ""]) => ({ kind: "words" as const, words })));
  }
  return steps;
}
