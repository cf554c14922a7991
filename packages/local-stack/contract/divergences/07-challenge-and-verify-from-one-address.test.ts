import { test } from "vitest";
import { newSession } from "../support/accounts.ts";
import { call, expectOk, expectRefusal } from "../support/http.ts";
import { codeOf, enroll } from "../support/totp.ts";

async function challengedFrom(address: string) {
  const { accessToken: bearer } = await newSession();
  const { factorId, secret } = await enroll(bearer);
  const headers = { "X-Forwarded-For": address };
  const { id } = expectOk(await call(`POST /factors/${factorId}/challenge`, { bearer, body: {}, headers }));
  return (from: string) =>
    call(`POST /factors/${factorId}/verify`, {
      bearer,
      body: { challenge_id: id, code: codeOf(secret) },
      headers: { "X-Forwarded-For": from },
    });
}

test("refuses a correct TOTP code with 422 mfa_ip_address_mismatch if its IP address differs from the challenge's", async () => {
  const verifyFrom = await challengedFrom("203.0.113.5");
  expectRefusal(await verifyFrom("203.0.113.6"), 422, "mfa_ip_address_mismatch");
  expectOk(await verifyFrom("203.0.113.5"));
});

test("treats two spellings of an IP address as the same when it verifies a TOTP code", async () => {
  const verifyFrom = await challengedFrom("2001:db8::1");
  expectOk(await verifyFrom("2001:0db8:0:0:0:0:0:1"));
});
