import { createHmac } from "node:crypto";
import { describe, expect, test } from "vitest";
import { newAccount, password, refresh, sessionOf } from "./support/accounts.ts";
import { sql } from "./support/database.ts";
import { call, expectOk, expectRefusal } from "./support/http.ts";
import { describeVariant } from "./support/variant.ts";

const version2 = {
  GOTRUE_SECURITY_REFRESH_TOKEN_ALGORITHM_VERSION: "2",
  GOTRUE_SECURITY_REFRESH_TOKEN_REUSE_INTERVAL: "10",
};

describe("a version 2 refresh token that this server never issued", () => {
  test("a malformed version 2 refresh token is refused with 400 validation_failed", async () => {
    expectRefusal(await refresh(Buffer.alloc(38).toString("base64url")), 400, "validation_failed");
  });
});

describeVariant("refresh tokens of version 2", version2, (url) => {
  const start = async () => {
    const account = await newAccount();
    const body = { email: account.email, password };
    const answer = await call("POST /token?grant_type=password", { body, url: url() });
    return { account, ...sessionOf(expectOk(answer)) };
  };
  const next = async (token: string) => expectOk(await refresh(token, url())).refresh_token as string;
  const agedBy = (id: string, seconds: number) =>
    sql(
      "update auth.sessions set refreshed_at = refreshed_at - make_interval(secs => $2), created_at = created_at - make_interval(secs => $2) where id = $1",
      [id, seconds],
    );

  test("a version 2 refresh token contains the session id and a counter, is signed, and has no database row", async () => {
    const { id, refreshToken } = await start();
    const bytes = Buffer.from(refreshToken, "base64url");
    expect(bytes[0]).toBe(0);
    expect(bytes.toString("hex", 1, 17)).toBe(id.replaceAll("-", ""));
    const [row] = await sql<{ key: string; counter: string }>(
      "select refresh_token_hmac_key as key, refresh_token_counter as counter from auth.sessions where id = $1",
      [id],
    );
    expect(row?.counter).toBe("0");
    const signature = createHmac("sha256", Buffer.from(row?.key ?? "", "base64url")).update(bytes.subarray(0, 18));
    expect(bytes.subarray(18, 34)).toEqual(signature.digest().subarray(0, 16));
    expect(await sql("select from auth.refresh_tokens where session_id = $1", [id])).toHaveLength(0);
  });

  test("a version 2 refresh token's counter increases with each refresh", async () => {
    const { id, refreshToken } = await start();
    await next(await next(refreshToken));
    const [row] = await sql("select refresh_token_counter as counter from auth.sessions where id = $1", [id]);
    expect(row).toEqual({ counter: "2" });
  });

  test("a version 2 refresh token whose counter is one behind returns the current token at any time", async () => {
    const { id, refreshToken } = await start();
    const current = await next(refreshToken);
    await agedBy(id, 86_400);
    expect(await next(refreshToken)).toBe(current);
  });

  test("a version 2 refresh token whose counter is two behind returns the current token within the reuse interval", async () => {
    const { refreshToken } = await start();
    const current = await next(await next(refreshToken));
    expect(await next(refreshToken)).toBe(current);
  });

  test("a version 2 refresh token whose counter is two behind gets 400 after the reuse interval and ends the session", async () => {
    const { id, refreshToken, accessToken } = await start();
    const current = await next(await next(refreshToken));
    await agedBy(id, 11);
    expectRefusal(await refresh(refreshToken, url()), 400, "refresh_token_already_used");
    expect(await sql("select from auth.sessions where id = $1", [id])).toHaveLength(0);
    expectRefusal(await call("GET /user", { bearer: accessToken, url: url() }), 403, "session_not_found");
    expectRefusal(await refresh(current, url()), 400, "refresh_token_not_found");
  });

  test("a version 2 refresh token with a changed byte is refused with 400 validation_failed", async () => {
    const { refreshToken } = await start();
    const bytes = Buffer.from(refreshToken, "base64url");
    bytes[20] = (bytes[20] ?? 0) ^ 1;
    expectRefusal(await refresh(bytes.toString("base64url"), url()), 400, "validation_failed");
  });

  test("20 concurrent refreshes with a version 2 token return the same new token, or 409 to retry", async () => {
    const { refreshToken } = await start();
    const answers = await Promise.all(Array.from({ length: 20 }, () => refresh(refreshToken, url())));
    const given = answers.filter((answer) => answer.status === 200);
    for (const answer of answers) if (!given.includes(answer)) expectRefusal(answer, 409, "conflict");
    expect(new Set(given.map((answer) => answer.body.refresh_token)).size).toBe(1);
  });
});
