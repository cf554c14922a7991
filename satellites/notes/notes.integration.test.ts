import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { bearer, createPerson, type Person, send, service, signInAgain, signOut } from "../../scripts/test/apps.ts";
import { readStack } from "../../scripts/test/stack.ts";

const { base, satellites } = readStack();
const notes = satellites.find(({ name }) => name === "notes")?.url ?? "";
let person: Person;

beforeAll(async () => {
  person = await createPerson();
});
afterAll(async () => {
  await service.auth.admin.deleteUser(person.id);
});

async function mintForNotes({ accessToken }: Pick<Person, "accessToken"> = person): Promise<string> {
  const body = { targetApp: "notes" };
  const answer = await send("/api/v1/auth/cross-app-tokens", { body, headers: bearer(accessToken) });
  return (answer.body as { token: string }).token;
}

const get = (path: string, cookie = "") =>
  fetch(`${notes}${path}`, { redirect: "manual", headers: { accept: "text/html", cookie } });
const verify = (body: unknown, headers: Record<string, string> = {}) =>
  fetch(`${notes}/api/auth/verify-app-token`, {
    method: "POST",
    headers: { "content-type": "application/json", origin: notes, ...headers },
    body: JSON.stringify(body),
  });
const form = (path: string, fields: Record<string, string>, cookie = "") =>
  fetch(`${notes}${path}`, {
    method: "POST",
    redirect: "manual",
    headers: { "sec-fetch-site": "same-origin", cookie },
    body: new URLSearchParams(fields),
  });
const cookieOf = (response: Response) =>
  response.headers
    .getSetCookie()
    .map((line) => line.split(";")[0])
    .join("; ");

describe("POST /api/auth/verify-app-token", () => {
  test("verify-app-token redeems a token once and stores its sessions in host-only HttpOnly cookies", async () => {
    const token = await mintForNotes();
    const response = await verify({ token });
    expect([response.status, await response.json()]).toEqual([
      200,
      { userId: person.id, expiresAt: expect.stringMatching(/Z$/) },
    ]);
    const cookies = response.headers.getSetCookie();
    expect(cookies.map((line) => line.split("=")[0])).toEqual(["platform_app_session", "platform_central_session"]);
    for (const line of cookies) {
      expect(line).toMatch(/; HttpOnly/);
      expect(line).toMatch(/; SameSite=Lax/);
      expect(line).not.toMatch(/Domain=/);
    }
    const again = await verify({ token });
    expect([again.status, again.headers.getSetCookie()]).toEqual([401, []]);
  });

  test("verify-app-token refuses posts from other sites, and a state that this browser was not given", async () => {
    const token = await mintForNotes();
    expect((await verify({ token }, { origin: "https://evil.example" })).status).toBe(403);
    expect((await verify({ token }, { "sec-fetch-site": "same-site" })).status).toBe(403);
    expect((await verify({ token, state: "x" })).status).toBe(401);
    expect((await verify({ token, state: "x" }, { cookie: "platform_sign_in_state=y" })).status).toBe(401);
    expect((await verify({ token, state: "x" }, { cookie: "platform_sign_in_state=x" })).status).toBe(200);
  });

  test("verify-app-token replaces an existing session, and a session cookie that it did not issue is rejected", async () => {
    const before = cookieOf(await verify({ token: await mintForNotes() }));
    const after = await verify({ token: await mintForNotes() }, { cookie: before });
    expect(cookieOf(after)).not.toBe(before);
    expect(await (await get("/", before)).text()).toContain("Sign in with your Gatehouse account");
    const planted = await get("/", "platform_app_session=planted");
    expect(await planted.text()).toContain("Sign in with your Gatehouse account");
    expect(planted.headers.getSetCookie().join()).toMatch(/platform_app_session=;.*Max-Age=0/);
  });

  test.each([{}, { token: "" }, { token: 1 }, { token: "x".repeat(513) }, { token: "x", more: 1 }])(
    "verify-app-token returns 400 for the body %j",
    async (body) => {
      expect((await verify(body)).status).toBe(400);
    },
  );
});

