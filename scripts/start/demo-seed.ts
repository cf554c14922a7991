import { withDatabase } from "@gatehousehq/local-stack/database";
import { StackError } from "@gatehousehq/local-stack/errors";
import { createClient } from "@supabase/supabase-js";
import type pg from "pg";
import { createAiKey, hashAiCredential } from "#shared/ai-key.ts";
import { demoExternalApp, ensureDemoApp, ensureDemoExternalApp } from "./demo-apps.ts";
import { ensureAuthenticator } from "./demo-authenticator.ts";
import type { StackDescription } from "./description.ts";
import { demoAppSecret, type KeptKey, type Secrets, saveSecrets } from "./secrets.ts";

export type DemoData = Pick<StackDescription, "users" | "workspaceId" | "aiKey" | "appKey" | "externalApp">;

const people = [
  { role: "user", email: "demo@gatehouse.test", name: "Demo User" },
  { role: "admin", email: "admin@gatehouse.test", name: "Demo Admin" },
  { role: "finance", email: "finance@gatehouse.test", name: "Demo Finance" },
] as const;
const workspaceName = "Demo workspace";
const workspaceCredits = 1_000_000;

type Context = { dataDir: string; supabaseUrl: string; satelliteUrl: string; dbUrl: string; secrets: Secrets };

/**
 * Creates the demo data, unless it exists: three accounts through the identity backend's admin API, a shared workspace
 * with credits, authenticators for the admin and the finance person, a key for the AI gateway, the satellite's
 * registration, and an external app with a key that is bound to it. The keys' texts are kept with the stack's secrets.
 */
export async function seedDemo(context: Context): Promise<DemoData> {
  const { dataDir, secrets } = context;
  return withDatabase(context.dbUrl, async (client) => {
    const user = await ensureUser(client, context, people[0]);
    const admin = await ensureUser(client, context, people[1]);
    const finance = await ensureUser(client, context, people[2]);
    const adminTotp = await ensureAuthenticator(client, { userId: admin, kept: secrets.adminTotp });
    const financeTotp = await ensureAuthenticator(client, { userId: finance, kept: secrets.financeTotp });
    const totps = { user: undefined, admin: adminTotp, finance: financeTotp };
    await client.query("begin");
    await client.query(
      "insert into private.finance_people (user_id, reason) values ($1, 'Demo data') on conflict do nothing",
      [finance],
    );
    const workspaceId = await ensureWorkspace(client, { user, admin });
    await ensureDemoApp(client, { origin: context.satelliteUrl, secrets });
    const appId = await ensureDemoExternalApp(client, { workspaceId, secrets });
    const owner = { workspaceId, user };
    const aiKey = await ensureKey(client, { ...owner, name: "Demo key", kept: secrets.aiKey });
    const appKey = await ensureKey(client, { ...owner, name: "Demo app's key", kept: secrets.appKey, appId });
    saveSecrets(dataDir, { ...secrets, adminTotp, financeTotp, aiKey, appKey });
    await client.query("commit");
    const { name } = demoExternalApp;
    return {
      users: people.map(({ role, email }) => ({
        role,
        email,
        password: secrets.demoPassword,
        ...(totps[role] ? { totpSecret: totps[role].secret } : {}),
      })),
      workspaceId,
      aiKey: aiKey?.text ?? "",
      appKey: appKey?.text ?? "",
      externalApp: { name, secret: demoAppSecret(secrets, name) },
    };
  });
}

async function ensureUser(client: pg.Client, context: Context, person: (typeof people)[number]): Promise<string> {
  const known = await client.query<{ id: string }>("select id from auth.users where email = $1", [person.email]);
  if (known.rows[0]) return known.rows[0].id;
  const supabase = createClient(context.supabaseUrl, context.secrets.secretKey, {
    auth: { persistSession: false, autoRefreshToken: false },
  });
  const { data, error } = await supabase.auth.admin.createUser({
    email: person.email,
    password: context.secrets.demoPassword,
    email_confirm: true,
    user_metadata: { display_name: person.name },
  });
  if (error) throw new StackError(`The demo user ${person.email} could not be made: ${error.message}`);
  return data.user.id;
}

async function ensureWorkspace(client: pg.Client, { user, admin }: { user: string; admin: string }): Promise<string> {
  await client.query(
    `insert into private.infrastructure_admins (user_id, reason) values ($1, 'Demo data') on conflict do nothing`,
    [admin],
  );
  const known = await client.query<{ id: string }>(
    `select id from public.workspaces
     where created_by = $1 and name = $2 and personal_user_id is null and deleted_at is null`,
    [user, workspaceName],
  );
  if (known.rows[0]) return known.rows[0].id;
  const made = await client.query<{ id: string }>(
    "insert into public.workspaces (name, plan_id, created_by) values ($1, 'team', $2) returning id",
    [workspaceName, user],
  );
  const id = made.rows[0]?.id ?? "";
  await client.query(
    `insert into public.workspace_members (workspace_id, user_id, role_id)
     select r.workspace_id, $2, r.id from public.workspace_roles r where r.workspace_id = $1 and r.name = 'member'`,
    [id, admin],
  );
  await client.query("insert into ai.key_approvals (workspace_id, approved_by) values ($1, $2)", [id, admin]);
  await client.query("select ai.grant_credits('workspace', $1, $2, 'Demo credits', 'demo')", [id, workspaceCredits]);
  return id;
}

type DemoKey = { workspaceId: string; user: string; name: string; kept: KeptKey | undefined; appId?: string };

/** @returns undefined if the workspace is no longer approved for keys */
async function ensureKey(
  client: pg.Client,
  { workspaceId, user, name, kept, appId }: DemoKey,
): Promise<KeptKey | undefined> {
  const known = await client.query<{ usable: boolean }>(
    "select revoked_at is null and workspace_id = $1 as usable from ai.keys where lookup = $2",
    [workspaceId, kept?.lookup],
  );
  if (kept && known.rows[0]?.usable) return kept;
  const approval = await client.query("select from ai.key_approvals where workspace_id = $1", [workspaceId]);
  if (approval.rowCount === 0) return undefined;
  // Reuses the saved key on a cluster that lacks it, such as one for another identity backend, so that people's copies
  // of the key keep working.
  const { text, lookup } = kept && known.rowCount === 0 ? kept : await createAiKey();
  const hash = Buffer.from(await hashAiCredential(text));
  const made = await client.query<{ id: string }>("select ai.create_key($1, $2, $3, $4, $5) as id", [
    workspaceId,
    user,
    name,
    lookup,
    hash,
  ]);
  if (appId) await client.query("update ai.keys set external_app_id = $2 where id = $1", [made.rows[0]?.id, appId]);
  return { text, lookup };
}
