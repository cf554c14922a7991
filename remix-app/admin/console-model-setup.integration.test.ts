import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ConsoleAdmin, createConsoleAdmin } from "../../scripts/test/console-admin.ts";
import { vaultSettings } from "../../scripts/test/keep-session.ts";
import { createPerson, deletePerson, enter, type Person, query } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { createGatewayTenant } from "../../supabase/tests/gateway/tenant.ts";
import { openBrowser } from "../testing/browser.ts";
import { openPlainTab, type PlainTab } from "../testing/plain-tab.ts";
import { startWeb } from "../testing/web-process.ts";
import type { ConsoleModel } from "./models.ts";

const tag = crypto.randomUUID().slice(0, 8);
const { base } = readStack();
let admin: ConsoleAdmin;
let other: ConsoleAdmin;
let person: Person;

beforeAll(async () => {
  [admin, other, person] = await Promise.all([createConsoleAdmin(), createConsoleAdmin(), createPerson()]);
});
afterAll(async () => {
  await query("update ai.models set enabled = false where id like 'setup-' || $1 || '%'", [tag]);
  await query("delete from ai.model_prices where model_id like 'setup-' || $1 || '%'", [tag]);
  await query("delete from ai.models where id like 'setup-' || $1 || '%'", [tag]);
  await query("delete from ai.plans where id like 'setup_' || $1 || '%'", [tag]);
  await Promise.all([admin, other, person].map(deletePerson));
});

const idOf = (name: string) => `setup-${tag}-${name}`;
const editPath = (id: string) => `/admin/models/edit?${new URLSearchParams({ model: id })}`;

/** Opens a page in a tab without JavaScript that counts its requests. */
async function openTab(path: string, { browser } = admin): Promise<PlainTab & { requests: () => number }> {
  let requests = 0;
  const tab = openPlainTab(base, {
    ...browser,
    get: (address) => {
      requests += 1;
      return browser.get(address);
    },
    post: (address, fields) => {
      requests += 1;
      return browser.post(address, fields);
    },
  });
  await tab.open(path);
  return { ...tab, requests: () => requests };
}

function nameModel(tab: PlainTab, id: string): void {
  tab.fill("ID", id);
  tab.fill("Name", "Setup");
  tab.fill("Owned by", "test");
}

function fillRoute(tab: PlainTab, number: number, [provider, model]: [string, string]): void {
  tab.fill(`Provider of route ${number}`, provider);
  tab.fill(`Provider’s model name of route ${number}`, model);
}

function fillPrices(tab: PlainTab, provider: string, [input, output]: [string, string]): void {
  tab.fill(`Input price of ${provider}`, input);
  tab.fill(`Output price of ${provider}`, output);
}

async function save(tab: PlainTab, button: string, reason = "A new model"): Promise<void> {
  tab.fill("Reason", reason);
  await tab.press(button);
}

async function readModel(id: string): Promise<ConsoleModel | null> {
  const [row] = await query<{ model: ConsoleModel | null }>("select private.read_model($1) as model", [id]);
  return row?.model ?? null;
}

const actionsOn = async (id: string) =>
  (
    await query<{ action: string }>(
      "select action from private.admin_audit_log where target = 'model ' || $1 order by created_at, action",
      [id],
    )
  ).map(({ action }) => action);

/** Adds a model with one route and a price, that the plan Team may use. */
async function insertModel(id: string): Promise<void> {
  await query(
    `with model as (
       insert into ai.models (id, kind, display_name, owned_by) values ($1, 'chat', 'Setup', 'test')
     ), route as (
       insert into ai.model_routes (model_id, position, provider_id, provider_model) values ($1, 1, 'demo', 'demo-chat')
     ), grants as (
       insert into ai.model_grants (model_id, plan_id) values ($1, 'team')
     )
     insert into ai.model_prices (model_id, provider_id, valid, input_usd_per_million, output_usd_per_million)
     values ($1, 'demo', tstzrange(now() - interval '1 day', null), 1, 2)`,
    [id],
  );
}

