import type { z } from "zod";
import type { Credential, Operation, OperationAnswer } from "../../supabase/functions/_shared/operation.ts";
import { explain, fieldWords } from "./field-words.ts";
import { type JsonSchema, jsonSchemaOf } from "./schema.ts";

/** The error format of an area, and the codes that any of its operations may return. */
export interface ErrorStyle {
  component: { name: string; schema: z.ZodType };
  contentType: string;
  knows: (code: string) => boolean;
  statusOf: (code: string) => number;
  /** Explains a code for the documentation. */
  meaningOf: (code: string) => string;
  /** Returns the error schema, narrowed to certain codes. */
  narrow: (codes: readonly string[]) => JsonSchema;
  /** Returns the codes that an operation may return in addition to its own. */
  common: (operation: Operation) => readonly string[];
  /** The code returned with status 415. */
  unsupported: string;
  /** Whether an error says that a retry can't succeed. */
  hasRetryAdvice?: boolean;
}

/** The contents of an OpenAPI document. */
export interface Area {
  info: { title: string; version: string; description: string };
  servers: readonly object[];
  securitySchemes: Partial<Record<Credential, object>>;
  operations: readonly { operation: Operation; errors: readonly ErrorStyle[]; servers?: readonly object[] }[];
}

const exampleId = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";
const retryHeader = { "Retry-After": { $ref: "#/components/headers/RetryAfter" } };
const adviceHeader = { "x-should-retry": { $ref: "#/components/headers/ShouldRetry" } };
const requestIdHeader = { "x-request-id": { $ref: "#/components/headers/RequestId" } };

/** Builds the OpenAPI 3.1 document of an area. */
export function documentOf({ info, servers, securitySchemes, operations }: Area): object {
  const schemas: Record<string, JsonSchema> = {};
  const refusals: Record<string, object> = {};
  const paths: Record<string, Record<string, object>> = {};
  for (const { operation, errors, servers: own } of operations) {
    for (const { component: error } of errors) schemas[error.name] ??= jsonSchemaOf(error.schema, "output");
    const described = {
      operationId: operation.id,
      tags: [operation.tag],
      summary: operation.summary,
      ...(operation.description ? { description: operation.description } : {}),
      ...(own ? { servers: own } : {}),
      security: operation.credentials.map((name) => ({
        [name]: name === "service" && operation.scope ? [operation.scope] : [],
      })),
      parameters: parametersOf(operation),
      ...requestBodyOf(operation, schemas),
      responses: { ...answersOf(operation, schemas), ...refusalsOf(operation, errors, refusals) },
    };
    paths[operation.path] = { ...paths[operation.path], [operation.method.toLowerCase()]: described };
  }
  const tags = [...new Set(operations.map(({ operation }) => operation.tag))].map((name) => ({ name }));
  return {
    openapi: "3.1.0",
    info,
    servers,
    tags,
    paths,
    components: {
      schemas: sorted(schemas),
      responses: sorted(refusals),
      headers: {
        RequestId: {
          description: "The ID of this request. Include it when you contact support.",
          schema: { type: "string" },
        },
        RetryAfter: { description: "Seconds to wait before retrying.", schema: { type: "integer" } },
        ShouldRetry: {
          description: "false if a retry can't succeed, otherwise absent.",
          schema: { type: "string", enum: ["false"] },
        },
      },
      securitySchemes,
    },
  };
}

function parametersOf({ path, pathExamples = {}, query, headers }: Operation): object[] {
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = ""]) => ({
    name,
    in: "path",
    required: true,
    schema: name in pathExamples ? { type: "string" } : { type: "string", format: "uuid" },
    example: pathExamples[name] ?? exampleId,
  }));
  return [...inPath, ...named("query", query), ...named("header", headers)];
}

