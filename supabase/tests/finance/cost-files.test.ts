import { createHash, randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { platformBookId } from "../../../remix-app/studio/costs/platform-book.ts";
import { type Database, one, test } from "../database.ts";
import { asOperator, createBook, createPlatformBook, documentOf, usd } from "./cost-file-fixtures.ts";

type Record = { externalRunId: string; amountUsd: string; counted: boolean };
const countedOf = ({ records }: { records: Record[] }) =>
  records.filter(({ counted }) => counted).map(({ externalRunId, amountUsd }) => [externalRunId, amountUsd]);
const amountsOf = async (book: { list: () => Promise<{ records: Record[] }> }) =>
  countedOf(await book.list()).toSorted();
/** Counts the imports of this transaction, which share its timestamp. */
const imports = (db: Database) =>
  one<{ n: number }>(db, { sql: "select count(*)::int as n from ai.cost_imports where imported_at = now()" });

describe("a cost file", () => {
  test("previews a cost file, then stores it as one total for each account and day", async ({ db }) => {
    const book = await createBook(db);
    const document = documentOf([
      usd("2026-10-03", "1.25", "proj_b"),
      usd("2026-10-03", "2.5"),
      usd("2026-10-05", "0.000000000001"),
    ]);
    const preview = await book.preview(document);
    expect(preview).toEqual({
      outcome: "previewed",
      closedMonths: [],
      totalUsd: "3.750000000001",
      byCurrency: [{ currency: "USD", amount: "3.750000000001", amountUsd: "3.750000000001" }],
      firstDay: "2026-10-03",
      lastDay: "2026-10-05",
      days: 3,
      dates: 2,
      accountCount: 2,
      accounts: [
        { accountId: "acct-1", days: 2, amountUsd: "2.500000000001" },
        { accountId: "proj_b", days: 1, amountUsd: "1.25" },
      ],
      added: { days: 3, amountUsd: "3.750000000001" },
      unchanged: { days: 0 },
      corrected: { days: 0, fromUsd: "0", toUsd: "0", list: [] },
      replaced: { records: 0, amountUsd: "0" },
      remaining: { days: 0, amountUsd: "0" },
      cleared: { days: 0, amountUsd: "0" },
      state: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
    expect((await book.list()).records).toEqual([]);
    expect(await book.importFile(document, preview.state)).toEqual({
      outcome: "imported",
      importId: expect.any(String),
      added: 3,
      corrected: 0,
      cleared: 0,
      unchanged: 0,
    });
    const { records, totals } = await book.list();
    expect(totals).toMatchObject({ amountUsd: "3.750000000001", records: 3, replacedRecords: 0 });
    expect(records.at(-1)).toMatchObject({
      provider: "openai",
      externalRunId: expect.stringMatching(/^openai-costs:(acct-1|proj_b):2026-10-03$/),
      granularity: "account_day",
      service: null,
      occurredAt: "2026-10-03T00:00:00.000Z",
      revision: 1,
      original: null,
      import: { file: "costs.json", format: "openai-costs", timeZone: "UTC", rates: {}, by: "person" },
    });
  });

  test("importing a cost file again stores nothing and records no second import", async ({ db }) => {
    const book = await createBook(db);
    const document = documentOf([usd("2026-10-03", "1"), usd("2026-10-04", "2")]);
    await book.importPreviewed(document);
    const again = documentOf([usd("2026-10-03", "1.00"), usd("2026-10-04", "2")], { fileName: "again.json" });
    expect(await book.preview(again)).toMatchObject({ added: { days: 0 }, unchanged: { days: 2 } });
    expect(await book.importPreviewed(again)).toEqual({
      outcome: "imported",
      importId: null,
      added: 0,
      corrected: 0,
      cleared: 0,
      unchanged: 2,
    });
    expect(await imports(db)).toEqual({ n: 1 });
    expect((await book.list()).records.map(({ revision }: { revision: number }) => revision)).toEqual([1, 1]);
  });

  test("a cost file corrects the days whose totals differ, and reports the old and new totals", async ({ db }) => {
    const book = await createBook(db);
    await book.importPreviewed(documentOf([usd("2026-10-03", "1"), usd("2026-10-04", "2"), usd("2026-10-05", "3")]));
    const corrected = documentOf([usd("2026-10-04", "2.5"), usd("2026-10-03", "1"), usd("2026-10-06", "4")]);
    expect(await book.preview(corrected)).toMatchObject({
      added: { days: 1, amountUsd: "4" },
      unchanged: { days: 1 },
      corrected: {
        days: 1,
        fromUsd: "2",
        toUsd: "2.5",
        list: [{ accountId: "acct-1", day: "2026-10-04", fromUsd: "2", toUsd: "2.5" }],
      },
      replaced: { records: 0, amountUsd: "0" },
    });
    expect(await book.importPreviewed(corrected)).toMatchObject({ added: 1, corrected: 1, unchanged: 1 });
    expect((await book.list()).totals).toMatchObject({ amountUsd: "10.5", records: 4 });
  });

  test("a cost file's preview counts stored days of its period that the file lacks, and an import can set those days to 0", async ({
    db,
  }) => {
    const book = await createBook(db);
    // Imports days before, in and after the period of the files tested below. Those files do not contain the account
    // s3-only.
    await book.importPreviewed(documentOf([usd("2026-10-02", "7", "s3-only")]));
    await book.importPreviewed(
      documentOf([
        usd("2026-10-03", "10"),
        usd("2026-10-04", "40", "s3-only"),
        usd("2026-10-05", "2"),
        usd("2026-10-05", "0", "zero"),
      ]),
    );
    await book.importPreviewed(documentOf([usd("2026-10-06", "5", "s3-only")]));
    await book.importPreviewed(documentOf([usd("2026-10-04", "9")], { provider: "aws" }));
    await book.store({
      externalRunId: "by-api",
      accountId: "api",
      granularity: "account_day",
      amountUsd: 3,
      occurredAt: "2026-10-04T00:00:00Z",
    });
    const days = [usd("2026-10-03", "1"), usd("2026-10-05", "2")];
    const narrowed = await book.preview(documentOf(days));
    expect(narrowed).toMatchObject({
      days: 2,
      totalUsd: "3",
      accounts: [{ accountId: "acct-1" }],
      corrected: { days: 1 },
      remaining: { days: 1, amountUsd: "40" },
      cleared: { days: 0, amountUsd: "0" },
    });
    const clearing = documentOf(days, { clear: true });
    const preview = await book.preview(clearing);
    expect(preview).toMatchObject({
      days: 2,
      totalUsd: "3",
      accounts: [{ accountId: "acct-1" }],
      corrected: { days: 1, list: [{ accountId: "acct-1" }] },
      remaining: { days: 0, amountUsd: "0" },
      cleared: { days: 1, amountUsd: "40" },
    });
    expect(preview.state).not.toBe(narrowed.state);
    expect(await book.importFile(documentOf(days), preview.state)).toEqual({ outcome: "changed" });
    expect(await book.importFile(clearing, preview.state)).toMatchObject({ corrected: 1, cleared: 1, unchanged: 1 });
    expect(await amountsOf(book)).toEqual([
      ["aws-costs:acct-1:2026-10-04", "9"],
      ["by-api", "3"],
      ["openai-costs:acct-1:2026-10-03", "1"],
      ["openai-costs:acct-1:2026-10-05", "2"],
      ["openai-costs:s3-only:2026-10-02", "7"],
      ["openai-costs:s3-only:2026-10-04", "0"],
      ["openai-costs:s3-only:2026-10-06", "5"],
      ["openai-costs:zero:2026-10-05", "0"],
    ]);
    expect(await book.importPreviewed(clearing)).toMatchObject({ importId: null, cleared: 0 });
    // A file that only clears days also counts as an import.
    await book.importPreviewed(documentOf([usd("2026-10-04", "40", "s3-only")]));
    expect(await book.importPreviewed(clearing)).toMatchObject({
      importId: expect.any(String),
      corrected: 0,
      cleared: 1,
    });
    expect(await book.preview({ ...clearing, clear: "yes" })).toMatchObject({ outcome: "invalid", param: "clear" });
  });

  test("the preview of a cost file lists its first 100 corrections, in order of their days", async ({ db }) => {
    const book = await createBook(db);
    const days = (amount: string) =>
      Array.from({ length: 101 }, (_, n) =>
        usd(
          `2026-${n < 31 ? "05" : n < 61 ? "06" : n < 92 ? "07" : "08"}-${String(
            (n < 31 ? n : n < 61 ? n - 31 : n < 92 ? n - 61 : n - 92) + 1,
          ).padStart(2, "0")}`,
          amount,
        ),
      );
    await book.importPreviewed(documentOf(days("1")));
    const { corrected } = await book.preview(documentOf(days("2").reverse()));
    expect([corrected.days, corrected.list.length]).toEqual([101, 100]);
    expect([corrected.list[0].day, corrected.list[99].day]).toEqual(["2026-05-01", "2026-08-08"]);
  });

  test("a cost file sums an account's amounts for a day before rounding", async ({ db }) => {
    const book = await createBook(db);
    // Amazon's cost and usage reports have more decimals than the column, so each amount alone would round to zero.
    const tiny = { currency: "USD", amount: "0.0000000000004" };
    await book.importPreviewed(
      documentOf([
        { accountId: "a", day: "2026-10-03", amounts: [tiny, tiny] },
        { accountId: "a", day: "2026-10-03", amounts: [tiny] },
      ]),
    );
    expect(countedOf(await book.list())).toEqual([["openai-costs:a:2026-10-03", "0.000000000001"]]);
  });

  test("a cost file may have days below zero when refunds and credits exceed the cost", async ({ db }) => {
    const book = await createBook(db);
    const refund = {
      accountId: "acct-1",
      day: "2026-10-03",
      amounts: [
        { currency: "USD", amount: "10" },
        { currency: "USD", amount: "-12.5" },
      ],
    };
    const document = documentOf([refund, usd("2026-10-04", "-0.000000000001"), usd("2026-10-05", "3")]);
    expect(await book.importPreviewed(document)).toMatchObject({ added: 3 });
    expect((await book.list()).totals.amountUsd).toBe("0.499999999999");
  });

  test("a cost file's total replaces the day's imported runs and services, which are kept for audit", async ({
    db,
  }) => {
    const book = await createBook(db);
    const day = { granularity: "account_day", occurredAt: "2026-10-03T00:00:00Z" };
    await book.store({ externalRunId: "run-1", amountUsd: "1", occurredAt: "2026-10-03T23:59:59.999999Z" });
    await book.store({ externalRunId: "run-2", amountUsd: "2", occurredAt: "2026-10-04T00:00:00Z" });
    await book.store({ externalRunId: "run-3", amountUsd: "4", occurredAt: "2026-10-02T23:59:59Z" });
    await book.store({
      externalRunId: "run-4",
      amountUsd: "8",
      occurredAt: "2026-10-03T05:00:00Z",
      accountId: "other",
    });
    await book.store({ ...day, externalRunId: "tokens", service: "tokens", amountUsd: "16" });
    await book.store({ ...day, externalRunId: "storage", service: "storage", amountUsd: "32" });
    const document = documentOf([usd("2026-10-03", "50")]);
    // The replaced amount does not include run-1, because the services' totals have already replaced run-1.
    expect(await book.preview(document)).toMatchObject({ replaced: { records: 2, amountUsd: "48" } });
    await book.importPreviewed(document);
    const { totals } = await book.list();
    expect(totals).toEqual({ amountUsd: "64", records: 7, replacedRecords: 3, replacedUsd: "49" });
  });

  test("a cost file replaces the total that an app reported for the same day under another run id", async ({ db }) => {
    const book = await createBook(db);
    const day = { granularity: "account_day", occurredAt: "2026-10-03T00:00:00Z" };
    const document = documentOf([usd("2026-10-03", "15")]);
    await book.store({ ...day, externalRunId: "total-1", amountUsd: "20" });
    expect(await book.preview(document)).toMatchObject({
      added: { days: 1 },
      replaced: { records: 1, amountUsd: "20" },
    });
    await book.importPreviewed(document);
    expect(countedOf(await book.list())).toEqual([["openai-costs:acct-1:2026-10-03", "15"]]);
    // Makes the file's record older than the app's next report. The report then counts until the file is imported
    // again.
    await db.query(
      "update ai.external_provider_costs set observed_at = observed_at - interval '1 hour' where external_run_id like '%-costs:%'",
    );
    const { at } = await one<{ at: string }>(db, { sql: "select to_json(now()) #>> '{}' as at" });
    await book.store({ ...day, externalRunId: "total-1", amountUsd: "21", observedAt: at });
    expect(countedOf(await book.list())).toEqual([["total-1", "21"]]);
    expect(await book.preview(document)).toMatchObject({
      corrected: { days: 1 },
      replaced: { records: 1, amountUsd: "21" },
    });
    await book.importPreviewed(document);
    expect(countedOf(await book.list())).toEqual([["openai-costs:acct-1:2026-10-03", "15"]]);
  });

  test("a cost file corrects what the provider's API reported, and a newer report of the API corrects the file", async ({
    db,
  }) => {
    const book = await createBook(db);
    const fromApi = (amountUsd: string, observedAt: string) =>
      book.store({
        externalRunId: "openai-costs:acct-1:2026-10-03",
        granularity: "account_day",
        occurredAt: "2026-10-03T00:00:00Z",
        amountUsd,
        observedAt,
      });
    expect(await fromApi("9", "2026-10-04T08:00:00Z")).toEqual({ outcome: "stored" });
    const euro = { accountId: "acct-1", day: "2026-10-03", amounts: [{ currency: "EUR", amount: "10" }] };
    const document = documentOf([euro], { rates: { EUR: "1.08" } });
    expect(await book.preview(document)).toMatchObject({ corrected: { days: 1, fromUsd: "9", toUsd: "10.8" } });
    expect(await book.importPreviewed(document)).toMatchObject({ corrected: 1 });
    expect(await fromApi("9", "2026-10-04T08:00:00Z")).toEqual({ outcome: "stale" });
    const before = (await book.list()).records;
    expect(before).toMatchObject([{ amountUsd: "10.8", original: [{ currency: "EUR", amount: "10" }], revision: 2 }]);
    const { at } = await one<{ at: string }>(db, {
      sql: "select to_json(now() + interval '50 seconds') #>> '{}' as at",
    });
    expect(await fromApi("11", at)).toEqual({ outcome: "corrected" });
    expect((await book.list()).records).toMatchObject([{ amountUsd: "11", original: null, import: null, revision: 3 }]);
    // A file that is imported now still corrects the API's report, although the report was observed in the future.
    expect(await book.importPreviewed(document)).toMatchObject({ corrected: 1 });
    expect((await book.list()).records).toMatchObject([{ amountUsd: "10.8", revision: 4 }]);
  });
});

describe("amounts in other currencies", () => {
  const mixed = {
    accountId: "acct-1",
    day: "2026-10-03",
    amounts: [
      { currency: "EUR", amount: "10.50" },
      { currency: "USD", amount: "1" },
      { currency: "EUR", amount: "-0.5" },
      { currency: "JPY", amount: "1500" },
    ],
  };
  const rates = { EUR: "1.08", JPY: "0.006667" };

  test("amounts in other currencies are converted at the exchange rates that a person entered, and stored together with the USD amount", async ({
    db,
  }) => {
    const book = await createBook(db);
    await db.query("update public.profiles set display_name = 'Fin Ance' where id = $1", [book.ownerId]);
    const document = documentOf([mixed, usd("2026-10-04", "7")], { rates, timeZone: "America/Los_Angeles" });
    expect(await book.preview(document)).toMatchObject({
      totalUsd: "28.8005",
      byCurrency: [
        { currency: "USD", amount: "8", amountUsd: "8" },
        { currency: "EUR", amount: "10", amountUsd: "10.8" },
        { currency: "JPY", amount: "1500", amountUsd: "10.0005" },
      ],
    });
    await book.importPreviewed(document);
    const { records } = await book.list();
    expect(records[1]).toMatchObject({
      amountUsd: "21.8005",
      original: [
        { currency: "EUR", amount: "10" },
        { currency: "JPY", amount: "1500" },
        { currency: "USD", amount: "1" },
      ],
      import: { rates, timeZone: "America/Los_Angeles", by: "person", name: "Fin Ance" },
    });
    expect(records[0]).toMatchObject({ amountUsd: "7", original: null });
  });

  test("amounts that are imported again at another exchange rate count as corrections", async ({ db }) => {
    const book = await createBook(db);
    await book.importPreviewed(documentOf([mixed], { rates }));
    const document = documentOf([mixed], { rates: { ...rates, EUR: "1.09" } });
    expect(await book.preview(document)).toMatchObject({ corrected: { fromUsd: "21.8005", toUsd: "21.9005" } });
  });

  test("costs in other currencies are converted to USD per account and day, and rounded once, half away from zero", async ({
    db,
  }) => {
    const book = await createBook(db);
    const of = (day: string, amount: string) => ({ accountId: "a", day, amounts: [{ currency: "EUR", amount }] });
    const document = documentOf([of("2026-10-01", "0.000000000005"), of("2026-10-02", "-0.000000000005")], {
      rates: { EUR: "0.1" },
    });
    await book.importPreviewed(document);
    expect(countedOf(await book.list()).map(([, amount]) => amount)).toEqual(["-0.000000000001", "0.000000000001"]);
  });

  test.for([
    ["a missing rate", {}, "enter the USD for one EUR"],
    ["a rate of 0", { EUR: "0.00" }, "rate of EUR"],
    ["a negative rate", { EUR: "-1" }, "rate of EUR"],
    ["a rate with an exponent", { EUR: "1e0" }, "rate of EUR"],
    ["a rate with 13 decimals", { EUR: "1.0000000000001" }, "rate of EUR"],
    ["a rate as a JSON number, which may be rounded", { EUR: 1.08 }, "rate of EUR"],
    ["a rate for USD", { EUR: "1", USD: "2" }, "rate of USD"],
    ["a currency in lower case", { eur: "1" }, "rate of eur"],
  ] as [string, object, string][])("refuses amounts in other currencies: %s", async ([, given, words], { db }) => {
    const book = await createBook(db);
    const euro = { accountId: "a", day: "2026-10-03", amounts: [{ currency: "EUR", amount: "1" }] };
    const document = { ...documentOf([euro]), rates: given };
    const refusal = { outcome: "invalid", param: "rates", message: expect.stringContaining(words) };
    expect(await book.preview(document)).toEqual(refusal);
    expect(await book.importFile(document)).toEqual(refusal);
  });

  test("accepts an exchange rate with 12 decimals", async ({ db }) => {
    const book = await createBook(db);
    const euro = { accountId: "a", day: "2026-10-03", amounts: [{ currency: "EUR", amount: "1" }] };
    const document = documentOf([euro], { rates: { EUR: "0.000000000001" } });
    expect(await book.preview(document)).toMatchObject({ totalUsd: "0.000000000001" });
  });
});

const arn = "arn:aws:bedrock:eu-central-1:123456789012:application-inference-profile/größe";

describe("a cost document", () => {
  const amountOf = (amount: unknown) => ({ ...usd("2026-10-03", "1"), amounts: [{ currency: "USD", amount }] });
  const tomorrow = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);
  test.for([
    ["provider", { provider: "A".repeat(128) }, { provider: "A".repeat(129) }],
    ["provider", { provider: "Azure.OpenAI" }, { provider: "Azure OpenAI" }],
    ["provider", { provider: "x" }, { provider: undefined }],
    ["format", { format: "f".repeat(64) }, { format: "f".repeat(65) }],
    ["format", { format: "f" }, { format: "" }],
    ["fileName", { fileName: "ä".repeat(255) }, { fileName: "ä".repeat(256) }],
    ["fileName", { fileName: "C:\\bill (1).csv" }, { fileName: "a\nb" }],
    ["sha256", { sha256: "0".repeat(64) }, { sha256: "0".repeat(63) }],
    ["sha256", { sha256: "f".repeat(64) }, { sha256: "F".repeat(64) }],
    ["timeZone", { timeZone: "America/Argentina/Buenos_Aires" }, { timeZone: "America/Nowhere" }],
    ["timeZone", { timeZone: "Etc/GMT+8" }, { timeZone: "+08:00" }],
    ["timeZone", { timeZone: "UTC" }, { timeZone: undefined }],
    ["rates", { rates: { EUR: "999999999999.1" } }, { rates: { EUR: "9999999999999" } }],
    ["days", { days: [usd("2026-10-03", "1", "x".repeat(256))] }, { days: [usd("2026-10-03", "1", "x".repeat(257))] }],
    ["days", { days: [usd("2026-10-03", "1", arn)] }, { days: [usd("2026-10-03", "1", " a")] }],
    ["days", { days: [usd("2024-02-29", "1")] }, { days: [usd("2026-02-29", "1")] }],
    ["days", { days: [usd(tomorrow(0), "1")] }, { days: [usd(tomorrow(1), "1")] }],
    ["days", { days: [amountOf("999999999999.123456789012")] }, { days: [amountOf("1000000000000")] }],
    ["days", { days: [amountOf(`1.${"1".repeat(40)}`)] }, { days: [amountOf(`1.${"1".repeat(41)}`)] }],
    ["days", { days: [amountOf("-1")] }, { days: [amountOf("1e3")] }],
    ["days", { days: [amountOf("1")] }, { days: [amountOf(".5")] }],
    ["days", { days: [amountOf("1")] }, { days: [{ ...usd("2026-10-03", "1"), amounts: [] }] }],
    ["days", { days: [amountOf("1")] }, { days: [{ ...usd("2026-10-03", "1"), amounts: "USD" }] }],
    ["days", { days: [amountOf("1")] }, { days: [] }],
    ["days", { days: [amountOf("1")] }, { days: "none" }],
    ["days", { days: [amountOf("1")] }, { days: [null] }],
  ] as [string, object, object][])(
    "checks %s in a cost document: accepts %j and refuses %j",
    async ([param, inside, outside], { db }) => {
      const book = await createBook(db);
      const base = documentOf([usd("2026-10-03", "1")]);
      expect(await book.preview({ ...base, ...inside })).toMatchObject({ outcome: "previewed" });
      const invalid = { outcome: "invalid", param, message: expect.any(String) };
      expect(await book.preview({ ...base, ...outside })).toEqual(invalid);
      expect(await book.importFile({ ...base, ...outside })).toEqual(invalid);
      expect(await imports(db)).toEqual({ n: 0 });
    },
  );

  test("a cost document may have up to 20,000 days", async ({ db }) => {
    const book = await createBook(db);
    const days = Array.from({ length: 20_000 }, (_, n) => usd("2026-10-03", "0.01", `account ${n}`));
    expect(await book.preview(documentOf(days))).toMatchObject({ totalUsd: "200", added: { days: 20_000 } });
    const more = documentOf([...days, usd("2026-10-04", "1")]);
    expect(await book.preview(more)).toMatchObject({ outcome: "invalid", param: "days" });
    const some = documentOf(days.slice(0, 2_000));
    expect(await book.importPreviewed(some)).toMatchObject({ outcome: "imported", added: 2_000 });
    expect(await book.preview(documentOf(days))).toMatchObject({
      unchanged: { days: 2_000 },
      added: { days: 18_000 },
    });
  });

  test("costs of an account and a provider with long names are stored under a shortened run id", async ({ db }) => {
    const book = await createBook(db);
    const [provider, account] = ["p".repeat(100), "a".repeat(138)];
    await book.importPreviewed(
      documentOf([usd("2026-10-03", "1", account), usd("2026-10-03", "2", `${account}a`)], { provider }),
    );
    const hash = createHash("sha256").update(`${account}a`).digest("hex");
    expect(countedOf(await book.list()).sort()).toEqual([
      [`${provider}-costs:${account}:2026-10-03`, "1"],
      [`${provider}-costs:sha256-${hash}:2026-10-03`, "2"],
    ]);
  });
});

describe("cost imports by the operator's command", () => {
  test("a cost import by the operator's command shows no person, and an import for the platform is recorded in the audit log", async ({
    db,
  }) => {
    const book = await createBook(db);
    const document = documentOf([usd("2026-10-03", "5", randomUUID())]);
    const { workspaceId, appId } = book;
    const { state } = await asOperator(db, "preview_costs", [workspaceId, appId, document]);
    expect(await asOperator(db, "import_costs", [workspaceId, appId, document, state])).toMatchObject({ added: 1 });
    expect((await book.list()).records).toMatchObject([{ import: { by: "operator", name: null } }]);
    expect(await asOperator(db, "preview_costs", [null, null, document])).toMatchObject({ added: { days: 1 } });
    expect(await asOperator(db, "import_costs", [null, null, document])).toMatchObject({ added: 1 });
    expect(
      await one(db, {
        sql: "select actor_id, action, target, after ->> 'file' as file from private.admin_audit_log where action = 'costs.import' and created_at = now()",
      }),
    ).toEqual({ actor_id: null, action: "costs.import", target: "costs openai", file: "costs.json" });
  });

  test("an operator's cost import is refused for an unlinked app, a workspace without an app, or an app without a workspace", async ({
    db,
  }) => {
    const [book, other] = [await createBook(db), await createBook(db)];
    const document = documentOf([usd("2026-10-03", "5")]);
    for (const place of [
      [book.workspaceId, other.appId],
      [book.workspaceId, null],
      [null, book.appId],
    ]) {
      expect(await asOperator(db, "preview_costs", [...place, document])).toEqual({ outcome: "app_not_linked" });
      expect(await asOperator(db, "import_costs", [...place, document])).toEqual({ outcome: "app_not_linked" });
    }
  });
});

test("a preview has the first 50 accounts, and the number of all", async ({ db }) => {
  const book = await createBook(db);
  const accounts = Array.from({ length: 51 }, (_, n) => `acct-${100 + n}`);
  const preview = async (ids: string[]) => {
    const days = ids.toReversed().map((id) => usd("2026-10-03", "1", id));
    return (await book.preview(documentOf(days))) as unknown as {
      accountCount: number;
      accounts: { accountId: string }[];
    };
  };
  const all = await preview(accounts);
  expect([all.accountCount, all.accounts.map(({ accountId }) => accountId)]).toEqual([51, accounts.slice(0, 50)]);
  const fifty = await preview(accounts.slice(1));
  expect([fifty.accountCount, fifty.accounts.length]).toEqual([50, 50]);
});

test("a document may be a JSON string of its text, with the same result", async ({ db }) => {
  const document = documentOf([usd("2026-10-03", "5"), usd("2026-10-04", "-1.10", 'a "b" ä')]);
  const text = JSON.stringify(document);
  const [book, platform] = [await createBook(db), await createPlatformBook(db)];
  // A string is sent to the database as it is, so that it must be JSON itself.
  const stored = JSON.stringify(text) as unknown as object;
  for (const { preview, importFile } of [book, platform]) {
    const previewed = await preview(stored);
    expect(previewed).toEqual(await preview(document));
    expect(await importFile(stored, previewed.state)).toMatchObject({ outcome: "imported", added: 2 });
    expect(await preview(document)).toMatchObject({ unchanged: { days: 2 } });
  }
});

test("costs can't be imported by a member without use_ai_studio or for an unlinked app", async ({ db }) => {
  const [book, other] = [await createBook(db), await createBook(db)];
  const document = documentOf([usd("2026-10-03", "5")]);
  const ask = (member: string, app: string) =>
    db.asRole("service_role", () =>
      one<{ preview: object; imported: object }>(db, {
        sql: `select ai.preview_cost_import($1, $2, $3, $4) as preview,
          ai.import_cost_file($1, $2, $3, $4, null) as imported`,
        values: [member, book.workspaceId, app, JSON.stringify(document)],
      }),
    );
  const notAllowed = { outcome: "not_allowed" };
  const notLinked = { outcome: "app_not_linked" };
  expect(await ask(other.ownerId, book.appId)).toEqual({ preview: notAllowed, imported: notAllowed });
  expect(await ask(book.ownerId, other.appId)).toEqual({ preview: notLinked, imported: notLinked });
  expect(await imports(db)).toEqual({ n: 0 });
});

test("an import appears in the workspace's activity, and is immutable", async ({ db }) => {
  const book = await createBook(db);
  const { importId } = await book.importPreviewed(documentOf([usd("2026-10-03", "5"), usd("2026-10-04", "-1")]));
  expect(
    await one(db, {
      sql: `select actor_id, subject_id, subject, details - 'sha256' as details from public.workspace_audit_log
        where workspace_id = $1 and action = 'provider_costs.imported'`,
      values: [book.workspaceId],
    }),
  ).toEqual({
    actor_id: book.ownerId,
    subject_id: importId,
    subject: "openai costs.json",
    details: {
      appId: book.appId,
      provider: "openai",
      format: "openai-costs",
      file: "costs.json",
      timeZone: "UTC",
      rates: {},
      days: 2,
      totalUsd: "4",
    },
  });
  for (const sql of [
    "update ai.cost_imports set rates = '{}'",
    "delete from ai.cost_imports",
    "truncate ai.cost_imports",
  ]) {
    await db.query("savepoint attempt");
    await expect(db.query(sql)).rejects.toMatchObject({ code: "23001" });
    await db.query("rollback to attempt");
  }
});

test("an import keeps its file, exchange rate and amounts after the account of the person who imported it is deleted", async ({
  db,
}) => {
  const book = await createBook(db);
  const euro = { accountId: "a", day: "2026-10-03", amounts: [{ currency: "EUR", amount: "1" }] };
  await book.importPreviewed(documentOf([euro], { rates: { EUR: "1.1" } }));
  await db.query("delete from public.workspaces where id = $1", [book.workspaceId]);
  await db.query("delete from auth.users where id = $1", [book.ownerId]);
  const { records } = await one<{ records: object[] }>(db, {
    sql: `select ai.provider_cost_records($1, '2026-10-01', '2026-11-01', null, 50, '{}') as records`,
    values: [book.workspaceId],
  });
  expect(records).toMatchObject([
    { amountUsd: "1.1", original: [{ amount: "1" }], import: { by: "person", name: null, rates: { EUR: "1.1" } } },
  ]);
});

describe("imports for the platform", () => {
  test("an admin's import for the platform is logged in the audit log, and changes no workspace's records", async ({
    db,
  }) => {
    const account = randomUUID();
    const [platform, book] = [await createPlatformBook(db), await createBook(db)];
    const document = documentOf([usd("2026-10-03", "-5", account), usd("2026-10-04", "6", account)], {
      provider: "OpenAI",
    });
    await book.importPreviewed(documentOf([usd("2026-10-03", "1")]));
    const preview = await platform.preview(document);
    expect(preview).toMatchObject({ outcome: "previewed", added: { days: 2, amountUsd: "1" }, corrected: { days: 0 } });
    const { importId } = await platform.importFile(document, preview.state);
    expect(await platform.preview(document)).toMatchObject({ unchanged: { days: 2 } });
    expect(
      await one(db, {
        sql: `select c.provider, c.amount_usd::float8 as usd, i.workspace_id, i.imported_by
          from ai.external_provider_costs c join ai.cost_imports i on i.id = c.import_id where c.amount_usd < 0 and c.account_id = $1`,
        values: [account],
      }),
    ).toEqual({ provider: "openai", usd: -5, workspace_id: platformBookId, imported_by: platform.id });
    expect(
      await one(db, {
        sql: `select actor_id, reason, target, after ->> 'importId' as import, after ->> 'added' as added
          from private.admin_audit_log where action = 'costs.import' and created_at = now()`,
      }),
    ).toEqual({ actor_id: platform.id, reason: "test", target: "costs openai", import: importId, added: "2" });
    expect((await book.list()).totals).toMatchObject({ amountUsd: "1", records: 1 });
    expect(
      await one(db, {
        sql: "select count(*)::int as n from public.workspace_audit_log where subject_id = $1",
        values: [importId],
      }),
    ).toEqual({ n: 0 });
  });

  test("a platform cost import corrects imported days, and refuses a non-admin, an outdated preview and a malformed document", async ({
    db,
  }) => {
    const account = randomUUID();
    const platform = await createPlatformBook(db);
    const provider = `p-${account}`;
    const document = documentOf([usd("2026-10-03", "5", account)], { provider });
    const { state } = await platform.preview(document);
    await platform.importFile(documentOf([usd("2026-10-03", "4", account)], { provider }));
    expect(await platform.importFile(document, state)).toEqual({ outcome: "changed" });
    expect(await platform.importFile(document)).toMatchObject({ outcome: "imported", corrected: 1 });
    expect(await platform.importFile({ ...document, provider: "" })).toMatchObject({ outcome: "invalid" });
    await db.query("delete from private.infrastructure_admins where user_id = $1", [platform.id]);
    expect(await platform.importFile(document)).toEqual({ outcome: "not_allowed" });
  });
});
