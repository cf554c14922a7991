import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { bearer, createPerson, type Person, send } from "../../../scripts/test/apps.ts";
import { join } from "../../../supabase/tests/database.ts";
import { createGatewayTenant, type GatewayTenant } from "../../../supabase/tests/gateway/tenant.ts";

let tenant: GatewayTenant;
let [admin, member, stranger] = [{} as Person, {} as Person, {} as Person];
beforeAll(async () => {
  tenant = await createGatewayTenant();
  [admin, member, stranger] = await Promise.all([createPerson(), createPerson(), createPerson()]);
  const { db, workspaceId } = tenant;
  await join(db, { workspaceId, userId: admin.id, role: "admin" });
  await join(db, { workspaceId, userId: member.id, role: "member" });
});
afterAll(() => tenant.close());

const path = () => `/api/v1/workspaces/${tenant.workspaceId}/ai/budgets`;
const read = ({ accessToken }: Person) => send(`${path()}?limit=100`, { method: "GET", headers: bearer(accessToken) });
const set = ({ accessToken }: Person, body: object) =>
  send(path(), { method: "PATCH", headers: bearer(accessToken), body });
const ofLabel = { scope: "label", label: "customer:9", monthlyBudgetUsd: 12.5, previousBudgetUsd: null };

describe("budgets in the API", () => {
  test("members can read the budgets API, and people outside the workspace get 404", async () => {
    expect(await read(member)).toMatchObject({
      status: 200,
      body: { costVisible: true, keysVisible: false, nextCursor: null },
    });
    expect((await read(stranger)).status).toBe(404);
    expect((await set(stranger, ofLabel)).status).toBe(404);
  });

  test("a budget can be set if it has not changed since it was read, and can be removed", async () => {
    expect((await set(admin, ofLabel)).status).toBe(204);
    const { body } = (await read(admin)) as unknown as { body: { budgets: object[] } };
    expect(body.budgets).toContainEqual(
      expect.objectContaining({ scope: "label", name: "customer:9", limitUsd: 12.5, spentUsd: 0, enforced: false }),
    );
    expect(await set(admin, { ...ofLabel, monthlyBudgetUsd: 13 })).toMatchObject({
      status: 409,
      body: { code: "CONFLICT" },
    });
    expect((await set(admin, { ...ofLabel, monthlyBudgetUsd: null, previousBudgetUsd: 12.5 })).status).toBe(204);
  });

  test("setting budgets of members and labels requires manage_ai_policy, and the member must belong to the workspace", async () => {
    const ofMember = { scope: "member", subjectId: member.id, monthlyBudgetUsd: 1, previousBudgetUsd: null };
    expect((await set(member, ofMember)).status).toBe(403);
    expect((await set(member, ofLabel)).status).toBe(403);
    expect((await set(admin, { ...ofMember, subjectId: stranger.id })).status).toBe(404);
    expect((await set(admin, ofMember)).status).toBe(204);
  });

  test("a subject has a budget for each period, which only period=all lists, and older clients see none of the others", async () => {
    const of = { scope: "member", subjectId: member.id };
    const day = {
      ...of,
      period: "day",
      limitUsd: 2.5,
      previousLimitUsd: null,
      timeZone: "europe/berlin",
      thresholds: [90, 50],
      reservesExpected: true,
    };
    expect((await set(admin, day)).status).toBe(204);
    expect((await set(admin, { ...of, period: "total", limitUsd: 100, previousLimitUsd: null })).status).toBe(204);
    expect((await set(admin, { ...of, period: "concurrent", maxCalls: 3, previousMaxCalls: null })).status).toBe(204);
    expect((await set(admin, { ...of, limitUsd: 20.000000000001, previousLimitUsd: 1 })).status).toBe(204);

    const ofMember = async (query: string) => {
      const { body } = await send(`${path()}?${query}`, { method: "GET", headers: bearer(admin.accessToken) });
      return (body as unknown as { budgets: { subjectId: string }[] }).budgets.filter(
        ({ subjectId }) => subjectId === member.id,
      );
    };
    expect(await ofMember("limit=100")).toMatchObject([
      { period: "month", limitUsd: 20.000000000001, timeZone: "UTC" },
    ]);
    const listed = await ofMember("limit=100&period=all");
    expect(listed).toMatchObject([
      {
        period: "day",
        limitUsd: 2.5,
        timeZone: "Europe/Berlin",
        thresholds: [50, 90],
        reservesExpected: true,
        maxCalls: null,
      },
      { period: "month", limitUsd: 20.000000000001, thresholds: [50, 80, 100], reservesExpected: false, calls: null },
      { period: "total", limitUsd: 100, startsAt: null, endsAt: null },
      { period: "concurrent", limitUsd: null, maxCalls: 3, calls: 0, startsAt: null, endsAt: null },
    ]);
    expect(listed[0]).toMatchObject({ startsAt: expect.stringMatching(/T2[23]:00:00\.000Z$/) });
    for (const change of [
      { ...day, limitUsd: null, previousLimitUsd: 2.5 },
      { ...of, period: "total", limitUsd: null, previousLimitUsd: 100 },
      { ...of, period: "concurrent", maxCalls: null, previousMaxCalls: 3 },
    ]) {
      expect((await set(admin, change)).status).toBe(204);
    }
    expect(await ofMember("limit=100&period=all")).toHaveLength(1);
    expect((await send(`${path()}?period=day`, { method: "GET", headers: bearer(admin.accessToken) })).status).toBe(
      400,
    );
  });

  test("pages of all budgets continue within a subject", async () => {
    const of = { scope: "workspace", subjectId: tenant.workspaceId, previousLimitUsd: null };
    for (const period of ["day", "week", "month"]) await set(admin, { ...of, period, limitUsd: 1 });
    const periods: string[] = [];
    for (let cursor = ""; periods.length < 3; ) {
      const { body } = await send(`${path()}?period=all&limit=1${cursor}`, {
        method: "GET",
        headers: bearer(admin.accessToken),
      });
      const page = body as unknown as { budgets: { period: string }[]; nextCursor: string };
      periods.push(...page.budgets.map(({ period }) => period));
      cursor = `&cursor=${page.nextCursor}`;
    }
    expect(periods).toEqual(["day", "week", "month"]);
  });

  test.each([
    [{ period: "year" }, "period"],
    [{ limitUsd: undefined }, "limitUsd"],
    [{ previousLimitUsd: undefined }, "previousLimitUsd"],
    [{ monthlyBudgetUsd: 1, previousBudgetUsd: null }, "period"],
    [{ monthlyBudgetUsd: 1, previousBudgetUsd: null, period: "month" }, "limitUsd"],
    [{ timeZone: "Berlin" }, "timeZone"],
    [{ timeZone: "+01:00" }, "timeZone"],
    [{ period: "total", timeZone: "UTC" }, "timeZone"],
    [{ thresholds: [0] }, "thresholds.0"],
    [{ thresholds: [101] }, "thresholds.0"],
    [{ thresholds: [1, 2, 3, 4, 5, 6] }, "thresholds"],
    [{ maxCalls: 5 }, "maxCalls"],
    [{ reservesExpected: "yes" }, "reservesExpected"],
    [{ period: "concurrent" }, "maxCalls"],
    [{ period: "concurrent", limitUsd: undefined, previousLimitUsd: undefined, maxCalls: -1 }, "maxCalls"],
    [{ scope: "app", period: "concurrent" }, "scope"],
  ])("the budgets API names the field of a change with %j", async (changes, param) => {
    const day = { scope: "member", subjectId: member.id, period: "day", limitUsd: 1, previousLimitUsd: null };
    expect(await set(admin, { ...day, ...changes })).toMatchObject({ status: 400, body: { param } });
  });

  test.each([
    { label: "a b" },
    { label: undefined },
    { subjectId: crypto.randomUUID() },
    { scope: "user" },
    { monthlyBudgetUsd: -1 },
    { monthlyBudgetUsd: "5" },
    { previousBudgetUsd: undefined },
  ])("the budgets API rejects a change with %j", async (changes) => {
    expect((await set(admin, { ...ofLabel, ...changes })).status).toBe(400);
  });
});
