import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { bearer } from "../../scripts/test/apps.ts";
import { type ConsoleAdmin, createConsoleAdmin } from "../../scripts/test/console-admin.ts";
import {
  createPerson,
  deletePerson,
  enter,
  insertAuthenticators,
  type Person,
  query,
  signedInLongAgo,
} from "../../scripts/test/people.ts";
import {
  createServiceAccount,
  type TestServiceAccount,
  tokenOfServiceAccount,
} from "../../scripts/test/service-accounts.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { createGatewayTenant, type GatewayTenant } from "../../supabase/tests/gateway/tenant.ts";
import { codeOf } from "../testing/authenticator-app.ts";
import { newAddress, visitorHeaders } from "../testing/visitor.ts";

const { base } = readStack();
const api = "/api/v1/admin";
const reason = "Integration test";
let admin: ConsoleAdmin;
let finance: ConsoleAdmin;
let other: Person;
let tenant: GatewayTenant;
let machine: TestServiceAccount;
let token: string;
const plans: string[] = [];

beforeAll(async () => {
  [admin, finance, other, tenant] = await Promise.all([
    createConsoleAdmin(),
    createConsoleAdmin({ role: "finance" }),
    createPerson(),
    createGatewayTenant(),
  ]);
  const scopes = [
    "admin:catalogue:read",
    "admin:catalogue:write",
    "admin:apps:read",
    "admin:apps:write",
    "admin:accounts:write",
  ];
  machine = await createServiceAccount({ scopes });
  token = await tokenOfServiceAccount(machine);
});
afterAll(async () => {
  await query("delete from ai.plans where id = any ($1)", [plans]);
  await query("delete from private.service_accounts where id = $1", [machine.id]);
  await Promise.all([admin, finance, other].map(deletePerson));
  await tenant.close();
});

interface Answer {
  status: number;
  headers: Headers;
  body: Record<string, unknown> | null;
}

