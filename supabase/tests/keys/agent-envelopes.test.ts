import { describe, expect } from "vitest";
import { type Database, one, test } from "../database.ts";
import { admitAll, chatCall } from "../gateway/fixtures.ts";
import { openPool } from "../pools.ts";
import { race } from "../race-fixtures.ts";
import {
  type AgentScene,
  connect,
  connectWithKey,
  createAgentScene,
  disconnect,
  issueKey,
  listAgents,
  manage,
} from "./agent-fixtures.ts";

const five = { usd: "5", calls: 200 };

/** Changes the budget of the workspace's envelopes, as calls and their owner do. */
const change = (db: Database, { tenant }: AgentScene, sql: string) =>
  db.query(`update ai.budgets set ${sql} where scope = 'envelope' and workspace_id = $1`, [tenant.workspaceId]);

const budgetsOf = (db: Database, { tenant }: AgentScene) =>
  db.query<{ limit_usd: string; max_calls: string | null; spent_usd: string; calls: string }>(
    `select trim_scale(limit_usd)::text as limit_usd, max_calls, trim_scale(spent_usd)::text as spent_usd, calls
     from ai.budgets where scope = 'envelope' and workspace_id = $1`,
    [tenant.workspaceId],
  );

const openOf = (db: Database, { tenant }: AgentScene) =>
  db.query<{ id: string; principal_id: string; ended: boolean; ended_by: string | null }>(
    `select id, principal_id, ended_at is not null as ended, ended_by from ai.envelopes
     where workspace_id = $1 and superseded_at is null`,
    [tenant.workspaceId],
  );

const endByOwner = async (db: Database, scene: AgentScene) => {
  await change(db, scene, "ends_at = now() - interval '1 minute'");
  await db.query("update ai.envelopes set ended_at = now() where workspace_id = $1", [scene.tenant.workspaceId]);
};

