import pg from "pg";
import { createAiKey } from "../../supabase/functions/_shared/ai-key.ts";
import { createApp, type TestApp } from "../test/apps.ts";
import { createPerson, type Person } from "../test/people.ts";
import { readStack, type Stack } from "../test/stack.ts";
import { type Part, partOf } from "./faults/spans.ts";

/** The credits granted to each workspace, more than any soak uses. */
export const grantedCredits = "1000000";

/** The budgets of the payer's key for each day and in total, which no soak uses up. */
const keyBudgetUsd = "1000";

/** A workspace that calls the gateway, and its owner. */
export interface Tenant {
  name: string;
  workspaceId: string;
  owner: Person;
  key: string;
  keyId: string;
  /** The app that the workspace's key is bound to. Calls of an app cost no credits. */
  app: TestApp | null;
}

/** All accounts, workspaces and apps that make traffic. */
export interface World {
  stack: Stack;
  /** The workspace whose calls cost credits. */
  payer: Tenant;
  /** The workspace whose key is bound to a registered app. It also imports the provider's costs of that app. */
  partner: Tenant;
  /** For each browser, the people who share it. */
  households: Person[][];
  /** Users of satellites. */
  visitors: Person[];
  phoneOwners: Person[];
  /** For each browser that alternates between two web servers, the two people who share it. */
  commuters: [Person, Person][];
  /** A satellite's registration, for calls by its server. */
  satellite: TestApp;
}

/** Creates the accounts, workspaces and apps that make traffic. Runs before the first fault. */
export async function createWorld({
  browsers,
  people,
  visitors,
  phones,
  commuters = 0,
}: {
  browsers: number;
  people: number;
  visitors: number;
  phones: number;
  commuters?: number;
}): Promise<World> {
  const stack = readStack();
  const client = new pg.Client({ connectionString: stack.supabase.dbUrl });
  await client.connect();
  try {
    const payer = await createTenant(client, "payer");
    const partner = await createTenant(client, "partner");
    const households: Person[][] = [];
    for (let n = 0; n < browsers; n += 1) households.push(await createPeople(people));
    const pairs = Array.from({ length: commuters }, () => Promise.all([createPerson(), createPerson()]));
    return {
      stack,
      payer,
      partner,
      households,
      visitors: await createPeople(visitors),
      phoneOwners: await createPeople(phones),
      commuters: await Promise.all(pairs),
      satellite: await createApp({ scopes: ["profile"] }),
    };
  } finally {
    await client.end();
  }
}

/** Returns the URL of each process of a part, bypassing the balancer. */
export function serversOf({ services }: Stack, part: Part): string[] {
  return services.filter(({ name }) => partOf(name) === part).map(({ port }) => `http://127.0.0.1:${port}`);
}

function createPeople(count: number): Promise<Person[]> {
  return Promise.all(Array.from({ length: count }, () => createPerson()));
}

async function createTenant(client: pg.Client, name: "payer" | "partner"): Promise<Tenant> {
  const owner = await createPerson();
  const { rows } = await client.query<{ id: string }>(
    "insert into public.workspaces (name, plan_id, created_by) values ($2, 'team', $1) returning id",
    [owner.id, `Soak: ${name}`],
  );
  const workspaceId = rows[0]?.id ?? "";
  await client.query("insert into ai.key_approvals (workspace_id) values ($1)", [workspaceId]);
  await client.query("select ai.grant_credits('workspace', $1, $2, 'soak')", [workspaceId, grantedCredits]);
  const { text: key, lookup, hash } = await createAiKey();
  const made = await client.query<{ id: string }>("select ai.create_key($1, $2, 'soak', $3, $4) as id", [
    workspaceId,
    owner.id,
    lookup,
    Buffer.from(hash),
  ]);
  const keyId = made.rows[0]?.id ?? "";
  const app =
    name === "partner"
      ? await createApp({ kind: "external", scopes: ["workspace:session", "ai:use"], workspaceId })
      : null;
  if (app) await client.query("update ai.keys set external_app_id = $2 where id = $1", [keyId, app.id]);
  return { name, workspaceId, owner, key, keyId, app };
}

/** Gives the payer's key a budget of the day and one in total, which its calls do not reach. */
export async function limitPayer({ stack, payer }: World): Promise<void> {
  const client = new pg.Client({ connectionString: stack.supabase.dbUrl });
  await client.connect();
  try {
    await client.query(
      `insert into ai.budgets (scope, subject_id, workspace_id, period, time_zone, limit_usd, starts_at, ends_at)
       select 'key', $1, $2, p.period, 'Europe/Berlin', $3, w.starts_at, w.ends_at
       from unnest('{day,total}'::text[]) as p (period)
       cross join lateral ai.budget_window(p.period, 'Europe/Berlin', now()) as w`,
      [payer.keyId, payer.workspaceId, keyBudgetUsd],
    );
  } finally {
    await client.end();
  }
}
