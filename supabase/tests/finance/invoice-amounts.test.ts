import { createHash, randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { platformBookId } from "../../../remix-app/studio/costs/platform-book.ts";
import { convertNetAmount } from "../../functions/_shared/provider-records.ts";
import { createUser, type Database, join, test } from "../database.ts";
import { bindKey } from "../gateway/call-fixtures.ts";
import { createTenant } from "../gateway/fixtures.ts";
import { openPool } from "../pools.ts";

async function createPlace(db: Database) {
  const tenant = await createTenant(db);
  const app = await bindKey(db, tenant);
  return { ...tenant, appId: app.id };
}
type Place = Awaited<ReturnType<typeof createPlace>>;

const invoice = {
  provider: "mistral",
  reference: "INV-1",
  issuedOn: "2026-02-03",
  reviewedAt: "2026-02-04T00:00:00Z",
  periodStart: "2026-01-01",
  periodEnd: "2026-01-31",
  amountUsd: "1080",
  currency: "EUR",
  exchangeRate: "1.08",
  netAmount: "1000",
  taxAmount: "190",
  totalAmount: "1190",
};
type Changes = Partial<Record<keyof typeof invoice | "kind" | "replaces", string | undefined>>;

async function call(db: Database, name: string, values: unknown[]) {
  const sql = `select ai.${name}(${values.map((_, n) => `$${n + 1}`).join(", ")}) as answer`;
  const [row] = await db.query(sql, values);
  return row?.answer;
}
const record = (db: Database, { ownerId, workspaceId, appId }: Place, changes: Changes = {}) =>
  call(db, "record_provider_invoice", [ownerId, workspaceId, appId, JSON.stringify({ ...invoice, ...changes })]);
const list = (db: Database, { ownerId, workspaceId }: Place, filter: object = {}) =>
  call(db, "list_provider_invoices", [ownerId, workspaceId, null, 50, JSON.stringify(filter)]);
const netOnly = {
  currency: undefined,
  exchangeRate: undefined,
  netAmount: undefined,
  taxAmount: undefined,
  totalAmount: undefined,
};

describe("an invoice in its currency", () => {
  test("an invoice in another currency is stored, listed and repeated with both amounts, and another currency conflicts", async ({
    db,
  }) => {
    const place = await createPlace(db);
    const stored = await record(db, place);
    expect(stored).toMatchObject({ outcome: "stored" });
    expect(await record(db, place, { netAmount: "1000.00", totalAmount: "1190.0" })).toEqual({
      ...stored,
      outcome: "unchanged",
    });
    const { totals, records } = await list(db, place, { month: "2026-01" });
    const amounts = { currency: "EUR", exchangeRate: "1.08", netAmount: "1000", taxAmount: "190", totalAmount: "1190" };
    expect(records).toMatchObject([{ amountUsd: "1080", ...amounts, document: null }]);
    expect(records[0].inMonth).toMatchObject({ amountUsd: "1080", netAmount: "1000", taxAmount: "190" });
    expect(totals.amountUsd).toBe("1080");
    for (const [changes, differs] of [
      [{ currency: "GBP" }, ["currency"]],
      [{ taxAmount: "200", totalAmount: "1200" }, ["taxAmount", "totalAmount"]],
      [{ amountUsd: "1090", exchangeRate: "1.09" }, ["amountUsd", "exchangeRate"]],
      [netOnly, ["amountUsd"]],
    ] as const) {
      expect(await record(db, place, changes)).toMatchObject({ refused: "invoice_conflict", id: stored.id, differs });
    }
  });

  test("an invoice that states only USD is stored as before, without a currency", async ({ db }) => {
    const place = await createPlace(db);
    const stored = await record(db, place, netOnly);
    expect(await record(db, place, { ...netOnly, currency: "USD" })).toEqual({ ...stored, outcome: "unchanged" });
    const { records } = await list(db, place, { month: "2026-01" });
    expect(records).toMatchObject([{ amountUsd: "1080", currency: null, exchangeRate: null, totalAmount: null }]);
    expect(records[0].inMonth).toMatchObject({ amountUsd: "1080", netAmount: null, taxAmount: null });
  });

  test("a credit note in another currency replaces one, and its shares are negative and add up", async ({ db }) => {
    const place = await createPlace(db);
    const quarter = { kind: "credit_note", periodStart: "2025-11-01", periodEnd: "2026-01-31" };
    await record(db, place, quarter);
    await record(db, place, {
      ...quarter,
      reference: "INV-2",
      replaces: "INV-1",
      netAmount: "100.01",
      taxAmount: "0.09",
      totalAmount: "100.1",
      amountUsd: "108.0108",
    });
    const shares: Record<string, string>[] = [];
    for (const month of ["2025-11", "2025-12", "2026-01"]) {
      const { records } = await list(db, place, { month });
      shares.push(records.find(({ reference }: { reference: string }) => reference === "INV-2").inMonth);
    }
    for (const [name, total] of [
      ["netAmount", "-100.01"],
      ["taxAmount", "-0.09"],
      ["amountUsd", "-108.0108"],
    ] as const) {
      const [sum] = await db.query("select trim_scale(sum(s::numeric))::text as total from unnest($1::text[]) s", [
        shares.map((share) => share[name]),
      ]);
      expect([name, sum?.total]).toEqual([name, total]);
    }
  });
});

/** Rounds the product of two decimals with 12 decimals each half to even, by integers of 10⁻¹². */
function roundedProduct(net: bigint, rate: bigint): bigint {
  const unit = 10n ** 12n;
  const [quotient, rest] = [(net * rate) / unit, (net * rate) % unit];
  const isUp = rest * 2n > unit || (rest * 2n === unit && quotient % 2n === 1n);
  return isUp ? quotient + 1n : quotient;
}
const units = (decimal: string) => {
  const [whole = "0", fraction = ""] = decimal.split(".");
  return BigInt(whole + fraction.padEnd(12, "0"));
};
const decimalOf = (value: bigint) => {
  const digits = value.toString().padStart(13, "0");
  return `${digits.slice(0, -12)}.${digits.slice(-12)}`;
};

/** Amounts and rates, with ties below and above an even digit and the extremes of both. */
const conversions = [
  ["1000", "1.08"],
  ["0.000000000001", "0.5"],
  ["0.000000000003", "0.5"],
  ["0.000000000005", "0.5"],
  ["0.000000000001", "0.500000000001"],
  ["0.000000000001", "0.499999999999"],
  ["999999999999.999999999999", "0.999999999999"],
  ["123456789012.123456789012", "1.000000000001"],
  ["123.45", "0.006789012345"],
  ["0", "999999999999.999999999999"],
  ["33.333333333333", "0.333333333333"],
] as const;

test.for(conversions)(
  "the net amount %s at the rate %s is stored only with the USD amount that integer arithmetic gives",
  async ([netAmount, exchangeRate], { db }) => {
    const expected = roundedProduct(units(netAmount), units(exchangeRate));
    expect(units(convertNetAmount({ netAmount, exchangeRate }))).toBe(expected);
    const place = await createPlace(db);
    const amounts = { currency: "CHF", exchangeRate, netAmount, taxAmount: "0", totalAmount: netAmount };
    for (const wrong of [expected - 1n, expected + 1n].filter((value) => value >= 0n)) {
      await db.query("savepoint wrong");
      await expect(record(db, place, { ...amounts, amountUsd: decimalOf(wrong) })).rejects.toThrow("rounding_check");
      await db.query("rollback to savepoint wrong");
    }
    expect(await record(db, place, { ...amounts, amountUsd: decimalOf(expected) })).toMatchObject({
      outcome: "stored",
    });
  },
);

test.for([
  ["a total that is not the sum", { totalAmount: "1190.000000000001" }, "total_check"],
  ["a rate of 0", { exchangeRate: "0", amountUsd: "0" }, "currency_check"],
  ["a rate of USD", { currency: "USD" }, "currency_check"],
  ["a currency in lower case", { currency: "eur" }, "currency_check"],
  ["a net amount without tax", { taxAmount: undefined }, "currency_check"],
] as const)("an invoice with %s cannot be stored", async ([, changes, constraint], { db }) => {
  await expect(record(db, await createPlace(db), changes)).rejects.toThrow(constraint);
});

test("the rate of the latest import of the provider's period is found, with the person who entered it", async ({
  db,
}) => {
  const place = await createPlace(db);
  const importFile = (changes: { day: string; rate: string; provider?: string }) =>
    call(db, "store_cost_file", [
      place.workspaceId,
      place.appId,
      JSON.stringify({
        provider: changes.provider ?? "mistral",
        format: "focus",
        fileName: `${changes.day}.csv`,
        sha256: "0".repeat(64),
        timeZone: "UTC",
        rates: { EUR: changes.rate },
        days: [{ accountId: "a", day: changes.day, amounts: [{ currency: "EUR", amount: "1" }] }],
      }),
      null,
      JSON.stringify({ actor: place.ownerId }),
    ]);
  const find = (changes: object = {}) =>
    call(db, "find_import_rate", [
      place.ownerId,
      place.workspaceId,
      place.appId,
      JSON.stringify({ provider: "Mistral", currency: "EUR", issuedOn: "2026-02-03", ...changes }),
    ]);
  await importFile({ day: "2026-01-31", rate: "1.07" });
  await importFile({ day: "2026-02-28", rate: "1.09" });
  await importFile({ day: "2026-02-27", rate: "1.11", provider: "other" });
  expect(await find()).toMatchObject({
    outcome: "found",
    rate: "1.09",
    import: { file: "2026-02-28.csv", by: "person", rates: { EUR: "1.09" } },
  });
  expect(await find({ periodEnd: "2026-01-31" })).toMatchObject({ rate: "1.07" });
  expect(await find({ periodEnd: "2026-01-30" })).toEqual({ outcome: "none" });
  expect(await find({ currency: "GBP" })).toEqual({ outcome: "none" });
  const { id: stranger } = await createUser(db);
  expect(await call(db, "find_import_rate", [stranger, place.workspaceId, place.appId, "{}"])).toEqual({
    outcome: "not_allowed",
  });
});

describe("an invoice's document", () => {
  const pdf = Buffer.from("%PDF-1.7\n%%EOF");
  const attach = (db: Database, place: Place, { id, bytes = pdf }: { id: string; bytes?: Buffer }) =>
    call(db, "attach_invoice_document", [place.ownerId, place.workspaceId, id, "bill.pdf", bytes.toString("base64")]);

  test("a document is attached once, logged, read by members only, and never changed", async ({ db }) => {
    const place = await createPlace(db);
    const { id } = await record(db, place);
    expect(await attach(db, place, { id })).toEqual({ outcome: "attached" });
    expect(await attach(db, place, { id })).toEqual({ outcome: "unchanged" });
    expect(await attach(db, place, { id, bytes: Buffer.from("%PDF-2.0") })).toEqual({ outcome: "has_document" });
    const summary = {
      fileName: "bill.pdf",
      sizeBytes: pdf.length,
      sha256: createHash("sha256").update(pdf).digest("hex"),
      attachedAt: expect.any(String),
    };
    const read = await call(db, "read_provider_invoice", [place.ownerId, place.workspaceId, id]);
    expect(read).toMatchObject({ invoice: { document: summary }, attachedBy: expect.any(String) });
    const { attachedAt: _, ...logged } = summary;
    expect(
      await db.query(
        "select actor_id, subject_id, details from public.workspace_audit_log where action = $1 and workspace_id = $2",
        ["provider_invoice.document_attached", place.workspaceId],
      ),
    ).toEqual([{ actor_id: place.ownerId, subject_id: id, details: logged }]);
    const content = await call(db, "read_invoice_document", [place.ownerId, place.workspaceId, id]);
    expect(Buffer.from(content.content, "base64")).toEqual(pdf);

    const other = await createPlace(db);
    const [{ id: viewer }, { id: stranger }] = [await createUser(db), await createUser(db)];
    await join(db, { workspaceId: place.workspaceId, userId: viewer, role: "viewer" });
    for (const [reader, workspaceId, outcome] of [
      [other.ownerId, other.workspaceId, "not_found"],
      [other.ownerId, place.workspaceId, "not_allowed"],
      [viewer, place.workspaceId, "not_allowed"],
      [stranger, place.workspaceId, "not_allowed"],
    ]) {
      expect(await call(db, "read_invoice_document", [reader, workspaceId, id])).toEqual({ outcome });
      expect(
        await call(db, "attach_invoice_document", [reader, workspaceId, id, "x.pdf", pdf.toString("base64")]),
      ).toEqual({ outcome });
    }
    for (const change of ["update ai.invoice_documents set file_name = 'x.pdf'", "delete from ai.invoice_documents"]) {
      await db.query("savepoint change");
      await expect(db.query(change)).rejects.toThrow("immutable");
      await db.query("rollback to savepoint change");
    }
  });

  test.for([
    ["of 5 MiB is stored", 5 * 1024 * 1024, true],
    ["of one byte more is refused by the table", 5 * 1024 * 1024 + 1, false],
  ] as const)("a document %s", async ([, size, fits], { db }) => {
    const place = await createPlace(db);
    const { id } = await record(db, place);
    const attached = attach(db, place, { id, bytes: Buffer.concat([pdf, Buffer.alloc(size - pdf.length)]) });
    if (fits) expect(await attached).toEqual({ outcome: "attached" });
    else await expect(attached).rejects.toThrow("content_check");
  });

  test("the documents of a book have a maximum total size of 500 MiB, which a document may reach but not exceed", async ({
    db,
  }) => {
    const place = await createPlace(db);
    expect(await db.query("select ai.max_book_document_bytes()::integer as bytes")).toEqual([{ bytes: 524_288_000 }]);
    const invoices = [await record(db, place), await record(db, place, { reference: "INV-2" })];
    const [first, second] = invoices.map(({ id }) => id);
    await db.query(
      `create or replace function ai.max_book_document_bytes() returns bigint language sql immutable set search_path = ''
       as 'select ${2 * pdf.length}'`,
    );
    expect(await attach(db, place, { id: first })).toEqual({ outcome: "attached" });
    expect(await attach(db, place, { id: second, bytes: Buffer.concat([pdf, Buffer.alloc(1)]) })).toEqual({
      outcome: "storage_full",
      maxBytes: 2 * pdf.length,
    });
    expect(await attach(db, place, { id: second })).toEqual({ outcome: "attached" });
  });

  test("of eight different documents attached concurrently, one is stored", async () => {
    const { db, close } = openPool(8);
    try {
      const { id: admin } = await createUser(db);
      await db.query("insert into private.infrastructure_admins (user_id, reason) values ($1, 'test')", [admin]);
      const { id } = await call(db, "store_provider_invoice", [
        platformBookId,
        platformBookId,
        JSON.stringify({ ...invoice, reference: randomUUID() }),
      ]);
      const outcomes = await Promise.all(
        Array.from({ length: 8 }, async (_, n) => {
          const content = Buffer.from(`%PDF-1.${n}`).toString("base64");
          const change = JSON.stringify({ reason: "test" });
          const values = [admin, platformBookId, id, "bill.pdf", content, change];
          return (await call(db, "attach_invoice_document", values)).outcome;
        }),
      );
      expect(outcomes.sort()).toEqual(["attached", ...Array.from({ length: 7 }, () => "has_document")]);
    } finally {
      await close();
    }
  });
});
