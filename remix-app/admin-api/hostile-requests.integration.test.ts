import { randomUUID } from "node:crypto";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { bearer } from "../../scripts/test/apps.ts";
import { type ConsoleAdmin, createConsoleAdmin } from "../../scripts/test/console-admin.ts";
import { deletePerson, query } from "../../scripts/test/people.ts";
import {
  createServiceAccount,
  type TestServiceAccount,
  tokenOfServiceAccount,
} from "../../scripts/test/service-accounts.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { platformScopes } from "../machines/scopes.ts";
import { visitorHeaders } from "../testing/visitor.ts";
import { adminApiOperations } from "./admin-operations.ts";
import { type AdminOperation, listAdminOperations } from "./table.ts";

const { base } = readStack();
const operations = listAdminOperations();
const admits = (scope: string) => (operation: AdminOperation) => operation.scope === scope;
const documented = (id: string) => adminApiOperations.find((each) => each.id === id);
const exampleOf = (id: string) => documented(id)?.body?.example;
let finance: ConsoleAdmin;
let machine: TestServiceAccount;
let token: string;

beforeAll(async () => {
  finance = await createConsoleAdmin({ role: "finance" });
});
afterAll(() => deletePerson(finance));

// A service account may make 600 requests a minute.
beforeEach(async () => {
  machine = await createServiceAccount({ scopes: platformScopes });
  token = await tokenOfServiceAccount(machine);
});
afterEach(async () => {
  await query("delete from private.service_accounts where id = $1", [machine.id]);
});

/** Runs a check for each operation, eight at a time. */
async function checkEach(list: readonly AdminOperation[], check: (operation: AdminOperation) => Promise<void>) {
  const rest = [...list];
  const lane = async () => {
    for (let next = rest.shift(); next; next = rest.shift()) await check(next);
  };
  await Promise.all(Array.from({ length: 8 }, lane));
}

/** Fills a path’s parameters. */
const fill = (path: string, value: (name: string) => string = () => randomUUID()) =>
  path.replaceAll(/\{(\w+)\}/g, (_, name: string) => value(name));

async function send(
  method: string,
  path: string,
  { body, by = token, headers = {} }: { body?: string; by?: string; headers?: Record<string, string> } = {},
) {
  const response = await fetch(`${base}${path}`, {
    method,
    headers: {
      ...visitorHeaders(),
      ...bearer(by),
      ...(method === "GET" ? {} : { "idempotency-key": randomUUID() }),
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...headers,
    },
    ...(body === undefined ? {} : { body }),
  });
  const text = await response.text();
  const type = response.headers.get("content-type");
  const problem = type === "application/problem+json" ? (JSON.parse(text) as Record<string, unknown>) : null;
  return { status: response.status, code: problem?.code, detail: problem?.detail, type, headers: response.headers };
}

/** Sends an operation’s example to objects that don’t exist. */
const sendExample = (operation: AdminOperation, by: string) => {
  const example = exampleOf(operation.id);
  const body = example === undefined ? {} : { body: JSON.stringify(example) };
  return send(operation.method, fill(operation.path), { ...body, by });
};

describe("every operation of the admin API", () => {
  test("refuses a token that has all scopes but the operation’s", async () => {
    for (const scope of new Set(operations.map((operation) => operation.scope))) {
      const others = platformScopes.filter((each) => each !== `admin:${scope}`).join(" ");
      const by = await tokenOfServiceAccount(machine, { scope: others });
      const answers = await Promise.all(operations.filter(admits(scope)).map((each) => sendExample(each, by)));
      for (const { status, code } of answers) expect([scope, status, code]).toEqual([scope, 403, "FORBIDDEN"]);
    }
  });

  test("for people refuses a service account with every scope, and changes nothing", async () => {
    const forPeople = operations.filter(admits("person"));
    expect(forPeople.length).toBe(12);
    for (const operation of forPeople) {
      const { status, detail } = await sendExample(operation, token);
      expect([operation.id, status, detail]).toEqual([operation.id, 403, expect.stringContaining("own session")]);
    }
    expect(await query("select from private.admin_audit_log where service_account_id = $1", [machine.id])).toEqual([]);
  });

  test.for(["people", "recovery?email=ada@example.com", "service-accounts", "overview"])(
    "lets a service account list %s",
    async (path) => {
      expect((await send("GET", `/api/v1/admin/${path}`)).status).toBe(200);
    },
  );

  test("refuses a finance person, except in the books", async () => {
    const others = operations.filter(({ scope }) => scope !== "books");
    await checkEach(others, async ({ id, method, path }) => {
      const answer = await finance.browser.sendJson(method, fill(path), exampleOf(id));
      expect([id, answer.status]).toEqual([id, 403]);
    });
  });

  test("refuses a body that is not a JSON object", async () => {
    const changes = operations.filter(({ method, scope }) => method !== "GET" && scope !== "person");
    await checkEach(changes, async ({ id, method, path }) => {
      const text = await send(method, fill(path), { body: "{}", headers: { "content-type": "text/plain" } });
      const list = await send(method, fill(path), { body: "[]" });
      expect([id, text.code, list.code]).toEqual([id, "UNSUPPORTED_MEDIA_TYPE", "INVALID_REQUEST"]);
    });
  });

  const hostile = ["..%2F..", "%00", "%zz", "__proto__", "-1", "a".repeat(3_000)];

  test.for(hostile.map((value) => [value.slice(0, 20), value] as const))(
    "answers with a problem to the ID %s",
    async ([, value]) => {
      // A setup adds a model whose ID may have these characters.
      const named = operations.filter(
        ({ id, path, scope }) => path.includes("{") && scope !== "person" && id !== "setUpModel",
      );
      await checkEach(named, async ({ id, method, path }) => {
        const body = method === "GET" ? {} : { body: JSON.stringify(exampleOf(id)) };
        const { status, code, type } = await send(
          method,
          fill(path, () => value),
          body,
        );
        const isRefused = status >= 400 && status < 500 && code !== undefined;
        expect([id, isRefused ? "refused" : `${status} ${type}`]).toEqual([id, "refused"]);
      });
    },
  );

  test.for([
    ...["cursor=x", `cursor=${Buffer.from('["2026-01-01T00:00:00Z","x"]').toString("base64url")}`, "q=%00&cursor="],
    ...["limit=0&q=%ED%A0%80", "actor=x&serviceAccount=y&q=%F0%9F%98%80%25_"],
    "from=2026-02-30&to=x&month=2026-13&email=none&address=1&sort=x&action=%00&hour=99&skip=-1&runs=1e9",
    "from=%00&month=%00&provider=%00&account=%00&model=%00&hour=%00&skip=%00&runs=%00",
  ])("answers reads with the query %s", async (search) => {
    const reads = operations.filter(({ method }) => method === "GET");
    await checkEach(reads, async ({ id, method, path }) => {
      const examples = documented(id)?.pathExamples;
      const { status, code, type } = await send(
        method,
        `${fill(path, (name) => examples?.[name] ?? randomUUID())}?${search}`,
      );
      const isExpected = status === 200 || (status < 500 && code !== undefined) || id === "comparePrices";
      expect([id, isExpected ? "expected" : `${status} ${type}`]).toEqual([id, "expected"]);
    });
  });
});

