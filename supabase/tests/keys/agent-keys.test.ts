import { describe, expect } from "vitest";
import { failureOf, workspaceRoles } from "../actors.ts";
import { setPolicy } from "../apps/fixtures.ts";
import { createUser, type Database, enrollFactor, join, one, signIn, test } from "../database.ts";
import { admitAll, chatCall } from "../gateway/fixtures.ts";
import {
  type AgentScene,
  callerOf,
  connect,
  connectWithKey,
  createAgentScene,
  disconnect,
  issueKey,
  listAgents,
  manage,
  signInToCommand,
} from "./agent-fixtures.ts";

const keysOf = (db: Database, workspaceId: string) =>
  db.query<{ id: string; replaced: boolean; revoked: boolean; seconds: number; name: string; lineage_id: string }>(
    `select id, lineage_id, name, replaced_by is not null as replaced, revoked_at is not null as revoked,
       extract(epoch from expires_at - now())::float8 as seconds
     from ai.keys where workspace_id = $1 and connection_id is not null order by created_at, replaced_by nulls last`,
    [workspaceId],
  );

describe("connecting an agent", () => {
  test("members with manage_ai_keys can connect an agent, members with only use_ai_studio can request access, and others are refused", async ({
    db,
  }) => {
    for (const { role, permissions } of workspaceRoles) {
      const scene = await createAgentScene(db, role);
      const may = permissions as readonly string[];
      const expected = may.includes("manage_ai_keys")
        ? { state: "connected" }
        : may.includes("use_ai_studio")
          ? { state: "requested" }
          : { refused: role === "outsider" ? "not_found" : "forbidden" };
      expect(await connect(db, scene), role).toMatchObject(expected);
    }
  });

  test("connecting an agent twice returns the same connection", async ({ db }) => {
    const scene = await createAgentScene(db);
    const [first, second] = [await connect(db, scene), await connect(db, scene)];
    expect(second.connection?.id).toBe(first.connection?.id);
    expect((await connect(db, scene, { tool: "codex" })).connection?.id).not.toBe(first.connection?.id);
  });

  test("each new connection of an agent is in its owner's activity, once", async ({ db }) => {
    const scene = await createAgentScene(db);
    for (const tool of ["codex", "codex", "claude"]) await connect(db, scene, { tool });
    const events = await db.query<{ details: { agent: string } }>(
      "select details from public.security_events where user_id = $1 and kind = 'agent_connected'",
      [scene.login.userId],
    );
    expect(events.map(({ details }) => details.agent.split(" on ")[0]).sort()).toEqual(["Claude Code", "Codex"]);
  });

  test("refuses to connect an agent if the login lacks the scope studio:keys, is used for another workspace, or has an unknown token", async ({
    db,
  }) => {
    const scene = await createAgentScene(db);
    const other = await createAgentScene(db);
    const { userId } = scene.login;
    const narrow = await signInToCommand(db, { userId, asked: ["openid", "workspaces:read"] });
    expect(await connect(db, { ...scene, login: narrow })).toEqual({ refused: "insufficient_scope" });
    expect(await connect(db, { ...scene, tenant: other.tenant })).toEqual({ refused: "not_found" });
    const unknown = { ...scene.login, accessHash: Buffer.alloc(32) };
    expect(await connect(db, { ...scene, login: unknown })).toEqual({ refused: "unauthenticated" });
  });

  test("a new login from the same computer continues an agent's connection only after the previous login has ended", async ({
    db,
  }) => {
    const scene = await createAgentScene(db);
    const first = (await connect(db, scene)).connection?.id;
    const next = { ...scene, login: await signInToCommand(db, { userId: scene.login.userId }) };
    const separate = (await connect(db, next)).connection?.id;
    expect(separate).not.toBe(first);
    await db.query("update private.openid_grants set revoked_at = now() where app_id = $1", [scene.login.clientId]);
    const last = { ...scene, login: await signInToCommand(db, { userId: scene.login.userId }) };
    expect((await connect(db, last)).connection?.id).toBe(first);
    expect((await connect(db, last, { host: "other" })).connection?.id).toBe(first);
  });
});