describe("connecting an agent with a limit", () => {
  test("opens an envelope before the first key, which holds the calls of all its keys", async ({ db }) => {
    const scene = await createAgentScene(db);
    const { connection } = await connect(db, scene, { envelope: { ...five, calls: 2 } });
    expect(connection?.envelope).toMatchObject({
      state: "open",
      limitUsd: "5",
      spentUsd: "0",
      reservedUsd: "0",
      maxCalls: 2,
      calls: 0,
    });
    const [first, renewed] = [
      await issueKey(db, scene, String(connection?.id)),
      await issueKey(db, scene, String(connection?.id)),
    ];
    const calls = [first, renewed, first].map(({ hash }, index) =>
      chatCall({ ...scene.tenant, keyHash: hash }, { label: `session-${index}` }),
    );
    const answers = await admitAll(db, calls);
    expect(answers.map(({ refused }) => refused)).toEqual([undefined, undefined, "envelope_exhausted"]);
    expect(await listAgents(db, scene)).toMatchObject({
      connections: [{ envelope: { id: connection?.envelope?.id, calls: 2, maxCalls: 2 } }],
    });
  });

  test("the creation of an agent's key is in the workspace's activity once, with and without a limit", async ({
    db,
  }) => {
    const scene = await createAgentScene(db);
    for (const [tool, envelope] of [["claude", five], ["codex"]] as const) {
      const { connectionId } = await connectWithKey(db, scene, { tool, ...(envelope && { envelope }) });
      await issueKey(db, scene, connectionId);
    }
    const { count } = await one<{ count: number }>(db, {
      sql: "select count(*)::int as count from public.workspace_audit_log where workspace_id = $1 and action = 'key.created'",
      values: [scene.tenant.workspaceId],
    });
    expect(count).toBe(2);
  });

  test("limits an agent that was connected without a limit, and whose keys have another lineage", async ({ db }) => {
    const scene = await createAgentScene(db);
    const { connectionId, hash } = await connectWithKey(db, scene);
    // Keys of release 0.3.0 have the id of the first key as their lineage.
    await db.query("update ai.keys set lineage_id = id where connection_id = $1", [connectionId]);
    expect((await connect(db, scene)).connection?.envelope).toBeNull();
    await connect(db, scene, { envelope: { usd: "0.000001" } });
    const [answer] = await admitAll(db, [chatCall({ ...scene.tenant, keyHash: hash })]);
    expect(answer?.refused).toBe("envelope_exhausted");
  });

  test("keeps the open envelope when it is repeated with the same amounts, without any, or after the owner raised it", async ({
    db,
  }) => {
    const scene = await createAgentScene(db);
    const first = (await connect(db, scene, { envelope: five })).connection?.envelope;
    for (const [sql, envelope] of [
      ["spent_usd = 1, calls = 7", { usd: "5.00", calls: 200 }],
      ["limit_usd = 10, max_calls = null, spent_usd = 5", five],
      ["limit_usd = 10, spent_usd = 10", undefined],
    ] as const) {
      await change(db, scene, sql);
      const answer = await connect(db, scene, envelope && { envelope });
      expect(answer, sql).toMatchObject({ state: "connected", connection: { envelope: { id: first?.id } } });
    }
    expect(await openOf(db, scene)).toHaveLength(1);
  });

  test.for([
    ["another amount", { usd: "50", calls: 200 }, "calls = 0", "differs"],
    ["a smaller amount", { usd: "4.99", calls: 200 }, "calls = 0", "differs"],
    ["more calls", { usd: "5", calls: 201 }, "calls = 0", "differs"],
    ["no limit of calls", { usd: "5" }, "calls = 0", "differs"],
    ["another amount after the owner raised it", { usd: "10", calls: 200 }, "limit_usd = 10", "differs"],
    ["a used-up amount", five, "spent_usd = 5", "used_up"],
    ["an overspent amount", five, "spent_usd = 5.5", "used_up"],
    ["used-up calls", five, "calls = 200", "used_up"],
  ] as const)("refuses %s and names the open envelope", async ([, envelope, sql, reason], { db }) => {
    const scene = await createAgentScene(db);
    const first = (await connect(db, scene, { envelope: five })).connection?.envelope;
    await change(db, scene, sql);
    const before = await budgetsOf(db, scene);
    expect(await connect(db, scene, { envelope })).toEqual({
      state: "limit_refused",
      limit: { reason, id: first?.id, usd: "5", calls: 200 },
    });
    expect(await budgetsOf(db, scene)).toEqual(before);
  });

  test.for([
    ["one cent less than its amount", "spent_usd = 4.99"],
    ["one call less than its calls", "calls = 199"],
  ] as const)("keeps an envelope that has used %s", async ([, sql], { db }) => {
    const scene = await createAgentScene(db);
    await connect(db, scene, { envelope: five });
    await change(db, scene, sql);
    expect((await connect(db, scene, { envelope: five })).state).toBe("connected");
  });

  test.for([
    ["its owner ended it", endByOwner],
    ["it expired", (db: Database, scene: AgentScene) => change(db, scene, "ends_at = now()")],
  ] as const)("opens another envelope after %s, but only with a limit", async ([, end], { db }) => {
    const scene = await createAgentScene(db);
    const first = (await connect(db, scene, { envelope: five })).connection?.envelope;
    await end(db, scene);
    expect((await connect(db, scene)).connection?.envelope).toMatchObject({
      id: first?.id,
      state: expect.stringMatching(/ended|expired/),
    });
    const next = (await connect(db, scene, { envelope: { usd: "7" } })).connection?.envelope;
    expect(next).toMatchObject({ state: "open", limitUsd: "7", maxCalls: null, calls: 0 });
    expect(next?.id).not.toBe(first?.id);
  });

  test("each agent of a member has its own envelope", async ({ db }) => {
    const scene = await createAgentScene(db);
    const ids = [];
    for (const tool of ["claude", "codex"])
      ids.push((await connect(db, scene, { tool, envelope: five })).connection?.envelope?.id);
    expect(new Set(ids).size).toBe(2);
  });

  test("shows calls without amounts if the workspace hides costs", async ({ db }) => {
    const scene = await createAgentScene(db);
    await db.query(
      `insert into ai.workspace_policies (workspace_id, provider_cost_visible) values ($1, false)
       on conflict (workspace_id) do update set provider_cost_visible = false`,
      [scene.tenant.workspaceId],
    );
    expect((await connect(db, scene, { envelope: five })).connection?.envelope).toMatchObject({
      limitUsd: null,
      spentUsd: null,
      reservedUsd: null,
      maxCalls: 200,
    });
  });

  test("a member who needs an approval opens no envelope with the request", async ({ db }) => {
    const scene = await createAgentScene(db, "member");
    expect(await connect(db, scene, { envelope: five })).toEqual({ state: "requested" });
    expect(await openOf(db, scene)).toEqual([]);
  });

  test("the list of keys has the envelope of an agent", async ({ db }) => {
    const scene = await createAgentScene(db);
    const { connectionId } = await connectWithKey(db, scene, { envelope: five });
    await issueKey(db, scene, connectionId);
    const { keys } = await manage(db, "list_keys", [scene.tenant.ownerId, scene.tenant.workspaceId]);
    expect(keys?.flatMap(({ agent }) => agent ?? [])).toMatchObject([{ envelope: { state: "open", limitUsd: "5" } }]);
  });
});

