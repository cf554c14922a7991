import { join } from "../../supabase/tests/database.ts";
import type { AppTenant } from "../../supabase/tests/gateway/app-tenant.ts";
import { createApp } from "./apps.ts";
import type { ConsoleAdmin } from "./console-admin.ts";
import { askFromDevice, createDeviceClient, deleteDeviceClient } from "./device-requests.ts";
import { ask, createOpenidClient } from "./openid.ts";
import { type Person, query } from "./people.ts";
import { createHelper } from "./recovery-help.ts";
import { everyRoute } from "./routes.ts";
import { createServiceAccount } from "./service-accounts.ts";

/** Data for every route. */
export interface RouteFixture {
  /** The path at which each route shows some of the data. */
  paths: Readonly<Record<string, string>>;
  /** Deletes what would outlive the people and the tenant. */
  close(): Promise<void>;
}

interface Owners {
  tenant: AppTenant;
  /** Becomes an owner of the tenant's workspace. */
  person: ConsoleAdmin;
  /** Becomes a member of the tenant's workspace. */
  other: Person;
  /** The name of an app that is connected to the person's account. */
  connected: string;
}

/** Adds one of everything that pages show. */
export async function fillRoutes({ tenant, person, other, connected }: Owners): Promise<RouteFixture> {
  const { workspaceId, appId, keyId, db } = tenant;
  await join(db, { workspaceId, userId: person.id, role: "owner" });
  await join(db, { workspaceId, userId: other.id, role: "member" });
  const requestId = `calls-${crypto.randomUUID()}`;
  await tenant.client.chat.completions.create(
    { model: "demo-chat", messages: [{ role: "user", content: "Hello" }] },
    { headers: { "x-request-id": requestId } },
  );
  await tenant.accountOf(requestId);
  const one = async (sql: string, values: unknown[]) => (await query<{ id: string }>(sql, values))[0]?.id ?? "";
  const roleId = await one(
    "insert into public.workspace_roles (workspace_id, name, permissions) values ($1, 'Readers', '{use_ai_studio}') returning id",
    [workspaceId],
  );
  await query("select ai.set_budget('workspace', $1, $1, 50)", [workspaceId]);
  const invoiceOf = { provider: "openai", accountId: "a", reference: "INV-1", amountUsd: "1", issuedOn: "2026-02-01" };
  const invoiceId = await one("select ai.store_provider_invoice($1, $2, $3) ->> 'id' as id", [
    workspaceId,
    appId,
    JSON.stringify({
      ...invoiceOf,
      periodStart: "2026-01-01",
      periodEnd: "2026-01-31",
      reviewedAt: "2026-02-03T09:30:00Z",
    }),
  ]);
  await query(
    `insert into ai.invoice_documents (invoice_id, workspace_id, file_name, sha256, content)
     select $1, $2, 'bill.pdf', sha256(c.content), c.content from (select convert_to('%PDF-1.7', 'UTF8') as content) c`,
    [invoiceId, workspaceId],
  );
  const importOf = { provider: "gcp", format: "google-billing-export", fileName: "bill.csv", sha256: "0".repeat(64) };
  const days = [{ accountId: "prod", day: "2026-01-20", amounts: [{ currency: "EUR", amount: "38.75" }] }];
  const importId = await one("select ai.import_cost_file($1, $2, $3, $4, null) ->> 'importId' as id", [
    person.id,
    workspaceId,
    appId,
    JSON.stringify({ ...importOf, timeZone: "UTC", rates: { EUR: "1.08" }, days }),
  ]);
  // Statements can't be deleted. A reopened one closes no month.
  const statementId = await one(
    `insert into ai.book_statements (
       book_id, month, version, closed_by, figures, exceptions, records, sha256, reopened_by, reopened_at, reopen_reason
     )
     select ai.platform_book(), '2000-01-01', count(*) + 1, $1, '[]', '[]', '', sha256(''), $1, now(), 'test'
     from ai.book_statements s where s.month = '2000-01-01' returning id`,
    [person.id],
  );
  const credential = Buffer.from(crypto.randomUUID()).toString("hex");
  await query("select private.announce_addition($1, $2)", [person.id, credential]);
  const passkeyId = await one(
    `insert into auth.webauthn_credentials (user_id, credential_id, public_key, friendly_name)
     values ($1, decode($2, 'hex'), '', 'Laptop') returning id`,
    [person.id, credential],
  );
  const identityId = await one("select id from auth.identities where user_id = $1", [person.id]);
  const blockId = await one(
    `insert into private.address_blocks (address, action, level, blocked_until)
     values (private.address_network('2001:db8:77::1'), 'password', 1, now() + interval '15 minutes') returning id`,
    [],
  );
  const invitationId = await one(
    "insert into private.account_invitations (email, invited_by, reason) values ($1, $2, 'test') returning id",
    [`${crypto.randomUUID()}@integration.gatehouse.test`, person.id],
  );
  const helper = await createHelper();
  const overrideId = await helper.override(other.email);
  const app = await createApp({ kind: "external", scopes: ["workspace:session"], workspaceId });
  const [client, deviceClient] = await Promise.all([createOpenidClient(), createDeviceClient()]);
  const device = await askFromDevice(deviceClient);
  const email = new URLSearchParams({ email: other.email });
  const { path: authorization } = await ask(client);
  const [platformAccount, workspaceAccount] = await Promise.all([
    createServiceAccount({ scopes: ["admin:books"] }),
    createServiceAccount({ workspaceId, scopes: ["use_ai_studio"] }),
  ]);
  const ids: Record<string, string> = {
    workspaceId,
    accountId: workspaceAccount.id,
    roleId,
    runId: await one("select id from ai.runs where workspace_id = $1", [workspaceId]),
    keyId,
    importId,
    statementId,
    invoiceId,
    userId: other.id,
    serviceAccountId: platformAccount.id,
    modelId: "demo-chat",
    passkeyId,
    identityId,
    blockId,
    invitationId,
    overrideId,
    appName: connected,
    planId: "team",
    providerId: "demo",
    payer: "workspace",
    ownerId: workspaceId,
    envelopeId: await one("select ai.open_envelope($1, $2, '', $3, $4, $2, $4) ->> 'id' as id", [
      workspaceId,
      keyId,
      JSON.stringify({ usd: "5" }),
      person.id,
    ]),
    month: "2026-01",
    day: "2026-01-20",
    provider: "openai",
    name: app.name,
    area: "platform",
    tag: "workspaces",
    guide: "errors",
    userCode: device.userCode,
  };
  const named: Record<string, string> = {
    "admin/users/:userId/mfa/:step": `/admin/users/${other.id}/mfa/require`,
    "admin/users/:userId/:step": `/admin/users/${other.id}/sign-out`,
    "admin/recovery": `/admin/recovery?${email}`,
    "admin/recovery/new": `/admin/recovery/new?${email}`,
    "admin/recovery/:overrideId/:step": `/admin/recovery/${overrideId}/revoke?${email}`,
    "admin/apps/:name/:step": `/admin/apps/${app.name}/edit`,
    "admin/openid-clients/:name": `/admin/openid-clients/${client.id}`,
    "admin/openid-clients/:name/:step": `/admin/openid-clients/${client.id}/edit`,
    "workspaces/:workspaceId/service-accounts/:accountId/:step": `/workspaces/${workspaceId}/service-accounts/${workspaceAccount.id}/edit`,
    "admin/service-accounts/:accountId": `/admin/service-accounts/${platformAccount.id}`,
    "admin/service-accounts/:accountId/:step": `/admin/service-accounts/${platformAccount.id}/edit`,
    "admin/workspaces/:workspaceId/:step": `/admin/workspaces/${workspaceId}/withdraw`,
    "admin/credits/:payer/:ownerId/:step": `/admin/credits/workspace/${workspaceId}/grant`,
    "admin/models/edit": "/admin/models/edit?model=demo-chat",
    "admin/models/:step": "/admin/models/disable?model=demo-chat",
    "api/v1/admin/recovery": `/api/v1/admin/recovery?${email}`,
    "api/v1/admin/runs": "/api/v1/admin/runs?q=x",
    "api/v1/admin/openid-clients/:name": `/api/v1/admin/openid-clients/${client.id}`,
    // Files of few lines, which take one read.
    "admin/audit.csv": `/admin/audit.csv?target=${workspaceId}`,
    "admin/books.focus.csv": "/admin/books.focus.csv?month=2004-05",
    "api/v1/admin/books/statements": "/api/v1/admin/books/statements?month=2026-01",
    "mfa/remove": `/mfa/remove?factorId=${person.app.factorId}`,
    "oauth/authorize": authorization,
    "auth/confirm": `/auth/confirm?${new URLSearchParams({ token_hash: "0".repeat(56), type: "signup" })}`,
    "docs/decisions/:guide": "/docs/decisions/0027-pages-are-documents",
    device: `/device?user_code=${device.userCode}`,
  };
  const paths = Object.fromEntries(
    everyRoute.map(({ route, path }) => [
      route,
      named[route] ??
        (route.includes(":") ? `/${route.replaceAll(/:(\w+)/g, (_, name: string) => ids[name] ?? "x")}` : path),
    ]),
  );
  return {
    paths,
    async close() {
      await helper.leave();
      await deleteDeviceClient(deviceClient);
      await query("delete from private.address_blocks where id = $1", [blockId]);
      await query("delete from private.service_accounts where id = $1", [platformAccount.id]);
      await query("delete from private.account_invitations where id = $1", [invitationId]);
    },
  };
}
