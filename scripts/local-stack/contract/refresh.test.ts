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
  test("gives another refresh token of the same session, and a child of the old one", async () => {
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

  test("the answer's user has factors and identities, as at sign-in", async () => {
    const { refreshToken } = await newSession();
    expect(expectOk(await refresh(refreshToken)).user.identities).toHaveLength(1);
  });
});

describe("a refresh token used again", () => {
  test("parent of the live one: the same live one, at any time", async () => {
    const { id, refreshToken } = await newSession();
    const child = await tokenOf(refreshToken);
    await age(id, 86_400);
    expect(await tokenOf(refreshToken)).toBe(child);
    expect(await tokenOf(refreshToken)).toBe(child);
    expect(await tokenOf(child)).not.toBe(child);
  });

  test("older, within the reuse interval: another that works", async () => {
    const { refreshToken } = await newSession();
    const child = await tokenOf(refreshToken);
    const grandchild = await tokenOf(child);
    const other = await tokenOf(refreshToken);
    expect([refreshToken, child, grandchild]).not.toContain(other);
    await tokenOf(other);
  });

  test("after such abuse the newest one refreshes once more within the interval, since it was revoked just now", async () => {
    const { id, refreshToken } = await newSession();
    const grandchild = await tokenOf(await tokenOf(refreshToken));
    await age(id);
    expectRefusal(await refresh(refreshToken), 400, "refresh_token_already_used");
    const live = await sql("select from auth.refresh_tokens where session_id = $1 and not revoked", [id]);
    expect(live).toHaveLength(0);
    await tokenOf(grandchild);
  });

  test("older, after the interval: 400 refresh_token_already_used, and no token of the session is good any more", async () => {
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

  test("the interval ends where it says", async () => {
    const prepare = async (seconds: number) => {
      const { id, refreshToken } = await newSession();
      await tokenOf(await tokenOf(refreshToken));
      await age(id, seconds);
      return refresh(refreshToken);
    };
    expectOk(await prepare(5));
    expectRefusal(await prepare(11), 400, "refresh_token_already_used");
  });

  test("abuse ends nothing of the user's other sessions", async () => {
    const { account, id, refreshToken } = await newSession();
    const other = await signIn(account);
    await tokenOf(await tokenOf(refreshToken));
    await age(id);
    expectRefusal(await refresh(refreshToken), 400, "refresh_token_already_used");
    await tokenOf(other.refreshToken);
  });
});

describe("a refresh token, refused", () => {
  test.each(["", "short", "UPPERCASE123", "thirteenchars", "with space 12", "x".repeat(4_000)])(
    "%s is malformed: 400 validation_failed",
    async (token) => {
      expectRefusal(await refresh(token), 400, "validation_failed");
    },
  );

  test("unknown: 400 refresh_token_not_found", async () => {
    expectRefusal(await refresh("abcdefghijkl"), 400, "refresh_token_not_found");
  });

  test("after sign-out: 400 refresh_token_not_found", async () => {
    const { accessToken, refreshToken } = await newSession();
    expectOk(await call("POST /logout", { bearer: accessToken }), 204);
    expectRefusal(await refresh(refreshToken), 400, "refresh_token_not_found");
  });

  test("banned: 400 user_banned; the token is good again after the ban", async () => {
    const { account, refreshToken } = await newSession();
    expectOk(await admin(`PUT /admin/users/${account.id}`, { body: { ban_duration: "24h" } }));
    expectRefusal(await refresh(refreshToken), 400, "user_banned");
    expectOk(await admin(`PUT /admin/users/${account.id}`, { body: { ban_duration: "none" } }));
    expectOk(await refresh(refreshToken));
  });

  test("past the session's not_after: 400 session_expired, though GET /user goes on", async () => {
    const { id, refreshToken, accessToken } = await newSession();
    await sql("update auth.sessions set not_after = now() - interval '1 second' where id = $1", [id]);
    expectRefusal(await refresh(refreshToken), 400, "session_expired");
    expectOk(await call("GET /user", { bearer: accessToken }));
    await sql("update auth.sessions set not_after = now() + interval '1 minute' where id = $1", [id]);
    expectOk(await refresh(refreshToken));
  });
});

describe("refreshing at once", () => {
  test("20 times with one token: one live token, for each that is not told to try again", async () => {
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
  test("the parent of the live token still gives it; an older one is abuse at once", async () => {
    const { refreshToken } = await newSession();
    const child = await tokenOf(refreshToken, url());
    expect(await tokenOf(refreshToken, url())).toBe(child);
    await tokenOf(child, url());
    expectRefusal(await refresh(refreshToken, url()), 400, "refresh_token_already_used");
  });
});

describeVariant("rotation off", shortSessions, (url) => {
  test("an old token is refused, the live one stays good", async () => {
    const { id, refreshToken } = await newSession();
    const child = await tokenOf(refreshToken, url());
    const grandchild = await tokenOf(child, url());
    await age(id);
    expectRefusal(await refresh(refreshToken, url()), 400, "refresh_token_already_used");
    await tokenOf(grandchild, url());
  });
});

describeVariant("sessions with a timebox of a day", shortSessions, (url) => {
  test("just before it a refresh is fine, after it 400 session_expired", async () => {
    const { id, refreshToken } = await newSession();
    await sql("update auth.sessions set created_at = created_at - interval '23 hours 59 minutes' where id = $1", [id]);
    const child = await tokenOf(refreshToken, url());
    await sql("update auth.sessions set created_at = created_at - interval '2 minutes' where id = $1", [id]);
    expectRefusal(await refresh(child, url()), 400, "session_expired");
  });
});

describeVariant("sessions that end when idle for an hour", shortSessions, (url) => {
  test("time counts from the last refresh", async () => {
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
  test("the older one is refused at refresh, the newer goes on", async () => {
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