describe("the key of an agent", () => {
  test("an agent's key lives for 8 hours, is named after the agent, and is charged to the agent's workspace", async ({
    db,
  }) => {
    const scene = await createAgentScene(db);
    const { hash } = await connectWithKey(db, scene);
    const [key] = await keysOf(db, scene.tenant.workspaceId);
    expect(key?.seconds).toBe(8 * 3600);
    expect(key?.name).toBe("Claude Code on ann-laptop");
    expect(await callerOf(db, hash)).toEqual({ workspace_id: scene.tenant.workspaceId, refused: null });
  });

  test("an agent's key expires with its login if the login ends sooner", async ({ db }) => {
    const scene = await createAgentScene(db);
    await db.query("update private.openid_grants set ends_at = now() + interval '2 hours' where app_id = $1", [
      scene.login.clientId,
    ]);
    await connectWithKey(db, scene);
    expect((await keysOf(db, scene.tenant.workspaceId))[0]?.seconds).toBe(2 * 3600);
  });

  test("an agent's key must have an expiry, at most 8 hours ahead", async ({ db }) => {
    const scene = await createAgentScene(db);
    await connectWithKey(db, scene);
    for (const expiry of ["created_at + interval '8 hours 1 second'", "null"]) {
      const { code } = await failureOf(async () => {
        await db.query("savepoint before");
        await db.query(`update ai.keys set expires_at = ${expiry} where connection_id is not null`);
      });
      await db.query("rollback to savepoint before");
      expect(code, expiry).toBe("23514");
    }
  });

  test("when an agent's key is renewed, the old key works for 15 more minutes, and the new key counts as the old key's successor", async ({
    db,
  }) => {
    const scene = await createAgentScene(db);
    const { connectionId, hash } = await connectWithKey(db, scene);
    const next = await issueKey(db, scene, connectionId);
    const keys = await keysOf(db, scene.tenant.workspaceId);
    expect(keys.map(({ replaced, seconds }) => [replaced, seconds])).toEqual([
      [true, 15 * 60],
      [false, 8 * 3600],
    ]);
    expect(new Set(keys.map(({ lineage_id }) => lineage_id)).size).toBe(1);
    expect(await callerOf(db, hash)).not.toBeNull();
    expect(await callerOf(db, next.hash)).not.toBeNull();
  });

  test("the studio lists an agent's key once, with its tool and host, and shows it as expired after its login is revoked", async ({
    db,
  }) => {
    const scene = await createAgentScene(db);
    const { connectionId } = await connectWithKey(db, scene);
    await issueKey(db, scene, connectionId);
    const list = () => manage(db, "list_keys", [scene.tenant.ownerId, scene.tenant.workspaceId]);
    const agents = async () => (await list()).keys?.filter(({ agent }) => agent !== null) ?? [];
    expect(await agents()).toMatchObject([
      { name: "Claude Code on ann-laptop", state: "active", agent: { tool: "claude", host: "ann-laptop" } },
    ]);
    await db.query("update private.openid_grants set revoked_at = now() where app_id = $1", [scene.login.clientId]);
    expect(await agents()).toMatchObject([{ state: "expired", agent: { endsAt: null } }]);
  });

  test.for([
    ["good", "active", { workspace_id: expect.anything(), refused: null }, async () => {}],
    [
      "mfa_required",
      "expired",
      { refused: "MFA_REQUIRED" },
      (db: Database, { login }: AgentScene) => enrollFactor(db, { userId: login.userId }),
    ],
    [
      "unavailable",
      "expired",
      { refused: "AUTH_UNAVAILABLE" },
      (db: Database, { login }: AgentScene) => setPolicy(db, { userId: login.userId, policy: { generation: "?" } }),
    ],
    [
      "over",
      "expired",
      null,
      (db: Database, { login }: AgentScene) =>
        db.query("update auth.users set banned_until = 'infinity' where id = $1", [login.userId]),
    ],
    [
      "over",
      "expired",
      null,
      (db: Database, { login }: AgentScene) =>
        db.query("update private.openid_grants set revoked_at = now() where app_id = $1", [login.clientId]),
    ],
  ] as const)(
    "the studio shows an agent as the gateway answers it: %s, %s",
    async ([status, state, answer, change], { db }) => {
      const scene = await createAgentScene(db);
      const { hash } = await connectWithKey(db, scene);
      await change(db, scene);
      const caller = await callerOf(db, hash);
      if (answer === null) expect(caller).toBeNull();
      else expect(caller).toMatchObject(answer);
      const { keys } = await manage(db, "list_keys", [scene.tenant.ownerId, scene.tenant.workspaceId]);
      const { agent, ...key } = keys?.find((one) => one.agent !== null) ?? {};
      expect([key.state, agent]).toMatchObject([
        state,
        { status, endsAt: status === "over" ? null : expect.any(String) },
      ]);
    },
  );

  test("a person can't change an agent's key", async ({ db }) => {
    const scene = await createAgentScene(db);
    await connectWithKey(db, scene);
    const [key] = await keysOf(db, scene.tenant.workspaceId);
    const { ownerId, workspaceId } = scene.tenant;
    expect(await manage(db, "change_key", [ownerId, workspaceId, key?.id, { name: "x" }])).toEqual({
      outcome: "agent_key",
    });
  });

  test("after a renewal, the list still shows the last use of the agent's earlier keys", async ({ db }) => {
    const scene = await createAgentScene(db);
    const { connectionId } = await connectWithKey(db, scene);
    const usedAt = "2026-11-27T10:00:00+00:00";
    await db.query("update ai.keys set last_used_at = $1 where connection_id = $2", [usedAt, connectionId]);
    await issueKey(db, scene, connectionId);
    const { keys } = await manage(db, "list_keys", [scene.tenant.ownerId, scene.tenant.workspaceId]);
    expect(keys?.find(({ agent }) => agent !== null)).toMatchObject({ lastUsedAt: usedAt });
  });

  test("a person can't rotate an agent's key", async ({ db }) => {
    const scene = await createAgentScene(db);
    await connectWithKey(db, scene);
    const [key] = await keysOf(db, scene.tenant.workspaceId);
    const { ownerId, workspaceId } = scene.tenant;
    const rotation = [ownerId, workspaceId, key?.id, 0, "abcdefghijkm", "00".repeat(32)];
    expect(await manage(db, "rotate_key", rotation)).toEqual({ outcome: "agent_key" });
  });

  test.for([
    [20, "issued"],
    [21, "too_many"],
  ] as const)("issues an agent at most 20 keys in 15 minutes: request %d is %s", async ([count, outcome], { db }) => {
    const scene = await createAgentScene(db);
    const { connectionId } = await connectWithKey(db, scene);
    for (let made = 1; made < count - 1; made++) await issueKey(db, scene, connectionId);
    expect((await issueKey(db, scene, connectionId)).outcome).toBe(outcome);
  });

  test("renewed agent keys do not count towards the workspace's limit of keys", async ({ db }) => {
    const scene = await createAgentScene(db);
    const { ownerId, workspaceId } = scene.tenant;
    await db.query(
      `insert into ai.keys (workspace_id, lineage_id, name, lookup, secret_hash)
       select $1::uuid, gen_random_uuid(), 'k', substr(md5(n || $1::text), 1, 12), sha256((n || $1::text)::bytea)
       from generate_series(1, 190) n`,
      [workspaceId],
    );
    const { connectionId } = await connectWithKey(db, scene);
    for (let made = 1; made < 20; made++) await issueKey(db, scene, connectionId);
    const made = await manage(db, "issue_key", [ownerId, workspaceId, { name: "k" }, "abcdefghijkm", "00".repeat(32)]);
    expect(made.outcome).toBe("issued");
  });

  test("issues no key to an agent once the workspace's approval for keys is withdrawn", async ({ db }) => {
    const scene = await createAgentScene(db);
    const connectionId = String((await connect(db, scene)).connection?.id);
    await db.query("delete from ai.key_approvals where workspace_id = $1", [scene.tenant.workspaceId]);
    expect((await issueKey(db, scene, connectionId)).outcome).toBe("not_approved");
  });

  test("issues an agent's key only to the login that created the connection", async ({ db }) => {
    const scene = await createAgentScene(db);
    const connectionId = String((await connect(db, scene)).connection?.id);
    const other = await signInToCommand(db, { userId: scene.login.userId });
    expect(await issueKey(db, { ...scene, login: other }, connectionId)).toMatchObject({ refused: "not_found" });
    expect(await disconnect(db, { ...scene, login: other }, connectionId)).toEqual({ refused: "not_found" });
  });
});

