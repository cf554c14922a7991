import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openCommandLinePhone } from "../../../scripts/test/command-line-phone.ts";
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
  signedInLongAgo,
  tokenOf,
} from "../../../scripts/test/people.ts";
import { readStack } from "../../../scripts/test/stack.ts";
import { callAtOnce } from "../../testing/at-once.ts";
import { codeOf } from "../../testing/authenticator-app.ts";
import { openPhone, type Phone, unlockedPhone } from "../../testing/phone.ts";
import { formatUserCode } from "./user-code.ts";

const { base, supabase } = readStack();
let person: Person;
let phone: Phone;
let client: DeviceClient;

beforeAll(async () => {
  [person, client] = await Promise.all([createPerson(), createDeviceClient()]);
  phone = await openPhone({ base, ...supabase }, person);
});
afterAll(() => Promise.all([deletePerson(person), deleteDeviceClient(client)]));

const pathOf = (userCode: string) => `/api/v1/auth/device-authorizations/${userCode}`;
const approve = (by: Phone, userCode: string, device: object = unlockedPhone) =>
  by.post(`${pathOf(userCode)}/approve`, { device });
const deny = (by: Phone, userCode: string) => by.post(`${pathOf(userCode)}/deny`, {});

async function approvalOf(userCode: string): Promise<Record<string, unknown> | undefined> {
  const [row] = await query(
    `select user_id as user, (proof).session_id as session, (proof).factor_id as factor,
       approved_at is not null as approved, denied_at is not null as denied
     from private.device_authorizations where user_code = $1`,
    [userCode],
  );
  return row;
}

describe("approving a device on a phone", () => {
  test("a phone can read a device request's app, device, place, scopes and rights without changing the request", async () => {
    const { userCode } = await askFromDevice(client);
    for (const typed of [userCode, formatUserCode(userCode), userCode.toLowerCase()]) {
      expect(await phone.get(pathOf(typed))).toEqual({
        status: 200,
        setCookies: [],
        body: {
          userCode: formatUserCode(userCode),
          status: "pending",
          app: { name: client.name, displayName: "Field CLI" },
          scopes: ["openid", "profile", "workspaces:read"],
          rights: expect.arrayContaining(["See your workspaces and your role in each"]),
          device: "curl",
          address: "203.0.113.7",
          place: "Porto, Portugal",
          createdAt: expect.stringMatching(/Z$/),
          expiresAt: expect.stringMatching(/Z$/),
        },
      });
    }
    expect(await approvalOf(userCode)).toMatchObject({ approved: false, denied: false });
  });

  test("a phone approves a device for its own account, and the device's login does not depend on the phone's session", async () => {
    const { userCode } = await askFromDevice(client);
    expect(await approve(phone, userCode)).toMatchObject({ status: 200, body: { status: "approved" } });
    expect(await approvalOf(userCode)).toEqual({
      user: person.id,
      session: null,
      factor: null,
      approved: true,
      denied: false,
    });
    expect(await phone.get(pathOf(userCode))).toMatchObject({ body: { status: "approved" } });
    const events = await query(
      "select details from public.security_events where user_id = $1 and kind = 'device_approved'",
      [person.id],
    );
    expect(events).toEqual([{ details: { app: "Field CLI", requester: "curl, 203.0.113.7, Porto, Portugal" } }]);
  });

  // The same rule as on the page (docs/mobile.md#approve-a-device): a device's login outlives the phone's session.
  test.for([
    [590, 200],
    [610, 403],
  ] as const)("a phone whose sign-in is %d seconds old gets %d for an approval", async ([secondsAgo, status]) => {
    const { userCode } = await askFromDevice(client);
    const authorization = `Bearer ${tokenOf(await signedInLongAgo(person, { secondsAgo }))}`;
    const send = (answer: string, body: object) =>
      fetch(new URL(`${pathOf(userCode)}/${answer}`, base), {
        method: "POST",
        headers: { authorization, "content-type": "application/json" },
        body: JSON.stringify(body),
      });
    const answer = await send("approve", { device: unlockedPhone });
    expect(answer.status).toBe(status);
    if (status === 200) return expect(await approvalOf(userCode)).toMatchObject({ approved: true });
    expect(await answer.json()).toMatchObject({ code: "STEP_UP_REQUIRED" });
    expect(await approvalOf(userCode)).toMatchObject({ approved: false, denied: false });
    expect((await send("deny", {})).status).toBe(200);
  });

  test("a phone denies a device's request, and gets 409 for any second answer", async () => {
    const { userCode } = await askFromDevice(client);
    expect(await deny(phone, userCode)).toMatchObject({ status: 200, body: { status: "denied" } });
    expect(await deny(phone, userCode)).toMatchObject({ status: 409, body: { code: "CONFLICT" } });
    expect(await approve(phone, userCode)).toMatchObject({ status: 409, body: { code: "CONFLICT" } });
  });

  test("a phone gets 410 for an expired request and 404 for an unknown code", async () => {
    const request = await askFromDevice(client);
    await expireRequest(request);
    expect(await approve(phone, request.userCode)).toMatchObject({ status: 410, body: { code: "GONE" } });
    expect(await phone.get(pathOf(request.userCode))).toMatchObject({ body: { status: "expired" } });
    for (const unknown of [newUserCode(), "hello"]) {
      for (const answer of [phone.get(pathOf(unknown)), approve(phone, unknown), deny(phone, unknown)]) {
        expect(await answer).toMatchObject({ status: 404, body: { code: "NOT_FOUND" } });
      }
    }
  });

  test.each([
    ["no app lock", { ...unlockedPhone, appLock: false }, 403],
    ["no local authentication", { ...unlockedPhone, localAuthentication: null }, 403],
    ["an unknown local authentication", { ...unlockedPhone, localAuthentication: "none" }, 403],
    ["no name", { platform: "ios", appLock: true, localAuthentication: "biometric" }, 400],
  ])("a phone with %s cannot approve a device", async (_, device, status) => {
    const { userCode } = await askFromDevice(client);
    expect((await approve(phone, userCode, device)).status).toBe(status);
    expect(await approvalOf(userCode)).toMatchObject({ approved: false });
  });

  test("a phone must verify its second factor before it can read or answer a request, and the device's login then depends on that factor", async () => {
    const owner = await createPerson();
    try {
      const [app] = await insertAuthenticators(owner, ["Phone"]);
      if (!app) throw new Error("no app");
      const [{ userCode }, weak] = [await askFromDevice(client), await openPhone({ base, ...supabase }, owner)];
      for (const answer of [weak.get(pathOf(userCode)), approve(weak, userCode), deny(weak, userCode)]) {
        expect(await answer).toMatchObject({ status: 403, body: { code: "MFA_REQUIRED" } });
      }
      const prove = { factorId: app.factorId, code: codeOf(app, 1) };
      const strong = await openPhone({ base, ...supabase }, { ...owner, prove });
      expect((await approve(strong, userCode)).status).toBe(200);
      expect(await approvalOf(userCode)).toMatchObject({ user: owner.id, session: null, factor: app.factorId });
    } finally {
      await deletePerson(owner);
    }
  });

  test("concurrent approvals by a phone approve a device's request only once", async () => {
    const { userCode } = await askFromDevice(client);
    // Makes only four calls, to stay below the limit of 10 codes per account. Calls in progress count, and so do the
    // wrong codes of the tests above.
    const answers = await callAtOnce(() => approve(phone, userCode), { times: 4 });
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 409, 409, 409]);
  });
});

