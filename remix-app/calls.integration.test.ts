import { once } from "node:events";
import { afterAll, beforeAll, expect, test } from "vitest";
import { bearer, signInAgain } from "../scripts/test/apps.ts";
import { type ConsoleAdmin, createConsoleAdmin } from "../scripts/test/console-admin.ts";
import { appSettings, vaultSettings } from "../scripts/test/keep-session.ts";
import { createOpenidClient, signInAt } from "../scripts/test/openid.ts";
import { createPerson, deletePerson, enter, type Person, signedInLongAgo } from "../scripts/test/people.ts";
import { fillRoutes, type RouteFixture } from "../scripts/test/route-fixture.ts";
import { everyRoute } from "../scripts/test/routes.ts";
import { readStack } from "../scripts/test/stack.ts";
import { type AppTenant, createAppTenant } from "../supabase/tests/gateway/app-tenant.ts";
import { adminMethods, adminPatterns } from "./admin-api/table.ts";
import { openBrowser } from "./testing/browser.ts";
import type { TracedCall } from "./testing/trace-rounds.ts";
import { startWeb, type WebProcess } from "./testing/web-process.ts";

const { base, supabase } = readStack();
let web: WebProcess;
let visitors: Record<"admin" | "anonymous" | "owing" | "stale" | "phone" | "client", (path: string) => Promise<number>>;
let person: ConsoleAdmin;
let other: Person;
let tenant: AppTenant;
let fixture: RouteFixture;

beforeAll(async () => {
  const starting = startWeb(supabase.url, {
    nodeOptions: ["--import", new URL("./testing/trace-rounds.ts", import.meta.url).href],
    env: {
      SUPABASE_PUBLISHABLE_KEY: supabase.publishableKey,
      SUPABASE_SECRET_KEY: supabase.secretKey,
      ...vaultSettings(),
      ...appSettings(),
      // This server may also send the stack's pending logout notices, which must name the stack's issuer.
      BASE_URL: base,
    },
    told: true,
  });
  [web, person, other, tenant] = await Promise.all([starting, createConsoleAdmin(), createPerson(), createAppTenant()]);
  const client = await createOpenidClient();
  const [{ accessToken }, owing, stale, login] = await Promise.all([
    signInAgain(other),
    enter(person),
    signedInLongAgo(other, { secondsAgo: 3_600 }),
    signInAt(person.browser, client),
  ]);
  fixture = await fillRoutes({ tenant, person, other, connected: client.id });
  const visitWith = (cookie: string) => {
    const browser = openBrowser(web.base, { cookie });
    return async (path: string) => (await browser.get(path)).status;
  };
  const callWith = (token: string) => async (path: string) =>
    (await web.fetch(path, { headers: bearer(token) })).status;
  visitors = {
    admin: visitWith(person.browser.cookie()),
    anonymous: visitWith(""),
    owing: visitWith(owing.cookie()),
    stale: visitWith(stale.cookie()),
    phone: callWith(accessToken),
    client: callWith(login.tokens.access_token),
  };
  // Reads the identity backend's keys, which every process reads only now and then.
  await visitors.admin("/");
}, 60_000);
afterAll(async () => {
  await web.stop();
  await fixture.close();
  await tenant.close();
  await Promise.all([person, other].map(deletePerson));
});

/** Returns the server's calls since the last time. */
async function takeCalls(): Promise<TracedCall[]> {
  web.child.send("take");
  const [calls] = await once(web.child, "message");
  return calls as TracedCall[];
}

/** How many calls a route makes, and how many of them wait for each other. Both include the session's state. */
type Count = readonly [calls: number, inSequence: number];

/** The session's state, and two more. */
const maxInSequence = 3;

/** Every list of the admin API makes one call for what it returns, like a page of the console. */
const adminApi = Object.fromEntries(
  adminPatterns.flatMap((pattern): [string, Count][] =>
    adminMethods(pattern).includes("GET") ? [[pattern, [2, 2]]] : [],
  ),
);

