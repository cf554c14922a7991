import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ConsoleAdmin, createConsoleAdmin } from "../../scripts/test/console-admin.ts";
import { createPerson, deletePerson, enter, type Person, query } from "../../scripts/test/people.ts";
import { createGatewayTenant } from "../../supabase/tests/gateway/tenant.ts";

const model = `test/model-${crypto.randomUUID().slice(0, 8)}`;
let admin: ConsoleAdmin;
let other: ConsoleAdmin;
let person: Person;

beforeAll(async () => {
  [admin, other, person] = await Promise.all([createConsoleAdmin(), createConsoleAdmin(), createPerson()]);
  // Uses a single statement, so that a concurrent run of the doctor never sees the model without its route and price.
  await query(
    `with model as (
       insert into ai.models (id, kind, display_name, owned_by) values ($1, 'chat', 'Test', 'test')
     ), route as (
       insert into ai.model_routes (model_id, position, provider_id, provider_model) values ($1, 1, 'demo', 'x')
     )
     insert into ai.model_prices (model_id, provider_id, valid, input_usd_per_million, output_usd_per_million)
     values ($1, 'demo', tstzrange(now() - interval '1 day', null), 1, 2)`,
    [model],
  );
});
afterAll(async () => {
  await query("update ai.models set enabled = false where id = $1", [model]);
  await query("delete from ai.model_prices where model_id = $1", [model]);
  await query("delete from ai.models where id = $1", [model]);
  await Promise.all([admin, other, person].map(deletePerson));
});

const at = (step: string, more = {}) => `/admin/models${step && `/${step}`}?${new URLSearchParams({ model, ...more })}`;
const pricePage = at("price", { provider: "demo", tier: "0" });
const filled = { reason: "The provider's list of today" };
const latestOn = async () => seenOn("latest");
const seenOn = async (name: string) =>
  new RegExp(`name="${name}" value="(\\d*)"`).exec((await admin.browser.get(pricePage)).text)?.[1] ?? "none";
const price = async (more: Record<string, string> = {}) => ({
  ...filled,
  latest: await latestOn(),
  seen: await seenOn("seen"),
  from: "",
  inputUsd: "1.5",
  serviceTier: "",
  cachedInputUsd: "",
  cacheWriteUsd: "",
  cacheWrite1hUsd: "",
  outputUsd: "3.000001",
  audioInputUsd: "",
  audioOutputUsd: "",
  imageInputUsd: "",
  requestFeeUsd: "",
  ...more,
});
const prices = () =>
  query<{ input: string; output: string; from: Date; until: Date | null }>(
    `select input_usd_per_million::float as input, output_usd_per_million::text as output, lower(valid) as from,
       upper(valid) as until
     from ai.model_prices where model_id = $1 order by lower(valid)`,
    [model],
  );
const minute = (millisecondsFromNow: number) => new Date(Date.now() + millisecondsFromNow).toISOString().slice(0, 16);

test("lets an admin disable a model after typing a reason and its id", async () => {
  const stranger = await enter(person);
  const typed = { ...filled, confirmation: model };
  expect((await stranger.post(at("disable"), typed)).status).toBe(403);
  expect((await admin.browser.post(at("disable"), { ...typed, reason: "" })).status).toBe(400);
  expect((await admin.browser.post(at("disable"), { ...typed, confirmation: "test" })).status).toBe(400);
  expect((await admin.browser.post(at("disable"), typed)).location).toMatch(/^\/admin\/models\?model=.*&done=$/);
  const late = await other.browser.post(at("disable"), typed);
  expect([late.status, late.words]).toEqual([409, expect.stringContaining(`${admin.email} changed it on`)]);
  await query("update ai.models set enabled = true where id = $1", [model]);
  const log = await query(
    "select action, before, after from private.admin_audit_log where target = $1 order by created_at",
    [`model ${model}`],
  );
  expect(log).toEqual([{ action: "model.disable", before: { enabled: true }, after: { enabled: false } }]);
});

test.each([
  ["without a reason", { reason: "" }, "Enter a reason"],
  ["without a reason or an amount", { reason: "", inputUsd: "" }, "Enter an amount in USD"],
  ["with seven decimals", { inputUsd: "1.0000001" }, "at most 6 decimals"],
  ["below zero", { outputUsd: "-1" }, "at most 6 decimals"],
  ["that starts in the past", { from: "2026-01-01T00:00" }, "take effect in the past"],
  ["that starts on a day that doesn't exist", { from: "2027-02-30T10:00" }, "Enter a date and a time"],
  ["that starts in the year 0", { from: "0000-02-03T10:00" }, "Enter a date and a time"],
])("refuses a price %s", async (_, more, words) => {
  const answer = await admin.browser.post(pricePage, await price(more));
  expect([answer.status, answer.words]).toEqual([400, expect.stringContaining(words)]);
  expect(await prices()).toHaveLength(1);
});

test("applies a price from its start, when the previous price ends, and refuses a second price with the same start", async () => {
  const tomorrow = minute(24 * 60 * 60 * 1000);
  expect((await admin.browser.post(pricePage, await price({ from: tomorrow }))).status).toBe(303);
  const again = await admin.browser.post(pricePage, await price({ from: tomorrow }));
  expect([again.status, again.words]).toEqual([409, expect.stringContaining("takes effect at the same time")]);
  // This price begins now and ends when tomorrow's price begins.
  expect((await admin.browser.post(pricePage, await price({ inputUsd: "9" }))).status).toBe(303);
  const [first, second, third] = await prices();
  expect(first).toMatchObject({ input: 1, until: second?.from });
  expect(second).toMatchObject({ input: 9, until: new Date(`${tomorrow}:00Z`) });
  expect(third).toMatchObject({ input: 1.5, output: "3.000001", until: null });
  expect((await admin.browser.get(at(""))).words).toContain("$3.000001");
  expect((await admin.browser.get(`/admin/models?q=${model.slice(5)}`)).words).toContain("$9.00");
});

