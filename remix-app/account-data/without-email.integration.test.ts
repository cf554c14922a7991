import { afterEach, beforeEach, expect, test } from "vitest";
import {
  createPerson,
  deletePerson,
  enter,
  type Person,
  query,
  type SignedInBrowser,
} from "../../scripts/test/people.ts";

/** Some providers don't share an email, and the identity backend can be configured to work without one. */
let person: Person;
let browser: SignedInBrowser;

beforeEach(async () => {
  person = await createPerson();
  browser = await enter(person);
  await query("update auth.users set email = null where id = $1", [person.id]);
  await query("update public.profiles set display_name = 'Ada' where id = $1", [person.id]);
});
afterEach(() => deletePerson(person));

const exists = async () => (await query("select from auth.users where id = $1", [person.id])).length === 1;

test("deletes an account without an email only after the confirmation words are typed", async () => {
  const page = "/settings/security/delete-account";
  expect((await browser.get(page)).words).toContain("Type “delete my account” to confirm");
  for (const confirmation of ["", " ", "Ada"]) expect((await browser.post(page, { confirmation })).status).toBe(400);
  expect(await exists()).toBe(true);
  expect((await browser.post(page, { confirmation: "Delete my account" })).location).toBe("/login?accountDeleted");
  expect(await exists()).toBe(false);
});

test.each([
  ["/accounts", "Sign out of Ada"],
  ["/qr", "Signed in as Ada ."],
  ["/mfa/enroll", "You’re adding it to Ada ."],
])("refers to an account without an email by its owner's name (%s)", async (page, words) => {
  expect((await browser.get(page)).words).toContain(words);
});
