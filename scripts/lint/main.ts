import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { findPhrases, readPhrases } from "./phrases.ts";

/**
 * Rejects the phrases of `phrases.txt` in every source file and document of the repository, except migrations, which
 * are frozen. Prints `file:line: phrase`, and exits with 1 if it finds any.
 */
const phrases = readPhrases(readFileSync("scripts/lint/phrases.txt", "utf8"));
const sources = ["*.ts", "*.tsx", "*.js", "*.mjs", "*.sql", "*.md", "*.html"];
const files = execFileSync("git", ["ls-files", "-z", ...sources, ":!supabase/migrations"], { encoding: "utf8" });
const found = files
  .split("\0")
  .filter((file) => file !== "")
  .flatMap((file) =>
    findPhrases(readFileSync(file, "utf8"), phrases).map(({ line, phrase }) => `${file}:${line}: ${phrase}`),
  );
for (const place of found) console.error(place);
if (found.length > 0) {
  console.error(`Reword ${found.length} phrases; scripts/lint/phrases.txt lists them.`);
  process.exitCode = 1;
}
