import { afterEach, beforeEach, expect, test } from "vitest";
import {
  createPerson,
  deletePerson,
  type Person,
  type SignedInBrowser,
  signedInLongAgo,
  signIn,
} from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { visitorHeaders } from "../testing/visitor.ts";

const { base } = readStack();
let person: Person;
let path: string;

beforeEach(async () => {
  person = await createPerson();
  const { location } = await (await signIn(person)).post("/workspaces", { name: "Short-lived" });
  path = `/api${location}`;
});
afterEach(() => deletePerson(person));

const deletion = (browser: SignedInBrowser) =>
  fetch(new URL(path, base), { method: "DELETE", headers: { ...visitorHeaders(), cookie: browser.cookie() } });

test("a workspace goes by a sign-in of the last ten minutes, as on its page, and by no older one", async () => {
  const refused = await deletion(await signedInLongAgo(person, { secondsAgo: 610 }));
  expect(refused.status).toBe(403);
  expect(await refused.json()).toMatchObject({ code: "STEP_UP_REQUIRED" });
  expect((await deletion(await signIn(person))).status).toBe(204);
});
