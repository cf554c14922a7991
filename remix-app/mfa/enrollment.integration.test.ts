import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  createPerson,
  deletePerson,
  enter,
  insertAuthenticators,
  type Person,
  query,
  requireMfa,
  type SignedInBrowser,
  signedInLongAgo,
  signIn,
} from "../../scripts/test/people.ts";
import { codeOf, wrongCodesOf } from "../testing/authenticator-app.ts";

let person: Person;

beforeEach(async () => {
  person = await createPerson();
});
afterEach(() => deletePerson(person));

async function start(browser: SignedInBrowser, { name = "", at = "/mfa/enroll" } = {}) {
  const { status, text } = await browser.post(at, { step: "start", name });
  const field = (of: string) => new RegExp(`name="${of}" value="([^"]+)"`).exec(text)?.[1] ?? "";
  return { status, text, secret: field("secret"), factorId: field("factorId"), name: field("name") };
}

const verify = (
  browser: SignedInBrowser,
  {
    secret,
    factorId,
    name,
    code,
    at = "/mfa/enroll",
  }: Record<"secret" | "factorId" | "name" | "code", string> & { at?: string },
) => browser.post(at, { step: "verify", secret, factorId, name, code });

const factors = () =>
  query<{ id: string; friendly_name: string; status: string }>(
    "select id, friendly_name, status from auth.mfa_factors where user_id = $1 order by created_at",
    [person.id],
  );
const codesLeft = async () =>
  (await query("select from private.mfa_recovery_codes where user_id = $1 and used_at is null", [person.id])).length;

describe("enrolling an authenticator app", () => {
  test("enrollment raises the session to AAL2, shows ten recovery codes, and requires codes from then on", async () => {
    const browser = await enter(person);
    const { sessionId } = await browser.session();
    const begun = await start(browser, { name: "Work phone" });
    expect(begun).toMatchObject({ status: 200, name: "Work phone" });
    expect(begun.text).toContain(`otpauth://totp/Gatehouse:${encodeURIComponent(person.email)}`);
    const done = await verify(browser, { ...begun, code: codeOf(begun) });
    expect(done.text).toContain("Save your recovery codes");
    expect(await codesLeft()).toBe(10);
    expect(await browser.session()).toMatchObject({ sessionId, aal: "aal2", mfa: { required: true, satisfied: true } });
    expect(await factors()).toMatchObject([{ friendly_name: "Work phone", status: "verified" }]);
    expect((await signIn(person)).location).toBe("/mfa");
  });

  test("enrollment shows the same key again after a wrong code", async () => {
    const browser = await enter(person);
    const begun = await start(browser);
    const [wrong = ""] = wrongCodesOf(begun);
    for (const code of [wrong, "12"]) {
      const answer = await verify(browser, { ...begun, code });
      expect(answer.status).toBe(400);
      expect(answer.text).toContain(`name="secret" value="${begun.secret}"`);
      expect(answer.text).toContain('<svg role="img"');
    }
    expect((await verify(browser, { ...begun, code: codeOf(begun) })).status).toBe(200);
  });

  test("the code that completes an enrollment cannot be used again for the second-factor challenge", async () => {
    const browser = await enter(person);
    const begun = await start(browser);
    const code = codeOf(begun);
    await verify(browser, { ...begun, code });
    const again = await (await enter(person)).post("/mfa", { factorId: begun.factorId, code });
    expect(again.text).toContain("That code was already used");
  });

  test("drops an unfinished enrollment when another one starts", async () => {
    const browser = await enter(person);
    const [first, second] = [await start(browser), await start(browser)];
    expect(await factors()).toMatchObject([{ id: second.factorId, status: "unverified" }]);
    const late = await verify(browser, { ...first, code: codeOf(first) });
    expect([late.status, late.text]).toEqual([
      400,
      expect.stringContaining("This authenticator app was removed or its setup was restarted"),
    ]);
    expect((await verify(browser, { ...second, code: codeOf(second) })).status).toBe(200);
  });

  test("enrolling a second app keeps the recovery codes, returns to the destination, and requires a unique name", async () => {
    const browser = await enter(person);
    const first = await start(browser, { name: "Phone" });
    await verify(browser, { ...first, code: codeOf(first) });
    const at = "/mfa/enroll?returnUrl=%2Fsettings%2Fsecurity";
    const taken = await start(browser, { name: "Phone", at });
    expect([taken.status, taken.text]).toEqual([400, expect.stringContaining("Choose another name")]);
    const second = await start(browser, { at });
    expect(second.name).toBe("Authenticator app");
    const done = await verify(browser, { ...second, code: codeOf(second), at });
    expect(done.location).toBe("/settings/security");
    expect(await codesLeft()).toBe(10);
    expect((await factors()).map(({ friendly_name }) => friendly_name)).toEqual(["Phone", "Authenticator app"]);
    expect((await start(browser, { at })).name).toBe("Authenticator app 2");
  });

  test.each([
    { name: "N".repeat(60), status: 200 },
    { name: "N".repeat(61), status: 400 },
  ])("an authenticator app's name may have at most 60 characters (status $status)", async ({ name, status }) => {
    expect((await start(await enter(person), { name })).status).toBe(status);
  });

  test("allows ten authenticator apps per account", async () => {
    const names = Array.from({ length: 9 }, (_, index) => `App ${index}`);
    const [app] = await insertAuthenticators(person, names);
    if (!app) throw new Error("no app");
    const browser = await enter(person);
    await browser.post("/mfa", { factorId: app.factorId, code: codeOf(app) });
    const tenth = await start(browser);
    expect(tenth.status).toBe(200);
    await verify(browser, { ...tenth, code: codeOf(tenth) });
    const eleventh = await start(browser);
    expect([eleventh.status, eleventh.text]).toEqual([400, expect.stringContaining("at most 10 authenticator apps")]);
  });

  test("enrollment redirects to the challenge if the session has not yet passed the account's authenticator", async () => {
    await insertAuthenticators(person, ["Phone"]);
    const browser = await enter(person);
    expect((await browser.get("/mfa/enroll?returnUrl=%2Fworkspaces")).location).toBe("/mfa?returnUrl=%2Fworkspaces");
    expect((await browser.post("/mfa/enroll", { step: "start" })).location).toBe("/mfa");
    expect(await factors()).toHaveLength(1);
  });

  test("enrollment requires a sign-in from the last ten minutes, and otherwise asks to confirm the identity first", async () => {
    for (const [secondsAgo, status] of [
      [590, 200],
      [610, 302],
    ] as const) {
      const browser = await signedInLongAgo(person, { secondsAgo });
      const { status: got, location } = await browser.get("/mfa/enroll?returnUrl=%2Fsettings%2Fsecurity");
      expect(got).toBe(status);
      if (status === 302) {
        const back = new URLSearchParams({ returnUrl: "/mfa/enroll?returnUrl=%2Fsettings%2Fsecurity" });
        expect(location).toBe(`/step-up?${back}`);
      }
    }
  });
});

