import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  ask,
  createOpenidClient,
  decisionForm,
  refresh,
  signInAt,
  type TestClient,
  userinfo,
} from "../../scripts/test/openid.ts";
import {
  createPerson,
  deletePerson,
  enter,
  type Person,
  query,
  type SignedInBrowser,
} from "../../scripts/test/people.ts";

const list = "/settings/security/apps";
const scope = "openid profile email offline_access";
let person: Person;
let browser: SignedInBrowser;
let client: TestClient;

beforeEach(async () => {
  [person, client] = await Promise.all([createPerson(), createOpenidClient({ displayName: "Field charts" })]);
  browser = await enter(person);
});
afterEach(() => deletePerson(person));

const disconnectPath = () => `${list}/${client.id}/disconnect`;

describe("connected apps and OpenID clients", () => {
  test("a client's login is listed with its rights, age and expiry", async () => {
    await signInAt(browser, client, { scope });
    expect((await browser.get(list)).words).toMatch(
      /Field charts No website listed Disconnect Field charts You’re signed in\. This app can: See your name, email and picture Stay connected for up to 30 days, unless .* Connected just now · Session expires in 30 days/,
    );
  });

  test("a client's consent stays listed after its login ends, and is asked for again once the client is disconnected", async () => {
    await signInAt(browser, client, { scope });
    await query("update private.openid_grants set revoked_at = now() where user_id = $1", [person.id]);
    const { words } = await browser.get(list);
    expect(words).toContain("You’re signed out. When you sign in again, this app can do this without asking you:");
    expect(words).not.toContain("You’re signed in. This app can");
    expect((await browser.get(disconnectPath())).words).toContain(
      "What happens Field charts can no longer sign you in without asking. It keeps data it already has",
    );
    const again = async () => decisionForm((await browser.get((await ask(client, { scope })).path)).text);
    expect(await again()).toBeNull();
    expect((await browser.post(disconnectPath(), {})).status).toBe(303);
    expect(await again()).not.toBeNull();
    expect((await browser.get(list)).words).not.toContain("Field charts");
  });

  test("disconnecting a client ends all its logins, in this browser and in others, and is logged", async () => {
    const logins = [await signInAt(browser, client, { scope }), await signInAt(await enter(person), client, { scope })];
    const page = await browser.get(disconnectPath());
    expect(page.words).toContain("What happens Field charts loses access to your account.");
    const answer = await browser.post(disconnectPath(), {});
    expect([answer.status, answer.location]).toEqual([303, list]);
    for (const { tokens } of logins) {
      expect(await userinfo(client, tokens.access_token)).toBe(401);
      expect((await refresh(client, tokens.refresh_token)).status).toBe(400);
    }
    const events = await query(
      "select details from public.security_events where user_id = $1 and kind = 'app_disconnected'",
      [person.id],
    );
    expect(events).toEqual([{ details: { app: "Field charts" } }]);
  });

  test("disconnecting a client doesn't end another person's login", async () => {
    const other = await createPerson();
    try {
      const theirs = await signInAt(await enter(other), client, { scope });
      await signInAt(browser, client, { scope });
      expect((await browser.post(disconnectPath(), {})).status).toBe(303);
      expect(await userinfo(client, theirs.tokens.access_token)).toMatchObject({ sub: other.id });
    } finally {
      await deletePerson(other);
    }
  });
});
