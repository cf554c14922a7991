import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { newSession, refresh, sessionOf, signIn } from "./support/accounts.ts";
import { sql } from "./support/database.ts";
import { admin, call, expectOk, expectRefusal } from "./support/http.ts";
import { challenge, codeOf, enroll, newRaisedSession, raise, verifyCode, wrongCodeOf } from "./support/totp.ts";

const _enrollBody = (fields: Record<string, unknown> = {}) => ({ factor_type: "totp", ...fields });
const factorsOf = async (bearer: string) => expectOk(await call("GET /user", { bearer })).factors ?? [];

describe("POST /factors/:id/verify", () => {
  test("verifying a TOTP code raises the same session to aal2 with new tokens, and puts totp first in its amr", async () => {
    const { before, account, factor, ...raised } = await newRaisedSession();
    expect(raised.id).toBe(before.id);
    expect(raised.refreshToken).not.toBe(before.refreshToken);
    expect(raised.claims.aal).toBe("aal2");
    const methods = raised.claims.amr.map((entry: { method: string }) => entry.method);
    expect([...methods].sort()).toEqual(["password", "totp"]);
    expect(raised.claims.amr[0].timestamp).toBeGreaterThanOrEqual(raised.claims.amr[1].timestamp);
    expect(raised.user.factors).toMatchObject([{ id: factor.factorId, status: "verified" }]);
    const [row] = await sql("select aal, factor_id from auth.sessions where id = $1", [raised.id]);
    expect(row).toEqual({ aal: "aal2", factor_id: factor.factorId });
  });

  test("the response to a verified TOTP code has no user or session id in its headers, unlike a sign-in's response", async () => {
    const { accessToken } = await newSession();
    const { factorId, secret } = await enroll(accessToken);
    const challengeId = await challenge(accessToken, factorId);
    const answer = await verifyCode(accessToken, { factorId, challengeId, code: codeOf(secret) });
    expectOk(answer);
    expect([...answer.headers.keys()].filter((name) => name.startsWith("sb-"))).toEqual([]);
  });

  test("a session keeps aal2 after a refresh", async () => {
    const { refreshToken } = await newRaisedSession();
    const { claims } = sessionOf(expectOk(await refresh(refreshToken)));
    expect(claims.aal).toBe("aal2");
    expect(claims.amr).toHaveLength(2);
  });

  test.each([-1, 0, 1])("accepts a TOTP code that is %i time steps from the current one", async (steps) => {
    const { accessToken } = await newSession();
    const { factorId, secret } = await enroll(accessToken);
    const challengeId = await challenge(accessToken, factorId);
    expectOk(await verifyCode(accessToken, { factorId, challengeId, code: codeOf(secret, steps) }));
  });

  test.each([-3, 3])(
    "refuses a TOTP code that is %i time steps from the current one with 422 mfa_verification_failed",
    async (steps) => {
      const { accessToken } = await newSession();
      const { factorId, secret } = await enroll(accessToken);
      const challengeId = await challenge(accessToken, factorId);
      const answer = await verifyCode(accessToken, { factorId, challengeId, code: codeOf(secret, steps) });
      expectRefusal(answer, 422, "mfa_verification_failed");
    },
  );

  test("a correct TOTP code uses up the challenge, while a wrong one does not", async () => {
    const { accessToken } = await newSession();
    const { factorId, secret } = await enroll(accessToken);
    const challengeId = await challenge(accessToken, factorId);
    const wrong = { factorId, challengeId, code: wrongCodeOf(secret) };
    expectRefusal(await verifyCode(accessToken, wrong), 422, "mfa_verification_failed");
    expectRefusal(await verifyCode(accessToken, wrong), 422, "mfa_verification_failed");
    const right = { factorId, challengeId, code: codeOf(secret) };
    const { accessToken: raised } = sessionOf(expectOk(await verifyCode(accessToken, right)));
    expectRefusal(await verifyCode(raised, right), 422, "mfa_ip_address_mismatch");
  });

  test("accepts one TOTP code for two challenges, so the application must prevent replays", async () => {
    const { accessToken } = await newSession();
    const { factorId, secret } = await enroll(accessToken);
    const [one, two] = [await challenge(accessToken, factorId), await challenge(accessToken, factorId)];
    const code = codeOf(secret);
    expectOk(await verifyCode(accessToken, { factorId, challengeId: one, code }));
    expectOk(await verifyCode(accessToken, { factorId, challengeId: two, code }));
  });

  test.each(["12345", "1234567", "abcdef"])(
    "refuses the TOTP code %s with 422 mfa_verification_failed",
    async (code) => {
      const { accessToken } = await newSession();
      const { factorId } = await enroll(accessToken);
      const challengeId = await challenge(accessToken, factorId);
      expectRefusal(await verifyCode(accessToken, { factorId, challengeId, code }), 422, "mfa_verification_failed");
    },
  );

  test("refuses a missing TOTP code with 400 validation_failed", async () => {
    const { accessToken } = await newSession();
    const { factorId } = await enroll(accessToken);
    const challengeId = await challenge(accessToken, factorId);
    expectRefusal(await verifyCode(accessToken, { factorId, challengeId, code: "" }), 400, "validation_failed");
  });

  test("refuses an unknown challenge, or another factor's challenge, with 422 mfa_factor_not_found", async () => {
    const { accessToken } = await newSession();
    const { factorId, secret } = await enroll(accessToken, "one");
    const other = await enroll(accessToken, "two");
    const foreign = await challenge(accessToken, other.factorId);
    for (const challengeId of [randomUUID(), foreign]) {
      const answer = await verifyCode(accessToken, { factorId, challengeId, code: codeOf(secret) });
      expectRefusal(answer, 422, "mfa_factor_not_found");
    }
  });

  test("a factor's challenge is valid for 300 seconds: 422 mfa_challenge_expired after that", async () => {
    const { accessToken } = await newSession();
    const { factorId, secret } = await enroll(accessToken);
    const challengeId = await challenge(accessToken, factorId);
    const age = (seconds: number) =>
      sql("update auth.mfa_challenges set created_at = created_at - make_interval(secs => $2) where id = $1", [
        challengeId,
        seconds,
      ]);
    await age(290);
    const wrong = await verifyCode(accessToken, { factorId, challengeId, code: wrongCodeOf(secret) });
    expectRefusal(wrong, 422, "mfa_verification_failed");
    await age(11);
    const late = await verifyCode(accessToken, { factorId, challengeId, code: codeOf(secret) });
    expectRefusal(late, 422, "mfa_challenge_expired");
  });

  test("verifying a factor deletes other unverified factors and keeps verified ones", async () => {
    const { accessToken, factor } = await newRaisedSession();
    const second = await enroll(accessToken, "second");
    await enroll(accessToken, "third");
    const { accessToken: again } = await raise(accessToken, second);
    const ids = (await factorsOf(again)).map((row: { id: string }) => row.id);
    expect(ids.sort()).toEqual([factor.factorId, second.factorId].sort());
  });

  test("verifying a second TOTP code in a session updates only the time of totp in amr", async () => {
    const { accessToken, factor, id } = await newRaisedSession();
    await sql("update auth.mfa_amr_claims set updated_at = updated_at - interval '1 hour' where session_id = $1", [id]);
    const { claims } = await raise(accessToken, factor);
    expect(claims.amr.map((entry: { method: string }) => entry.method)).toEqual(["totp", "password"]);
    expect(claims.amr[0].timestamp - claims.amr[1].timestamp).toBeGreaterThan(3_500);
  });

  test("14 concurrent verifications of one challenge leave one session and cause no server error", async () => {
    const { account, accessToken } = await newSession();
    const { factorId, secret } = await enroll(accessToken);
    const challengeId = await challenge(accessToken, factorId);
    const code = codeOf(secret);
    const answers = await Promise.all(
      Array.from({ length: 14 }, () => verifyCode(accessToken, { factorId, challengeId, code })),
    );
    expect(answers.some((answer) => answer.status === 200)).toBe(true);
    for (const answer of answers) expect(answer.status, answer.text).toBeLessThan(500);
    expect(await sql("select from auth.sessions where user_id = $1", [account.id])).toHaveLength(1);
  });
});

