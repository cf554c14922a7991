import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  askFromDevice,
  createDeviceClient,
  type DeviceClient,
  deleteDeviceClient,
  expireRequest,
  newUserCode,
} from "../../../scripts/test/device-requests.ts";
import {
  createPerson,
  deletePerson,
  enter,
  insertAuthenticators,
  type Person,
  query,
  type SignedInBrowser,
  signedInLongAgo,
} from "../../../scripts/test/people.ts";
import { readStack } from "../../../scripts/test/stack.ts";
import { openBrowser } from "../../testing/browser.ts";
import { newAddress } from "../../testing/visitor.ts";
import { formatUserCode } from "./user-code.ts";

const { base } = readStack();
const warning = "Only continue if you started this on your own device";
let person: Person;
let client: DeviceClient;

beforeAll(async () => {
  [person, client] = await Promise.all([createPerson(), createDeviceClient()]);
});
afterAll(() => Promise.all([deletePerson(person), deleteDeviceClient(client)]));

const pageOf = (typed: string) => `/device?${new URLSearchParams({ user_code: typed })}`;

const answer = (browser: SignedInBrowser, userCode: string, decision: "approve" | "deny", accountId = person.id) =>
  browser.post("/device", { accountId, userCode: formatUserCode(userCode), decision });

async function stateOf(userCode: string): Promise<string> {
  const [row] = await query<{ state: string }>(
    "select private.device_authorization_state(d) as state from private.device_authorizations d where user_code = $1",
    [userCode],
  );
  return row?.state ?? "unknown";
}

describe("the device sign-in page for a user code", () => {
  test("the device sign-in page describes the request in full, and warns about codes from other people", async () => {
    const { userCode } = await askFromDevice(client);
    const { status, words } = await (await enter(person)).get(pageOf(userCode));
    expect(status).toBe(200);
    for (const shown of [
      "Sign in to Field CLI on a device",
      formatUserCode(userCode),
      "curl",
      "Porto, Portugal",
      "203.0.113.7",
      "UTC",
      "See your name",
      "See your workspaces and your role in each",
      warning,
    ]) {
      expect(words).toContain(shown);
    }
    expect(words.replaceAll(" ", "")).toContain(person.email);
  });

  test("the device sign-in page omits an unknown place or address, and never shows the raw user agent", async () => {
    const userAgent = "Gatehouse security check - press approve";
    const { userCode } = await askFromDevice(client, { place: null, userAgent });
    const { words } = await (await enter(person)).get(pageOf(userCode));
    expect(words).toContain("Unknown browser");
    expect(words).not.toContain("press approve");
    expect(words).not.toContain("Location");
  });

  test.each([
    ["in lower case without a hyphen", (code: string) => code.toLowerCase()],
    ["with spaces", (code: string) => ` ${code.slice(0, 4)} ${code.slice(4)} `],
    ["with a hyphen", formatUserCode],
  ])("the device sign-in page accepts the code typed %s", async (_, typed) => {
    const { userCode } = await askFromDevice(client);
    expect((await (await enter(person)).get(pageOf(typed(userCode)))).words).toContain(warning);
  });

  test("the device sign-in page asks for a code first, and again after an unknown or invalid one", async () => {
    const browser = await enter(person);
    expect(await browser.get("/device")).toMatchObject({
      status: 200,
      words: expect.stringContaining("Enter the code"),
    });
    for (const typed of [newUserCode(), "hello", "x".repeat(3_000)]) {
      const { status, words } = await browser.get(pageOf(typed));
      expect([status, words]).toEqual([404, expect.stringContaining("We don’t know this code")]);
    }
  });

  test("the device sign-in page sends visitors without a session to sign in, and then back to the code", async () => {
    const { userCode } = await askFromDevice(client);
    const { location } = await openBrowser(base).get(pageOf(userCode));
    expect(location).toBe(`/login?${new URLSearchParams({ returnUrl: pageOf(userCode) })}`);
  });

  test("the device sign-in page redirects a session with a pending second factor to the challenge", async () => {
    const owing = await createPerson();
    try {
      await insertAuthenticators(owing, ["Phone"]);
      const [{ userCode }, browser] = [await askFromDevice(client), await enter(owing)];
      const second = `/mfa?${new URLSearchParams({ returnUrl: pageOf(userCode) })}`;
      expect((await browser.get(pageOf(userCode))).location).toBe(second);
      expect((await answer(browser, userCode, "approve", owing.id)).location).toMatch(/^\/mfa\?/);
      expect(await stateOf(userCode)).toBe("pending");
    } finally {
      await deletePerson(owing);
    }
  });

  test("the device sign-in page says that a request has expired", async () => {
    const request = await askFromDevice(client);
    await expireRequest(request);
    const browser = await enter(person);
    expect((await browser.get(pageOf(request.userCode))).words).toContain("This code no longer works");
    await answer(browser, request.userCode, "approve");
    expect(await stateOf(request.userCode)).toBe("expired");
  });
});

