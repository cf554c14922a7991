import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { bearer, send } from "../../../scripts/test/apps.ts";
import {
  createPerson,
  deletePerson,
  enter,
  insertAuthenticators,
  type Person,
  query,
  type SignedInBrowser,
  signedInLongAgo,
  tokenOf,
} from "../../../scripts/test/people.ts";
import { codeOf } from "../../testing/authenticator-app.ts";

const staleSeconds = 610;
type Shown = { id: string; version: string; limitUsd: number; state: string; [member: string]: unknown };
type Body = { envelope: Shown; envelopes: Shown[]; nextCursor: string | null; code?: string; param?: string };

let person: Person;
let workspaceId: string;
beforeEach(async () => {
  person = await createPerson();
  const [own] = await query<{ id: string }>("select id from public.workspaces where personal_user_id = $1", [
    person.id,
  ]);
  workspaceId = own?.id ?? "";
});
afterEach(() => deletePerson(person));

const api = (browser: SignedInBrowser) => async (method: string, path: string, body?: object) => {
  const url = `/api/v1/workspaces/${workspaceId}/ai/envelopes${path}`;
  const answer = await send(url, { method, headers: bearer(tokenOf(browser)), ...(body && { body }) });
  return answer as unknown as { status: number; body: Body };
};

/** Sets a task limit of $5 for the person's own requests. */
async function openOwn(): Promise<{ id: string; version: string; page: string }> {
  const [row] = await query<{ envelope: Shown }>(
    `select ai.open_envelope_for_member($1, $2, null, 'release-notes', '{"limitUsd": "5"}') -> 'envelope' as envelope`,
    [person.id, workspaceId],
  );
  if (!row) throw new Error("no envelope");
  const { id, version } = row.envelope;
  return { id, version, page: `/workspaces/${workspaceId}/ai/envelopes/${id}` };
}

const limitOf = async (id: string) => {
  const [budget] = await query<{ limit: string }>(
    "select trim_scale(limit_usd)::text as limit from ai.budgets where scope = 'envelope' and subject_id = $1",
    [id],
  );
  return budget?.limit;
};
const fieldValue = (text: string, name: string) => {
  const fields = [...text.matchAll(new RegExp(`<input[^>]* name="${name}"[^>]*>`, "g"))];
  return fields.map(([field]) => /\bvalue="([^"]*)"/.exec(field)?.[1]);
};

describe("the envelopes API", () => {
  test("opens, lists, raises and ends an envelope with exact amounts", async () => {
    const call = api(await enter(person));
    const opened = await call("POST", "", { label: "task-1", limitUsd: 0.000000000001, calls: 3, ttlSeconds: 3600 });
    expect(opened).toMatchObject({ status: 201, body: { envelope: { limitUsd: 1e-12, calls: 3, state: "open" } } });
    const { id, version } = opened.body.envelope;
    expect(await call("POST", "", { label: "task-1", limitUsd: 9 })).toMatchObject({
      status: 409,
      body: { code: "CONFLICT" },
    });
    expect((await call("GET", "?state=open")).body.envelopes).toMatchObject([{ id }]);
    expect((await call("GET", "?state=ended,expired")).body.envelopes).toEqual([]);
    const changed = await call("PATCH", `/${id}`, { limitUsd: 2.5, calls: null, version });
    expect(changed).toMatchObject({ status: 200, body: { envelope: { limitUsd: 2.5, calls: null } } });
    expect(await call("PATCH", `/${id}`, { limitUsd: 3, version })).toMatchObject({
      status: 409,
      body: { code: "CONFLICT" },
    });
    expect((await call("PATCH", `/${id}`, { ended: true })).body.envelope).toMatchObject({ state: "ended" });
    const late = { limitUsd: 3, version: changed.body.envelope.version };
    expect((await call("PATCH", `/${id}`, late)).status).toBe(409);
    expect((await call("GET", `/${id}`)).body.envelope).toMatchObject({ state: "ended", limitUsd: 2.5 });
  });

  test.each([
    ["POST", { limitUsd: 0 }, "limitUsd"],
    ["POST", { limitUsd: "5" }, "limitUsd"],
    ["POST", { limitUsd: 5, calls: 0 }, "calls"],
    ["POST", { limitUsd: 5, label: "a b" }, "label"],
    ["POST", { limitUsd: 5, ttlSeconds: 60, endsAt: "2999-01-01T00:00:00Z" }, "endsAt"],
    ["POST", { limitUsd: 5, endsAt: "2999-01-01T00:00:00Z" }, "endsAt"],
    ["POST", { limitUsd: 5, endsAt: "2001-01-01T00:00:00Z" }, "endsAt"],
    ["PATCH", { limitUsd: 5 }, "version"],
    ["PATCH", { limitUsd: 5, ended: true }, "ended"],
    ["PATCH", { limit: 5 }, "limit"],
  ])("%s %j is refused because of %s", async (method, body, param) => {
    const call = api(await enter(person));
    const path = method === "PATCH" ? `/${(await openOwn()).id}` : "";
    expect(await call(method, path, body)).toMatchObject({ status: 400, body: { code: "INVALID_REQUEST", param } });
  });

  test("raising and opening need a recent proof of identity; lowering and ending don't", async () => {
    const call = api(await signedInLongAgo(person, { secondsAgo: staleSeconds }));
    const { id, version } = await openOwn();
    const refused = { status: 403, body: { code: "STEP_UP_REQUIRED" } };
    expect(await call("POST", "", { limitUsd: 5 })).toMatchObject(refused);
    expect(await call("PATCH", `/${id}`, { limitUsd: 6, version })).toMatchObject(refused);
    expect(await limitOf(id)).toBe("5");
    expect((await call("PATCH", `/${id}`, { limitUsd: 4, version })).status).toBe(200);
    expect((await call("PATCH", `/${id}`, { ended: true })).status).toBe(200);
  });

  test("another person's workspace and envelope are not found", async () => {
    const { id } = await openOwn();
    const other = await createPerson();
    try {
      const call = api(await enter(other));
      for (const path of ["", `/${id}`]) expect((await call("GET", path)).status).toBe(404);
      expect((await call("PATCH", `/${id}`, { ended: true })).status).toBe(404);
      expect((await call("GET", "/none")).status).toBe(404);
    } finally {
      await deletePerson(other);
    }
  });
});

