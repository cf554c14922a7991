import { describe, expect } from "vitest";
import { type Database, join, one, test } from "../database.ts";
import {
  callerOf,
  connect,
  connectWithKey,
  createAgentScene,
  disconnect,
  issueKey,
  listAgents,
  manage,
} from "./agent-fixtures.ts";

describe("an access request by a member without manage_ai_keys", () => {
  const open = async (db: Database) => {
    const scene = await createAgentScene(db, "member");
    await connect(db, scene, { tool: "codex", host: "build-box" });
    const { ownerId, workspaceId } = scene.tenant;
    const listed = await manage(db, "list_agent_access", [ownerId, workspaceId]);
    const answer = (how: string, by = ownerId) =>
      manage(db, "answer_agent_access", [by, workspaceId, scene.login.userId, listed.members?.[0]?.requestedAt, how]);
    return { scene, listed, answer };
  };

  test("shows an access request to key managers only", async ({ db }) => {
    const { scene, listed, answer } = await open(db);
    expect(listed).toMatchObject({ outcome: "listed", members: [{ state: "open", tool: "codex", host: "build-box" }] });
    const { userId } = scene.login;
    expect(await manage(db, "list_agent_access", [userId, scene.tenant.workspaceId])).toEqual({
      outcome: "not_allowed",
    });
    expect(await answer("approve", userId)).toEqual({ outcome: "not_allowed" });
  });

  test("after one approval, a member's agent gets keys without another request until the approval is withdrawn", async ({
    db,
  }) => {
    const { scene, answer } = await open(db);
    expect(await answer("approve")).toEqual({ outcome: "done" });
    const { connectionId, hash } = await connectWithKey(db, scene, { tool: "claude" });
    expect((await issueKey(db, scene, connectionId)).outcome).toBe("issued");
    expect(await answer("withdraw")).toEqual({ outcome: "done" });
    expect(await callerOf(db, hash)).toBeNull();
    expect((await issueKey(db, scene, connectionId)).outcome).toBe("revoked");
    expect((await connect(db, scene)).state).toBe("requested");
  });

  test("a declined access request allows no keys, and the member can request access again", async ({ db }) => {
    const { scene, answer } = await open(db);
    expect(await answer("decline")).toEqual({ outcome: "done" });
    expect(await listAgents(db, scene)).toEqual({ access: "declined", connections: [] });
    expect((await connect(db, scene)).state).toBe("requested");
    expect(await listAgents(db, scene)).toMatchObject({ access: "open" });
  });

  test("a member keeps agent access after disconnecting an agent, and loses it when the agent's key is revoked", async ({
    db,
  }) => {
    const { scene, answer } = await open(db);
    await answer("approve");
    const { connectionId } = await connectWithKey(db, scene);
    expect(await disconnect(db, scene, connectionId)).toEqual({});
    expect(await listAgents(db, scene)).toMatchObject({ access: "approved" });
    await connectWithKey(db, scene);
    const key = await one<{ id: string }>(db, {
      sql: "select id from ai.keys where workspace_id = $1 and connection_id is not null and revoked_at is null",
      values: [scene.tenant.workspaceId],
    });
    await manage(db, "revoke_key", [scene.tenant.ownerId, scene.tenant.workspaceId, key.id]);
    expect(await listAgents(db, scene)).toMatchObject({ access: "withdrawn" });
  });

  test("an access request emails each key manager at most once in 24 hours, and never emails other members", async ({
    db,
  }) => {
    const { scene, answer } = await open(db);
    const emails = async (userId: string) =>
      (
        await one<{ count: number }>(db, {
          sql: `select count(*)::int as count from private.outgoing_mails o
                join auth.users u on u.email = o.recipient where u.id = $1 and o.subject = 'Request'`,
          values: [userId],
        })
      ).count;
    const { ownerId } = scene.tenant;
    expect([await emails(ownerId), await emails(scene.login.userId)]).toEqual([1, 0]);
    const repeat = async (age: string) => {
      await answer("decline");
      await db.query("update ai.agent_access set emailed_at = now() - $1::interval", [age]);
      await connect(db, scene);
      return emails(ownerId);
    };
    expect(await repeat("24 hours")).toBe(1);
    expect(await repeat("24 hours 1 second")).toBe(2);
  });

  test("the owners' log records when an access request is approved or withdrawn", async ({ db }) => {
    const { scene, answer } = await open(db);
    await answer("approve");
    await answer("withdraw");
    const rows = await db.query(
      "select action, actor_id, subject_id from public.workspace_audit_log where workspace_id = $1 and action like 'agent%' order by id",
      [scene.tenant.workspaceId],
    );
    const common = { actor_id: scene.tenant.ownerId, subject_id: scene.login.userId };
    expect(rows).toEqual([
      { action: "agent_access.approved", ...common },
      { action: "agent_access.withdrawn", ...common },
    ]);
  });

  test("a member's approved access request ends with the membership, and a member who rejoins must request access again", async ({
    db,
  }) => {
    const { scene, answer } = await open(db);
    await answer("approve");
    const { hash } = await connectWithKey(db, scene);
    const member = [scene.tenant.workspaceId, scene.login.userId];
    await db.query("delete from public.workspace_members where workspace_id = $1 and user_id = $2", member);
    expect(await callerOf(db, hash)).toBeNull();
    expect((await listAgents(db, scene)).refused).toBe("not_found");
    await join(db, { workspaceId: scene.tenant.workspaceId, userId: scene.login.userId, role: "member" });
    expect(await callerOf(db, hash)).toBeNull();
    expect((await connect(db, scene)).state).toBe("requested");
  });
});
