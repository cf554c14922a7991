import { Client } from "pg";
import { describe, expect } from "vitest";
import { readStack } from "../../../scripts/test/stack.ts";
import { createActor, workspaceRoles } from "../actors.ts";
import { type Database, one, test } from "../database.ts";
import { addKey, begin, chatCall, createTenant, outcome, settle, type Tenant } from "../gateway/fixtures.ts";
import { openPool } from "../pools.ts";

type Details = {
  id: string;
  version: string;
  state: string;
  waiting: boolean;
  limitUsd: string;
  endsAt: string;
  openedAt: string;
  [member: string]: unknown;
};
type Answer = { outcome: string; envelope: Details; envelopes: Details[]; history: object[]; costVisible: boolean };
type Asker = Pick<Tenant, "ownerId" | "workspaceId">;

const ask = async (db: Database, { sql, values }: { sql: string; values: unknown[] }) =>
  (await one<{ answer: Answer }>(db, { sql: `select ${sql} as answer`, values })).answer;
const asService = (db: Database, call: { sql: string; values: unknown[] }) =>
  db.asRole("service_role", () => ask(db, call));

const read = (db: Database, { ownerId, workspaceId }: Asker, id: string) =>
  asService(db, { sql: "ai.read_envelope($1, $2, $3)", values: [ownerId, workspaceId, id] });

const list = (db: Database, { ownerId, workspaceId }: Asker, options: { states?: string; waiting?: boolean } = {}) =>
  asService(db, {
    sql: "ai.list_envelopes($1, $2, $3, null, 50, $4)",
    values: [ownerId, workspaceId, options.states ?? "{open,ended,expired}", options.waiting ?? null],
  });

type Opening = { keyId?: string | null; label?: string; limits?: object };
const open = (db: Database, { ownerId, workspaceId }: Asker, { keyId = null, label = "", limits = {} }: Opening = {}) =>
  asService(db, {
    sql: "ai.open_envelope_for_member($1, $2, $3, $4, $5)",
    values: [ownerId, workspaceId, keyId, label, JSON.stringify({ limitUsd: "5", ...limits })],
  });

type Change = { changes: object; version?: string | null; isFresh?: boolean };
const changeCall = ({ ownerId, workspaceId }: Asker, { id, version }: Details, change: Change) => ({
  sql: "ai.change_envelope($1, $2, $3, $4, $5, $6)",
  values: [
    ownerId,
    workspaceId,
    id,
    JSON.stringify(change.changes),
    change.version === undefined ? version : change.version,
    change.isFresh ?? true,
  ],
});
const change = (db: Database, asker: Asker, [envelope, changes]: [Details, Change]) =>
  asService(db, changeCall(asker, envelope, changes));

/** Opens an envelope by a call with the header, which stays in progress. */
async function openByCall(db: Database, tenant: Tenant, envelope: object = { usd: "5" }) {
  const run = await begin(db, chatCall(tenant, { envelope }));
  expect(run.refused).toBeUndefined();
  const { envelopes } = await list(db, tenant);
  return { run, envelope: envelopes[0] as Details };
}

const setBudget = (db: Database, { id }: Pick<Details, "id">, set: string) =>
  db.query(`update ai.budgets set ${set} where scope = 'envelope' and subject_id = $1`, [id]);

/** Adds a member whose role has one permission. */
async function addMember(db: Database, { workspaceId }: Asker, permission: string): Promise<Asker> {
  const { sub: ownerId } = await createActor(db, {});
  await db.query(
    `with made as (
       insert into public.workspace_roles (workspace_id, name, permissions)
       values ($1, $2::text, array[$2::text]::public.workspace_permission[]) returning id
     )
     insert into public.workspace_members (workspace_id, user_id, role_id) select $1, $3, id from made`,
    [workspaceId, permission, ownerId],
  );
  return { ownerId, workspaceId };
}

