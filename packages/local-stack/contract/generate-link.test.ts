import { describe, expect, test } from "vitest";
import { newAccount, newEmail, password, sessionOf, signIn } from "./support/accounts.ts";
import { sql } from "./support/database.ts";
import { admin, call, expectOk, expectRefusal } from "./support/http.ts";
import { mailsTo, nextMail } from "./support/mail.ts";

const generate = (body: Record<string, unknown>) => admin("POST /admin/generate_link", { body });
const redeem = (type: string, token_hash: string) => call("POST /verify", { body: { type, token_hash } });

describe("POST /admin/generate_link", () => {
  test("POST /admin/generate_link returns the user's and the link's fields in one object, and sends no email", async () => {
    const { id, email } = await newAccount();
    const link = expectOk(await generate({ type: "recovery", email, redirect_to: "https://app.example.test/reset" }));
    expect(link).toMatchObject({
      id,
      email,
      action_link: expect.any(String),
      email_otp: expect.stringMatching(/^\d{6}$/),
      hashed_token: expect.stringMatching(/^[0-9a-f]{56}$/),
      verification_type: "recovery",
      redirect_to: "https://app.example.test/reset",
    });
    const url = new URL(link.action_link);
    expect(url.searchParams.get("token")).toBe(link.hashed_token);
    expect(url.searchParams.get("type")).toBe("recovery");
    expect(url.searchParams.get("redirect_to")).toBe("https://app.example.test/reset");
    expect(await mailsTo(email)).toEqual([]);
  });

  test.each(["recovery", "magiclink"])("a generated link of type %s can be redeemed only once", async (type) => {
    const { id, email } = await newAccount();
    const { hashed_token } = expectOk(await generate({ type, email }));
    expect(sessionOf(expectOk(await redeem(type, hashed_token))).user.id).toBe(id);
    expectRefusal(await redeem(type, hashed_token), 403, "otp_expired");
  });

  test("the code of a generated link can be redeemed together with the email", async () => {
    const { email } = await newAccount();
    const { email_otp } = expectOk(await generate({ type: "magiclink", email }));
    expectOk(await call("POST /verify", { body: { type: "magiclink", email, token: email_otp } }));
  });

  test("POST /admin/generate_link can create a second link without a pause", async () => {
    const { email } = await newAccount();
    expectOk(await generate({ type: "recovery", email }));
    expectOk(await generate({ type: "recovery", email }));
  });

  test("generating a magiclink for an unknown email signs the user up", async () => {
    const email = newEmail();
    const link = expectOk(await generate({ type: "magiclink", email, data: { name: "N" } }));
    expect(link).toMatchObject({ email, verification_type: "signup" });
    expect(link.user_metadata).toEqual({ name: "N" });
    const session = sessionOf(expectOk(await redeem("signup", link.hashed_token)));
    expect(session.user).toMatchObject({ email, email_confirmed_at: expect.any(String) });
  });

  test.each(["recovery", "email_change_current", "email_change_new"])(
    "generating a %s link for an unknown email returns 404 user_not_found",
    async (type) => {
      expectRefusal(await generate({ type, email: newEmail(), new_email: newEmail() }), 404, "user_not_found");
    },
  );

  test("generating a signup link creates an account with the password, and returns 422 for a confirmed account", async () => {
    const email = newEmail();
    const link = expectOk(await generate({ type: "signup", email, password, data: { name: "N" } }));
    expect(link).toMatchObject({ verification_type: "signup", user_metadata: { name: "N" } });
    expectOk(await redeem("signup", link.hashed_token));
    await signIn({ email });
    expectRefusal(await generate({ type: "signup", email, password }), 422, "email_exists");
  });

  test("generating a signup link for an unconfirmed account merges the given data into the user's metadata", async () => {
    const email = newEmail();
    expectOk(await generate({ type: "signup", email, password, data: { a: 1, b: 2 } }));
    const link = expectOk(await generate({ type: "signup", email, password, data: { b: null, c: 3 } }));
    expect(link.user_metadata).toMatchObject({ a: 1, c: 3 });
    expect(link.user_metadata).not.toHaveProperty("b");
  });

  test("generating a signup link for a new account requires a strong password", async () => {
    expectRefusal(await generate({ type: "signup", email: newEmail() }), 400, "validation_failed");
    expectRefusal(await generate({ type: "signup", email: newEmail(), password: "12345" }), 422, "weak_password");
  });

  test("generating an invite creates an account without a password, and accepting it confirms the account", async () => {
    const email = newEmail();
    const link = expectOk(await generate({ type: "invite", email, data: { name: "N" } }));
    expect(link).toMatchObject({ verification_type: "invite", invited_at: expect.any(String) });
    const session = sessionOf(expectOk(await redeem("invite", link.hashed_token)));
    expect(session.user).toMatchObject({ email, email_confirmed_at: expect.any(String) });
    expectRefusal(await generate({ type: "invite", email }), 422, "email_exists");
  });

  test("generated email_change links take effect once both are opened", async () => {
    const { id, email } = await newAccount();
    const new_email = newEmail();
    const linkOf = async (type: string) =>
      new URL(expectOk(await generate({ type, email, new_email })).action_link).searchParams.get("token") ?? "";
    const toNew = await linkOf("email_change_new");
    const toOld = await linkOf("email_change_current");
    expect(expectOk(await redeem("email_change", toOld))).toMatchObject({ code: "200" });
    expect(sessionOf(expectOk(await redeem("email_change", toNew))).user).toMatchObject({ id, email: new_email });
  });

  test("generating an email_change link to another account's email returns 422 email_exists", async () => {
    const [one, two] = [await newAccount(), await newAccount()];
    const body = { type: "email_change_new", email: one.email, new_email: two.email };
    expectRefusal(await generate(body), 422, "email_exists");
  });

  test.each(["email_change_current", "email_change_new"])(
    "a link of type %s to the account's own email is refused with 422 email_exists",
    async (type) => {
      const { email } = await newAccount();
      expectRefusal(await generate({ type, email, new_email: email }), 422, "email_exists");
    },
  );

  test.each([[{ type: "nonsense" }], [{}], [{ type: "recovery", email: "none" }]])(
    "POST /admin/generate_link refuses %j with 400 validation_failed",
    async (body) => {
      const { email } = await newAccount();
      expectRefusal(await generate({ email, ...body }), 400, "validation_failed");
    },
  );

  test("POST /admin/generate_link ignores a redirect_to that is not allowed", async () => {
    const { email } = await newAccount();
    const link = expectOk(await generate({ type: "recovery", email, redirect_to: "https://evil.test" }));
    expect(link.redirect_to).toBe("http://localhost:3000");
  });

  test("POST /admin/generate_link creates a link for a banned user, who then cannot redeem it", async () => {
    const { email } = await newAccount({ ban_duration: "1h" });
    const { hashed_token } = expectOk(await generate({ type: "magiclink", email }));
    expectRefusal(await redeem("magiclink", hashed_token), 403, "user_banned");
  });

  test("a generated link invalidates the pending recovery email and delays the next one", async () => {
    const { id, email } = await newAccount();
    expectOk(await call("POST /recover", { body: { email } }));
    const { tokenHash } = await nextMail(email);
    await sql("update auth.users set recovery_sent_at = now() - interval '10 minutes' where id = $1", [id]);
    expectOk(await generate({ type: "magiclink", email }));
    expectRefusal(await redeem("recovery", tokenHash), 403, "otp_expired");
    expectRefusal(await call("POST /recover", { body: { email } }), 429, "over_email_send_rate_limit");
  });
});

describe("POST /invite", () => {
  const invite = (body: Record<string, unknown>) => admin("POST /invite", { body });

  test("POST /invite creates an account and emails an invitation, which confirms the account and signs in", async () => {
    const email = newEmail();
    const user = expectOk(await invite({ email, data: { team: "a" } }));
    expect(user).toMatchObject({ email, invited_at: expect.any(String), user_metadata: { team: "a" } });
    const { tokenHash } = await nextMail(email);
    const session = sessionOf(expectOk(await redeem("invite", tokenHash)));
    expect(session.user).toMatchObject({ id: user.id, email_confirmed_at: expect.any(String) });
  });

  test("POST /invite sends another email without a pause if the invitation has not been accepted", async () => {
    const email = newEmail();
    const first = expectOk(await invite({ email }));
    expect(expectOk(await invite({ email })).id).toBe(first.id);
    await nextMail(email, 1);
  });

  test("POST /invite refuses a confirmed account with 422 email_exists", async () => {
    const { email } = await newAccount();
    expectRefusal(await invite({ email }), 422, "email_exists");
  });

  test("POST /invite refuses a caller who is not an administrator with 401", async () => {
    expectRefusal(await call("POST /invite", { body: { email: newEmail() } }), 401, "no_authorization");
  });
});
