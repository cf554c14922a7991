import { createClient } from "@supabase/supabase-js";
import { describe, expect, onTestFinished, test } from "vitest";
import { mailsTo } from "../../e2e/mailbox.ts";
import {
  deletePerson,
  insertAccount,
  insertAuthenticators,
  query,
  signedInLongAgo,
} from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { codeOf } from "../testing/authenticator-app.ts";
import { accessTokenOf, openBrowser } from "../testing/browser.ts";

const { base, supabase } = readStack();
const reauthentication = "Your Gatehouse confirmation code";
const refusal = "Choose a password that’s harder to guess";

async function createOwner(password: string) {
  const email = `ada.${crypto.randomUUID().slice(0, 8)}@integration.gatehouse.test`;
  const id = await insertAccount({ email, password });
  onTestFinished(() => deletePerson({ id }));
  return { id, email, password };
}

test.each(["12345678", "password", "        ", "Gatehouse1"])(
  "a sign-up with the easily guessed password %j is rejected",
  async (password) => {
    const email = `${crypto.randomUUID().slice(0, 8)}@integration.gatehouse.test`;
    const answer = await openBrowser(base).post("/signup", { email, password });
    expect(answer.status).toBe(400);
    expect(answer.words).toContain(refusal);
  },
);

test("a sign-up with a password made of the typed name is rejected", async () => {
  const email = `${crypto.randomUUID().slice(0, 8)}@integration.gatehouse.test`;
  const answer = await openBrowser(base).post("/signup", { name: "Grace Hopper", email, password: "gracehopper 99" });
  expect(answer.status).toBe(400);
  expect(answer.words).toContain(refusal);
});

test("a sign-in with a common password requires a new one, and then continues to the destination", async () => {
  const { email, password } = await createOwner("12345678");
  const browser = openBrowser(base);
  const { location } = await browser.post("/login", { email, password, returnUrl: "/settings/profile" });
  expect(location).toBe("/reset-password?listed=&returnUrl=%2Fsettings%2Fprofile");
  expect((await browser.get(location ?? "")).words).toContain("Your password is too common");
  expect((await browser.post(location ?? "", { password: email })).words).toContain(refusal);
  const changed = await browser.post(location ?? "", { password: "three unrelated words" });
  expect(changed.words).toContain("Password changed");
  expect(changed.text).toContain('href="/settings/profile"');
  const again = await openBrowser(base).post("/login", { email, password: "three unrelated words" });
  expect(again.location).toBe("/");
});

