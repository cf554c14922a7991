import { generateKeyPairSync, randomBytes, randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { adminOf, answered, faults, gatewayOf } from "../../scripts/openapi/live-callers.ts";
import { createPerson, deletePerson, insertAuthenticators, type Person, query } from "../../scripts/test/people.ts";
import { createServiceAccount, tokenOfServiceAccount } from "../../scripts/test/service-accounts.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { type AppTenant, createAppTenant } from "../../supabase/tests/gateway/app-tenant.ts";
import { codeOf } from "../testing/authenticator-app.ts";
import { openPhone } from "../testing/phone.ts";
import { type AdminOperationId, listAdminOperations } from "./table.ts";

const stack = readStack();
const project = { base: stack.base, ...stack.supabase };

type Call = ReturnType<typeof adminOf>;

/** The operations that are only refused here: they need a party outside the stack, or close sign-up for other tests. */
const outsideCalls: readonly AdminOperationId[] = [
  "changeSettings",
  "comparePrices",
  "requestCostImport",
  "fetchUsageHours",
  "fetchGenerations",
];

const api = "/api/v1/admin";
const reason = "Live test";

let tenant: AppTenant;

beforeAll(async () => {
  tenant = await createAppTenant();
});
afterAll(() => tenant.close());

test("live responses of the admin API match its document, for an admin and for a service account", async () => {
  const admin = await createPerson();
  await query("insert into private.infrastructure_admins (user_id, reason) values ($1, 'test')", [admin.id]);
  const [authenticator] = await insertAuthenticators(admin, ["Phone"]);
  if (!authenticator) throw new Error("no authenticator");
  const prove = { factorId: authenticator.factorId, code: codeOf(authenticator, 1) };
  const chat = { model: "demo-chat", messages: [{ role: "user", content: "What is 2 + 2?" }] };
  const workspace = { "x-platform-workspace-id": tenant.workspaceId };
  await gatewayOf(tenant.key, workspace)("POST", "/v1/chat/completions", chat);
  const { accessToken } = await openPhone(project, { ...admin, prove });
  await callAdminApi(adminOf(accessToken), { admin, tenant });
  const machine = await createServiceAccount({ scopes: ["admin:catalogue:read"] });
  const program = adminOf(await tokenOfServiceAccount(machine));
  await program("GET", `${api}/plans`);
  await program("GET", `${api}/apps`);
  await program("DELETE", `${api}/accounts/${admin.id}/authenticators`, { generation: 0, reason });
  await query("delete from private.service_accounts where id = $1", [machine.id]);
  await deletePerson(admin);
  expect(faults).toEqual([]);
  const isAnswered = (id: string) => [...(answered.get(`platform.${id}`) ?? [])].some((status) => status < 300);
  expect(listAdminOperations().flatMap(({ id }) => (isAnswered(id) ? [] : [id]))).toEqual(outsideCalls);
});

/** Makes every call of the admin API once, and some that are refused. Deletes what it adds. */
async function callAdminApi(call: Call, { admin, tenant }: { admin: Person; tenant: AppTenant }): Promise<void> {
  const other = await createPerson();
  await readLists(call, { other, tenant });
  await changeAccounts(call, { other });
  await changeAccess(call, { other });
  await changeServiceAccounts(call);
  await changeWorkspace(call, { other });
  await changeCatalogue(call, { workspaceId: tenant.workspaceId });
  await changeApps(call, { workspaceId: tenant.workspaceId });
  await changeBooks(call, { admin });
  await call("PATCH", `${api}/outage-mails`, { outages: false });
  await call("POST", `${api}/accounts/${admin.id}/sign-out`, { reason });
  await deletePerson(other);
}

async function readLists(call: Call, { other, tenant }: { other: Person; tenant: AppTenant }): Promise<void> {
  const month = new Date().toISOString().slice(0, 7);
  const [run] = await query<{ id: string; request_id: string }>("select id, request_id from ai.runs limit 1", []);
  const email = encodeURIComponent(other.email);
  for (const path of [
    ...["overview", "people", "audit-log?limit=2", "audit-log?action=plan.&from=2026-01-01", "audit-log?from=never"],
    ...["accounts?limit=1", `accounts?q=${email}`, `accounts/${other.id}`, `accounts/${randomUUID()}`, "accounts/none"],
    ...[`accounts/${other.id}/timeline?limit=1`, "accounts/spending?limit=1", `accounts/${other.id}/required-mfa`],
    ...["address-blocks", "address-blocks?address=192.0.2.1", "address-blocks?address=none", `recovery?email=${email}`],
    ...["workspaces", "workspaces?q=a", `workspaces/${tenant.workspaceId}`, `workspaces/spending?month=${month}`],
    ...["key-requests?limit=1", `credit-accounts/workspace/${tenant.workspaceId}`, `credit-accounts/none/${other.id}`],
    ...[`runs?q=${run?.request_id}`, `runs/${run?.id}`, `runs/${randomUUID()}`],
    ...["plans", "plans/free", "plans/none", "models?limit=1", "models?q=demo", "models/demo-chat", "price-proposals"],
    ...["providers", "providers?from=2026-01-01&to=2026-01-31", "apps?limit=1", "openid-clients?limit=1"],
    ...["account-invitations?limit=1", "settings", "provider-settings", "service-accounts?limit=1"],
    ...["books/reconciliation", "books/costs?from=2026-01-01", "books/importers", "books/invoices?limit=1"],
    ...["books/statements?month=2026-01", "books/months/2003-02/close", `books/imports/${randomUUID()}`],
    ...["books/days/2026-01-20/hours/openai", "books/days/2026-01-20/generations", "models?cursor=none"],
  ]) {
    await call("GET", `${api}/${path}`);
  }
}

async function changeAccounts(call: Call, { other }: { other: Person }): Promise<void> {
  const account = `${api}/accounts/${other.id}`;
  await call("POST", `${account}/sign-out`, { reason });
  await call("POST", `${account}/sign-out`, {});
  await call("POST", `${account}/sign-out`, { reason, actor: other.id });
  for (const required of [true, false]) {
    const { generation } = await call<{ generation: number }>("GET", `${account}/required-mfa`);
    await call("PATCH", `${account}/required-mfa`, { required, generation, reason });
    await call("PATCH", `${account}/required-mfa`, { required, generation, reason });
  }
  const { generation } = await call<{ generation: number }>("GET", `${account}/required-mfa`);
  await call("DELETE", `${account}/authenticators`, { generation, reason });
  const [block] = await query<{ id: string }>(
    `insert into private.address_blocks (address, action, level, blocked_until)
      values (private.address_network('2001:db8:78::1'), 'password', 1, now() + interval '15 minutes') returning id`,
    [],
  );
  await call("DELETE", `${api}/address-blocks/${block?.id}`, { reason });
  await call("DELETE", `${api}/address-blocks/${block?.id}`, { reason });
  const override = { email: other.email, normalLogin: true, recoveryEmail: true, reason };
  await call("POST", `${api}/recovery/overrides`, override);
  await call("POST", `${api}/recovery/overrides`, override);
  const { overrides } = await call<{ overrides: { id: string }[] }>(
    "GET",
    `${api}/recovery?email=${encodeURIComponent(other.email)}`,
  );
  await call("POST", `${api}/recovery/overrides/${overrides[0]?.id}/send`, { reason });
  await call("DELETE", `${api}/recovery/overrides/${overrides[0]?.id}`, { reason });
}

async function changeAccess(call: Call, { other }: { other: Person }): Promise<void> {
  const account = `${api}/accounts/${other.id}`;
  await call("POST", `${account}/ban`, { days: 30, reason });
  await call("POST", `${account}/ban`, { reason });
  await call("DELETE", `${account}/ban`, { reason });
  await call("POST", `${account}/deletion`, { days: 31, reason });
  await call("POST", `${account}/deletion`, { reason });
  await call("DELETE", `${account}/ban`, { reason });
  await call("DELETE", `${account}/deletion`, { reason });
  const invited = { email: `${randomUUID()}@integration.gatehouse.test`, reason };
  await call("POST", `${api}/account-invitations`, invited);
  await call("POST", `${api}/account-invitations`, invited);
  const { invitations } = await call<{ invitations: { id: string; email: string }[] }>(
    "GET",
    `${api}/account-invitations`,
  );
  const invitation = `${api}/account-invitations/${invitations.find(({ email }) => email === invited.email)?.id}`;
  await call("DELETE", invitation, { reason });
  await call("DELETE", invitation, { reason });
  await call("PATCH", `${api}/settings`, { signUp: "open", seen: "open", reason });
}

async function changeServiceAccounts(call: Call): Promise<void> {
  const accounts = `${api}/service-accounts`;
  const expiresAt = new Date(Date.now() + 86_400_000).toISOString();
  const fields = { name: `Live ${randomUUID()}`, scopes: ["admin:catalogue:read"], expiresAt, reason };
  const { id } = await call<{ id: string }>("POST", accounts, fields);
  const account = `${accounts}/${id}`;
  try {
    await call("POST", accounts, fields);
    const read = () =>
      call<{ serviceAccount: { version: string; credentials: { id: string }[] } }>("GET", account).then(
        ({ serviceAccount }) => serviceAccount,
      );
    const { version } = await read();
    await call("PATCH", account, { version, allowedAddresses: ["192.0.2.0/24"], reason });
    await call("PATCH", account, { version, enabled: false, reason });
    await call("POST", `${account}/secrets`, { overlapSeconds: 60, reason });
    const publicJwk = generateKeyPairSync("ed25519").publicKey.export({ format: "jwk" });
    await call("POST", `${account}/keys`, { publicJwk, reason });
    await call("POST", `${account}/keys`, { publicJwk: { kty: "oct" }, reason });
    const [newest] = (await read()).credentials;
    await call("DELETE", `${account}/credentials/${newest?.id}`, { reason });
    await call("DELETE", account, { reason });
    await call("DELETE", account, { reason });
  } finally {
    await query("delete from private.service_accounts where id = $1", [id]);
  }
}

async function changeWorkspace(call: Call, { other }: { other: Person }): Promise<void> {
  const [own] = await query<{ id: string }>("select id from public.workspaces where personal_user_id = $1", [other.id]);
  const workspace = `${api}/workspaces/${own?.id}`;
  await query("insert into ai.key_approval_requests (workspace_id, requested_by) values ($1, $2)", [own?.id, other.id]);
  const { requests } = await call<{ requests: { id: string; createdAt: string }[] }>("GET", `${api}/key-requests`);
  const requestedAt = requests.find(({ id }) => id === own?.id)?.createdAt;
  await call("DELETE", `${api}/key-requests/${own?.id}`, { requestedAt, reason });
  await call("DELETE", `${api}/key-requests/${own?.id}`, { requestedAt, reason });
  await call("POST", `${workspace}/key-approval`, { reason });
  await call("DELETE", `${workspace}/key-approval`, { reason });
  const read = await call<{ workspace: { planId: string } }>("GET", workspace);
  await call("PATCH", workspace, { plan: "none", seen: read.workspace.planId, reason });
  await call("PATCH", workspace, { plan: "team", seen: read.workspace.planId, reason });
  for (const ids of ["", own?.id, "none"]) await call("GET", `${api}/platform?workspaces=${ids}`);
  for (const deniedModels of [["demo-chat"], ["no-such-model"]]) {
    await call("PATCH", `${workspace}/policy`, { seen: null, policy: { deniedModels }, reason });
  }
  const limit = { limitUsd: "50", maxCalls: null, timeZone: "UTC", thresholds: [80], reservesExpected: false };
  const ofWorkspace = { scope: "workspace", period: "month", reason };
  await call("PATCH", `${workspace}/budgets`, { ...ofWorkspace, seen: null, budget: limit });
  await call("PATCH", `${workspace}/budgets`, { ...ofWorkspace, seen: null, budget: limit });
  await call("PATCH", `${workspace}/budgets`, { ...ofWorkspace, seen: limit, budget: null });
  const credits = `${api}/credit-accounts/member/${other.id}`;
  const entry = { step: "grant", amount: "5", reference: randomUUID(), reason };
  await call("POST", `${credits}/entries`, entry);
  await call("POST", `${credits}/entries`, entry);
  await call("POST", `${credits}/entries`, { ...entry, amount: "6" });
  await call("GET", `${credits}?cursor=none`);
}

async function changeCatalogue(call: Call, { workspaceId }: { workspaceId: string }): Promise<void> {
  const id = `live-${randomUUID().slice(0, 8)}`;
  const plan = id.replace("-", "_");
  const model = `${api}/models/${id}`;
  const versionOf = async () => (await call<{ model: { version: string } }>("GET", model)).model.version;
  try {
    const fields = { name: "Live", payer: "member", markup: "1.2", initialCredits: "0", reason };
    await call("POST", `${api}/plans`, { id: plan, ...fields });
    await call("POST", `${api}/plans`, { id: plan, ...fields });
    const read = await call<{ plan: { version: string } }>("GET", `${api}/plans/${plan}`);
    await call("PATCH", `${api}/plans/${plan}`, { version: read.plan.version, markup: "1.25", reason });
    await call("PATCH", `${api}/plans/${plan}`, { version: read.plan.version, markup: "1.3", reason });

    const settings = { kind: "chat", displayName: "Live", ownedBy: "demo", reason };
    await call("POST", `${api}/models`, { id: `${id}-2`, ...settings });
    const spare = await call<{ model: { version: string } }>("GET", `${model}-2`);
    await call("DELETE", `${model}-2`, { version: spare.model.version, reason });
    await call("POST", `${api}/models`, { id, ...settings });
    await call("PATCH", model, { version: await versionOf(), outputLimit: 4096, reason });
    const route = { providerId: "live_provider", providerModel: "m", reason };
    await call("POST", `${model}/routes`, { version: await versionOf(), ...route });
    await call("POST", `${model}/routes`, { version: await versionOf(), ...route });
    await call("POST", `${model}/routes`, { version: await versionOf(), ...route, providerModel: "n" });
    await call("PATCH", `${model}/routes/2`, { version: await versionOf(), position: 1, reason });
    await call("DELETE", `${model}/routes/2`, { version: await versionOf(), reason });
    await call("DELETE", `${model}/routes/9`, { version: await versionOf(), reason });
    const price = { providerId: "live_provider", inputUsd: "1", outputUsd: "2", reason };
    await call("POST", `${model}/prices`, { ...price, latest: null, seen: 0 });
    await call("POST", `${model}/prices`, { ...price, latest: null, seen: 0 });
    const latest = async () =>
      (await call<{ model: { prices: { id: number }[] } }>("GET", model)).model.prices.map((each) => each.id);
    const [first = 0] = await latest();
    await call("POST", `${model}/prices`, { ...price, latest: first, seen: 1, from: "2999-01-01T00:00:00Z" });
    const scheduled = (await latest()).find((each) => each !== first);
    await call("DELETE", `${model}/prices/${scheduled}`, { previous: first, until: null, reason });
    const proposed = { model: id, providerId: "live_provider", latest: first, inputUsd: "3", outputUsd: "4" };
    await call("POST", `${api}/price-proposals`, { prices: [proposed], reason });
    for (const grantee of [{ plan }, { workspace: workspaceId }]) {
      await call("POST", `${model}/grants`, { ...grantee, reason });
      await call("POST", `${model}/grants`, { ...grantee, reason });
      await call("DELETE", `${model}/grants`, { ...grantee, reason });
    }
    await setUpModel(call, { model: `${model}-3`, plan });
    await call("POST", `${model}/enable`, { reason });
    await call("POST", `${model}/disable`, { reason });
    const { limits } = await call<{ limits: { provider: string; version: string }[] }>("GET", `${api}/providers`);
    const version = limits.find(({ provider }) => provider === "live_provider")?.version;
    const limit = { version, requestsPerMinute: 5, tokensPerMinute: null, reason };
    await call("PATCH", `${api}/providers/live_provider`, limit);
    await call("PATCH", `${api}/providers/live_provider`, limit);
  } finally {
    await query("delete from ai.provider_limits where provider_id = 'live_provider'", []);
    await query("delete from ai.model_prices where model_id = any ($1)", [[id, `${id}-3`]]);
    await query("delete from ai.models where id = any ($1)", [[id, `${id}-3`]]);
    await query("delete from ai.plans where id = $1", [plan]);
  }
}

async function setUpModel(call: Call, { model, plan }: { model: string; plan: string }): Promise<void> {
  const limits = { contextWindow: null, outputLimit: null, defaultOutputLimit: null };
  const settings = { displayName: "Live", ownedBy: "demo", ...limits, voices: [], studioDefault: true };
  const times = { firstByteSeconds: null, idleSeconds: null, totalSeconds: null };
  const route = { enabled: true, trustsStatedCost: false, tierMultipliers: {}, ...times };
  const setup = {
    ...{ version: null, kind: "chat", ...settings, isDefault: false, defaultOfKind: null },
    routes: [{ providerId: "live_provider", providerModel: "m", ...route }],
    prices: [{ providerId: "live_provider", latest: null, seen: 0, inputUsd: "1", outputUsd: "2" }],
    plans: [plan],
    enabled: false,
    reason,
  };
  await call("POST", `${model}/setup`, setup);
  await call("POST", `${model}/setup`, setup);
  const test = { model: "demo-chat", endpoint: "chat" };
  await call("POST", `${api}/provider-tests`, { provider: "demo", ...test });
  await call("POST", `${api}/provider-tests`, { provider: "live_provider", ...test });
}

async function changeApps(call: Call, { workspaceId }: { workspaceId: string }): Promise<void> {
  const name = `live-${randomUUID().slice(0, 8)}`;
  const [app, client] = [`${api}/apps/${name}`, `${api}/openid-clients/${name}-c`];
  const appVersion = async () => (await call<{ version: string }>("GET", app)).version;
  const clientVersion = async () => (await call<{ client: { version: string } }>("GET", client)).client.version;
  try {
    const fields = { kind: "external", displayName: "Live", scopes: ["workspace:session"], reason };
    await call("POST", `${api}/apps`, { name, ...fields });
    await call("POST", `${api}/apps`, { name, ...fields });
    await call("PATCH", app, { version: await appVersion(), displayName: "Live 2", reason });
    await call("PATCH", app, { version: randomUUID(), displayName: "Live 3", reason });
    await call("POST", `${app}/disable`, { version: await appVersion(), reason });
    await call("POST", `${app}/enable`, { version: await appVersion(), reason });
    await call("POST", `${app}/secrets`, { version: await appVersion(), overlapSeconds: 60, reason });
    await call("POST", `${app}/workspaces`, { version: await appVersion(), workspace: workspaceId, reason });
    await call("DELETE", `${app}/workspaces/${workspaceId}`, { version: await appVersion(), reason });
    const redirectUris = ["https://live.example.com/callback"];
    const openid = { displayName: "Charts", isPublic: false, scopes: ["profile"], redirectUris, reason };
    await call("POST", `${api}/openid-clients`, { name: `${name}-c`, ...openid });
    await call("POST", `${api}/openid-clients`, { name: `${name}-p`, ...openid, isPublic: true });
    await call("PATCH", client, { version: await clientVersion(), claimsInIdToken: true, reason });
    await call("POST", `${client}/disable`, { version: await clientVersion(), reason });
    await call("POST", `${client}/enable`, { version: await clientVersion(), reason });
    await call("POST", `${client}/secrets`, { version: await clientVersion(), overlapSeconds: 0, reason });
  } finally {
    await query("delete from private.apps where name = any ($1)", [[name, `${name}-c`, `${name}-p`]]);
  }
}

async function changeBooks(call: Call, { admin }: { admin: Person }): Promise<void> {
  const books = `${api}/books`;
  const file = {
    provider: "live",
    format: "google-billing-export",
    fileName: "bill.csv",
    sha256: randomBytes(32).toString("hex"),
  };
  const days = [{ accountId: randomUUID(), day: "2003-03-05", amounts: [{ currency: "USD", amount: "38.75" }] }];
  const [imported] = await query<{ id: string }>(
    "select ai.import_cost_file($1, ai.platform_book(), ai.platform_book(), $2, null, $3) ->> 'importId' as id",
    [admin.id, JSON.stringify({ ...file, timeZone: "UTC", rates: {}, days }), JSON.stringify({ reason })],
  );
  await call("GET", `${books}/imports/${imported?.id}`);
  await call("POST", `${books}/importers/openai/missed-days`, { lastDay: "2003-01-01" });
  await call("POST", `${books}/importers/openai/request`, {});
  const marked = { keyId: `live_${randomUUID()}`, marked: true };
  await call("PATCH", `${books}/gateway-keys/openai`, marked);
  await call("PATCH", `${books}/gateway-keys/openai`, { ...marked, marked: false });
  const reference = `LIVE-${randomUUID()}`;
  const dates = { issuedOn: "2003-03-01", reviewedAt: "2003-03-02T00:00:00Z" };
  const invoice = { provider: "live", reference, ...dates, amountUsd: 12.34 };
  await call("POST", `${books}/invoices`, { invoice, reason });
  await call("POST", `${books}/invoices`, { invoice: { ...invoice, amountUsd: 1 }, reason });
  const { records } = await call<{ records: { id: string }[] }>("GET", `${books}/invoices?provider=live`);
  await call("GET", `${books}/invoices/${records[0]?.id}`);
  await call("GET", `${books}/months/2003-03/providers/live`);
  const close = `${books}/months/2003-02/close`;
  const { state } = await call<{ state: string }>("GET", close);
  await call("POST", close, { state, reasons: [], reason });
  await call("POST", close, { state, reasons: [], reason });
  const { id } = await call<{ id: string }>("GET", close);
  const statement = `${books}/statements/${id}`;
  await call("GET", statement);
  await call("POST", `${statement}/reopen`, { reason });
  await call("POST", `${statement}/reopen`, { reason });
  await call("POST", `${books}/days/2026-01-20/hours/openai`, {});
  await call("POST", `${books}/days/2026-01-20/generations`, {});
}
