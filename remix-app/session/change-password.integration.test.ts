import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { mailsTo } from "../../e2e/mailbox.ts";
import { type Account, createAccount } from "../../scripts/test/account.ts";
import { query } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { openBrowser } from "../testing/browser.ts";

const { base } = readStack();
const path = "/settings/security/password";
const renewed = "quite another password";
let account: Account;

beforeEach(async () => {
  account = await createAccount();
});
afterEach(() => account.remove());

async function signIn(password = account.password) {
  const browser = openBrowser(base);
  const { location } = await browser.post("/login", { email: account.email, password });
  return { browser, signedIn: location === "/" };
}
const newestMail = async (subject: string) =>
  (await mailsTo(account.email)).findLast((mail) => mail.subject === subject);

describe("changing a password", () => {
  test("a changed password works immediately, ends all other sessions, and notifies the owner by email", async () => {
    const [{ browser }, { browser: elsewhere }] = [await signIn(), await signIn()];
    const answer = await browser.post(path, { password: renewed });
    expect(answer.location).toBe("/settings/security#password");
    const { status, words } = await browser.get("/settings/security");
    expect(status).toBe(200);
    expect(words).toContain("Password changed.");
    expect((await browser.get("/settings/security")).words).not.toContain("Password changed.");
    expect((await elsewhere.get("/settings/security")).location).toContain("/login");
    expect([(await signIn()).signedIn, (await signIn(renewed)).signedIn]).toEqual([false, true]);
    await expect.poll(() => newestMail("Your Gatehouse password was changed")).toBeDefined();
    expect((await newestMail("Your Gatehouse password was changed"))?.text).toContain(`${base}/forgot-password`);
  });

  test.each([
    ["short", "Choose a password of at least 8 characters"],
    ["correct horse battery", "Choose a different password from your current one"],
    ["x".repeat(73), "at most 72 bytes"],
  ])("a new password is rejected: %s", async (password, message) => {
    const { browser } = await signIn();
    const answer = await browser.post(path, { password });
    expect(answer).toMatchObject({ status: 400, words: expect.stringContaining(message) });
    expect(answer.text).not.toContain(`value="${password}"`);
    expect((await signIn()).signedIn).toBe(true);
    expect(await newestMail("Your Gatehouse password was changed")).toBeUndefined();
  });

  test("changing a password in a session older than a day requires the backend's emailed code", async () => {
    const { browser } = await signIn();
    await query("update auth.sessions set created_at = now() - interval '25 hours' where user_id = $1", [account.id]);
    const asked = await browser.post(path, { password: renewed });
    expect(asked).toMatchObject({ status: 400, words: expect.stringContaining("we emailed you a code") });
    expect(asked.text).toContain('name="code"');
    await expect.poll(() => newestMail("Your Gatehouse confirmation code")).toBeDefined();
    const mail = await newestMail("Your Gatehouse confirmation code");
    const code = /\b\d{6,10}\b/.exec(mail?.text ?? "")?.[0] ?? "";

    const wrong = await browser.post(path, { password: renewed, code: code === "000000" ? "000001" : "000000" });
    expect(wrong).toMatchObject({ status: 400, words: expect.stringContaining("This code isn’t the newest one") });
    expect(wrong.text).toContain('name="code"');
    const malformed = await browser.post(path, { password: renewed, code: "12x" });
    expect(malformed).toMatchObject({
      status: 400,
      words: expect.stringContaining("Enter only the digits from the email"),
    });
    expect((await signIn(renewed)).signedIn).toBe(false);

    const spaced = `${code.slice(0, 3)} ${code.slice(3)}`;
    expect((await browser.post(path, { password: renewed, code: spaced })).status).toBe(303);
    expect((await signIn(renewed)).signedIn).toBe(true);
  });

  test("the owner is notified that a password was added, not changed, if the account had none", async () => {
    const { browser } = await signIn();
    await query("update auth.users set encrypted_password = '' where id = $1", [account.id]);
    expect((await browser.get("/settings/security")).words).toContain("Set password");
    await browser.post(path, { password: renewed });
    expect((await browser.get("/settings/security")).words).toContain("Password set.");
    expect((await signIn(renewed)).signedIn).toBe(true);
    await expect.poll(() => newestMail("A password was added to your Gatehouse account")).toBeDefined();
  });

  test("the owner is notified that a password was added, not changed, if an emailed link set the account's first password", async () => {
    const { browser } = await signIn();
    await query("update auth.users set encrypted_password = '' where id = $1", [account.id]);
    expect((await browser.post("/reset-password", { password: renewed })).status).toBe(200);
    expect((await signIn(renewed)).signedIn).toBe(true);
    await expect.poll(() => newestMail("A password was added to your Gatehouse account")).toBeDefined();
    expect(await newestMail("Your Gatehouse password was changed")).toBeUndefined();
  });
});

test("password managers are redirected to the page that changes the password", async () => {
  const response = await fetch(new URL("/.well-known/change-password", base), { redirect: "manual" });
  expect([response.status, response.headers.get("location")]).toEqual([302, path]);
});
