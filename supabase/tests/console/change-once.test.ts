import { createHash, randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { type Database, test } from "../database.ts";
import { openPool } from "../pools.ts";
import { openLine, untilItWaits } from "../race-fixtures.ts";
import { createAdmin } from "./fixtures.ts";

type Answer = { refused?: string; repeated?: true } | null;

const callers = 50;
const hashOf = (body: string) => `\\x${createHash("sha256").update(body).digest("hex")}`;

/** Calls change_once as our server does, with a change that adds a plan. */
async function addPlan(
  db: Pick<Database, "query">,
  { plan, key, body = plan, name = "save_plan", ...caller }: Record<string, string | null | undefined>,
): Promise<Answer> {
  const fields = { plan, seen: null, name: "Plan", payer: "member", markup: "1", initialCredits: "0" };
  const serviceAccountScopes = ["admin:catalogue:write"];
  const request = {
    reason: "test",
    requestId: "request-1",
    ip: "192.0.2.1",
    idempotencyKey: key,
    serviceAccountScopes,
  };
  const change = { ...fields, ...request, requestHash: hashOf(body ?? ""), ...caller };
  const [row] = await db.query<{ answer: Answer }>("select private.change_once($1, $2) as answer", [
    name,
    JSON.stringify(change),
  ]);
  return row?.answer ?? null;
}

/** Deletes what concurrent callers committed. */
async function cleanUp(db: Database, { actor, plan }: { actor: string; plan: string }): Promise<void> {
  await db.query("delete from private.idempotency_keys where caller_id = $1", [actor]);
  await db.query("delete from ai.plans where id = $1", [plan]);
  await db.query("delete from auth.users where id = $1", [actor]);
}

const planOf = () => `p${randomUUID().replaceAll("-", "").slice(0, 20)}`;

async function count(db: Pick<Database, "query">, { plan }: { plan: string }) {
  const [row] = await db.query<{ lines: number }>(
    "select count(*)::integer as lines from private.admin_audit_log where target = $1",
    [`plan ${plan}`],
  );
  return row?.lines;
}

async function createServiceAccount(db: Database, scopes = ["admin:catalogue:write"]): Promise<string> {
  const [row] = await db.query<{ id: string }>(
    `insert into private.service_accounts (name, scopes, expires_at)
      values (gen_random_uuid()::text, $1, now() + interval '1 day') returning id`,
    [scopes],
  );
  return row?.id ?? "";
}

describe("a change with an idempotency key", () => {
  test("is made once when 50 callers repeat it concurrently, and all get its answer", async () => {
    const { db, close } = openPool(callers);
    const [plan, key] = [planOf(), randomUUID()];
    const { id: actor } = await createAdmin(db, { pooled: true });
    try {
      const answers = await Promise.all(Array.from({ length: callers }, () => addPlan(db, { plan, key, actor })));
      expect(answers.filter((answer) => answer?.repeated === undefined)).toEqual([{}]);
      expect(answers.filter((answer) => answer?.repeated)).toHaveLength(callers - 1);
      expect(await count(db, { plan })).toBe(1);
    } finally {
      await cleanUp(db, { actor, plan });
      await close();
    }
  });

  test("is made by one of 20 callers with keys of their own, and frees the others' keys", async () => {
    const { db, close } = openPool(callers);
    const [plan, keys] = [planOf(), Array.from({ length: 20 }, () => randomUUID())];
    const { id: actor } = await createAdmin(db, { pooled: true });
    try {
      // Each key has two callers.
      const answers = await Promise.all([...keys, ...keys].map((key) => addPlan(db, { plan, key, actor })));
      const refused = answers.filter((answer) => answer?.refused === "taken");
      expect([refused.length, answers.filter((answer) => !answer?.refused)]).toEqual([38, [{}, { repeated: true }]]);
      expect(await count(db, { plan })).toBe(1);
      const [stored] = await db.query<{ keys: number }>(
        "select count(*)::integer as keys from private.idempotency_keys where caller_id = $1",
        [actor],
      );
      expect(stored?.keys).toBe(1);
    } finally {
      await cleanUp(db, { actor, plan });
      await close();
    }
  });

  test.for([
    { end: "commit", expected: { repeated: true } },
    { end: "rollback", expected: {} },
  ])("waits for a slow first request, and is made if that is not: $end", async ({ end, expected }) => {
    const { db, close } = openPool(2);
    const [first, second] = [await openLine("service_role"), await openLine("service_role")];
    const [plan, key] = [planOf(), randomUUID()];
    const { id: actor } = await createAdmin(db, { pooled: true });
    try {
      await first.client.query("begin");
      expect(await addPlan(first.db, { plan, key, actor })).toEqual({});
      await second.db.query("set statement_timeout = '100ms'");
      await expect(addPlan(second.db, { plan, key, actor })).rejects.toMatchObject({ code: "57014" });
      await second.db.query("reset statement_timeout");
      const answer = addPlan(second.db, { plan, key, actor });
      await untilItWaits(db, { work: answer, blocker: first.pid });
      await first.client.query(end);
      expect(await answer).toEqual(expected);
      expect(await count(db, { plan })).toBe(1);
    } finally {
      await first.client.query("rollback");
      await Promise.all([first.client.end(), second.client.end()]);
      await cleanUp(db, { actor, plan });
      await close();
    }
  });

  test("refuses the key for another request, and leaves it free for another caller", async ({ db }) => {
    const [admin, serviceAccount, key] = [await createAdmin(db), await createServiceAccount(db), randomUUID()];
    const plan = planOf();
    const asServer = (change: Record<string, string>) => db.asRole("service_role", () => addPlan(db, change));
    expect(await asServer({ plan, key, actor: admin.id })).toEqual({});
    expect(await asServer({ plan, key, actor: admin.id })).toEqual({ repeated: true });
    expect(await asServer({ plan, key, actor: admin.id, body: "another" })).toEqual({ refused: "key_reused" });
    expect(await asServer({ plan: planOf(), key, serviceAccount, body: "another" })).toEqual({});
  });

  test("stores nothing if the change is refused, so that a corrected request can use the key", async ({ db }) => {
    const [admin, key, plan] = [await createAdmin(db), randomUUID(), planOf()];
    const other = { plan, key: randomUUID(), actor: admin.id };
    expect(await addPlan(db, other)).toEqual({});
    expect(await addPlan(db, { plan, key, actor: admin.id })).toEqual({ refused: "taken" });
    expect(await addPlan(db, { plan: planOf(), key, actor: admin.id, body: "corrected" })).toEqual({});
  });

  test("checks the caller's rights like the change without a key", async ({ db }) => {
    const [key, plan] = [randomUUID(), planOf()];
    const serviceAccount = await createServiceAccount(db, ["admin:catalogue:read"]);
    expect(await addPlan(db, { plan, key, serviceAccount })).toEqual({ refused: "forbidden" });
    expect(await addPlan(db, { plan, key, actor: randomUUID() })).toEqual({ refused: "forbidden" });
  });

  test.for([
    ["an admin without the role", "delete from private.infrastructure_admins where user_id = $1"],
    ["a disabled service account", "update private.service_accounts set enabled = false where id = $1"],
    ["an expired service account", "update private.service_accounts set expires_at = now() where id = $1"],
    ["a revoked service account", "update private.service_accounts set revoked_at = now() where id = $1"],
  ] as const)("refuses a repeated and a new request of %s", async ([who, sql], { db }) => {
    const isAdmin = who.startsWith("an admin");
    const id = isAdmin ? (await createAdmin(db)).id : await createServiceAccount(db);
    const [plan, key] = [planOf(), randomUUID()];
    const asServer = (change: Record<string, string>) =>
      db.asRole("service_role", () => addPlan(db, { ...change, [isAdmin ? "actor" : "serviceAccount"]: id }));
    expect(await asServer({ plan, key })).toEqual({});
    expect(await asServer({ plan, key })).toEqual({ repeated: true });
    await db.query(sql, [id]);
    expect(await asServer({ plan, key })).toEqual({ refused: "forbidden" });
    expect(await asServer({ plan: planOf(), key: randomUUID() })).toEqual({ refused: "forbidden" });
  });

  test("refuses a service account as actor, and an admin as service account", async ({ db }) => {
    const [admin, serviceAccount] = [await createAdmin(db), await createServiceAccount(db)];
    expect(await addPlan(db, { plan: planOf(), key: "k", actor: serviceAccount })).toEqual({ refused: "forbidden" });
    expect(await addPlan(db, { plan: planOf(), key: "k", serviceAccount: admin.id })).toEqual({ refused: "forbidden" });
  });

  test.for([
    ["without a key", { key: null }, "23502"],
    ["with an empty key", { key: "" }, "23514"],
    ["with a key of 256 characters", { key: "k".repeat(256) }, "23514"],
    ["without a hash", { requestHash: null }, "23502"],
    ["with a hash of 31 bytes", { requestHash: `\\x${"00".repeat(31)}` }, "23514"],
  ] as const)("changes nothing %s", async ([, fields, code], { db }) => {
    const admin = await createAdmin(db);
    const change = { plan: planOf(), key: "k", actor: admin.id, ...fields };
    await expect(addPlan(db, change)).rejects.toMatchObject({ code });
  });

  test("leaves neither the key nor the hash in the audit log", async ({ db }) => {
    const [admin, plan] = [await createAdmin(db), planOf()];
    expect(await addPlan(db, { plan, key: "the key", actor: admin.id })).toEqual({});
    const [line] = await db.query<{ text: string }>(
      "select l::text as text from private.admin_audit_log l where target = $1",
      [`plan ${plan}`],
    );
    expect(line?.text).not.toMatch(new RegExp(`the key|idempotencyKey|requestHash|${hashOf(plan).slice(2)}`));
  });

  test.for(["save_plan", "add_openid_client", "change_openid_client"])(
    "refuses %s without a caller or with two",
    async (name, { db }) => {
      const admin = await createAdmin(db);
      const [plan, serviceAccount] = [planOf(), await createServiceAccount(db, ["admin:apps:write"])];
      expect(await addPlan(db, { name, plan, key: "k" })).toEqual({ refused: "forbidden" });
      expect(await addPlan(db, { name, plan, key: "k", actor: admin.id, serviceAccount })).toEqual({
        refused: "forbidden",
      });
    },
  );

  test.for(["delete_account", "save_plan(null); select 1", "change_once", "change_required_mfa", ""])(
    "calls no function that is not listed: %s",
    async (name, { db }) => {
      const admin = await createAdmin(db);
      expect(await addPlan(db, { name, plan: planOf(), key: "k", actor: admin.id })).toBeNull();
    },
  );

  test("stores no secret and no hash of one", async ({ db }) => {
    const admin = await createAdmin(db);
    const secretHash = hashOf("the secret");
    const app = { name: `a${planOf().slice(0, 10)}`, displayName: "App", kind: "internal", origins: [], scopes: [] };
    const request = { reason: "test", requestId: "r", idempotencyKey: "k", requestHash: hashOf("body") };
    const change = { ...app, ...request, secretHash, actor: admin.id };
    await db.query("select private.change_once('add_app', $1)", [JSON.stringify(change)]);
    const [row] = await db.query<{ row: string }>(
      "select k::text as row from private.idempotency_keys k where caller_id = $1",
      [admin.id],
    );
    expect(row?.row).toContain("{}");
    expect(row?.row).not.toContain(secretHash.slice(2));
  });
});
