import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { vaultSettings } from "../../../scripts/test/keep-session.ts";
import { createPerson, deletePerson, enter, type Person } from "../../../scripts/test/people.ts";
import { readStack } from "../../../scripts/test/stack.ts";
import { join } from "../../../supabase/tests/database.ts";
import { createTenant, type Tenant } from "../../../supabase/tests/gateway/fixtures.ts";
import { openPool } from "../../../supabase/tests/pools.ts";
import { type Browser, openBrowser } from "../../testing/browser.ts";
import { startWatchedWeb, type WatchedWeb } from "../../testing/watched-web.ts";

const reading = "/rest/v1/rpc/read_overview";
const { db, close } = openPool(1);
let tenant: Tenant;
let person: Person;
let web: WatchedWeb;
let browser: Browser;
let page: string;

beforeAll(async () => {
  tenant = await createTenant(db, { credits: "1" });
  person = await createPerson();
  await join(db, { workspaceId: tenant.workspaceId, userId: person.id, role: "member" });
  web = await startWatchedWeb(readStack().supabase, vaultSettings());
  browser = openBrowser(web.base, { cookie: (await enter(person)).cookie() });
  page = `/workspaces/${tenant.workspaceId}/ai`;
}, 60_000);
beforeEach(() => web.trouble({}));
afterAll(async () => {
  await web.stop();
  await deletePerson(person);
  await close();
});

test("the overview waits for slow figures and is then sent complete", async () => {
  await web.trouble({ holds: reading });
  let answered = false;
  const answer = browser.get(page).finally(() => {
    answered = true;
  });
  await web.held();
  expect(answered).toBe(false);
  web.release();
  const { status, text, words } = await answer;
  expect(status).toBe(200);
  expect(words).toContain("No requests yet");
  expect(text.match(/<main/g)).toHaveLength(1);
  expect(text).toMatch(/<\/html>(<!--\/?\$-->)*$/);
});

test("if the overview's figures cannot be read, the response is a 503 page with only an error", async () => {
  await web.trouble({ unreachable: reading });
  const before = web.output().length;
  const { status, text, words } = await browser.get(page);
  expect(status).toBe(503);
  expect(words).toContain("Request ID");
  expect(words).not.toContain("Usage");
  expect(text.match(/<body/g)).toHaveLength(1);
  expect((await browser.get(`${page}.data`)).status).toBe(503);
  // Each failure is logged once, with the name of the failed function. Refusals are not errors.
  expect(
    web
      .output()
      .slice(before)
      .match(/^error request=.*$/gm),
  ).toHaveLength(2);
  expect(web.output().slice(before)).toContain("ai.read_overview failed");
});
