import { afterAll, describe, expect, test as pooled } from "vitest";
import { type Database, one, test } from "../database.ts";
import { openPool } from "../pools.ts";
import { createBook, createPlatformBook, documentOf, usd } from "./cost-file-fixtures.ts";

type Book = Awaited<ReturnType<typeof createBook>>;

/** Inserts a row as older releases did, without converting the provider's name to lower case. */
async function oldRow(db: Database, { workspaceId, appId }: Book, changes: object = {}) {
  const row = {
    workspace_id: workspaceId,
    app_id: appId,
    provider: "OpenAI",
    account_id: "acct-1",
    external_run_id: "run-1",
    amount_usd: "5",
    occurred_at: "2026-10-03T00:00:00Z",
    observed_at: "2026-10-04T00:00:00Z",
    ...changes,
  };
  const columns = Object.keys(row);
  return one<{ id: string }>(db, {
    sql: `insert into ai.external_provider_costs (${columns.join(", ")})
      values (${columns.map((_, n) => `$${n + 1}`).join(", ")}) returning id`,
    values: Object.values(row),
  });
}
const rows = (db: Database, { workspaceId }: Book) =>
  db.query(
    `select provider, trim_scale(amount_usd)::text as usd, revision from ai.external_provider_costs
     where workspace_id = $1 order by provider collate "C"`,
    [workspaceId],
  );
const clashes = (db: Database, { workspaceId }: Book) =>
  db.query(
    "select provider, spellings, account_id, external_run_id from ai.cost_clashes($1) order by external_run_id",
    [workspaceId],
  );

describe("a provider's name", () => {
  test("stores a provider's name in lower case, even if it is sent in another case", async ({ db }) => {
    const book = await createBook(db);
    const record = { externalRunId: "run-1", amountUsd: "1", occurredAt: "2026-10-03T00:00:00Z" };
    expect(await book.store({ ...record, provider: "OpenAI" })).toEqual({ outcome: "stored" });
    expect(await book.store({ ...record, provider: "OPENAI" })).toEqual({ outcome: "unchanged" });
    expect(await book.store({ ...record, amountUsd: "2" })).toEqual({ refused: "cost_conflict" });
    expect(await rows(db, book)).toEqual([{ provider: "openai", usd: "1", revision: 1 }]);
  });

  test("a record corrects an older row whose provider name differs only in case, instead of adding a row", async ({
    db,
  }) => {
    const book = await createBook(db);
    await oldRow(db, book);
    const record = { externalRunId: "run-1", amountUsd: "5", occurredAt: "2026-10-03T00:00:00Z" };
    const observedAt = "2026-10-04T00:00:00Z";
    expect(await book.store({ ...record, observedAt })).toEqual({ outcome: "unchanged" });
    expect(await book.store({ ...record, observedAt, amountUsd: "6" })).toEqual({ refused: "cost_conflict" });
    expect(await book.store({ ...record, observedAt: "2026-10-03T12:00:00Z" })).toEqual({ outcome: "stale" });
    expect(await book.store({ ...record, provider: "openAI", amountUsd: "6" })).toEqual({ outcome: "corrected" });
    expect(await rows(db, book)).toEqual([{ provider: "OpenAI", usd: "6", revision: 2 }]);
    // A record with a different account, or without an account, is stored separately.
    expect(await book.store({ ...record, accountId: "acct-2" })).toEqual({ outcome: "stored" });
    expect(await book.store({ ...record, accountId: undefined })).toEqual({ outcome: "stored" });
    expect(await clashes(db, book)).toEqual([]);
  });

  test("filters and answers use provider names in lower case", async ({ db }) => {
    const book = await createBook(db);
    await oldRow(db, book);
    await book.store({ externalRunId: "run-2", amountUsd: "1", occurredAt: "2026-10-03T00:00:00Z" });
    for (const provider of ["openai", "OpenAI", "OPENAI"]) {
      const { records, totals } = await book.list(undefined, undefined, { provider });
      expect(totals).toMatchObject({ amountUsd: "6", records: 2 });
      expect(records.map((record: { provider: string }) => record.provider)).toEqual(["openai", "openai"]);
    }
  });

  test("an account's total for a day replaces the account's runs even if their provider names differ in case", async ({
    db,
  }) => {
    const book = await createBook(db);
    await oldRow(db, book);
    await oldRow(db, book, { external_run_id: "run-2", amount_usd: "7", occurred_at: "2026-10-03T23:00:00Z" });
    const document = documentOf([usd("2026-10-03", "20")], { provider: "Openai" });
    expect(await book.preview(document)).toMatchObject({ replaced: { records: 2, amountUsd: "12" } });
    await book.importPreviewed(document);
    const { records, totals } = await book.list();
    expect(totals).toEqual({ amountUsd: "20", records: 3, replacedRecords: 2, replacedUsd: "12" });
    expect(records.map(({ replacedBy }: { replacedBy: string | null }) => replacedBy)).toEqual(
      expect.arrayContaining([null, "openai-costs:acct-1:2026-10-03", "openai-costs:acct-1:2026-10-03"]),
    );
  });

  test("a cost file matches and corrects an older daily total even if the provider's name differs in case", async ({
    db,
  }) => {
    const book = await createBook(db);
    await oldRow(db, book, { external_run_id: "openai-costs:acct-1:2026-10-03", granularity: "account_day" });
    const document = documentOf([usd("2026-10-03", "5")]);
    expect(await book.preview(document)).toMatchObject({ unchanged: { days: 1 } });
    const other = documentOf([usd("2026-10-03", "-1")]);
    expect(await book.preview(other)).toMatchObject({ corrected: { fromUsd: "5", toUsd: "-1" } });
    expect(await book.importPreviewed(other)).toMatchObject({ corrected: 1 });
    expect(await rows(db, book)).toEqual([{ provider: "OpenAI", usd: "-1", revision: 2 }]);
  });
});