const actions = async (db: Database, { workspaceId }: Asker) =>
  db.query(
    "select actor_id, action, subject, details from public.workspace_audit_log where workspace_id = $1 and action like 'envelope.%' order by id",
    [workspaceId],
  );

describe("a workspace's envelopes", () => {
  test("lists an envelope that a call opened, with what is spent, reserved and left of it", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000" });
    const { run, envelope } = await openByCall(db, tenant, { usd: "5", calls: 2, ttl_seconds: 3600 });
    expect(envelope).toMatchObject({
      state: "open",
      waiting: false,
      principal: { kind: "key", id: tenant.keyId, name: "test" },
      keyId: tenant.keyId,
      label: "",
      holdsAll: false,
      openedBy: null,
      limitUsd: "5",
      spentUsd: "0",
      calls: 2,
      usedCalls: 1,
      remainingCalls: 1,
      endedAt: null,
      lastRefusedAt: null,
    });
    expect(Number(envelope.reservedUsd)).toBeGreaterThan(0);
    await settle(db, [outcome(run)]);
    const settled = await read(db, tenant, envelope.id);
    expect(settled.envelope).toMatchObject({ spentUsd: "0.00000615", reservedUsd: "0", remainingUsd: "4.99999385" });
    expect(settled.history).toEqual([]);
  });

  test.for(["manage_ai_policy", "manage_ai_keys", "use_ai_studio", "manage_members"])(
    "a member with only %s sees and changes all envelopes, their own, or none",
    async (permission, { db }) => {
      const tenant = await createTenant(db);
      const member = await addMember(db, tenant, permission);
      const others = (await open(db, tenant, { keyId: tenant.keyId })).envelope;
      const key = await addKey(db, member);
      const own = await open(db, tenant, { keyId: key.id, label: "own" });
      const seen = await list(db, member);
      const canManage = permission.startsWith("manage_ai");
      const expected = canManage ? ["all", "own"] : permission === "use_ai_studio" ? ["own"] : [];
      expect(seen.outcome).toBe(expected.length === 0 ? "not_allowed" : "read");
      expect((seen.envelopes ?? []).map(({ label }) => label || "all").sort()).toEqual(expected);
      const refused = expected.length === 0 ? "not_allowed" : "not_found";
      expect((await read(db, member, others.id)).outcome).toBe(canManage ? "read" : refused);
      const raise = { changes: { limitUsd: "6" } };
      expect((await change(db, member, [others, raise])).outcome).toBe(canManage ? "changed" : refused);
      expect((await change(db, member, [own.envelope, raise])).outcome).toBe(
        expected.length === 0 ? "not_allowed" : "changed",
      );
      expect((await open(db, member, { keyId: tenant.keyId, label: "new" })).outcome).toBe(
        canManage ? "opened" : refused,
      );
      // A person's own calls need the studio.
      expect((await open(db, member)).outcome).toBe(permission === "use_ai_studio" ? "opened" : "not_allowed");
    },
  );

  test("built-in roles without use_ai_studio, and outsiders, see no envelope", async ({ db }) => {
    const tenant = await createTenant(db);
    for (const { role, permissions } of workspaceRoles) {
      const { sub: ownerId } = await createActor(db, { workspaceId: tenant.workspaceId, role });
      const { outcome } = await list(db, { ownerId, workspaceId: tenant.workspaceId });
      expect(outcome, role).toBe(permissions.length > 0 ? "read" : "not_allowed");
    }
  });

  test("an envelope of another workspace is not found", async ({ db }) => {
    const [tenant, stranger] = [await createTenant(db), await createTenant(db)];
    const { envelope } = await open(db, stranger, { keyId: stranger.keyId });
    expect((await read(db, tenant, envelope.id)).outcome).toBe("not_found");
    expect((await change(db, tenant, [envelope, { changes: { ended: true } }])).outcome).toBe("not_found");
    expect((await open(db, tenant, { keyId: stranger.keyId })).outcome).toBe("not_found");
  });

  test("hides what was spent, but not the limit, if the workspace hides provider cost", async ({ db }) => {
    const tenant = await createTenant(db);
    const { envelope } = await open(db, tenant);
    await db.query("insert into ai.workspace_policies (workspace_id, provider_cost_visible) values ($1, false)", [
      tenant.workspaceId,
    ]);
    const shown = await read(db, tenant, envelope.id);
    expect(shown.costVisible).toBe(false);
    expect(shown.envelope).toMatchObject({ limitUsd: "5", spentUsd: null, reservedUsd: null, remainingUsd: null });
  });

  test("an envelope waits for a decision from a refused call until its limit is raised", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000" });
    const { envelope } = await openByCall(db, tenant, { usd: "0.0001" });
    const refused = await begin(db, chatCall(tenant, { envelope: { usd: "0.0001" }, output_limit: 100_000 }));
    expect(refused.refused).toBe("envelope_exhausted");
    expect((await list(db, tenant, { waiting: true })).envelopes).toMatchObject([{ id: envelope.id, waiting: true }]);
    expect((await list(db, tenant, { waiting: false })).envelopes).toEqual([]);
    const raised = await change(db, tenant, [envelope, { changes: { limitUsd: "1" } }]);
    expect(raised.envelope).toMatchObject({ limitUsd: "1", waiting: false, lastRefusedAt: null });
    const again = await begin(db, chatCall(tenant, { envelope: { usd: "0.0001" }, output_limit: 100_000 }));
    expect(again.refused).toBeUndefined();
  });

  test("pages through envelopes without gaps or repeats, even if some have the same time", async ({ db }) => {
    const tenant = await createTenant(db);
    const ids: string[] = [];
    for (let n = 0; n < 5; n++) {
      const { envelope } = await open(db, tenant, { label: `task-${n}` });
      await db.query("update ai.envelopes set opened_at = now() - $2 * interval '1 second' where id = $1", [
        envelope.id,
        Math.min(n, 3),
      ]);
      ids.push(envelope.id);
    }
    const seen: Details[] = [];
    for (let pages = 0; pages < 3; pages++) {
      const last = seen.at(-1);
      const position = last ? JSON.stringify({ createdAt: last.openedAt, id: last.id }) : null;
      const { envelopes } = await asService(db, {
        sql: "ai.list_envelopes($1, $2, '{open}', $3, 2)",
        values: [tenant.ownerId, tenant.workspaceId, position],
      });
      seen.push(...envelopes);
    }
    expect(seen.map(({ id }) => id)).toEqual([...ids.slice(0, 3), ...ids.slice(3).sort()]);
  });
});

