import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { bearer, send } from "../../scripts/test/apps.ts";
import { createPerson, deletePerson, enter, type Person, query } from "../../scripts/test/people.ts";
import { everyRoute, openRoutes } from "../../scripts/test/routes.ts";
import {
  createServiceAccount,
  type TestServiceAccount,
  tokenOfServiceAccount,
} from "../../scripts/test/service-accounts.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { createGatewayTenant, type GatewayTenant } from "../../supabase/tests/gateway/tenant.ts";
import { studioOperations } from "../studio/operations.ts";
import { newAddress } from "../testing/visitor.ts";

const { base, ai } = readStack();
const scopes = ["use_ai_studio", "manage_ai_keys", "manage_ai_policy"];
let tenant: GatewayTenant;
let machine: TestServiceAccount;
let platform: TestServiceAccount;
let person: Person;
let token: string;

beforeAll(async () => {
  [tenant, person] = await Promise.all([createGatewayTenant(), createPerson()]);
  machine = await createServiceAccount({ workspaceId: tenant.workspaceId, scopes });
  platform = await createServiceAccount({ scopes: ["admin:workspaces:read"] });
  token = await tokenOfServiceAccount(machine);
});
afterAll(async () => {
  await query("delete from private.service_accounts where id = any ($1)", [[machine.id, platform.id]]);
  await deletePerson(person);
  await tenant.close();
});

const serviceRoutes = new Set(
  studioOperations
    .filter(({ credentials }) => credentials.includes("service"))
    .map(({ path }) => path.slice(1).replaceAll(/\{(\w+)\}/g, ":$1")),
);
const studio = (path: string, workspaceId = tenant.workspaceId) => `/api/v1/workspaces/${workspaceId}/ai/${path}`;
const call = (method: string, path: string, { body, by = token }: { body?: unknown; by?: string } = {}) =>
  send(path, { method, headers: bearer(by), ...(body === undefined ? {} : { body }) });
const statusOf = async (path: string, by = token) => (await call("GET", path, { by })).status;