test("shows the price of a model's first enabled route, regardless of provider names", async () => {
  const id = `${model}-routes`;
  await query(
    `with model as (
       insert into ai.models (id, kind, display_name, owned_by) values ($1, 'chat', 'Test', 'test')
     ), route as (
       insert into ai.model_routes (model_id, position, provider_id, provider_model, enabled)
       values ($1, 1, 'a_shut', 'x', false), ($1, 2, 'z_first', 'x', true), ($1, 3, 'b_second', 'x', true)
     )
     insert into ai.model_prices (model_id, provider_id, valid, input_usd_per_million, output_usd_per_million)
     select $1, p.id, tstzrange('2026-01-01T00:00:00Z', null), p.usd, p.usd
     from (values ('a_shut', 71), ('z_first', 72), ('b_second', 73)) as p (id, usd)`,
    [id],
  );
  const { words } = await admin.browser.get(`/admin/models?q=${id.slice(5)}`);
  expect(["$71.00", "$72.00", "$73.00"].filter((price) => words.includes(price))).toEqual(["$72.00"]);
  await query("update ai.models set enabled = false where id = $1", [id]);
  await query("delete from ai.model_prices where model_id = $1", [id]);
  await query("delete from ai.models where id = $1", [id]);
});

test("the price form says how a price class is charged if its field is left empty", async () => {
  const { words } = await admin.browser.get(pricePage);
  expect(words).toMatch(
    /Cached input.*Leave empty to use the input price\..*Audio input.*Leave empty to refuse audio\..*Audio output/s,
  );
  expect(words).toMatch(/Audio output.*Leave empty to use the output price\./s);
});

test("accepts a new price from only one of two admins who saw the same earlier price", async () => {
  const asked = await price();
  const answers = await Promise.all([admin, other].map(({ browser }) => browser.post(pricePage, asked)));
  expect(answers.map(({ status }) => status).sort()).toEqual([303, 409]);
});

describe("a grant and a scheduled price of a model", () => {
  /** Returns the hidden fields of the form on a step's page. */
  async function hiddenOn(path: string) {
    const { text } = await admin.browser.get(path);
    const hidden = [...text.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)"/g)];
    return Object.fromEntries(hidden.map(([, name = "", value = ""]) => [name, value.replaceAll("&amp;", "&")]));
  }
  const change = async (path: string, fields: Record<string, string>) =>
    admin.browser.post(path, { ...(await hiddenOn(path)), ...filled, ...fields });
  const done = { status: 303, location: `/admin/models?${new URLSearchParams({ model, done: "" })}` };

  test("a model is granted to a single workspace, and withdrawn after typing its id", async () => {
    const tenant = await createGatewayTenant();
    const call = () => tenant.client.chat.completions.create({ model, messages: [{ role: "user", content: "hello" }] });
    await query("update ai.model_routes set provider_model = 'demo-chat' where model_id = $1", [model]);
    await expect(call()).rejects.toMatchObject({ status: 404, code: "model_not_found" });
    const unknown = await change(at("grant"), { workspace: "Acme" });
    expect([unknown.status, unknown.words]).toEqual([400, expect.stringContaining("Enter a workspace ID")]);
    expect(await change(at("grant"), { workspace: tenant.workspaceId })).toMatchObject(done);
    await call();
    const withdraw = at("withdraw", { workspace: tenant.workspaceId });
    expect(await change(withdraw, {})).toMatchObject({ status: 400 });
    expect(await change(withdraw, { confirmation: model })).toMatchObject(done);
    await expect(call()).rejects.toMatchObject({ status: 404 });
    await tenant.close();
  });

  test("a model's scheduled price can be cancelled before it begins", async () => {
    const {
      latest: _,
      seen: __,
      ...next
    } = {
      ...(await price({ from: minute(2 * 24 * 60 * 60 * 1000), inputUsd: "100000" })),
    };
    const preview = await change(pricePage, { ...next, intent: "preview" });
    expect(preview.words).toMatch(/Input: from \$[\d.]+ to \$100,000\.00 \([\d,]+ times as much\)/);
    expect(await change(pricePage, next)).toMatchObject(done);
    const [row] = await query<{ id: string }>(
      "select id::text from ai.model_prices where model_id = $1 and input_usd_per_million = 100000",
      [model],
    );
    const cancel = at("cancel-price", { price: row?.id ?? "" });
    expect((await admin.browser.get(cancel)).words).toContain("applies until another one takes effect");
    expect(await change(cancel, {})).toMatchObject(done);
    expect((await admin.browser.get(cancel)).status).toBe(404);
  });

  test.each(["withdraw", "cancel-price", "price", "delete", "rename", "route", "remove-route", "enable"])(
    "answers 404 on a model's %s page if the record or the page is unknown",
    async (step) => {
      const unknown = { place: "9", price: "1", plan: "none", provider: "none" };
      expect((await admin.browser.get(at(step, unknown))).status).toBe(404);
    },
  );
});
