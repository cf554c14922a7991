import { formatJsonLine } from "../_shared/log.ts";

/**
 * Logs one line for a defect or outage, with the kind and location of the error, but no text from a caller or provider.
 */
export function logError(error: unknown, requestId?: string): void {
  const { name, code, stack } = error instanceof Error ? (error as Error & { code?: string }) : { name: typeof error };
  const at = stack?.split("\n").find((line) => line.trimStart().startsWith("at "));
  console.error(formatJsonLine("error", "failure", { request_id: requestId, error: name, code, at: at?.trim() }));
}
