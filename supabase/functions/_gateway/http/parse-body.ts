import { z } from "zod";
import { isObject } from "../structured/canonical.ts";
import { GatewayError } from "./errors.ts";
import { keepSource } from "./source-json.ts";

type Issue = z.core.$ZodIssue;

/** Members that OpenAI has and an endpoint refuses, each with what to do instead. They get a code of their own. */
export type Refused = Readonly<Record<string, string>>;

/**
 * Parses a client's body. A member that is null counts as absent, as SDKs send members that have no value.
 * @throws GatewayError `invalid_request` or `unsupported_parameter`, naming the field
 */
export function parseBody<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  refused: Refused = {},
): z.output<Schema> {
  const parsed = schema.safeParse(dropNullMembers(value), {
    error: ({ input }) => (input === undefined ? "This field is required." : undefined),
  });
  if (!parsed.success) throw refuseBody(parsed.error, refused);
  return keepSource(parsed.data, value) as z.output<Schema>;
}

/**
 * Parses a body that may have other members than its schema: they pass if the provider's kind lists them.
 * @returns the request, and the other members by name
 * @throws GatewayError as `parseBody` does, also for a member that is refused by name
 */
export function parseOpenBody<Schema extends z.ZodObject>(
  schema: Schema,
  value: unknown,
  refused: Refused,
): { request: z.output<Schema>; others: Record<string, unknown> } {
  const others = Object.entries(isObject(value) ? value : {}).filter(
    ([name, member]) => member !== null && !Object.hasOwn(schema.shape, name),
  );
  const named = others.find(([name]) => Object.hasOwn(refused, name));
  if (named) throw unsupported(named[0], refused[named[0]]);
  return { request: parseBody(schema, value, refused), others: Object.fromEntries(others) };
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

/** The error for a body that its schema refuses, naming the field. */
export function refuseBody(error: z.ZodError, refused: Refused = {}): GatewayError {
  const issue = error.issues.map(deepest).at(0);
  const path = issue?.path.map(String) ?? [];
  const unknown = issue?.code === "unrecognized_keys" ? issue.keys[0] : undefined;
  const param = [...path, ...(unknown === undefined ? [] : [unknown])].join(".").slice(0, 256) || undefined;
  const field = path[0] ?? unknown ?? "";
  if ([path.at(-1), unknown].includes("file_id")) {
    return unsupported(param, "A stored file may be another tenant's: send its content.");
  }
  // A kind of tool or part that is not offered.
  if (Object.hasOwn(refused, field) || path.at(-1) === "type") return unsupported(param, refused[field]);
  const message = unknown === undefined ? issue?.message : `Unknown field: ${unknown.slice(0, 128)}`;
  return new GatewayError("invalid_request", { param, message });
}

/** The refusal of a member that OpenAI has. @param cure what to do instead */
export function unsupported(param: string | undefined, cure = ""): GatewayError {
  return new GatewayError("unsupported_parameter", {
    param,
    message: `${param} is not supported here. ${cure}`.trim(),
  });
}

/** The issue of the union's alternative that matched furthest, which is most likely what the client meant. */
function deepest(issue: Issue): Issue {
  if (issue.code !== "invalid_union") return issue;
  const inner = issue.errors
    .flatMap((issues) => issues.slice(0, 1))
    .map((each) => deepest({ ...each, path: [...issue.path, ...each.path] }));
  return inner.reduce((best, each) => (each.path.length > best.path.length ? each : best), issue as Issue);
}