describe("changing an envelope", () => {
  const raises = [
    ["a higher limit", { limitUsd: "5.000000000001" }],
    ["more calls", { calls: 11 }],
    ["no limit of calls", { calls: null }],
    ["a later end", { endsAt: "in 2 days" }],
    ["a lower limit with a later end", { limitUsd: "1", endsAt: "in 2 days" }],
  ] as const;
  const reductions = [
    ["a lower limit", { limitUsd: "4.999999999999" }],
    ["a limit of 0", { limitUsd: "0" }],
    ["fewer calls", { calls: 9 }],
    ["an earlier end", { endsAt: "in 1 hour" }],
    ["the end", { ended: true }],
  ] as const;
  const hoursOf: Record<string, number> = { "in 2 days": 48, "in 1 hour": 1 };
  const withTime = (changes: object) =>
    "endsAt" in changes
      ? { ...changes, endsAt: new Date(Date.now() + (hoursOf[String(changes.endsAt)] ?? 0) * 3_600_000).toISOString() }
      : changes;
  const openLimited = async (db: Database, tenant: Tenant) => {
    const endsAt = new Date(Date.now() + 86_400_000).toISOString();
    return (await open(db, tenant, { keyId: tenant.keyId, limits: { calls: 10, endsAt } })).envelope;
  };

  test.for(raises)("%s needs a recent proof of identity, and clears the refusal", async ([, changes], { db }) => {
    const tenant = await createTenant(db);
    const envelope = await openLimited(db, tenant);
    await setBudget(db, envelope, "refused_at = now()");
    const given = { changes: withTime(changes) };
    expect((await change(db, tenant, [envelope, { ...given, isFresh: false }])).outcome).toBe("step_up_required");
    expect((await read(db, tenant, envelope.id)).envelope).toMatchObject({ limitUsd: "5", calls: 10, waiting: true });
    const changed = await change(db, tenant, [envelope, given]);
    expect(changed).toMatchObject({ outcome: "changed", envelope: { ...given.changes, waiting: false } });
  });

  test.for(reductions)("%s needs no proof of identity", async ([, changes], { db }) => {
    const tenant = await createTenant(db);
    const envelope = await openLimited(db, tenant);
    await setBudget(db, envelope, "refused_at = now()");
    const changed = await change(db, tenant, [envelope, { changes: withTime(changes), isFresh: false }]);
    expect(changed.outcome).toBe("changed");
    expect(changed.envelope.lastRefusedAt).not.toBeNull();
  });

  test("refuses a change from an older version, and returns the current limits", async ({ db }) => {
    const tenant = await createTenant(db);
    const { envelope } = await open(db, tenant);
    expect((await change(db, tenant, [envelope, { changes: { limitUsd: "7" } }])).outcome).toBe("changed");
    for (const version of [undefined, null, "x"]) {
      const late = { changes: { limitUsd: "9" }, ...(version === undefined ? {} : { version }) };
      expect(await change(db, tenant, [envelope, late])).toMatchObject({
        outcome: "changed_meanwhile",
        envelope: { limitUsd: "7" },
      });
    }
    const { envelope: current } = await read(db, tenant, envelope.id);
    expect((await change(db, tenant, [current, { changes: { limitUsd: "7.00" } }])).outcome).toBe("unchanged");
  });

  test.for([
    [-1, "bad_end"],
    [366 * 24 - 1, "changed"],
    [366 * 24 + 1, "bad_end"],
  ] as const)("an end in %s hours: %s", async ([hours, outcome], { db }) => {
    const tenant = await createTenant(db);
    const { envelope } = await open(db, tenant);
    const endsAt = new Date(Date.now() + hours * 3_600_000).toISOString();
    expect((await change(db, tenant, [envelope, { changes: { endsAt } }])).outcome).toBe(outcome);
    expect((await open(db, tenant, { label: "other", limits: { endsAt } })).outcome).toBe(
      outcome === "changed" ? "opened" : outcome,
    );
  });

  test("an ended envelope stays ended and refuses calls, and ending it again changes nothing", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000" });
    const { envelope } = await openByCall(db, tenant);
    const ended = await change(db, tenant, [envelope, { changes: { ended: true }, version: null, isFresh: false }]);
    expect(ended).toMatchObject({ outcome: "changed", envelope: { state: "ended", waiting: false } });
    expect(await begin(db, chatCall(tenant, { envelope: { usd: "5" } }))).toMatchObject({
      refused: "envelope_exhausted",
      limit: { state: "ended" },
    });
    expect((await change(db, tenant, [ended.envelope, { changes: { limitUsd: "50" } }])).outcome).toBe("ended");
    expect((await change(db, tenant, [ended.envelope, { changes: { ended: true } }])).outcome).toBe("unchanged");
    expect((await list(db, tenant, { states: "{open}" })).envelopes).toEqual([]);
    expect((await list(db, tenant, { states: "{ended}" })).envelopes).toMatchObject([{ id: envelope.id }]);
  });

  test("a later end resumes an expired envelope, unless another one has replaced it", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000" });
    const { envelope } = await open(db, tenant, { keyId: tenant.keyId });
    await setBudget(db, envelope, "ends_at = now() - interval '1 minute'");
    expect((await begin(db, chatCall(tenant))).refused).toBe("envelope_exhausted");
    const { envelope: expired } = await read(db, tenant, envelope.id);
    expect(expired).toMatchObject({ state: "expired", waiting: false });
    const endsAt = new Date(Date.now() + 3_600_000).toISOString();
    const resumed = await change(db, tenant, [expired, { changes: { endsAt } }]);
    expect(resumed).toMatchObject({ outcome: "changed", envelope: { state: "open", endsAt } });
    expect((await begin(db, chatCall(tenant))).refused).toBeUndefined();
    await setBudget(db, envelope, "ends_at = now() - interval '1 minute'");
    expect((await open(db, tenant, { keyId: tenant.keyId })).outcome).toBe("opened");
    const { envelope: replaced } = await read(db, tenant, envelope.id);
    expect(replaced).toMatchObject({ state: "expired", replaced: true });
    expect((await change(db, tenant, [replaced, { changes: { endsAt } }])).outcome).toBe("ended");
  });

  test("logs who opened, changed and ended an envelope, and shows it in the envelope's history", async ({ db }) => {
    const tenant = await createTenant(db);
    const { envelope } = await open(db, tenant, { keyId: tenant.keyId, limits: { calls: 10 } });
    const { envelope: raised } = await change(db, tenant, [envelope, { changes: { limitUsd: "7.5", calls: null } }]);
    await change(db, tenant, [raised, { changes: { ended: true } }]);
    const by = { actor_id: tenant.ownerId, subject: "test" };
    const before = { limitUsd: "5", calls: 10, endsAt: envelope.endsAt };
    const after = { limitUsd: "7.5", calls: null, endsAt: envelope.endsAt };
    expect(await actions(db, tenant)).toEqual([
      { ...by, action: "envelope.opened", details: { after: before } },
      { ...by, action: "envelope.changed", details: { before, after } },
      { ...by, action: "envelope.ended", details: {} },
    ]);
    const { history } = await read(db, tenant, envelope.id);
    expect(history).toMatchObject([
      { action: "envelope.ended" },
      { action: "envelope.changed" },
      { action: "envelope.opened" },
    ]);
  });
});

