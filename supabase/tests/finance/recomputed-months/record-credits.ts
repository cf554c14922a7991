import { createPerson, enter, type SignedInBrowser } from "../../../../scripts/test/people.ts";
import { join } from "../../database.ts";
import { keptPool } from "../../pools.ts";
import { text } from "./decimals.ts";
import type { Ledger, Payer } from "./plant-credits.ts";

/** A workspace with planted credits, as Ann sees it. */
export interface RecordedCredits {
  workspaceId: string;
  ann: { id: string; browser: SignedInBrowser };
  bob: { id: string };
  close: () => Promise<void>;
}

const timeText = (at: number) => new Date(at).toISOString();

/** Books planted credits on the stack as settlement and grants do. Then the workspace has its last plan. */
export async function recordCredits(
  { runs, entries }: Ledger,
  { plans }: { plans: readonly [string, string] },
): Promise<RecordedCredits> {
  const { db, close } = keptPool();
  const [ann, bob] = await Promise.all([createPerson(), createPerson()]);
  const createWorkspace = async (plan: string) => {
    const sql = "insert into public.workspaces (name, plan_id, created_by) values ('Credits', $1, $2) returning id";
    return (await db.query<{ id: string }>(sql, [plan, ann.id]))[0]?.id ?? "";
  };
  const workspaceId = await createWorkspace(plans[0]);
  const otherId = await createWorkspace("free");
  await join(db, { workspaceId, userId: bob.id, role: "member" });
  const owners: Record<Payer, [string, string]> = {
    workspace: ["workspace", workspaceId],
    ann: ["member", ann.id],
    bob: ["member", bob.id],
  };
  const accounts = new Map<Payer, string>();
  for (const payer of ["workspace", "ann", "bob"] as const) {
    const [row] = await db.query<{ id: string }>("select ai.open_credit_account($1, $2, 0) as id", owners[payer]);
    accounts.set(payer, row?.id ?? "");
  }
  for (const run of runs) {
    const isBilled = run.unmetered === 0n;
    await db.query(
      `insert into ai.runs (
         id, created_at, workspace_id, actor_id, credential_source, execution_mode, feature, request_id, model_id, routes,
         route, markup, status, usage_source, billed_credits, unmetered_credits, account_id, reserved_usd, reserved_credits,
         settled_at
       )
       values ($1::uuid, $2, $3, $4, 'session', 'interactive', 'chat', $1::uuid::text, $5, '[{"position": 1, "provider": "demo"}]',
         1, 1, 'succeeded', 'provider', $6, $7, $8, 0, 0, now())`,
      [
        ...[run.id, timeText(run.at), run.isElsewhere ? otherId : workspaceId, run.member === "ann" ? ann.id : bob.id],
        ...[run.model, text(run.billed), text(run.unmetered), isBilled ? accounts.get(run.payer) : null],
      ],
    );
  }
  for (const { payer, kind, amount, at, run, description } of entries) {
    await db.query(
      `with changed as (update ai.credit_accounts set balance = balance + $2 where id = $1 returning balance)
       insert into ai.credit_ledger (account_id, kind, amount, balance_after, run_created_at, run_id, description, created_at)
       select $1, $3, $2, balance, $4, $5, $6, $7 from changed`,
      [accounts.get(payer), text(amount), kind, run && timeText(run.at), run?.id ?? null, description, timeText(at)],
    );
  }
  await db.query("update public.workspaces set plan_id = $2 where id = $1", [workspaceId, plans[1]]);
  return {
    workspaceId,
    ann: { id: ann.id, browser: await enter(ann) },
    bob,
    close,
  };
}
