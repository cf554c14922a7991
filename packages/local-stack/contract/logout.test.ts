import { describe, expect, test } from "vitest";
import { forgeToken, inAnHour, newAccount, newSession, refresh, signIn } from "./support/accounts.ts";
import { sql } from "./support/database.ts";
import { call, expectOk, expectRefusal } from "./support/http.ts";

const logout = (bearer: string, query = "") => call(`POST /logout${query}`, { bearer });

async function twoSessions() {
  const account = await newAccount();
  return { account, mine: await signIn(account), other: await signIn(account) };
}

const isAlive = async (accessToken: string) => (await call("GET /user", { bearer: accessToken })).status === 200;

describe("POST /logout", () => {
  test.each(["", "?scope=", "?scope=global"])("POST /logout%s ends all of the user's sessions", async (query) => {
    const { mine, other } = await twoSessions();
    expect((await logout(mine.accessToken, query)).status).toBe(204);
    expect([await isAlive(mine.accessToken), await isAlive(other.accessToken)]).toEqual([false, false]);
  });

  test("POST /logout?scope=local ends only the current session", async () => {
    const { mine, other } = await twoSessions();
    expectOk(await logout(mine.accessToken, "?scope=local"), 204);
    expect([await isAlive(mine.accessToken), await isAlive(other.accessToken)]).toEqual([false, true]);
  });

  test("POST /logout?scope=others ends all other sessions", async () => {
    const { mine, other } = await twoSessions();
    expectOk(await logout(mine.accessToken, "?scope=others"), 204);
    expect([await isAlive(mine.accessToken), await isAlive(other.accessToken)]).toEqual([true, false]);
  });

  test("POST /logout refuses an unknown scope with 400 validation_failed and ends nothing", async () => {
    const { mine } = await twoSessions();
    expectRefusal(await logout(mine.accessToken, "?scope=everything"), 400, "validation_failed");
    expect(await isAlive(mine.accessToken)).toBe(true);
  });

  test("POST /logout deletes sessions and their refresh tokens from the database", async () => {
    const { account, mine, other } = await twoSessions();
    await logout(mine.accessToken);
    expect(await sql("select from auth.sessions where user_id = $1", [account.id])).toHaveLength(0);
    expect(await sql("select from auth.refresh_tokens where user_id = $1", [account.id])).toHaveLength(0);
    expectRefusal(await refresh(other.refreshToken), 400, "refresh_token_not_found");
  });

  test("POST /logout keeps other users' sessions", async () => {
    const stranger = await newSession();
    const { mine } = await twoSessions();
    await logout(mine.accessToken);
    expect(await isAlive(stranger.accessToken)).toBe(true);
  });

  test("a second POST /logout with the same token returns 403 session_not_found", async () => {
    const { accessToken } = await newSession();
    await logout(accessToken);
    expectRefusal(await logout(accessToken), 403, "session_not_found");
  });

  test("POST /logout ends all of a user's sessions if the token names no session", async () => {
    const { account, accessToken } = await newSession();
    const claims = { sub: account.id, aud: "authenticated", role: "authenticated", exp: inAnHour() };
    expectOk(await logout(await forgeToken(claims), "?scope=local"), 204);
    expect(await isAlive(accessToken)).toBe(false);
  });

  test("POST /logout requires a bearer token: 401", async () => {
    expectRefusal(await call("POST /logout"), 401, "no_authorization");
  });
});
