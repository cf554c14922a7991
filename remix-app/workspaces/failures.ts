import type { PostgrestError } from "@supabase/supabase-js";
import { logError } from "#shared/log.ts";
import { type ProblemCode, problem } from "../http/problem.ts";

/** Maps the SQLSTATEs of our functions, constraints and policies to problem codes. */
const problems: Record<string, ProblemCode> = {
  PT403: "FORBIDDEN",
  "42501": "FORBIDDEN",
  PT404: "NOT_FOUND",
  PT409: "CONFLICT",
  PT429: "RATE_LIMITED",
  "23505": "CONFLICT",
  "23503": "CONFLICT",
  "23514": "INVALID_REQUEST",
  "22P02": "INVALID_REQUEST",
};

/** Returns the response for a failed call about a workspace, and logs unexpected errors. */
export function workspaceProblem(error: Pick<PostgrestError, "code">, { requestId }: { requestId: string }): Response {
  const code = problems[error.code];
  if (code) return problem(code, { requestId });
  logError(`a workspace could not be read or changed: ${error.code}`, { requestId });
  return problem("UNAVAILABLE", { requestId });
}

/** Returns whether a call was refused because of a conflict. The page explains a conflict next to its form. */
export function isConflict({ code }: PostgrestError): boolean {
  return problems[code] === "CONFLICT";
}
