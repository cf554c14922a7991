import { expect, onTestFinished, test } from "vitest";
import { deletePerson, insertAccount } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { openBrowser } from "../testing/browser.ts";

const { base } = readStack();
const refusal = "Choose a password that is harder to guess";

async function createOwner(password: string) {
  const email = `ada.${crypto.randomUUID().slice(0, 8)}@integration.gatehouse.test`;
  const id = await insertAccount({ email, password });
  onTestFinished(() => deletePerson({ id }));
  return { email, password };
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
