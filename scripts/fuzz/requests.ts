import fc from "fast-check";
import type { Schema } from "../../remix-app/api-reference/documents.ts";
import type { Cast } from "./credentials.ts";
import type { Target } from "./targets.ts";
import { anything, tellingTexts, valuesOf } from "./values.ts";

/** A request as sent over the wire, without its credential. */
export interface MadeRequest {
  method: string;
  path: string;
  headers: Record<string, string>;
  body?: Buffer;
}

interface Words {
  names: readonly string[];
  values: readonly string[];
}

const methods = fc.constantFrom("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND");
const badSegments = fc.constantFrom(
  "%00",
  "%zz",
  "%",
  "%ff%fe",
  "..%2f..%2fetc",
  "%2e%2e",
  "a%0d%0ab",
  "x".repeat(3_000),
  "%F0%9F%92%A3",
  "null",
  "0",
  "-1",
  "00000000-0000-0000-0000-000000000000",
  "'%22;--",
);
const contentTypes = fc.constantFrom(
  "application/json",
  "application/json; charset=utf-16",
  "application/x-www-form-urlencoded",
  "multipart/form-data; boundary=b",
  "multipart/form-data",
  "text/plain",
  "application/octet-stream",
  "application/json, text/html",
  "",
);
const oddHeaders: fc.Arbitrary<Record<string, string>> = fc.constantFrom<Record<string, string>[]>(
  {},
  {},
  {},
  { "x-request-id": "x".repeat(129) },
  { "x-request-id": "a b" },
  { "idempotency-key": "x".repeat(300) },
  { "idempotency-key": "k1" },
  { "x-platform-workspace-id": "none" },
  { "x-platform-workspace-id": "00000000-0000-0000-0000-000000000000" },
  { "x-platform-operation": "ä" },
  { "x-platform-entity-id": "x".repeat(129) },
  { "user-agent": "x".repeat(4_000) },
  { cookie: `theme=${"x".repeat(4_000)}; sb-x-auth-token=base64-e30; =; ;;` },
  { "sec-fetch-site": "cross-site", origin: "https://evil.test" },
  { "sec-fetch-site": "same-site" },
  { origin: "null" },
  { "x-forwarded-for": "not an address, 1.2.3.4.5" },
  { "x-forwarded-host": "evil.test", "x-forwarded-proto": "gopher" },
  { "content-encoding": "gzip" },
  { accept: "*/*;q=x" },
  { range: "bytes=0-" },
  { "if-none-match": "*" },
);

/** Generates requests for a target: mostly valid ones, the rest broken in one way or another. */
export function requestsOf(
  target: Target,
  { ids, words }: { ids: Cast["ids"]; words: Words },
): fc.Arbitrary<MadeRequest> {
  const usual = {
    "sec-fetch-site": "same-origin",
    accept: target.surface === "page" ? "text/html" : "application/json",
  };
  const known = target.method === "GET" ? ids.read : ids.changed;
  return fc
    .record({
      method: fc.oneof({ weight: 9, arbitrary: fc.constant(target.method) }, { weight: 1, arbitrary: methods }),
      path: pathsOf(target, known),
      query: queriesOf(target),
      odd: fc.oneof(
        { weight: 3, arbitrary: fc.constant<Record<string, string>>({}) },
        { weight: 1, arbitrary: oddHeaders },
      ),
      body: target.method === "GET" ? fc.constant(undefined) : bodiesOf(target, words),
    })
    .map(({ method, path, query, odd, body }) => ({
      method,
      path: `${path}${query}`,
      headers: { ...usual, ...(body && body.type !== "" ? { "content-type": body.type } : {}), ...odd },
      ...(body ? { body: body.bytes } : {}),
    }));
}

function pathsOf({ path, surface }: Target, known: Record<string, string>): fc.Arbitrary<string> {
  const segments = path.split("/").map((segment) => {
    const name = /^\{(\w+)\}$/.exec(segment)?.[1];
    if (!name) return fc.constant(segment);
    const right = known[name] ?? (name === "provider" ? "github" : name === "model" ? "demo-chat" : undefined);
    return fc.oneof(
      { weight: right ? 6 : 1, arbitrary: fc.constant(right ?? crypto.randomUUID()) },
      { weight: 1, arbitrary: fc.uuid() },
      // The server in front of the functions resolves dot segments, so such a request would not reach the functions.
      { weight: 1, arbitrary: surface === "gateway" ? badSegments.filter((text) => text !== "%2e%2e") : badSegments },
    );
  });
  const ending =
    surface === "page"
      ? fc.constantFrom("", "", "", "", "", ".data", ".data", "/")
      : fc.constantFrom(...Array<string>(11).fill(""), "/");
  return fc.tuple(fc.tuple(...segments), ending).map(([all, end]) => `${all.join("/")}${end}`);
}

