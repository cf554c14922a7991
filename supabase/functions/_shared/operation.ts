import type { z } from "zod";

/** How a caller of an operation may authenticate; OpenAPI calls these security schemes. */
export type Credential = "session" | "bearer" | "appSession" | "app" | "workspaceKey" | "appToken" | "userToken";

/** A successful answer of an operation. */
export interface Answer {
  status: 200 | 201 | 204 | 303;
  description: string;
  /** Schema of its JSON; absent without a body. */
  schema?: z.ZodType;
  /** Other content types, if the body isn't JSON. */
  contentTypes?: readonly string[];
  /** Headers specific to this answer. */
  headers?: Readonly<Record<string, string>>;
}

/**
 * An API operation as described in its OpenAPI document. The code parses and answers with the same schemas; `npm run
 * openapi` generates the documents from them.
 */
export interface Operation<Code extends string = string> {
  /** The operation's id: unique in its document, in camelCase. */
  id: string;
  method: "GET" | "POST" | "PATCH" | "DELETE";
  /** The path, with parameters in braces. */
  path: string;
  tag: string;
  /** What the operation does, in a few words. */
  summary: string;
  /** What else a caller needs to know, in plain text. */
  description?: string;
  /** Any one credential is sufficient; empty if no authentication is required. */
  credentials: readonly Credential[];
  /** Examples of path parameters; ids need none. */
  pathExamples?: Readonly<Record<string, string>>;
  query?: z.ZodObject;
  headers?: z.ZodObject;
  /** The request body, with a valid example. */
  body?: { schema: z.ZodType; example: unknown; optional?: boolean };
  answers: readonly [Answer, ...Answer[]];
  /** Error codes specific to this operation; the error codes of its whole area are added. */
  problems: readonly Code[];
}
