import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ConsoleAdmin, createConsoleAdmin } from "../../scripts/test/console-admin.ts";
import { createPerson, deletePerson, enter, type Person, query } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { openBrowser } from "../testing/browser.ts";
import { maxSourceBytes } from "./prices/read-source.ts";

const id = crypto.randomUUID().slice(0, 8);
const [first, second] = [`proposed-a-${id}`, `proposed-b-${id}`];
const address = "/admin/prices";
let admin: ConsoleAdmin;
let other: ConsoleAdmin;
let person: Person;

beforeAll(async () => {
  [admin, other, person] = await Promise.all([createConsoleAdmin(), createConsoleAdmin(), createPerson()]);
  await query(
    `with models as (
       insert into ai.models (id, kind, display_name, owned_by, enabled)
       select m, 'chat', m, 'test', false from unnest(array[$1, $2]) as m
     ), routes as (
       insert into ai.model_routes (model_id, position, provider_id, provider_model)
       select m, 1, 'openai', m from unnest(array[$1, $2]) as m
     )
     insert into ai.model_prices (model_id, provider_id, valid, input_usd_per_million, output_usd_per_million)
     values ($1, 'openai', tstzrange(now() - interval '1 day', null), 2.5, 10)`,
    [first, second],
  );
});
afterAll(async () => {
  await query("delete from ai.model_prices where model_id = any($1)", [[first, second]]);
  await query("delete from ai.models where id = any($1)", [[first, second]]);
  await Promise.all([admin, other, person].map(deletePerson));
});

const liteLlm = JSON.stringify({
  [first]: {
    litellm_provider: "openai",
    input_cost_per_token: 2e-6,
    output_cost_per_token: 1e-5,
    output_cost_per_second: 1,
  },
  [second]: {
    litellm_provider: "openai",
    input_cost_per_token: 4e-7,
    output_cost_per_token: 1.6e-6,
    max_output_tokens: 64_000,
  },
});
const modelsDev = JSON.stringify({
  openai: { id: "openai", models: { [first]: { id: first, cost: { input: 2.25, output: 10 } } } },
});
const files = (...texts: (string | Buffer)[]) => {
  const form = new FormData();
  for (const [index, text] of texts.entries()) {
    form.set(
      ["first", "second"][index] ?? "",
      new Blob([text as BlobPart], { type: "application/json" }),
      `file${index}.json`,
    );
  }
  form.set("source", "files");
  return form;
};
const draftOn = (html: string) => /name="draft" value="([^"]*)"/.exec(html)?.[1] ?? "";
const rowOf = (html: string, model: string) =>
  Number(new RegExp(`name="pick(\\d+)_[^"]*" aria-label="[^"]* for ${model} `).exec(html)?.[1]);
/** Compares both files and fills in the review of their differences. */
async function review(by: ConsoleAdmin, picks: (row: (model: string) => number) => Record<string, string>) {
  const { text } = await by.browser.post(address, files(modelsDev, liteLlm));
  const form = new FormData();
  const fields = { draft: draftOn(text), from: "", reason: "The list of today" };
  for (const [name, value] of Object.entries({ ...fields, ...picks((model) => rowOf(text, model)) }))
    form.set(name, value);
  return form;
}
const prices = () =>
  query(
    `select model_id as model, input_usd_per_million::text as input, output_usd_per_million::text as output
     from ai.model_prices where model_id = any($1) and valid @> now() order by 1`,
    [[first, second]],
  );
const before = [{ model: first, input: "2.500000", output: "10.000000" }];

test("shows an admin how our prices differ from both price sources, side by side, and changes nothing", async () => {
  const { status, words } = await admin.browser.post(address, files(modelsDev, liteLlm));
  expect(status).toBe(200);
  expect(words).toContain("Compared with models.dev and LiteLLM");
  expect(words).toMatch(/Input sources disagree \$2\.50 \$2\.25 \$2\.00/);
  expect(words).toMatch(/Output same \$10\.00 \$10\.00 \$10\.00/);
  expect(words).toMatch(/Input new – – \$0\.40/);
  expect(words).toContain(`${first} at openai, LiteLLM: output_cost_per_second`);
  expect(await prices()).toEqual(before);
});

test("proposes the limits that the catalogue does not have, and fills them in on the model's edit page", async () => {
  const { text, words } = await admin.browser.post(address, files(modelsDev, liteLlm));
  expect(words).toContain(`${second}: output limit 64,000, default output limit 32,768`);
  const link = new RegExp(`href="(/admin/models/edit\\?model=${second}[^"]*)"`).exec(text)?.[1] ?? "";
  const form = await admin.browser.get(link.replaceAll("&amp;", "&"));
  for (const [name, value] of Object.entries({
    contextWindow: "",
    outputLimit: "64000",
    defaultOutputLimit: "32768",
  })) {
    expect(form.text).toMatch(new RegExp(`<input[^>]*name="${name}"[^>]*value="${value}"`));
  }
  expect(text).not.toContain(`/admin/models/edit?model=${first}`);
});