describe("the admin API", () => {
  test.for<readonly [what: string, key: string]>([
    ["an empty key", ""],
    ["a key of 300 characters", "x".repeat(300)],
    ["a key with a letter outside ASCII", "clé"],
    ["two keys", "a, b"],
  ])("refuses %s", async ([, key]) => {
    const body = JSON.stringify(exampleOf("createPlan"));
    const answer = await send("POST", "/api/v1/admin/plans", { body, headers: { "idempotency-key": key } });
    expect([answer.status, answer.code]).toEqual([400, "INVALID_REQUEST"]);
  });

  test("refuses forms, large bodies and what is not JSON", async () => {
    const form = { "content-type": "application/x-www-form-urlencoded" };
    const post = (body: string, headers = {}) => send("POST", "/api/v1/admin/plans", { body, headers });
    expect((await post("reason=x", form)).code).toBe("UNSUPPORTED_MEDIA_TYPE");
    expect((await post(JSON.stringify({ reason: "x".repeat(70_000) }))).code).toBe("PAYLOAD_TOO_LARGE");
    for (const body of ["{", "null", "[".repeat(1_000), '{"reason":"\\u0000"}', '{"__proto__":{"reason":"x"}}']) {
      expect([body, (await post(body)).code]).toEqual([body, "INVALID_REQUEST"]);
    }
  });

  test.for(["ghs_x", "ghk_x", "a.b.c", "x"])("refuses the bearer token %s", async (by) => {
    expect(await send("GET", "/api/v1/admin/plans", { by })).toMatchObject({ status: 401, code: "UNAUTHENTICATED" });
  });

  test("answers unknown paths and methods with problems, and is never cached", async () => {
    const none = await send("GET", "/api/v1/admin");
    expect([none.status, none.code]).toEqual([404, "NOT_FOUND"]);
    const method = await send("PUT", "/api/v1/admin/plans");
    expect([method.status, method.code, method.headers.get("allow")]).toEqual([
      405,
      "METHOD_NOT_ALLOWED",
      "GET, POST, HEAD",
    ]);
    const read = await send("GET", "/api/v1/admin/plans");
    expect(read.headers.get("cache-control")).toContain("no-store");
  });

  test("limits the requests of a service account, but not those of another one", async () => {
    await query("select private.count_admin_request($1) from generate_series(1, 700)", [machine.id]);
    const answers = await Promise.all(Array.from({ length: 20 }, () => send("GET", "/api/v1/admin/settings")));
    const limited = answers.find(({ status }) => status === 429);
    expect([limited?.code, limited?.headers.get("retry-after")]).toEqual(["RATE_LIMITED", "1"]);
    const other = await createServiceAccount({ scopes: ["admin:accounts:read"] });
    const by = await tokenOfServiceAccount(other);
    expect((await send("GET", "/api/v1/admin/settings", { by })).status).toBe(200);
    await query("delete from private.service_accounts where id = $1", [other.id]);
  });

  test("takes the caller from the token, not from the query", async () => {
    const id = `api_${randomUUID().slice(0, 8)}`;
    const body = JSON.stringify({ ...(exampleOf("createPlan") as object), id });
    const search = new URLSearchParams({ actor: finance.id, serviceAccount: randomUUID(), requestId: "x", ip: "::" });
    expect((await send("POST", `/api/v1/admin/plans?${search}`, { body })).status).toBe(204);
    const target = `plan ${id}`;
    expect(
      await query("select actor_id, service_account_id from private.admin_audit_log where target = $1", [target]),
    ).toEqual([{ actor_id: null, service_account_id: machine.id }]);
    await query("delete from ai.plans where id = $1", [id]);
  });
});
