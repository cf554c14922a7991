import { randomBytes } from "node:crypto";
import { describe, expect } from "vitest";
import { type Database, test } from "../database.ts";
import { createTenant } from "../gateway/fixtures.ts";
import { openPool } from "../pools.ts";
import { addKey, createMachine, type Machine, newHash, readCaller, requestToken, signInMachine } from "./fixtures.ts";

const newJti = () => randomBytes(16).toString("hex");
const inFiveMinutes = () => new Date(Date.now() + 300_000).toISOString();

const ask = (db: Database, request: object) => db.asRole("service_role", () => requestToken(db, request));
const update = (db: Database, { id }: Pick<Machine, "id">, assignments: string) =>
  db.query(`update private.service_accounts set ${assignments} where id = $1`, [id]);

/** What ends a service account at once, with its tokens. */
const ends = {
  "is disabled": "enabled = false",
  "is revoked": "revoked_at = now()",
  "expires now": "expires_at = now()",
} as const;

describe("issuing a token", () => {
  test("a secret obtains a token of 15 minutes with all scopes of the service account", async ({ db }) => {
    const scopes = ["admin:apps:read", "admin:audit:read"];
    const machine = await createMachine(db, { scopes });
    const tokenHash = newHash();
    const answer = await ask(db, { ...machine, tokenHash });
    expect(answer).toMatchObject({ outcome: "issued", id: machine.id, workspaceId: null, scopes, expiresIn: 900 });
    expect(await readCaller(db, { tokenHash })).toMatchObject({ id: machine.id, workspaceId: null, scopes });
  });

  test.for(Object.entries(ends))("a service account that %s gets no token", async ([, assignments], { db }) => {
    const machine = await createMachine(db);
    await update(db, machine, assignments);
    expect(await ask(db, machine)).toEqual({ outcome: "invalid_client", reason: "unknown" });
  });

  test("a service account works until the moment at which it expires", async ({ db }) => {
    const machine = await createMachine(db);
    await update(db, machine, "expires_at = now() + interval '1 millisecond'");
    expect(await ask(db, machine)).toMatchObject({ outcome: "issued", expiresIn: 1 });
    await update(db, machine, "expires_at = now()");
    expect((await ask(db, machine)).outcome).toBe("invalid_client");
  });

  test("wrong, missing and foreign credentials get the same answer", async ({ db }) => {
    const machine = await createMachine(db);
    const other = await createMachine(db);
    const keyId = await addKey(db, other);
    const { clientId, secretHash } = machine;
    const assertion = { jti: newJti(), assertionExpiresAt: inFiveMinutes() };
    const wrong = [
      { clientId, secretHash: newHash() },
      { clientId, secretHash: other.secretHash },
      { clientId },
      { secretHash },
      { clientId: machine.id, secretHash },
      { clientId: clientId.toUpperCase(), secretHash },
      { clientId: "svc_x", secretHash },
      // The key of another service account, and a secret in place of a key.
      { clientId, credentialId: keyId, ...assertion },
      { clientId, credentialId: machine.credentialId, ...assertion },
    ];
    for (const request of wrong)
      expect(await ask(db, request), JSON.stringify(request)).toEqual({ outcome: "invalid_client", reason: "unknown" });
  });

  test("an earlier secret works until its overlap ends, and so do its tokens", async ({ db }) => {
    const machine = await createMachine(db);
    const expire = (at: string) =>
      db.query(`update private.service_account_credentials set expires_at = ${at} where id = $1`, [
        machine.credentialId,
      ]);
    await expire("now() + interval '1 millisecond'");
    const tokenHash = newHash();
    expect(await ask(db, { ...machine, tokenHash })).toMatchObject({ outcome: "issued", expiresIn: 1 });
    expect(await readCaller(db, { tokenHash })).not.toBeNull();
    await expire("now()");
    expect((await ask(db, machine)).outcome).toBe("invalid_client");
    expect(await readCaller(db, { tokenHash })).toBeNull();
  });

  test("a token has only the requested scopes, all of which the service account must have", async ({ db }) => {
    const machine = await createMachine(db, { scopes: ["admin:apps:read", "admin:apps:write", "admin:audit:read"] });
    const tokenHash = await signInMachine(db, { ...machine, scopes: ["admin:audit:read", "admin:apps:read"] });
    expect((await readCaller(db, { tokenHash }))?.scopes).toEqual(["admin:apps:read", "admin:audit:read"]);
    // What the service account loses, the token loses.
    await update(db, machine, "scopes = '{admin:apps:read,admin:books}'");
    expect((await readCaller(db, { tokenHash }))?.scopes).toEqual(["admin:apps:read"]);
    for (const scopes of [["admin:audit:read"], ["admin:apps:read", "admin:apps:write"], [], ["x"]])
      expect(await ask(db, { ...machine, scopes }), scopes.join()).toEqual({ outcome: "invalid_scope" });
  });

  test("the address list is checked when a token is issued, and at each use", async ({ db }) => {
    const machine = await createMachine(db, { allowedAddresses: ["192.0.2.0/25", "2001:db8::/64"] });
    const from = async (address: string | null) => (await ask(db, { ...machine, address })).outcome;
    const tokenHash = await signInMachine(db, machine);
    const addresses: [string | null, boolean][] = [
      ["192.0.2.127", true],
      ["192.0.2.128", false],
      ["2001:db8::ffff:ffff:ffff:ffff", true],
      ["2001:db8:0:1::", false],
      [null, false],
    ];
    for (const [address, allowed] of addresses) {
      expect(await from(address), String(address)).toBe(allowed ? "issued" : "invalid_client");
      expect((await readCaller(db, { tokenHash, address })) !== null, String(address)).toBe(allowed);
    }
    await update(db, machine, "allowed_addresses = '{198.51.100.0/24}'");
    expect(await readCaller(db, { tokenHash })).toBeNull();
  });
});

