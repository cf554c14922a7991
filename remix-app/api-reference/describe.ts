import { curlOf } from "./curl.ts";
import { type ApiDocument, type DescribedAnswer, type DescribedOperation, slugOf } from "./documents.ts";
import { type SchemaLine, schemaLines, typeOf } from "./schema-lines.ts";

/** An operation as the reader's page shows it. */
export interface OperationView {
  id: string;
  method: string;
  path: string;
  summary: string;
  description: string | null;
  /** Ways to prove who calls; any one of them. */
  credentials: readonly { name: string; description: string }[];
  parameters: readonly { name: string; place: string; type: string; required: boolean; notes: readonly string[] }[];
  body: readonly SchemaLine[] | null;
  answers: readonly { status: string; description: string; types: readonly string[]; lines: readonly SchemaLine[] }[];
  refusals: readonly { status: string; description: string }[];
  curl: string;
}

/** What an area has, by its tags. */
export interface TagView {
  name: string;
  slug: string;
  operations: readonly { id: string; method: string; path: string; summary: string }[];
}

/** The tags of a document with their operations. */
export function tagsOf({ tags, paths }: ApiDocument): readonly TagView[] {
  const all = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(
      ([
        method,
        {
          operationId,
          summary,
          tags: [tag],
        },
      ]) => ({
        tag,
        operation: { id: operationId, method: method.toUpperCase(), path, summary },
      }),
    ),
  );
  return tags.map(({ name }) => ({
    name,
    slug: slugOf(name),
    operations: all.filter(({ tag }) => tag === name).map(({ operation }) => operation),
  }));
}

/**
 * The operations of a tag, as its page shows them.
 * @param origin where the area is served
 */
export function operationsOf(
  document: ApiDocument,
  { slug, origin }: { slug: string; origin: string },
): OperationView[] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(
        ([
          ,
          {
            tags: [tag],
          },
        ]) => slugOf(tag) === slug,
      )
      .map(([method, operation]) => viewOf(document, { operation, path, method: method.toUpperCase(), origin })),
  );
}

function viewOf(
  { components }: ApiDocument,
  { operation, path, method, origin }: { operation: DescribedOperation; path: string; method: string; origin: string },
): OperationView {
  const resolve = (ref: string) => components.schemas[ref.split("/").at(-1) ?? ""] ?? {};
  const answerOf = (answer: DescribedAnswer) =>
    answer.$ref ? (components.responses[answer.$ref.split("/").at(-1) ?? ""] ?? answer) : answer;
  const all = Object.entries(operation.responses).map(([status, answer]) => ({ status, ...answerOf(answer) }));
  const body = operation.requestBody?.content["application/json"].schema;
  return {
    id: operation.operationId,
    method,
    path,
    summary: operation.summary,
    description: operation.description ?? null,
    credentials: operation.security.flatMap((scheme) =>
      Object.keys(scheme).map((name) => ({ name, description: components.securitySchemes[name]?.description ?? "" })),
    ),
    parameters: operation.parameters.map(({ name, in: place, required, schema, description }) => ({
      name,
      place,
      required,
      type: typeOf(schema, resolve),
      notes: [
        ...(description ? [description] : []),
        ...(schemaLines({ properties: { it: schema } }, resolve)[0]?.notes ?? []),
      ],
    })),
    body: body ? schemaLines(body, resolve) : null,
    answers: all
      .filter(({ status }) => Number(status) < 400)
      .map(({ status, description, content = {} }) => ({
        status,
        description,
        types: Object.keys(content),
        lines: schemaLines(content["application/json"]?.schema ?? {}, resolve),
      })),
    refusals: all
      .filter(({ status }) => Number(status) >= 400)
      .map(({ status, description }) => ({ status, description })),
    curl: curlOf(operation, { method, url: `${origin}${path}` }),
  };
}
