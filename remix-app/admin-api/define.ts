import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { type ConsoleRefusal, reasonSchema } from "../admin/console-change.ts";
import type { InfrastructureAdmin } from "../admin/require-admin.ts";
import {
  buildPage,
  pageQuery,
  parseCursor,
  readCursor,
  readKeyCursor,
  writeCursor,
  writeKeyCursor,
} from "../http/list-page.ts";
import { problem } from "../http/problem.ts";
import { maxTermLength } from "../http/search-params.ts";
import { callFunction } from "../supabase/data-api.ts";
import type { AdminCaller } from "./caller.ts";

/** A call of an operation. */
export interface AdminCall {
  context: AppLoadContext;
  caller: AdminCaller;
  url: URL;
  /** Aborted when the client disconnects. */
  signal: AbortSignal;
  /** Returns a parameter of the path. */
  param(name: string): string;
  /** Returns a parameter of the path that is a UUID. @throws Response 404 for another text */
  uuid(name: string): string;
  /** Returns a parameter of the path that is a positive integer. @throws Response 404 for another text */
  integer(name: string): number;
}

interface Described {
  summary: string;
  description?: string;
}

/** An operation that only reads. */
export interface ReadDefinition extends Described {
  query?: z.ZodObject;
  answer: z.ZodType;
  /** True if the amounts in the answer are JSON numbers, as in a workspace's own API. All others are exact text. */
  amountsAreNumbers?: true;
  read(call: AdminCall, query: unknown): Promise<unknown>;
}

/** An operation that makes a change with one database function. The body has the reason for the audit log. */
export interface ChangeDefinition extends Described {
  body: z.ZodType<{ reason: string }>;
  example: unknown;
  /** Returns the fields of the database function's change. The caller, the reason and the request are added to them. */
  change(call: AdminCall, values: unknown): object | Promise<object>;
  /** Returns whether the change creates a secret. Its hash is added to the change, and the answer has the secret. */
  createsSecret?(values: unknown): boolean;
}

/**
 * An operation that does what its page does, without an idempotency key: for people only, of the platform’s books, or
 * without a change. Repeating it is safe, because it names what the caller read, or sets a state.
 */
export interface ActDefinition extends Described {
  body: z.ZodType;
  example: unknown;
  /** Replaces `JSON.parse`, for amounts that are JSON numbers. */
  parse?: (text: string) => unknown;
  /** Whether the answer may have a secret. */
  createsSecret?: true;
  /** The schema of the answer, if it has more than a secret. */
  answer?: z.ZodType;
  act(call: AdminCall, values: unknown): Promise<ActOutcome>;
}

/** The result of an act, with the secret that it created, if any, or the whole answer. */
export type ActOutcome = { outcome: "changed"; secret?: string | null; answer?: object } | ConsoleRefusal | ActRefusal;
type ActRefusal = Omit<ConsoleRefusal, "field"> & { field?: string };

/** Defines an operation that reads, with the types of its query and answer. */
export function defineRead<Query extends z.ZodObject, Answer extends z.ZodType>(
  definition: Omit<ReadDefinition, "query" | "answer" | "read"> & {
    query?: Query;
    answer: Answer;
    read(call: AdminCall, query: z.output<Query>): Promise<z.output<Answer> | object>;
  },
): ReadDefinition {
  return definition;
}

/** Defines an operation that makes a change, with the type of its body. */
export function defineChange<Body extends z.ZodType<{ reason: string }>>(
  definition: Omit<ChangeDefinition, "body" | "example" | "change" | "createsSecret"> & {
    body: Body;
    example: z.input<Body>;
    change(call: AdminCall, values: z.output<Body>): object | Promise<object>;
    createsSecret?(values: z.output<Body>): boolean;
  },
): ChangeDefinition {
  return definition;
}

/** Defines an operation that makes the change of a page, with the type of its body. */
export function defineAct<Body extends z.ZodType>(
  definition: Omit<ActDefinition, "body" | "example" | "act"> & {
    body: Body;
    example: z.input<Body>;
    act(call: AdminCall, values: z.output<Body>): Promise<ActOutcome>;
  },
): ActDefinition {
  return definition;
}

