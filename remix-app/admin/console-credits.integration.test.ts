import { afterAll, beforeAll, expect, test } from "vitest";
import { type ConsoleAdmin, createConsoleAdmin } from "../../scripts/test/console-admin.ts";
import { createPerson, deletePerson, enter, type Person, query } from "../../scripts/test/people.ts";

const planId = `plan_${crypto.randomUUID().slice(0, 8)}`;
let admin: ConsoleAdmin;
let person: Person;
let workspaceId: string;

beforeAll(async () => {
  [admin, person] = await Promise.all([createConsoleAdmin(), createPerson()]);
  const [made] = await query<{ id: string }>(
    "insert into public.workspaces (name, plan_id, created_by) values ('Orbit', 'team', $1) returning id",
    [person.id],
  );
  workspaceId = made?.id ?? "";
});
afterAll(async () => {
  await query("update public.workspaces set deleted_at = now() where id = $1", [workspaceId]);
  await query("delete from ai.plans where id = $1", [planId]);
  await Promise.all([admin, person].map(deletePerson));
});

const credits = (step = "", payer = "workspace") =>
  `/admin/credits/${payer}/${payer === "workspace" ? workspaceId : person.id}${step && `/${step}`}`;
const filled = { reason: "Invoice 117", amount: "500.5", reference: "INV-117", description: "" };
const balance = async () =>
  (
    await query<{ balance: string }>(
      "select trim_scale(balance)::text as balance from ai.credit_accounts where workspace_id = $1",
      [workspaceId],
    )
  )[0]?.balance;

test("grants credits once per reference, and says that a repeated grant changed nothing", async () => {
  const stranger = await enter(person);
  expect((await stranger.get(credits())).status).toBe(403);
  expect((await stranger.post(credits("grant"), filled)).status).toBe(403);
  const form = await admin.browser.get(credits("grant"));
  expect(form.words).toMatch(/The grant opens it and also adds the plan.*s 100,000 initial credits\./);
  expect(form.text).toMatch(/name="reference" [^>]*value="console-\d{4}-\d\d-\d\d-[0-9a-f]{8}"/);
  expect((await admin.browser.post(credits("grant"), filled)).location).toBe(`${credits()}?done=grant`);
  expect((await admin.browser.post(credits("grant"), filled)).location).toBe(`${credits()}?done=repeated`);
  expect((await admin.browser.get(`${credits()}?done=repeated`)).words).toContain("Nothing was changed.");
  expect(await balance()).toBe("100500.5");
  const page = (await admin.browser.get(credits())).words;
  expect(page).toContain("100,500.50");
  expect(page).toContain("INV-117");
});

test("a credit grant that reuses a reference with another amount is refused with 409, as is a withdrawal above the available balance", async () => {
  const used = await admin.browser.post(credits("grant"), { ...filled, amount: "500.50000001" });
  expect([used.status, used.words]).toEqual([409, expect.stringContaining("already used for another amount")]);
  const much = { ...filled, amount: "100500.50000001", reference: "OUT-1" };
  const refused = await admin.browser.post(credits("withdraw"), much);
  expect([refused.status, refused.words]).toEqual([409, expect.stringContaining("more than the available balance")]);
  const all = { ...much, amount: "100500.5" };
  expect((await admin.browser.post(credits("withdraw"), all)).location).toBe(`${credits()}?done=withdraw`);
  expect(await balance()).toBe("0");
});

test.each([
  ["no amount", { amount: "" }, "Enter a number of credits"],
  ["0 credits", { amount: "0.00000000" }, "more than 0"],
  ["a negative amount", { amount: "-1" }, "Enter a number of credits"],
  ["nine decimals", { amount: "0.000000001" }, "at most 8 decimals"],
  ["an exponent", { amount: "1e3" }, "Enter a number of credits"],
  ["no reference", { reference: " " }, "Enter a reference"],
  ["no reason", { reason: "" }, "Enter a reason"],
])("refuses a credit grant with %s", async (_, more, words) => {
  const answer = await admin.browser.post(credits("grant"), { ...filled, reference: "INV-118", ...more });
  expect([answer.status, answer.words]).toEqual([400, expect.stringContaining(words)]);
});

