import { createHash, randomBytes } from "node:crypto";
import { test } from "vitest";
import { newAccount } from "../support/accounts.ts";
import { sql } from "../support/database.ts";
import { call, expectOk, expectRefusal } from "../support/http.ts";
import { nextMail } from "../support/mail.ts";

/** Requests an email, opens its link `minutes` later, and exchanges the code. */
async function lateClick(route: string, type: string, minutes: number) {
  const { id, email } = await newAccount();
  const code_verifier = randomBytes(42).toString("base64url");
  const code_challenge = createHash("sha256").update(code_verifier).digest("base64url");
  expectOk(await call(route, { body: { email, code_challenge, code_challenge_method: "s256" } }));
  const { tokenHash } = await nextMail(email);
  await sql("update auth.flow_state set created_at = created_at - make_interval(mins => $2) where user_id = $1", [
    id,
    minutes,
  ]);
  const { location } = await call(`GET /verify?type=${type}&token=${tokenHash}`);
  const auth_code = new URL(location).searchParams.get("code");
  return call("POST /token?grant_type=pkce", { body: { auth_code, code_verifier } });
}

test("a recovery link works after six minutes, but exchanging its code fails with 422 flow_state_expired", async () => {
  expectRefusal(await lateClick("POST /recover", "recovery", 6), 422, "flow_state_expired");
});

test("a recovery link works after four minutes, and so does exchanging its code", async () => {
  expectOk(await lateClick("POST /recover", "recovery", 4));
});

test("the time limit for exchanging a magic link's code starts with the click, not with the request", async () => {
  expectOk(await lateClick("POST /otp", "magiclink", 6));
});
