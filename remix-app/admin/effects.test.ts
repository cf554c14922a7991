import { expect, test } from "vitest";
import { type CreditAccount, creditEffects } from "./credits.ts";
import { type Plan, planEffects } from "./plans.ts";
import { type ConsoleWorkspace, moveEffects } from "./workspace.ts";

const plan: Plan = {
  id: "team",
  name: "Team",
  payer: "workspace",
  markup: "1.2",
  initialCredits: "100000",
  lowCredits: null,
  warnsBelow: "10000",
  requestsPerMinute: null,
  tokensPerMinute: null,
  workspaces: 1,
  models: 3,
  payerFixed: true,
  version: "v",
};
const free: Plan = { ...plan, id: "free", name: "Free", payer: "member", markup: "1", initialCredits: "10000" };
const account = { balance: "850.00000001", reserved: "50", available: "800.00000001" };
const workspace: ConsoleWorkspace = {
  id: "0b4c7b0e-9d6b-4f2e-8a3c-2f6a5f3f4c11",
  name: "Orbit",
  createdAt: "2026-11-27T10:00:00Z",
  personalUserId: null,
  planId: "team",
  plan,
  members: 2,
  owners: [],
  account,
  approvedAt: null,
  approvedBy: null,
  thisMonth: { requests: 0, failed: 0, costUsd: "0", billedCredits: "0" },
  liveKeys: 0,
};

test.each([
  [
    "to a plan that members pay for",
    { plan, account },
    free,
    "keeps its balance of 850.00000001 credits, but doesn’t use it",
  ],
  ["to a plan that members pay for, without a balance", { plan, account: null }, free, "The workspace has no balance."],
  [
    "to a plan that the workspace pays for",
    { plan: free, account },
    plan,
    "from its own balance, which is 850.00000001 credits",
  ],
  [
    "to a plan that the workspace pays for, without a balance",
    { plan: free, account: null },
    plan,
    "gets 100,000 credits with its first request",
  ],
  [
    "to a plan with the same payer",
    { plan, account },
    { ...plan, id: "scale" },
    "Balances don’t change, and requests are still paid from them.",
  ],
  ["from a deleted plan", { plan: null, account }, plan, "from its own balance, which is 850.00000001 credits"],
  ["to a plan without models", { plan, account }, { ...plan, models: 0 }, "The Team plan has no models."],
])("describes the effects of moving a workspace %s", (_, now, to, words) => {
  expect(moveEffects({ ...workspace, ...now }, to).join(" ")).toContain(words);
});

const credits: CreditAccount = {
  payer: "workspace",
  id: workspace.id,
  name: "Orbit",
  personalUserId: null,
  plan: { id: "team", name: "Team", initialCredits: "100000", lowCredits: "10000" },
  account: { ...account, refusedAt: null },
  entries: [],
};

test("the effects of a grant include the plan's initial credits only for a workspace that has no balance yet", () => {
  const opens = "adds the plan’s 100,000 initial credits";
  expect(creditEffects("grant", { ...credits, account: null }).join(" ")).toContain(opens);
  expect(creditEffects("grant", credits).join(" ")).not.toContain(opens);
  expect(creditEffects("grant", { ...credits, plan: null }).join(" ")).toContain(
    "Requests aren’t paid from this balance",
  );
});

test("states the available credits before a withdrawal", () => {
  expect(creditEffects("withdraw", credits).join(" ")).toContain("of which 800.00000001 are available");
});

test("states the number of workspaces on a plan before a change of the plan", () => {
  expect(planEffects(plan)[0]).toBe("1 workspace has this plan.");
  expect(planEffects({ ...plan, workspaces: 1200 })[0]).toBe("1,200 workspaces have this plan.");
});
