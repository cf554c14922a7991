import { afterEach, beforeEach, expect, test } from "vitest";
import { vaultSettings } from "../../scripts/test/keep-session.ts";
import { createPerson, deletePerson, enter, type Person, query } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { openBrowser } from "../testing/browser.ts";
import { startWatchedWeb, type WatchedWeb } from "../testing/watched-web.ts";

const { supabase } = readStack();
const policy = "/rest/v1/rpc/device_session_state";
let person: Person;
let web: WatchedWeb;

beforeEach(async () => {
  person = await createPerson();
  web = await startWatchedWeb(supabase, vaultSettings());
  await web.trouble({ holds: policy });
});
afterEach(async () => {
  await web.stop();
  await deletePerson(person);
});

test("a page is read while the session is still judged, and shown to nobody whose session is over", async () => {
  const signedIn = await enter(person);
  const answer = openBrowser(web.base, { cookie: signedIn.cookie() }).get("/workspaces");
  await expect.poll(web.calls, { timeout: 15_000 }).toContain("/rest/v1/workspaces");
  expect(web.calls()).not.toContain(policy);
  await query("delete from auth.sessions where user_id = $1", [person.id]);
  web.release();
  expect(await answer).toMatchObject({ status: 302, location: "/login?returnUrl=%2Fworkspaces", text: "" });
}, 60_000);