describe("a service account’s token", () => {
  test.each([
    ...["keys", "policy", "budgets", "runs", "usage", "credits"],
    ...["provider-costs", "provider-invoices", "reconciliation"],
  ])("reads the workspace’s %s", async (path) => {
    expect(await statusOf(studio(path))).toBe(200);
  });

  test("manages keys without a step-up, and the log names the service account", async () => {
    const made = await call("POST", studio("keys"), { body: { name: "By a program" } });
    expect(made).toMatchObject({ status: 201, body: { secret: expect.stringMatching(/^ttr_ai_/) } });
    const { key } = made.body as { key: { id: string } };
    expect((await call("PATCH", studio(`keys/${key.id}`), { body: { name: "Renamed" } })).status).toBe(200);
    const rotated = await call("POST", studio(`keys/${key.id}/rotate`), { body: {} });
    expect(rotated.status).toBe(201);
    const { key: successor } = rotated.body as { key: { id: string } };
    expect((await call("DELETE", studio(`keys/${successor.id}`))).status).toBe(204);
    const log = await query<{ actor_id: string }>(
      "select actor_id from public.workspace_audit_log where workspace_id = $1 and subject_id = any ($2)",
      [tenant.workspaceId, [key.id, successor.id]],
    );
    expect(log.length).toBeGreaterThan(0);
    expect(new Set(log.map(({ actor_id }) => actor_id))).toEqual(new Set([machine.id]));
  });

  test("changes the policy and budgets", async () => {
    expect((await call("PATCH", studio("policy"), { body: { monthlyBudgetUsd: 50 } })).status).toBe(200);
    const budget = { scope: "label", label: "job", monthlyBudgetUsd: 5, previousBudgetUsd: null };
    expect((await call("PATCH", studio("budgets"), { body: budget })).status).toBe(204);
  });

  test("does only what its scopes allow, also if the service account may do more", async () => {
    const narrow = await tokenOfServiceAccount(machine, { scope: "use_ai_studio" });
    expect(await statusOf(studio("runs"), narrow)).toBe(200);
    const budget = { scope: "label", label: "other", monthlyBudgetUsd: 5, previousBudgetUsd: null };
    for (const [method, path, body] of [
      ["GET", "keys", undefined],
      ["POST", "keys", { name: "No" }],
      ["PATCH", "policy", { monthlyBudgetUsd: 1 }],
      ["PATCH", "budgets", budget],
    ] as const) {
      expect(await call(method, studio(path), { body, by: narrow }), `${method} ${path}`).toMatchObject({
        status: 403,
        body: { code: "FORBIDDEN" },
      });
    }
  });

  test("sees other workspaces as missing, and a platform’s service account all of them", async () => {
    const [{ id = "" } = {}] = await query<{ id: string }>(
      "select id from public.workspaces where personal_user_id = $1",
      [person.id],
    );
    expect(await statusOf(studio("runs", id))).toBe(404);
    expect(await statusOf(studio("runs", "none"))).toBe(404);
    expect(await statusOf(studio("runs"), await tokenOfServiceAccount(platform))).toBe(404);
  });

  test.each(["GET", "POST"])("opens no page and no operation for people by %s", async (method) => {
    const opened: string[] = [];
    for (const { route } of everyRoute) {
      if (route in openRoutes || serviceRoutes.has(route)) continue;
      const path = route.replace(":workspaceId", tenant.workspaceId).replaceAll(/:\w+/g, () => crypto.randomUUID());
      const { status } = await call(method, `/${path}`);
      if (![302, 401, 403, 404, 405].includes(status)) opened.push(`${route} ${status}`);
    }
    expect(serviceRoutes.size).toBeGreaterThan(10);
    expect(opened).toEqual([]);
  });

  test.each(["/", "/admin", "/admin/audit.csv", "/api/v1/auth/session", "/oauth/userinfo"])(
    "of the platform is refused by %s with 401",
    async (path) => {
      expect(await statusOf(path, await tokenOfServiceAccount(platform))).toBe(401);
    },
  );

  test("is refused by the gateway", async () => {
    const workspace = { "x-platform-workspace-id": tenant.workspaceId };
    for (const url of [`${ai}/v1/chat/completions`, `${base}/api/ai/generate`]) {
      const response = await fetch(url, {
        method: "POST",
        headers: { ...bearer(token), ...workspace, "content-type": "application/json" },
        body: JSON.stringify({ model: "demo-chat", messages: [{ role: "user", content: "hi" }] }),
      });
      expect([response.status, await response.json()]).toMatchObject([401, { error: { code: "invalid_api_key" } }]);
    }
  });

  test("never uses the cookies of its request", async () => {
    const browser = await enter(person);
    const headers = { ...bearer(token), cookie: browser.cookie() };
    expect((await send("/api/v1/auth/session", { method: "GET", headers })).status).toBe(401);
    const answer = await send(studio("runs"), { method: "GET", headers });
    expect([answer.status, answer.headers.getSetCookie()]).toEqual([200, []]);
  });

  test("can’t be introspected with the service account’s own credentials", async () => {
    const form = new URLSearchParams({ token, client_id: machine.clientId, client_secret: machine.secret });
    const response = await fetch(`${base}/oauth/introspect`, {
      method: "POST",
      body: form,
      headers: { "x-forwarded-for": newAddress() },
    });
    expect(response.status).toBe(401);
  });

  test("ends when the service account is disabled, revoked, expired or loses the address", async () => {
    const address = newAddress();
    const changes = [
      "enabled = false",
      "revoked_at = now()",
      "expires_at = now()",
      "allowed_addresses = array['192.0.2.0/24'::cidr]",
    ];
    for (const change of changes) {
      const other = await createServiceAccount({ workspaceId: tenant.workspaceId, scopes });
      const by = await tokenOfServiceAccount(other, { address });
      expect(await statusOf(studio("runs"), by)).toBe(200);
      await query(`update private.service_accounts set ${change} where id = $1`, [other.id]);
      const answer = await call("GET", studio("runs"), { by });
      expect([answer.status, answer.headers.get("www-authenticate")], change).toEqual([
        401,
        'Bearer error="invalid_token"',
      ]);
      await query("delete from private.service_accounts where id = $1", [other.id]);
    }
  });

  test("is refused with 401 if it is unknown or malformed", async () => {
    expect(await statusOf(studio("runs"), `ghs_${"A".repeat(43)}`)).toBe(401);
    expect(await statusOf(studio("runs"), "ghs_short")).toBe(401);
  });
});
