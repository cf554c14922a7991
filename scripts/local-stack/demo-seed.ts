import { createClient } from "@supabase/supabase-js";
import pg from "pg";
import type { StackDescription } from "./description.ts";
import { StackError } from "./errors.ts";
import { type Secrets, saveSecrets } from "./secrets.ts";

export type DemoData = Pick<StackDescription, "users" | "workspaceId" | "aiKey">;

const people = [
  { role: "user", email: "demo@gatehouse.test", name: "Demo User" },
  { role: "admin", email: "admin@gatehouse.test", name: "Demo Admin" },
] as const;
const workspaceName = "Demo workspace";
const workspaceCredits = 1_000_000;

type Context = { dataDir: string; supabaseUrl: string; dbUrl: string; secrets: Secrets };

/**
 * Makes what a first visitor needs, unless it is there: two people through the identity backend's admin API, a
 * shared workspace with credits, and a key for the AI gateway, whose text is kept with the stack's secrets.
 */
export async function seedDemo(context: Context): Promise<DemoData> {
  const client = new pg.Client({ connectionString: context.dbUrl, application_name: "gatehouse-demo-seed" });
  await client.connect();
  try {
    const ids = new Map<string, string>();
    for (const person of people) ids.set(person.role, await ensureUser(client, context, person));
    await client.query("begin");
    const user = ids.get("user") ?? "";
    const admin = ids.get("admin") ?? "";
    const workspaceId = await ensureWorkspace(client, { user, admin });
    await client.query("commit");
    const aiKey = await ensureKey(client, context, { workspaceId, user }).catch(() => "");
    return {
      users: people.map(({ role, email }) => ({ role, email, password: context.secrets.demoPassword })),
      workspaceId,
      aiKey,
    };
  } finally {
    await client.end();
  }
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
    "select id from public.workspaces where created_by = $1 and name = $2 and personal_user_id is null",
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
  await client.query("select ai.grant_credits('workspace', $1, $2, 'Demo credits')", [id, workspaceCredits]);
  return id;
}

async function ensureKey(
  client: pg.Client,
  { dataDir, secrets }: Context,
  { workspaceId, user }: { workspaceId: string; user: string },
): Promise<string> {
  const known = await client.query<{ lookup: string }>(
    "select lookup from ai.keys where workspace_id = $1 and revoked_at is null",
    [workspaceId],
  );
  const kept = secrets.aiKey;
  if (kept && known.rows.some(({ lookup }) => kept.includes(lookup))) return kept;
  const shared: string = "#shared/ai-key.ts";
  const { createAiKey } = await import(shared);
  const { text, lookup, hash } = await createAiKey();
  await client.query("select ai.create_key($1, $2, 'Demo key', $3, $4)", [
    workspaceId,
    user,
    lookup,
    Buffer.from(hash),
  ]);
  saveSecrets(dataDir, { ...secrets, aiKey: text });
  return text;
}