test("a browser session cannot use the phone's endpoints to read, approve or deny a device's request", async () => {
  const [{ userCode }, browser] = [await askFromDevice(client), await enter(person)];
  expect((await browser.get(pathOf(userCode))).status).toBe(403);
  expect((await browser.postJson(`${pathOf(userCode)}/approve`, { device: unlockedPhone })).status).toBe(403);
  expect((await browser.postJson(`${pathOf(userCode)}/deny`, {})).status).toBe(403);
  expect((await fetch(new URL(pathOf(userCode), base))).status).toBe(401);
  expect(await approvalOf(userCode)).toMatchObject({ approved: false, denied: false });
});

test("the command-line phone simulator shows the device's request and answers it", async () => {
  const commandLine = openCommandLinePhone();
  // Somebody else, because the calls of the tests above count towards the account's limit of codes.
  const owner = await createPerson();
  try {
    const { password, email } = owner;
    expect((await commandLine.run(["sign-in", email], { MOBILE_PASSWORD: password })).code).toBe(0);
    const [first, second] = [await askFromDevice(client), await askFromDevice(client)];
    const approved = await commandLine.run(["approve-device", formatUserCode(first.userCode)]);
    expect(approved.out).toMatch(/^Field CLI asks for a sign-in on curl, Porto, Portugal, 203\.0\.113\.7, .+Z\.\n/);
    expect(approved.out).toContain("See your workspaces and your role in each");
    expect(approved.out).toMatch(/\nApproved\./);
    expect(await approvalOf(first.userCode)).toMatchObject({ approved: true });
    expect(await commandLine.run(["deny-device", second.userCode])).toMatchObject({ err: "", out: "Denied." });
    const open = await askFromDevice(client);
    const locked = await commandLine.run(["approve-device", open.userCode, "--unlock", "none"]);
    expect([locked.code, locked.err]).toEqual([1, expect.stringContaining("app lock")]);
    expect((await commandLine.run(["approve-device", first.userCode])).err).toContain("already answered");
  } finally {
    commandLine.close();
    await deletePerson(owner);
  }
});
