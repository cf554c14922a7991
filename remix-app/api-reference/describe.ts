import {
  type ApiDocument,
  type DescribedOperation,
  type DescribedResponse,
  type Parameter,
  type Schema,
  slugOf,
} from "./documents.ts";
import { createSample } from "./response-sample.ts";
import { describeType, type SchemaLine, schemaLines } from "./schema-lines.ts";

/** An operation as its page shows it. */
export interface OperationView {
  id: string;
  method: string;
  path: string;
  summary: string;
  description: string | null;
  /** Ways to authenticate; any one of them is enough. */
  credentials: readonly { name: string; description: string }[];
  parameters: readonly {
    name: string;
    place: string;
    type: string;
    required: boolean;
    notes: readonly string[];
    description: string | undefined;
  }[];
  body: readonly SchemaLine[] | null;
  answers: readonly {
    status: string;
    description: string;
    types: readonly string[];
    lines: readonly SchemaLine[];
    /** An example in JSON; null for an answer without JSON. */
    sample: string | null;
  }[];
  errors: readonly { status: string; code: string; meaning: string }[];
  curl: string;
  /** Null if the page doesn't offer to send the call. */
  tryIt: TryView | null;
}

/** A call that the reference page sends with the visitor's own session. */
export interface TryView {
  method: "GET" | "POST";
  /** The call's path on our own origin, with parameters in braces. */
  path: string;
  fields: readonly {
    name: string;
    place: "path" | "query";
    required: boolean;
    hint: string;
    /** The allowed values, if there are only a few. */
    choices: readonly string[];
  }[];
  /** The initial body, for a call that takes one. */
  body: string | null;
}

/** A tag of the API document, with the tag's operations. */
export interface TagView {
  name: string;
  slug: string;
  operations: readonly { id: string; method: string; path: string; summary: string }[];
}

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
 * Returns the operations of a tag for its page.
 * @param origin where the API is served
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
      .map(([method, operation]) =>
        buildOperationView(document, { operation, path, method: method.toUpperCase(), origin }),
      ),
  );
}

function buildOperationView(
  { components }: ApiDocument,
  { operation, path, method, origin }: { operation: DescribedOperation; path: string; method: string; origin: string },
): OperationView {
  const resolve = (ref: string) => components.schemas[ref.split("/").at(-1) ?? ""] ?? {};
  const answerOf = (answer: DescribedResponse) =>
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
      type: describeType(schema, resolve),
      notes: schemaLines({ properties: { it: schema } }, resolve)[0]?.notes ?? [],
      description: description ?? schema.description,
    })),
    body: body ? schemaLines(body, resolve) : null,
    answers: all
      .filter(({ status }) => Number(status) < 400)
      .map(({ status, description, content = {} }) => ({
        status,
        description,
        types: Object.keys(content),
        lines: schemaLines(content["application/json"]?.schema ?? {}, resolve),
        sample: sampleText(createSample(content["application/json"]?.schema ?? {}, resolve)),
      })),
    errors: all
      .filter(({ status }) => Number(status) >= 400)
      .flatMap(({ status, description }) => parseErrorDescriptions(description).map((error) => ({ status, ...error }))),
    curl: buildCurlCommand(operation, { method, url: `${origin}${path}` }),
    tryIt: buildTryView(operation, { method, path, resolve }),
  };
}

function sampleText(sample: unknown): string | null {
  return sample === undefined ? null : JSON.stringify(sample, null, 2);
}

/** Parses the errors in an answer's description: `CODE: meaning. other_code: meaning.` */
export function parseErrorDescriptions(description: string): { code: string; meaning: string }[] {
  const [before = "", ...rest] = description.split(/(?:^|(?<=[.?!]) )([A-Za-z]\w*): /);
  const unnamed = before ? [{ code: "", meaning: before }] : [];
  const named = rest.flatMap((code, index) => (index % 2 === 0 ? [{ code, meaning: rest[index + 1] ?? "" }] : []));
  return [...unnamed, ...named];
}

