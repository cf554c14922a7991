import OpenAI from "openai";
import type { Locator, Page } from "playwright/test";
import { deletePerson } from "../scripts/test/people.ts";
import { readStack } from "../scripts/test/stack.ts";
import { enterConsole } from "./console.ts";
import { enter, expect, test } from "./test.ts";

const stack = readStack();
/** USD per token in LiteLLM's format. Per million tokens: input 0.137, cached input 0.031, output 0.813. */
const liteLlmPrices = {
  litellm_provider: "openai",
  input_cost_per_token: 1.37e-7,
  cache_read_input_token_cost: 3.1e-8,
  output_cost_per_token: 8.13e-7,
};
/**
 * `creditsPerUsd` includes the markup. With prices of three decimals, credits have at most seven decimals, so the
 * ledger, which keeps eight, never rounds them.
 */
const markup = "1.25";
const creditsPerUsd = 12_500n;

const press = (page: Page, name: string) => page.getByRole("button", { name, exact: true }).click();
const follow = (page: Page, name: string) => page.getByRole("main").getByRole("link", { name, exact: true }).click();
const openSection = (page: Page, name: string) =>
  page.getByRole("navigation", { name: "Console", exact: true }).getByRole("link", { name, exact: true }).click();

async function fill(page: Page, fields: Record<string, string>): Promise<void> {
  for (const [label, text] of Object.entries(fields)) await page.getByLabel(label, { exact: true }).fill(text);
}

async function explain(page: Page, button: string): Promise<void> {
  await page.getByLabel("Reason").fill("First day");
  await press(page, button);
}

/** Parses a decimal string into a whole number of 10⁻¹² units, so that sums are exact. */
function units(text: string): bigint {
  const [, sign = "", whole = "", fraction = ""] = /^(-?)\$?([\d,]+)(?:\.(\d{1,12}))?$/.exec(text) ?? [];
  if (whole === "") throw new Error(`“${text}” is not an amount.`);
  return BigInt(`${sign}${whole.replaceAll(",", "")}${fraction.padEnd(12, "0")}`);
}

async function factOf(card: Locator, term: string): Promise<string> {
  const fact = card.locator("dl > div").filter({ has: card.page().getByText(term, { exact: true }) });
  return (await fact.getByRole("definition").textContent()) ?? "";
}