test("only infrastructure admins can open the form", async () => {
  const stranger = await enter(person);
  for (const path of ["/admin/models/new", editPath("demo-chat")]) {
    expect((await stranger.get(path)).status).toBe(403);
    expect((await stranger.post(path, { reason: "x" })).status).toBe(403);
  }
  expect((await admin.browser.get("/admin/models/edit")).status).toBe(404);
  expect((await admin.browser.get(editPath("no-such-model"))).status).toBe(404);
});

test("a model with a fallback needs one form and five requests, where eight forms needed three each", async () => {
  const id = idOf("fallback");
  const tenant = await createGatewayTenant();
  const call = () =>
    tenant.client.chat.completions.create({ model: id, messages: [{ role: "user", content: "hello" }] });
  const tab = await openTab("/admin/models/new");
  expect(tab.heading()).toBe("Add model");
  nameModel(tab, id);
  fillRoute(tab, 1, ["demo", "demo-chat"]);
  await tab.press("Add route");
  fillRoute(tab, 2, ["demo_messages", "demo-messages"]);
  await tab.press("Test");
  expect(tab.words()).toMatch(/Route 1 .*Answered in .*Route 2 .*Answered in /s);
  expect(await readModel(id)).toBeNull();
  fillPrices(tab, "demo", ["1", "2"]);
  fillPrices(tab, "demo_messages", ["3", "4"]);
  tab.check(/\(team\): /);
  tab.check("Enable model");
  await save(tab, "Add model");
  expect([tab.heading(), tab.words()]).toEqual(["Setup", expect.stringContaining("Changes saved.")]);
  expect(tab.words()).not.toContain("Callers get 404");
  // Opens the form, adds a route, tests, saves and follows the redirect. Each of eight forms needed a page, a change and
  // a redirect: 24 requests.
  expect(tab.requests()).toBe(5);

  expect(await readModel(id)).toMatchObject({
    enabled: true,
    routes: [
      { position: 1, providerId: "demo", providerModel: "demo-chat", enabled: true },
      { position: 2, providerId: "demo_messages", providerModel: "demo-messages", enabled: true },
    ],
    prices: [
      { providerId: "demo", inputUsd: "1.000000", outputUsd: "2.000000" },
      { providerId: "demo_messages", inputUsd: "3.000000", outputUsd: "4.000000" },
    ],
  });
  expect((await actionsOn(id)).toSorted()).toEqual([
    "model.add",
    "model.add_price",
    "model.add_price",
    "model.add_route",
    "model.add_route",
    "model.enable",
    "model.grant",
  ]);
  await query("insert into ai.model_grants (model_id, workspace_id) values ($1, $2)", [id, tenant.workspaceId]);
  await call();
  await tenant.close();
});

test("a form that is saved without a change changes nothing and writes no line to the audit log", async () => {
  const id = idOf("same");
  await insertModel(id);
  // Without the numbers of workspaces, because other tests create some.
  const readOwn = async () => {
    const model = await readModel(id);
    return { ...model, plans: model?.plans.filter(({ granted }) => granted).map((plan) => plan.id) };
  };
  const before = await readOwn();
  const tab = await openTab(editPath(id));
  await save(tab, "Save changes");
  expect(tab.words()).toContain("Changes saved.");
  expect(await readOwn()).toEqual(before);
  expect(await actionsOn(id)).toEqual([]);
});

test("an invalid form answers 400 with everything that was typed, and names the fields", async () => {
  const id = idOf("invalid");
  const tab = await openTab("/admin/models/new");
  nameModel(tab, id);
  fillRoute(tab, 1, ["demo", "demo-chat"]);
  await tab.press("More settings of route 1");
  tab.fill("Timeout between chunks (seconds) of route 1", "0");
  fillPrices(tab, "demo", ["1.0000001", "2"]);
  tab.check(/\(team\): /);
  tab.check("Offered to workspaces", false);
  await tab.press("Add model");
  expect(tab.status()).toBe(400);
  expect(tab.alert()).toMatch(/Enter a whole number from 1 .* at most 6 decimals.*Enter a reason/s);
  expect(tab.errorOf("Input price of demo")).toContain("at most 6 decimals");
  expect(tab.errorOf("Timeout between chunks (seconds) of route 1")).toContain("Enter a whole number");
  expect([tab.valueOf("ID"), tab.valueOf("Input price of demo"), tab.valueOf("Output price of demo")]).toEqual([
    id,
    "1.0000001",
    "2",
  ]);
  expect([tab.isChecked(/\(team\): /), tab.isChecked("Offered to workspaces")]).toEqual([true, false]);
  expect(await readModel(id)).toBeNull();
});

