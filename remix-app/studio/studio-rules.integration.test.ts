import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createPerson, deletePerson, enter, type Person, type SignedInBrowser } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { join } from "../../supabase/tests/database.ts";
import {
  addKey,
  begin,
  chatCall,
  createTenant,
  outcome,
  settle,
  type Tenant,
} from "../../supabase/tests/gateway/fixtures.ts";
import { openPool } from "../../supabase/tests/pools.ts";
import { openPlainTab } from "../testing/plain-tab.ts";
import { modelField } from "./model-choice/model-options.ts";

type Visitor = Person & { browser: SignedInBrowser };
const { base } = readStack();
const { db, close } = openPool(2);
let tenant: Tenant;
let [admin, member, stranger] = [{} as Visitor, {} as Visitor, {} as Visitor];

async function createVisitor(): Promise<Visitor> {
  const person = await createPerson();
  return { ...person, browser: await enter(person) };
}

beforeAll(async () => {
  tenant = await createTenant(db, { credits: "1000", key: { monthlyBudgetUsd: "0.3" } });
  [admin, member, stranger] = await Promise.all([createVisitor(), createVisitor(), createVisitor()]);
  await join(db, { workspaceId: tenant.workspaceId, userId: admin.id, role: "admin" });
  await join(db, { workspaceId: tenant.workspaceId, userId: member.id, role: "member" });
});
afterAll(async () => {
  await Promise.all([admin, member, stranger].map(deletePerson));
  await close();
});

const at = (page: string) => `/workspaces/${tenant.workspaceId}/ai/${page}`;
const hidden = (text: string, name: string) => new RegExp(`name="${name}" value="([^"]*)"`).exec(text)?.[1] ?? "";
const limits = async () =>
  (await db.query(
    "select scope, trim_scale(limit_usd)::text as limit from ai.budgets where workspace_id = $1 order by 1",
    [tenant.workspaceId],
  )) as { scope: string; limit: string | null }[];

test("people outside the workspace see none of the studio's pages, and ordinary members can read them but not submit their forms", async () => {
  for (const page of ["budgets", "budgets.csv", "policy", "credits", "credits.csv"]) {
    expect((await stranger.browser.get(at(page))).status, page).toBe(404);
    expect((await member.browser.get(at(page))).status, page).toBe(200);
  }
  const policy = await member.browser.get(at("policy"));
  expect(policy.words).toContain("Your role doesn’t let you change these rules");
  expect(policy.text).not.toContain("Save policy");
  const budgets = await member.browser.get(`${at("budgets")}?change=workspace.${tenant.workspaceId}`);
  expect(budgets.text).not.toContain("Save budget");
  expect(budgets.words).not.toContain("test");
  const change = { scope: "workspace", subjectId: tenant.workspaceId, readUsd: "", intent: "save", limitUsd: "5" };
  for (const [visitor, status] of [
    [member, 403],
    [stranger, 404],
  ] as const) {
    expect((await visitor.browser.post(at("budgets"), change)).status).toBe(status);
    expect((await visitor.browser.post(at("policy"), { contentRetentionDays: "5" })).status).toBe(status);
  }
  expect(await limits()).toEqual([{ scope: "key", limit: "0.3" }]);
});