const expected: Readonly<Record<string, Count>> = {
  ...adminApi,
  // Compares files from outside, which this server has none of.
  "api/v1/admin/price-proposals": [1, 1],
  // Asks the gateway.
  "api/v1/admin/provider-settings": [1, 1],
  "api/v1/admin/books/months/:month/providers/:provider": [3, 2],
  "": [2, 2],
  workspaces: [2, 2],
  "settings/profile": [2, 2],
  "settings/profile/email": [1, 1],
  "settings/security": [3, 2],
  "settings/security/delete-account": [2, 2],
  "settings/security/password": [2, 2],
  "settings/security/access": [2, 2],
  "settings/security/activity": [2, 2],
  "settings/security/apps": [2, 2],
  "settings/security/apps/:appName/disconnect": [2, 2],
  "settings/security/linked-accounts/:identityId": [2, 2],
  "workspaces/:workspaceId/members": [4, 2],
  "workspaces/:workspaceId/roles": [2, 2],
  "workspaces/:workspaceId/roles/:roleId": [3, 3],
  "workspaces/:workspaceId/service-accounts": [2, 2],
  "workspaces/:workspaceId/service-accounts/new": [1, 1],
  "workspaces/:workspaceId/service-accounts/:accountId": [2, 2],
  "workspaces/:workspaceId/service-accounts/:accountId/:step": [2, 2],
  "workspaces/:workspaceId/settings": [2, 2],
  "workspaces/:workspaceId/activity": [4, 3],
  "workspaces/:workspaceId": [2, 2],
  "workspaces/:workspaceId/ai": [2, 2],
  "workspaces/:workspaceId/ai/runs": [2, 2],
  "workspaces/:workspaceId/ai/runs/:runId": [2, 2],
  "workspaces/:workspaceId/ai/credits": [2, 2],
  "workspaces/:workspaceId/ai/credits/statement": [2, 2],
  "workspaces/:workspaceId/ai/policy": [2, 2],
  "workspaces/:workspaceId/ai/budgets": [2, 2],
  "workspaces/:workspaceId/ai/envelopes": [2, 2],
  "workspaces/:workspaceId/ai/envelopes/:envelopeId": [2, 2],
  "workspaces/:workspaceId/ai/keys": [2, 2],
  "workspaces/:workspaceId/ai/keys/new": [2, 2],
  "workspaces/:workspaceId/ai/keys/agents": [2, 2],
  "workspaces/:workspaceId/ai/keys/approval": [2, 2],
  "workspaces/:workspaceId/ai/keys/:keyId/edit": [3, 2],
  "workspaces/:workspaceId/ai/keys/:keyId/rotate": [2, 2],
  "workspaces/:workspaceId/ai/costs": [3, 2],
  "workspaces/:workspaceId/ai/costs/import": [2, 2],
  "workspaces/:workspaceId/ai/costs/imports/:importId": [2, 2],
  "workspaces/:workspaceId/ai/invoices": [2, 2],
  "workspaces/:workspaceId/ai/invoices/new": [2, 2],
  "workspaces/:workspaceId/ai/invoices/:invoiceId": [2, 2],
  "workspaces/:workspaceId/ai/reconciliation": [2, 2],
  "workspaces/:workspaceId/ai/models": [1, 1],
  "workspaces/:workspaceId/ai/playground": [2, 2],
  admin: [3, 2],
  "admin/accounts": [3, 2],
  "admin/users/:userId": [3, 2],
  "admin/users/:userId/mfa/:step": [3, 2],
  "admin/users/:userId/:step": [3, 2],
  "admin/invitations": [3, 2],
  "admin/invitations/new": [2, 2],
  "admin/invitations/:invitationId/revoke": [3, 2],
  "admin/settings": [3, 2],
  "admin/address-blocks": [3, 2],
  "admin/address-blocks/:blockId/lift": [3, 2],
  "admin/recovery": [3, 2],
  "admin/recovery/new": [2, 2],
  "admin/recovery/:overrideId/:step": [3, 2],
  "admin/apps": [3, 2],
  "admin/apps/new": [2, 2],
  "admin/apps/:name": [3, 2],
  "admin/apps/:name/:step": [3, 2],
  "admin/openid-clients/new": [2, 2],
  "admin/openid-clients/:name": [3, 2],
  "admin/openid-clients/:name/:step": [3, 2],
  "admin/service-accounts": [3, 2],
  "admin/service-accounts/new": [2, 2],
  "admin/service-accounts/:accountId": [3, 2],
  "admin/service-accounts/:accountId/:step": [3, 2],
  "admin/approvals": [3, 2],
  "admin/workspaces": [3, 2],
  "admin/workspaces/:workspaceId": [3, 2],
  "admin/workspaces/:workspaceId/plan": [4, 2],
  "admin/workspaces/:workspaceId/:step": [3, 2],
  "admin/plans": [3, 2],
  "admin/plans/new": [2, 2],
  "admin/plans/:planId": [3, 2],
  "admin/credits/:payer/:ownerId": [3, 2],
  "admin/credits/:payer/:ownerId/:step": [3, 2],
  "admin/models": [3, 2],
  "admin/models/new": [3, 2],
  "admin/models/edit": [3, 2],
  "admin/models/:step": [3, 2],
  "admin/prices": [2, 2],
  "admin/providers": [3, 2],
  "admin/providers/:providerId": [3, 2],
  "admin/runs/:runId": [3, 2],
  "admin/spending": [3, 2],
  "admin/books": [5, 2],
  "admin/books/automatic-imports": [1, 1],
  "admin/books/import": [2, 2],
  "admin/books/imports/:importId": [3, 2],
  "admin/books/costs": [3, 2],
  "admin/books/invoices": [3, 2],
  "admin/books/invoices/new": [2, 2],
  "admin/books/invoices/:invoiceId": [3, 2],
  "admin/books/close": [3, 2],
  "admin/books/statements/:statementId": [3, 2],
  "admin/books/:month/:provider": [4, 2],
  "admin/books/:month/:provider/:day": [3, 2],
  "admin/audit": [3, 2],
  login: [0, 0],
  "login/code": [0, 0],
  "add-account": [1, 1],
  "add-account/code": [1, 1],
  "add-account/new": [2, 2],
  accounts: [1, 1],
  continue: [1, 1],
  signup: [1, 1],
  "signup/check-mail": [1, 1],
  "forgot-password": [1, 1],
  "reset-password": [1, 1],
  "auth/confirm": [2, 2],
  "auth/recovery": [1, 1],
  "auth/oauth/:provider": [1, 1],
  "auth/callback": [1, 1],
  "oauth/authorize": [3, 3],
  "oauth/userinfo": [1, 1],
  "oauth/logout": [1, 1],
  "settings/profile/email-change": [1, 1],
  "settings/security/export": [1, 1],
  "settings/security/sessions": [1, 1],
  settings: [1, 1],
  ".well-known/change-password": [1, 1],
  "settings/security/passkeys/new": [2, 2],
  "settings/security/passkeys/:passkeyId/rename": [2, 2],
  "settings/security/passkeys/:passkeyId/delete": [2, 2],
  mfa: [3, 2],
  "mfa/app": [1, 1],
  "mfa/enroll": [1, 1],
  "mfa/recovery": [2, 2],
  "mfa/recovery-codes": [2, 2],
  "mfa/remove": [2, 2],
  "step-up": [2, 2],
  "step-up/code": [1, 1],
  qr: [1, 1],
  "qr/open": [1, 1],
  device: [3, 3],
  "workspaces/:workspaceId/ai/usage.csv": [2, 2],
  "workspaces/:workspaceId/ai/runs.csv": [2, 2],
  "workspaces/:workspaceId/ai/credits.csv": [2, 2],
  "workspaces/:workspaceId/ai/credits/statement.csv": [2, 2],
  "workspaces/:workspaceId/ai/credits/statement.json": [2, 2],
  "workspaces/:workspaceId/ai/budgets.csv": [2, 2],
  "workspaces/:workspaceId/ai/keys.csv": [2, 2],
  "workspaces/:workspaceId/ai/costs.csv": [2, 2],
  "workspaces/:workspaceId/ai/costs-by-provider.csv": [2, 2],
  "workspaces/:workspaceId/ai/invoices.csv": [2, 2],
  "workspaces/:workspaceId/ai/invoices/:invoiceId/document": [2, 2],
  "workspaces/:workspaceId/ai/reconciliation.csv": [2, 2],
  "workspaces/:workspaceId/ai/reconciliation.focus.csv": [3, 2],
  invitation: [1, 1],
  "admin/spending.csv": [2, 2],
  "admin/providers.csv": [2, 2],
  "admin/books.csv": [2, 2],
  "admin/books.focus.csv": [3, 2],
  "admin/books/costs.csv": [2, 2],
  "admin/books/invoices.csv": [2, 2],
  "admin/books/invoices/:invoiceId/document": [2, 2],
  "admin/books/statements/:statementId/statement.csv": [2, 2],
  "admin/books/statements/:statementId/statement.json": [2, 2],
  "admin/books/:month/:provider/workspaces.csv": [3, 2],
  "admin/books/:month/:provider/days.csv": [3, 2],
  "admin/books/:month/:provider/:day/hours.csv": [2, 2],
  "admin/audit.csv": [2, 2],
  "api/v1/auth/session": [1, 1],
  "api/v1/auth/qr-login/challenges/:id": [1, 1],
  "api/v1/auth/device-authorizations/:userCode": [3, 3],
  "api/v1/auth/mfa/mobile/challenges/:id": [1, 1],
  "api/v1/auth/mfa/mobile/approvals": [2, 2],
  "api/v1/auth/accounts": [1, 1],
  "api/v1/workspaces": [2, 2],
  "api/v1/workspaces/:workspaceId": [1, 1],
  "api/v1/users/me/sessions": [2, 2],
  "api/v1/users/me/security-events": [2, 2],
  "api/v1/workspaces/:workspaceId/ai/runs": [2, 2],
  "api/v1/workspaces/:workspaceId/ai/runs/:runId": [2, 2],
  "api/v1/workspaces/:workspaceId/ai/provider-costs": [2, 2],
  "api/v1/workspaces/:workspaceId/ai/provider-invoices": [2, 2],
  "api/v1/workspaces/:workspaceId/ai/reconciliation": [2, 2],
  "api/v1/workspaces/:workspaceId/ai/usage": [2, 2],
  "api/v1/workspaces/:workspaceId/ai/credits": [2, 2],
  "api/v1/workspaces/:workspaceId/ai/policy": [2, 2],
  "api/v1/workspaces/:workspaceId/ai/budgets": [2, 2],
  "api/v1/workspaces/:workspaceId/ai/envelopes": [2, 2],
  "api/v1/workspaces/:workspaceId/ai/envelopes/:envelopeId": [2, 2],
  "api/v1/workspaces/:workspaceId/ai/keys": [2, 2],
  "api/v1/workspaces/:workspaceId/ai/agents": [1, 1],
  "api/v1/users/me/additions": [1, 1],
  "api/v1/users/me/identities": [2, 2],
  docs: [1, 1],
  "docs/:guide": [1, 1],
  "docs/decisions/:guide": [1, 1],
  "docs/api": [1, 1],
  "docs/api/platform.json": [0, 0],
  "docs/api/gateway.json": [0, 0],
  "docs/api/:area/:tag": [2, 2],
  ".well-known/passkey-endpoints": [1, 1],
  ".well-known/openid-configuration": [0, 0],
  ".well-known/oauth-authorization-server": [0, 0],
  ".well-known/jwks.json": [0, 0],
};

