import { describe, expect, test } from "vitest";
import { newAccount, newEmail, password } from "./support/accounts.ts";
import { sql } from "./support/database.ts";
import { type Answer, admin, call, expectOk } from "./support/http.ts";
import { newPerson, oauthFlow } from "./support/oauth-flow.ts";
import { newRaisedSession } from "./support/totp.ts";

const { signInAs, userOf } = oauthFlow();

describe("what a response reveals about an email address", () => {
  const kinds: Record<string, () => Promise<string>> = {
    unknown: async () => newEmail(),
    known: async () => (await newAccount()).email,
    banned: async () => (await newAccount({ ban_duration: "1h" })).email,
    "with a provider alone": async () => (await userOf((await signInAs(newPerson())).fragment)).email,
    unconfirmed: async () => (await newAccount({ email_confirm: false })).email,
  };
  const seen = ({ status, text, headers }: Answer) => ({ status, text, headers: [...headers.keys()].sort() });

  test.each<[string, string, { answer: string; except?: Record<string, string> }]>([
    ["token?grant_type=password", "", { answer: "400 invalid_credentials", except: { banned: "400 user_banned" } }],
    ["recover", "", { answer: "200" }],
    ["otp", "", { answer: "200", except: { unknown: "422 otp_disabled" } }],
    ["resend", "signup", { answer: "200" }],
    ["resend", "email_change", { answer: "200" }],
    ["verify", "recovery", { answer: "403 otp_expired", except: { banned: "403 user_banned" } }],
  ])(
    "POST /%s with type '%s' returns the same response for known and unknown emails, apart from the exceptions in %j",
    async (route, type, { answer: usual, except = {} }) => {
      const same = new Set<string>();
      for (const [kind, newAddress] of Object.entries(kinds)) {
        const body = {
          email: await newAddress(),
          password: "wrong horse 1",
          create_user: false,
          type,
          token: "123456",
        };
        const answer = await call(`POST /${route}`, { body });
        expect([answer.status, answer.body.code].join(" ").trim(), kind).toBe(except[kind] ?? usual);
        if (!(kind in except)) same.add(JSON.stringify(seen(answer)));
      }
      expect([...same]).toHaveLength(1);
    },
  );

  const madeUp = async (email: string) => expectOk(await call("POST /signup", { body: { email, password } }));
  const usual =
    "aud role email phone confirmation_sent_at app_metadata user_metadata identities created_at updated_at is_anonymous id";

  test("POST /signup with a known email returns exactly the fields of a new user", async () => {
    for (const kind of ["unknown", "known", "unconfirmed"]) {
      const user = await madeUp((await kinds[kind]?.()) ?? "");
      expect(Object.keys(user).sort(), kind).toEqual(usual.split(" ").sort());
    }
  });

  test("POST /signup with a known email reveals a ban, factors and the times of emails, but neither metadata nor a pending new email", async () => {
    const { account, accessToken, factor } = await newRaisedSession();
    expectOk(await call("PUT /user", { bearer: accessToken, body: { email: newEmail(), data: { hidden: 1 } } }));
    expectOk(await call("POST /recover", { body: { email: account.email } }));
    expectOk(await call("GET /reauthenticate", { bearer: accessToken }));
    await sql("update auth.users set invited_at = now() where id = $1", [account.id]);
    expectOk(
      await admin(`PUT /admin/users/${account.id}`, { body: { ban_duration: "1h", app_metadata: { role: 1 } } }),
    );
    const user = await madeUp(account.email);
    const told = "banned_until factors invited_at reauthentication_sent_at recovery_sent_at";
    expect(Object.keys(user).sort()).toEqual(`${usual} ${told}`.split(" ").sort());
    expect(user).toMatchObject({ role: "", identities: [], user_metadata: {}, factors: [{ id: factor.factorId }] });
    expect(user.app_metadata).toEqual({ provider: "email", providers: ["email"] });
    expect(user.id).not.toBe(account.id);
    expect(await sql("select from auth.users where id = $1 and email_change <> ''", [account.id])).toHaveLength(1);
  });
});
