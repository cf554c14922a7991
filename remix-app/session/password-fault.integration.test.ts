import { expect, onTestFinished, test } from "vitest";
import { deletePerson, insertAccount, insertAuthenticators, query } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { codeOf } from "../testing/authenticator-app.ts";
import { openBrowser } from "../testing/browser.ts";

const { base } = readStack();
const refusal = "Choose a password that is harder to guess";

async function createOwner(password: string) {
  const email = `ada.${crypto.randomUUID().slice(0, 8)}@integration.gatehouse.test`;
  const id = await insertAccount({ email, password });
  onTestFinished(() => deletePerson({ id }));
  return { id, email, password };
}

test.each(["12345678", "password", "        ", "Gatehouse1"])(
  "a sign-up with %j is refused at the field",
  async (password) => {
    const email = `${crypto.randomUUID().slice(0, 8)}@integration.gatehouse.test`;
    const answer = await openBrowser(base).post("/signup", { email, password });
    expect(answer.status).toBe(400);
    expect(answer.words).toContain(refusal);
  },
);

test("a sign-in with a listed password leads to another one, and from there to where the person was going", async () => {
  const { email, password } = await createOwner("12345678");
  const browser = openBrowser(base);
  const { location } = await browser.post("/login", { email, password, returnUrl: "/settings/profile" });
  expect(location).toBe("/reset-password?listed=&returnUrl=%2Fsettings%2Fprofile");
  expect((await browser.get(location ?? "")).words).toContain("Your password is on a list of common ones");
  expect((await browser.post(location ?? "", { password: email })).words).toContain(refusal);
  const changed = await browser.post(location ?? "", { password: "three unrelated words" });
  expect(changed.words).toContain("Your password is changed");
  expect(changed.text).toContain('href="/settings/profile"');
  const again = await openBrowser(base).post("/login", { email, password: "three unrelated words" });
  expect(again.location).toBe("/");
});

test("a sign-in with the person's own name asks for another password", async () => {
  const { id, email, password } = await createOwner("hopper1906");
  await query("update public.profiles set display_name = 'Grace Hopper' where id = $1", [id]);
  const { location } = await openBrowser(base).post("/login", { email, password });
  expect(location).toBe("/reset-password?listed=&returnUrl=%2F");
});

test("the second step comes before the page that replaces a listed password", async () => {
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
  expect((await browser.get(page)).words).toContain("Your password is on a list of common ones");
});
