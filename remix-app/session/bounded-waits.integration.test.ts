import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { vaultSettings } from "../../scripts/test/keep-session.ts";
import {
  createPerson,
  deletePerson,
  enter,
  insertAuthenticators,
  type Person,
  query,
} from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { codeOf } from "../testing/authenticator-app.ts";
import { openBrowser } from "../testing/browser.ts";
import { openPhone, unlockedPhone } from "../testing/phone.ts";
import { startWatchedWeb, type WatchedWeb } from "../testing/watched-web.ts";

const { base, supabase } = readStack();
/** The longest wait that the tests accept. The clients' own retries would take up to half a minute. */
const boundMs = 5_000;
let web: WatchedWeb;
let person: Person;

beforeAll(async () => {
  web = await startWatchedWeb(supabase, vaultSettings());
});
beforeEach(async () => {
  person = await createPerson();
});
afterEach(async () => {
  await web.trouble({});
  await deletePerson(person);
});
afterAll(() => web.stop());

/** @returns the answer, and the elapsed milliseconds */
async function timed<Answer>(answer: Promise<Answer>): Promise<Answer & { ms: number }> {
  const startedMs = performance.now();
  const answered = await answer;
  return { ...answered, ms: performance.now() - startedMs };
}

test("a page whose data does not arrive shows an error within the time limit", async () => {
  const browser = openBrowser(web.base, { cookie: (await enter(person)).cookie() });
  await web.trouble({ unreachable: "/rest/v1/rpc/list_workspaces" });
  const { status, words, ms } = await timed(browser.get("/workspaces"));
  expect([status, words]).toEqual([503, expect.stringContaining("Try again")]);
  expect(ms).toBeLessThan(boundMs);
});

test.each([
  ["settings", { intent: "rename", name: "Orbit" }, "/rest/v1/rpc/list_workspace_members", 200],
  ["members", { intent: "remove" }, "/rest/v1/workspace_roles", 409],
] as const)(
  "a page that cannot be rendered after its form was sent returns 503 within the time limit (%s)",
  async (page, form, unreachable, status) => {
    const [workspace] = await query<{ id: string }>("select id from public.workspaces where personal_user_id = $1", [
      person.id,
    ]);
    const browser = openBrowser(web.base, { cookie: (await enter(person)).cookie() });
    const post = () => browser.post(`/workspaces/${workspace?.id}/${page}`, { userId: person.id, ...form });
    expect((await post()).status).toBe(status);
    await web.trouble({ unreachable });
    const answer = await timed(post());
    expect([answer.status, answer.words]).toEqual([503, expect.stringContaining("Try again")]);
    expect(answer.ms).toBeLessThan(boundMs);
  },
);

test("a QR handoff whose session cannot be refreshed fails within the time limit and leaves no session behind", async () => {
  const challenges = "/api/v1/auth/qr-login/challenges";
  const browser = openBrowser(web.base, { cookie: (await enter(person)).cookie() });
  const phone = await openPhone({ base, ...supabase }, person);
  const { id, secret } = JSON.parse((await browser.postJson(challenges, undefined)).text);
  await phone.post(`${challenges}/${id}/approve`, { secret, device: unlockedPhone });
  const sessions = () => query("select from auth.sessions where user_id = $1", [person.id]);
  const before = await sessions();
  await web.trouble({ unreachable: "/auth/v1/token" });
  const { status, ms } = await timed(browser.get(`${challenges}/${id}?secret=${secret}`));
  expect(status).toBe(503);
  expect(ms).toBeLessThan(boundMs);
  expect(await sessions()).toHaveLength(before.length);
});

test("an authenticator is removed even if the session's token cannot be refreshed", async () => {
  const [app] = await insertAuthenticators(person, ["Phone"]);
  if (!app) throw new Error("no app");
  const signedIn = await enter(person);
  await signedIn.post("/mfa", { factorId: app.factorId, code: codeOf(app) });
  const browser = openBrowser(web.base, { cookie: signedIn.cookie() });
  await web.trouble({ unreachable: "/auth/v1/token" });
  const path = `/mfa/remove?factorId=${app.factorId}`;
  const { status, ms } = await timed(browser.post(path, { factorId: app.factorId }));
  expect(status).toBe(302);
  expect(ms).toBeLessThan(boundMs);
  expect((await browser.get("/api/v1/auth/session")).status).toBe(200);
});