describe("client assertions", () => {
  const assertion = async (db: Database, machine: Machine) => ({
    clientId: machine.clientId,
    credentialId: await addKey(db, machine),
    jti: newJti(),
    assertionExpiresAt: inFiveMinutes(),
  });

  test("the keys of a service account in force are found by its client id", async ({ db }) => {
    const keysOf = async ({ clientId }: Machine) => {
      const [row] = await db.asRole("service_role", () =>
        db.query<{ keys: { credentialId: string; jwk: { kty: string } }[] }>(
          "select private.service_account_keys($1) as keys",
          [clientId],
        ),
      );
      return row?.keys.map(({ credentialId }) => credentialId);
    };
    const machine = await createMachine(db);
    expect(await keysOf(machine)).toEqual([]);
    const keyId = await addKey(db, machine);
    expect(await keysOf(machine)).toEqual([keyId]);
    await update(db, machine, "enabled = false");
    expect(await keysOf(machine)).toEqual([]);
    expect(await keysOf({ ...machine, clientId: "svc_unknown" })).toEqual([]);
  });

  test("an assertion obtains one token", async ({ db }) => {
    const machine = await createMachine(db);
    const request = await assertion(db, machine);
    expect((await ask(db, request)).outcome).toBe("issued");
    expect(await ask(db, request)).toEqual({ outcome: "invalid_client", reason: "replayed" });
    // The same id of another service account is another assertion.
    const other = await assertion(db, await createMachine(db));
    expect((await ask(db, { ...other, jti: request.jti })).outcome).toBe("issued");
  });

  test("50 concurrent requests with one assertion obtain one token", async () => {
    const pool = openPool(10);
    const machine = await createMachine(pool.db);
    try {
      const request = await assertion(pool.db, machine);
      const answers = await Promise.all(Array.from({ length: 50 }, () => requestToken(pool.db, request)));
      expect(answers.filter(({ outcome }) => outcome === "issued")).toHaveLength(1);
      expect(answers.filter(({ reason }) => reason === "replayed")).toHaveLength(49);
      const tokens = await pool.db.query("select from private.service_tokens where service_account_id = $1", [
        machine.id,
      ]);
      expect(tokens).toHaveLength(1);
    } finally {
      await pool.db.query("delete from private.service_accounts where id = $1", [machine.id]);
      await pool.close();
    }
  });
});

