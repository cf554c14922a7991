import path from "node:path";
import type { FunctionHandler } from "./deno-api.ts";
import type { LoadedFunction } from "./registry.ts";

/** Answers `/healthz` itself and hands `/<name>/*` to that function, with the codes of hosted Supabase where it cannot. */
export function createDispatch(functions: ReadonlyMap<string, LoadedFunction>, root: string): FunctionHandler {
  return (request, info) => {
    const name = nameOf(request.url);
    if (name === "healthz") return health(functions);
    const target = functions.get(name);
    if (!target) return failure(404, "NOT_FOUND", "Requested function was not found");
    if ("error" in target) return failure(503, "BOOT_ERROR", describeFailure(target, root));
    return target.handler(request, info);
  };
}

/** Names the file that could not be loaded and what was wrong with it. */
export function describeFailure({ file, error }: { file: string; error: Error }, root: string): string {
  return `Function failed to start: ${path.relative(root, file)}: ${error.message}`;
}

/** What a function's own exception is answered with. */
export function handlerFailure(error: unknown): Response {
  console.error(error);
  return failure(500, "WORKER_ERROR", "Function exited due to an error (please check logs)");
}

function nameOf(url: string): string {
  return new URL(url).pathname.split("/", 2)[1] ?? "";
}

function health(functions: ReadonlyMap<string, LoadedFunction>): Response {
  const states = [...functions].map(([name, loaded]) => [name, "error" in loaded ? "failed" : "ready"]);
  return Response.json({ status: "ok", functions: Object.fromEntries(states) });
}

function failure(status: number, code: string, message: string): Response {
  return Response.json({ code, message }, { status, headers: { "sb-error-code": code } });
}