describe("DELETE /factors/:id", () => {
  test("deletes an unverified factor in a session at aal1", async () => {
    const { accessToken } = await newSession();
    const { factorId } = await enroll(accessToken);
    expect(expectOk(await call(`DELETE /factors/${factorId}`, { bearer: accessToken }))).toEqual({ id: factorId });
    expect(await factorsOf(accessToken)).toEqual([]);
  });

  test("refuses to delete a verified factor in a session at aal1 with 422 insufficient_aal", async () => {
    const { account, factor } = await newRaisedSession();
    const { accessToken } = await signIn(account);
    expectRefusal(await call(`DELETE /factors/${factor.factorId}`, { bearer: accessToken }), 422, "insufficient_aal");
  });

  test("after a factor is deleted, aal2 sessions drop to aal1 at their next refresh, and access tokens keep aal2 until then", async () => {
    const { id, accessToken, refreshToken, claims, factor } = await newRaisedSession();
    expectOk(await call(`DELETE /factors/${factor.factorId}`, { bearer: accessToken }));
    const [row] = await sql("select aal, factor_id from auth.sessions where id = $1", [id]);
    expect(row).toEqual({ aal: "aal1", factor_id: null });
    expect(claims.aal).toBe("aal2");
    const refreshed = sessionOf(expectOk(await refresh(refreshToken)));
    expect(refreshed.claims.aal).toBe("aal1");
    expect(refreshed.claims.amr).toMatchObject([{ method: "password" }]);
  });

  test("deleting another user's factor returns 404 mfa_factor_not_found", async () => {
    const [mine, other] = [await newSession(), await newSession()];
    const { factorId } = await enroll(other.accessToken);
    const answer = await call(`DELETE /factors/${factorId}`, { bearer: mine.accessToken });
    expectRefusal(answer, 404, "mfa_factor_not_found");
  });
});

