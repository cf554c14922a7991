import { createHash, randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { platformBookId } from "../../../remix-app/studio/costs/platform-book.ts";
import { add, parseDecimal } from "../../functions/_shared/decimal.ts";
import { type Database, one, test } from "../database.ts";
import { createTenant } from "../gateway/fixtures.ts";
import { openPool } from "../pools.ts";
import { asOperator } from "./cost-file-fixtures.ts";
import { addRun, dayOf, platformBook } from "./platform-book-fixtures.ts";

// biome-ignore lint/suspicious/noExplicitAny: answers of several functions, compared in tests
type Answer = any;

const month = "2012-03";
const day = (number: number) => dayOf(month, number);
const newProvider = () => `p-${randomUUID().slice(0, 8)}`;
const change = { reason: "test", requestId: "request-1", ip: "192.0.2.1" };
const exceptionOf = (provider: string, reason = "known") => ({
  ...{ provider, kind: "invoice_missing", meteredUsd: "1", importedUsd: "1", invoicedUsd: "0", amountUsd: "1" },
  reason,
});

/** Returns a book of the platform with helpers that close months, as the console does. */
async function closingBook(db: Database) {
  const book = await platformBook(db, { provider: newProvider(), month });
  const checklist = (): Promise<Answer> => book.call("read_close_checklist", [month]);
  return {
    ...book,
    checklist,
    async close(exceptions: object[] = []): Promise<Answer> {
      const { state } = await checklist();
      return book.call("close_month", [month, state, JSON.stringify(exceptions), change]);
    },
    read: (id: string, withRecords = false): Promise<Answer> => book.call("read_statement", [id, withRecords]),
    reopen: (id: string, reason = "The invoice was wrong"): Promise<Answer> =>
      book.call("reopen_month", [id, { ...change, reason }]),
    dayFile: (amount: string, days = [day(2)]) => ({
      provider: book.provider,
      format: "test",
      fileName: "costs.csv",
      sha256: "0".repeat(64),
      timeZone: "UTC",
      days: days.map((each) => ({ accountId: "acct-1", day: each, amounts: [{ currency: "USD", amount }] })),
    }),
  };
}

describe("the checklist of a month", () => {
  test("has the figures of the reconciliation", async ({ db }) => {
    const book = await closingBook(db);
    const { workspaceId } = await createTenant(db);
    const { provider } = book;
    await addRun(db, { workspaceId, day: day(2), costUsd: "10", billedBy: provider });
    await addRun(db, { workspaceId, day: day(3), costUsd: "0.000000000001", billedBy: provider, account: "acct-2" });
    await book.cost(day(2), "5");
    await book.record({ reference: "INV-1", amountUsd: "12" });
    const line = await book.line();
    const { figures } = await book.checklist();
    const own = figures.filter((each: Answer) => each.provider === provider);
    expect(own.map(({ accountId }: Answer) => accountId)).toEqual([null, "acct-1", "acct-2"]);
    for (const name of ["meteredUsd", "importedUsd", "invoicedUsd"]) {
      const amounts: string[] = own.map((each: Answer) => each[name]);
      expect(amounts.map(parseDecimal).reduce(add)).toEqual(parseDecimal(line[name]));
    }
  });

  test("a month that has not ended can't be closed", async ({ db }) => {
    const book = await platformBook(db, { provider: newProvider(), month });
    const current = new Date().toISOString().slice(0, 7);
    expect(await book.call("read_close_checklist", [current])).toEqual({ outcome: "not_ended" });
    expect(await book.call("close_month", [current, "", "[]", change])).toEqual({ outcome: "not_ended" });
  });

  test("only those who may use the platform's book close its months, and workspaces' books have none", async ({
    db,
  }) => {
    const book = await closingBook(db);
    const { workspaceId, ownerId } = await createTenant(db);
    const sql = "select ai.read_close_checklist($1, $2, $3) as answer";
    for (const values of [
      [ownerId, platformBookId, month],
      [ownerId, workspaceId, month],
      [book.adminId, workspaceId, month],
    ]) {
      expect(await one(db, { sql, values })).toEqual({ answer: { outcome: "not_allowed" } });
    }
  });
});

test("closing needs a reason for each exception, and stores figures, exceptions and a verifiable hash", async ({
  db,
}) => {
  const book = await closingBook(db);
  const { workspaceId } = await createTenant(db);
  await addRun(db, { workspaceId, day: day(2), costUsd: "8.5", billedBy: book.provider, account: "acct-1" });
  await book.cost(day(2), "9.25");
  await book.record({ reference: "INV ü", accountId: "acct-1", amountUsd: "31", periodEnd: day(31) });
  const { reason: _, ...unexplained } = exceptionOf(book.provider);
  for (const fault of [unexplained, exceptionOf(book.provider, ""), exceptionOf(book.provider, "x".repeat(501))]) {
    expect(await book.close([exceptionOf("other"), fault])).toEqual({ outcome: "reasons_missing" });
  }
  const many = Array.from({ length: 1_000 }, (_, n) => exceptionOf(`provider-${n}`, "x".repeat(500)));
  const closed = await book.close([exceptionOf(book.provider), ...many]);
  expect(closed).toEqual({ outcome: "closed", id: expect.any(String) });
  const { statement, figures, exceptions, records } = await book.read(closed.id, true);
  expect(statement).toMatchObject({ month, version: 1, closedBy: book.email, reopened: null });
  expect(figures).toContainEqual({
    provider: book.provider,
    accountId: "acct-1",
    meteredUsd: "8.5",
    importedUsd: "9.25",
    invoicedUsd: "31",
    runs: 1,
    importedRecords: 1,
    invoices: 1,
  });
  expect(exceptions).toEqual([exceptionOf(book.provider), ...many]);
  const lines: string[] = records.split("\n").slice(0, -1);
  expect(lines.map((line) => Buffer.from(line))).toEqual(lines.map((line) => Buffer.from(line)).sort(Buffer.compare));
  expect(lines).toContain(["metered", day(2), day(2), book.provider, "acct-1", "", "", "1", "8.5"].join("\t"));
  expect(lines).toContain(["invoice", day(1), day(31), book.provider, "acct-1", "INV ü", "", "", "31"].join("\t"));
  expect(createHash("sha256").update(records).digest("hex")).toBe(statement.sha256);
  expect(await book.close([])).toEqual({ outcome: "already_closed", id: closed.id });
  const actions = await db.query("select action, reason from private.admin_audit_log where target = $1", [
    `platform month ${month}`,
  ]);
  expect(actions).toEqual([{ action: "books.close_month", reason: "test" }]);
});

test("figures that changed since the checklist was shown are not closed", async ({ db }) => {
  const book = await closingBook(db);
  const { state } = await book.checklist();
  await book.cost(day(2), "1");
  expect(await book.call("close_month", [month, state, "[]", change])).toEqual({ outcome: "changed" });
});

test("a closed month refuses a person's changes until it is reopened, and is then closed again", async ({ db }) => {
  const book = await closingBook(db);
  expect(await book.record({ reference: "INV-1", amountUsd: "5" })).toMatchObject({ outcome: "stored" });
  const first = await book.close();
  const refusal = { months: [month] };
  const draft = { amountUsd: "4", issuedOn: "2012-04-02", periodStart: day(31), periodEnd: "2012-04-30" };
  // An invoice of the next month that begins in the closed one.
  expect(await book.review({ ...draft, reference: "INV-2" })).toEqual({ outcome: "month_closed", ...refusal });
  const reviewedAt = "2012-05-01T00:00:00Z";
  expect(await book.record({ ...draft, reviewedAt, reference: "INV-2" })).toEqual({
    refused: "month_closed",
    ...refusal,
  });
  // A correction outside of the closed month takes the replaced invoice out of it.
  const moved = {
    reference: "INV-3",
    replaces: "INV-1",
    periodStart: "2012-04-01",
    periodEnd: "2012-04-30",
    reviewedAt,
  };
  expect(await book.record(moved)).toEqual({ refused: "month_closed", ...refusal });
  // An invoice that is already recorded leads to its receipt.
  expect(await book.record({ reference: "INV-1", amountUsd: "5" })).toMatchObject({ outcome: "unchanged" });
  expect(
    await book.record({ reference: "INV-4", periodStart: "2012-04-01", periodEnd: "2012-04-30", reviewedAt }),
  ).toMatchObject({ outcome: "stored" });

  const file = book.dayFile("3", [day(2), "2012-04-01"]);
  const preview = await book.call("preview_cost_import", [platformBookId, file]);
  expect(preview).toMatchObject({ outcome: "previewed", closedMonths: [month] });
  const importFile = (state: string): Promise<Answer> =>
    book.call("import_cost_file", [platformBookId, file, state, change]);
  expect(await importFile(preview.state)).toEqual({ outcome: "month_closed", ...refusal });

  expect(await book.reopen(first.id)).toEqual({ outcome: "reopened", month });
  expect(await book.reopen(first.id)).toEqual({ outcome: "not_closed" });
  expect(await book.reopen(randomUUID())).toEqual({ outcome: "not_found" });
  expect(await importFile(preview.state)).toMatchObject({ outcome: "imported", added: 2 });
  const second = await book.close();
  expect((await book.read(second.id)).statement).toMatchObject({ version: 2, reopened: null });
  expect((await book.read(first.id)).statement).toMatchObject({
    version: 1,
    reopened: { by: book.email, reason: "The invoice was wrong" },
  });
  const listed = await book.call("list_statements", [month, null, 100]);
  expect(listed.isClosed).toBe(true);
  const versions = listed.records.filter((each: Answer) => each.month === month).map(({ version }: Answer) => version);
  expect(versions).toEqual([2, 1]);
  const last = await book.call("list_statements", ["2012-04", `{${month},2}`, 1]);
  expect(last).toMatchObject({ isClosed: false, records: [{ month, version: 1 }] });
  // The closed days of the file did not change, so it can be imported again.
  expect(await book.call("preview_cost_import", [platformBookId, file])).toMatchObject({ closedMonths: [] });
});

test("what settles late or is imported automatically is stored and shown after the close", async ({ db }) => {
  const book = await closingBook(db);
  const { workspaceId } = await createTenant(db);
  await addRun(db, { workspaceId, day: day(2), costUsd: "8", billedBy: book.provider, account: "acct-1" });
  const closed = await book.close();
  const before = await book.read(closed.id);
  expect(before.after).toEqual({ sha256: before.statement.sha256, differences: [] });
  await addRun(db, { workspaceId, day: day(31), costUsd: "0.5", billedBy: book.provider, account: "acct-1" });
  const file = book.dayFile("9");
  // The operator's command acts for a person. The provider's report does not.
  const { state } = await asOperator(db, "preview_costs", [null, null, file]);
  expect(await asOperator(db, "import_costs", [null, null, file, state])).toEqual({
    outcome: "month_closed",
    months: [month],
  });
  const { answer } = await one<{ answer: Answer }>(db, {
    sql: "select ai.store_cost_file($1, $1, $2, null, $3) as answer",
    values: [platformBookId, JSON.stringify(file), { action: "costs.import_automatically", reason: "test" }],
  });
  expect(answer).toMatchObject({ outcome: "imported", added: 1 });
  const { statement, figures, after } = await book.read(closed.id);
  expect({ statement, figures }).toEqual({ statement: before.statement, figures: before.figures });
  expect(after.sha256).not.toBe(statement.sha256);
  expect(after.differences).toEqual([
    {
      provider: book.provider,
      accountId: "acct-1",
      meteredUsd: "0.5",
      importedUsd: "9",
      invoicedUsd: "0",
      runs: 1,
      importedRecords: 1,
      invoices: 0,
    },
  ]);
});

test.for([
  "update ai.book_statements set figures = '[]' where id = $1",
  "update ai.book_statements set sha256 = sha256('x'), reopened_at = now(), reopened_by = closed_by, reopen_reason = 'x' where id = $1",
  "delete from ai.book_statements where id = $1",
  "truncate ai.book_statements",
])("a statement can't be changed: %s", async (sql, { db }) => {
  const book = await closingBook(db);
  const { id } = await book.close();
  await db.query("savepoint attempt");
  await expect(db.query(sql, sql.includes("$1") ? [id] : [])).rejects.toThrow("a statement is immutable");
  await db.query("rollback to savepoint attempt");
});

test.for([
  ["an invoice recorded", "record_provider_invoice"],
  ["an operator's file imported", "import_costs_as_operator"],
] as const)(
  "one of ten concurrent closes creates the statement, and none stores figures without %s meanwhile",
  async ([, name]) => {
    const { db, close } = openPool(20);
    try {
      const book = await concurrentBook(db);
      const { state } = await book.call("read_close_checklist", [book.month]);
      const provider = newProvider();
      const invoice = { provider, reference: "A", amountUsd: "1", reviewedAt: "2020-01-01T00:00:00Z" };
      const file = {
        ...{ provider, format: "test", fileName: "costs.csv", sha256: "0".repeat(64), timeZone: "UTC" },
        days: [{ accountId: "a", day: `${book.month}-02`, amounts: [{ currency: "USD", amount: "1" }] }],
      };
      const importAsOperator = async () => {
        const sql = "select private.import_costs_as_operator(null, null, $1) as answer";
        const [row] = await db.query<{ answer: Answer }>(sql, [JSON.stringify(file)]);
        return row?.answer;
      };
      const record = JSON.stringify({ ...invoice, issuedOn: `${book.month}-28` });
      const [changed, ...closes] = await Promise.all([
        name === "record_provider_invoice" ? book.call(name, [platformBookId, record, change]) : importAsOperator(),
        ...Array.from({ length: 10 }, () => book.call("close_month", [book.month, state, "[]", change])),
      ]);
      const closed = closes.filter(({ outcome }: Answer) => outcome === "closed");
      // Either the record was stored first, and nothing was closed, or the month was closed, and the record refused.
      if (changed.outcome === "stored" || changed.outcome === "imported") {
        expect(closes).toEqual(closes.map(() => ({ outcome: "changed" })));
      } else {
        expect(changed.refused ?? changed.outcome).toBe("month_closed");
        expect(changed.months).toEqual([book.month]);
        expect(closed).toHaveLength(1);
        const others = closes.filter((each) => each !== closed[0]);
        expect(others).toEqual(others.map(() => ({ outcome: "already_closed", id: closed[0].id })));
      }
      const again = await book.call("read_close_checklist", [book.month]);
      if (again.outcome !== "listed") return;
      const last = await Promise.all(
        Array.from({ length: 10 }, () => book.call("close_month", [book.month, again.state, "[]", change])),
      );
      expect(last.filter(({ outcome }: Answer) => outcome === "closed")).toHaveLength(1);
      expect(last.filter(({ outcome }: Answer) => outcome === "already_closed")).toHaveLength(9);
    } finally {
      await close();
    }
  },
);

/** Returns an admin who closes a month that no other test uses, on a pool. Statements can't be deleted. */
async function concurrentBook(db: Database) {
  const [free] = await db.query<{ month: string }>(
    `select to_char(m, 'YYYY-MM') as month from generate_series('2002-01-01'::timestamp, '2009-12-01', '1 month') m
     where not exists (select from ai.book_statements s where s.month = m) order by random() limit 1`,
  );
  const id = randomUUID();
  await db.query("insert into auth.users (id, aud, role, email) values ($1, 'authenticated', 'authenticated', $2)", [
    id,
    `${id}@example.test`,
  ]);
  await db.query("insert into private.infrastructure_admins (user_id, reason) values ($1, 'test')", [id]);
  const call = async (name: string, values: unknown[]): Promise<Answer> => {
    const all = [id, platformBookId, ...values];
    const [row] = await db.query(`select ai.${name}(${all.map((_, at) => `$${at + 1}`).join(", ")}) as answer`, all);
    return row?.answer;
  };
  return { month: free?.month ?? "", call };
}
