import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { RouteHandle } from "../../remix-app/http/route-table.ts";
import { errorCodes } from "../../supabase/functions/_gateway/http/errors.ts";
import { parseBody } from "../../supabase/functions/_gateway/http/parse-body.ts";
import { JsonNumber } from "../../supabase/functions/_shared/exact-json.ts";
import { describeIssue, ourMessages } from "../../supabase/functions/_shared/validation-messages.ts";
import { urlRoutes } from "../test/routes.ts";
import { gatewayArea, platformArea } from "./areas.ts";
import { documentOf } from "./document.ts";
import { gatewayStyle, messagesStyle } from "./error-styles.ts";
import { openApiFiles } from "./files.ts";

const callsOf = ({ operations }: typeof platformArea) =>
  operations.map(({ operation: { method, path } }) => `${method} ${path}`).sort();

/** Returns the calls below /api that the modules of the route table serve, written as in the OpenAPI documents. */
async function routedCalls(): Promise<string[]> {
  const api = urlRoutes.filter(({ path = "" }) => path.startsWith("api/"));
  const calls = await Promise.all(
    api.map(async ({ path: pattern = "", file }) => {
      const module = await import(path.resolve("remix-app", file));
      const handle = module.handle as RouteHandle | undefined;
      const { methods: listed } = handle ?? {};
      const declared = typeof listed === "function" ? listed(pattern) : listed;
      const methods = declared ?? [...(module.loader ? ["GET"] : []), ...(module.action ? ["POST"] : [])];
      const written = `/${pattern.replaceAll(/:(\w+)/g, "{$1}")}`;
      return methods.filter((method) => method !== "HEAD").map((method) => `${method} ${written}`);
    }),
  );
  return calls.flat().sort();
}

const route = /path: \/\^((?:[^/\\]|\\.|\/(?!,))+)\$\/, method: "(\w+)"/g;

/** Calls of our own web server only, which need a secret key. The public document leaves them out. */
const internalCalls = ["GET /v1/providers", "POST /v1/providers/test"];

/** Returns the calls that the handlers of the Edge Functions serve. */
function servedCalls(): string[] {
  const handlers = readdirSync("supabase/functions", { recursive: true, encoding: "utf8" }).filter((file) =>
    /^[a-z-]+\/handler\.ts$/.test(file),
  );
  return handlers
    .flatMap((file) => [...readFileSync(path.join("supabase/functions", file), "utf8").matchAll(route)])
    .map(([, pattern = "", method]) => {
      const written = pattern.replaceAll("\\/", "/").replaceAll(/\(\?<(\w+)>[^)]*\)/g, "{$1}");
      return `${method} /v1${written}`;
    })
    .sort();
}

describe("OpenAPI documents", () => {
  test.each(openApiFiles())("$file matches the output of `npm run generate`", ({ file, text }) => {
    expect(readFileSync(file, "utf8") === text, `${file} is stale: run \`npm run generate\` and commit it`).toBe(true);
  });

  test("the OpenAPI documents describe exactly the calls of the web server's API", async () => {
    // Each satellite serves this call at its own origin.
    const ofSatellites = "POST /api/auth/verify-app-token";
    expect(callsOf(platformArea)).toEqual([ofSatellites, ...(await routedCalls())].sort());
  });

  test("the OpenAPI documents describe exactly the calls of the gateway that other programs may make", () => {
    expect([...callsOf(gatewayArea), ...internalCalls].sort()).toEqual(servedCalls());
    expect(servedCalls().length).toBeGreaterThan(10);
  });

  test("the gateway's document has every error code, and says that an error may ask clients not to retry", () => {
    const { components } = documentOf(gatewayArea) as {
      components: { responses: Record<string, { headers: object }> };
    };
    const responses = Object.entries(components.responses);
    // Paths that the gateway does not serve have no operation.
    const codes = errorCodes.filter((code) => code !== "not_found");
    expect(codes.filter((code) => !responses.some(([name]) => name.split(".").includes(code)))).toEqual([]);
    for (const [name, { headers }] of responses) expect(headers, name).toHaveProperty("x-should-retry");
  });

  test("an overloaded provider has the status 529 in Anthropic's format only", () => {
    expect([gatewayStyle, messagesStyle].map(({ statusOf }) => statusOf("provider_overloaded"))).toEqual([502, 529]);
  });

  test.each([
    ["platform", platformArea],
    ["gateway", gatewayArea],
  ])(
    "in the OpenAPI documents of the %s, each operation has a unique id, a summary, known credentials and a valid example body",
    (_, area) => {
      const ids = area.operations.map(({ operation }) => operation.id);
      expect(new Set(ids).size).toBe(ids.length);
      for (const { operation, errors } of area.operations) {
        const { id, summary, credentials, body, problems } = operation;
        expect(summary, id).toMatch(/^[A-Z][^.]+$/);
        for (const name of credentials) expect(area.securitySchemes, id).toHaveProperty(name);
        for (const code of problems)
          expect(
            errors.some(({ knows }) => knows(code)),
            `${id} ${code}`,
          ).toBe(true);
        if (!body) continue;
        const sent = JSON.stringify(body.example);
        // The schema requires amounts to be JsonNumbers.
        const read = JSON.parse(sent, (name, value) =>
          name.endsWith("Usd") && typeof value === "number" ? new JsonNumber(String(value)) : value,
        );
        expect(body.schema.safeParse(read).error, id).toBeUndefined();
      }
    },
  );
});