test("requests with a wrong secret don't keep a change of the service account waiting", async () => {
  // One connection, so that all statements are in one transaction.
  const pool = openPool(1);
  const machine = await createMachine(pool.db);
  try {
    await pool.db.query("begin");
    const wrong = { clientId: machine.clientId, secretHash: newHash() };
    expect(await requestToken(pool.db, wrong)).toEqual({ outcome: "invalid_client", reason: "unknown" });
    const locks = await pool.db.query(
      `select from pg_locks
       where pid = pg_backend_pid() and mode = 'RowShareLock' and relation = 'private.service_accounts'::regclass`,
    );
    expect(locks).toEqual([]);
    await pool.db.query("rollback");
  } finally {
    await pool.db.query("delete from private.service_accounts where id = $1", [machine.id]);
    await pool.close();
  }
});

describe("revoking a token", () => {
  const revoke = async (db: Database, request: object): Promise<boolean> => {
    const [row] = await db.asRole("service_role", () =>
      db.query<{ authenticated: boolean }>("select private.revoke_service_token($1) as authenticated", [
        JSON.stringify({ address: "192.0.2.1", ...request }),
      ]),
    );
    return row?.authenticated ?? false;
  };

  test("a service account revokes its own tokens, one at a time", async ({ db }) => {
    const [machine, other] = [await createMachine(db), await createMachine(db)];
    const [tokenHash, second, foreign] = [
      await signInMachine(db, machine),
      await signInMachine(db, machine),
      await signInMachine(db, other),
    ];
    for (const hash of [tokenHash, tokenHash, foreign, newHash()])
      expect(await revoke(db, { ...machine, tokenHash: hash })).toBe(true);
    expect(await readCaller(db, { tokenHash })).toBeNull();
    expect(await readCaller(db, { tokenHash: second })).not.toBeNull();
    expect(await readCaller(db, { tokenHash: foreign })).not.toBeNull();
  });

  test("revoking needs the credential, and an assertion that was not used", async ({ db }) => {
    const machine = await createMachine(db);
    const [tokenHash, second] = [await signInMachine(db, machine), await signInMachine(db, machine)];
    const { clientId } = machine;
    for (const wrong of [{ clientId }, { clientId, secretHash: newHash() }, { secretHash: machine.secretHash }])
      expect(await revoke(db, { ...wrong, tokenHash })).toBe(false);
    expect(await readCaller(db, { tokenHash })).not.toBeNull();
    const credentialId = await addKey(db, machine);
    const assertion = { clientId, credentialId, jti: newJti(), assertionExpiresAt: inFiveMinutes() };
    expect(await revoke(db, { ...assertion, tokenHash })).toBe(true);
    expect(await revoke(db, { ...assertion, tokenHash: second })).toBe(false);
    expect(await ask(db, assertion)).toEqual({ outcome: "invalid_client", reason: "replayed" });
    expect(await readCaller(db, { tokenHash: second })).not.toBeNull();
  });
});