test("prices that the form didn't show are not saved: it shows them first", async () => {
  const id = idOf("unseen");
  const tab = await openTab("/admin/models/new");
  nameModel(tab, id);
  const shown = tab.valueOf("Provider of route 1");
  expect(shown).not.toBe("demo_speech");
  fillRoute(tab, 1, ["demo_speech", "x"]);
  await save(tab, "Add model");
  expect([tab.status(), tab.errorOf("Provider of route 1")]).toEqual([
    400,
    expect.stringContaining("Check the prices of demo_speech"),
  ]);
  expect(tab.valueOf("Input price of demo_speech")).toBe("");
  await save(tab, "Add model");
  expect(tab.words()).toContain("Callers get 404 until you fix this: Disabled No price No grant");
});

test("the preview lists what changes, and the Enter key presses it", async () => {
  const id = idOf("preview");
  await insertModel(id);
  const before = await readModel(id);
  const tab = await openTab(editPath(id));
  tab.fill("Name", "Setup XL");
  fillPrices(tab, "demo", ["10", "2"]);
  expect(tab.texts("main form button")[0]).toBe("Preview");
  await tab.press("Preview");
  expect(tab.status()).toBe(200);
  expect(tab.words()).toMatch(
    /Preview: nothing is changed yet Name: from Setup to Setup XL Price of demo: .* Input: from \$1\.00 to \$10\.00 \(10 times as much\)/s,
  );
  expect(await readModel(id)).toEqual(before);
});

test("an edit that takes the model away is confirmed by typing its id", async () => {
  const id = idOf("away");
  await insertModel(id);
  const tab = await openTab(editPath(id));
  tab.check("Enabled of route 1", false);
  tab.check(/\(team\): /, false);
  await save(tab, "Save changes");
  expect(tab.status()).toBe(400);
  expect(tab.errorOf(/to confirm$/)).toContain(`Type “${id}” to confirm`);
  expect(tab.words()).toContain("No route, so callers will get 404.");
  expect([tab.isChecked("Enabled of route 1"), tab.isChecked(/\(team\): /)]).toEqual([false, false]);
  expect(await actionsOn(id)).toEqual([]);
  tab.fill(/to confirm$/, id);
  await tab.press("Save changes");
  expect(tab.words()).toContain("Callers get 404 until you fix this: No route No grant");
  expect((await actionsOn(id)).toSorted()).toEqual(["model.edit_route", "model.withdraw"]);
});

test("only one of two admins who saw the same model can save it, and the other sees the difference", async () => {
  const id = idOf("two");
  await insertModel(id);
  const [mine, theirs] = [await openTab(editPath(id)), await openTab(editPath(id), other)];
  mine.fill("Name", "Mine");
  theirs.fill("Name", "Theirs");
  await save(mine, "Save changes");
  await save(theirs, "Save changes");
  expect([theirs.status(), theirs.alert()]).toEqual([409, expect.stringContaining(`${admin.email} changed it on`)]);
  expect(theirs.valueOf("Name")).toBe("Theirs");
  expect(theirs.words()).toContain("Name: from Mine to Theirs");
  await save(theirs, "Save changes");
  expect(await readModel(id)).toMatchObject({ displayName: "Theirs" });
});

test("a refused part is shown at its field, and nothing is saved", async () => {
  const id = idOf("taken");
  await insertModel(id);
  const tab = await openTab("/admin/models/new");
  nameModel(tab, id);
  fillRoute(tab, 1, ["demo", "demo-chat"]);
  await save(tab, "Add model");
  expect(tab.status()).toBe(409);
  expect(tab.errorOf("ID")).toContain("Another model already has this ID");

  const edit = await openTab(editPath(id));
  fillPrices(edit, "demo", ["5", "6"]);
  edit.fill("Name", "Not saved");
  await query(
    `insert into ai.model_prices (model_id, provider_id, service_tier, valid, input_usd_per_million, output_usd_per_million)
     values ($1, 'demo', 'flex', tstzrange(now(), null), 7, 8)`,
    [id],
  );
  await save(edit, "Save changes");
  expect([edit.status(), edit.errorOf("Input price of demo")]).toEqual([
    409,
    expect.stringContaining("Nothing was changed"),
  ]);
  expect(await readModel(id)).toMatchObject({ displayName: "Setup" });
});