describe("older rows of one record that differ only in the case of the provider's name", () => {
  test("of rows that differ only in the case of the provider's name, only the one observed last counts", async ({
    db,
  }) => {
    const book = await createBook(db);
    await oldRow(db, book, { observed_at: "2026-10-05T00:00:00Z", amount_usd: "8" });
    await oldRow(db, book, { provider: "openai" });
    await oldRow(db, book, { provider: "OPENAI", observed_at: "2026-10-04T12:00:00Z", amount_usd: "3" });
    await oldRow(db, book, { external_run_id: "run-2", amount_usd: "100" });
    expect((await book.list()).totals).toEqual({
      amountUsd: "108",
      records: 4,
      replacedRecords: 2,
      replacedUsd: "8",
    });
    expect(
      (await book.list()).records
        .map(({ amountUsd, counted, replacedBy }: Record<string, unknown>) => [amountUsd, counted, replacedBy])
        .sort(),
    ).toEqual([
      ["100", true, null],
      ["3", false, "run-1"],
      ["5", false, "run-1"],
      ["8", true, null],
    ]);
    expect(await clashes(db, book)).toEqual([
      { provider: "openai", spellings: ["OPENAI", "OpenAI", "openai"], account_id: "acct-1", external_run_id: "run-1" },
    ]);
    const record = { externalRunId: "run-1", amountUsd: "9", occurredAt: "2026-10-03T00:00:00Z" };
    expect(await book.store({ ...record, observedAt: "2026-10-04T18:00:00Z" })).toEqual({ outcome: "stale" });
    expect(await book.store(record)).toEqual({ outcome: "corrected" });
    expect((await book.list()).totals.amountUsd).toBe("109");
  });

  test("if two rows differ only in the case of the provider's name and the lower-case row was observed last, that row counts and can be corrected", async ({
    db,
  }) => {
    const book = await createBook(db);
    await oldRow(db, book);
    await oldRow(db, book, { provider: "openai", observed_at: "2026-10-05T00:00:00Z", amount_usd: "8" });
    expect((await book.list()).totals.amountUsd).toBe("8");
    const record = { externalRunId: "run-1", amountUsd: "9", occurredAt: "2026-10-03T00:00:00Z" };
    expect(await book.store(record)).toEqual({ outcome: "corrected" });
    expect((await book.list()).totals.amountUsd).toBe("9");
  });

  test("a cost row is superseded by a clashing row observed later, even if the later row is outside the listed range", async ({
    db,
  }) => {
    const book = await createBook(db);
    const day = { external_run_id: "day-1", granularity: "account_day" };
    await oldRow(db, book, day);
    await oldRow(db, book, {
      ...day,
      provider: "openai",
      occurred_at: "2026-11-01T00:00:00Z",
      observed_at: "2026-11-02T00:00:00Z",
    });
    await book.store({ externalRunId: "run-2", amountUsd: "2", occurredAt: "2026-10-03T05:00:00Z" });
    // The earlier `day-1` row is superseded, so it does not replace `run-2`.
    expect((await book.list()).totals).toMatchObject({ amountUsd: "2", replacedUsd: "5" });
    expect(
      (await book.list()).records.map(({ amountUsd, replacedBy }: Record<string, unknown>) => [amountUsd, replacedBy]),
    ).toEqual([
      ["2", null],
      ["5", "day-1"],
    ]);
  });

  test("costs of different apps, workspaces or accounts don't clash, even if their provider names differ only in letter case", async ({
    db,
  }) => {
    const [book, other] = [await createBook(db), await createBook(db)];
    await oldRow(db, book);
    await oldRow(db, book, { provider: "openai", account_id: null });
    await oldRow(db, book, { provider: "openai", account_id: "acct-2" });
    await oldRow(db, book, { provider: "openai", app_id: other.appId });
    await oldRow(db, other, { provider: "openai" });
    expect(await clashes(db, book)).toEqual([]);
    expect((await book.list()).totals.amountUsd).toBe("20");
  });

  test("rows without an account also clash if their provider names differ only in letter case", async ({ db }) => {
    const book = await createBook(db);
    await oldRow(db, book, { account_id: null });
    await oldRow(db, book, {
      account_id: null,
      provider: "openai",
      observed_at: "2026-10-04T00:00:01Z",
      amount_usd: "4",
    });
    expect((await book.list()).totals.amountUsd).toBe("4");
    expect(await clashes(db, book)).toMatchObject([{ account_id: null }]);
  });
});