/** The visitors of the routes that the signed-in admin of the workspace does not open. */
const visitorOf: Readonly<Record<string, keyof typeof visitors>> = {
  ...Object.fromEntries(["login", "login/code", "signup"].map((route) => [route, "anonymous"])),
  ...Object.fromEntries(["mfa", "mfa/app", "mfa/recovery"].map((route) => [route, "owing"])),
  ...Object.fromEntries(["step-up", "step-up/code"].map((route) => [route, "stale"])),
  "oauth/userinfo": "client",
  "auth/confirm": "anonymous",
  "api/v1/auth/device-authorizations/:userCode": "phone",
  "api/v1/auth/mfa/mobile/approvals": "phone",
};

test("each page and endpoint makes the listed number of calls, of which at most two wait for the session's", async () => {
  const counts: Record<string, Count> = {};
  const differing: string[] = [];
  for (const { route, path } of everyRoute) {
    const { headers } = await web.fetch(path, { method: "OPTIONS" });
    if (!headers.get("allow")?.includes("GET")) continue;
    await takeCalls();
    const status = await visitors[visitorOf[route] ?? "admin"](fixture.paths[route] ?? path);
    expect(status, route).toBeLessThan(500);
    const calls = await takeCalls();
    const inSequence = Math.max(0, ...calls.map(({ round }) => round));
    counts[route] = [calls.length, inSequence];
    if (String(counts[route]) === String(expected[route])) continue;
    differing.push(`${route} (${status}): ${calls.map(({ name, round }) => `${round} ${name}`).join(", ")}`);
  }
  expect(differing).toEqual([]);
  expect(counts).toEqual(expected);
  expect(Object.entries(counts).filter(([, [, inSequence]]) => inSequence > maxInSequence)).toEqual([]);
}, 120_000);
