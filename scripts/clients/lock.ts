import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { type Client, sourceDir } from "./clients.ts";
import { run } from "./install.ts";

/**
 * Writes a client's lock file from its manifest. The lock file covers the packages of every platform and names no
 * registry. Requires `uv` for Python clients.
 */
export function writeLock({ runtime, manifest, lock }: Client): void {
  if (!lock) return;
  const [from, to] = [path.join(sourceDir, manifest), path.join(sourceDir, lock)];
  if (runtime === "node") {
    // Uses an empty directory, because npm would omit the packages of other platforms if it found a node_modules
    // directory.
    const directory = mkdtempSync(path.join(tmpdir(), "gatehouse-lock-"));
    cpSync(from, path.join(directory, "package.json"));
    const options = ["--package-lock-only", "--ignore-scripts", "--omit-lockfile-registry-resolved"];
    run("npm", ["install", ...options, "--no-audit", "--no-fund"], directory);
    cpSync(path.join(directory, path.basename(lock)), to);
    rmSync(directory, { recursive: true });
  }
  if (runtime === "python") {
    const resolution = ["--universal", "--python-version", "3.11", "--generate-hashes", "--no-build", "--upgrade"];
    run("uv", ["pip", "compile", "--quiet", ...resolution, "--no-header", "--no-annotate", from, "-o", to], sourceDir);
  }
  if (runtime === "go") run("go", ["mod", "tidy"], path.dirname(to));
}