describe("the page that completes a sign-in", () => {
  test("opening the verify-token page does not use the token, and asks for confirmation if another browser started the sign-in", async () => {
    const token = await mintForNotes();
    const page = await (await get(`/verify-token?token=${token}&nextUrl=/w/1&state=s`)).text();
    expect(page.replaceAll("<wbr/>", "")).toContain(`Continue as ${person.email}`);
    expect(page).toContain('data-auto="false"');
    const own = await (
      await get(`/verify-token?token=${token}&nextUrl=/w/1&state=s`, "platform_sign_in_state=s")
    ).text();
    expect(own).toContain('data-auto="true"');
    const done = await form("/verify-token", { token, nextUrl: "/w/1", state: "s" }, "platform_sign_in_state=s");
    expect([done.status, done.headers.get("location")]).toEqual([303, "/w/1"]);
  });

  test.each(["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "/.//evil.example"])(
    "the verify-token page redirects to / instead of %s",
    async (nextUrl) => {
      const done = await form("/verify-token", { token: await mintForNotes(), nextUrl });
      expect([done.status, done.headers.get("location")]).toEqual([303, "/"]);
    },
  );

  test("the verify-token page says that a sign-in link doesn't work if its token is missing or unknown", async () => {
    for (const path of ["/verify-token", `/verify-token?token=xat_${"a".repeat(43)}`])
      expect(await (await get(path)).text()).toContain("This sign-in link doesn’t work");
    const late = await form("/verify-token", { token: "x", nextUrl: "/" });
    expect(late.status).toBe(401);
  });
});

describe("a person using a satellite", () => {
  const enter = async (who: Pick<Person, "accessToken"> = person) =>
    cookieOf(await verify({ token: await mintForNotes(who) }));

  test("a person signed in to a satellite sees their workspaces, and renames one through the central API", async () => {
    const cookie = await enter();
    const page = await (await get("/", cookie)).text();
    expect(page).toContain(person.email);
    const [, id = ""] = /href="\/w\/([0-9a-f-]{36})"/.exec(page) ?? [];
    const name = `Renamed ${randomBytes(4).toString("hex")}`;
    const renamed = await form(`/w/${id}`, { name }, cookie);
    expect([renamed.status, renamed.headers.get("location")]).toEqual([303, `/w/${id}?renamed`]);
    const central = await send(`/api/v1/workspaces/${id}`, { method: "GET", headers: bearer(person.accessToken) });
    expect(central.body).toMatchObject({ name });
    expect((await form(`/w/${id}`, { name: " " }, cookie)).status).toBe(400);
  });

  test("a satellite refuses a form that was opened under another account, and explains why", async () => {
    const cookie = await enter();
    const [, id = ""] = /href="\/w\/([0-9a-f-]{36})"/.exec(await (await get("/", cookie)).text()) ?? [];
    expect(await (await get(`/w/${id}`, cookie)).text()).toContain(`name="person" value="${person.id}"`);
    const name = `Renamed ${randomBytes(4).toString("hex")}`;
    const refused = await form(`/w/${id}`, { name, person: crypto.randomUUID() }, cookie);
    const page = await refused.text();
    expect([refused.status, page]).toEqual([409, expect.stringContaining(`You’re signed in as ${person.email} now`)]);
    expect(page).toContain(`value="${name}"`);
    const central = await send(`/api/v1/workspaces/${id}`, { method: "GET", headers: bearer(person.accessToken) });
    expect(central.body).not.toMatchObject({ name });
    expect((await form(`/w/${id}`, { name, person: person.id }, cookie)).status).toBe(303);
  });

  test("a satellite redirects signed-out people to the platform's sign-in page, with the page to return to", async () => {
    const response = await get("/w/1?x=2");
    const location = new URL(response.headers.get("location") ?? "");
    expect(`${location.origin}${location.pathname}`).toBe(`${base}/login`);
    expect(location.searchParams.get("returnUrl")).toBe(`${notes}/w/1?x=2`);
    expect(cookieOf(response)).toBe(`platform_sign_in_state=${location.searchParams.get("state")}`);
  });

  test("a person is signed out of the satellite after signing out there, and after signing out of the platform", async () => {
    const cookie = await enter();
    const out = await form("/sign-out", {}, cookie);
    expect(out.headers.getSetCookie().join()).toMatch(/platform_app_session=;.*platform_central_session=;/);
    expect(await (await get("/", cookie)).text()).toContain("Sign in with your Gatehouse account");
    const session = await signInAgain(person);
    const other = await enter(session);
    expect(await (await get("/", other)).text()).toContain(person.email);
    await signOut(session);
    expect(await (await get("/", other)).text()).toContain("Sign in with your Gatehouse account");
  });
});

describe("routes of the platform and of a satellite", () => {
  test.each([
    "/login",
    "/signup",
    "/settings/security",
    "/workspaces",
    "/api/v1/auth/session",
    "/api/v1/workspaces",
    "/satellite",
  ])("routes of the platform return 404 on a satellite: %s", async (path) => {
    expect((await get(path)).status).toBe(404);
  });

  test.each(["/verify-token", "/sign-in", "/satellite", "/w/1", "/api/auth/verify-app-token"])(
    "routes of a satellite return 404 on the platform: %s",
    async (path) => {
      expect((await fetch(`${base}${path}`, { redirect: "manual" })).status).toBe(404);
    },
  );
});
