import { type Block, isRunnable, readBlocks } from "./blocks.ts";

/** The section whose steps and code blocks e2e/tour.spec.ts follows in order. */
export const tour = { file: "docs/getting-started.md", heading: "Five minutes with it" };

/** A step for the reader of a section: text in bold to find on a page, or a block to run. */
export type Step = { kind: "words"; words: string } | { kind: "block"; block: Block };

/** Reads the steps of the section below a heading (`## …`), in order. */
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
      // Skips the block's text and its closing line.
      at += block.text.split("\n").length;
      continue;
    }
    const bold = [...(lines[at] ?? "").matchAll(/\*\*([^*]+)\*\*/g)];
    steps.push(...bold.map(([, words = ""]) => ({ kind: "words" as const, words })));
  }
  return steps;
}

/** Returns a document's runnable blocks, except those of the tour. */
export function blocksBesideTour(file: string, markdown: string, { file: toured, heading } = tour): Block[] {
  const steps = file === toured ? readTour(file, markdown, heading) : [];
  const inTour = new Set(steps.flatMap((step) => (step.kind === "block" ? [step.block.line] : [])));
  return readBlocks(file, markdown).blocks.filter((block) => isRunnable(block) && !inTour.has(block.line));
}
