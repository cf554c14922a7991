import { describe, expect, test } from "vitest";
import { newSession, refresh, sessionOf, signIn } from "./support/accounts.ts";
import { sql } from "./support/database.ts";
import { admin, call, expectOk, expectRefusal } from "./support/http.ts";
import { autoconfirm, shortSessions } from "./support/settings.ts";
import { describeVariant } from "./support/variant.ts";

/** Makes a session's refresh tokens older than the reuse interval. */
const age = (sessionId: string, seconds = 11) =>
  sql("update auth.refresh_tokens set updated_at = updated_at - make_interval(secs => $2) where session_id = $1", [
    sessionId,
    seconds,
  ]);
const tokenOf = async (token: string, url?: string) => expectOk(await refresh(token, url)).refresh_token as string;

describe("POST /token?grant_type=refresh_token", () => {
  test("a refresh returns a new refresh token for the same session, as a child of the old one", async () => {
    const { id, refreshToken } = await newSession();
    const next = sessionOf(expectOk(await refresh(refreshToken)));
    expect(next.refreshToken).toMatch(/^[a-z2-7]{12}$/);
    expect(next.refreshToken).not.toBe(refreshToken);
    expect(next.id).toBe(id);
    const rows = await sql("select token, parent, revoked from auth.refresh_tokens where session_id = $1 order by id", [
      id,
    ]);
    expect(rows).toEqual([
      { token: refreshToken, parent: null, revoked: true },
      { token: next.refreshToken, parent: refreshToken, revoked: false },
    ]);
  });

  test("a refresh returns the user with factors and identities, as at sign-in", async () => {
    const { refreshToken } = await newSession();
    expect(expectOk(await refresh(refreshToken)).user.identities).toHaveLength(1);
  });
});

describe("a reused refresh token", () => {
  test("reusing the live refresh token's direct parent returns the live token, even a day later", async () => {
    const { id, refreshToken } = await newSession();
    const child = await tokenOf(refreshToken);
    await age(id, 86_400);
    expect(await tokenOf(refreshToken)).toBe(child);
    expect(await tokenOf(refreshToken)).toBe(child);
    expect(await tokenOf(child)).not.toBe(child);
  });

  test("within the reuse interval, reusing a refresh token that is two generations old returns another working token", async () => {
    const { refreshToken } = await newSession();
    const child = await tokenOf(refreshToken);
    const grandchild = await tokenOf(child);
    const other = await tokenOf(refreshToken);
    expect([refreshToken, child, grandchild]).not.toContain(other);
    await tokenOf(other);
  });

  test("late reuse of a refresh token revokes all of a session's tokens, but the newest token can still refresh within the reuse interval", async () => {
    const { id, refreshToken } = await newSession();
    const grandchild = await tokenOf(await tokenOf(refreshToken));
    await age(id);
    expectRefusal(await refresh(refreshToken), 400, "refresh_token_already_used");
    const live = await sql("select from auth.refresh_tokens where session_id = $1 and not revoked", [id]);
    expect(live).toHaveLength(0);
    await tokenOf(grandchild);
  });

  test("after the reuse interval, reusing a refresh token older than the live token's parent gets 400 and revokes the session's tokens", async () => {
    const { id, refreshToken, accessToken } = await newSession();
    const child = await tokenOf(refreshToken);
    const grandchild = await tokenOf(child);
    await age(id);
    expectRefusal(await refresh(refreshToken), 400, "refresh_token_already_used");
    await age(id);
    expectRefusal(await refresh(grandchild), 400, "refresh_token_already_used");
    const live = await sql("select from auth.refresh_tokens where session_id = $1 and not revoked", [id]);
    expect(live).toHaveLength(0);
    expectOk(await call("GET /user", { bearer: accessToken }));
  });

  test("an older refresh token is accepted after 5 s of the 10 s reuse interval and refused after 11 s", async () => {
    const prepare = async (seconds: number) => {
      const { id, refreshToken } = await newSession();
      await tokenOf(await tokenOf(refreshToken));
      await age(id, seconds);
      return refresh(refreshToken);
    };
    expectOk(await prepare(5));
    expectRefusal(await prepare(11), 400, "refresh_token_already_used");
  });

  test("reuse of a refresh token does not affect the user's other sessions", async () => {
    const { account, id, refreshToken } = await newSession();
    const other = await signIn(account);
    await tokenOf(await tokenOf(refreshToken));
    await age(id);
    expectRefusal(await refresh(refreshToken), 400, "refresh_token_already_used");
    await tokenOf(other.refreshToken);
  });
});

