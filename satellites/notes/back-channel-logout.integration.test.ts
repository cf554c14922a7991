import { afterAll, beforeAll, expect, test } from "vitest";
import { openBrowser } from "../../remix-app/testing/browser.ts";
import { freePort, startSatellite, type WebProcess } from "../../remix-app/testing/web-process.ts";
import {
  createApp,
  createPerson,
  mint,
  type Person,
  service,
  signInAgain,
  signOut,
  type TestApp,
} from "../../scripts/test/apps.ts";
import { query } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";

let satellite: WebProcess;
let app: TestApp;
let person: Person;

beforeAll(async () => {
  const origin = `http://127.0.0.1:${await freePort()}`;
  [person, app] = await Promise.all([
    createPerson(),
    createApp({ scopes: ["profile", "workspaces:read"], origins: [origin] }),
  ]);
  await query("update private.apps set backchannel_logout_uri = $2 where name = $1", [
    app.name,
    `${origin}/api/auth/backchannel-logout`,
  ]);
  satellite = await startSatellite({
    app,
    centralUrl: readStack().base,
    port: Number(new URL(origin).port),
    env: { INTROSPECTION_CACHE_SECONDS: "60" },
  });
});
afterAll(async () => {
  await satellite.stop();
  await service.auth.admin.deleteUser(person.id);
});

async function enter(session: Pick<Person, "accessToken">) {
  const browser = openBrowser(satellite.base);
  await browser.post("/verify-token", { token: await mint(session, app), nextUrl: "/" });
  expect((await browser.get("/")).text).toContain(person.email);
  return browser;
}

test("signing out of the platform ends the same browser's satellite session within 5 seconds, but not another browser's", async () => {
  const [here, elsewhere] = [await signInAgain(person), await signInAgain(person)];
  const [browser, other] = [await enter(here), await enter(elsewhere)];
  await signOut(here);
  await expect.poll(async () => (await browser.get("/")).text, { timeout: 5_000 }).not.toContain(person.email);
  expect((await other.get("/")).text).toContain(person.email);
});
