import { globSync, readFileSync } from "node:fs";

/** What people read: the guides, whose blocks are checked, and the decisions, whose links are. */
export const guides = ["README.md", "CONTRIBUTING.md", ...globSync("docs/*.md").sort()];
export const decisions = globSync("docs/decisions/*.md").sort();

export function readDocument(file: string): string {
  return readFileSync(file, "utf8");
}
