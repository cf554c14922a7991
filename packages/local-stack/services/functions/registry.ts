import { existsSync, readdirSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { errorOf } from "../../errors.ts";
import type { FunctionHandler, HttpServer, Serve } from "./deno-api.ts";

/** A function's entry file, and its handler or the error that kept it from loading. */
export type LoadedFunction = { file: string; handler: FunctionHandler } | { file: string; error: Error };

/** How long a module may take to load before the others continue without it. */
const loadTimeoutMs = 10_000;
const collected: HttpServer = { finished: new Promise(() => {}), shutdown: async () => {} };

/**
 * Loads every function of a folder: `<name>/index.ts`, except names that begin with `_` or `.`. A function that cannot
 * be loaded keeps its error and does not affect the others.
 * @param host the object whose `serve` the functions call. This call replaces `serve` with a function that only
 * collects the handlers, since one server serves all functions.
 */
export async function loadFunctions(
  folder: string,
  host: { serve: Serve },
  load: (url: string) => Promise<unknown> = (url) => import(url),
): Promise<Map<string, LoadedFunction>> {
  const functions = new Map<string, LoadedFunction>();
  let found: FunctionHandler | undefined;
  Object.defineProperty(host, "serve", {
    configurable: true,
    writable: true,
    value: ((options, handler) => {
      found = handler ?? (typeof options === "function" ? options : options.handler);
      return collected;
    }) satisfies Serve,
  });
  for (const name of functionNames(folder)) {
    const file = path.join(folder, name, "index.ts");
    found = undefined;
    try {
      await withinLimit(load(pathToFileURL(file).href));
      if (!found) throw new Error("it does not call Deno.serve() with a handler");
      functions.set(name, { file, handler: found });
    } catch (error) {
      functions.set(name, { file, error: errorOf(error) });
    }
  }
  return functions;
}

/** Lists the folders that contain functions, in alphabetical order. */
function functionNames(folder: string): string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && /^[^_.]/.test(entry.name))
    .filter(({ name }) => existsSync(path.join(folder, name, "index.ts")))
    .map(({ name }) => name)
    .sort();
}

async function withinLimit(loading: Promise<unknown>): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`it was not loaded within ${loadTimeoutMs / 1000} s`)), loadTimeoutMs);
  });
  try {
    await Promise.race([loading, limit]);
  } finally {
    clearTimeout(timer);
  }
}
