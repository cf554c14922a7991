import { describe, expect } from "vitest";
import { failureOf } from "../actors.ts";
import { type Database, one, test } from "../database.ts";
import { openPool } from "../pools.ts";
import { begin, books, chatCall, createTenant, outcome, settle, type Tenant } from "./fixtures.ts";

const callers = 20;

async function grant(db: Database, tenant: Tenant, [amount, reference]: [string, string | null]): Promise<string> {
  const { balance } = await one<{ balance: string }>(db, {
    sql: "select ai.grant_credits('workspace', $1, $2, 'test', $3)::text as balance",
    values: [tenant.workspaceId, amount, reference],
  });
  return balance;
}

const entriesOf = (db: Database, { workspaceId }: Tenant) =>
  db.query<{ amount: string; balance_after: string }>(
    `select trim_scale(l.amount)::text as amount, trim_scale(l.balance_after)::text as balance_after
     from ai.credit_accounts a join ai.credit_ledger l on l.account_id = a.id where a.workspace_id = $1 order by l.id`,
    [workspaceId],
  );

describe("a grant with a reference", () => {
  test("a grant with a reference is made only once, even if it is retried", async ({ db }) => {
    const tenant = await createTenant(db);
    expect(await grant(db, tenant, ["10.00000001", "INV-1"])).toBe("10.00000001");
    expect(await grant(db, tenant, ["10.000000010", "INV-1"])).toBe("10.00000001");
    expect(await entriesOf(db, tenant)).toEqual([{ amount: "10.00000001", balance_after: "10.00000001" }]);
  });

  test.for(["10.00000002", "9.99999999", "-10.00000001", "0"])(
    "refuses a grant of %s credits under the reference of an earlier grant",
    async (amount, { db }) => {
      const tenant = await createTenant(db);
      await grant(db, tenant, ["10.00000001", "INV-1"]);
      const failure = await failureOf(() => grant(db, tenant, [amount, "INV-1"]));
      expect(failure).toMatchObject({ code: "23505" });
      expect(failure.message).toContain("10.00000001");
    },
  );

  test("the same reference may be used for another account, and references that differ in case are distinct", async ({
    db,
  }) => {
    const [first, second] = [await createTenant(db), await createTenant(db)];
    await grant(db, first, ["1", "INV-1"]);
    await grant(db, second, ["2", "INV-1"]);
    await grant(db, first, ["4", "inv-1"]);
    expect((await books(db, first)).balance).toBe("5.00000000");
    expect((await books(db, second)).balance).toBe("2.00000000");
  });

  test("references that differ only in spacing or Unicode composition are the same", async ({ db }) => {
    const tenant = await createTenant(db);
    for (const reference of ["Café 1", " Cafe\u0301 1", "Café\u00a01", "Café\u2009 1 ", "Café\t1"]) {
      expect(await grant(db, tenant, ["10", reference]), JSON.stringify(reference)).toBe("10.00000000");
    }
    expect(await grant(db, tenant, ["1", "Cafe 1"])).toBe("11.00000000");
    const kept = await db.query(
      `select r.reference from ai.credit_references r join ai.credit_accounts a on a.id = r.account_id
       where a.workspace_id = $1 order by r.entry_id`,
      [tenant.workspaceId],
    );
    expect(kept).toEqual([{ reference: "Café 1" }, { reference: "Cafe 1" }]);
    expect(await failureOf(() => grant(db, tenant, ["1", "\u00a0 "]))).toMatchObject({ code: "23514" });
  });

  test("a credit reference can't be reused after its grant is withdrawn, and can't be changed or deleted", async ({
    db,
  }) => {
    const tenant = await createTenant(db);
    await grant(db, tenant, ["5", "INV-1"]);
    await grant(db, tenant, ["-5", "INV-1 back"]);
    expect(await grant(db, tenant, ["5", "INV-1"])).toBe("0.00000000");
    for (const sql of ["update ai.credit_references set amount = 1", "delete from ai.credit_references"]) {
      await db.query("savepoint before_change");
      expect(await failureOf(() => db.query(sql))).toMatchObject({ code: "23001" });
      await db.query("rollback to savepoint before_change");
    }
  });
});