test("an operator sets up a platform in the console, and the ledger shows the exact cost of a member's first calls", async ({
  page,
  browser,
  member,
}) => {
  const unique = crypto.randomUUID().slice(0, 8);
  const model = { id: `first-day-${unique}`, name: `First day ${unique}` };
  const plan = { id: `first_day_${unique}`, name: `Starter ${unique}` };
  const desk = await (await browser.newContext()).newPage();
  const admin = await enterConsole(desk.context());

  await test.step("an admin creates a plan", async () => {
    await desk.goto("/admin/plans");
    await follow(desk, "Add plan");
    await fill(desk, { ID: plan.id, Name: plan.name, Markup: markup, "Initial credits": "0" });
    await explain(desk, "Add plan");
    await expect(desk.getByText("Plan saved.")).toBeVisible();
  });

  await test.step("an admin adds a model with its route to a configured provider, a test call and a plan in one form", async () => {
    await openSection(desk, "Models");
    await follow(desk, "Add model");
    await desk.getByText("Limits and other settings").click();
    await fill(desk, { ID: model.id, Name: model.name, "Owned by": "first-day", "Context window": "128000" });
    await desk.getByLabel("Provider of route 1").selectOption("demo");
    await fill(desk, { "Provider’s model name of route 1": "demo-cached" });
    await press(desk, "Test");
    await expect(desk.getByRole("status", { name: "Test of route 1" })).toContainText("Answered in");
    await desk.getByLabel(new RegExp(`\\(${plan.id}\\)`)).check();
    await desk.getByLabel("Enable model").check();
    await explain(desk, "Add model");
    await expect(desk.getByText("No price: skipped")).toBeVisible();
  });

  await test.step("an admin imports the model's prices from a price file", async () => {
    await openSection(desk, "Price proposals");
    await desk.getByLabel("Price file", { exact: true }).setInputFiles({
      name: "model_prices_and_context_window.json",
      mimeType: "application/json",
      buffer: Buffer.from(JSON.stringify({ "demo-cached": liteLlmPrices })),
    });
    await press(desk, "Compare prices");
    const proposal = desk.getByRole("region", { name: `${model.id} at demo`, exact: true });
    await expect(proposal.getByRole("row", { name: /^Output/ })).toContainText("$0.813");
    await proposal.getByRole("radio", { name: /^All from LiteLLM/ }).check();
    await explain(desk, "Apply chosen prices");
    await expect(desk.getByText("The prices were added")).toBeVisible();
    await desk.goto(`/admin/models?${new URLSearchParams({ model: model.id })}`);
    await expect(desk.getByText("Callers get 404 until you fix this:")).toHaveCount(0);
  });

  const keys = await test.step("the member requests approval on the page for creating keys", async () => {
    await enter(page, member, "/");
    await page.getByRole("link", { name: /Personal/ }).click();
    await page.getByRole("link", { name: "Request approval" }).click();
    await page.getByLabel("What are the keys for?").fill(`Summaries ${unique}`);
    await press(page, "Request approval");
    await expect(page.getByRole("heading", { name: "Waiting for approval" })).toBeVisible();
    return new URL(page.url()).pathname;
  });
  const studio = keys.replace(/\/keys$/, "");

  await test.step("an admin approves the request, changes the workspace's plan and grants credits only once", async () => {
    await openSection(desk, "Approvals");
    const waiting = desk.getByRole("row").filter({ hasText: `Summaries ${unique}` });
    const name = (await waiting.getByRole("rowheader").getByRole("link").textContent()) ?? "";
    await waiting.getByRole("link", { name: `Approve keys of ${name}` }).click();
    await explain(desk, "Approve keys");
    await expect(desk.getByText("The workspace can now create and rotate keys.")).toBeVisible();
    await openSection(desk, "Workspaces");
    await fill(desk, { "Name, ID, or a member’s email": member.email });
    await press(desk, "Search");
    await follow(desk, name);
    await follow(desk, "Change plan");
    await follow(desk, plan.name);
    await explain(desk, `Move to ${plan.name}`);
    await expect(desk.getByText(`The workspace’s plan is now ${plan.name}.`)).toBeVisible();
    await follow(desk, "View credits");
    for (const words of ["Credits granted.", "This reference was already used for the same amount."]) {
      await follow(desk, "Grant credits");
      await fill(desk, { Credits: "5000", Reference: `invoice-${unique}`, Description: "First invoice" });
      await explain(desk, "Grant credits");
      await expect(desk.getByText(words)).toBeVisible();
    }
    const ledger = desk.getByRole("table", { name: "Ledger" });
    await expect(ledger.getByRole("rowheader")).toHaveCount(1);
    await expect(ledger).toContainText("5,000.00");
  });

  const apiKey = await test.step("the member creates a key that is limited to the new model", async () => {
    await page.goto(keys);
    await follow(page, "Create key");
    await page.getByLabel("Name", { exact: true }).fill("First program");
    await page.getByText("More settings").click();
    await page.getByLabel("Only selected models").check();
    const search = page.getByLabel("Find a model");
    if (await search.isVisible()) {
      await search.fill(unique);
      await press(page, "Search");
      await expect(page.getByText("1 of 1 model")).toBeVisible();
    }
    await page.getByRole("checkbox", { name: new RegExp(`^${model.name}`) }).check();
    await press(page, "Create key");
    const shown = page.getByRole("region", { name: "Your new key" });
    await expect(shown).toContainText(`"model":"${model.id}"`);
    return (await shown.getByRole("figure").first().locator("code").textContent()) ?? "";
  });

  const client = new OpenAI({ baseURL: `${stack.ai}/v1`, apiKey, maxRetries: 0 });
  const ask = { model: model.id, messages: [{ role: "user" as const, content: "Good morning! ".repeat(20) }] };
  await test.step("the member calls the model with the openai package", async () => {
    expect((await client.models.list()).data.map(({ id }) => id)).toEqual([model.id]);
    const answer = await client.chat.completions.create(ask);
    expect(answer.choices[0]?.message.content).toBeTruthy();
    const stream = await client.chat.completions.create({ ...ask, stream: true });
    let said = "";
    for await (const chunk of stream) said += chunk.choices[0]?.delta.content ?? "";
    expect(said).not.toBe("");
  });

  await test.step("the studio lists the member's two runs as completed", async () => {
    const table = page.getByRole("table", { name: "Runs" });
    await expect(async () => {
      await page.goto(`${studio}/runs`);
      await expect(table.getByRole("row", { name: /Succeeded/i })).toHaveCount(2, { timeout: 1_000 });
    }).toPass();
  });

  const file = await (await page.request.get(`${studio}/credits.csv`)).text();
  const usage = file
    .split("\r\n")
    .map((line) => line.split(","))
    .filter(([, kind]) => kind === "usage");
  expect(usage).toHaveLength(2);
  let left = units("5000");
  for (const [, , payer, credits, balance = "", id] of usage.toReversed()) {
    await test.step("the amounts on the run's page add up and match the ledger", async () => {
      const run = `${studio}/runs/${id}`;
      await page.goto(`${studio}/credits`);
      const entry = page.getByRole("row").filter({ has: page.locator(`a[href="${run}"]`) });
      await expect(entry.getByRole("cell").nth(1)).toContainText((credits ?? "").replace("-", "−"));
      await entry.getByRole("link").click();
      const card = page.locator("section").filter({ has: page.getByRole("heading", { name: "How this was priced" }) });
      await expect(card).toContainText("Prices of demo, demo-cached (route 1), default tier");
      const lines = (await card.getByRole("row").all()).slice(1);
      expect(lines).toHaveLength(3);
      let cost = 0n;
      for (const line of lines) {
        const [tokens = "", price = "", amount = ""] = await line.getByRole("cell").allTextContents();
        expect(units(amount) * units("1000000")).toBe(units(tokens) * units(price.replace(" per million", "")));
        cost += units(amount);
      }
      const [costUsd, billed] = [await factOf(card, "Provider cost"), await factOf(card, "Billed credits")];
      expect(units(costUsd)).toBe(cost);
      expect(units(billed)).toBe(cost * creditsPerUsd);
      expect(await factOf(card, "Credits")).toBe(`${costUsd} × 10,000 × ${markup} = ${billed} credits`);
      expect(await factOf(card, "Ledger: usage")).toMatch(new RegExp(`^${billed} credits charged, .* UTC$`));

      expect([payer, credits]).toEqual(["workspace", `-${billed}`]);
      left -= units(billed);
      expect(units(balance)).toBe(left);
      const answer = await (await page.request.get(`/api/v1${run}`)).text();
      expect(answer).toContain(`"costUsd":${costUsd.slice(1)},`);
      expect(answer).toContain(`"billedCredits":${billed},`);
    });
  }

  await test.step("an admin disables the model", async () => {
    await desk.goto(`/admin/models?${new URLSearchParams({ model: model.id })}`);
    await follow(desk, "Disable");
    await desk.getByLabel(/to confirm$/).fill(model.id);
    await explain(desk, "Disable model");
    await expect(desk.getByText("Callers get 404 until you fix this:")).toBeVisible();
    await expect(client.chat.completions.create(ask)).rejects.toThrow(/404/);
  });
  await deletePerson(admin);
});
