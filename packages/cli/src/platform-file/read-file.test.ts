import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parsePlatform, readPlatformFile } from "./read-file.ts";
import { platformSchema } from "./schema.ts";
import { writePlatform } from "./write-file.ts";

const head = "apiVersion: gatehouse/v1\n";
const faultsOf = (text: string) => {
  const { platform, faults } = parsePlatform(text);
  expect([platform, faults.length > 0]).toEqual([null, true]);
  return faults.join("; ");
};
const parse = (text: string) => {
  const { platform, faults } = parsePlatform(text);
  expect(faults).toEqual([]);
  return platform;
};
const withPlan = (fields: string) => `${head}plans:\n  - {id: free, name: Free, payer: member, ${fields}}\n`;
const withPrice = (fields: string) =>
  `${head}models:\n  - {id: m, kind: chat, displayName: M, ownedBy: x, prices: [{providerId: demo, ${fields}}]}\n`;
const withBudget = (fields: string) =>
  `${head}workspaces:\n  - {id: 00000000-0000-4000-8000-000000000001, budgets: [{${fields}}]}\n`;

describe("the parser of platform.yaml", () => {
  test.each([
    ["an empty file", "", "the file"],
    ["a file without a version", "plans: []\n", "apiVersion must be gatehouse/v1"],
    ["a later version", "apiVersion: gatehouse/v2\n", "apiVersion must be gatehouse/v1"],
    ["an unknown field", `${head}planz: []\n`, "the file has unknown fields: planz"],
    ["a secret", `${head}openidClients: [{name: ab, displayName: A, clientSecret: x}]\n`, "secrets don’t belong"],
    ["a password", `${head}password: x\n`, "secrets don’t belong"],
    ["an amount without quotes", withPrice("inputUsd: 3.00, outputUsd: '1'"), "inputUsd must be a decimal in quotes"],
    ["an exponent", withPrice("inputUsd: '1e3', outputUsd: '1'"), "inputUsd must be a decimal in quotes"],
    ["seven decimals", withPrice("inputUsd: '0.1234567', outputUsd: '1'"), "inputUsd must be a decimal in quotes"],
    ["a missing amount", withPrice("inputUsd: '1'"), "models[0].prices[0].outputUsd"],
    ["a time with an offset", withPrice("from: '2027-01-01T00:00:00+01:00', inputUsd: '1', outputUsd: '1'"), "from"],
    ["a day that doesn't exist", withPrice("from: '2027-02-30T00:00:00Z', inputUsd: '1', outputUsd: '1'"), "from"],
    ["a negative amount", withPlan("markup: '-1'"), "markup must be a decimal in quotes"],
    ["a limit of 0", withPlan("requestsPerMinute: 0"), "plans[0].requestsPerMinute"],
    ["an amount of calls that isn't whole", withPlan("requestsPerMinute: 1.5"), "plans[0].requestsPerMinute"],
    ["an anchor", `${head}plans: &a []\n`, "anchors (&) and aliases (*) are not supported"],
    ["an alias", `${head}plans: &a []\napps: *a\n`, "anchors (&) and aliases (*) are not supported"],
    ["a merge key", `${head}plans:\n  - {<<: {id: free}, name: F, payer: member}\n`, "unknown fields: <<"],
    ["a tag", `${head}plans: !!set {a, b}\n`, "tag"],
    ["a local tag", `${head}plans: !env SECRET\n`, "tag"],
    ["a repeated key", `${head}plans: []\nplans: []\n`, "unique"],
    ["two documents", `${head}---\n${head}`, "multiple documents"],
    ["a key that isn't a text", `${head}? [a]\n: b\n`, "string"],
    ["deep nesting", `${head}plans: ${"[".repeat(10_000)}`, ""],
    ["a prototype", `${head}__proto__: {plans: []}\n`, "__proto__"],
    ["a budget of nothing", withBudget("scope: workspace"), "limitUsd is required"],
    ["a budget of an unnamed app", withBudget("scope: app, limitUsd: '1'"), "subject must be"],
  ])("refuses %s", (_, text, message) => {
    expect(faultsOf(text)).toContain(message);
  });

  // In YAML 1.1, NO is false, 1_0 is 10, and 010 is 8.
  test("reads texts as YAML 1.2 does, and amounts exactly", () => {
    const plan = parse(withPlan('markup: "01.20", initialCredits: "0.10000000"').replace("name: Free", "name: NO"));
    expect(plan?.plans).toMatchObject([{ name: "NO", markup: "1.2", initialCredits: "0.1", lowCredits: null }]);
    const older = parse(`%YAML 1.1\n---\n${withPlan("markup: '1'").replace("name: Free", "name: NO")}`);
    expect(older?.plans?.[0]?.name).toBe("NO");
  });

  test("takes an absent list for one that is not managed, and an empty one for one that is", () => {
    expect(parse(`${head}plans: []\n`)).toEqual({ apiVersion: "gatehouse/v1", plans: [] });
  });
});

describe("an export", () => {
  const platform = platformSchema.parse({
    apiVersion: "gatehouse/v1",
    plans: [
      { id: "team", name: "a\u202eb\u001b[2J\n#: &x", payer: "workspace", markup: "1.20" },
      { id: "free", name: "NO", payer: "member", requestsPerMinute: 60 },
    ],
    apps: [],
  });

  test("is sorted text without defaults, which shows a terminal no invisible characters", () => {
    expect(writePlatform(platform).split("\n")).toEqual([
      "apiVersion: gatehouse/v1",
      "plans:",
      "  - id: free",
      expect.stringMatching(/^ {4}name: ["']NO["']$/),
      "    payer: member",
      "    requestsPerMinute: 60",
      "  - id: team",
      '    name: "a\\u202eb\\e[2J\\n#: &x"',
      "    payer: workspace",
      '    markup: "1.2"',
      "",
    ]);
  });

  test("is read back as what was exported", () => {
    const { apps: _, plans, ...rest } = platform;
    expect(parse(writePlatform(platform))).toEqual({ ...rest, plans: plans?.toReversed() });
  });
});

describe("the file", () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "gatehouse-platform-"));
  });
  afterAll(() => rm(folder, { recursive: true }));

  const write = async (text: string) => {
    const file = join(folder, "platform.yaml");
    await writeFile(file, text);
    return file;
  };

  test("has 1 MiB at most", async () => {
    const padding = (bytes: number) => `${head}#${"x".repeat(bytes - head.length - 1)}`;
    const { platform, hash } = await readPlatformFile(await write(padding(1024 * 1024)));
    expect([platform, hash]).toEqual([{ apiVersion: "gatehouse/v1" }, expect.stringMatching(/^[0-9a-f]{64}$/)]);
    await expect(readPlatformFile(await write(padding(1024 * 1024 + 1)))).rejects.toThrow("more than 1 MiB");
  });

  test("is named in its faults, of which ten are shown", async () => {
    await expect(readPlatformFile(join(folder, "none.yaml"))).rejects.toThrow("There is no file");
    const plans = Array.from({ length: 12 }, () => "{}").join(", ");
    await expect(readPlatformFile(await write(`${head}plans: [${plans}]\n`))).rejects.toThrow(
      /platform\.yaml can’t be used: .*; and 26 more$/,
    );
  });
});