/** Calls the API as a program, by default with the service account’s token and a new idempotency key. */
async function call(
  method: string,
  path: string,
  { body, by = token, key = randomUUID() }: { body?: unknown; by?: string | null; key?: string | null } = {},
): Promise<Answer> {
  const response = await fetch(`${base}${api}/${path}`, {
    method,
    headers: {
      ...visitorHeaders(),
      ...(by === null ? {} : bearer(by)),
      ...(key === null ? {} : { "idempotency-key": key }),
      ...(body === undefined ? {} : { "content-type": "application/json" }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: text === "" ? null : JSON.parse(text) };
}

function newPlan() {
  const id = `api_${randomUUID().slice(0, 8)}`;
  plans.push(id);
  return { id, name: "Api", payer: "member", markup: "1.2", initialCredits: "10", requestsPerMinute: 60, reason };
}

async function readPlan(id: string) {
  return (await call("GET", `plans/${id}`)).body?.plan as { version: string; markup: string };
}

async function countLines(target: string): Promise<number> {
  return (await query("select from private.admin_audit_log where target = $1", [target])).length;
}

describe("who may call the admin API", () => {
  test("a caller without a session, token or scope, and a workspace’s service account, are refused", async () => {
    expect(await call("GET", "plans", { by: null })).toMatchObject({ status: 401, body: { code: "UNAUTHENTICATED" } });
    const wrong = { status: 403, body: { code: "FORBIDDEN" } };
    expect(await call("GET", "workspaces")).toMatchObject(wrong);
    const narrow = await tokenOfServiceAccount(machine, { scope: "admin:catalogue:read" });
    expect(await call("POST", "plans", { by: narrow, body: newPlan() })).toMatchObject(wrong);
    const ofWorkspace = await createServiceAccount({ workspaceId: tenant.workspaceId, scopes: ["use_ai_studio"] });
    expect(await call("GET", "plans", { by: await tokenOfServiceAccount(ofWorkspace) })).toMatchObject(wrong);
    await query("delete from private.service_accounts where id = $1", [ofWorkspace.id]);
  });

  test("people without a role, and finance people outside the books, get 403", async () => {
    const person = await enter(other);
    expect((await person.sendJson("GET", `${api}/plans`)).status).toBe(403);
    expect((await finance.browser.sendJson("GET", `${api}/plans`)).status).toBe(403);
    expect((await finance.browser.sendJson("GET", `${api}/books/importers`)).status).toBe(200);
  });

  test("an admin without a second factor, or whose last proof is old, must confirm first", async () => {
    const [person] = [await createPerson()];
    await query("insert into private.infrastructure_admins (user_id, reason) values ($1, 'test')", [person.id]);
    const [app] = await insertAuthenticators(person, ["Phone"]);
    if (!app) throw new Error("no app");
    const unproved = await enter(person);
    expect(JSON.parse((await unproved.sendJson("GET", `${api}/plans`)).text)).toMatchObject({ code: "MFA_REQUIRED" });
    const prove = { factorId: app.factorId, code: codeOf(app, 1) };
    const stale = await signedInLongAgo(person, { secondsAgo: 3_600, prove });
    expect(JSON.parse((await stale.sendJson("GET", `${api}/plans`)).text)).toMatchObject({ code: "STEP_UP_REQUIRED" });
    await deletePerson(person);
  });

  test.for<readonly [caller: string, headers: Record<string, string>]>([
    ["another site", { "sec-fetch-site": "cross-site", origin: "https://elsewhere.example" }],
    ["another origin", { origin: "https://elsewhere.example" }],
    ["a program without an origin", {}],
  ])("%s can’t use an admin’s cookies", async ([, origin]) => {
    const response = await fetch(`${base}${api}/accounts/${other.id}/sign-out`, {
      method: "POST",
      headers: {
        "x-forwarded-for": newAddress(),
        cookie: admin.browser.cookie(),
        "content-type": "application/json",
        "idempotency-key": randomUUID(),
        ...origin,
      },
      body: JSON.stringify({ reason }),
    });
    expect([response.status, (await response.json()).code]).toEqual([403, "CSRF_REJECTED"]);
  });

  test("a service account can’t sign out an admin", async () => {
    const answer = await call("POST", `accounts/${admin.id}/sign-out`, { body: { reason } });
    expect(answer).toMatchObject({ status: 403, body: { refusal: "protected" } });
  });
});

describe("a change through the admin API", () => {
  test("is in the audit log with the service account and its reason", async () => {
    const plan = newPlan();
    expect(await call("POST", "plans", { body: plan })).toMatchObject({ status: 204, body: null });
    const lines = await query(
      "select actor_id, service_account_id, action, reason from private.admin_audit_log where target = $1",
      [`plan ${plan.id}`],
    );
    expect(lines).toEqual([{ actor_id: null, service_account_id: machine.id, action: "plan.add", reason }]);
  });

  test("changes only the given fields, and is refused after another change", async () => {
    const plan = newPlan();
    await call("POST", "plans", { body: plan });
    const { version } = await readPlan(plan.id);
    const change = { version, markup: "1.5", reason };
    expect((await call("PATCH", `plans/${plan.id}`, { body: change })).status).toBe(204);
    expect(await readPlan(plan.id)).toMatchObject({ name: "Api", markup: "1.5", requestsPerMinute: 60 });
    const late = await call("PATCH", `plans/${plan.id}`, { body: { ...change, markup: "1.6" } });
    expect(late).toMatchObject({ status: 409, body: { code: "CONFLICT", refusal: "conflict" } });
    expect(await readPlan(plan.id)).toMatchObject({ markup: "1.5" });
  });

  test("is made once for its idempotency key, also by concurrent requests", async () => {
    const [plan, key] = [newPlan(), randomUUID()];
    const answers = await Promise.all(Array.from({ length: 8 }, () => call("POST", "plans", { body: plan, key })));
    expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(204));
    expect(await countLines(`plan ${plan.id}`)).toBe(1);
    // The order of the fields and white space don’t matter.
    const { reason: first, ...rest } = plan;
    expect((await call("POST", "plans", { body: { reason: first, ...rest }, key })).status).toBe(204);
    const another = await call("POST", "plans", { body: { ...plan, name: "Other" }, key });
    expect(another).toMatchObject({ status: 409, body: { refusal: "key_reused" } });
  });

  test("needs an idempotency key if it is a POST", async () => {
    for (const key of [null, "with space", "x".repeat(256)]) {
      const answer = await call("POST", "plans", { body: newPlan(), key });
      expect(answer).toMatchObject({ status: 400, body: { code: "INVALID_REQUEST", param: "Idempotency-Key" } });
    }
  });

  test.for([
    ["an unknown field", { colour: "red" }, "colour"],
    ["an actor", { actor: "00000000-0000-0000-0000-000000000000" }, "actor"],
    ["no reason", { reason: undefined }, "reason"],
    ["an amount that is a number", { initialCredits: 10 }, "initialCredits"],
  ] as const)("is refused with %s", async ([, fields, param]) => {
    const answer = await call("POST", "plans", { body: { ...newPlan(), ...fields } });
    expect(answer).toMatchObject({ status: 400, body: { code: "INVALID_REQUEST", param } });
  });

  test("answers a new secret once", async () => {
    const name = `api-${randomUUID().slice(0, 8)}`;
    const body = { name, kind: "internal", displayName: "Api", scopes: ["profile"], reason };
    const key = randomUUID();
    const made = await call("POST", "apps", { body, key });
    expect(made).toMatchObject({ status: 201, body: { secret: expect.stringMatching(/^[\w-]{43}$/) } });
    expect(await call("POST", "apps", { body, key })).toMatchObject({ status: 409, body: { refusal: "secret_shown" } });
    const [stored] = await query<{ keys: string }>(
      "select jsonb_agg(to_jsonb(k))::text as keys from private.idempotency_keys k where caller_id = $1",
      [machine.id],
    );
    expect(stored?.keys).not.toContain(made.body?.secret);
    const { version } = (await call("GET", `apps/${name}`)).body ?? {};
    const rotation = { body: { version, overlapSeconds: 60, reason }, key: randomUUID() };
    const answers = await Promise.all(Array.from({ length: 20 }, () => call("POST", `apps/${name}/secrets`, rotation)));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    expect(answers.filter((answer) => answer.body?.refusal === "secret_shown")).toHaveLength(19);
    await query("delete from private.apps where name = $1", [name]);
  });
});

describe("the paths of the admin API", () => {
  test("take only the methods of their operations", async () => {
    const answer = await call("DELETE", "plans");
    expect([answer.status, answer.headers.get("allow")]).toEqual([405, "GET, POST, HEAD"]);
    expect((await call("GET", "none")).status).toBe(404);
  });

  test("take IDs that contain a slash, percent-encoded", async () => {
    const id = `api/${randomUUID().slice(0, 8)}`;
    const settings = { id, kind: "chat", displayName: "Slash", ownedBy: "demo", reason };
    expect((await call("POST", "models", { body: settings })).status).toBe(204);
    const path = `models/${encodeURIComponent(id)}`;
    const read = await call("GET", path);
    expect(read).toMatchObject({ status: 200, body: { model: { id } } });
    const model = read.body?.model as { version: string } | undefined;
    expect((await call("DELETE", path, { body: { version: model?.version, reason } })).status).toBe(204);
  });

  test("take IDs that end with .data, and address no other model", async () => {
    const id = `api-${randomUUID().slice(0, 8)}`;
    const settings = { kind: "chat", displayName: "Data", ownedBy: "demo", reason };
    expect((await call("POST", "models", { body: { id, ...settings } })).status).toBe(204);
    const [row] = await query<{ version: string }>("select private.model_version($1) as version", [id]);
    const changed = { version: row?.version, displayName: "Other", reason };
    expect((await call("GET", `models/${id}.data`)).status).toBe(404);
    expect((await call("PATCH", `models/${id}.data`, { body: changed })).status).toBe(404);
    expect((await call("POST", "models.data", { body: { id: `${id}-2`, ...settings } })).status).toBe(404);
    expect((await call("POST", "models", { body: { id: `${id}.data`, ...settings } })).status).toBe(204);
    const read = await call("GET", `models/${id}.data`);
    const model = read.body?.model as { id: string; version: string };
    expect(model.id).toBe(`${id}.data`);
    expect((await call("DELETE", `models/${id}.data`, { body: { version: model.version, reason } })).status).toBe(204);
    expect((await call("DELETE", `models/${id}`, { body: { version: row?.version, reason } })).status).toBe(204);
  });

  test("of apps and OpenID clients change no registration of the other kind", async () => {
    const name = `api-${randomUUID().slice(0, 8)}`;
    const shared = { displayName: "Api", scopes: ["profile"], withSecret: false, reason };
    const redirectUris = ["https://api.example.com/callback"];
    const client = { name: `${name}-c`, isPublic: false, redirectUris, ...shared };
    expect((await call("POST", "apps", { body: { name, kind: "internal", ...shared } })).status).toBe(204);
    expect((await call("POST", "openid-clients", { body: client })).status).toBe(204);
    const versions = await query<{ name: string; version: string }>(
      "select name, private.app_version(name) as version from private.apps where name = any ($1) order by name",
      [[name, client.name]],
    );
    const [app, openid] = versions.map(({ version }) => ({ body: { version, reason } }));
    const secret = (step: typeof app) => ({ body: { ...step?.body, overlapSeconds: 0 } });
    const answers = [
      await call("POST", `openid-clients/${name}/disable`, app),
      await call("POST", `apps/${client.name}/disable`, openid),
      await call("POST", `openid-clients/${name}/secrets`, secret(app)),
      await call("POST", `apps/${client.name}/secrets`, secret(openid)),
    ];
    await query("delete from private.apps where name = any ($1)", [[name, client.name]]);
    expect(answers.map(({ status }) => status)).toEqual([404, 404, 404, 404]);
  });
});
