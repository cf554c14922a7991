import { createHash } from "node:crypto";
import { type Dirent, globSync } from "node:fs";
import { readFile } from "node:fs/promises";
import path from "node:path";

/** Folders whose files are installed or generated. */
const generated = new Set(["node_modules", ".local", "build", "dist"]);

/** Lists the files below `root` that match one of the patterns, sorted. A pattern with `!` excludes files. */
export function listFiles(root: string, patterns: readonly string[]): string[] {
  const excluded = patterns.filter((pattern) => pattern.startsWith("!")).map((pattern) => pattern.slice(1));
  const found = globSync(
    patterns.filter((pattern) => !pattern.startsWith("!")),
    { cwd: root, withFileTypes: true, exclude: (entry: Dirent) => entry.isDirectory() && generated.has(entry.name) },
  );
  const files = found
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(root, path.join(entry.parentPath, entry.name)).replaceAll(path.sep, "/"))
    .filter((file) => !excluded.some((pattern) => path.matchesGlob(file, pattern)));
  return [...new Set(files)].sort();
}

/** Returns one hash of the names and contents of all files that {@link listFiles} lists. */
export async function hashFiles(root: string, patterns: readonly string[]): Promise<string> {
  const hash = createHash("sha256");
  for (const file of listFiles(root, patterns)) {
    hash
      .update(`${file}\0`)
      .update(await readFile(path.join(root, file)))
      .update("\0");
  }
  return hash.digest("hex");
}
