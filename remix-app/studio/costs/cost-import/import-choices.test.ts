import { expect, test } from "vitest";
import type { CostFile, ProviderCosts } from "../files/cost-file.ts";
import { maxImportDays } from "../files/import-document.ts";
import {
  buildDocument,
  type ImportChoices,
  listServicesToChoose,
  maxListedServices,
  readChoices,
} from "./import-choices.ts";

const amount = (text: string, service: string | null = null, currency = "USD") => ({ currency, amount: text, service });
const file: CostFile = {
  format: "focus",
  formatName: "FOCUS 1.0",
  fileName: "october.csv",
  sha256: "a".repeat(64),
  rows: 6,
  skipped: [{ what: "Totals", rows: 1 }],
  notes: [],
  providers: [
    {
      provider: "aws",
      timeZone: "UTC",
      currencies: ["EUR", "USD"],
      days: [
        {
          accountId: "111",
          day: "2026-10-01",
          amounts: [amount("0.1", "Bedrock"), amount("0.2", "S3"), amount("5", "Bedrock", "EUR")],
        },
        { accountId: null, day: "2026-10-01", amounts: [amount("-0.000000000001", "Bedrock")] },
      ],
    },
    { provider: "openai", timeZone: "UTC", currencies: ["USD"], days: [] },
  ],
};
const chosen: ImportChoices = {
  source: 0,
  provider: "aws",
  account: "default",
  rates: { EUR: "1.08", USD: "" },
  services: null,
  clear: false,
};
const errorsOf = (changes: Partial<ImportChoices>, of = file) => {
  const read = buildDocument(of, { ...chosen, ...changes });
  return "errors" in read ? read.errors : {};
};

test("an import adds up an account's services per day and currency, without rounding", () => {
  expect(buildDocument(file, chosen)).toEqual({
    document: {
      provider: "aws",
      format: "focus",
      fileName: "october.csv",
      sha256: "a".repeat(64),
      timeZone: "UTC",
      rates: { EUR: "1.08" },
      services: ["Bedrock", "S3"],
      days: [
        {
          accountId: "111",
          day: "2026-10-01",
          amounts: [
            { currency: "EUR", amount: "5" },
            { currency: "USD", amount: "0.3" },
          ],
          parts: [
            [0, "EUR", "5"],
            [0, "USD", "0.1"],
            [1, "USD", "0.2"],
          ],
        },
        {
          accountId: "default",
          day: "2026-10-01",
          amounts: [{ currency: "USD", amount: "-0.000000000001" }],
          parts: [[0, "USD", "-0.000000000001"]],
        },
      ],
    },
  });
});

test("an import assigns lines without an account to the entered account", () => {
  const read = buildDocument(file, { ...chosen, account: "111", services: [0, 1] });
  expect("document" in read && read.document.days).toEqual([
    {
      accountId: "111",
      day: "2026-10-01",
      amounts: [
        { currency: "EUR", amount: "5" },
        { currency: "USD", amount: "0.299999999999" },
      ],
      parts: [
        [0, "EUR", "5"],
        [0, "USD", "0.099999999999"],
        [1, "USD", "0.2"],
      ],
    },
  ]);
});

/** Returns a bill of one day with the given services, each with an amount of 1. */
const billOfServices = (names: readonly (string | null)[]): CostFile => ({
  ...file,
  providers: [
    {
      provider: "aws",
      timeZone: "UTC",
      currencies: ["USD"],
      days: [{ accountId: "111", day: "2026-10-01", amounts: names.map((name) => amount("1", name)) }],
      serviceCategories: { Bedrock: "AI and Machine Learning", Unused: "Web" },
    },
  ],
});

test("an import names services on one line, with the categories of those that it has", () => {
  const read = buildDocument(billOfServices(["Bedrock", " Amazon\nS3 ", null, "Amazon S3"]), chosen);
  expect("document" in read && read.document).toMatchObject({
    services: ["Bedrock", "Amazon S3", ""],
    serviceCategories: { Bedrock: "AI and Machine Learning" },
    days: [
      {
        amounts: [{ currency: "USD", amount: "4" }],
        parts: [
          [0, "USD", "1"],
          [1, "USD", "2"],
          [2, "USD", "1"],
        ],
      },
    ],
  });
});