describe("an account that requires an authenticator but has none", () => {
  beforeEach(() => requireMfa(person));

  test("an account that requires an authenticator enrolls one during sign-in and then continues to the requested page", async () => {
    const browser = await signIn(person, { returnUrl: "/workspaces" });
    expect(browser.location).toBe("/mfa/enroll?returnUrl=%2Fworkspaces");
    const at = browser.location ?? "";
    expect((await browser.get("/workspaces")).location).toBe(at);
    const page = await browser.get(at);
    expect(page.text).toContain("An administrator requires a second factor");
    expect(page.text).toContain("Sign out");
    expect(page.text).not.toContain("Not now");
    const begun = await start(browser, { at });
    const done = await verify(browser, { ...begun, code: codeOf(begun), at });
    expect(done.text).toMatch(/href="\/workspaces"[^>]*>I’ve saved them/);
    expect((await browser.get("/workspaces")).status).toBe(200);
  });

  test("an old session needs a new sign-in before enrollment", async () => {
    const browser = await signedInLongAgo(person, { secondsAgo: 610 });
    const stepUp = (await browser.get("/workspaces")).location ?? "";
    expect(stepUp).toBe("/mfa/enroll?returnUrl=%2Fworkspaces");
    const { location = "" } = await browser.get(stepUp);
    expect(location).toMatch(/^\/step-up\?returnUrl=%2Fmfa%2Fenroll/);
    expect((await browser.get(location ?? "")).text).toContain("Confirm it’s you");
    const back = await browser.post(location ?? "", { password: person.password });
    expect(back.location).toBe("/mfa/enroll?returnUrl=%2Fworkspaces");
    expect((await browser.get(back.location ?? "")).status).toBe(200);
  });
});

