import { z } from "zod";
import { GatewayError } from "./errors.ts";

type Issue = z.core.$ZodIssue;

/**
 * Parses a client's body. A member that is null counts as absent, as SDKs send members that have no value.
 * @param unsupported fields that OpenAI has and this endpoint does not offer: they get a code of their own
 * @throws GatewayError `invalid_request` or `unsupported_parameter`, naming the field
 */
export function parseBody<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  unsupported: ReadonlySet<string> = new Set(),
): z.output<Schema> {
  const parsed = schema.safeParse(dropNullMembers(value));
  if (!parsed.success) throw refuseBody(parsed.error, unsupported);
  return parsed.data;
}

/** A nested schema whose members may be null for absent. @param keep a member for which null is a value */
export function nullIsAbsent<Schema extends z.ZodType>(schema: Schema, keep?: string) {
  return z.preprocess((value) => dropNullMembers(value, keep), schema);
}

function dropNullMembers(value: unknown, keep?: string): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const entries = Object.entries(value);
  if (entries.every(([, member]) => member !== null)) return value;
  return Object.fromEntries(entries.filter(([name, member]) => member !== null || name === keep));
}

/** The error for a body that its schema refuses, naming the field. @param unsupported as in `parseBody` */
export function refuseBody(error: z.ZodError, unsupported: ReadonlySet<string>): GatewayError {
  const issue = error.issues.map(deepest).at(0);
  const path = issue?.path.map(String) ?? [];
  const unknown = issue?.code === "unrecognized_keys" ? issue.keys[0] : undefined;
  const param = [...path, ...(unknown === undefined ? [] : [unknown])].join(".").slice(0, 256) || undefined;
  const field = path[0] ?? unknown ?? "";
  // A kind of tool or part that is not offered, or a file stored at the provider, which may be another tenant's.
  const unlistedKind = path.at(-1) === "type" || [path.at(-1), unknown].includes("file_id");
  if (unsupported.has(field) || unlistedKind) {
    return new GatewayError("unsupported_parameter", { param, message: `${param} is not supported here.` });
  }
  const message = unknown === undefined ? issue?.message : `Unknown field: ${unknown.slice(0, 128)}`;
  return new GatewayError("invalid_request", { param, message });
}

/** The issue of the union's alternative that matched furthest, which is most likely what the client meant. */
function deepest(issue: Issue): Issue {
  if (issue.code !== "invalid_union") return issue;
  const inner = issue.errors
    .flatMap((issues) => issues.slice(0, 1))
    .map((each) => deepest({ ...each, path: [...issue.path, ...each.path] }));
  return inner.reduce((best, each) => (each.path.length > best.path.length ? each : best), issue as Issue);
}
