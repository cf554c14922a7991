import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  createPerson,
  deletePerson,
  insertAuthenticators,
  type Person,
  query,
  type SignedInBrowser,
  signedInLongAgo,
} from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { codeOf } from "../testing/authenticator-app.ts";

const { base } = readStack();
const stale = 610;
let person: Person;

beforeEach(async () => {
  person = await createPerson();
});
afterEach(() => deletePerson(person));

const fieldValue = (text: string, name: string) => {
  const [field = ""] = new RegExp(`<input[^>]* name="${name}"[^>]*>`).exec(text) ?? [];
  return /\bvalue="([^"]*)"/.exec(field)?.[1];
};

/**
 * Sends a page's form after the step-up has expired, confirms the user's identity, and returns the page that follows.
 */
async function sendTooLate(
  browser: SignedInBrowser,
  { page, typed, proof }: Record<"typed" | "proof", Record<string, string>> & { page: string },
) {
  const { status, location } = await browser.post(page, typed);
  const stepUp = `/step-up?${new URLSearchParams({ returnUrl: page })}`;
  expect([status, location]).toEqual([302, stepUp]);
  expect((await browser.post(stepUp, proof)).location).toBe(page);
  return browser.get(page);
}

describe("forms submitted with an expired step-up", () => {
  test("a kept form is restored on its page after the identity is confirmed, and changes nothing by itself", async () => {
    const browser = await signedInLongAgo(person, { secondsAgo: stale });
    const page = "/settings/profile/email";
    const { status, text } = await sendTooLate(browser, {
      page,
      typed: { email: "new@integration.gatehouse.test" },
      proof: { password: person.password },
    });
    expect([status, fieldValue(text, "email")]).toEqual([200, "new@integration.gatehouse.test"]);
    expect(fieldValue((await browser.get(page)).text, "email")).toBeUndefined();
    expect(await query("select email from auth.users where id = $1", [person.id])).toEqual([{ email: person.email }]);
  });

  test("the page for a new API key restores all fields of a form that was sent with an expired step-up", async () => {
    const [workspace] = await query<{ id: string }>("select id from public.workspaces where personal_user_id = $1", [
      person.id,
    ]);
    const browser = await signedInLongAgo(person, { secondsAgo: stale });
    const typed = { name: 'Nightly "import"', environment: "staging", requestsPerMinute: "30", allowedAddresses: "" };
    const page = `/workspaces/${workspace?.id}/ai/keys/new`;
    const { text } = await sendTooLate(browser, { page, typed, proof: { password: person.password } });
    expect(fieldValue(text, "name")).toBe("Nightly &quot;import&quot;");
    expect([fieldValue(text, "environment"), fieldValue(text, "requestsPerMinute")]).toEqual(["staging", "30"]);
  });

  test("a form posted by a script is kept until the step-up is done", async () => {
    const browser = await signedInLongAgo(person, { secondsAgo: stale });
    const page = "/settings/profile/email";
    const { status, text } = await browser.post(`${page}.data`, { email: "new@integration.gatehouse.test" });
    expect([status, text]).toEqual([202, expect.stringContaining("/step-up")]);
    await browser.post("/step-up", { password: person.password });
    expect((await browser.get(`${page}.data`)).text).toContain("new@integration.gatehouse.test");
  });

  test("a form that contains a secret is not kept", async () => {
    const browser = await signedInLongAgo(person, { secondsAgo: stale });
    const { status, headers } = await browser.post("/settings/security/password", { password: "a new one of mine" });
    expect(status).toBe(302);
    expect(headers.getSetCookie().join()).not.toContain("gh_kept_form");
  });

  test("a form is kept for its sender only", async () => {
    const other = await createPerson();
    try {
      const page = "/settings/profile/email";
      const browser = await signedInLongAgo(person, { secondsAgo: stale });
      const { headers } = await browser.post(page, { email: "new@integration.gatehouse.test" });
      const [kept = ""] = headers.getSetCookie().filter((cookie) => cookie.startsWith("gh_kept_form="));
      const theirs = await signedInLongAgo(other, { secondsAgo: 0 });
      const response = await fetch(new URL(page, base), {
        headers: { cookie: `${theirs.cookie()}; ${kept.split(";")[0]}` },
      });
      expect([response.status, fieldValue(await response.text(), "email")]).toEqual([200, undefined]);
    } finally {
      await deletePerson(other);
    }
  });

  test("a console form that is restored after a step-up keeps the change and its reason, but must be confirmed again", async () => {
    const [app] = await insertAuthenticators(person, ["Phone"]);
    if (!app) throw new Error("no app");
    await query("insert into private.infrastructure_admins (user_id, reason) values ($1, 'test')", [person.id]);
    const prove = { factorId: app.factorId, code: codeOf(app) };
    const browser = await signedInLongAgo(person, { secondsAgo: stale, prove });
    const typed = { name: "late-notes", kind: "external", reason: "A partner's", confirmation: "late-notes" };
    const { status, text } = await sendTooLate(browser, {
      page: "/admin/apps/new",
      typed,
      proof: { factorId: app.factorId, code: codeOf(app, 1) },
    });
    expect([status, fieldValue(text, "name"), fieldValue(text, "reason")]).toEqual([
      200,
      "late-notes",
      "A partner&#x27;s",
    ]);
    expect(text).toMatch(/<option value="external" selected="">/);
    expect(fieldValue(text, "confirmation")).toBeUndefined();
    expect(await query("select from private.apps where name = 'late-notes'", [])).toEqual([]);
  });
});
