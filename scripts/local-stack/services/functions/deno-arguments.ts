import path from "node:path";

/**
 * What the platform gives an isolate. V8 collects accordingly: without a limit it lets garbage grow to twice of what calls
 * need before it looks, for no less work.
 */
const heapMebibytes = 256;

/**
 * What `deno` is started with to serve the functions of the checkout at `root`: they may use the network, the
 * environment and the names of the system, read the checkout, and nothing else. Nothing is fetched to run them:
 * bare names are those of node_modules.
 */
export function denoArguments(root: string, folders: string[] = []): string[] {
  return [
    "run",
    "--quiet",
    "--no-prompt",
    "--no-remote",
    `--v8-flags=--max-heap-size=${heapMebibytes}`,
    "--allow-net",
    "--allow-env",
    "--allow-sys",
    `--allow-read=${[root, ...folders].join(",")}`,
    path.join(root, "scripts/local-stack/services/functions/main.ts"),
  ];
}
