import { afterAll, beforeAll, expect, test } from "vitest";
import { type ConsoleAdmin, createConsoleAdmin } from "../../scripts/test/console-admin.ts";
import { createPerson, deletePerson, enter, type Person, query } from "../../scripts/test/people.ts";

const model = `test/model-${crypto.randomUUID().slice(0, 8)}`;
let admin: ConsoleAdmin;
let other: ConsoleAdmin;
let person: Person;

beforeAll(async () => {
  [admin, other, person] = await Promise.all([createConsoleAdmin(), createConsoleAdmin(), createPerson()]);
  // In one statement: the doctor may look at the stack at any time.
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
const filled = { reason: "The provider's list of today", confirmation: model };
const latestOn = async () =>
  /name="latest" value="(\d*)"/.exec((await admin.browser.get(pricePage)).text)?.[1] ?? "none";
const price = async (more: Record<string, string> = {}) => ({
  ...filled,
  latest: await latestOn(),
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

test("a model is shut and opened, by an admin, with a reason and its id", async () => {
  const stranger = await enter(person);
  expect((await stranger.post(at("disable"), filled)).status).toBe(403);
  expect((await admin.browser.post(at("disable"), { ...filled, reason: "" })).status).toBe(400);
  expect((await admin.browser.post(at("disable"), { ...filled, confirmation: "test" })).status).toBe(400);
  expect((await admin.browser.post(at("disable"), filled)).location).toMatch(/^\/admin\/models\?model=.*&done=$/);
  const late = await other.browser.post(at("disable"), filled);
  expect([late.status, late.words]).toEqual([409, expect.stringContaining(`${admin.email} changed it at`)]);
  expect((await other.browser.post(at("enable"), filled)).status).toBe(303);
  const log = await query(
    "select action, before, after from private.admin_audit_log where target = $1 order by created_at",
    [`model ${model}`],
  );
  expect(log).toEqual([
    { action: "model.disable", before: { enabled: true }, after: { enabled: false } },
    { action: "model.enable", before: { enabled: false }, after: { enabled: true } },
  ]);
});

test.each([
  ["without a reason", { reason: "" }, "Say why"],
  ["with seven decimals", { inputUsd: "1.0000001" }, "at most 6 decimals"],
  ["below zero", { outputUsd: "-1" }, "at most 6 decimals"],
  ["from the past", { from: "2026-01-01T00:00" }, "begins now or later"],
  ["from a day that is none", { from: "2027-02-30T10:00" }, "Enter a day and a time"],
  ["from a year that is none", { from: "0000-02-03T10:00" }, "Enter a day and a time"],
])("no price is added %s", async (_, more, words) => {
  const answer = await admin.browser.post(pricePage, await price(more));
  expect([answer.status, answer.words]).toEqual([400, expect.stringContaining(words)]);
  expect(await prices()).toHaveLength(1);
});

test("a price holds from its time on, closes the one before, and nothing of the past changes", async () => {
  const tomorrow = minute(24 * 60 * 60 * 1000);
  expect((await admin.browser.post(pricePage, await price({ from: tomorrow }))).status).toBe(303);
  const again = await admin.browser.post(pricePage, await price({ from: tomorrow }));
  expect([again.status, again.words]).toEqual([409, expect.stringContaining("begins at that very time")]);
  // Between the one of now and the one of tomorrow.
  expect((await admin.browser.post(pricePage, await price({ inputUsd: "9" }))).status).toBe(303);
  const [first, second, third] = await prices();
  expect(first).toMatchObject({ input: 1, until: second?.from });
  expect(second).toMatchObject({ input: 9, until: new Date(`${tomorrow}:00Z`) });
  expect(third).toMatchObject({ input: 1.5, output: "3.000001", until: null });
  expect((await admin.browser.get(at(""))).words).toContain("$3.000001");
  expect((await admin.browser.get(`/admin/models?q=${model.slice(5)}`)).words).toContain("$9.00");
});

test("a model costs what its first open route costs, whatever its providers are called", async () => {
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

test("what is left empty of a price is told as it is charged", async () => {
  const { words } = await admin.browser.get(pricePage);
  expect(words).toMatch(/Cached input.*Empty: same as input\..*Audio input.*Empty: audio is refused\..*Audio output/s);
  expect(words).toMatch(/Audio output.*Empty: same as output\./s);
});

test("of two admins who saw the same price one adds the next", async () => {
  const asked = await price();
  const answers = await Promise.all([admin, other].map(({ browser }) => browser.post(pricePage, asked)));
  expect(answers.map(({ status }) => status).sort()).toEqual([303, 409]);
});