describe("what stops an agent's keys from working", () => {
  const endings: [string, (db: Database, scene: Awaited<ReturnType<typeof createAgentScene>>) => Promise<unknown>][] = [
    [
      "a key manager revokes the key",
      async (db, { tenant }) => {
        const [key] = await keysOf(db, tenant.workspaceId);
        return manage(db, "revoke_key", [tenant.ownerId, tenant.workspaceId, key?.id]);
      },
    ],
    [
      "the login is revoked",
      (db, { login }) =>
        db.query("update private.openid_grants set revoked_at = now() where app_id = $1", [login.clientId]),
    ],
    [
      "the login expires",
      (db, { login }) =>
        db.query(
          "update private.openid_grants set created_at = now() - interval '2 days', ends_at = now() where app_id = $1",
          [login.clientId],
        ),
    ],
    [
      "the person signs out everywhere",
      (db, { login }) => db.query("select private.sign_out_everywhere($1, null)", [login.userId]),
    ],
    [
      "an administrator requires MFA",
      (db, { login }) =>
        setPolicy(db, { userId: login.userId, policy: { required: true, generation: 1, boundary: 1 } }),
    ],
    [
      "the client is disabled",
      (db, { login }) => db.query("update private.apps set enabled = false where id = $1", [login.clientId]),
    ],
    [
      "the client loses the scope",
      (db, { login }) => db.query("update private.apps set scopes = '{profile}' where id = $1", [login.clientId]),
    ],
    [
      "the member leaves the workspace",
      (db, { tenant, login }) =>
        db.query("delete from public.workspace_members where workspace_id = $1 and user_id = $2", [
          tenant.workspaceId,
          login.userId,
        ]),
    ],
    [
      "the member's role loses the permission",
      (db, { tenant }) =>
        db.query("update public.workspace_roles set permissions = '{}' where workspace_id = $1 and not is_owner", [
          tenant.workspaceId,
        ]),
    ],
    ["the account is deleted", (db, { login }) => db.query("delete from auth.users where id = $1", [login.userId])],
  ];

  test.for(endings)("an agent's keys stop working when %s", async ([, end], { db }) => {
    const scene = await createAgentScene(db);
    const { hash } = await connectWithKey(db, scene);
    expect(await callerOf(db, hash)).not.toBeNull();
    await end(db, scene);
    expect(await callerOf(db, hash)).toBeNull();
  });

  test("in a batch, each agent's key is refused for the status of its own connection", async ({ db }) => {
    const statuses: [refused: string | undefined, change: (scene: AgentScene) => Promise<unknown>][] = [
      [undefined, async () => {}],
      ["MFA_REQUIRED", ({ login }) => enrollFactor(db, { userId: login.userId })],
      ["AUTH_UNAVAILABLE", ({ login }) => setPolicy(db, { userId: login.userId, policy: { generation: "?" } })],
      [
        "invalid_api_key",
        ({ login }) => db.query("update private.apps set enabled = false where id = $1", [login.clientId]),
      ],
    ];
    const calls: object[] = [];
    for (const [, change] of statuses) {
      const scene = await createAgentScene(db);
      const { hash } = await connectWithKey(db, scene);
      await change(scene);
      calls.push(chatCall({ ...scene.tenant, keyHash: hash }), chatCall(scene.tenant));
    }
    const answers = await admitAll(db, [...calls, ...calls]);
    const expected = statuses.flatMap(([refused]) => [refused, undefined]);
    expect(answers.map(({ refused }) => refused)).toEqual([...expected, ...expected]);
  });

  test("an agent's keys stop working when the second factor that its login used is removed", async ({ db }) => {
    const scene = await createAgentScene(db);
    const { userId } = scene.login;
    const factorId = await enrollFactor(db, { userId });
    const login = await signInToCommand(db, { userId, claims: await signIn(db, { userId, factorId }) });
    const { hash } = await connectWithKey(db, { ...scene, login });
    expect(await callerOf(db, hash)).not.toBeNull();
    await db.query("delete from auth.mfa_factors where id = $1", [factorId]);
    expect(await callerOf(db, hash)).toBeNull();
  });

  test("after a revocation, an agent gets no working key until it is connected again", async ({ db }) => {
    const scene = await createAgentScene(db);
    const { connectionId } = await connectWithKey(db, scene);
    const [key] = await keysOf(db, scene.tenant.workspaceId);
    await manage(db, "revoke_key", [scene.tenant.ownerId, scene.tenant.workspaceId, key?.id]);
    expect((await issueKey(db, scene, connectionId)).outcome).toBe("revoked");
    expect(await listAgents(db, scene)).toMatchObject({ connections: [{ id: connectionId, state: "revoked" }] });
    const again = String((await connect(db, scene)).connection?.id);
    expect(again).not.toBe(connectionId);
    expect((await issueKey(db, scene, again)).outcome).toBe("issued");
  });

  test("deleting the account revokes its agents' keys, and deletes its connections with their computer names", async ({
    db,
  }) => {
    const scene = await createAgentScene(db);
    await connectWithKey(db, scene);
    await db.query("delete from auth.users where id = $1", [scene.login.userId]);
    expect(
      await db.query(
        "select name, revoked_at is not null as revoked from ai.keys where workspace_id = $1 and id <> $2",
        [scene.tenant.workspaceId, scene.tenant.keyId],
      ),
    ).toEqual([{ name: "Claude Code", revoked: true }]);
    expect(
      await db.query("select from ai.agent_connections where workspace_id = $1", [scene.tenant.workspaceId]),
    ).toEqual([]);
  });
});

