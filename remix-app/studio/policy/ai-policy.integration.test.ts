import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { bearer, createPerson, type Person, send } from "../../../scripts/test/apps.ts";
import { join } from "../../../supabase/tests/database.ts";
import { createGatewayTenant, type GatewayTenant } from "../../../supabase/tests/gateway/tenant.ts";

let tenant: GatewayTenant;
let admin: Person;
let member: Person;
let stranger: Person;
beforeAll(async () => {
  [tenant, admin, member, stranger] = await Promise.all([
    createGatewayTenant(),
    createPerson(),
    createPerson(),
    createPerson(),
  ]);
  const { db, workspaceId } = tenant;
  await join(db, { workspaceId, userId: admin.id, role: "admin" });
  await join(db, { workspaceId, userId: member.id, role: "member" });
});
afterAll(() => tenant.close());

const path = () => `/api/v1/workspaces/${tenant.workspaceId}/ai/policy`;
const read = ({ accessToken }: Person) => send(path(), { method: "GET", headers: bearer(accessToken) });
const change = ({ accessToken }: Person, body: object) =>
  send(path(), { method: "PATCH", headers: bearer(accessToken), body });

const ask = (key?: string) =>
  fetch(`${tenant.client.baseURL}/chat/completions`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${tenant.key}`,
      "content-type": "application/json",
      ...(key ? { "idempotency-key": key } : {}),
    },
    body: JSON.stringify({ model: "demo-chat", messages: [{ role: "user", content: "Hello" }] }),
  });

describe("a workspace's AI policy API", () => {
  test("the AI policy can be read by studio users and changed by managers, and returns 404 to strangers", async () => {
    expect(await read(member)).toMatchObject({ status: 200, body: { contentCapture: false, budget: null } });
    expect(await change(member, { contentCapture: true })).toMatchObject({ status: 403, body: { code: "FORBIDDEN" } });
    expect((await read(stranger)).status).toBe(404);
    expect((await change(stranger, { contentCapture: true })).status).toBe(404);
  });

  test.each([
    ["an unknown field", { capture: true }],
    ["an empty change", {}],
    ["a retention of 0 days", { contentRetentionDays: 0 }],
    ["a retention of 366 days", { contentRetentionDays: 366 }],
    ["a limit of 0 requests per minute", { requestsPerMinute: 0 }],
    ["an empty list of regions", { allowedRegions: [] }],
    ["a limit of a model without an amount", { modelLimits: [{ model: "demo-chat" }] }],
    [
      "two limits of the same model",
      { modelLimits: [1, 2].map((requestsPerMinute) => ({ model: "demo-chat", requestsPerMinute })) },
    ],
    [
      "limits of 101 models",
      { modelLimits: Array.from({ length: 101 }, (_, n) => ({ model: `m${n}`, requestsPerMinute: 1 })) },
    ],
    ["a region that is not in the list", { allowedRegions: ["eu-west-1"] }],
    ["a negative budget", { monthlyBudgetUsd: -1 }],
    ["a string instead of a boolean", { contentCapture: "true" }],
  ])("the AI policy rejects %s", async (_, body) => {
    expect(await change(admin, body)).toMatchObject({ status: 400, body: { code: "INVALID_REQUEST" } });
  });

  test("limits by model are read as they were set, and a limit of an unknown model is refused with its name", async () => {
    const modelLimits = [{ model: "demo-chat", requestsPerMinute: 1_000_000, tokensPerMinute: null }];
    expect(await change(admin, { modelLimits })).toMatchObject({ status: 200, body: { modelLimits } });
    expect(await change(admin, { modelLimits: [{ model: "DEMO-CHAT", tokensPerMinute: 1 }] })).toMatchObject({
      status: 400,
      body: { param: "modelLimits", detail: "modelLimits: The model “DEMO-CHAT” doesn’t exist." },
    });
    expect(await read(member)).toMatchObject({ body: { modelLimits } });
    expect(await change(admin, { modelLimits: [] })).toMatchObject({ body: { modelLimits: [] } });
  });

  test.each(["allowedModels", "deniedModels"])(
    "the AI policy rejects %s with an unknown model, and names the model",
    async (param) => {
      const answer = await change(admin, { [param]: ["demo-chat", "DEMO-CHAT"] });
      expect(answer).toMatchObject({
        status: 400,
        body: { code: "INVALID_REQUEST", param, detail: `${param}: The model “DEMO-CHAT” doesn’t exist.` },
      });
      expect(await read(admin)).toMatchObject({ body: { allowedModels: null, deniedModels: [] } });
    },
  );

  test("the AI policy accepts a retention of 1 day and of 365 days", async () => {
    for (const contentRetentionDays of [1, 365]) {
      expect(await change(admin, { contentRetentionDays })).toMatchObject({
        status: 200,
        body: { contentRetentionDays },
      });
    }
  });

  test("the AI policy turns content capture on for the next request, whose answer can then be replayed", async () => {
    expect((await change(admin, { contentCapture: true })).status).toBe(200);
    const key = crypto.randomUUID();
    const first = await ask(key);
    expect(first.status).toBe(200);
    await first.text();
    await expect.poll(async () => (await ask(key)).headers.get("x-platform-idempotent-replay")).toBe("true");
    expect((await change(admin, { contentCapture: false })).status).toBe(200);
  });

  test("an AI policy with a budget of zero refuses the next request, and allows requests again once the budget is removed", async () => {
    expect(await change(admin, { monthlyBudgetUsd: 0 })).toMatchObject({ body: { budget: { limitUsd: 0 } } });
    const stopped = await ask();
    expect([stopped.status, (await stopped.json()).error.code]).toEqual([402, "budget_exceeded"]);
    expect(await change(admin, { monthlyBudgetUsd: null })).toMatchObject({ body: { budget: null } });
    expect((await ask()).status).toBe(200);
  });

  test("a new budget includes costs from earlier in the month", async () => {
    await expect
      .poll(async () => {
        const { body } = await change(admin, { monthlyBudgetUsd: 100 });
        const { budget } = body as { budget: { spentUsd: number } };
        await change(admin, { monthlyBudgetUsd: null });
        return budget.spentUsd;
      })
      .toBeGreaterThan(0);
  });

  test("allowed regions refuse models whose providers state none, and leave them out of the list", async () => {
    const listed = async () => {
      const { data } = await tenant.client.models.list();
      return data.map(({ id }) => id);
    };
    expect(await change(admin, { allowedRegions: ["eu"] })).toMatchObject({ body: { allowedRegions: ["eu"] } });
    const refused = await ask();
    expect([refused.status, (await refused.json()).error]).toMatchObject([
      403,
      { code: "region_not_allowed", type: "permission_error", param: "model" },
    ]);
    expect(await listed()).toEqual([]);
    await change(admin, { allowedRegions: null });
    expect((await ask()).status).toBe(200);
    expect(await listed()).toContain("demo-chat");
  });

  test("a denied model makes the gateway answer 404 until it is allowed again", async () => {
    await change(admin, { deniedModels: ["demo-chat"] });
    expect((await ask()).status).toBe(404);
    await change(admin, { deniedModels: [] });
    expect((await ask()).status).toBe(200);
  });
});