describe("answering a device's sign-in request on the page", () => {
  test("approving a device on the page shows a confirmation, notifies the account's owner and cannot be undone", async () => {
    const { userCode } = await askFromDevice(client);
    const browser = await enter(person);
    expect(await answer(browser, userCode, "approve")).toMatchObject({
      status: 303,
      location: pageOf(formatUserCode(userCode)),
    });
    expect(await stateOf(userCode)).toBe("approved");
    expect((await browser.get(pageOf(userCode))).words).toContain("Sign-in approved");
    await answer(browser, userCode, "deny");
    expect(await stateOf(userCode)).toBe("approved");
    const events = await query(
      `select e.kind, e.details, count(m) as mails from public.security_events e
       left join private.outgoing_mails m on m.event_id = e.id
       where e.user_id = $1 and e.kind = 'device_approved' group by e.id`,
      [person.id],
    );
    const details = { app: "Field CLI", requester: "curl, 203.0.113.7, Porto, Portugal" };
    expect(events).toEqual([{ kind: "device_approved", details, mails: "1" }]);
  });

  test("denying a device on the page cannot be undone, and shows a confirmation", async () => {
    const { userCode } = await askFromDevice(client);
    const browser = await enter(person);
    await answer(browser, userCode, "deny");
    expect((await browser.get(pageOf(userCode))).words).toContain("Sign-in denied");
    await answer(browser, userCode, "approve");
    expect(await stateOf(userCode)).toBe("denied");
  });

  test.each([
    [590, "approved", null],
    [610, "pending", "/step-up?"],
  ] as const)(
    "approving a device %i seconds after signing in leaves the request %s",
    async (secondsAgo, state, leadsTo) => {
      const { userCode } = await askFromDevice(client);
      const browser = await signedInLongAgo(person, { secondsAgo });
      const { words } = await browser.get(pageOf(userCode));
      expect(words.includes("we’ll ask you to confirm it’s you")).toBe(leadsTo !== null);
      const { location } = await answer(browser, userCode, "approve");
      if (leadsTo) {
        expect(location).toBe(`/step-up?${new URLSearchParams({ returnUrl: pageOf(formatUserCode(userCode)) })}`);
      }
      expect(await stateOf(userCode)).toBe(state);
    },
  );

  test("denying a device does not require confirming one's identity", async () => {
    const { userCode } = await askFromDevice(client);
    await answer(await signedInLongAgo(person, { secondsAgo: 610 }), userCode, "deny");
    expect(await stateOf(userCode)).toBe("denied");
  });
});