test("only the agents' functions can write the agents' tables", async ({ db }) => {
  for (const sql of ["delete from ai.agent_access", "update ai.agent_connections set revoked_at = null"])
    expect((await failureOf(() => db.asRole("service_role", () => db.query(sql)))).code).toBe("42501");
  const scene = await createAgentScene(db);
  const stranger = await createUser(db);
  await join(db, { workspaceId: scene.tenant.workspaceId, userId: stranger.id, role: "member" });
  expect(
    await one(db, {
      sql: "select ai.may_connect_agents($1, $2) as may",
      values: [stranger.id, scene.tenant.workspaceId],
    }),
  ).toEqual({ may: false });
});

describe("the key of an agent that once stopped working", () => {
  const refusal = async (db: Database, hash: string) => {
    const caller = await callerOf(db, hash);
    return caller === null ? "unknown" : caller.refused;
  };

  test.for([
    ["logout", "update private.openid_grants set revoked_at = now() where user_id = $1"],
    ["a new password", "update auth.users set encrypted_password = 'another hash' where id = $1"],
    ["a sign-out everywhere", "select private.sign_out_everywhere($1, null)"],
    ["the deletion of the login", "delete from private.openid_grants where user_id = $1"],
  ] as const)("stays dead when the agent connects again after %s", async ([, sql], { db }) => {
    const scene = await createAgentScene(db);
    const first = await connectWithKey(db, scene);
    expect(await refusal(db, first.hash)).toBeNull();
    await db.query(sql, [scene.login.userId]);
    expect(await refusal(db, first.hash)).not.toBeNull();
    const again = { ...scene, login: await signInToCommand(db, { userId: scene.login.userId }) };
    const next = await connectWithKey(db, again);
    expect(await refusal(db, first.hash)).not.toBeNull();
    expect(await refusal(db, next.hash)).toBeNull();
  });

  test.for([
    [
      "removed and invited again",
      "delete from public.workspace_members where workspace_id = $1 and user_id = $2",
      "insert into public.workspace_members (workspace_id, user_id, role_id) select $1, $2, id from public.workspace_roles where workspace_id = $1 and name = 'admin'",
    ],
    [
      "demoted and promoted again",
      "update public.workspace_members set role_id = (select id from public.workspace_roles where workspace_id = $1 and name = 'viewer') where workspace_id = $1 and user_id = $2",
      "update public.workspace_members set role_id = (select id from public.workspace_roles where workspace_id = $1 and name = 'admin') where workspace_id = $1 and user_id = $2",
    ],
    [
      "stripped of the permission and given it back",
      "update public.workspace_roles set permissions = '{manage_members}' where workspace_id = $1 and name = 'admin' and $2::uuid is not null",
      "update public.workspace_roles set permissions = enum_range(null::public.workspace_permission) where workspace_id = $1 and name = 'admin' and $2::uuid is not null",
    ],
  ] as const)("stays dead if its member is %s", async ([, lose, regain], { db }) => {
    const scene = await createAgentScene(db);
    const { hash, connectionId } = await connectWithKey(db, scene);
    const values = [scene.tenant.workspaceId, scene.login.userId];
    for (const sql of [lose, regain]) {
      await db.query(sql, values);
      expect(await refusal(db, hash)).not.toBeNull();
    }
    expect(await issueKey(db, scene, connectionId)).toMatchObject({ outcome: "revoked" });
    // Connecting again makes a new connection.
    const next = await connectWithKey(db, scene);
    expect(next.connectionId).not.toBe(connectionId);
    expect(await refusal(db, next.hash)).toBeNull();
    const { count } = await one<{ count: number }>(db, {
      sql: `select count(*)::int as count from public.workspace_audit_log
            where workspace_id = $1 and action = 'key.revoked'`,
      values: [scene.tenant.workspaceId],
    });
    expect(count).toBe(1);
  });

  test("stays dead if the approval of its member is withdrawn and given again", async ({ db }) => {
    const scene = await createAgentScene(db, "member");
    const { workspaceId, ownerId } = scene.tenant;
    const { userId } = scene.login;
    const answer = async (state: string) => {
      const { at } = await one<{ at: string }>(db, {
        sql: "select to_json(requested_at) as at from ai.agent_access where workspace_id = $1 and user_id = $2",
        values: [workspaceId, userId],
      });
      expect(await manage(db, "answer_agent_access", [ownerId, workspaceId, userId, at, state])).toEqual({
        outcome: "done",
      });
    };
    await connect(db, scene);
    await answer("approve");
    const { hash } = await connectWithKey(db, scene);
    await answer("withdraw");
    await connect(db, scene);
    await answer("approve");
    expect(await refusal(db, hash)).not.toBeNull();
  });

  test("survives a change of role that keeps the permission", async ({ db }) => {
    const scene = await createAgentScene(db);
    const { hash } = await connectWithKey(db, scene);
    await db.query(
      `update public.workspace_roles set permissions = '{manage_ai_keys,use_ai_studio}'
       where workspace_id = $1 and name = 'admin'`,
      [scene.tenant.workspaceId],
    );
    expect(await refusal(db, hash)).toBeNull();
  });
});