const pool = openPool(25);
afterAll(pool.close);
/** Keeps the connection's own role, which has all rights of the service role. */
const shared: Database = { ...pool.db, asRole: (_, work) => work() };

describe("concurrent imports", () => {
  pooled("of one file are stored once: the others learn that the book changed", async () => {
    const [book, platform] = [await createBook(shared), await createPlatformBook(shared)];
    const accounts = [crypto.randomUUID(), crypto.randomUUID(), crypto.randomUUID()];
    const document = documentOf(accounts.map((account) => usd("2026-10-01", "1", account)));
    try {
      for (const { preview, importFile } of [book, platform]) {
        const { state } = await preview(document);
        const answers = await Promise.all(Array.from({ length: 20 }, () => importFile(document, state)));
        const outcomes = answers.map(({ outcome }) => outcome);
        expect(outcomes.filter((outcome) => outcome === "imported")).toHaveLength(1);
        expect(outcomes.filter((outcome) => outcome === "changed")).toHaveLength(19);
        expect(await preview(document)).toMatchObject({ unchanged: { days: 3 }, corrected: { days: 0 } });
      }
    } finally {
      await shared.query("delete from ai.external_provider_costs where account_id = any ($1)", [accounts]);
      await shared.query("delete from private.infrastructure_admins where user_id = $1", [platform.id]);
    }
  });

  pooled("of two files and of the API end in one of them for each day, and never in part of a file", async () => {
    const book = await createBook(shared);
    const days = Array.from({ length: 20 }, (_, n) => `2026-10-${String(n + 1).padStart(2, "0")}`);
    const of = (amount: string) => documentOf(days.map((day) => usd(day, amount)));
    const reversed = documentOf(days.toReversed().map((day) => usd(day, "2")));
    const fromApi = (day: string, n: number) =>
      book.store({
        externalRunId: `openai-costs:acct-1:${day}`,
        granularity: "account_day",
        occurredAt: `${day}T00:00:00Z`,
        observedAt: `2026-11-01T00:00:00.${String(n).padStart(3, "0")}Z`,
        amountUsd: "3",
      });
    for (let round = 0; round < 5; round++) {
      const answers = await Promise.all([
        ...Array.from({ length: 4 }, () => book.importFile(of("1"))),
        ...Array.from({ length: 4 }, () => book.importFile(reversed)),
        ...days.map((day) => fromApi(day, round)),
      ]);
      expect(answers.map(({ outcome, refused }) => outcome ?? refused)).toEqual(
        answers.map(() => expect.stringMatching(/^(imported|changed|stored|corrected|stale|unchanged)$/)),
      );
    }
    const [{ amounts, imports } = { amounts: [], imports: 0 }] = await shared.query<{
      amounts: string[];
      imports: number;
    }>(
      `select array_agg(distinct trim_scale(amount_usd)::text) as amounts, count(distinct import_id)::int as imports
       from ai.external_provider_costs where workspace_id = $1`,
      [book.workspaceId],
    );
    // Every amount comes from the last imported file, because the API's costs were observed before the imports.
    expect([amounts.length, imports]).toEqual([1, 1]);
  });

  pooled("of an older row in another case leave one row", async () => {
    const book = await createBook(shared);
    await oldRow(shared, book);
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        book.store({
          externalRunId: "run-1",
          amountUsd: String(n),
          occurredAt: "2026-10-03T00:00:00Z",
          observedAt: `2026-10-05T00:00:00.${String(n).padStart(3, "0")}Z`,
        }),
      ),
    );
    expect(answers.every(({ outcome }) => outcome === "corrected" || outcome === "stale")).toBe(true);
    expect(await rows(shared, book)).toMatchObject([{ provider: "OpenAI", usd: "19" }]);
  });
});