describe("device-code phishing", () => {
  test("a link with the user code never approves a device on its own", async () => {
    const { userCode } = await askFromDevice(client);
    const browser = await enter(person);
    for (const path of [
      pageOf(userCode),
      `${pageOf(userCode)}&decision=approve&accountId=${person.id}`,
      `${pageOf(userCode)}&userCode=${userCode}&decision=approve`,
    ]) {
      expect((await browser.get(path)).words).toContain(warning);
    }
    expect(await stateOf(userCode)).toBe("pending");
  });

  test("a distant device's request is shown with its place and a warning about phishing", async () => {
    const { userCode } = await askFromDevice(client, { address: "198.51.100.9", place: "Minsk, Belarus" });
    const { words } = await (await enter(person)).get(pageOf(userCode));
    for (const shown of [warning, "Minsk, Belarus", "198.51.100.9"]) expect(words).toContain(shown);
  });

  test("another site's form, or a form without a decision, does not approve a device", async () => {
    const { userCode } = await askFromDevice(client);
    const browser = await enter(person);
    const fields = { accountId: person.id, userCode, decision: "approve" };
    for (const site of ["cross-site", "same-site"]) {
      const response = await fetch(new URL("/device", base), {
        method: "POST",
        redirect: "manual",
        headers: { cookie: browser.cookie(), "sec-fetch-site": site, "x-forwarded-for": newAddress() },
        body: new URLSearchParams(fields),
      });
      expect(response.status).toBe(403);
    }
    for (const decision of ["", "approved", "yes"]) await browser.post("/device", { ...fields, decision });
    expect(await stateOf(userCode)).toBe("pending");
  });

  test("a form from another account's page does not approve a device", async () => {
    const [other, { userCode }] = await Promise.all([createPerson(), askFromDevice(client)]);
    try {
      await answer(await enter(other), userCode, "approve", person.id);
      expect(await stateOf(userCode)).toBe("pending");
    } finally {
      await deletePerson(other);
    }
  });

  test("a device request that one person approved isn't shown to another person", async () => {
    const [other, { userCode }] = await Promise.all([createPerson(), askFromDevice(client)]);
    try {
      await answer(await enter(person), userCode, "approve");
      const browser = await enter(other);
      expect((await browser.get(pageOf(userCode))).words).toContain("This code no longer works");
    } finally {
      await deletePerson(other);
    }
  });
});

describe("guessing user codes", () => {
  test("one account may try 10 wrong user codes in 15 minutes, after which even the right one is refused", async () => {
    const guesser = await createPerson();
    try {
      const { userCode } = await askFromDevice(client);
      const browser = await enter(guesser);
      for (let nth = 1; nth <= 10; nth += 1) {
        expect((await browser.get(pageOf(newUserCode()))).status).toBe(404);
        // An attempt with the right code does not count toward the limit.
        if (nth === 9) expect((await browser.get(pageOf(userCode))).status).toBe(200);
      }
      const refused = await browser.get(pageOf(userCode));
      expect([refused.status, refused.words]).toEqual([429, expect.stringContaining("Too many attempts")]);
      expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(60);
      await answer(browser, userCode, "approve", guesser.id);
      expect(await stateOf(userCode)).toBe("pending");
      // The limit belongs to the account, so another address does not help.
      const elsewhere = openBrowser(base, { cookie: browser.cookie(), address: newAddress() });
      expect((await elsewhere.get(pageOf(userCode))).status).toBe(429);
    } finally {
      await deletePerson(guesser);
    }
  });

  test("one IP address may try 30 wrong user codes in 10 minutes, across all accounts", async () => {
    const guessers = await Promise.all(Array.from({ length: 4 }, createPerson));
    try {
      const { userCode } = await askFromDevice(client);
      const address = newAddress();
      const browsers = await Promise.all(
        guessers.map(async (guesser) => openBrowser(base, { cookie: (await enter(guesser)).cookie(), address })),
      );
      for (const [nth, browser] of browsers.entries()) {
        for (let guess = 0; nth < 3 && guess < 10; guess += 1) {
          expect((await browser.get(pageOf(newUserCode()))).status).toBe(404);
        }
      }
      expect((await browsers[3]?.get(pageOf(userCode)))?.status).toBe(429);
    } finally {
      await Promise.all(guessers.map(deletePerson));
    }
  });
});
