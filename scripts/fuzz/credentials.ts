import { basicAuthorization } from "../../remix-app/http/authorization.ts";
import { join } from "../../supabase/tests/database.ts";
import { createAppTenant } from "../../supabase/tests/gateway/app-tenant.ts";
import { createGatewayTenant } from "../../supabase/tests/gateway/tenant.ts";
import { asApp, createApp, handOver, mint, paths, signInAgain, signOut } from "../test/apps.ts";
import { createConsoleAdmin } from "../test/console-admin.ts";
import { createPerson, deletePerson, query, signIn } from "../test/people.ts";
import { createServiceAccount, tokenOfServiceAccount } from "../test/service-accounts.ts";
import { readStack } from "../test/stack.ts";

/** A way to authenticate generated requests. */
export interface Credential {
  name: string;
  /** Whether the credential is valid. */
  good: boolean;
  /** @param ending true for a request that ends sessions. Such a request uses a separate account. */
  headers(ending: boolean): Record<string, string>;
}

/** The participants of a campaign and the ids to request. */
export interface Cast {
  credentials: readonly Credential[];
  /**
   * Ids to put in paths. `read` has ids of objects that are only read, `changed` of objects that may be changed or
   * deleted.
   */
  ids: { read: Record<string, string>; changed: Record<string, string> };
  /** Texts that must never appear in a response unless the request contained them. */
  secrets: readonly string[];
  /** Signs in again to the accounts whose sessions were ended by a request. */
  renew(): Promise<void>;
  close(): Promise<void>;
}

/** Creates accounts, workspaces, apps and credentials of every kind on the stack. */
export async function castOf(): Promise<Cast> {
  const [read, changed] = [await createAppTenant(), await createGatewayTenant()];
  const [person, doomed, admin] = [await createPerson(), await createPerson(), await createConsoleAdmin()];
  for (const { db, workspaceId } of [read, changed]) await join(db, { workspaceId, userId: person.id, role: "owner" });
  const scopes = ["profile", "workspaces:read", "workspaces:write", "studio:read"];
  const app = await createApp({ scopes });
  const partnerScopes = ["workspace:session", "ai:use", "tts:use"];
  const partner = await createApp({ kind: "external", scopes: partnerScopes, workspaceId: read.workspaceId });
  const lasting = { ...person, ...(await signInAgain(person)) };
  const ended = await signInAgain(doomed);
  const { centralSession } = await handOver(lasting, app);
  const exchange = { token: await mint(lasting, partner), workspaceId: read.workspaceId };
  const { accessToken: appToken } = (await asApp(partner, paths.exchange, exchange)).body as { accessToken: string };
  const machineScopes = ["use_ai_studio", "manage_ai_keys", "manage_ai_policy"];
  const machine = await createServiceAccount({ workspaceId: read.workspaceId, scopes: machineScopes });
  let machineToken = await tokenOfServiceAccount(machine);
  await signOut(ended);
  let browser = await signIn(person);
  const [leaving, leavingBearer] = [await signIn(doomed), (await signInAgain(doomed)).accessToken];
  let bearer = lasting.accessToken;
  const inWorkspace = { "x-platform-workspace-id": read.workspaceId };
  const bearerOf = (token: string) => ({ authorization: `Bearer ${token}`, ...inWorkspace });
  const good = (name: string, headers: Credential["headers"]) => ({ name, good: true, headers });
  const bad = (name: string, headers: Record<string, string>) => ({ name, good: false, headers: () => headers });
  const { supabase, providerKey } = readStack();
  const [run] = await query<{ id: string }>("select id from ai.runs order by created_at desc limit 1", []);

  return {
    credentials: [
      bad("none", {}),
      bad("ended", bearerOf(ended.accessToken)),
      bad("garbled", { authorization: `Bearer ${bearer.slice(0, -6)}AAAAAA`, ...inWorkspace }),
      bad("malformed", { authorization: "Basic \u00ff:::", ...inWorkspace }),
      bad("garbled key", bearerOf(`${read.key.slice(0, -1)}${read.key.endsWith("0") ? "1" : "0"}`)),
      bad("garbled cookie", { cookie: browser.cookie().replaceAll(/[A-M]/g, "z") }),
      good("cookie", (ending) => ({ cookie: (ending ? leaving : browser).cookie() })),
      good("admin", (ending) => ({ cookie: (ending ? leaving : admin.browser).cookie() })),
      good("bearer", (ending) => bearerOf(ending ? leavingBearer : bearer)),
      good("app session", () => bearerOf(centralSession.token)),
      good("app", () => ({ authorization: basicAuthorization(app) })),
      good("workspace key", () => ({ ...bearerOf(changed.key), "x-platform-workspace-id": changed.workspaceId })),
      good("app key", () => bearerOf(read.key)),
      good("app token", () => bearerOf(appToken)),
      good("service account", () => bearerOf(machineToken)),
    ],
    ids: {
      read: { workspaceId: read.workspaceId, keyId: read.keyId, runId: run?.id ?? person.id, userId: doomed.id },
      changed: { workspaceId: changed.workspaceId, keyId: crypto.randomUUID(), runId: person.id, userId: doomed.id },
    },
    secrets: [
      supabase.secretKey,
      supabase.dbUrl,
      providerKey,
      app.secret,
      partner.secret,
      read.key,
      changed.key,
      appToken,
      centralSession.token,
      ended.accessToken,
      machine.secret,
      machineToken,
      bearer,
      person.password,
      doomed.password,
    ],
    async renew() {
      if ((await browser.get("/api/v1/auth/session")).status !== 200) browser = await signIn(person);
      const { base } = readStack();
      const known = await fetch(`${base}/api/v1/auth/session`, { headers: { authorization: `Bearer ${bearer}` } });
      await known.arrayBuffer();
      if (known.status !== 200) bearer = (await signInAgain(person)).accessToken;
      // A token lasts 15 minutes.
      machineToken = await tokenOfServiceAccount(machine);
    },
    async close() {
      // An admin's requests may have closed it.
      await query("update private.platform_settings set sign_up = 'open'", []);
      for (const one of [person, doomed, admin]) await deletePerson(one);
      await Promise.all([read.close(), changed.close()]);
    },
  };
}