describe("the envelope of an agent that is disconnected", () => {
  test.for([
    [
      "disconnects it",
      async (db: Database, scene: AgentScene, connectionId: string) => {
        expect(await disconnect(db, scene, connectionId)).toEqual({});
        return scene.login.userId;
      },
    ],
    [
      "revokes its key",
      async (db: Database, { tenant }: AgentScene, connectionId: string) => {
        const [key] = await db.query<{ id: string }>("select id from ai.keys where connection_id = $1", [connectionId]);
        await manage(db, "revoke_key", [tenant.ownerId, tenant.workspaceId, key?.id]);
        return tenant.ownerId;
      },
    ],
  ] as const)("ends when somebody %s, and the next connection has none", async ([, end], { db }) => {
    const scene = await createAgentScene(db);
    const { connectionId } = await connectWithKey(db, scene, { envelope: five });
    const actor = await end(db, scene, connectionId);
    expect(await openOf(db, scene)).toMatchObject([{ ended: true, ended_by: actor }]);
    expect((await listAgents(db, scene)).connections).toMatchObject([
      { state: "revoked", envelope: { state: "ended" } },
    ]);
    expect((await connect(db, scene)).connection?.envelope).toBeNull();
  });
});

describe("connecting twice at the same time with a limit", () => {
  /** Runs the fixtures as `postgres`, because a pool does not support `asRole`. */
  const asOwner = (db: Database): Database => ({ ...db, asRole: (_, work) => work() });
  const newScene = async (db: Database) => {
    const scene = await createAgentScene(asOwner(db));
    return { ...scene, userId: scene.login.userId };
  };

  test.for([
    ["refuses the second one's other amount", { usd: "9" }, { state: "limit_refused", limit: { reason: "differs" } }],
    ["gives the second one the envelope of the first", five, { state: "connected" }],
  ] as const)("%s", ([, envelope, expected]) =>
    race<AgentScene>({
      scene: newScene,
      early: (line, scene) => connect(line, scene, { envelope: five }),
      late: (line, scene) => connect(line, scene, { envelope }),
      after: async (db, { scene, answer }) => {
        expect(answer).toMatchObject(expected);
        expect(await budgetsOf(db, scene)).toMatchObject([{ limit_usd: "5" }]);
      },
    }),
  );

  test("ends an envelope that is opened just before its connection is revoked", () =>
    race<AgentScene & { connectionId: string }>({
      scene: async (db) => ({ ...(await newScene(db)), connectionId: "" }),
      early: (line, scene) => connect(line, scene, { envelope: five }),
      late: async (line, scene) => {
        const id = String((await connect(line, scene)).connection?.id);
        return disconnect(line, scene, id);
      },
      after: async (db, { scene }) => expect(await openOf(db, scene)).toMatchObject([{ ended: true }]),
    }));

  test("opens one envelope for 20 connects", async () => {
    const { db, close } = openPool(20);
    const scene = await createAgentScene(asOwner(db));
    try {
      const answers = await Promise.all(
        Array.from({ length: 20 }, () => connect(asOwner(db), scene, { envelope: five })),
      );
      expect(new Set(answers.map(({ connection }) => connection?.envelope?.id)).size).toBe(1);
      expect(await openOf(db, scene)).toHaveLength(1);
    } finally {
      await db.query("delete from auth.users where id = any ($1)", [[scene.login.userId, scene.tenant.ownerId]]);
      await close();
    }
  });
});
