import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import {
  asApp,
  bearer,
  createApp,
  createPerson,
  type Held,
  handOver,
  mint,
  type Person,
  paths,
  send,
  service,
  type TestApp,
} from "../../scripts/test/apps.ts";
import {
  deletePerson,
  enter,
  query,
  requireMfa,
  type SignedInBrowser,
  signedInLongAgo,
} from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import type { IssuedAppToken } from "../satellites/app-calls.ts";
import { freshSignInMs } from "../session/user.ts";
import { openBrowser } from "../testing/browser.ts";

const { ai, base } = readStack();
const list = "/settings/security/apps";
const pathOf = ({ name }: Pick<TestApp, "name">) => `${list}/${name}/disconnect`;
let notes: TestApp;
let person: Person;
let held: Held;
let browser: SignedInBrowser;

beforeAll(async () => {
  notes = await createApp({
    scopes: ["profile", "workspaces:read"],
    displayName: "Field notes",
    origins: [`https://notes-${crypto.randomUUID().slice(0, 8)}.example`],
  });
});
beforeEach(async () => {
  person = await createPerson();
  held = await handOver(person, notes);
  browser = await enter(person);
});
afterEach(async () => void (await deletePerson(person)));
afterAll(async () => void (await service.schema("private").rpc("sweep_app_credentials")));

const active = async ({ appSession: { token } }: Held = held, app = notes) =>
  ((await asApp(app, paths.introspect, { token })).body as { active: boolean }).active;
const eventsOf = async ({ id }: Pick<Person, "id"> = person) =>
  (
    await query<{ kind: string; details: object }>(
      "select kind, details from public.security_events where user_id = $1 and kind <> 'sign_in'",
      [id],
    )
  ).map(({ kind, details }) => [kind, details]);

/** Creates an external app with a token for the person's own workspace. */
async function connectGatewayApp(scopes: string[]) {
  const [workspace] = await query<{ id: string }>("select id from public.workspaces where personal_user_id = $1", [
    person.id,
  ]);
  const workspaceId = workspace?.id ?? "";
  await query("update public.workspaces set name = 'Aurora' where id = $1", [workspaceId]);
  const app = await createApp({ kind: "external", scopes, workspaceId, displayName: "Scribe" });
  const answer = await asApp(app, paths.exchange, { token: await mint(person, app), workspaceId });
  const issued = answer.body as IssuedAppToken;
  const callGateway = async () => {
    const headers = { ...bearer(issued.accessToken), "x-platform-workspace-id": workspaceId };
    return (await fetch(`${ai}/v1/key`, { headers })).status;
  };
  const refresh = async () =>
    (await asApp(app, paths.exchange, { refreshToken: issued.refreshToken, workspaceId })).status;
  return { app, callGateway, refresh };
}

describe("the list of connected apps", () => {
  test("the list of connected apps describes what each app may do", async () => {
    await connectGatewayApp(["workspace:session", "ai:use", "tts:use"]);
    const { status, headers, words, text } = await browser.get(list);
    expect([status, headers.get("cache-control")]).toEqual([200, "private, no-store"]);
    expect(words).toMatch(
      /Field notes https:\/\/notes-.*example Disconnect Field notes You’re signed in\. This app can: See your name, email and picture See your workspaces and your role in each Connected just now · Session expires in 30 days/,
    );
    expect(words).toMatch(
      /Scribe No website.* Use AI models and speech in Aurora Connected just now · Access expires in 30 days unless/,
    );
    expect(text).not.toContain("<script src");
  });

  test("the list of connected apps is empty for a person without any, even if other people have some", async () => {
    const other = await createPerson();
    try {
      const { words } = await (await enter(other)).get(list);
      expect(words).toContain("No connected apps");
      expect(words).not.toContain("Field notes");
    } finally {
      await deletePerson(other);
    }
  });

  test("the list of connected apps is linked from the security page", async () => {
    expect((await browser.get("/settings/security")).text).toContain(`href="${list}"`);
  });
});

