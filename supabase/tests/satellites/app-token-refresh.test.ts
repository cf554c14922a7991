import { describe, expect } from "vitest";
import { newHash, openPools } from "../apps/fixtures.ts";
import { test } from "../database.ts";
import { beginExchange, exchange, issueAppToken, newPair, refresh, tokenOf } from "./app-token-fixtures.ts";

describe("refreshing an app token", () => {
  test("an app token is refreshed only once, and repeating the refresh returns the same answer for 30 seconds", async ({
    db,
  }) => {
    const { setting, pair } = await issueAppToken(db);
    const next = newPair();
    const first = await refresh(db, { ...setting, from: pair.refresh, to: next });
    expect(first).toMatchObject({ user: setting.claims.sub, scopes: ["ai:use", "workspace:session"] });
    expect(await tokenOf(db, next.access)).toMatchObject({ refused: null });
    const at = (ago: string) =>
      db.query(`update ai.app_tokens set refreshed_at = now() - interval '${ago}' where refresh_hash = $1`, [
        pair.refresh,
      ]);
    await at("29.999999 seconds");
    expect(await refresh(db, { ...setting, from: pair.refresh, to: next })).toEqual(first);
    expect(await refresh(db, { ...setting, from: pair.refresh, to: newPair() })).toEqual({ refused: "token" });
    await at("30 seconds");
    expect(await refresh(db, { ...setting, from: pair.refresh, to: next })).toEqual({ refused: "token" });
  });

  test("reusing a refresh token after the grace period revokes the whole token family", async ({ db }) => {
    const { setting, pair } = await issueAppToken(db);
    const next = newPair();
    await refresh(db, { ...setting, from: pair.refresh, to: next });
    await db.query("update ai.app_tokens set refreshed_at = now() - interval '1 minute' where refresh_hash = $1", [
      pair.refresh,
    ]);
    expect(await tokenOf(db, next.access)).toMatchObject({ refused: null });
    await refresh(db, { ...setting, from: pair.refresh, to: newPair() });
    for (const hash of [pair.access, next.access]) expect(await tokenOf(db, hash)).toBeUndefined();
    expect(await refresh(db, { ...setting, from: next.refresh, to: newPair() })).toEqual({ refused: "token" });
  });

  test("an app token is refreshed only once for 60 concurrent callers, who all get the same answer", async () => {
    const { db, service, close } = openPools(20);
    try {
      const setting = await beginExchange(db, { service });
      const [pair, next] = [newPair(), newPair()];
      await exchange(service, { ...setting, pair });
      const answers = await Promise.all(
        Array.from({ length: 60 }, () => refresh(service, { ...setting, from: pair.refresh, to: next })),
      );
      expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
      expect(answers[0]).toMatchObject({ user: setting.claims.sub });
      const rows = await db.query("select from ai.app_tokens where user_id = $1", [setting.claims.sub]);
      expect(rows).toHaveLength(2);
    } finally {
      await close();
    }
  });

  test("refreshing an app token may narrow its scopes, and never widens them again", async ({ db }) => {
    const { setting, pair } = await issueAppToken(db, { scopes: ["workspace:session", "ai:use", "tts:use"] });
    const [narrow, again] = [newPair(), newPair()];
    const narrowed = ["ai:use", "workspace:session"];
    const step = { ...setting, from: pair.refresh, to: narrow };
    expect(await refresh(db, { ...step, scopes: ["profile"] })).toEqual({ refused: "scope" });
    expect(await refresh(db, { ...step, scopes: narrowed })).toMatchObject({ scopes: narrowed });
    const wide = { ...setting, from: narrow.refresh, to: again };
    expect(await refresh(db, { ...wide, scopes: [...narrowed, "tts:use"] })).toEqual({ refused: "scope" });
    expect(await refresh(db, wide)).toMatchObject({ scopes: narrowed });
  });

  test("an app token can be refreshed only by its own app and for its own workspace", async ({ db }) => {
    const { setting, pair } = await issueAppToken(db);
    const other = await beginExchange(db, { claims: setting.claims });
    const theirs = { ...setting, app: other.app, from: pair.refresh, to: newPair() };
    expect(await refresh(db, theirs)).toEqual({ refused: "token" });
    const elsewhere = { ...setting, workspaceId: other.workspaceId, from: pair.refresh, to: newPair() };
    expect(await refresh(db, elsewhere)).toEqual({ refused: "workspace" });
    const wrongSecret = { ...setting, app: { ...setting.app, secretHash: newHash() } };
    expect(await refresh(db, { ...wrongSecret, from: pair.refresh, to: newPair() })).toEqual({
      refused: "unauthenticated",
    });
  });

  test("an app token can be refreshed for exactly 30 days", async ({ db }) => {
    const { setting, pair } = await issueAppToken(db);
    const expireAt = (moment: string) =>
      db.query(`update ai.app_tokens set refresh_expires_at = ${moment} where refresh_hash = $1`, [pair.refresh]);
    await expireAt("now()");
    expect(await refresh(db, { ...setting, from: pair.refresh, to: newPair() })).toEqual({ refused: "token" });
    await expireAt("now() + interval '1 microsecond'");
    expect(await refresh(db, { ...setting, from: pair.refresh, to: newPair() })).not.toHaveProperty("refused");
  });
});