describe("a grant without a reference", () => {
  test("repeating a call without a reference grants the credits again, for compatibility with release 0.1.0", async ({
    db,
  }) => {
    const tenant = await createTenant(db);
    await grant(db, tenant, ["3", null]);
    await db.query("select ai.grant_credits('workspace', $1, 4, 'test')", [tenant.workspaceId]);
    expect((await books(db, tenant)).balance).toBe("7.00000000");
  });
});

describe("the amount of a grant", () => {
  test.for(["0.000000001", "-0.000000005", "NaN", null])("refuses a grant of %s credits", async (amount, { db }) => {
    const tenant = await createTenant(db, { credits: "10" });
    const failure = await failureOf(() => grant(db, tenant, [amount as string, "INV-1"]));
    expect(failure).toMatchObject({ code: "23514" });
  });
});

describe("a withdrawal", () => {
  test("a withdrawal can take all available credits, but not a hundred-millionth of a credit more", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100", prices: { input: "1", output: "1" } });
    const run = await begin(db, chatCall(tenant));
    const { available } = await one<{ available: string }>(db, {
      sql: "select (balance - reserved)::text as available from ai.credit_accounts where workspace_id = $1",
      values: [tenant.workspaceId],
    });
    expect(Number(available)).toBeLessThan(100);
    await db.query("savepoint too_much");
    const { more } = await one<{ more: string }>(db, {
      sql: "select (-$1::numeric - 0.00000001)::text as more",
      values: [available],
    });
    expect(await failureOf(() => grant(db, tenant, [more, "OUT-1"]))).toMatchObject({ code: "23514" });
    await db.query("rollback to savepoint too_much");
    await grant(db, tenant, [`-${available}`, "OUT-1"]);
    // The withdrawal did not take the credits reserved for the call, so the call's run can still be settled.
    await settle(db, [outcome(run)]);
    const { balance, ledger, reserved } = await books(db, tenant);
    expect([balance, reserved]).toEqual([ledger, "0.00000000"]);
    expect(Number(balance)).toBeGreaterThanOrEqual(0);
  });
});

describe(`${callers} concurrent callers that grant or withdraw credits`, () => {
  test.for([
    ["with different references grant the exact sum", (caller: number) => `ref-${caller}`, callers],
    ["with the same reference grant only once", () => "ref", 1],
  ] as const)("concurrent callers %s", async ([, referenceOf, grants]) => {
    const { db, close } = openPool(callers);
    try {
      const tenant = await createTenant(db);
      // Opens the account and all connections first, so that the callers overlap.
      await db.query("select ai.open_credit_account('workspace', $1, 0)", [tenant.workspaceId]);
      await Promise.all(Array.from({ length: callers }, () => db.query("select pg_sleep(0.2)")));
      await Promise.all(
        Array.from({ length: callers }, (_, caller) => grant(db, tenant, ["0.10000001", referenceOf(caller)])),
      );
      const { balance, ledger } = await books(db, tenant);
      const sum = grants === 1 ? "0.10000001" : "2.00000020";
      expect([balance, ledger]).toEqual([sum, sum]);
      const entries = await entriesOf(db, tenant);
      expect(entries).toHaveLength(grants);
      expect(new Set(entries.map((entry) => entry.balance_after)).size).toBe(grants);
    } finally {
      await close();
    }
  });

  test("concurrent callers can't withdraw more than is available", async () => {
    const { db, close } = openPool(callers);
    try {
      const tenant = await createTenant(db, { credits: "5.5" });
      const answers = await Promise.allSettled(
        Array.from({ length: callers }, (_, caller) => grant(db, tenant, ["-1", `out-${caller}`])),
      );
      expect(answers.filter(({ status }) => status === "fulfilled")).toHaveLength(5);
      expect(await books(db, tenant)).toMatchObject({ balance: "0.50000000", ledger: "0.50000000" });
    } finally {
      await close();
    }
  });
});
