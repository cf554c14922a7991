import type { z } from "zod";

/** A way to authenticate an operation, called a security scheme in OpenAPI. */
export type Credential =
  | "session"
  | "bearer"
  | "service"
  | "appSession"
  | "app"
  | "workspaceKey"
  | "appToken"
  | "userToken"
  | "scheduler";

/** A successful answer of an operation. */
export interface OperationAnswer {
  status: 200 | 201 | 204 | 303;
  description: string;
  /** The schema of the JSON body. Absent without a body. */
  schema?: z.ZodType;
  /** The content types of a body that isn't JSON. */
  contentTypes?: readonly string[];
  /** Headers that only this answer has. */
  headers?: Readonly<Record<string, string>>;
}

/**
 * An API operation, as its OpenAPI document describes it. `npm run generate` generates the documents from the same
 * schemas with which the code parses requests and writes answers.
 */
export interface Operation<Code extends string = string> {
  /** The operation's id in camelCase, which is unique in its document. */
  id: string;
  method: "GET" | "POST" | "PATCH" | "DELETE";
  /** The path, with parameters in braces. */
  path: string;
  tag: string;
  /** What the operation does, in a few words. */
  summary: string;
  /** Further information for callers, in plain text. */
  description?: string;
  /** The scope that a service account needs. */
  scope?: string;
  /** True if amounts are exact text. Otherwise, those that are text within the server are JSON numbers. */
  amountsAreText?: true;
  /** The accepted credentials, of which a call needs one. Empty if no authentication is required. */
  credentials: readonly Credential[];
  /** Examples of path parameters. Ids need no example. */
  pathExamples?: Readonly<Record<string, string>>;
  query?: z.ZodObject;
  headers?: z.ZodObject;
  /** The request body, with a valid example. */
  body?: { schema: z.ZodType; example: unknown; optional?: boolean };
  answers: readonly [OperationAnswer, ...OperationAnswer[]];
  /** Error codes that only this operation has. The OpenAPI document also lists the codes common to the API area. */
  problems: readonly Code[];
}
