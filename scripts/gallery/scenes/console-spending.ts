import { type Scene, statesOf } from "../define-states.ts";
import type { World } from "../world.ts";

let filled: Promise<void> | undefined;

/** Adds runs of workspaces of different sizes, of a deleted workspace and without an account. */
async function fill({ query, people }: World): Promise<void> {
  const names = ["Harbour Analytics", "Meridian Translations with a name that is longer than its column", "Old Pier"];
  const workspaces = await query<{ id: string }>(
    `insert into public.workspaces (name, plan_id, created_by)
     select name, 'team', $2 from unnest($1::text[]) name returning id`,
    [names, people.user.id],
  );
  const ids = workspaces.map(({ id }) => id);
  await query("update public.workspaces set deleted_at = now() where id = $1", [ids[2]]);
  await query("select ai.grant_credits('workspace', $1, 250000, 'gallery')", [ids[0]]);
  await query(
    `insert into ai.runs (
       id, created_at, workspace_id, actor_id, credential_source, execution_mode, feature, request_id, model_id, routes, route,
       markup, status, usage_source, cost_usd, billed_credits, reserved_usd, reserved_credits, account_id, settled_at
     )
     select ai.run_id(now()), now(), w.id, (array[$2::uuid, $3::uuid, null])[1 + n % 3], 'key', 'interactive', 'chat',
       'gallery-spending', 'model', '[{"position": 1, "provider": "demo"}]', 1, 1,
       case when n % 17 = 0 then 'failed' else 'succeeded' end, 'provider', n * 0.012345678901 * w.size,
       n * 148.14814681 * w.size, 0, 0, gen_random_uuid(), now()
     from unnest($1::uuid[], array[40, 3, 0.01]) as w (id, size), generate_series(1, 90) n`,
    [ids, people.user.id, people.member.id],
  );
}

/** Returns an address after the runs were added, once for all states. */
const spent =
  (at: string) =>
  async ({ world }: Scene) => {
    filled ??= fill(world);
    await filled;
    return at;
  };

/** Who spends: the console's pages about workspaces' and accounts' costs. */
export const consoleSpendingStates = statesOf("Console", [
  ["Spending by workspace", "admin/spending", "admin", spent("/admin/spending")],
  ["Spending by account", "admin/spending", "admin", spent("/admin/spending?by=account")],
  ["Spending, sorted by balance", "admin/spending", "admin", spent("/admin/spending?sort=balance")],
  ["Spending, no runs", "admin/spending", "admin", "/admin/spending?month=2020-01"],
  ["Spending, of finance people", "admin/spending", "finance", spent("/admin/spending")],
]);
