import { expect, test } from "vitest";
import { newSession, refresh } from "../support/accounts.ts";
import { sql } from "../support/database.ts";
import { call, expectOk, expectRefusal } from "../support/http.ts";

const age = (sessionId: string) =>
  sql("update auth.refresh_tokens set updated_at = updated_at - interval '30 days' where session_id = $1", [sessionId]);

test("refreshing with the parent of the live refresh token returns the live token, however old the parent is", async () => {
  const { id, refreshToken } = await newSession();
  const { refresh_token: live } = expectOk(await refresh(refreshToken));
  await age(id);
  expect(expectOk(await refresh(refreshToken)).refresh_token).toBe(live);
});

test("reuse of an older refresh token revokes the session's tokens but keeps the session", async () => {
  const { id, refreshToken, accessToken } = await newSession();
  const { refresh_token: child } = expectOk(await refresh(refreshToken));
  const { refresh_token: live } = expectOk(await refresh(child));
  await age(id);
  expectRefusal(await refresh(refreshToken), 400, "refresh_token_already_used");
  await age(id);
  expectRefusal(await refresh(live), 400, "refresh_token_already_used");
  expectOk(await call("GET /user", { bearer: accessToken }));
  expect(await sql("select from auth.sessions where id = $1", [id])).toHaveLength(1);
});