describe("removing an authenticator app", () => {
  async function enrolled() {
    const browser = await enter(person);
    const begun = await start(browser, { name: "Phone" });
    await verify(browser, { ...begun, code: codeOf(begun) });
    return { browser, phone: begun };
  }
  const remove = (browser: SignedInBrowser, factorId: string) =>
    browser.post(`/mfa/remove?${new URLSearchParams({ factorId })}`, { factorId });

  test("removing one of two authenticator apps leaves the other app and the recovery codes", async () => {
    const { browser, phone } = await enrolled();
    const tablet = await start(browser, { name: "Tablet" });
    await verify(browser, { ...tablet, code: codeOf(tablet) });
    expect((await browser.get(`/mfa/remove?factorId=${phone.factorId}`)).text).toContain(
      "Remove authenticator app “Phone”?",
    );
    expect((await remove(browser, phone.factorId)).location).toBe("/settings/security");
    expect(await factors()).toMatchObject([{ id: tablet.factorId }]);
    expect(await codesLeft()).toBe(10);
    // The session's last code came from the tablet, so the session stays valid.
    expect((await browser.get("/settings/security")).status).toBe(200);
  });

  test("requires a code from the remaining authenticator app after removing the app that verified the session", async () => {
    const { browser, phone } = await enrolled();
    const tablet = await start(browser, { name: "Tablet" });
    await verify(browser, { ...tablet, code: codeOf(tablet) });
    expect((await remove(browser, tablet.factorId)).location).toBe("/settings/security");
    expect((await browser.get("/settings/security")).location).toBe("/mfa?returnUrl=%2Fsettings%2Fsecurity");
    const code = codeOf(phone, 1);
    const { location } = await browser.post("/mfa?returnUrl=%2Fsettings%2Fsecurity", {
      factorId: phone.factorId,
      code,
    });
    expect(location).toBe("/settings/security");
  });

  test("removing the last authenticator app deletes the recovery codes and is logged", async () => {
    const { browser, phone } = await enrolled();
    expect((await browser.get(`/mfa/remove?factorId=${phone.factorId}`)).text).toContain("your last authenticator app");
    expect((await remove(browser, phone.factorId)).location).toBe("/settings/security");
    expect(await factors()).toEqual([]);
    expect(await codesLeft()).toBe(0);
    const session = await browser.session();
    expect(session).toMatchObject({ aal: "aal1", mfa: { required: false, satisfied: true } });
    const kinds = await query<{ kind: string; details: unknown }>(
      "select kind, details from public.security_events where user_id = $1 and kind like 'authenticator%' order by created_at",
      [person.id],
    );
    expect(kinds).toEqual([
      { kind: "authenticator_added", details: { name: "Phone" } },
      { kind: "authenticator_removed", details: { name: "Phone" } },
    ]);
    expect((await signIn(person)).location).toBe("/");
  });

  test("refuses to remove the last authenticator app of an account that must have one", async () => {
    const { browser, phone } = await enrolled();
    await requireMfa(person);
    const page = await browser.get(`/mfa/remove?factorId=${phone.factorId}`);
    expect(page.text).toContain("Your account requires an authenticator");
    expect(page.text).not.toContain("Remove app");
    expect(page.text).not.toContain("You’ll no longer be asked for a code");
    expect((await remove(browser, phone.factorId)).status).toBe(400);
    expect(await factors()).toHaveLength(1);
  });

  test("removing an authenticator app requires a code entered in the last ten minutes", async () => {
    const [app] = await insertAuthenticators(person, ["Phone"]);
    if (!app) throw new Error("no app");
    const prove = { factorId: app.factorId, code: codeOf(app) };
    const browser = await signedInLongAgo(person, { secondsAgo: 610, prove });
    const page = `/mfa/remove?factorId=${app.factorId}`;
    const stepUp = `/step-up?${new URLSearchParams({ returnUrl: page })}`;
    expect((await browser.get(page)).location).toBe(stepUp);
    expect((await remove(browser, app.factorId)).location).toMatch(/^\/step-up/);
    expect(await factors()).toHaveLength(1);
  });

  test("the page that removes an authenticator app answers 404 for an unknown app and for another account's app", async () => {
    const { browser } = await enrolled();
    const other = await createPerson();
    try {
      const [theirs] = await insertAuthenticators(other, ["Theirs"]);
      for (const factorId of [crypto.randomUUID(), "no-id", theirs?.factorId ?? ""]) {
        expect((await browser.get(`/mfa/remove?factorId=${factorId}`)).status).toBe(404);
      }
      await remove(browser, theirs?.factorId ?? "");
      expect(await query("select from auth.mfa_factors where user_id = $1", [other.id])).toHaveLength(1);
    } finally {
      await deletePerson(other);
    }
  });
});