describe("using a token", () => {
  test("no token outlives a service account that is revoked while tokens are issued", async () => {
    const pool = openPool(20);
    const machine = await createMachine(pool.db);
    try {
      const tokens = Array.from({ length: 19 }, newHash);
      const issue = (tokenHash: string) => requestToken(pool.db, { ...machine, tokenHash });
      const revoke = () =>
        pool.db.query("select private.revoke_service_account($1)", [
          JSON.stringify({ workspace: null, account: machine.id, reason: "test", requestId: "r", ip: "192.0.2.1" }),
        ]);
      await Promise.all([...tokens.slice(0, 9).map(issue), revoke(), ...tokens.slice(9).map(issue)]);
      const callers = await pool.db.query<{ caller: unknown }>(
        "select private.read_service_caller(t, '192.0.2.1') as caller from unnest($1::bytea[]) as t",
        [tokens],
      );
      expect(callers).toEqual(tokens.map(() => ({ caller: null })));
    } finally {
      await pool.db.query("delete from private.service_accounts where id = $1", [machine.id]);
      await pool.close();
    }
  });

  test.for(Object.entries(ends))("a token ends at once if its service account %s", async ([, assignments], { db }) => {
    const machine = await createMachine(db);
    const tokenHash = await signInMachine(db, machine);
    expect(await readCaller(db, { tokenHash })).not.toBeNull();
    await update(db, machine, assignments);
    expect(await readCaller(db, { tokenHash })).toBeNull();
  });

  test("a token ends with its workspace, its credential, and its time", async ({ db }) => {
    const { workspaceId } = await createTenant(db);
    const machine = await createMachine(db, { workspaceId });
    const tokenHash = await signInMachine(db, machine);
    expect(await readCaller(db, { tokenHash })).toMatchObject({ workspaceId });
    const without = async (sql: string, values: unknown[]) => {
      await db.query("savepoint token");
      await db.query(sql, values);
      const caller = await readCaller(db, { tokenHash });
      await db.query("rollback to savepoint token");
      return caller;
    };
    expect(await without("update public.workspaces set deleted_at = now() where id = $1", [workspaceId])).toBeNull();
    expect(
      await without("delete from private.service_account_credentials where id = $1", [machine.credentialId]),
    ).toBeNull();
    const expire = (at: string) =>
      without(`update private.service_tokens set expires_at = ${at} where service_account_id = $1`, [machine.id]);
    expect(await expire("now() + interval '1 millisecond'")).not.toBeNull();
    expect(await expire("now()")).toBeNull();
    expect(await readCaller(db, { tokenHash: newHash() })).toBeNull();
  });

  test("the last use is recorded at most once a minute", async ({ db }) => {
    const machine = await createMachine(db);
    const tokenHash = await signInMachine(db, machine);
    const lastUse = async () =>
      (
        await db.query<{ ip: string; fresh: boolean }>(
          `select host(last_used_ip) as ip, last_used_at = now() as fresh from private.service_accounts where id = $1`,
          [machine.id],
        )
      )[0];
    const usedAgo = (age: string) => update(db, machine, `last_used_at = now() - interval '${age}'`);
    await usedAgo("60 seconds");
    await readCaller(db, { tokenHash, address: "192.0.2.7" });
    expect(await lastUse()).toEqual({ ip: "192.0.2.1", fresh: false });
    await usedAgo("61 seconds");
    await readCaller(db, { tokenHash, address: "192.0.2.7" });
    expect(await lastUse()).toEqual({ ip: "192.0.2.7", fresh: true });
  });

  test("the sweep deletes expired tokens, and used assertions an hour after they expire", async ({ db }) => {
    const machine = await createMachine(db);
    await signInMachine(db, machine);
    const live = await signInMachine(db, machine);
    await db.query(
      `update private.service_tokens set expires_at = now() - interval '1 second'
       where service_account_id = $1 and token_hash <> $2`,
      [machine.id, live],
    );
    await db.query(
      `insert into private.used_assertions (service_account_id, jti, expires_at)
       select $1, 'assertion-' || n, now() - make_interval(mins => n) from unnest(array[59, 61]) as n`,
      [machine.id],
    );
    await db.asRole("service_role", () => db.query("select private.sweep_app_credentials(10000)"));
    expect(
      await db.query("select token_hash = $2 as live from private.service_tokens where service_account_id = $1", [
        machine.id,
        live,
      ]),
    ).toEqual([{ live: true }]);
    expect(
      await db.query("select jti from private.used_assertions where service_account_id = $1", [machine.id]),
    ).toEqual([{ jti: "assertion-59" }]);
  });
});