describe("disconnecting an app", () => {
  test("disconnecting an app asks for confirmation, ends its access immediately, reports success, and is logged", async () => {
    const { app, callGateway, refresh } = await connectGatewayApp(["workspace:session", "ai:use"]);
    expect(await callGateway()).toBe(200);
    expect((await browser.get(pathOf(app))).words).toContain(
      "What happens Scribe can no longer use AI on your behalf. It keeps data it already has",
    );
    expect(await callGateway()).toBe(200);
    const answer = await browser.post(pathOf(app), {});
    expect([answer.status, answer.location]).toEqual([303, list]);
    expect([await callGateway(), await refresh()]).toEqual([401, 401]);
    expect(await active()).toBe(true);
    const { words } = await browser.get(list);
    expect(words).toContain("App disconnected. It no longer has access to your account.");
    expect(words).not.toContain("Scribe");
    expect(words).toContain("Field notes");
    expect((await browser.get(list)).words).not.toContain("App disconnected");
    expect(await eventsOf()).toEqual([["app_disconnected", { app: "Scribe" }]]);
    expect((await browser.get("/settings/security/activity")).words).toContain("Disconnected an app Scribe");
  });

  test("concurrent requests disconnect an app only once", async () => {
    const answers = await Promise.all(Array.from({ length: 20 }, () => browser.post(pathOf(notes), {})));
    expect(new Set(answers.map(({ status, location }) => `${status} ${location}`))).toEqual(new Set([`303 ${list}`]));
    expect(await active()).toBe(false);
    expect(await eventsOf()).toEqual([["app_disconnected", { app: "Field notes" }]]);
    await browser.post(pathOf(notes), {});
    expect((await browser.get(list)).words).toContain("That app was already disconnected.");
  });

  test("disconnecting through an outdated link leads back to the list, which says that the app was already disconnected", async () => {
    await browser.post(pathOf(notes), {});
    await browser.get(list);
    const answer = await browser.get(pathOf(notes));
    expect([answer.status, answer.location]).toEqual([302, list]);
    const { words } = await browser.get(list);
    expect(words).toContain("That app was already disconnected.");
    expect(words).not.toContain("Field notes");
  });

  test("disconnecting an app does not end other people's sessions with the same app", async () => {
    const other = await createPerson();
    try {
      const theirs = await handOver(other, notes);
      expect((await browser.post(pathOf(notes), {})).status).toBe(303);
      expect([await active(), await active(theirs)]).toEqual([false, true]);
      expect(await eventsOf(other)).toEqual([]);
    } finally {
      await deletePerson(other);
    }
  });

  test("disconnecting gives the same answer for an unknown app and for an app that only other people connected", async () => {
    const others = await connectGatewayApp(["workspace:session", "ai:use"]);
    const stranger = await createPerson();
    try {
      const theirs = await enter(stranger);
      for (const path of [
        pathOf(others.app),
        pathOf({ name: "not-connected" }),
        `${list}/%00/disconnect`,
        `${list}/X'/disconnect`,
      ]) {
        for (const answer of [await theirs.get(path), await theirs.post(path, {})]) {
          expect(answer.status, path).toBe(404);
          expect(answer.text).not.toContain("Scribe");
        }
      }
      expect(await others.callGateway()).toBe(200);
      expect(await eventsOf(stranger)).toEqual([]);
    } finally {
      await deletePerson(stranger);
    }
  });

  test.each([
    ["another site", { "sec-fetch-site": "cross-site" }],
    ["a sibling origin", { "sec-fetch-site": "same-site" }],
    ["another origin", { origin: "https://evil.example" }],
    ["an unknown origin", {}],
  ])("disconnecting an app is refused if the form is from %s", async (_, site) => {
    for (const path of [pathOf(notes), `${pathOf(notes)}.data`]) {
      for (const type of ["application/x-www-form-urlencoded", "text/plain"]) {
        const headers = { ...site, cookie: browser.cookie(), "content-type": type, "user-agent": "Test browser" };
        const answer = await send(path, { body: "", headers });
        expect([answer.status, answer.body]).toMatchObject([403, { code: "CSRF_REJECTED" }]);
      }
    }
    expect(await active()).toBe(true);
  });

  test("disconnecting an app requires a full session and refuses an app's own session", async () => {
    for (const { token } of [held.appSession, held.centralSession]) {
      for (const path of [list, pathOf(notes)])
        expect((await send(path, { method: "GET", headers: bearer(token) })).status, path).toBe(401);
      // Forms accept browser sessions but not bearer tokens.
      expect((await send(pathOf(notes), { headers: bearer(token) })).status).toBe(403);
    }
    const signedOut = openBrowser(base);
    for (const answer of [await signedOut.get(list), await signedOut.post(pathOf(notes), {})]) {
      expect(answer.status).toBe(302);
      expect(answer.location).toMatch(/^\/login\?/);
    }
    expect(await active()).toBe(true);
  });

  test("disconnecting an app requires a step-up within the last ten minutes, but reading the list does not", async () => {
    const late = await signedInLongAgo(person, { secondsAgo: freshSignInMs / 1_000 + 1 });
    expect((await late.get(list)).words).toContain("Field notes");
    for (const answer of [await late.get(pathOf(notes)), await late.post(pathOf(notes), {})])
      expect([answer.status, answer.location]).toEqual([302, expect.stringMatching(/^\/step-up\?/)]);
    expect(await active()).toBe(true);
    const soon = await signedInLongAgo(person, { secondsAgo: freshSignInMs / 1_000 - 60 });
    expect((await soon.get(pathOf(notes))).status).toBe(200);
    expect((await soon.post(pathOf(notes), {})).location).toBe(list);
  });

  test("while a second step is pending, a user can neither list connected apps nor disconnect one", async () => {
    await requireMfa(person);
    for (const answer of [
      await browser.get(list),
      await browser.get(pathOf(notes)),
      await browser.post(pathOf(notes), {}),
    ])
      expect([answer.status, answer.location]).toEqual([302, expect.stringMatching(/^\/mfa/)]);
    const rows = await query("select from private.app_sessions where user_id = $1 and revoked_at is null", [person.id]);
    expect(rows).toHaveLength(2);
  });
});