describe("the pages of task limits", () => {
  test("a person sets a task limit in a plain form, raises it with one button, and stops it", async () => {
    const browser = await enter(person);
    const list = `/workspaces/${workspaceId}/ai/envelopes`;
    expect((await browser.get(list)).text).toContain("X-Platform-Envelope: usd=5");
    const refused = await browser.post(`${list}?new=1`, { keyId: "", label: "a b", limitUsd: "5" });
    expect([refused.status, fieldValue(refused.text, "limitUsd")]).toEqual([400, ["5"]]);
    const opened = await browser.post(`${list}?new=1`, { keyId: "", label: "release-notes", limitUsd: "5" });
    expect([opened.status, opened.location]).toEqual([303, expect.stringMatching(/\?done=opened$/)]);
    const page = opened.location?.replace(/\?.*/, "") ?? "";
    const { text } = await browser.get(page);
    expect(text).toContain("Raise to $10");
    const [version = ""] = fieldValue(text, "version");
    expect((await browser.post(page, { version, limitUsd: "10" })).location).toBe(`${page}?done=saved`);
    expect((await browser.get(`${page}?done=saved`)).text).toContain("Saved: $10.00");
    const late = await browser.post(page, { version, limitUsd: "20", calls: "7" });
    expect([late.status, late.text.includes("Someone changed this task limit")]).toEqual([409, true]);
    const [, current = ""] = fieldValue(late.text, "version");
    expect((await browser.post(page, { version: current, limitUsd: "20" })).status).toBe(303);
    expect((await browser.get(`${page}?confirm=stop`)).text).toContain("Stop release-notes?");
    expect((await browser.post(page, { intent: "stop" })).status).toBe(303);
    const stopped = (await browser.get(page)).text;
    expect(stopped).toContain("A stopped task can’t continue");
    expect(stopped).not.toContain("Raise to");
  });

  test("a raise with an old sign-in returns to the form with its values after the second factor", async () => {
    const [app] = await insertAuthenticators(person, ["Phone"]);
    if (!app) throw new Error("no authenticator");
    const prove = { factorId: app.factorId, code: codeOf(app) };
    const browser = await signedInLongAgo(person, { secondsAgo: staleSeconds, prove });
    const { id, version, page } = await openOwn();
    const stepUp = `/step-up?${new URLSearchParams({ returnUrl: page })}`;
    expect((await browser.post(page, { version, limitUsd: "10" })).location).toBe(stepUp);
    expect(await limitOf(id)).toBe("5");
    const stepUpPage = await browser.get(stepUp);
    expect(stepUpPage.text).toContain("raise a task limit");
    const entered = await browser.post(stepUp, { factorId: app.factorId, code: codeOf(app, 1) });
    expect(entered.location).toBe(page);
    const { text } = await browser.get(page);
    expect(fieldValue(text, "limitUsd")).toEqual(["10"]);
    const [restored = ""] = fieldValue(text, "version");
    expect((await browser.post(page, { version: restored, limitUsd: "10" })).location).toBe(`${page}?done=saved`);
    expect(await limitOf(id)).toBe("10");
  });

  test("stopping and lowering need no step-up", async () => {
    const browser = await signedInLongAgo(person, { secondsAgo: staleSeconds });
    const { id, version, page } = await openOwn();
    expect((await browser.post(page, { version, limitUsd: "4.5" })).location).toBe(`${page}?done=saved`);
    expect(await limitOf(id)).toBe("4.5");
    expect((await browser.post(page, { intent: "stop" })).location).toBe(`${page}?done=stopped`);
  });

  test("an expired task limit is resumed by a button", async () => {
    const browser = await enter(person);
    const { id, page } = await openOwn();
    await query("update ai.budgets set ends_at = now() - interval '1 hour' where subject_id = $1", [id]);
    const { text } = await browser.get(page);
    expect(text).toContain("Resume for 1 day");
    const [version = ""] = fieldValue(text, "version");
    expect((await browser.post(page, { version, hours: "24" })).location).toBe(`${page}?done=saved`);
    const { body } = await api(browser)("GET", `/${id}`);
    expect(body.envelope.state).toBe("open");
  });
});
