import { describe, expect } from "vitest";
import { createActor, createWorkspace, failureOf, workspaceRoles } from "../actors.ts";
import { type Answer, beginAppSession, call, newHash, openAppSession, registerApp } from "../apps/fixtures.ts";
import { type Database, one, test } from "../database.ts";

const rename = (
  db: Database,
  { hash, workspaceId, name = "Renamed" }: { hash: Buffer; workspaceId: string; name?: string },
) => call(db, "rename_workspace_by_app_session", { token_hash: hash, workspace_id: workspaceId, name });
const read = (db: Database, { hash, workspaceId }: { hash: Buffer; workspaceId: string }) =>
  call(db, "read_workspace_by_app_session", { token_hash: hash, workspace_id: workspaceId });

const nameOf = async (db: Database, id: string) =>
  (await one<{ name: string }>(db, { sql: "select name from public.workspaces where id = $1", values: [id] })).name;

describe("a central session", () => {
  test.for(workspaceRoles)(
    "a central session can read and rename a workspace only if its user's role allows that ($role)",
    async ({ role, permissions }, { db }) => {
      const { id } = await createWorkspace(db);
      const claims = await createActor(db, { workspaceId: id, role });
      const { centralHash: hash } = await openAppSession(db, { claims, app: await registerApp(db) });
      const listed = await call<Answer & { workspaces: { id: string }[] }>(db, "list_workspaces_by_app_session", {
        token_hash: hash,
      });
      const member = role !== "outsider";
      expect(listed.workspaces.map((workspace) => workspace.id).includes(id)).toBe(member);
      expect(listed.workspaces[0]).toMatchObject({ personal: true, role: "owner" });
      expect(await read(db, { hash, workspaceId: id })).toEqual(
        member
          ? { workspace: { id, name: "Shared", planId: "free", personal: false, role, permissions } }
          : { refused: "not_found" },
      );
      const may = (permissions as readonly string[]).includes("manage_workspace_settings");
      const answer = await rename(db, { hash, workspaceId: id });
      if (may) expect(answer).toMatchObject({ workspace: { id, name: "Renamed" } });
      else expect(answer).toEqual({ refused: member ? "forbidden" : "not_found" });
      expect(await nameOf(db, id)).toBe(may ? "Renamed" : "Shared");
      const log = await db.query(
        "select actor_id from public.workspace_audit_log where workspace_id = $1 and action = 'workspace.changed'",
        [id],
      );
      expect(log).toEqual(may ? [{ actor_id: claims.sub }] : []);
    },
  );

  test("a central session can do only what its scopes allow", async ({ db }) => {
    const { id, owner } = await createWorkspace(db);
    const readOnly = await openAppSession(db, {
      claims: owner,
      app: await registerApp(db, { scopes: ["workspaces:read"] }),
    });
    expect(await rename(db, { hash: readOnly.centralHash, workspaceId: id })).toEqual({
      refused: "insufficient_scope",
    });
    expect(await read(db, { hash: readOnly.centralHash, workspaceId: id })).toHaveProperty("workspace");
    const writeOnly = await openAppSession(db, {
      claims: owner,
      app: await registerApp(db, { scopes: ["workspaces:write"] }),
    });
    expect(await read(db, { hash: writeOnly.centralHash, workspaceId: id })).toEqual({ refused: "insufficient_scope" });
  });

  test("the central API refuses an app's own session and unknown tokens", async ({ db }) => {
    const { id, owner } = await createWorkspace(db);
    const { appHash } = await openAppSession(db, { claims: owner, app: await registerApp(db) });
    for (const hash of [appHash, newHash()]) {
      expect(await read(db, { hash, workspaceId: id })).toEqual({ refused: "unauthenticated" });
      expect(await rename(db, { hash, workspaceId: id })).toEqual({ refused: "unauthenticated" });
    }
  });

  test("a central session can't find a deleted workspace", async ({ db }) => {
    const { id, owner } = await createWorkspace(db);
    const { centralHash: hash } = await openAppSession(db, { claims: owner, app: await registerApp(db) });
    await db.query("update public.workspaces set deleted_at = now() where id = $1", [id]);
    expect(await read(db, { hash, workspaceId: id })).toEqual({ refused: "not_found" });
    expect(await rename(db, { hash, workspaceId: id })).toEqual({ refused: "not_found" });
  });

  test.for(["", "a".repeat(81)])(
    "an app can't use its central session to give a workspace the invalid name %j",
    async (name, { db }) => {
      const { id, owner } = await createWorkspace(db);
      const { centralHash: hash } = await openAppSession(db, { claims: owner, app: await registerApp(db) });
      expect((await failureOf(() => rename(db, { hash, workspaceId: id, name }))).code).toBe("23514");
    },
  );
});

test("an account export contains the sessions and tokens of apps, without hashes", async ({ db }) => {
  const { claims, appHash } = await beginAppSession(db);
  const exported = await call<Record<string, unknown[]>>(db, "export_account", { subject_id: claims.sub });
  expect(exported).toMatchObject({
    account: { id: claims.sub },
    appHandoffs: [{ redeemedAt: expect.any(String) }],
    appTokens: [],
  });
  // Both sessions have the same creation time, so their order is undefined.
  expect((exported.appSessions as { for: string }[]).map((session) => session.for).sort()).toEqual(["app", "central"]);
  expect(JSON.stringify(exported)).not.toContain(appHash.toString("hex"));
});