describe("the budgets page", () => {
  const form = (changes: object) => ({
    scope: "workspace",
    subjectId: tenant.workspaceId,
    readUsd: "",
    intent: "save",
    limitUsd: "",
    ...changes,
  });

  test("the budgets page sets, changes and removes a budget, and keeps its amount exact", async () => {
    const set = await admin.browser.post(at("budgets"), form({ limitUsd: " $12.000000000001 " }));
    expect([set.status, set.location]).toEqual([303, `${at("budgets")}?done=workspace.${tenant.workspaceId}`]);
    const page = await admin.browser.get(set.location ?? "");
    expect(page.words).toContain("Budget saved: $12.000000000001 per month for Test.");
    for (const done of ["x", `workspace.${crypto.randomUUID()}`])
      expect((await admin.browser.get(`${at("budgets")}?done=${done}`)).words).not.toContain("Budget changed.");
    const open = await admin.browser.get(`${at("budgets")}?change=workspace.${tenant.workspaceId}`);
    expect(hidden(open.text, "readUsd")).toBe("12.000000000001");
    const removed = await admin.browser.post(at("budgets"), form({ readUsd: "12.000000000001", intent: "remove" }));
    expect(removed.status).toBe(303);
    expect((await admin.browser.get(removed.location ?? "")).words).toContain("Test no longer has a budget.");
  });

  test.each(["", "-1", "ten", "1,5", "0.0000000000001", "1000000000000"])(
    "the budgets page rejects %j as an amount and marks the field",
    async (typed) => {
      const answer = await admin.browser.post(at("budgets"), form({ limitUsd: typed }));
      expect(answer.status).toBe(400);
      expect(answer.words).toContain("Enter an amount in dollars");
      expect(answer.text).toMatch(/aria-invalid="true"/);
      if (typed) expect(answer.text).toContain(`value="${typed}"`);
    },
  );

  test("the budgets page refuses a change to an outdated budget, shows the current budget, and lets the person overwrite it", async () => {
    const key = { scope: "key", subjectId: tenant.keyId };
    const late = form({ ...key, readUsd: "0.2", limitUsd: "0.5" });
    const refused = await admin.browser.post(at("budgets"), late);
    expect(refused.status).toBe(409);
    expect(refused.words).toContain("it is $0.30 now");
    expect(refused.text).toContain('value="0.5"');
    expect(hidden(refused.text, "readUsd")).toBe("0.3");
    expect((await admin.browser.post(at("budgets"), { ...late, readUsd: "0.3" })).status).toBe(303);
    expect(await limits()).toContainEqual({ scope: "key", limit: "0.5" });
  });

  test("the budgets page lists 40 budgets at a time, and its CSV file contains every budget that the member may see", async () => {
    const crowded = await createTenant(db, { credits: "1" });
    await join(db, { workspaceId: crowded.workspaceId, userId: admin.id, role: "admin" });
    await join(db, { workspaceId: crowded.workspaceId, userId: member.id, role: "member" });
    const path = `/workspaces/${crowded.workspaceId}/ai/budgets`;
    const lines = async (visitor: Visitor) => (await visitor.browser.get(`${path}.csv`)).text.trim().split("\r\n");
    const shown = (text: string) =>
      [...text.matchAll(/id="((?:workspace|app|key|member)\.[^"]+)"/g)].map(([, id]) => id);
    // The workspace, its first key, three members and 35 more keys have one budget each, 40 in total.
    for (let n = 0; n < 35; n++) await addKey(db, crowded);
    const whole = await admin.browser.get(path);
    expect([shown(whole.text).length, whole.words.includes("More budgets")]).toEqual([40, false]);
    expect(whole.words).toContain("No external app is linked to this workspace.");

    await addKey(db, crowded);
    const first = await admin.browser.get(path);
    const next = /href="[^"]*(\?cursor=[^"]+)"/.exec(first.text)?.[1] ?? "";
    const second = await admin.browser.get(`${path}${next}`);
    const [last = ""] = shown(second.text);
    expect(new Set([...shown(first.text), last]).size).toBe(41);
    expect(second.words).not.toContain("No external app is linked");
    expect([first, second].map(({ text }) => text.includes('id="label."'))).toEqual([false, true]);
    const [scope, subjectId] = last.split(".");
    expect(scope).toBe("member");
    const changed = await admin.browser.post(`${path}${next}`, form({ scope, subjectId, limitUsd: "7.25" }));
    expect(changed.location).toBe(`${path}${next}&done=${last}`);
    const same = await admin.browser.get(changed.location ?? "");
    expect(same.words).toMatch(/Budget saved: \$7\.25 per month for .+\./);
    expect([shown(same.text), shown((await admin.browser.get(path)).text)]).toEqual([[last], shown(first.text)]);

    const file = await lines(admin);
    expect(file[0]).toMatch(/^scope,name,id,live,limit_usd,spent_usd,reserved_usd,remaining_usd,/);
    expect(file).toHaveLength(42);
    expect(file).toContainEqual(expect.stringContaining(`${subjectId},true,7.25,0,0,7.25,0,false,,,true,month,UTC,`));
    expect(await lines(member)).toHaveLength(5);
    expect((await admin.browser.get(`${path}?cursor=odd`)).status).toBe(400);
  });

  test("the budgets page sets, changes and removes the budget of a label that no key has yet", async () => {
    const ofLabel = (changes: object) => ({ scope: "label", readUsd: "", intent: "save", ...changes });
    const post = (changes: object) => admin.browser.post(at("budgets"), ofLabel(changes));
    expect((await admin.browser.get(`${at("budgets")}?change=label.`)).text).toContain('name="label"');
    for (const label of ["", "a b", "ä", "a".repeat(129)]) {
      const refused = await post({ label, limitUsd: "5" });
      expect(refused.status, label).toBe(400);
      expect(refused.words).toContain(label === "" ? "Enter a label, such as customer:7" : "Use up to 128 letters");
      expect(refused.text).toContain(`value="${label}"`);
    }
    const bad = await post({ label: "customer:7", limitUsd: "x" });
    expect([bad.status, hidden(bad.text, "label")]).toEqual([400, ""]);
    expect(bad.text).toContain('value="customer:7"');
    const set = await post({ label: "customer:7", limitUsd: "5" });
    expect([set.status, set.location]).toEqual([303, `${at("budgets")}?done=label.customer%3A7`]);
    const page = await admin.browser.get(set.location ?? "");
    expect(page.words).toContain("Budget saved: $5.00 per month for customer:7.");
    expect(page.words).toContain("Only warns, because no API key has this label.");
    expect((await member.browser.get(at("budgets"))).words).toContain("customer:7");
    const late = await post({ label: "customer:7", limitUsd: "6" });
    expect([late.status, hidden(late.text, "readUsd")]).toEqual([409, "5"]);
    expect((await post({ label: "customer:7", limitUsd: "6", readUsd: "5" })).status).toBe(303);
    const { text } = await admin.browser.get(`${at("budgets")}.csv`);
    expect(text).toMatch(
      /^label,customer:7,[0-9a-f-]{36},true,6,0,0,6,0,false,,,false,month,UTC,[^,]+,[^,]+,50 80 100,false,,\r$/m,
    );
    expect((await post({ label: "customer:7", intent: "remove", readUsd: "6" })).status).toBe(303);
    expect((await admin.browser.get(at("budgets"))).words).toContain("No entity label has a budget yet.");
  });

  test("without JavaScript, a daily budget in a time zone and a limit of concurrent calls are added, changed and removed", async () => {
    const tab = openPlainTab(base, admin.browser);
    const key = `key.${tenant.keyId}`;
    await tab.open(`${at("budgets")}?change=${key}/new`);
    tab.fill(/^Budget of/, "10");
    tab.fill("Period", "day");
    tab.fill("Time zone", "Berlin");
    tab.fill("Warn at, in percent", "75, 200");
    await tab.press("Save budget");
    expect(tab.status()).toBe(400);
    expect(tab.alert()).toContain("Enter an IANA time zone, such as Europe/Berlin or UTC");
    expect(tab.alert()).toContain("Enter up to five percentages from 1 to 100");
    tab.fill("Time zone", "europe/berlin");
    tab.fill("Warn at, in percent", "75 and 100%");
    await tab.press("Save budget");
    expect(tab.words()).toMatch(/Budget saved: \$10\.00 per day for .+\./);
    expect(tab.words()).toMatch(
      /\$0\.00 of \$10\.00 today · 0% spent · \$10\.00 left · resets 00:00 Europe\/Berlin \(in \d+ (h|min)\)/,
    );
    await tab.open(`${at("budgets")}?change=${key}/day`);
    tab.fill(/^Daily budget of/, "12");
    tab.check("Reserve less for streamed requests");
    await tab.press("Save budget");
    const readDaily = () =>
      db.query(
        `select trim_scale(limit_usd)::text as limit, time_zone, thresholds, reserves_expected from ai.budgets
         where workspace_id = $1 and period = 'day'`,
        [tenant.workspaceId],
      );
    const saved = { limit: "12", time_zone: "Europe/Berlin", thresholds: [75, 100] };
    expect(await readDaily()).toEqual([{ ...saved, reserves_expected: true }]);
    await tab.open(`${at("budgets")}?change=${key}/day`);
    tab.check("Reserve less for streamed requests", false);
    await tab.press("Save budget");
    expect(await readDaily()).toEqual([{ ...saved, reserves_expected: false }]);

    await tab.open(`${at("budgets")}?change=${key}/concurrent`);
    tab.fill(/^Concurrent calls of/, "many");
    await tab.press("Save limit");
    expect(tab.alert()).toContain("Enter a number of calls");
    tab.fill(/^Concurrent calls of/, "4");
    await tab.press("Save limit");
    expect(tab.words()).toContain("0 of 4 concurrent calls in progress");
    const { text } = await admin.browser.get(`${at("budgets")}.csv`);
    expect(text).toMatch(/^key,[^\r]+,day,Europe\/Berlin,[^,]+,[^,]+,75 100,false,,\r$/m);
    expect(text).toMatch(/^key,[^\r]+,concurrent,UTC,,,50 80 100,false,4,0\r$/m);
    for (const [period, button, words] of [
      ["day", "Remove budget", "no longer has a daily budget."],
      ["concurrent", "Remove limit", "no longer has a limit of concurrent calls."],
    ] as const) {
      await tab.open(`${at("budgets")}?change=${key}/${period}`);
      await tab.press(button);
      expect(tab.words()).toContain(words);
    }
  });

  test("the keys page sets a label when a key is created, and rejects a malformed label", async () => {
    const fields = { name: "Labelled", entityId: "customer:8" };
    const made = await admin.browser.post(at("keys/new"), fields);
    expect(made.status).toBe(200);
    expect(
      await db.query("select entity_id from ai.keys where workspace_id = $1 and name = 'Labelled'", [
        tenant.workspaceId,
      ]),
    ).toEqual([{ entity_id: "customer:8" }]);
    const refused = await admin.browser.post(at("keys/new"), { ...fields, entityId: "customer 8" });
    expect(refused.status).toBe(400);
    expect(refused.words).toContain("Use up to 128 letters, digits, dots, underscores, colons and hyphens");
    expect((await admin.browser.get(`${at("budgets")}?change=label.customer%3A8`)).words).toContain(
      "Enter 0 to refuse every request.",
    );
  });

  test.each([{ scope: "user" }, { subjectId: "x" }, { intent: "drop" }, { readUsd: "x" }])(
    "the budgets page rejects a form with %j",
    async (changes) => {
      expect((await admin.browser.post(at("budgets"), form({ limitUsd: "1", ...changes }))).status).toBe(400);
    },
  );
});

describe("the policy page", () => {
  const read = async () => {
    const { text } = await admin.browser.get(at("policy"));
    return { text, readAt: hidden(text, "readAt").replace("&#x2B;", "+") };
  };
  const form = (changes: object) => ({
    models: "all",
    regions: "all",
    requestsPerMinute: "",
    tokensPerMinute: "",
    contentRetentionDays: "30",
    providerCostVisible: "on",
    ...changes,
  });

  afterAll(() => db.query("delete from ai.workspace_policies where workspace_id = $1", [tenant.workspaceId]));

  test("the policy page offers the plan's models, and saves the chosen models", async () => {
    const { text, readAt } = await read();
    const field = modelField("deny", tenant.model);
    expect(text).toContain(`id="${field}"`);
    const denied = form({ readAt, [field]: tenant.model, requestsPerMinute: "7" });
    const saved = await admin.browser.post(at("policy"), denied);
    expect([saved.status, saved.location]).toEqual([303, `${at("policy")}?saved=yes`]);
    expect((await admin.browser.get(saved.location ?? "")).words).toContain("Policy saved.");
    const [policy] = await db.query(
      "select denied_models, requests_per_minute from ai.workspace_policies where workspace_id = $1",
      [tenant.workspaceId],
    );
    expect(policy).toEqual({ denied_models: [tenant.model], requests_per_minute: 7 });
  });

  test("the policy page reports errors at each field, and keeps the typed values", async () => {
    const { readAt } = await read();
    const wrong = form({ readAt, models: "selected", requestsPerMinute: "none", contentRetentionDays: "366" });
    const answer = await admin.browser.post(at("policy"), wrong);
    expect(answer.status).toBe(400);
    for (const words of ["Select at least one model", "as a whole number of at least 1", "from 1 to 365"]) {
      expect(answer.words).toContain(words);
    }
    expect(answer.text).toContain('value="none"');
    expect(answer.text).toContain('value="366"');
  });

  test("the policy page refuses changes made to an outdated policy version, lists the differences, and saves the changes when they are sent again", async () => {
    const { readAt } = await read();
    const first = await admin.browser.post(at("policy"), form({ readAt, tokensPerMinute: "5000" }));
    expect(first.status).toBe(303);
    const late = form({ readAt, tokensPerMinute: "6000" });
    const refused = await admin.browser.post(at("policy"), late);
    expect(refused.status).toBe(409);
    expect(refused.words).toContain("Tokens per minute: now “5,000”, yours “6,000”");
    const readAgain = hidden(refused.text, "readAt").replace("&#x2B;", "+");
    expect((await admin.browser.post(at("policy"), { ...late, readAt: readAgain })).status).toBe(303);
  });

  test("the policy page searches models without saving, and keeps what was typed and selected", async () => {
    const { readAt } = await read();
    const denied = { [modelField("deny", tenant.model)]: tenant.model };
    const typed = form({ readAt, requestsPerMinute: "9", ...denied, intent: "search", modelTerm: "no such model" });
    const { status, text, words } = await admin.browser.post(at("policy"), typed);
    expect([status, words.includes("No model matches “no such model”.")]).toEqual([200, true]);
    expect(text).toContain(`name="${modelField("deny", tenant.model)}" value="${tenant.model}"`);
    expect([text.includes('value="9"'), hidden(text, "readAt").replace("&#x2B;", "+")]).toEqual([true, readAt]);
    const { text: saved } = await admin.browser.get(at("policy"));
    expect(saved).not.toContain('value="9"');
  });

  test("the policy page saves a denied model that has left the catalogue, but rejects an unknown model that is newly denied", async () => {
    await db.query("update ai.workspace_policies set denied_models = '{gone}' where workspace_id = $1", [
      tenant.workspaceId,
    ]);
    const { text, readAt } = await read();
    expect(text).toContain(modelField("deny", "gone"));
    expect(text).toContain("No longer in the catalogue");
    const kept = form({ readAt, [modelField("deny", "gone")]: "gone", tokensPerMinute: "7000" });
    expect((await admin.browser.post(at("policy"), kept)).status).toBe(303);
    const again = await read();
    const typo = form({ readAt: again.readAt, [modelField("deny", "DEMO-CHAT")]: "DEMO-CHAT" });
    const refused = await admin.browser.post(at("policy"), typo);
    expect([refused.status, refused.words]).toEqual([
      400,
      expect.stringContaining("The model “DEMO-CHAT” doesn’t exist."),
    ]);
  });

  test("the policy page rejects a form with an invalid readAt", async () => {
    expect((await admin.browser.post(at("policy"), form({ readAt: "now" }))).status).toBe(400);
  });
});

describe("the credits page", () => {
  test("the credits page links each charge to its run, and the credits file has exact amounts", async () => {
    const run = await begin(db, chatCall(tenant));
    await settle(db, [outcome(run)]);
    const page = await member.browser.get(`${at("credits")}?range=7d`);
    expect(page.text).toContain(`/workspaces/${tenant.workspaceId}/ai/runs/${run.run_id}`);
    expect(page.words).toContain("Total used");
    const file = await member.browser.get(`${at("credits.csv")}?range=7d`);
    const [head, newest, oldest] = file.text.split("\r\n");
    expect(head).toBe("time,kind,payer,credits,balance_after,run_id,description");
    expect(newest).toContain(`,usage,workspace,-0.0615,999.9385,${run.run_id},`);
    expect(oldest).toContain(",grant,workspace,1000,1000,,test");
    expect((await member.browser.get(`${at("credits")}?range=last-month`)).words).toContain("No credits were added");
  });

  test("the credits page is paginated, and rejects an invalid cursor", async () => {
    await db.query(
      `insert into ai.credit_ledger (account_id, kind, amount, balance_after, description)
       select a.id, 'purchase', i, 1, 'entry ' || i || '.' from ai.credit_accounts a, generate_series(1, 60) i
       where a.workspace_id = $1`,
      [tenant.workspaceId],
    );
    const first = await member.browser.get(`${at("credits")}?range=7d`);
    expect(first.words).toContain("entry 60.");
    expect(first.words).not.toContain("entry 5.");
    const next = /href="([^"]*cursor=[^"]*)"/.exec(first.text)?.[1]?.replaceAll("&amp;", "&") ?? "";
    const second = await member.browser.get(`${at("credits")}${next.slice(next.indexOf("?"))}`);
    expect(second.words).toContain("entry 5.");
    expect(second.words).not.toContain("entry 60.");
    expect((await member.browser.get(`${at("credits.csv")}`)).text.split("\r\n").length).toBeGreaterThan(61);
    expect((await member.browser.get(`${at("credits")}?cursor=zzz`)).status).toBe(400);
  });
});
