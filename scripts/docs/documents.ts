import { globSync, readFileSync } from "node:fs";

/** The guides, whose blocks are checked, and the decisions, in which only the links are checked. */
export const guides = ["README.md", "CONTRIBUTING.md", ...globSync("docs/*.md").sort()];
export const decisions = globSync("docs/decisions/*.md").sort();

export function readDocument(file: string): string {
  return readFileSync(file, "utf8");
}
