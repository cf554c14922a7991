import path from "node:path";
import type { FunctionHandler } from "./deno-api.ts";
import type { LoadedFunction } from "./registry.ts";

/**
 * Answers `/healthz` itself and passes `/<name>/*` to the named function. If the function is unknown or failed to load,
 * answers with hosted Supabase's error code.
 */
export function createDispatch(
  functions: ReadonlyMap<string, LoadedFunction>,
  { root, reloads }: { root: string; reloads: boolean },
): FunctionHandler {
  return (request, info) => {
    const name = nameOf(request.url);
    if (name === "healthz") return health(functions, { reloads });
    const target = functions.get(name);
    if (!target) return failure(404, "NOT_FOUND", "Requested function was not found");
    if ("error" in target) return failure(503, "BOOT_ERROR", describeFailure(target, root));
    return target.handler(request, info);
  };
}

/** Names the file that could not be loaded and describes the error. */
export function describeFailure({ file, error }: { file: string; error: Error }, root: string): string {
  return `Function failed to start: ${path.relative(root, file)}: ${error.message}`;
}

/** Creates the response to an exception in a function. */
export function handlerFailure(error: unknown): Response {
  console.error(error);
  return failure(500, "WORKER_ERROR", "Function exited due to an error (please check logs)");
}

function nameOf(url: string): string {
  return new URL(url).pathname.split("/", 2)[1] ?? "";
}

/**
 * Reports healthy if all functions are ready. If functions are reloaded on changes, ignores failed functions, because a
 * function that is being edited may fail for a while.
 */
function health(functions: ReadonlyMap<string, LoadedFunction>, { reloads }: { reloads: boolean }): Response {
  const states = [...functions].map(([name, loaded]) => [name, "error" in loaded ? "failed" : "ready"]);
  const well = reloads || states.every(([, state]) => state === "ready");
  const body = { status: well ? "ok" : "failed", functions: Object.fromEntries(states) };
  return Response.json(body, { status: well ? 200 : 503 });
}

function failure(status: number, code: string, message: string): Response {
  return Response.json({ code, message }, { status, headers: { "sb-error-code": code } });
}