describe("opening an envelope for a key or for oneself", () => {
  test("without a label it holds every call of the key, and a second one is the same", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000" });
    const { outcome, envelope } = await open(db, tenant, { keyId: tenant.keyId, limits: { limitUsd: "0.000000001" } });
    expect(outcome).toBe("opened");
    expect(envelope).toMatchObject({ holdsAll: true, label: "" });
    expect((await begin(db, chatCall(tenant))).refused).toBe("envelope_exhausted");
    expect(await open(db, tenant, { keyId: tenant.keyId })).toMatchObject({
      outcome: "exists",
      envelope: { id: envelope.id, limitUsd: "0.000000001" },
    });
    expect(await actions(db, tenant)).toHaveLength(1);
  });

  test("refuses a revoked key, and a label that the key's calls never have", async ({ db }) => {
    const tenant = await createTenant(db, { key: { entityId: "nightly" } });
    const { keyId } = tenant;
    expect((await open(db, tenant, { keyId, label: "other" })).outcome).toBe("bad_label");
    expect((await open(db, tenant, { keyId, label: "nightly" })).outcome).toBe("opened");
    await db.query("update ai.keys set revoked_at = now() where id = $1", [keyId]);
    expect((await open(db, tenant, { keyId })).outcome).toBe("not_active");
  });

  test("the owner is the key's creator, also if somebody else opens it", async ({ db }) => {
    const tenant = await createTenant(db);
    const member = await addMember(db, tenant, "use_ai_studio");
    const key = await addKey(db, member);
    const { envelope } = await open(db, tenant, { keyId: key.id });
    expect((await list(db, member)).envelopes).toMatchObject([{ id: envelope.id }]);
  });
});

