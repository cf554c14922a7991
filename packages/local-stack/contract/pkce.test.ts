import { createHash, randomBytes, randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { newAccount, newEmail, newSession, password, sessionOf } from "./support/accounts.ts";
import { sql } from "./support/database.ts";
import { admin, call, expectOk, expectRefusal } from "./support/http.ts";
import { nextMail } from "./support/mail.ts";

const s256 = (verifier: string) => createHash("sha256").update(verifier).digest("base64url");
const newVerifier = () => randomBytes(42).toString("base64url");
const exchange = (auth_code: string, code_verifier: string) =>
  call("POST /token?grant_type=pkce", { body: { auth_code, code_verifier } });

type Asked = { verifier: string; code: string; flowId: string };

/** Requests an email with a PKCE challenge and opens its link. */
async function askedFor(
  route: string,
  type: string,
  given: { email: string } & Record<string, unknown>,
  bearer?: string,
) {
  const verifier = newVerifier();
  const { mailbox, ...body } = { mailbox: given.email, ...given };
  const challenge = { code_challenge: s256(verifier), code_challenge_method: "s256" };
  expectOk(await call(route, { body: { ...body, ...challenge }, bearer }));
  const { tokenHash } = await nextMail(String(mailbox));
  return { verifier, code: await codeFrom(tokenHash, type) };
}

async function codeFrom(tokenHash: string, type: string): Promise<string> {
  const answer = await call(`GET /verify?type=${type}&token=${tokenHash}`);
  return new URL(answer.location).searchParams.get("code") ?? "";
}

async function recovering(): Promise<Asked & { id: string; email: string }> {
  const { id, email } = await newAccount();
  const asked = await askedFor("POST /recover", "recovery", { email });
  const [flow] = await sql<{ id: string }>("select id from auth.flow_state where auth_code = $1", [asked.code]);
  return { id, email, ...asked, flowId: flow?.id ?? "" };
}

describe("POST /token?grant_type=pkce", () => {
  test("POST /token?grant_type=pkce exchanges a code for a session only once", async () => {
    const { id, code, verifier } = await recovering();
    expect(sessionOf(expectOk(await exchange(code, verifier))).user.id).toBe(id);
    expectRefusal(await exchange(code, verifier), 404, "flow_state_not_found");
  });

  test("a code exchange refuses a wrong verifier with 400 bad_code_verifier and keeps the code valid", async () => {
    const { code, verifier } = await recovering();
    expectRefusal(await exchange(code, newVerifier()), 400, "bad_code_verifier");
    expectRefusal(await exchange(code, s256(verifier)), 400, "bad_code_verifier");
    expectOk(await exchange(code, verifier));
  });

  test("a code exchange refuses an unknown code with 404 flow_state_not_found", async () => {
    expectRefusal(await exchange(randomUUID(), newVerifier()), 404, "flow_state_not_found");
  });

  test.each([
    ["", "verifier"],
    ["code", ""],
  ])("a code exchange with code %j and verifier %j returns 400 validation_failed", async (code, verifier) => {
    expectRefusal(await exchange(code, verifier), 400, "validation_failed");
  });

  test("a code exchange with the method plain compares the verifier literally", async () => {
    const { email } = await newAccount();
    const verifier = newVerifier();
    const body = { email, code_challenge: verifier, code_challenge_method: "plain" };
    expectOk(await call("POST /recover", { body }));
    const code = await codeFrom((await nextMail(email)).tokenHash, "recovery");
    expectRefusal(await exchange(code, newVerifier()), 400, "bad_code_verifier");
    expectOk(await exchange(code, verifier));
  });

  test("a code exchange fails with 422 flow_state_expired 300 seconds after the recovery request", async () => {
    const { code, verifier, flowId } = await recovering();
    const age = (seconds: number) =>
      sql("update auth.flow_state set created_at = created_at - make_interval(secs => $2) where id = $1", [
        flowId,
        seconds,
      ]);
    await age(290);
    expectRefusal(await exchange(code, newVerifier()), 400, "bad_code_verifier");
    await age(11);
    expectRefusal(await exchange(code, verifier), 422, "flow_state_expired");
  });

  test("15 concurrent code exchanges create at least one session, without server errors", async () => {
    const { code, verifier } = await recovering();
    const answers = await Promise.all(Array.from({ length: 15 }, () => exchange(code, verifier)));
    expect(answers.some((answer) => answer.status === 200)).toBe(true);
    for (const answer of answers) expect(answer.status, answer.text).toBeLessThan(500);
    expectRefusal(await exchange(code, verifier), 404, "flow_state_not_found");
  });
});

describe("a code exchange", () => {
  const methodOf = async ({ code, verifier }: { code: string; verifier: string }) =>
    sessionOf(expectOk(await exchange(code, verifier))).claims.amr[0].method;

  test("the code of a recovery link creates a session with the amr method recovery", async () => {
    expect(await methodOf(await recovering())).toBe("recovery");
  });

  test("the code of a magic link creates a session with the amr method magiclink", async () => {
    const { email } = await newAccount();
    expect(await methodOf(await askedFor("POST /otp", "magiclink", { email }))).toBe("magiclink");
  });

  test("the code of a sign-up link creates a session with the amr method email/signup", async () => {
    const asked = await askedFor("POST /signup", "signup", { email: newEmail(), password });
    expect(await methodOf(asked)).toBe("email/signup");
  });

  test("the code of an email change creates a session with the amr method email_change", async () => {
    const { account, accessToken } = await newSession();
    const email = newEmail();
    const verifier = newVerifier();
    const body = { email, code_challenge: s256(verifier), code_challenge_method: "s256" };
    expectOk(await call("PUT /user", { bearer: accessToken, body }));
    const toOld = (await nextMail(account.email)).tokenHash;
    const half = await call(`GET /verify?type=email_change&token=${toOld}`);
    expect(new URL(half.location).searchParams.get("message")).toEqual(expect.any(String));
    const code = await codeFrom((await nextMail(email)).tokenHash, "email_change");
    expect(await methodOf({ code, verifier })).toBe("email_change");
  });

  test("a link created without a PKCE challenge carries no code to exchange", async () => {
    const { email } = await newAccount();
    const { hashed_token } = expectOk(await admin("POST /admin/generate_link", { body: { type: "recovery", email } }));
    expect(await codeFrom(hashed_token, "recovery")).toBe("");
  });
});