describe("refused refresh tokens", () => {
  test.each(["", "short", "UPPERCASE123", "thirteenchars", "with space 12", "x".repeat(4_000)])(
    "refuses a malformed refresh token with 400 validation_failed: %s",
    async (token) => {
      expectRefusal(await refresh(token), 400, "validation_failed");
    },
  );

  test("refuses an unknown refresh token with 400 refresh_token_not_found", async () => {
    expectRefusal(await refresh("abcdefghijkl"), 400, "refresh_token_not_found");
  });

  test("refuses a signed-out session's refresh token with 400 refresh_token_not_found", async () => {
    const { accessToken, refreshToken } = await newSession();
    expectOk(await call("POST /logout", { bearer: accessToken }), 204);
    expectRefusal(await refresh(refreshToken), 400, "refresh_token_not_found");
  });

  test("refuses a banned user's refresh token with 400 user_banned, and accepts it again after the ban", async () => {
    const { account, refreshToken } = await newSession();
    expectOk(await admin(`PUT /admin/users/${account.id}`, { body: { ban_duration: "24h" } }));
    expectRefusal(await refresh(refreshToken), 400, "user_banned");
    expectOk(await admin(`PUT /admin/users/${account.id}`, { body: { ban_duration: "none" } }));
    expectOk(await refresh(refreshToken));
  });

  test("refuses a refresh after the session's not_after with 400 session_expired, although GET /user still works", async () => {
    const { id, refreshToken, accessToken } = await newSession();
    await sql("update auth.sessions set not_after = now() - interval '1 second' where id = $1", [id]);
    expectRefusal(await refresh(refreshToken), 400, "session_expired");
    expectOk(await call("GET /user", { bearer: accessToken }));
    await sql("update auth.sessions set not_after = now() + interval '1 minute' where id = $1", [id]);
    expectOk(await refresh(refreshToken));
  });
});

describe("concurrent refreshes", () => {
  test("20 concurrent refreshes with one token return the same live token, or 409 to retry", async () => {
    const { id, refreshToken } = await newSession();
    const answers = await Promise.all(Array.from({ length: 20 }, () => refresh(refreshToken)));
    const given = answers.filter((answer) => answer.status === 200);
    for (const answer of answers) if (!given.includes(answer)) expectRefusal(answer, 409, "conflict");
    expect(new Set(given.map((answer) => answer.body.refresh_token)).size).toBe(1);
    const live = await sql("select from auth.refresh_tokens where session_id = $1 and not revoked", [id]);
    expect(live).toHaveLength(1);
  });
});

describeVariant("no reuse interval", autoconfirm, (url) => {
  test("without a reuse interval, reuse of the live token's parent returns the live token, and an older token is refused", async () => {
    const { refreshToken } = await newSession();
    const child = await tokenOf(refreshToken, url());
    expect(await tokenOf(refreshToken, url())).toBe(child);
    await tokenOf(child, url());
    expectRefusal(await refresh(refreshToken, url()), 400, "refresh_token_already_used");
  });
});

describeVariant("rotation off", shortSessions, (url) => {
  test("with rotation off, an old refresh token is refused, and the live one stays valid", async () => {
    const { id, refreshToken } = await newSession();
    const child = await tokenOf(refreshToken, url());
    const grandchild = await tokenOf(child, url());
    await age(id);
    expectRefusal(await refresh(refreshToken, url()), 400, "refresh_token_already_used");
    await tokenOf(grandchild, url());
  });
});

describeVariant("sessions with a timebox of a day", shortSessions, (url) => {
  test("a refresh works just before the session's timebox ends and gets 400 session_expired after it", async () => {
    const { id, refreshToken } = await newSession();
    await sql("update auth.sessions set created_at = created_at - interval '23 hours 59 minutes' where id = $1", [id]);
    const child = await tokenOf(refreshToken, url());
    await sql("update auth.sessions set created_at = created_at - interval '2 minutes' where id = $1", [id]);
    expectRefusal(await refresh(child, url()), 400, "session_expired");
  });
});

describeVariant("sessions that end when idle for an hour", shortSessions, (url) => {
  test("a session's idle time counts from the last refresh", async () => {
    const { id, refreshToken } = await newSession();
    await sql("update auth.sessions set created_at = created_at - interval '3 hours' where id = $1", [id]);
    const child = await tokenOf(refreshToken, url());
    await sql("update auth.sessions set refreshed_at = refreshed_at - interval '59 minutes' where id = $1", [id]);
    const grandchild = await tokenOf(child, url());
    await sql("update auth.sessions set refreshed_at = refreshed_at - interval '61 minutes' where id = $1", [id]);
    expectRefusal(await refresh(grandchild, url()), 400, "session_expired");
  });
});

describeVariant("one session a user", shortSessions, (url) => {
  test("with one session per user, a refresh of the older session is refused, and the newer one continues", async () => {
    const { account, id, refreshToken } = await newSession();
    await sql("update auth.sessions set created_at = created_at - interval '1 minute' where id = $1", [id]);
    await sql("update auth.refresh_tokens set updated_at = updated_at - interval '1 minute' where session_id = $1", [
      id,
    ]);
    const newer = await signIn(account);
    expectRefusal(await refresh(refreshToken, url()), 400, "session_expired");
    await tokenOf(newer.refreshToken, url());
  });
});