describe("concurrent changes", () => {
  /** Runs a test with a committed workspace, which is deleted afterwards. */
  async function withTenant(work: (db: Database, tenant: Tenant) => Promise<void>): Promise<void> {
    const { db, close } = openPool(20);
    const tenant = await createTenant(db, { credits: "1000" });
    try {
      await work(db, tenant);
    } finally {
      await db.query("delete from public.workspaces where id = $1", [tenant.workspaceId]);
      await close();
    }
  }
  const openIn = (db: Database, { ownerId, workspaceId, keyId }: Tenant) =>
    ask(db, {
      sql: `ai.open_envelope_for_member($1, $2, $3, '', '{"limitUsd": "5"}')`,
      values: [ownerId, workspaceId, keyId],
    });

  test("of 20 raises from the same version, one changes the limit", () =>
    withTenant(async (db, tenant) => {
      const { envelope } = await openIn(db, tenant);
      const answers = await Promise.all(
        Array.from({ length: 20 }, (_, n) =>
          ask(db, changeCall(tenant, envelope, { changes: { limitUsd: String(n + 6) } })),
        ),
      );
      const count = (name: string) => answers.filter(({ outcome }) => outcome === name).length;
      expect([count("changed"), count("changed_meanwhile")]).toEqual([1, 19]);
    }));

  test("20 people who open the same envelope get one", () =>
    withTenant(async (db, tenant) => {
      const answers = await Promise.all(Array.from({ length: 20 }, () => openIn(db, tenant)));
      expect(answers.filter(({ outcome }) => outcome === "opened")).toHaveLength(1);
      expect(new Set(answers.map(({ envelope }) => envelope.id)).size).toBe(1);
    }));

  test("raises, a stop and calls at the same time leave the envelope ended, and no call begins after the stop", () =>
    withTenant(async (db, tenant) => {
      const { envelope } = await openIn(db, tenant);
      const raise = (n: number) => ask(db, changeCall(tenant, envelope, { changes: { limitUsd: String(n + 6) } }));
      const stop = ask(db, changeCall(tenant, envelope, { changes: { ended: true } }));
      const calls = Array.from({ length: 8 }, () => begin(db, chatCall(tenant)));
      await Promise.all([raise(1), raise(2), stop, ...calls]);
      expect((await begin(db, chatCall(tenant))).refused).toBe("envelope_exhausted");
      const [state] = await db.query(
        "select ai.envelope_state(e, b) as state from ai.envelopes e join ai.budgets b on b.subject_id = e.id where e.id = $1",
        [envelope.id],
      );
      expect(state).toEqual({ state: "ended" });
    }));

  test("a call that waits for a stop's lock is refused, although its transaction began first", () =>
    withTenant(async (db, tenant) => {
      const { envelope } = await openIn(db, tenant);
      const stopping = new Client({ connectionString: readStack().supabase.dbUrl });
      const calling = new Client({ connectionString: readStack().supabase.dbUrl });
      await Promise.all([stopping.connect(), calling.connect()]);
      try {
        // The call's now() is earlier than the stop's.
        await calling.query("begin");
        await calling.query("select now()");
        await stopping.query("begin");
        const { sql, values } = changeCall(tenant, envelope, { changes: { ended: true } });
        await stopping.query(`select ${sql}`, values);
        const call = calling.query<{ run: string }>("select ai.begin_runs($1) as run", [
          JSON.stringify({ calls: [chatCall(tenant)], wait_ms: 5_000, lock_wait_ms: 5_000 }),
        ]);
        await expect
          .poll(async () => (await db.query("select from pg_stat_activity where wait_event_type = 'Lock'")).length)
          .toBeGreaterThan(0);
        await stopping.query("commit");
        const { rows } = await call;
        expect(JSON.parse(rows[0]?.run ?? "")).toMatchObject([{ refused: "envelope_exhausted" }]);
        await calling.query("commit");
      } finally {
        await Promise.all([stopping.end(), calling.end()]);
      }
    }));
});