const wrongValues = [
  undefined,
  null,
  1,
  -1,
  1.5,
  1e12,
  true,
  "",
  "?",
  "x".repeat(200_000),
  [],
  [null],
  {},
  { type: "?" },
];

/** Returns copies of a valid example, each with a wrong value in one place, a missing member or an unknown one. */
function spoil(example: unknown): unknown[] {
  const here = wrongValues.filter((value) => value !== undefined);
  if (Array.isArray(example)) {
    return [...here, ...example.flatMap((member, at) => spoil(member).map((wrong) => example.with(at, wrong)))];
  }
  if (typeof example !== "object" || example === null || example instanceof JsonNumber) return here;
  const members = Object.entries(example).flatMap(([name, member]) =>
    [undefined, ...spoil(member)].map((wrong) => ({ ...example, [name]: wrong })),
  );
  return [...here, { ...example, unknown: 1 }, ...members];
}

/** Returns values for members that the example lacks. */
function spoilAbsent(schema: z.ZodType, example: unknown): unknown[] {
  if (!(schema instanceof z.ZodObject) || typeof example !== "object") return [];
  return Object.keys(schema.shape).flatMap((name) => wrongValues.map((wrong) => ({ ...example, [name]: wrong })));
}

describe("messages about invalid requests", () => {
  const english = z.locales.en().localeError;
  const schemas = [platformArea, gatewayArea].flatMap((area) =>
    area.operations.flatMap(({ operation: { id, body, query } }) => [
      ...(body ? [{ id, area, schema: body.schema, example: body.example }] : []),
      ...(query ? [{ id: `${id} (query)`, area, schema: query as z.ZodType, example: {} }] : []),
    ]),
  );

  test.for(schemas)("$id never answers with the validator's own message", ({ area, schema, example }) => {
    let refused = 0;
    for (const value of [...spoil(example), ...spoilAbsent(schema, example)]) {
      const validators = new Set<string>();
      const watched = schema.safeParse(value, {
        error: (issue) => {
          const text = english(issue);
          validators.add(typeof text === "string" ? text : (text?.message ?? ""));
          return describeIssue(issue);
        },
      });
      if (watched.success) continue;
      refused += 1;
      const messages = [watched, schema.safeParse(value, ourMessages)].flatMap(({ error }) =>
        (error?.issues ?? []).flatMap(listMessages),
      );
      if (area === gatewayArea) messages.push(messageOf(() => parseBody(schema, value)));
      expect(messages.filter((message) => validators.has(message) || /^Invalid input/.test(message))).toEqual([]);
    }
    expect(refused).toBeGreaterThan(0);
  });

  function listMessages(issue: z.core.$ZodIssue): string[] {
    const inner = issue.code === "invalid_union" ? issue.errors.flat() : [];
    return [issue.message, ...inner.flatMap(listMessages)];
  }

  function messageOf(parse: () => unknown): string {
    try {
      parse();
      return "";
    } catch (error) {
      return (error as Error).message;
    }
  }
});