test("a provider that isn't configured can be typed, and the form names the missing settings", async () => {
  const tab = await openTab("/admin/models/new");
  tab.fill("Provider of route 1", "Other…");
  await tab.press("More settings of route 1");
  tab.fill("Provider’s ID of route 1", "eu_openai");
  await tab.press("Add route");
  expect(tab.valueOf("Provider of route 1")).toBe("eu_openai");
  expect(tab.words()).toContain(
    "Calls skip this route until the functions have AI_PROVIDER_EU_OPENAI_KIND and AI_PROVIDER_EU_OPENAI_API_KEY.",
  );
  fillRoute(tab, 1, ["eu_openai", "x"]);
  await tab.press("Test");
  expect(tab.words()).toContain("Not tested: eu_openai isn’t configured.");
});

describe("a form", () => {
  test("works while the gateway can't be reached: providers are typed, and a test says why it failed", async () => {
    const id = idOf("offline");
    const { supabase } = readStack();
    const web = await startWeb(supabase.url, {
      env: {
        SUPABASE_PUBLISHABLE_KEY: supabase.publishableKey,
        SUPABASE_SECRET_KEY: supabase.secretKey,
        ...vaultSettings(),
        AI_URL: "http://127.0.0.1:9",
      },
    });
    try {
      const tab = openPlainTab(web.base, openBrowser(web.base, { cookie: admin.browser.cookie() }));
      await tab.open("/admin/models/new");
      expect(tab.words()).toContain("The gateway can’t be reached.");
      nameModel(tab, id);
      fillRoute(tab, 1, ["demo", "demo-chat"]);
      await tab.press("Test");
      expect(tab.words()).toMatch(/Route 1 .*The gateway can’t be reached\./s);
      fillPrices(tab, "demo", ["1", "2"]);
      await save(tab, "Add model");
      expect(await readModel(id)).toMatchObject({
        routes: [{ providerId: "demo" }],
        prices: [{ inputUsd: "1.000000" }],
      });
    } finally {
      await web.stop();
    }
  });

  test("looks up no prices unless the server knows price files, and says which setting is missing", async () => {
    const tab = await openTab("/admin/models/new");
    expect(tab.buttons()).not.toContain("Look up prices");
    expect(tab.words()).toContain("set PRICE_SOURCE_URLS on the web server");
  });

  test("stays under 100 KB with six routes, their prices and 50 plans", async () => {
    const id = idOf("large");
    await insertModel(id);
    await query(
      `insert into ai.model_routes (model_id, position, provider_id, provider_model)
       select $1, n, 'provider_of_some_length_' || n, rpad('model-' || n, 60, 'x') from generate_series(2, 6) as n`,
      [id],
    );
    await query(
      `insert into ai.model_prices (model_id, provider_id, valid, input_usd_per_million, output_usd_per_million)
       select $1, 'provider_of_some_length_' || n, tstzrange(now() - interval '1 day', null), 1, 2
       from generate_series(2, 6) as n`,
      [id],
    );
    const { text: before } = await admin.browser.get(editPath(id));
    await query(
      `insert into ai.plans (id, name, payer)
       select 'setup_' || $1 || '_' || n, rpad('Plan ' || n, 60, 'x'), 'member' from generate_series(1, 50) as n`,
      [tag],
    );
    const { status, text } = await admin.browser.get(editPath(id));
    expect(status).toBe(200);
    expect(text.match(/name="route\d_providerModel"/g)).toHaveLength(6);
    expect(text.match(new RegExp(`name="plan_setup_${tag}_`, "g"))).toHaveLength(50);
    expect(text).not.toContain("Add route<");
    // Without the plans of other tests.
    const plansOn = (page: string) => page.match(/name="plan_/g)?.length ?? 0;
    const planBytes = (Buffer.byteLength(text) - Buffer.byteLength(before)) / (plansOn(text) - plansOn(before));
    expect(Buffer.byteLength(text) - (plansOn(text) - 50) * planBytes).toBeLessThan(100_000);
  });
});
