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