function queriesOf({ operation, resolve }: Target): fc.Arbitrary<string> {
  const declared = (operation?.parameters ?? []).filter(({ in: place }) => place === "query");
  const names = [
    ...declared.map(({ name }) => name),
    "cursor",
    "limit",
    "from",
    "to",
    "secret",
    "returnUrl",
    "_data",
    "index",
    "x[]",
  ];
  const right = declared.map(({ name, schema }) =>
    fc
      .option(valuesOf(schema, resolve), { nil: undefined })
      .map((value) => (value === undefined ? "" : `${name}=${encoded(value)}`)),
  );
  const wrong = fc
    .tuple(fc.constantFrom(...names), fc.oneof(tellingTexts, badSegments))
    .map(([name, value]) => `${name}=${encoded(value)}`);
  const raw = fc.constantFrom(
    "%",
    "&&&",
    "a=%zz",
    "=",
    "cursor=%00",
    `a=${"x".repeat(6_000)}`,
    "from=2026-01-01&from=x",
    "%00=%00",
  );
  return fc
    .oneof(
      { weight: 3, arbitrary: fc.constant("") },
      ...(right.length > 0
        ? [{ weight: 4, arbitrary: fc.tuple(...right).map((all) => all.filter(Boolean).join("&")) }]
        : []),
      { weight: 2, arbitrary: fc.array(wrong, { minLength: 1, maxLength: 3 }).map((all) => all.join("&")) },
      { weight: 1, arbitrary: raw },
    )
    .map((query) => (query ? `?${query}` : ""));
}

interface MadeBody {
  type: string;
  bytes: Buffer;
}

function bodiesOf(target: Target, words: Words): fc.Arbitrary<MadeBody | undefined> {
  const schema = target.operation?.requestBody?.content["application/json"].schema;
  const json = schema
    ? jsonOf(schema, target)
    : fc.dictionary(fc.constantFrom(...names(words)), anything, { maxKeys: 5, noNullPrototype: true });
  const right = json.map((value) => ({ type: "application/json", bytes: Buffer.from(JSON.stringify(value) ?? "") }));
  const form = formsOf(words).map((text) => ({ type: "application/x-www-form-urlencoded", bytes: Buffer.from(text) }));
  const own = target.surface === "page" ? form : right;
  return fc.oneof(
    { weight: 8, arbitrary: own },
    { weight: 2, arbitrary: fc.record({ type: contentTypes, bytes: brokenBodies }) },
    { weight: 1, arbitrary: fc.oneof(right, form) },
    { weight: 1, arbitrary: fc.constant(undefined) },
  );
}

/** Generates values that match a schema, such values with one broken part, and arbitrary values. */
function jsonOf(schema: Schema, { resolve }: Target): fc.Arbitrary<unknown> {
  const right = valuesOf(schema, resolve);
  const broken = fc.tuple(right, fc.nat(), anything, fc.constantFrom("replace", "remove", "add")).map(damaged);
  return fc.oneof(
    { weight: 2, arbitrary: right },
    { weight: 3, arbitrary: broken },
    { weight: 1, arbitrary: anything },
  );
}

function damaged([value, at, instead, how]: [unknown, number, unknown, string]): unknown {
  if (typeof value !== "object" || value === null) return instead;
  const copy = structuredClone(value) as Record<string, unknown>;
  const all = Object.keys(copy);
  const name = all[at % Math.max(all.length, 1)] ?? "x";
  if (how === "remove") delete copy[name];
  else if (how === "add") copy[`extra${at % 7}`] = instead;
  else
    copy[name] =
      typeof copy[name] === "object" && at % 2 ? damaged([copy[name], at >> 1, instead, "replace"]) : instead;
  return copy;
}

const deep = (depth: number) => `${'{"a":['.repeat(depth)}${"]}".repeat(depth)}`;
const brokenBodies = fc
  .oneof(
    fc.constantFrom(
      "",
      "{",
      "null",
      "[]",
      '"',
      '{"name":"a","name":"b"}',
      '{"a":1e999,"b":-0,"c":NaN}',
      '{"__proto__":{"x":1},"constructor":{"prototype":{}}}',
      '{"name":"\\ud800","token":"\\u0000"}',
      "a=%zz&%=%&a=1&a=2",
      "email=a%00b&password=",
      '--b\r\nContent-Disposition: form-data; name="email"\r\n\r\nx',
      '--b\r\nContent-Disposition: form-data; name="email"; filename="x"\r\n\r\nx\r\n--b--\r\n',
      "--b--",
      deep(60),
      deep(5_000),
      "[".repeat(30_000),
      JSON.stringify({ name: "x".repeat(70_000) }),
      JSON.stringify({ input: "x".repeat(9_000), token: "x".repeat(9_000) }),
    ),
    fc.string({ unit: "binary", maxLength: 200 }),
  )
  .map((text) => Buffer.from(text));
const brokenBytes = Buffer.from([0xff, 0xfe, 0x00, 0xc3, 0x28, 0xed, 0xa0, 0x80]);

function names({ names: known }: Words): readonly string[] {
  return ["intent", "email", "password", "token", "name", "reason", "code", ...known];
}

function formsOf(words: Words): fc.Arbitrary<string> {
  const value = fc.oneof(
    { weight: 2, arbitrary: tellingTexts },
    { weight: 3, arbitrary: fc.constantFrom("", ...words.values) },
    { weight: 1, arbitrary: fc.constant(brokenBytes.toString("latin1")) },
  );
  const field = fc.tuple(fc.constantFrom(...names(words)), value).map(([name, text]) => `${name}=${encoded(text)}`);
  return fc.uniqueArray(field, { maxLength: 8, selector: (text) => text.split("=")[0] }).map((all) => all.join("&"));
}

/** Encodes a value as in a form or query. Text that is not valid Unicode becomes a replacement character. */
function encoded(value: unknown): string {
  return encodeURIComponent(String(typeof value === "object" ? JSON.stringify(value) : value).toWellFormed());
}