/** Maps gateway calls to the playground endpoints that make them with the member's session instead of a key. */
const playgroundEndpoints: Record<string, string> = { "/v1/chat/completions": "chat", "/v1/embeddings": "embeddings" };

/**
 * Returns the call that the page offers to send, or null. The page offers GET calls that accept a browser's session,
 * and the gateway calls that the playground allows.
 */
function buildTryView(
  { parameters, requestBody, security }: DescribedOperation,
  { method, path, resolve }: { method: string; path: string; resolve: (ref: string) => Schema },
): TryView | null {
  const endpoint = Object.hasOwn(playgroundEndpoints, path) ? playgroundEndpoints[path] : undefined;
  if (endpoint) {
    const workspace = { name: "workspaceId", place: "path" as const, required: true, hint: "", choices: [] };
    const body = JSON.stringify(requestBody?.content["application/json"].example ?? {}, null, 2);
    return {
      method: "POST",
      path: `/api/v1/workspaces/{workspaceId}/ai/playground/${endpoint}`,
      fields: [workspace],
      body,
    };
  }
  const bySession = security.some((scheme) => Object.hasOwn(scheme, "session"));
  // Calls with a challenge's secret are left out, because only the page that started the challenge knows the secret.
  if (method !== "GET" || !bySession || parameters.some(({ name }) => name === "secret")) return null;
  const fields = parameters.flatMap(({ name, in: place, required, schema, description }) => {
    if (place === "header") return [];
    const { enum: choices = [] } = schema.$ref ? resolve(schema.$ref) : schema;
    return [{ name, place, required, hint: description ?? "", choices: choices.map(String) }];
  });
  return { method: "GET", path, fields, body: null };
}

/** Maps each security scheme of the API documents to the curl arguments that authenticate with it. */
const credentials: Record<string, readonly string[]> = {
  bearer: ['-H "Authorization: Bearer $ACCESS_TOKEN"'],
  userToken: ['-H "Authorization: Bearer $ACCESS_TOKEN"'],
  service: ['-H "Authorization: Bearer $SERVICE_TOKEN"'],
  appSession: ['-H "Authorization: Bearer $CENTRAL_SESSION"'],
  app: ['-u "$APP_NAME:$APP_SECRET"'],
  workspaceKey: ['-H "Authorization: Bearer $GATEHOUSE_API_KEY"'],
  appToken: ['-H "Authorization: Bearer $APP_TOKEN"'],
  session: ['-H "Cookie: $SESSION_COOKIE"', '-H "Sec-Fetch-Site: same-origin"'],
};
/** The order in which a command chooses between several credentials. */
const credentialPreference = ["workspaceKey", "bearer", "app", "session", "appToken", "appSession", "userToken"];

/** Builds a command that makes a call, with secrets from the environment and ids from the examples. */
export function buildCurlCommand(
  { parameters, requestBody, security }: DescribedOperation,
  { method, url }: { method: string; url: string },
): string {
  const named = security.flatMap((scheme) => Object.keys(scheme));
  const credential = credentialPreference.find((name) => named.includes(name));
  const headers = parameters.filter((parameter) => parameter.in === "header" && parameter.required);
  const body = requestBody?.content["application/json"].example;
  return [
    `curl ${method === "GET" ? "" : `-X ${method} `}${quoteShell(fillTemplate(url, parameters))}`,
    ...(credential ? (credentials[credential] ?? []) : []),
    ...headers.map(
      ({ name }) =>
        `-H "${name}: $${name
          .replace(/^X-Platform-/, "")
          .toUpperCase()
          .replaceAll("-", "_")}"`,
    ),
    ...(body === undefined
      ? []
      : ['-H "Content-Type: application/json"', `-d ${quoteShell(JSON.stringify(body, null, 2))}`]),
  ].join(" \\\n  ");
}

function fillTemplate(url: string, parameters: readonly Parameter[]): string {
  return url.replaceAll(/\{(\w+)\}/g, (whole, name) =>
    String(parameters.find((parameter) => parameter.name === name)?.example ?? whole),
  );
}

/** Quotes a word for a POSIX shell. */
function quoteShell(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
