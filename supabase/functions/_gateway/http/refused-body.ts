import type { z } from "zod";
import { GatewayError } from "./errors.ts";

type Issue = z.core.$ZodIssue;

/**
 * What a client is told of a body that its schema refuses: the field that is at fault.
 * @param unsupported fields that OpenAI knows and this surface does not offer: their own code, so that clients can tell
 */
export function refuseBody(error: z.ZodError, unsupported: ReadonlySet<string>): GatewayError {
  const issue = error.issues.map(deepest).at(0);
  const path = issue?.path.map(String) ?? [];
  const unknown = issue?.code === "unrecognized_keys" ? issue.keys[0] : undefined;
  const param = [...path, ...(unknown === undefined ? [] : [unknown])].join(".").slice(0, 256) || undefined;
  const field = path[0] ?? unknown ?? "";
  // A kind of tool or part that is not listed; and files of the provider's, which are other tenants' too.
  const unlistedKind = path.at(-1) === "type" || [path.at(-1), unknown].includes("file_id");
  if (unsupported.has(field) || unlistedKind) {
    return new GatewayError("unsupported_parameter", { param, message: `${param} is not supported here.` });
  }
  const message = unknown === undefined ? issue?.message : `Unknown field: ${unknown.slice(0, 128)}`;
  return new GatewayError("invalid_request", { param, message });
}

/** Of a union's alternatives, the issue of the one that came furthest: what the client most likely meant. */
function deepest(issue: Issue): Issue {
  if (issue.code !== "invalid_union") return issue;
  const inner = issue.errors
    .flatMap((issues) => issues.slice(0, 1))
    .map((each) => deepest({ ...each, path: [...issue.path, ...each.path] }));
  return inner.reduce((best, each) => (each.path.length > best.path.length ? each : best), issue as Issue);
}
