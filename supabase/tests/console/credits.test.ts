import { describe, expect } from "vitest";
import { createUser, type Database, one, test } from "../database.ts";
import { begin, books, chatCall, createTenant, outcome, runRow, settle, type Tenant } from "../gateway/fixtures.ts";
import { openPool } from "../pools.ts";
import { createAdmin } from "./fixtures.ts";

type Answer = { refused?: string; repeated?: boolean; last?: { actorEmail: string } | null };
type Change = Record<string, unknown>;

async function ask(db: Database, name: "change_credits" | "save_plan" | "move_workspace", change: Change) {
  const stamped = { reason: "test", requestId: "request-1", ip: "192.0.2.1", ...change };
  return (await one<{ answer: Answer }>(db, { sql: `select private.${name}($1) as answer`, values: [stamped] })).answer;
}

const audit = (db: Database, target: string) =>
  db.query<{ action: string; before: object; after: object }>(
    "select action, before, after from private.admin_audit_log where target = $1 order by created_at, id",
    [target],
  );

type Account = { account: { balance: string; available: string } | null; entries: object[]; plan: object | null };
const accountOf = async (db: Database, payer: string, ownerId: string) =>
  (
    await db.asRole("service_role", () =>
      one<{ account: Account | null }>(db, {
        sql: "select private.read_credit_account($1, $2) as account",
        values: [payer, ownerId],
      }),
    )
  ).account;

const workspaceGrant = (actor: string, { workspaceId }: Tenant, more: Change = {}) => ({
  actor,
  payer: "workspace",
  ownerId: workspaceId,
  step: "grant",
  amount: "12.5",
  reference: "INV-1",
  description: null,
  ...more,
});

describe("credits in the console", () => {
  test("credits are granted only once per reference, with one audit record and the reference in the ledger", async ({
    db,
  }) => {
    const [{ id: actor }, tenant] = [await createAdmin(db), await createTenant(db, { credits: "1" })];
    const grant = workspaceGrant(actor, tenant, { description: "Invoice 1" });
    expect(await ask(db, "change_credits", grant)).toEqual({});
    expect(await ask(db, "change_credits", { ...grant, amount: "12.50000000" })).toEqual({ repeated: true });
    expect(await ask(db, "change_credits", { ...grant, amount: "12.51" })).toEqual({ refused: "reference_used" });
    expect(await ask(db, "change_credits", { ...grant, step: "withdraw" })).toEqual({ refused: "reference_used" });
    expect(await audit(db, `workspace ${tenant.workspaceId}`)).toEqual([
      {
        action: "credits.grant",
        before: { balance: "1" },
        after: { balance: "13.5", credits: "12.5", reference: "INV-1", description: "Invoice 1" },
      },
    ]);
    expect(await accountOf(db, "workspace", tenant.workspaceId)).toMatchObject({
      account: { balance: "13.5", reserved: "0", available: "13.5" },
      entries: [
        { kind: "grant", amount: "12.5", balanceAfter: "13.5", reference: "INV-1", description: "Invoice 1" },
        { amount: "1", reference: null },
      ],
    });
  });

  test("admins can withdraw only available credits, not reserved ones", async ({ db }) => {
    const [{ id: actor }, tenant] = [await createAdmin(db), await createTenant(db, { credits: "10" })];
    await db.query("update ai.credit_accounts set reserved = 4 where workspace_id = $1", [tenant.workspaceId]);
    const withdraw = workspaceGrant(actor, tenant, { step: "withdraw" });
    const more = { ...withdraw, amount: "6.00000001" };
    expect(await ask(db, "change_credits", more)).toEqual({ refused: "insufficient" });
    expect(await ask(db, "change_credits", { ...withdraw, amount: "6" })).toEqual({});
    expect(await books(db, tenant)).toMatchObject({ balance: "4.00000000", ledger: "4.00000000" });
    const unopened = await createTenant(db);
    const none = workspaceGrant(actor, unopened, { step: "withdraw" });
    expect(await ask(db, "change_credits", none)).toEqual({ refused: "insufficient" });
  });

  test.for(["workspace", "member"] as const)(
    "granting credits to a %s without a credit account also adds the plan's initial credits",
    async (payer, { db }) => {
      const [{ id: actor }, tenant] = [
        await createAdmin(db),
        await createTenant(db, { payer, initialCredits: "20000" }),
      ];
      const ownerId = payer === "workspace" ? tenant.workspaceId : tenant.ownerId;
      expect(await ask(db, "change_credits", workspaceGrant(actor, tenant, { payer, ownerId }))).toEqual({});
      const account = await accountOf(db, payer, ownerId);
      expect(account).toMatchObject({
        account: { balance: "20012.5" },
        plan: { id: tenant.planId, lowCredits: "2000" },
        entries: [{ amount: "12.5" }, { amount: "20000" }],
      });
    },
  );

  test.for(["0", "-1"])("the amount %s is refused for a change of credits", async (amount, { db }) => {
    const [{ id: actor }, tenant] = [await createAdmin(db), await createTenant(db)];
    for (const step of ["grant", "withdraw"]) {
      const change = workspaceGrant(actor, tenant, { step, amount });
      expect(await ask(db, "change_credits", change)).toEqual({ refused: "invalid" });
    }
  });

  test("only admins can change credits, never their own, and only if the workspace or person exists", async ({
    db,
  }) => {
    const [{ id: actor }, tenant] = [await createAdmin(db), await createTenant(db)];
    const other = (await createUser(db)).id;
    const change = workspaceGrant(actor, tenant);
    expect(await ask(db, "change_credits", { ...change, actor: other })).toEqual({ refused: "forbidden" });
    const personal = await one<{ id: string }>(db, {
      sql: "select id from public.workspaces where personal_user_id = $1",
      values: [actor],
    });
    const own = { ...change, ownerId: personal.id };
    expect(await ask(db, "change_credits", own)).toEqual({ refused: "oneself" });
    const ownBalance = { ...change, payer: "member", ownerId: actor };
    expect(await ask(db, "change_credits", ownBalance)).toEqual({ refused: "oneself" });
    const mixed = { ...change, payer: "member" };
    expect(await ask(db, "change_credits", mixed)).toEqual({ refused: "not_found" });
    await db.query("update public.workspaces set deleted_at = now() where id = $1", [tenant.workspaceId]);
    expect(await ask(db, "change_credits", change)).toEqual({ refused: "not_found" });
    expect(await accountOf(db, "workspace", tenant.workspaceId)).toBeNull();
  });

  test("20 concurrent admins grant credits once under the same reference, and 20 times under different references", async () => {
    const { db, close } = openPool(20);
    const actor = (await createUser(db)).id;
    try {
      await db.query("insert into private.infrastructure_admins (user_id, reason) values ($1, 'test')", [actor]);
      const [same, own] = [await createTenant(db), await createTenant(db)];
      const all = (tenant: Tenant, referenceOf: (caller: number) => string) =>
        Promise.all(
          Array.from({ length: 20 }, (_, caller) =>
            ask(db, "change_credits", workspaceGrant(actor, tenant, { reference: referenceOf(caller) })),
          ),
        );
      const answers = await all(same, () => "INV-1");
      expect(answers.filter(({ repeated }) => repeated)).toHaveLength(19);
      expect(answers.filter(({ refused }) => refused)).toEqual([]);
      expect(await all(own, (caller) => `INV-${caller}`)).toEqual(Array.from({ length: 20 }, () => ({})));
      expect(await books(db, same)).toMatchObject({ balance: "12.50000000", ledger: "12.50000000" });
      expect(await books(db, own)).toMatchObject({ balance: "250.00000000", ledger: "250.00000000" });
    } finally {
      await db.query("delete from private.infrastructure_admins where user_id = $1", [actor]);
      await close();
    }
  });
});

