import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { adminApiOperations } from "../../remix-app/admin-api/admin-operations.ts";
import { codeOf } from "../../remix-app/testing/authenticator-app.ts";
import { openPhone, unlockedPhone } from "../../remix-app/testing/phone.ts";
import { visitProvider } from "../../remix-app/testing/provider-visit.ts";
import { join } from "../../supabase/tests/database.ts";
import { type AppTenant, createAppTenant } from "../../supabase/tests/gateway/app-tenant.ts";
import { createGatewayTenant } from "../../supabase/tests/gateway/tenant.ts";
import { scheduleSecret } from "../start/secrets.ts";
import { type Person as Bearer, createApp, handOver, mint, service, signInAgain, type TestApp } from "../test/apps.ts";
import {
  askFromDevice,
  createDeviceClient,
  deleteDeviceClient,
  newUserCode,
  signInOnDevice,
} from "../test/device-requests.ts";
import { createPerson, deletePerson, enter, insertAuthenticators, type Person, query } from "../test/people.ts";
import { createServiceAccount, tokenOfServiceAccount } from "../test/service-accounts.ts";
import { readStack } from "../test/stack.ts";
import { gatewayArea, platformArea } from "./areas.ts";
import { anonymous, answered, bearerOf, browserOf, faults, gatewayOf, onSatellite, serverOf } from "./live-callers.ts";

const stack = readStack();
const project = { base: stack.base, ...stack.supabase };
let tenant: AppTenant;
let person: Person;
let bearer: Bearer;
let app: TestApp;
let partner: TestApp;

beforeAll(async () => {
  [tenant, person] = await Promise.all([createAppTenant(), createPerson()]);
  const scopes = ["profile", "workspaces:read", "workspaces:write", "studio:read"];
  [app, partner] = await Promise.all([
    createApp({ scopes }),
    createApp({ kind: "external", scopes: ["workspace:session", "ai:use"], workspaceId: tenant.workspaceId }),
  ]);
  await join(tenant.db, { workspaceId: tenant.workspaceId, userId: person.id, role: "owner" });
  bearer = { ...person, ...(await signInAgain(person)) };
});
afterAll(async () => {
  await deletePerson(person);
  await tenant.close();
});

const allOf = (area: typeof platformArea, name: string) =>
  area.operations.map(({ operation }) => `${name}.${operation.id}`).sort();
const succeeded = (name: string) =>
  [...answered]
    .filter(([id, statuses]) => id.startsWith(`${name}.`) && [...statuses].some((status) => status < 300))
    .map(([id]) => id)
    .sort();

/** Sends requests that are meant to be refused. */
async function refusals(call: ReturnType<typeof bearerOf>, path: string) {
  await call("POST", path, "{");
  await call("POST", path, { unknown: 1 });
  await call("POST", path, "x".repeat(70_000));
}

