import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { createAdmin } from "../console/fixtures.ts";
import { type Database, test } from "../database.ts";
import { createTenant } from "../gateway/fixtures.ts";
import { openPool } from "../pools.ts";
import {
  addKey,
  attempt,
  changeMachine,
  createMachine,
  describeMachine,
  type Machine,
  newAccount,
  newHash,
  newKey,
  readCaller,
  requestToken,
  signInMachine,
} from "./fixtures.ts";

describe("credentials", () => {
  const tokenOf = (db: Database, request: object) => db.asRole("service_role", () => requestToken(db, request));
  const rotate = (db: Database, { id }: Machine, { overlap = 0, secretHash = newHash() } = {}) =>
    changeMachine(db, { name: "rotate_service_secret", change: { account: id, secretHash, overlapSeconds: overlap } });

  test("with an overlap the earlier secret works until its end; without one it ends with its tokens", async ({
    db,
  }) => {
    const machine = await createMachine(db);
    const tokenHash = await signInMachine(db, machine);
    const next = newHash();
    const { endsAt } = await rotate(db, machine, { overlap: 3_600, secretHash: next });
    expect(new Date(endsAt ?? 0).getTime() - Date.now()).toBeGreaterThan(3_500_000);
    expect((await tokenOf(db, machine)).outcome).toBe("issued");
    expect((await tokenOf(db, { ...machine, secretHash: next })).outcome).toBe("issued");
    expect(await readCaller(db, { tokenHash })).not.toBeNull();
    // A later rotation does not extend the first secret.
    await rotate(db, machine, { overlap: 86_400 });
    const [first] = await db.query<{ early: boolean }>(
      "select expires_at = now() + interval '1 hour' as early from private.service_account_credentials where id = $1",
      [machine.credentialId],
    );
    expect(first).toEqual({ early: true });
    await rotate(db, machine);
    expect((await tokenOf(db, machine)).outcome).toBe("invalid_client");
    expect((await tokenOf(db, { ...machine, secretHash: next })).outcome).toBe("invalid_client");
    expect(await readCaller(db, { tokenHash })).toBeNull();
    expect((await describeMachine(db, machine))?.credentials).toHaveLength(1);
  });

  test("the overlap is 0 seconds to 24 hours", async ({ db }) => {
    const machine = await createMachine(db);
    const overlaps: [number | null, string][] = [
      [0, "made"],
      [86_400, "made"],
      [86_401, "invalid"],
      [-1, "invalid"],
      [null, "invalid"],
    ];
    for (const [overlap, outcome] of overlaps) {
      const change = { account: machine.id, secretHash: newHash(), overlapSeconds: overlap };
      expect(await attempt(db, { name: "rotate_service_secret", change }), String(overlap)).toBe(outcome);
    }
  });

  test("an invalid secret leaves the earlier ones as they are", async ({ db }) => {
    const machine = await createMachine(db);
    expect(await rotate(db, machine, { secretHash: "\\x00" })).toEqual({ refused: "invalid" });
    expect((await tokenOf(db, machine)).outcome).toBe("issued");
  });

  test("a service account has at most five credentials that work", async ({ db }) => {
    const machine = await createMachine(db);
    for (let keys = 0; keys < 3; keys += 1) await addKey(db, machine);
    const addOne = () =>
      changeMachine(db, { name: "add_service_key", change: { account: machine.id, publicJwk: newKey() } });
    const added = await addOne();
    expect(added).toEqual({ credential: expect.any(String) });
    expect(await addOne()).toEqual({ refused: "too_many" });
    expect(await rotate(db, machine, { overlap: 60 })).toEqual({ refused: "too_many" });
    // Without an overlap, the new secret takes the place of the old one.
    expect(await rotate(db, machine)).toMatchObject({ endsAt: expect.any(String) });
    await changeMachine(db, {
      name: "remove_service_credential",
      change: { account: machine.id, credential: added.credential },
    });
    expect(await addOne()).toEqual({ credential: expect.any(String) });
  });

  test.for([
    ["rotate_service_secret", { overlapSeconds: 0 }, 1],
    ["rotate_service_secret", { overlapSeconds: 60 }, 5],
    ["add_service_key", {}, 5],
  ] as const)("20 concurrent calls of %s with %j leave %i credentials", async ([name, fields, left]) => {
    const pool = openPool(20);
    const machine = await createMachine(pool.db);
    try {
      const change = {
        workspace: null,
        account: machine.id,
        reason: "test",
        requestId: "r",
        ip: "192.0.2.1",
        ...fields,
      };
      await Promise.all(
        Array.from({ length: 20 }, () =>
          pool.db.query(`select private.${name}($1)`, [
            JSON.stringify({ ...change, secretHash: newHash(), publicJwk: newKey() }),
          ]),
        ),
      );
      const live = await pool.db.query(
        `select from private.service_account_credentials
         where service_account_id = $1 and (expires_at is null or expires_at > now())`,
        [machine.id],
      );
      expect(live).toHaveLength(left);
    } finally {
      await pool.db.query("delete from private.service_accounts where id = $1", [machine.id]);
      await pool.close();
    }
  });

  test("a kid is used once in a service account", async ({ db }) => {
    const [machine, other] = [await createMachine(db), await createMachine(db)];
    const publicJwk = newKey();
    const add = ({ id }: Machine) => changeMachine(db, { name: "add_service_key", change: { account: id, publicJwk } });
    expect(await add(machine)).toEqual({ credential: expect.any(String) });
    expect(await add(machine)).toEqual({ refused: "taken" });
    expect(await add(other)).toEqual({ credential: expect.any(String) });
  });

  test("removing a credential, and revoking a service account, end the tokens at once", async ({ db }) => {
    const machine = await createMachine(db);
    const removed = await signInMachine(db, machine);
    const change = { account: machine.id, credential: machine.credentialId };
    expect(await changeMachine(db, { name: "remove_service_credential", change })).toEqual({});
    expect(await readCaller(db, { tokenHash: removed })).toBeNull();
    expect(await changeMachine(db, { name: "remove_service_credential", change })).toEqual({ refused: "not_found" });

    const secretHash = newHash();
    await rotate(db, machine, { secretHash });
    const tokenHash = await signInMachine(db, { ...machine, secretHash });
    expect(await changeMachine(db, { name: "revoke_service_account", change })).toEqual({});
    expect(await readCaller(db, { tokenHash })).toBeNull();
    expect((await tokenOf(db, { ...machine, secretHash })).outcome).toBe("invalid_client");
    expect(await changeMachine(db, { name: "revoke_service_account", change })).toEqual({ refused: "not_found" });
    expect(await describeMachine(db, machine)).toMatchObject({ state: "revoked", credentials: [] });
  });

  test("each credential names the person who added it, who becomes responsible if the service account has no such person", async ({
    db,
  }) => {
    const [first, second, machine] = [await createAdmin(db), await createAdmin(db), await createMachine(db)];
    const add = (actor: string | null) =>
      changeMachine(db, { name: "add_service_key", change: { account: machine.id, publicJwk: newKey(), actor } });
    const responsible = async () => (await describeMachine(db, machine))?.createdBy;
    await add(null);
    expect(await responsible()).toBeNull();
    await add(first.id);
    expect(await responsible()).toBe(first.email);
    await add(second.id);
    expect(await responsible()).toBe(first.email);
    const { credentials = [] } = (await describeMachine(db, machine)) ?? {};
    expect(new Set(credentials.map(({ createdBy }) => createdBy))).toEqual(new Set([null, first.email, second.email]));
  });

  test("the workspace's log names the member behind each change", async ({ db }) => {
    const { workspaceId, ownerId } = await createTenant(db);
    const ask = (name: string, change: Record<string, unknown>) =>
      changeMachine(db, { name, change: { ...change, workspace: workspaceId, actor: ownerId } });
    const { id: account = randomUUID() } = await ask("save_service_account", newAccount({ scopes: ["use_ai_studio"] }));
    const { version } = (await describeMachine(db, { id: account, workspaceId })) ?? {};
    await ask("save_service_account", newAccount({ account, version, scopes: ["manage_ai_keys"] }));
    await ask("rotate_service_secret", { account, secretHash: newHash(), overlapSeconds: 60 });
    const { credential } = await ask("add_service_key", { account, publicJwk: newKey() });
    await ask("remove_service_credential", { account, credential });
    await ask("revoke_service_account", { account });
    const lines = await db.query<{ action: string; actor_id: string }>(
      "select action, actor_id from public.workspace_audit_log where subject_id = $1 order by id",
      [account],
    );
    expect(lines.map(({ action }) => action)).toEqual(
      ["created", "changed", "secret_rotated", "key_added", "credential_removed", "revoked"].map(
        (verb) => `service_account.${verb}`,
      ),
    );
    expect(new Set(lines.map(({ actor_id }) => actor_id))).toEqual(new Set([ownerId]));
  });
});