const values = {
  name: "Scale",
  payer: "workspace",
  markup: "1.25",
  initialCredits: "0.00000001",
  lowCredits: null,
  requestsPerMinute: 60,
  tokensPerMinute: null,
};

async function planOf(db: Database, id: string): Promise<Record<string, unknown> & { version: string }> {
  const { plans } = await db.asRole("service_role", () =>
    one<{ plans: { version: string }[] }>(db, { sql: "select private.list_plans($1) as plans", values: [id] }),
  );
  return plans[0] as never;
}

describe("credit plans in the console", () => {
  test("a plan can be added by an admin, and edited only by an admin who saw its newest version", async ({ db }) => {
    const { id: actor } = await createAdmin(db);
    const add = { actor, plan: "scale", seen: null, ...values };
    expect(await ask(db, "save_plan", add)).toEqual({});
    expect(await ask(db, "save_plan", add)).toEqual({ refused: "taken" });
    const { version, ...plan } = await planOf(db, "scale");
    expect(plan).toEqual({
      id: "scale",
      name: "Scale",
      payer: "workspace",
      markup: "1.25",
      initialCredits: "0.00000001",
      lowCredits: null,
      warnsBelow: "0.000000001",
      requestsPerMinute: 60,
      tokensPerMinute: null,
      workspaces: 0,
      models: 0,
      payerFixed: false,
    });
    const edit = { ...add, seen: version, payer: "member", lowCredits: "5", initialCredits: "0" };
    expect(await ask(db, "save_plan", edit)).toEqual({});
    expect(await ask(db, "save_plan", edit)).toMatchObject({ refused: "conflict" });
    expect(await planOf(db, "scale")).toMatchObject({ payer: "member", lowCredits: "5", warnsBelow: "5" });
    expect(await ask(db, "save_plan", { ...edit, plan: "unknown" })).toEqual({ refused: "not_found" });
    expect(await ask(db, "save_plan", { ...edit, actor: (await createUser(db)).id })).toEqual({ refused: "forbidden" });
    expect((await audit(db, "plan scale")).map(({ action }) => action).sort()).toEqual(["plan.add", "plan.edit"]);
  });

  test.for(["workspace", "member"] as const)(
    "a plan's payer can't be changed from %s once a credit account pays for the plan",
    async (payer, { db }) => {
      const [{ id: actor }, tenant] = [await createAdmin(db), await createTenant(db, { payer })];
      const edit = async (change: Change) =>
        ask(db, "save_plan", {
          actor,
          plan: tenant.planId,
          seen: (await planOf(db, tenant.planId)).version,
          ...values,
          ...change,
        });
      const other = payer === "member" ? "workspace" : "member";
      expect(await edit({ payer: other })).toEqual({});
      expect(await edit({ payer })).toEqual({});
      const ownerId = payer === "workspace" ? tenant.workspaceId : tenant.ownerId;
      await db.query("select ai.grant_credits($1, $2, 1, 'test')", [payer, ownerId]);
      expect(await edit({ payer: other })).toEqual({ refused: "payer_fixed" });
      expect(await edit({ payer, markup: "2" })).toEqual({});
    },
  );

  test("a run is charged at the markup that the plan had when the run began", async ({ db }) => {
    const [{ id: actor }, tenant] = [
      await createAdmin(db),
      await createTenant(db, { credits: "1000000", markup: "1" }),
    ];
    const run = await begin(db, chatCall(tenant));
    const seen = (await planOf(db, tenant.planId)).version;
    const edit = { actor, plan: tenant.planId, seen, ...values, requestsPerMinute: null, markup: "3" };
    expect(await ask(db, "save_plan", edit)).toEqual({});
    const later = await begin(db, chatCall(tenant));
    await settle(db, [outcome(run), outcome(later)]);
    const credits = async (begun: typeof run) => Number((await runRow(db, begun)).billed_credits);
    expect(await credits(later)).toBeCloseTo(3 * (await credits(run)), 8);
    expect(await credits(run)).toBeGreaterThan(0);
  });
});