test("prints the price differences on the command line, and changes nothing", async () => {
  const directory = await mkdtemp(path.join(tmpdir(), "prices-"));
  try {
    const places = await Promise.all(
      [modelsDev, liteLlm].map(async (text, index) => {
        const place = path.join(directory, `${index}.json`);
        await writeFile(place, text);
        return place;
      }),
    );
    const { PATH, NODE_ENV, GATEHOUSE_STACK } = process.env;
    const line = ["scripts/operator/prices.ts", "propose", ...places.flatMap((place) => ["--from", place])];
    const { stdout } = await promisify(execFile)(process.execPath, line, { env: { PATH, NODE_ENV, GATEHOUSE_STACK } });
    expect(stdout).toMatch(new RegExp(`${first} +openai +default +Input +2.5 +2.25 +2 +sources disagree`));
    expect(stdout).toMatch(new RegExp(`${second} +openai +default +Output +- +- +1.6 +new`));
    expect(stdout).toContain(`Not priced here: ${first} through openai, LiteLLM: output_cost_per_second.`);
    expect(await prices()).toEqual(before);
  } finally {
    await rm(directory, { recursive: true });
  }
});

test.each([
  ["without a reason", { reason: " " }, "Enter a reason"],
  ["that start in the past", { from: "2026-01-01T00:00" }, "take effect in the past"],
  ["if none is chosen", { take0: "", pick0_inputUsd_0: "" }, "at least one price"],
])("adds no prices %s", async (_, more, words) => {
  const form = await review(admin, (row) => ({ [`pick${row(first)}_inputUsd_1`]: "on", ...more }));
  if (words === "at least one price")
    for (const name of [...form.keys()]) if (name.startsWith("pick")) form.delete(name);
  const answer = await admin.browser.post(address, form);
  expect([answer.status, answer.words]).toEqual([400, expect.stringContaining(words)]);
  // The selection is kept.
  if (!words.startsWith("at least")) expect(answer.text).toMatch(/<input[^>]*name="pick\d+_inputUsd_1"[^>]*checked=""/);
  expect(await prices()).toEqual(before);
});

test("adds all chosen prices in one transaction, and only once", async () => {
  const picks = (row: (model: string) => number) => ({
    [`pick${row(first)}_inputUsd_0`]: "on",
    [`take${row(second)}`]: "1",
  });
  const [mine, theirs] = [await review(admin, picks), await review(other, picks)];
  expect((await admin.browser.post(address, mine)).location).toBe(`${address}?done`);
  const late = await other.browser.post(address, theirs);
  expect([late.status, late.words]).toEqual([409, expect.stringContaining(`${admin.email} changed it on`)]);
  expect(await prices()).toEqual([
    { model: first, input: "2.250000", output: "10.000000" },
    { model: second, input: "0.400000", output: "1.600000" },
  ]);
  const log = await query("select target, reason from private.admin_audit_log where target = any($1) order by 1", [
    [`model ${first}`, `model ${second}`],
  ]);
  expect(log).toEqual([first, second].map((model) => ({ target: `model ${model}`, reason: "The list of today" })));
});

test("only infrastructure admins can open the price comparison", async () => {
  const stranger = await enter(person);
  expect((await stranger.get(address)).status).toBe(403);
  expect((await stranger.post(address, files(liteLlm))).status).toBe(403);
});

describe("a price file", () => {
  test.each([
    ["is chosen", [], "Choose a price file"],
    ["has a known format", ["{}"], "file0.json has no prices in a known form"],
    ["comes from a different project than the second file", [liteLlm, liteLlm], "Both files are from LiteLLM"],
  ])("the price comparison requires that a price file %s", async (_, texts, words) => {
    const answer = await admin.browser.post(address, files(...texts));
    expect([answer.status, answer.words]).toEqual([400, expect.stringContaining(words)]);
  });

  test("a price file has at most 8 MiB", async () => {
    const of = async (bytes: number) => (await admin.browser.post(address, files(Buffer.alloc(bytes, " ")))).words;
    expect(await of(maxSourceBytes)).toContain("isn’t JSON");
    expect(await of(maxSourceBytes + 1)).toContain("has more than 8 MiB");
  });

  test("only the price comparison page accepts forms above the usual size limit, and only from admins", async () => {
    // Exceeds the limit by only a few bytes. If the server closes while the client is still sending, the client never
    // sees the answer.
    const large = files(Buffer.alloc(64 * 1024));
    const { base } = readStack();
    const visitor = await openBrowser(base).post(address, large);
    expect([visitor.status, visitor.location]).toEqual([302, expect.stringContaining("/login")]);
    expect((await (await enter(person)).post(address, large)).status).toBe(403);
    expect((await admin.browser.post("/admin/apps/new", large)).status).toBe(413);
    expect((await admin.browser.post(address, large)).status).toBe(400);
  });
});
