import { z } from "zod";
import { isObject } from "../../_shared/json.ts";
import { nameField, ourMessages, unsupported } from "../../_shared/validation-messages.ts";
import { GatewayError } from "./errors.ts";
import { keepSource } from "./source-json.ts";

type Issue = z.core.$ZodIssue;

/** Maps each request field that an endpoint refuses with `unsupported_parameter` to advice on what to do instead. */
export type RefusedFields = Readonly<Record<string, string>>;

/**
 * Parses a client's body. Treats a null member as absent, because SDKs send null for members without a value.
 * @throws GatewayError `invalid_request` or `unsupported_parameter`, naming the field
 */
export function parseBody<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  refused: RefusedFields = {},
): z.output<Schema> {
  const body = dropNullMembers(value);
  const head = cutMessagesAfterInvalid(body);
  const failed = head === body ? undefined : schema.safeParse(head, ourMessages);
  const parsed = failed?.success === false ? failed : schema.safeParse(body, ourMessages);
  if (!parsed.success) throw createBodyError(parsed.error, refused, value);
  return keepSource(parsed.data, value) as z.output<Schema>;
}

/**
 * Cuts a list of messages after the first member without a role or type. If that member is invalid, the schema doesn't
 * collect an issue for each further one, which takes several microseconds.
 */
function cutMessagesAfterInvalid(value: unknown): unknown {
  if (!isObject(value)) return value;
  const name = "messages" in value ? "messages" : "input";
  const list = value[name];
  if (!Array.isArray(list)) return value;
  const at = list.findIndex((member) => !isObject(member) || !("role" in member || "type" in member));
  return at < 0 || at === list.length - 1 ? value : { ...value, [name]: list.slice(0, at + 1) };
}

/**
 * Parses a body and collects the members that its schema does not define. Only members that the provider's kind lists
 * reach the provider.
 * @returns the parsed body, and the other members by name
 * @throws GatewayError the errors of `parseBody`, and `unsupported_parameter` for any member that `refused` lists
 */
export function parseOpenBody<Schema extends z.ZodObject>(
  schema: Schema,
  value: unknown,
  refused: RefusedFields,
): { body: z.output<Schema>; others: Record<string, unknown> } {
  // An empty list of a refused member, such as mcp_servers, asks for nothing.
  const isEmpty = (name: string, member: unknown) =>
    member === null || (Object.hasOwn(refused, name) && Array.isArray(member) && member.length === 0);
  const others = Object.entries(isObject(value) ? value : {}).filter(
    ([name, member]) => !Object.hasOwn(schema.shape, name) && !isEmpty(name, member),
  );
  const [first] = others.find(([name]) => Object.hasOwn(refused, name)) ?? [];
  if (first !== undefined) throw createUnsupportedError(first, refused[first]);
  return { body: parseBody(schema, value, refused), others: Object.fromEntries(others) };
}

/** Parses a record, whose null members are not absent. @throws GatewayError `invalid_request`, naming the field */
export function parseRecord<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  const parsed = schema.safeParse(value, ourMessages);
  if (!parsed.success) throw createBodyError(parsed.error);
  return parsed.data;
}

/**
 * Wraps a nested schema so that null members count as absent.
 * @param keep a member for which null is a meaningful value
 */
export function treatNullAsAbsent<Schema extends z.ZodType>(schema: Schema, keep?: string) {
  return z.preprocess((value) => dropNullMembers(value, keep), schema);
}

function dropNullMembers(value: unknown, keep?: string): unknown {
  if (!isObject(value)) return value;
  const entries = Object.entries(value);
  if (entries.every(([, member]) => member !== null)) return value;
  return Object.fromEntries(entries.filter(([name, member]) => member !== null || name === keep));
}

/**
 * Returns the error for a body that its schema rejects, naming the field. The code is `unsupported_parameter` if the
 * gateway knows the field but does not support it, or does not support the value of a `type` field. Otherwise, the code
 * is `invalid_request`.
 */
function createBodyError(error: z.ZodError, refused: RefusedFields = {}, body?: unknown): GatewayError {
  const first = error.issues[0];
  const issue = first && deepestIssue(first);
  const path = issue?.path.map(String) ?? [];
  const unknown = issue?.code === "unrecognized_keys" ? issue.keys[0] : undefined;
  const param = [...path, ...(unknown === undefined ? [] : [unknown])].join(".").slice(0, 256) || undefined;
  const refusedName = [path.join("."), path[0] ?? unknown ?? ""].find((name) => Object.hasOwn(refused, name));
  if (refusedName !== undefined) return createUnsupportedError(param, refused[refusedName]);
  const isNever = issue?.code === "invalid_type" && issue.expected === "never";
  if (isNever || path.at(-1) === "file_id") {
    return createUnsupportedError(param, issue?.message === unsupported ? undefined : issue?.message);
  }
  const isNoChoice = issue?.code === "invalid_union" || issue?.code === "invalid_value";
  if (isNoChoice && path.at(-1) === "type" && valueAt(body, path) !== undefined) {
    return createUnsupportedError(param, "Leave it out, or send a type that the API reference lists.");
  }
  const message =
    unknown === undefined ? issue && nameField(issue.message, param) : `Unknown field: ${unknown.slice(0, 128)}`;
  return new GatewayError("invalid_request", { param, message });
}

function valueAt(body: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>((value, name) => (value as Record<string, unknown> | undefined)?.[name], body);
}

/**
 * Returns the error for a request field that the gateway does not support.
 * @param cure advice on what to do instead
 */
export function createUnsupportedError(param: string | undefined, cure = ""): GatewayError {
  return new GatewayError("unsupported_parameter", {
    param,
    message: `${param} is not supported here. ${cure}`.trim(),
  });
}

/**
 * Returns the issue of the union alternative that matched most of the value, since the client most likely meant that
 * one.
 */
function deepestIssue(issue: Issue): Issue {
  if (issue.code !== "invalid_union") return issue;
  const inner = issue.errors
    .flatMap((issues) => issues.slice(0, 1))
    .map((each) => deepestIssue({ ...each, path: [...issue.path, ...each.path] }));
  return inner.reduce((best, each) => (each.path.length > best.path.length ? each : best), issue as Issue);
}