/** Returns the admin who calls an operation for people. @throws Response 403 FORBIDDEN */
export function requireAdmin({ context, caller }: AdminCall): InfrastructureAdmin {
  if (caller.person) return caller.person;
  throw problem("FORBIDDEN", { requestId: context.requestId });
}

/** How the records of a list are ordered: the position after which a page begins, and that of a record. */
interface Order<Row, Position> {
  read(cursor: string): Position | null;
  write(last: Row): string;
}

/** The order of lists whose newest or oldest records come first. */
export const byCreation: Order<{ createdAt: string; id: string }, { createdAt: string; id: string }> = {
  read: readCursor,
  write: writeCursor,
};

/** The order of lists that are sorted by texts. */
export function byKeys<Row>(length: number, keysOf: (row: Row) => readonly string[]): Order<Row, string[]> {
  return { read: (cursor) => readKeyCursor(cursor, { length }), write: (row) => writeKeyCursor(keysOf(row)) };
}

/**
 * Defines a list that one database function returns, page by page.
 * @param options.field the name of the list in the answer
 * @param options.args returns the function's arguments, without page_size. `after` is the position of the last record
 * of the page before, or null
 */
export function defineList<Row extends z.ZodType, Position, Query extends z.ZodObject = typeof pageQuery>({
  field,
  rows,
  name,
  order,
  args,
  query,
  ...described
}: Described & {
  field: string;
  rows: Row;
  name: `private.${string}`;
  order: Order<z.output<Row>, Position>;
  /** Has the fields of a page's query. */
  query?: Query;
  args(page: { after: Position | null; query: z.output<Query>; call: AdminCall }): object;
}): ReadDefinition {
  const list: z.ZodType<unknown[]> = z.array(rows);
  return {
    ...described,
    query: query ?? pageQuery,
    answer: z.object({ [field]: list, nextCursor: z.string().nullable() }),
    async read(call, values) {
      const { limit, cursor } = pageQuery.parse(values);
      const { context } = call;
      const after = parseCursor(cursor, { read: (text) => order.read(text), requestId: context.requestId });
      const found = await callFunction(context, {
        name,
        args: { ...args({ after, query: values as z.output<Query>, call }), page_size: limit + 1 },
        schema: list,
      });
      const cursorOf = (last: unknown) => order.write(last as z.output<Row>);
      const { records, nextCursor } = buildPage(found, { limit, cursorOf });
      return { [field]: records, nextCursor };
    },
  };
}

/** A text to search for that the database can store. */
export const searchText = z
  .string()
  .trim()
  .max(maxTermLength)
  .refine((text) => !text.includes("\0"));

/** A search term. Without one, a list has everything. */
export const term = searchText.default("");

/** The query of lists that can be searched. */
export const searchQuery = pageQuery.extend({ q: term });

/** The body of every change. Unknown fields are refused. */
export const changeBody = z.strictObject({ reason: reasonSchema });

/** The body of changes that need nothing but the reason. */
export const reasonOnly = { body: changeBody, example: { reason: "Ticket 4711" } };

/** The version that the caller read. The change is refused if there is a later one. */
export const version = z.string().min(1).max(100);
export const versionExample = "6f5902ac237024bdd0c176cb93063dc4";

/** Returns the fields of a schema that a stored record has, for a change that keeps those which it leaves out. */
export function pickFields<Name extends string>(
  record: Readonly<Record<NoInfer<Name>, unknown>>,
  fields: Readonly<Record<Name, z.ZodType>>,
): Record<Name, unknown> {
  const names = Object.keys(fields) as Name[];
  return Object.fromEntries(names.map((name) => [name, record[name]])) as Record<Name, unknown>;
}

/** Returns what the books' functions record about a change. */
export function recordedChange({ context: { requestId, clientAddress: ip } }: AdminCall, reason: string) {
  return { reason, requestId, ip };
}