test("changes a member's balance, and refuses to change the admin's own balance", async () => {
  expect((await admin.browser.post(credits("grant", "member"), filled)).status).toBe(303);
  const own = `/admin/credits/member/${admin.id}`;
  expect((await admin.browser.get(own)).words).toContain("change your own credits");
  const refused = await admin.browser.post(`${own}/grant`, filled);
  expect(refused.status).toBe(403);
  for (const path of [`/admin/credits/app/${person.id}`, `/admin/credits/member/${workspaceId}`, credits("gift")]) {
    expect((await admin.browser.get(path)).status).toBe(404);
  }
  expect((await admin.browser.get(`${credits()}?cursor=x`)).status).toBe(400);
});

const plan = {
  reason: "A plan of the test",
  plan: planId,
  name: "Test plan",
  payer: "member",
  markup: "1.25",
  initialCredits: "5000",
  lowCredits: "",
  requestsPerMinute: "60",
  tokensPerMinute: "",
};

test.each([
  ["an id with capitals", { plan: "Plan" }, "1 to 32 characters"],
  ["the reserved id new", { plan: "new" }, "new is reserved"],
  ["a markup with seven decimals", { markup: "1.0000001" }, "at most 6 decimals"],
  ["a limit of 0", { requestsPerMinute: "0" }, "Enter a whole number"],
  ["no reason", { reason: "" }, "Enter a reason"],
])("refuses a plan with %s", async (_, more, words) => {
  const answer = await admin.browser.post("/admin/plans/new", { ...plan, ...more });
  expect([answer.status, answer.words]).toEqual([400, expect.stringContaining(words)]);
});

test("an admin adds and edits a plan, and sees how moving a workspace to the plan affects the balance", async () => {
  expect((await admin.browser.post("/admin/plans/new", plan)).location).toBe("/admin/plans?done");
  expect((await admin.browser.post("/admin/plans/new", plan)).status).toBe(409);
  const list = (await admin.browser.get("/admin/plans")).words;
  expect(list).toContain("Test plan");
  expect(list).toContain("×1.25");
  const seen = /name="seen" value="(\w+)"/.exec((await admin.browser.get(`/admin/plans/${planId}`)).text)?.[1] ?? "";
  const edit = { ...plan, seen, lowCredits: "100", markup: "2" };
  expect((await admin.browser.post(`/admin/plans/${planId}`, edit)).status).toBe(303);
  const lost = await admin.browser.post(`/admin/plans/${planId}`, edit);
  expect([lost.status, lost.words]).toEqual([409, expect.stringContaining("changed it on")]);

  const page = `/admin/workspaces/${workspaceId}`;
  expect((await admin.browser.get(page)).words).toContain("Team, paid by the workspace");
  expect((await admin.browser.get(`${page}/plan`)).words).toContain("Test plan");
  const move = { reason: "They asked", plan: planId, seen: "team" };
  const asked = await admin.browser.get(`${page}/plan?plan=${planId}`);
  expect(asked.words).toContain("The workspace keeps its balance of 0 credits, but doesn’t use it");
  expect((await admin.browser.post(`${page}/plan`, move)).location).toBe(`${page}?done`);
  expect((await admin.browser.post(`${page}/plan`, move)).status).toBe(409);
  expect((await admin.browser.get(page)).words).toContain("Test plan, paid by each member");
  expect((await admin.browser.get(`/admin/plans/${planId}`)).words).toContain(
    "change this, because credit accounts already use this plan",
  );
});

test("the studio's pages say if credits are low or used up", async () => {
  const member = await enter(person);
  const words = async () => (await member.get(`/workspaces/${workspaceId}/ai/runs`)).words;
  const setBalance = (credits: string) =>
    query("update ai.credit_accounts set balance = $2 where user_id = $1", [person.id, credits]);
  const [threshold] = await query<{ low: string }>(
    "select ai.low_credits(p)::text as low from ai.paying_plan('member', $1) p",
    [person.id],
  );
  await setBalance(threshold?.low ?? "");
  expect(await words()).not.toContain("Ask a platform administrator to add credits.");
  await setBalance("12.3");
  expect(await words()).toMatch(/Credits are low: .*left\. Ask a platform administrator to add credits\./);
  await setBalance("0");
  expect(await words()).toContain(
    "Not enough credits: requests are refused (402 insufficient_credits). Ask a platform administrator to add credits.",
  );
});
