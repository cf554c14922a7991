import { describe, expect, test } from "vitest";
import type { Database } from "../database.ts";
import { openPool } from "../pools.ts";
import { race } from "../race-fixtures.ts";
import {
  type AgentScene,
  callerOf,
  connect,
  connectWithKey,
  createAgentScene,
  issueKey,
  manage,
} from "./agent-fixtures.ts";

/** Runs the fixtures as `postgres`, because a pool does not support `asRole`. */
const asOwner = (db: Database): Database => ({ ...db, asRole: (_, work) => work() });

const withKey = async (db: Database) => {
  const scene = await createAgentScene(asOwner(db));
  return { ...scene, ...(await connectWithKey(asOwner(db), scene)), userId: scene.login.userId };
};

const liveKeys = async (db: Database, { tenant }: AgentScene) =>
  (
    await db.query("select from ai.keys where workspace_id = $1 and connection_id is not null and revoked_at is null", [
      tenant.workspaceId,
    ])
  ).length;

const revoke = async (line: Database, { tenant }: AgentScene) => {
  const [key] = await line.query<{ id: string }>("select id from ai.keys where workspace_id = $1 and id <> $2", [
    tenant.workspaceId,
    tenant.keyId,
  ]);
  return manage(line, "revoke_key", [tenant.ownerId, tenant.workspaceId, key?.id]);
};

type Connected = AgentScene & { connectionId: string; hash: string };

describe("renewing an agent's key", () => {
  test("renewing an agent's key fails if it waits for a revocation of the connection", () =>
    race<Connected>({
      scene: withKey,
      early: revoke,
      late: (line, scene) => issueKey(line, scene, scene.connectionId),
      after: async (db, { scene, answer }) => {
        expect(answer).toMatchObject({ outcome: "revoked" });
        expect(await liveKeys(db, scene)).toBe(0);
      },
    }));

  test("an agent's key that is renewed just before a revocation is revoked too", () =>
    race<Connected>({
      scene: withKey,
      early: (line, scene) => issueKey(line, scene, scene.connectionId),
      late: revoke,
      after: async (db, { scene, answer }) => {
        expect(answer).toMatchObject({ outcome: "revoked" });
        expect(await liveKeys(db, scene)).toBe(0);
      },
    }));

  test("an agent's key that is renewed just before the account is deleted stops working", () =>
    race<Connected>({
      scene: withKey,
      early: (line, scene) => issueKey(line, scene, scene.connectionId),
      late: (line, { login }) => line.query("delete from auth.users where id = $1", [login.userId]),
      lateRole: "postgres",
      after: async (db, { scene }) => {
        const left = await db.query("select from ai.keys where workspace_id = $1 and revoked_at is null and id <> $2", [
          scene.tenant.workspaceId,
          scene.tenant.keyId,
        ]);
        expect(left).toEqual([]);
      },
    }));
});

test("if two key managers answer an access request concurrently, only the first answer counts", async () => {
  const requestedAt = async (db: Database, { tenant }: AgentScene) =>
    (await manage(db, "list_agent_access", [tenant.ownerId, tenant.workspaceId])).members?.[0]?.requestedAt;
  await race<AgentScene & { at: unknown }>({
    scene: async (db) => {
      const scene = await createAgentScene(asOwner(db), "member");
      await connect(asOwner(db), scene);
      return { ...scene, at: await requestedAt(asOwner(db), scene), userId: scene.login.userId };
    },
    early: (line, { tenant, login, at }) =>
      manage(line, "answer_agent_access", [tenant.ownerId, tenant.workspaceId, login.userId, at, "approve"]),
    late: (line, { tenant, login, at }) =>
      manage(line, "answer_agent_access", [tenant.ownerId, tenant.workspaceId, login.userId, at, "decline"]),
    after: async (db, { scene, answer }) => {
      expect(answer).toEqual({ outcome: "answered" });
      expect((await connect(db, scene)).state).toBe("connected");
    },
  });
});

test("connecting an agent 20 times concurrently makes one connection, and renewing its key 10 times concurrently leaves one current key", async () => {
  const { db, close } = openPool(20);
  const owner = asOwner(db);
  const scene = await createAgentScene(owner);
  try {
    const ids = await Promise.all(Array.from({ length: 20 }, async () => (await connect(owner, scene)).connection?.id));
    expect(new Set(ids).size).toBe(1);
    const keys = await Promise.all(Array.from({ length: 10 }, () => issueKey(owner, scene, String(ids[0]))));
    expect(keys.map(({ outcome }) => outcome)).toEqual(Array(10).fill("issued"));
    expect(
      await db.query("select from ai.keys where connection_id = $1 and replaced_by is null", [ids[0]]),
    ).toHaveLength(1);
    expect(await Promise.all(keys.map(({ hash }) => callerOf(owner, hash)))).not.toContain(null);
  } finally {
    await db.query("delete from auth.users where id = any ($1)", [[scene.login.userId, scene.tenant.ownerId]]);
    await close();
  }
});