describe("Live responses match the OpenAPI documents", () => {
  test("live responses for a browser's session and accounts match the OpenAPI documents", async () => {
    const [browser, other] = await Promise.all([enter(person), createPerson()]);
    await browser.post("/add-account", { email: other.email, password: other.password });
    const call = browserOf(browser);
    await call("GET", "/api/v1/auth/session");
    await call("GET", "/api/v1/auth/accounts");
    await call("POST", "/api/v1/auth/accounts/switch", { accountId: person.id, targetRoute: "/workspaces" });
    await call("PATCH", "/api/v1/auth/accounts/current", { route: "/workspaces" });
    await call("PATCH", "/api/v1/auth/accounts/current", { route: "/login" });
    await call("POST", "/api/v1/auth/accounts/switch", { accountId: randomUUID() });
    await call("DELETE", `/api/v1/auth/accounts/${other.id}`);
    await call("DELETE", `/api/v1/auth/accounts/${randomUUID()}`);
    await call("POST", "/api/v1/auth/accounts/logout");
    await anonymous("GET", "/api/v1/auth/session");
    await anonymous("GET", "/api/v1/auth/accounts");
    const last = browserOf(await enter(person));
    await refusals(last, "/api/v1/auth/accounts/switch");
    await last("POST", "/api/v1/auth/accounts/logout-all");
    await browserOf(await enter(other))("POST", "/api/v1/auth/accounts/logout-everywhere");
    await deletePerson(other);
    expect(faults).toEqual([]);
  });

  test("live responses match the documents for a user's own identities, sessions and activity", async () => {
    const call = bearerOf(bearer.accessToken);
    const linked = randomUUID();
    await query(
      `insert into auth.identities (id, provider_id, user_id, identity_data, provider, created_at, updated_at)
       values ($1::uuid, $1::uuid::text, $2, jsonb_build_object('sub', $1::uuid::text, 'email', 'ada@github.test'), 'github', now(), now())`,
      [linked, person.id],
    );
    await query("delete from private.unconfirmed_identities where identity_id = $1", [linked]);
    await call("GET", "/api/v1/users/me/additions");
    await call("GET", "/api/v1/users/me/identities");
    await call("DELETE", `/api/v1/users/me/identities/${linked}`);
    await call("DELETE", `/api/v1/users/me/identities/${randomUUID()}`);
    const app = "http://127.0.0.1:9";
    const link = "/api/v1/users/me/identities/link/github";
    const { url, state } = await call<{ url: string; state: string }>("POST", link, { returnTo: `${app}/linked` });
    const back = new URL(await visitProvider(url, { ourOrigin: app, email: `${linked}@github.test` }));
    const completion = { state, code: back.searchParams.get("code") };
    await call("POST", `${link}/complete`, completion);
    await call("POST", `${link}/complete`, completion);
    const browser = browserOf(await enter(person));
    await browser("POST", "/api/v1/users/me/identities/link/github", { returnTo: "/settings/security" });
    await browser("POST", "/api/v1/users/me/identities/link/none", {});
    const { sessions } = await call<{ sessions: { id: string; current: boolean }[] }>(
      "GET",
      "/api/v1/users/me/sessions",
    );
    await call("DELETE", `/api/v1/users/me/sessions/${sessions.find(({ current }) => !current)?.id}`);
    await call("DELETE", `/api/v1/users/me/sessions/${randomUUID()}`);
    await call("GET", "/api/v1/users/me/security-events?limit=2");
    await call("GET", "/api/v1/users/me/security-events?limit=0");
    await bearerOf("a.b.c")("GET", "/api/v1/users/me/sessions");
    expect(faults).toEqual([]);
  });

  test("live responses match the documents for a QR code sign-in and an approval on a phone", async () => {
    const handed = await createPerson();
    const [browser, phone] = await Promise.all([enter(handed), openPhone(project, handed)]);
    const [atBrowser, atPhone] = [browserOf(browser), bearerOf(phone.accessToken)];
    const challenges = "/api/v1/auth/qr-login/challenges";
    const begin = () => atBrowser<{ id: string; secret: string }>("POST", challenges);
    const rejected = await begin();
    await atPhone("POST", `${challenges}/${rejected.id}/reject`, { secret: rejected.secret });
    const { id, secret } = await begin();
    await atBrowser("GET", `${challenges}/${id}?secret=${secret}`);
    await atPhone("POST", `${challenges}/${id}/approve`, { secret, device: { ...unlockedPhone, appLock: false } });
    await atPhone("POST", `${challenges}/${id}/approve`, { secret, device: unlockedPhone });
    await atPhone("POST", `${challenges}/${id}/approve`, { secret, device: unlockedPhone });
    await atPhone("POST", challenges);
    await atBrowser("GET", `${challenges}/${id}?secret=${secret}`);
    await atBrowser("GET", `${challenges}/${id}?secret=wrong`);

    const [authenticator] = await insertAuthenticators(handed, ["Phone"]);
    if (!authenticator) throw new Error("no authenticator");
    const { factorId } = authenticator;
    const proved = await openPhone(project, { ...handed, prove: { factorId, code: codeOf(authenticator, 1) } });
    const [waiting, approver] = [browserOf(await enter(handed)), bearerOf(proved.accessToken)];
    const approvals = "/api/v1/auth/mfa/mobile/challenges";
    const asked = await waiting<{ id: string; secret: string; pairCode: string }>("POST", approvals);
    await approver("GET", "/api/v1/auth/mfa/mobile/approvals");
    const decision = { decision: "approve", device: unlockedPhone };
    const wrong = asked.pairCode === "000000" ? "000001" : "000000";
    await approver("POST", `${approvals}/${asked.id}/approve`, { ...decision, pairCode: wrong });
    await approver("POST", `${approvals}/${asked.id}/approve`, { ...decision, pairCode: asked.pairCode });
    await waiting("GET", "/api/v1/users/me/sessions");
    await waiting("GET", `${approvals}/${asked.id}?secret=${asked.secret}`);
    await deletePerson(handed);
    expect(faults).toEqual([]);
  });

  test("live responses match the documents for a device authorization that a phone approves or denies", async () => {
    const [owner, client] = await Promise.all([createPerson(), createDeviceClient()]);
    const call = bearerOf((await openPhone(project, owner)).accessToken);
    const requests = "/api/v1/auth/device-authorizations";
    const [approved, denied] = await Promise.all([askFromDevice(client), askFromDevice(client, { place: null })]);
    await call("GET", `${requests}/${approved.userCode}`);
    await call("GET", `${requests}/${denied.userCode}`);
    await call("GET", `${requests}/${newUserCode()}`);
    await call("POST", `${requests}/${approved.userCode}/approve`, { device: { ...unlockedPhone, appLock: false } });
    await call("POST", `${requests}/${approved.userCode}/approve`, { device: unlockedPhone });
    await call("POST", `${requests}/${approved.userCode}/approve`, { device: unlockedPhone });
    await refusals(call, `${requests}/${denied.userCode}/approve`);
    await call("POST", `${requests}/${denied.userCode}/deny`);
    await call("POST", `${requests}/${denied.userCode}/deny`);
    await anonymous("GET", `${requests}/${denied.userCode}`);
    await Promise.all([deletePerson(owner), deleteDeviceClient(client)]);
    expect(faults).toEqual([]);
  });

  test("live responses match the documents for apps, their sessions and tokens", async () => {
    const [call, server] = [bearerOf(bearer.accessToken), serverOf(app)];
    const { token } = await call<{ token: string }>("POST", "/api/v1/auth/cross-app-tokens", { targetApp: app.name });
    await call("POST", "/api/v1/auth/cross-app-tokens", { targetApp: "no-such-app" });
    await server("POST", "/api/v1/auth/cross-app-tokens/validate", { token, preview: true });
    await server("POST", "/api/v1/auth/cross-app-tokens/validate", { token });
    await server("POST", "/api/v1/auth/cross-app-tokens/validate", { token });
    await serverOf({ ...app, secret: "wrong" })("POST", "/api/v1/auth/cross-app-tokens/validate", { token });
    const held = await handOver(bearer, app);
    const session = { token: held.appSession.token };
    await server("POST", "/api/v1/auth/app-sessions/introspect", session);
    await server("POST", "/api/v1/auth/app-sessions/introspect", { token: "none" });
    await server("POST", "/api/v1/auth/app-sessions/refresh", session);
    await server("POST", "/api/v1/auth/app-sessions/refresh", { token: "none" });
    await server("POST", "/api/v1/auth/app-sessions/revoke", session);
    await anonymous("POST", "/api/v1/schedule");
    await bearerOf(scheduleSecret(stack.supabase.secretKey))("POST", "/api/v1/schedule");
    await mint(bearer, app);
    await call("DELETE", "/api/v1/auth/cross-app-tokens");
    const exchange = "/api/v1/auth/app-token/exchange";
    const { workspaceId } = tenant;
    const issued = await serverOf(partner)<{ refreshToken: string }>("POST", exchange, {
      token: await mint(bearer, partner),
      workspaceId,
    });
    await serverOf(partner)("POST", exchange, { refreshToken: issued.refreshToken, workspaceId });
    await serverOf(partner)("POST", exchange, { refreshToken: "none", workspaceId });
    const notes = { name: stack.satellites[0]?.name ?? "" };
    const { token: forNotes } = await call<{ token: string }>("POST", "/api/v1/auth/cross-app-tokens", {
      targetApp: notes.name,
    });
    await onSatellite("POST", "/api/auth/verify-app-token", { token: forNotes });
    await onSatellite("POST", "/api/auth/verify-app-token", { token: forNotes });
    expect(faults).toEqual([]);
  });

  test("live responses match the documents for workspaces and the AI studio, for members as well as satellite apps", async () => {
    const call = bearerOf(bearer.accessToken);
    const { centralSession } = await handOver(bearer, app);
    const satellite = bearerOf(centralSession.token);
    const ws = `/api/v1/workspaces/${tenant.workspaceId}`;
    await tenant.client.chat.completions.create({ model: "demo-chat", messages: [{ role: "user", content: "hi" }] });
    for (const caller of [call, satellite]) {
      await caller("GET", "/api/v1/workspaces");
      await caller("GET", ws);
      await caller("PATCH", ws, { name: "Research" });
      await caller("GET", `/api/v1/workspaces/${randomUUID()}`);
    }
    const machine = await createServiceAccount({ workspaceId: tenant.workspaceId, scopes: ["use_ai_studio"] });
    const program = bearerOf(await tokenOfServiceAccount(machine));
    for (const list of ["runs", "policy", "budgets", "provider-costs", "keys"]) {
      await program("GET", `${ws}/ai/${list}`);
    }
    const { key } = await call<{ key: { id: string } }>("POST", `${ws}/ai/keys`, {
      name: "Live",
      externalAppId: tenant.appId,
      monthlyBudgetUsd: 12.5,
      allowedAddresses: ["192.0.2.0/24"],
      expiresAt: "2999-01-01T00:00:00Z",
    });
    await call("POST", `${ws}/ai/keys`, { name: "" });
    await call("PATCH", `${ws}/ai/keys/${key.id}`, { name: "Renamed", requestsPerMinute: null });
    await call("PATCH", `${ws}/ai/keys/${key.id}`, { name: "Late", version: "1" });
    await call("PATCH", `${ws}/ai/keys/${key.id}`, { entityId: "x" });
    await call("POST", `${ws}/ai/keys/${key.id}/rotate`, { overlapSeconds: 60 });
    await call("POST", `${ws}/ai/keys/${key.id}/rotate`, { overlapSeconds: 60 });
    await call("GET", `${ws}/ai/keys?limit=1`);
    await call("GET", `${ws}/ai/keys?cursor=none`);
    await call("DELETE", `${ws}/ai/keys/${key.id}`);
    await call("DELETE", `${ws}/ai/keys/none`);
    await call("PATCH", `${ws}/ai/policy`, {
      monthlyBudgetUsd: 500,
      appBudgets: [{ appId: tenant.appId, monthlyBudgetUsd: 1 }],
    });
    await call("PATCH", `${ws}/ai/policy`, {});
    const budget = { scope: "label", label: "team-1", monthlyBudgetUsd: 5, previousBudgetUsd: null };
    await call("PATCH", `${ws}/ai/budgets`, budget);
    await call("PATCH", `${ws}/ai/budgets`, budget);
    await call("PATCH", `${ws}/ai/budgets`, {});
    await call("PATCH", `${ws}/ai/budgets`, {
      ...{ scope: "workspace", subjectId: tenant.workspaceId, period: "day" },
      ...{ limitUsd: 5, previousLimitUsd: null, timeZone: "Europe/Berlin", thresholds: [90] },
    });
    await call("GET", `${ws}/ai/budgets?limit=1`);
    await call("GET", `${ws}/ai/budgets?period=all`);
    await call("GET", `${ws}/ai/budgets?cursor=none`);
    const opened = await call<{ envelope: { id: string; version: string } }>("POST", `${ws}/ai/envelopes`, {
      label: "task-1",
      limitUsd: 5,
      calls: 200,
      ttlSeconds: 3600,
    });
    await call("POST", `${ws}/ai/envelopes`, { label: "task-1", limitUsd: 5 });
    await call("POST", `${ws}/ai/envelopes`, { limitUsd: 0 });
    await call("GET", `${ws}/ai/envelopes?state=open,ended&waiting=false&limit=1`);
    await call("GET", `${ws}/ai/envelopes?state=none`);
    const envelope = `${ws}/ai/envelopes/${opened.envelope.id}`;
    await call("GET", envelope);
    await call("GET", `${ws}/ai/envelopes/${randomUUID()}`);
    await call("PATCH", envelope, { limitUsd: 10, calls: null, version: opened.envelope.version });
    await call("PATCH", envelope, { limitUsd: 20, version: opened.envelope.version });
    await call("PATCH", envelope, { limitUsd: 20 });
    await call("PATCH", envelope, { ended: true });
    await call("GET", `${ws}/ai/policy`);
    await expect
      .poll(async () => (await call<{ runs: { id: string }[] }>("GET", `${ws}/ai/runs?status=succeeded`)).runs.length)
      .toBeGreaterThan(0);
    const { runs } = await call<{ runs: { id: string }[] }>("GET", `${ws}/ai/runs?limit=1`);
    await call("GET", `${ws}/ai/runs/${runs[0]?.id}`);
    await call("GET", `${ws}/ai/runs/${randomUUID()}`);
    await call("GET", `${ws}/ai/runs?status=none`);
    await call("GET", `${ws}/ai/usage`);
    await call("GET", `${ws}/ai/usage?groupBy=provider,key,app&limit=1`);
    await call("GET", `${ws}/ai/usage?groupBy=none`);
    await call("GET", `${ws}/ai/credits?limit=1`);
    const invoice = {
      appId: tenant.appId,
      provider: "demo",
      reference: "INV-1",
      issuedOn: "2026-01-01",
      reviewedAt: "2026-01-02T00:00:00Z",
      amountUsd: 12.34,
    };
    await call("POST", `${ws}/ai/provider-invoices`, invoice);
    await call("POST", `${ws}/ai/provider-invoices`, { ...invoice, amountUsd: 1 });
    await call("POST", `${ws}/ai/provider-invoices`, { ...invoice, amountUsd: -1 });
    for (const caller of [call, satellite]) {
      await caller("GET", `${ws}/ai/provider-costs?from=2026-01-01`);
      await caller("GET", `${ws}/ai/provider-invoices`);
      await caller("GET", `${ws}/ai/reconciliation?from=2025-12-01&to=2026-03-01`);
    }
    const chat = { model: "demo-chat", messages: [{ role: "user", content: "Hi" }] };
    await call("POST", `${ws}/ai/playground/chat`, chat);
    await call("POST", `${ws}/ai/playground/chat`, { ...chat, stream: true });
    await call("POST", `${ws}/ai/playground/chat`, { unknown: 1 });
    await call("POST", `${ws}/ai/playground/none`, chat);
    await satellite("DELETE", `/api/workspaces/${tenant.workspaceId}`);
    const doomed = await createGatewayTenant();
    await join(doomed.db, { workspaceId: doomed.workspaceId, userId: person.id, role: "owner" });
    await call("DELETE", `/api/workspaces/${doomed.workspaceId}`);
    await doomed.close();
    await bearerOf(bearer.accessToken)("GET", "/api/v1/workspaces/none");
    expect(faults).toEqual([]);
  });

  test("live responses match the documents for coding agents and their keys", async () => {
    const scopes = ["workspaces:read", "studio:keys"];
    const client = await createDeviceClient({ scopes });
    const call = bearerOf(await signInOnDevice(client, { person, scopes }));
    const agents = `/api/v1/workspaces/${tenant.workspaceId}/ai/agents`;
    const agent = { tool: "claude", host: "ann-laptop" };
    const { connection } = await call<{ connection: { id: string } }>("POST", agents, agent);
    await refusals(call, agents);
    await call("POST", `${agents}/${connection.id}/keys`);
    await call("POST", `${agents}/${randomUUID()}/keys`);
    await call("GET", agents);
    await call("DELETE", `${agents}/${connection.id}`);
    await call("POST", `${agents}/${connection.id}/keys`);
    const narrow = await signInOnDevice(client, { person, scopes: ["workspaces:read"] });
    await bearerOf(narrow)("GET", agents);
    await bearerOf(bearer.accessToken)("GET", agents);
    await deleteDeviceClient(client);
    expect(faults).toEqual([]);
  });

  test("live responses match the gateway's document, also for the document's example requests", async () => {
    const headers = { "x-platform-workspace-id": tenant.workspaceId };
    const call = gatewayOf(tenant.key, headers);
    const chatRequest = { model: "demo-chat", messages: [{ role: "user", content: "What is 2 + 2?" }] };
    const held = gatewayOf(tenant.key, { ...headers, "X-Platform-Envelope": "usd=1; calls=9" });
    type Held = { platform: { envelope: { id: string } } };
    const { platform } = await held<Held>("POST", "/v1/chat/completions", chatRequest);
    for (const { operation } of gatewayArea.operations) {
      const path = operation.path.replace("{model}", "demo-chat").replace("{id}", platform.envelope.id);
      await call(operation.method, path, operation.body?.example);
      await gatewayOf(undefined)(operation.method, path, operation.body?.example);
      if (operation.body) {
        await call(operation.method, path, "{");
        await call(operation.method, path, { unknown: 1 });
      }
    }
    await call("GET", "/v1/models/no-such-model");
    await call("GET", `/v1/envelopes/${randomUUID()}`);
    await call("GET", `/v1/envelopes/${platform.envelope.id}?wait=61`);
    await gatewayOf(tenant.key)("GET", "/v1/usage");
    await call("POST", "/v1/provider-costs/batch", { records: [{}] });
    await call("POST", "/v1/chat/completions", { ...chatRequest, platform: { tools: ["calculator"] } });
    await call("POST", "/v1/chat/completions", { ...chatRequest, stream: true });
    const keyed = gatewayOf(tenant.key, { "idempotency-key": randomUUID() });
    await keyed("POST", "/v1/chat/completions", chatRequest);
    await keyed("POST", "/v1/chat/completions", chatRequest);
    await keyed("POST", "/v1/chat/completions", { ...chatRequest, model: "demo-slow" });
    const person = gatewayOf(bearer.accessToken, headers);
    await person("GET", "/v1/key");
    await person("GET", "/v1/usage");
    const { data } = await service.schema("ai").from("keys").select("id").limit(1);
    expect(data).toHaveLength(1);
    const adapter = bearerOf(tenant.key);
    await adapter("POST", "/api/ai/generate", { prompt: "Say hello.", model: "demo-chat" });
    await adapter("POST", "/api/ai/generate", {});
    expect(faults).toEqual([]);
  });

  test("every documented operation was called and succeeded at least once", () => {
    // The admin API has its own test.
    const admin = adminApiOperations.map(({ id }) => `platform.${id}`);
    const isOther = (id: string) => !admin.includes(id);
    expect(succeeded("platform").filter(isOther)).toEqual(allOf(platformArea, "platform").filter(isOther));
    expect(succeeded("gateway")).toEqual(allOf(gatewayArea, "gateway"));
  });
});
