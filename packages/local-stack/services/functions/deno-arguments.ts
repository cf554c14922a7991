import { existsSync } from "node:fs";
import path from "node:path";

/**
 * The versions of Deno: the project's own in `node_modules`, and below `.local/` the one on which hosted Supabase's
 * runtime is built.
 */
export const denoPackages = ["deno", "deno-hosted"] as const;
export type DenoPackage = (typeof denoPackages)[number];

/** Hosted Supabase ends an isolate that uses more than this, in MB. */
const hostedMemoryMb = 256;
/** The part of the memory that V8's heap gets. Deno itself, buffers and connections get the rest. */
const heapPart = 0.5;
/**
 * The most that each half of V8's young generation grows to, in MB. With a limit of the heap, V8 itself allows so little
 * that the objects of waiting calls outlive it, and it spends a fifth of its time on moving and collecting them.
 */
const semiSpaceMb = 16;

/** How to serve the functions of a checkout. */
export type FunctionsOptions = {
  /** Folders outside the checkout that the process may read. */
  folders?: string[];
  /** The memory that the process may use (`AI_MEMORY_LIMIT_MB`). */
  memoryLimitMb?: number | undefined;
  deno?: DenoPackage | undefined;
  /** Writes responses by this loop instead of the product's server (`LOCAL_RESPONSE_LOOP`). */
  loop?: string | undefined;
  /** Restarts the functions when a file below their folder changes. */
  watch?: boolean;
  /** The folder of the server's modules. */
  server?: string;
};

/**
 * Returns the command that serves the functions of the checkout at `root`. The functions may use the network, the
 * environment and system information, and may read the checkout, but nothing else. Nothing is downloaded: bare
 * specifiers resolve in node_modules. On hosted Supabase's version of Deno, Node's server forwards no headers, so the
 * loop `hosted` is the default there.
 */
export function functionsCommand(
  root: string,
  {
    folders = [],
    memoryLimitMb = hostedMemoryMb,
    deno = "deno",
    loop,
    watch = false,
    server = path.join(root, "supabase/functions/_server"),
  }: FunctionsOptions = {},
): { command: string; args: string[] } {
  const { command, args } = denoCommand(root, deno);
  const usesLoop = loop !== undefined || deno === "deno-hosted";
  return {
    command,
    args: [
      ...args,
      "run",
      "--quiet",
      "--no-prompt",
      "--no-remote",
      // The functions' own deno.json, which is for Supabase, would have npm packages downloaded.
      `--config=${path.join(root, "deno.json")}`,
      `--v8-flags=--max-heap-size=${Math.floor(memoryLimitMb * heapPart)},--max-semi-space-size=${semiSpaceMb}`,
      "--allow-net",
      "--allow-env",
      "--allow-sys",
      `--allow-read=${[root, ...folders].join(",")}`,
      ...(watch ? [`--watch=${path.join(root, "supabase/functions")}`, "--no-clear-screen"] : []),
      ...(usesLoop
        ? [path.join(import.meta.dirname, "main.ts"), path.join(server, "start-gateway.ts")]
        : [path.join(server, "main.ts")]),
    ],
  };
}

/**
 * Returns the command that runs Deno from an npm package. Prefers the package's Deno binary to its wrapper script, so
 * that signals reach Deno.
 */
export function denoCommand(root: string, name: DenoPackage = "deno"): { command: string; args: string[] } {
  const folder = path.join(root, name === "deno" ? "" : `.local/${name}`, "node_modules/deno");
  const binary = path.join(folder, "deno");
  if (existsSync(binary)) return { command: binary, args: [] };
  return { command: process.execPath, args: [path.join(folder, "bin.cjs")] };
}
