import { describe, expect } from "vitest";
import { createActor } from "../actors.ts";
import {
  beginAppSession,
  introspect,
  newHash,
  openAppSession,
  openPools,
  refreshSession,
  registerApp,
  revoke,
} from "../apps/fixtures.ts";
import { one, test } from "../database.ts";

describe("refreshing an app session", () => {
  test("refreshing an app session replaces its token; the old one stays valid for exactly 30 seconds", async ({
    db,
  }) => {
    const session = await beginAppSession(db);
    const { app, appHash } = session;
    const successor = newHash();
    expect(await refreshSession(db, { app, hash: appHash, successor })).toMatchObject({ audience: "app" });
    expect(await introspect(db, { app, hash: successor })).toMatchObject({ active: true });
    expect(await introspect(db, { app, hash: appHash })).toMatchObject({ active: true });
    const graceTo = (moment: string) =>
      db.query(`update private.app_sessions set previous_valid_until = ${moment} where token_hash = $1`, [successor]);
    const row = await one<{ seconds: number }>(db, {
      sql: "select extract(epoch from previous_valid_until - now())::int as seconds from private.app_sessions where token_hash = $1",
      values: [successor],
    });
    expect(row.seconds).toBe(30);
    await graceTo("now() + interval '1 microsecond'");
    expect(await introspect(db, { app, hash: appHash })).toMatchObject({ active: true });
    await graceTo("now()");
    expect(await introspect(db, { app, hash: appHash })).toEqual({ active: false });
    expect(await refreshSession(db, { app, hash: appHash, successor })).toEqual({ refused: "token" });
    expect(await introspect(db, { app, hash: successor })).toMatchObject({ active: true });
  });

  test("within the grace period, an app session's refresh can be repeated only with the same successor token", async ({
    db,
  }) => {
    const { app, appHash } = await beginAppSession(db);
    const successor = newHash();
    const first = await refreshSession(db, { app, hash: appHash, successor });
    expect(await refreshSession(db, { app, hash: appHash, successor })).toEqual(first);
    expect(await refreshSession(db, { app, hash: appHash, successor: newHash() })).toEqual({ refused: "token" });
  });

  test("an app session is refreshed only once for 60 concurrent callers, who all get the same answer", async () => {
    const { db, service, close } = openPools(20);
    try {
      const app = await registerApp(service);
      const session = await openAppSession(service, { claims: await createActor(db, {}), app });
      const successor = newHash();
      const answers = await Promise.all(
        Array.from({ length: 60 }, () => refreshSession(service, { app, hash: session.appHash, successor })),
      );
      expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
      expect(answers[0]).toMatchObject({ audience: "app" });
    } finally {
      await close();
    }
  });

  test("refreshing extends an app session to at most 30 days after the handoff", async ({ db }) => {
    const { app, appHash, claims } = await beginAppSession(db);
    await db.query(
      `update private.app_sessions
       set created_at = now() - interval '30 days' + interval '1 hour', ends_at = now() + interval '1 hour',
         expires_at = now() + interval '1 minute', issued_at = now() - interval '7 hours'
       where user_id = $1`,
      [claims.sub],
    );
    const successor = newHash();
    await refreshSession(db, { app, hash: appHash, successor });
    const row = await one<{ same: boolean }>(db, {
      sql: "select expires_at = ends_at as same from private.app_sessions where token_hash = $1",
      values: [successor],
    });
    expect(row.same).toBe(true);
    await db.query(
      `update private.app_sessions
       set created_at = created_at - interval '1 hour', ends_at = now(), expires_at = now() where token_hash = $1`,
      [successor],
    );
    expect(await introspect(db, { app, hash: successor })).toEqual({ active: false });
    expect(await refreshSession(db, { app, hash: successor, successor: newHash() })).toEqual({ refused: "token" });
  });

  test("refreshing does not revive a revoked app session", async ({ db }) => {
    const { app, appHash } = await beginAppSession(db);
    const successor = newHash();
    await refreshSession(db, { app, hash: appHash, successor });
    await revoke(db, { app, hash: appHash });
    for (const hash of [appHash, successor]) {
      expect(await introspect(db, { app, hash })).toEqual({ active: false });
      expect(await refreshSession(db, { app, hash, successor })).toEqual({ refused: "token" });
    }
  });
});