function named(place: "query" | "header", schema: z.ZodObject | undefined): object[] {
  if (!schema) return [];
  const { properties = {}, required = [] } = jsonSchemaOf(schema, "input") as {
    properties?: Record<string, JsonSchema>;
    required?: string[];
  };
  return Object.entries(properties).map(([name, { description = fieldWords[name], ...itself }]) => ({
    name,
    in: place,
    required: required.includes(name),
    ...(description ? { description } : {}),
    schema: itself,
  }));
}

function requestBodyOf({ id, body, amountsAreText }: Operation, schemas: Record<string, JsonSchema>): object {
  if (!body) return {};
  const schema = component(`${capital(id)}Request`, jsonSchemaOf(body.schema, "input", { amountsAreText }), schemas);
  return {
    requestBody: { required: !body.optional, content: { "application/json": { schema, example: body.example } } },
  };
}

function answersOf(operation: Operation, schemas: Record<string, JsonSchema>): Record<string, object> {
  return Object.fromEntries(operation.answers.map((answer) => [answer.status, answerOf(operation, answer, schemas)]));
}

function answerOf(
  { id, amountsAreText }: Operation,
  { description, schema, contentTypes = [], headers = {} }: OperationAnswer,
  schemas: Record<string, JsonSchema>,
): object {
  const json = schema && component(`${capital(id)}Answer`, jsonSchemaOf(schema, "output", { amountsAreText }), schemas);
  const content = {
    ...(json ? { "application/json": { schema: json } } : {}),
    ...Object.fromEntries(contentTypes.map((type) => [type, {}])),
  };
  const own = Object.entries(headers).map(([name, text]) => [name, { description: text, schema: { type: "string" } }]);
  return {
    description,
    headers: { ...requestIdHeader, ...Object.fromEntries(own) },
    ...(Object.keys(content).length > 0 ? { content } : {}),
  };
}

/** Groups an operation's error responses by status and error style. */
function refusalsOf(
  operation: Operation,
  styles: readonly ErrorStyle[],
  refusals: Record<string, object>,
): Record<string, object> {
  const codes = [...operation.problems, ...styles.flatMap((style) => style.common(operation))];
  const known = styles.flatMap((style) =>
    [...new Set(codes)].filter(style.knows).map((code) => ({ style, code, status: style.statusOf(code) })),
  );
  if (operation.body) known.push(...styles.map((style) => ({ style, code: style.unsupported, status: 415 })));
  const byStatus = [...Map.groupBy(known, ({ status }) => status)].sort(([a], [b]) => a - b);
  return Object.fromEntries(
    byStatus.map(([status, some]) => {
      const byStyle = [...Map.groupBy(some, ({ style }) => style)];
      const name = byStyle
        .map(([style, its]) => [...its.map(({ code }) => code).sort(), style.component.name].join("."))
        .concat(status === 415 ? ["415"] : [])
        .join("-");
      refusals[name] ??= {
        description: some.map(({ style, code }) => `${code}: ${style.meaningOf(code)}`).join(" "),
        headers: {
          ...requestIdHeader,
          ...(status === 429 || status === 503 ? retryHeader : {}),
          ...(styles.some(({ hasRetryAdvice }) => hasRetryAdvice) ? adviceHeader : {}),
        },
        content: Object.fromEntries(
          byStyle.map(([style, its]) => [
            style.contentType,
            {
              schema: {
                allOf: [{ $ref: `#/components/schemas/${style.component.name}` }],
                ...style.narrow(its.map(({ code }) => code).sort()),
              },
            },
          ]),
        ),
      };
      return [status, { $ref: `#/components/responses/${name}` }];
    }),
  );
}

function sorted<Value>(record: Record<string, Value>): Record<string, Value> {
  return Object.fromEntries(Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1)));
}

function component(name: string, schema: JsonSchema, schemas: Record<string, JsonSchema>): JsonSchema {
  schemas[name] = explain(schema);
  return { $ref: `#/components/schemas/${name}` };
}

function capital(id: string): string {
  return id.charAt(0).toUpperCase() + id.slice(1);
}