test.each([
  ["a bill that names no service", [null], false],
  ["a bill of 5,000 services", Array.from({ length: 5_000 }, (_, n) => `service ${n}`), true],
  ["a bill of more than 5,000 services", Array.from({ length: 5_001 }, (_, n) => `service ${n}`), false],
])("an import of %s has the total, and services if they can be stored", (_, names, hasServices) => {
  const read = buildDocument(billOfServices(names), chosen);
  if (!("document" in read)) throw new Error("no document");
  expect(read.document.days[0]?.amounts).toEqual([{ currency: "USD", amount: String(names.length) }]);
  expect([read.document.services !== undefined, read.document.days[0]?.parts !== undefined]).toEqual([
    hasServices,
    hasServices,
  ]);
});

test("an import lists services by amount, the largest first, and imports only the chosen services", () => {
  const services = listServicesToChoose(file.providers[0] as ProviderCosts);
  expect(services.map(({ service }) => service)).toEqual(["Bedrock", "S3"]);
  const read = buildDocument(file, { ...chosen, services: [1] });
  expect("document" in read && read.document).toMatchObject({
    rates: {},
    days: [{ accountId: "111", amounts: [{ currency: "USD", amount: "0.2" }] }],
  });
});

test("an import requires a rate, a provider name, an account and a service", () => {
  expect(errorsOf({})).toEqual({});
  for (const rate of ["", "0", "0.00", "1,08", "-1", "1.0000000000001", "1234567890"]) {
    expect(Object.keys(errorsOf({ rates: { EUR: rate } }))).toEqual(["rate_EUR"]);
  }
  for (const rate of ["0.000000000001", "999999999", "1.08"]) expect(errorsOf({ rates: { EUR: rate } })).toEqual({});
  for (const provider of ["", "two words", "x".repeat(129)]) {
    expect(Object.keys(errorsOf({ provider }))).toEqual(["provider"]);
  }
  for (const account of ["", " a", "a\n", "x".repeat(257)]) {
    expect(Object.keys(errorsOf({ account }))).toEqual(["account"]);
  }
  expect(errorsOf({ account: `arn:aws:iam::1:x/y z${"x".repeat(236)}` })).toEqual({});
  expect(Object.keys(errorsOf({ services: [] }))).toEqual(["services"]);
});

test("an import accepts at most 20,000 combinations of account and day", () => {
  const ofDays = (count: number): CostFile => ({
    ...file,
    providers: [
      {
        provider: "aws",
        timeZone: "UTC",
        currencies: ["USD"],
        days: Array.from({ length: count }, (_, n) => ({
          accountId: `a${n}`,
          day: "2026-10-01",
          amounts: [amount("1")],
        })),
      },
    ],
  });
  expect(errorsOf({}, ofDays(maxImportDays))).toEqual({});
  expect(errorsOf({}, ofDays(maxImportDays + 1))).toEqual({
    services: expect.stringContaining("20,001 daily totals"),
  });
});

test("an import form selects all services at first, and again after another of the file's providers is chosen", () => {
  const form = new Map<string, string>();
  const everything = { source: 0, provider: "aws", account: "default", services: null, clear: false };
  expect(readChoices(form, file)).toMatchObject(everything);
  form.set("reviewedSource", "0");
  form.set("provider", "Bedrock");
  form.set("service_1", "1");
  expect(readChoices(form, file)).toMatchObject({ provider: "bedrock", account: "", services: [1] });
  form.set("source", "1");
  expect(readChoices(form, file)).toMatchObject({ source: 1, provider: "openai", services: null });
  for (const source of ["2", "99", "-1", "x"]) {
    form.set("source", source);
    expect(file.providers[readChoices(form, file).source]).toBeDefined();
  }
});

test("an import lists up to 500 services to choose from, and imports all of a bill with more", () => {
  const ofServices = (count: number): CostFile => {
    const amounts = Array.from({ length: count }, (_, n) => amount("1", `s${n}`));
    const days = [{ accountId: "1", day: "2026-10-01", amounts }];
    return { ...file, providers: [{ provider: "aws", timeZone: "UTC", currencies: ["USD"], days }] };
  };
  const servicesOf = (count: number) => {
    const bill = ofServices(count);
    const listed = listServicesToChoose(bill.providers[0] as ProviderCosts).length;
    return [listed, readChoices(new Map([["reviewedSource", "0"]]), bill).services];
  };
  expect(servicesOf(maxListedServices)).toEqual([500, []]);
  expect(servicesOf(maxListedServices + 1)).toEqual([0, null]);
});

test("an import sets days that are missing from its file to 0 only if the person chooses that option", () => {
  const clearOf = (clear: boolean) => {
    const read = buildDocument(file, { ...chosen, clear });
    return "document" in read && read.document.clear;
  };
  expect([clearOf(true), clearOf(false)]).toEqual([true, undefined]);
  const form = new Map([["clear", "1"]]);
  expect(readChoices(form, file).clear).toBe(true);
});