describe("factors in the admin API", () => {
  test("the admin API returns a user's factors as a bare list", async () => {
    const { account, factor } = await newRaisedSession();
    const list = expectOk(await admin(`GET /admin/users/${account.id}/factors`));
    expect(list).toMatchObject([{ id: factor.factorId, status: "verified", factor_type: "totp" }]);
  });

  test("deleting a factor as an administrator drops sessions to aal1, as when the user deletes it", async () => {
    const { account, factor, refreshToken } = await newRaisedSession();
    const path = `/admin/users/${account.id}/factors/${factor.factorId}`;
    expect(expectOk(await admin(`DELETE ${path}`))).toMatchObject({ id: factor.factorId });
    expect(sessionOf(expectOk(await refresh(refreshToken))).claims.aal).toBe("aal1");
    expectRefusal(await admin(`DELETE ${path}`), 404, "mfa_factor_not_found");
  });

  test("the admin API returns 404 mfa_factor_not_found for a factor of another user", async () => {
    const [one, two] = [await newRaisedSession(), await newSession()];
    const answer = await admin(`DELETE /admin/users/${two.account.id}/factors/${one.factor.factorId}`);
    expectRefusal(answer, 404, "mfa_factor_not_found");
  });

  test("the admin API's factor routes refuse a user's token with 403 not_admin", async () => {
    const { account, accessToken } = await newRaisedSession();
    const answer = await call(`GET /admin/users/${account.id}/factors`, { bearer: accessToken });
    expectRefusal(answer, 403, "not_admin");
  });
});
