import path from "node:path";

/**
 * The platform ends an isolate at 256 MB: this much of it for what V8 keeps, the rest for its young objects and what is
 * outside of its heap. Without a limit V8 lets far more garbage grow than calls need before it looks.
 */
const oldSpaceMebibytes = 200;

/**
 * V8 decides for good, by what outlives the first few collections of a process, which objects it makes as old ones from
 * the start. Those collections come while the young generation is smaller than what the calls of one moment hold, so that
 * nearly all outlives them; old objects then take a full collection to go.
 */
const youngFirst = "--no-allocation-site-pretenuring";

/**
 * How far the heap may grow beyond what lived at the last full collection before the next one begins, in percent. By
 * itself V8 begins one for every ten megabytes, which holds up all calls of the moment for some 25 ms.
 */
const growthPercent = 100;

/**
 * V8 gives back what it can once a process has been idle for some seconds, compiled code too: the calls that come then
 * take half as long again, for as long as it takes to compile it anew.
 */
const readyAfterRest = "--no-memory-reducer";

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
    `--v8-flags=--max-old-space-size=${oldSpaceMebibytes},--heap-growing-percent=${growthPercent},${youngFirst},${readyAfterRest}`,
    "--allow-net",
    "--allow-env",
    "--allow-sys",
    `--allow-read=${[root, ...folders].join(",")}`,
    path.join(root, "scripts/local-stack/services/functions/main.ts"),
  ];
}