describe("moving a workspace to another plan", () => {
  test("moving a workspace to another plan leaves balances with their owners", async ({ db }) => {
    const { id: actor } = await createAdmin(db);
    const tenant = await createTenant(db, { credits: "1000" });
    const free = await createTenant(db, { payer: "member" });
    const run = await begin(db, chatCall(tenant));
    const move = { actor, workspace: tenant.workspaceId, seen: tenant.planId, plan: free.planId };
    expect(await ask(db, "move_workspace", { ...move, plan: "unknown" })).toEqual({ refused: "no_plan" });
    expect(await ask(db, "move_workspace", { ...move, plan: tenant.planId })).toEqual({ refused: "no_plan" });
    expect(await ask(db, "move_workspace", { ...move, actor: tenant.ownerId })).toEqual({ refused: "forbidden" });
    expect(await ask(db, "move_workspace", move)).toEqual({});
    expect(await ask(db, "move_workspace", move)).toMatchObject({ refused: "conflict" });
    // A call in progress is charged to the account it began with.
    await settle(db, [outcome(run)]);
    const { balance, ledger } = await books(db, tenant);
    expect(balance).toBe(ledger);
    expect(Number(balance)).toBeLessThan(1000);
    expect(await audit(db, `workspace ${tenant.workspaceId}`)).toEqual([
      { action: "plan.move_workspace", before: { plan: tenant.planId }, after: { plan: free.planId } },
    ]);
    const { workspace } = await db.asRole("service_role", () =>
      one<{ workspace: object }>(db, {
        sql: "select private.read_console_workspace($1) as workspace",
        values: [tenant.workspaceId],
      }),
    );
    expect(workspace).toMatchObject({ planId: free.planId, plan: { payer: "member" }, liveKeys: 1, approvedBy: null });
    expect(await accountOf(db, "workspace", tenant.workspaceId)).toMatchObject({ plan: null });
  });

  test("an admin can't move their own personal workspace to another plan", async ({ db }) => {
    const [{ id: actor }, tenant] = [await createAdmin(db), await createTenant(db)];
    const personal = await one<{ id: string; plan_id: string }>(db, {
      sql: "select id, plan_id from public.workspaces where personal_user_id = $1",
      values: [actor],
    });
    const move = { actor, workspace: personal.id, seen: personal.plan_id, plan: tenant.planId };
    expect(await ask(db, "move_workspace", move)).toEqual({ refused: "oneself" });
  });
});