test("importing a cost file stores nothing if the costs that it replaces changed after the preview", async ({ db }) => {
  const changes: [string, (book: Book) => Promise<unknown>][] = [
    ["its day", (book) => book.importPreviewed(documentOf([usd("2026-10-03", "2")]))],
    [
      "a run that it replaces",
      (book) => book.store({ externalRunId: "r", amountUsd: "1", occurredAt: "2026-10-03T04:00:00Z" }),
    ],
    [
      "a service that it replaces",
      (book) =>
        book.store({
          externalRunId: "s",
          amountUsd: "1",
          occurredAt: "2026-10-03T00:00:00Z",
          granularity: "account_day",
          service: "tokens",
        }),
    ],
  ];
  for (const [, change] of changes) {
    const book = await createBook(db);
    const document = documentOf([usd("2026-10-03", "1"), usd("2026-10-04", "1")]);
    const { state } = await book.preview(document);
    await change(book);
    const before = await rows(db, book);
    expect(await book.importFile(document, state)).toEqual({ outcome: "changed" });
    expect(await rows(db, book)).toEqual(before);
    expect(await book.importPreviewed(document)).toMatchObject({ outcome: "imported" });
  }
  // Refuses an import whose state is from a preview of another file or with other rates.
  const book = await createBook(db);
  const { state } = await book.preview(documentOf([usd("2026-10-03", "1")]));
  expect(await book.importFile(documentOf([usd("2026-10-03", "2")]), state)).toEqual({ outcome: "changed" });
  const rates = { EUR: "1.1" };
  expect(await book.importFile(documentOf([usd("2026-10-03", "1")], { rates }), state)).toEqual({ outcome: "changed" });
});

test("importing a cost file changes only records of the file's own days, account, provider and app", async ({ db }) => {
  const book = await createBook(db);
  const at = { occurredAt: "2026-10-03T05:00:00Z", amountUsd: "1" };
  await book.store({ ...at, externalRunId: "a", accountId: "acct-2" });
  await book.store({ ...at, externalRunId: "b", provider: "anthropic" });
  await book.store({ ...at, externalRunId: "c", accountId: undefined });
  await book.store({ ...at, externalRunId: "d", occurredAt: "2026-10-04T00:00:00Z" });
  await oldRow(db, book, { app_id: crypto.randomUUID() });
  const document = documentOf([usd("2026-10-03", "50")]);
  expect(await book.preview(document)).toMatchObject({ replaced: { records: 0, amountUsd: "0" } });
  await book.importPreviewed(document);
  expect((await book.list()).totals).toMatchObject({ amountUsd: "59", replacedRecords: 0 });
});
