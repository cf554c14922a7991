import type { z } from "zod";

/** By what a caller of an operation may say who it is; the documents call these security schemes. */
export type Credential = "session" | "bearer" | "appSession" | "app" | "workspaceKey" | "appToken" | "userToken";

/** One good answer of an operation. */
export interface Answer {
  status: 200 | 201 | 204 | 303;
  description: string;
  /** Of its JSON; absent where it has no body. */
  schema?: z.ZodType;
  /** Where it is no JSON: what else it may come as. */
  contentTypes?: readonly string[];
  /** Headers of its own. */
  headers?: Readonly<Record<string, string>>;
}

/**
 * One call of an API, as its OpenAPI document describes it. Its schemas are the very ones that the code parses and
 * answers by; the documents are made of them by `npm run openapi`.
 */
export interface Operation<Code extends string = string> {
  /** Unique in its document, in camelCase. */
  id: string;
  method: "GET" | "POST" | "PATCH" | "DELETE";
  /** With its parameters in braces. */
  path: string;
  tag: string;
  /** What it does, in a few words. */
  summary: string;
  /** What a caller has to know beyond that; plain text. */
  description?: string;
  /** Any one of them; none where anybody may. */
  credentials: readonly Credential[];
  /** Examples of what stands in the path; ids need none. */
  pathExamples?: Readonly<Record<string, string>>;
  query?: z.ZodObject;
  headers?: z.ZodObject;
  /** What it takes, with a body that works. */
  body?: { schema: z.ZodType; example: unknown; optional?: boolean };
  answers: readonly [Answer, ...Answer[]];
  /** Codes of its own; those that every operation of its area may answer are added. */
  problems: readonly Code[];
}
