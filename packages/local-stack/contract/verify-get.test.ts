import { describe, expect, test } from "vitest";
import { newAccount, newEmail, password } from "./support/accounts.ts";
import { sql } from "./support/database.ts";
import { admin, call, expectOk, expectRefusal } from "./support/http.ts";
import { nextMail } from "./support/mail.ts";

async function recovering(fields: Record<string, unknown> = {}) {
  const account = await newAccount();
  expectOk(await call("POST /recover", { body: { email: account.email, ...fields } }));
  return { ...account, ...(await nextMail(account.email)) };
}

/** Opens an email's link without a browser. */
async function follow(token: string, type: string, redirectTo?: string) {
  const query = new URLSearchParams({ token, type, ...(redirectTo ? { redirect_to: redirectTo } : {}) });
  const answer = await call(`GET /verify?${query}`);
  const url = answer.location ? new URL(answer.location) : undefined;
  return { answer, url, fragment: new URLSearchParams(url?.hash.slice(1)) };
}

const challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

describe("GET /verify in the implicit flow", () => {
  test("GET /verify redirects with 303 to the site, with the tokens and an empty sb parameter in the fragment", async () => {
    const { tokenHash } = await recovering();
    const { answer, url, fragment } = await follow(tokenHash, "recovery");
    expect(answer.status).toBe(303);
    expect(url?.origin).toBe("http://localhost:3000");
    expect(url?.search).toBe("");
    expect(Object.fromEntries(fragment)).toEqual({
      access_token: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]+$/),
      expires_at: expect.stringMatching(/^\d+$/),
      expires_in: "3600",
      refresh_token: expect.stringMatching(/^[a-z2-7]{12}$/),
      sb: "",
      token_type: "bearer",
      type: "recovery",
    });
  });

  test("GET /verify returns a valid access token", async () => {
    const { id, tokenHash } = await recovering();
    const { fragment } = await follow(tokenHash, "magiclink");
    const user = expectOk(await call("GET /user", { bearer: fragment.get("access_token") ?? "" }));
    expect(user.id).toBe(id);
  });

  test("GET /verify confirms a sign-up", async () => {
    const email = newEmail();
    const { id } = expectOk(await call("POST /signup", { body: { email, password } }));
    const { tokenHash } = await nextMail(email);
    await follow(tokenHash, "signup");
    expect(expectOk(await admin(`GET /admin/users/${id}`))).toHaveProperty("email_confirmed_at");
  });

  test("GET /verify redirects to an allowed redirect_to", async () => {
    const { tokenHash } = await recovering();
    const { url } = await follow(tokenHash, "recovery", "https://app.example.test/after/this?a=b");
    expect(`${url?.origin}${url?.pathname}${url?.search}`).toBe("https://app.example.test/after/this?a=b");
  });

  test("GET /verify redirects to the site if redirect_to is not allowed", async () => {
    const { tokenHash } = await recovering();
    const { url } = await follow(tokenHash, "recovery", "https://evil.test/");
    expect(url?.origin).toBe("http://localhost:3000");
  });

  test("GET /verify redirects with 303 and the error in the fragment for a used token", async () => {
    const { tokenHash } = await recovering();
    await follow(tokenHash, "recovery");
    const { answer, url, fragment } = await follow(tokenHash, "recovery");
    expect(answer.status).toBe(303);
    expect(url?.search).toBe("");
    expect(Object.fromEntries(fragment)).toEqual({
      error: "access_denied",
      error_code: "otp_expired",
      error_description: expect.any(String),
      sb: "",
    });
  });

  test("GET /verify redirects a banned user with 303 and user_banned", async () => {
    const { id, tokenHash } = await recovering();
    expectOk(await admin(`PUT /admin/users/${id}`, { body: { ban_duration: "1h" } }));
    const { fragment } = await follow(tokenHash, "recovery");
    expect(fragment.get("error_code")).toBe("user_banned");
    expect(fragment.has("access_token")).toBe(false);
  });

  test("a HEAD request to /verify redeems nothing, since email scanners send it", async () => {
    const { tokenHash } = await recovering();
    expect((await call(`HEAD /verify?type=recovery&token=${tokenHash}`)).status).toBe(405);
    const { fragment } = await follow(tokenHash, "recovery");
    expect(fragment.has("access_token")).toBe(true);
  });

  test("GET /verify returns a plain 400 without a redirect if the token or type is missing", async () => {
    expectRefusal(await call("GET /verify?type=signup"), 400, "validation_failed");
    expectRefusal(await call("GET /verify?token=x"), 400, "validation_failed");
  });
});

describe("GET /verify in the PKCE flow", () => {
  const asked = { code_challenge: challenge, code_challenge_method: "s256" };

  test("GET /verify with a pkce_ token redirects with 303 and a code in the query, without a session yet", async () => {
    const { id, tokenHash } = await recovering(asked);
    expect(tokenHash).toMatch(/^pkce_[0-9a-f]{56}$/);
    const { answer, url } = await follow(tokenHash, "recovery", "https://app.example.test/cb?keep=1");
    expect(answer.status).toBe(303);
    expect(url?.searchParams.get("code")).toMatch(/^[0-9a-f]{8}-[0-9a-f-]{27}$/);
    expect(url?.searchParams.get("keep")).toBe("1");
    expect(url?.hash).toBe("");
    expect(await sql("select from auth.sessions where user_id = $1", [id])).toHaveLength(0);
  });

  test("GET /verify in the PKCE flow reports a failure in both query and fragment", async () => {
    const { answer, url, fragment } = await follow(`pkce_${"0".repeat(56)}`, "recovery");
    expect(answer.status).toBe(303);
    expect(url?.searchParams.get("error_code")).toBe("otp_expired");
    expect(url?.searchParams.get("error")).toBe("access_denied");
    expect(fragment.get("error_code")).toBe("otp_expired");
  });

  test.each(["email", "nonsense"])(
    "GET /verify with a pkce_ token and type %s returns 500 without a redirect, and keeps the token valid",
    async (type) => {
      const { tokenHash } = await recovering(asked);
      const { answer } = await follow(tokenHash, type);
      expectRefusal(answer, 500, "unexpected_failure");
      expect((await follow(tokenHash, "recovery")).url?.searchParams.has("code")).toBe(true);
    },
  );

  test("POST /verify can redeem a token of the PKCE flow, and creates a session immediately", async () => {
    const { id, email, code } = await recovering(asked);
    const answer = await call("POST /verify", { body: { type: "recovery", email, token: code } });
    expect(expectOk(answer).user.id).toBe(id);
    const other = await recovering(asked);
    const byHash = await call("POST /verify", { body: { type: "recovery", token_hash: other.tokenHash } });
    expect(expectOk(byHash).user.id).toBe(other.id);
  });
});
