import { globSync, readFileSync } from "node:fs";
import type { Code } from "./references.ts";

/** The guides, whose blocks are checked, and the decisions, in which only the links are checked. */
export const guides = ["README.md", "CONTRIBUTING.md", ...globSync("docs/*.md").sort()];
export const decisions = globSync("docs/decisions/*.md").sort();

/** Reads the code that the guides may name. Leaves out the checks of the documents, which name what is missing. */
export function readCode(): Code {
  const folders = "{docs/openapi,e2e,packages,remix-app,satellites,scripts,supabase}/**/*";
  const files = globSync([`${folders}.{ts,tsx,js,mjs,sql,json,toml}`, "*.{ts,js,json}", "deploy/helm/**/*.json"], {
    exclude: ["**/node_modules/**", "**/dist/**", "scripts/docs/**", "package-lock.json"],
  });
  const words = new Set(files.flatMap((file) => readDocument(file).match(/[A-Za-z_$][\w$]*/g) ?? []));
  return { files, words };
}

export function readDocument(file: string): string {
  return readFileSync(file, "utf8");
}
