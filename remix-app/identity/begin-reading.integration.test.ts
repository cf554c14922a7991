import { afterEach, beforeEach, expect, test } from "vitest";
import { vaultSettings } from "../../scripts/test/keep-session.ts";
import { createPerson, deletePerson, type Person, query, signIn } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { openBrowser } from "../testing/browser.ts";
import { startWeb, type WebProcess } from "../testing/web-process.ts";

const { supabase } = readStack();
const policy = "/rest/v1/rpc/device_session_state";
let person: Person;
let web: WebProcess;

beforeEach(async () => {
  person = await createPerson();
  web = await startWeb(supabase.url, {
    nodeOptions: ["--import", new URL("../testing/watch-calls.ts", import.meta.url).href],
    env: {
      SUPABASE_PUBLISHABLE_KEY: supabase.publishableKey,
      SUPABASE_SECRET_KEY: supabase.secretKey,
      HOLDS: policy,
      ...vaultSettings(),
    },
  });
});
afterEach(async () => {
  await web.stop();
  await deletePerson(person);
});

test("a page is read while the session is still judged, and shown to nobody whose session is over", async () => {
  const signedIn = await signIn(person);
  const answer = openBrowser(web.base, { cookie: signedIn.cookie() }).get("/workspaces");
  await expect.poll(web.output, { timeout: 15_000 }).toContain("call /rest/v1/workspaces");
  expect(web.output()).not.toContain(`call ${policy}`);
  await query("delete from auth.sessions where user_id = $1", [person.id]);
  web.child.kill("SIGUSR2");
  expect(await answer).toMatchObject({ status: 302, location: "/login?returnUrl=%2Fworkspaces", text: "" });
}, 60_000);