describe("a session that began with a common password", () => {
  async function signIn() {
    const owner = await createOwner("12345678");
    const browser = openBrowser(base);
    const { location } = await browser.post("/login", { email: owner.email, password: owner.password });
    return { ...owner, browser, page: location ?? "" };
  }
  const leadsBack = "/reset-password?listed=&returnUrl=";

  test("a session that began with a common password cannot use the app until the password is replaced", async () => {
    const { email, browser, page } = await signIn();
    for (const path of ["/", "/workspaces", "/settings/profile", "/settings/security/access"]) {
      expect((await browser.get(path)).location).toBe(`${leadsBack}${encodeURIComponent(path)}`);
    }
    expect((await browser.get("/mfa/enroll")).location).toContain(leadsBack);
    expect((await browser.post("/settings/profile", { displayName: "Ada" })).location).toContain(leadsBack);
    const refused = await browser.sendJson("GET", "/api/v1/users/me/sessions");
    expect([refused.status, JSON.parse(refused.text).code]).toEqual([403, "FORBIDDEN"]);
    const bearer = await fetch(new URL("/api/v1/users/me/sessions", base), {
      headers: { authorization: `Bearer ${accessTokenOf(browser)}`, "user-agent": "Phone" },
    });
    expect([bearer.status, (await bearer.json()).code]).toEqual([403, "FORBIDDEN"]);

    // The page shows the same message even without query parameters.
    expect((await browser.get("/reset-password")).words).toContain("Your password is too common");
    expect((await browser.post(page, { password: email })).status).toBe(400);
    expect((await browser.get("/workspaces")).location).toContain(leadsBack);
    expect((await browser.post(page, { password: "three unrelated words" })).status).toBe(200);
    expect((await browser.get("/workspaces")).status).toBe(200);
    expect((await browser.sendJson("GET", "/api/v1/users/me/sessions")).status).toBe(200);
  });

  test("a session that began with a common password may sign out from the page that replaces the password", async () => {
    const { browser, page } = await signIn();
    expect((await browser.get(page)).text).toContain('value="sign_out"');
    expect((await browser.post("/accounts", { intent: "sign_out" })).status).toBe(303);
    expect((await browser.get("/workspaces")).location).toContain("/login");
  });

  test("signing in again or in another browser doesn't lift the restriction for a common password", async () => {
    const { email, password, browser, page } = await signIn();
    const other = openBrowser(base);
    await other.post("/login", { email, password });
    expect((await browser.get("/workspaces")).location).toContain(leadsBack);
    expect((await other.get("/workspaces")).location).toContain(leadsBack);
    const again = await browser.post("/login", { email, password, returnUrl: "/workspaces" });
    expect(again.location).toBe("/reset-password?listed=&returnUrl=%2Fworkspaces");
    expect((await browser.get("/workspaces")).location).toContain(leadsBack);
    expect((await browser.get(page)).status).toBe(200);
  });

  test("a session is restricted even if a common password was used only for its step-up", async () => {
    const { email, password } = await createOwner("12345678");
    const browser = await signedInLongAgo({ email, password }, { secondsAgo: 3_600 });
    expect((await browser.get("/workspaces")).status).toBe(200);
    const { location } = await browser.post("/step-up?returnUrl=%2Fsettings%2Fsecurity%2Faccess", { password });
    expect(location).toBe(`${leadsBack}%2Fsettings%2Fsecurity%2Faccess`);
    expect((await browser.get("/workspaces")).location).toContain(leadsBack);
    expect((await browser.get(location ?? "")).status).toBe(200);
  });

  test("in a restricted session older than a day, replacing the password requires an emailed code", async () => {
    const { id, email, browser, page } = await signIn();
    await query("update auth.sessions set created_at = now() - interval '25 hours' where user_id = $1", [id]);
    const password = "three unrelated words";
    const { location } = await browser.post(page, { password });
    expect(location).toBe("/settings/security/password");
    const asked = await browser.post(location ?? "", { password });
    expect(asked).toMatchObject({ status: 400, words: expect.stringContaining("we emailed you a code") });
    const codeOfMail = async () =>
      /\b\d{6,10}\b/.exec(
        (await mailsTo(email)).findLast(({ subject }) => subject === reauthentication)?.text ?? "",
      )?.[0];
    await expect.poll(codeOfMail).toBeDefined();
    const changed = await browser.post(location ?? "", { password, code: (await codeOfMail()) ?? "" });
    expect(changed.location).toBe("/settings/security#password");
    expect((await browser.get("/workspaces")).status).toBe(200);
  });

  test("a session is no longer restricted once the common password was changed elsewhere", async () => {
    const { id, email, password, browser } = await signIn();
    const { auth } = createClient(supabase.url, supabase.publishableKey, { auth: { persistSession: false } });
    await auth.signInWithPassword({ email, password });
    expect(await query("select from private.password_replacements where user_id = $1", [id])).toHaveLength(1);
    await auth.updateUser({ password: "three unrelated words" });
    expect(await query("select from private.password_replacements where user_id = $1", [id])).toEqual([]);
    expect((await browser.get("/workspaces")).location).toContain("/login");
  });
});

test("a sign-in with the person's own name as the password requires a password change", async () => {
  const { id, email, password } = await createOwner("hopper1906");
  await query("update public.profiles set display_name = 'Grace Hopper' where id = $1", [id]);
  const { location } = await openBrowser(base).post("/login", { email, password });
  expect(location).toBe("/reset-password?listed=&returnUrl=%2F");
});

test("asks for the second factor before it shows the page that replaces a common password", async () => {
  const { id, email, password } = await createOwner("12345678");
  const [app] = await insertAuthenticators({ id }, ["Phone"]);
  if (!app) throw new Error("no app");
  const browser = openBrowser(base);
  const { location } = await browser.post("/login", { email, password, returnUrl: "/workspaces" });
  const page = "/reset-password?listed=&returnUrl=%2Fworkspaces";
  expect(location).toBe(`/mfa?${new URLSearchParams({ returnUrl: page })}`);
  expect((await browser.get(page)).location).toBe(location);
  const proved = await browser.post(location ?? "", { factorId: app.factorId, code: codeOf(app) });
  expect(proved.location).toBe(page);
  expect((await browser.get(page)).words).toContain("Your password is too common");
});
