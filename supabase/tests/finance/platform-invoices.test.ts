import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { platformBookId } from "../../../remix-app/studio/costs/platform-book.ts";
import { createUser, test } from "../database.ts";
import { createTenant } from "../gateway/fixtures.ts";
import { openPool } from "../pools.ts";
import { addRun, dayOf, platformBook } from "./platform-book-fixtures.ts";

const month = "2026-10";
const day = (number: number) => dayOf(month, number);
const newProvider = () => `p-${randomUUID().slice(0, 8)}`;

describe("invoices for the platform", () => {
  test("an invoice for the platform is reviewed, recorded, logged once in the audit log, and listed with the person who recorded it", async ({
    db,
  }) => {
    const provider = newProvider();
    const book = await platformBook(db, { provider, month });
    const { workspaceId } = await createTenant(db);
    await addRun(db, {
      workspaceId,
      day: day(2),
      costUsd: "8",
      billedBy: provider,
      account: "arn:aws:iam::1:role/a b",
    });
    const invoice = { accountId: "arn:aws:iam::1:role/a b", amountUsd: "10", periodStart: day(1), periodEnd: day(31) };
    const draft = { ...invoice, reference: "INV 2026/10", issuedOn: day(28), provider: provider.toUpperCase() };
    const reviewed = await book.review(draft);
    expect(reviewed).toMatchObject({
      outcome: "reviewed",
      kept: null,
      comparison: { meteredUsd: "8", importedUsd: "0", otherInvoices: 0, importedDifferenceUsd: "10" },
    });
    expect((await book.list()).records).toEqual([]);
    expect(await book.review({ ...draft, issuedOn: "2999-01-01" })).toEqual({ outcome: "not_issued_yet" });
    expect(await book.review({ ...draft, replaces: "nothing" })).toEqual({
      outcome: "cannot_replace",
      param: "replaces",
      message: "No recorded invoice or credit note of this provider and account has this reference.",
    });

    const stored = await book.record({ ...draft, reviewedAt: reviewed.reviewedAt });
    expect(stored).toEqual({ outcome: "stored", id: expect.any(String) });
    expect(await book.record({ ...draft, reviewedAt: reviewed.reviewedAt })).toEqual({
      ...stored,
      outcome: "unchanged",
    });
    expect(await book.record({ ...draft, amountUsd: "11", reviewedAt: reviewed.reviewedAt })).toEqual({
      refused: "invoice_conflict",
      id: stored.id,
      differs: ["amountUsd"],
    });
    expect(await book.call("read_provider_invoice", [stored.id])).toMatchObject({
      outcome: "read",
      invoice: { id: stored.id, provider, reference: "INV 2026/10", amountUsd: "10", kind: "invoice" },
      recorded: { by: "person", name: book.email },
      comparison: { otherInvoices: 0, importedDifferenceUsd: "10" },
    });
    expect(await book.call("read_provider_invoice", [randomUUID()])).toEqual({ outcome: "not_found" });
    expect(
      await db.query("select actor_id, action, reason, after from private.admin_audit_log where target = $1", [
        `platform invoice ${stored.id}`,
      ]),
    ).toEqual([
      {
        actor_id: book.adminId,
        action: "books.record_invoice",
        reason: "test",
        after: { ...draft, provider, reviewedAt: reviewed.reviewedAt },
      },
    ]);
  });

  test("only admins can record an invoice for the platform", async ({ db }) => {
    const book = await platformBook(db, { provider: newProvider(), month });
    await db.query("delete from private.infrastructure_admins where user_id = $1", [book.adminId]);
    expect(await book.record({ reference: "A" })).toEqual({ refused: "not_allowed" });
    expect(await book.list()).toEqual({ outcome: "not_allowed" });
  });

  test("each invoice for the platform can be replaced once, and only the last invoice in a chain of replacements counts", async ({
    db,
  }) => {
    const book = await platformBook(db, { provider: newProvider(), month });
    await book.record({ reference: "A", amountUsd: "100" });
    const second = await book.record({ reference: "B", amountUsd: "80", replaces: "A" });
    await book.record({ reference: "C", amountUsd: "90", replaces: "B" });
    expect(await book.record({ reference: "D", amountUsd: "70", replaces: "A" })).toMatchObject({
      refused: "invoice_conflict",
      id: second.id,
      param: "replaces",
    });
    expect(await book.record({ reference: "E", replaces: "nothing" })).toMatchObject({ param: "replaces" });
    expect(await book.record({ reference: "E", replaces: "A", kind: "credit_note" })).toMatchObject({ param: "kind" });
    expect((await book.list()).totals).toEqual({ amountUsd: "90", records: 3, replacedRecords: 2 });
    expect(await book.line()).toMatchObject({ invoicedUsd: "90", invoices: 1 });
  });

  test("only one of 20 concurrent entries of a platform invoice is stored, and only one of 20 concurrent replacements", async () => {
    const { db, close } = openPool(20);
    const { id: actor } = await createUser(db);
    try {
      await db.query("insert into private.infrastructure_admins (user_id, reason) values ($1, 'test')", [actor]);
      // Uses a separate provider and month, because invoices can't be deleted.
      const provider = newProvider();
      const dated = { provider, amountUsd: "1", issuedOn: "2020-01-31", reviewedAt: "2020-02-01T00:00:00Z" };
      const all = (recordOf: (caller: number) => object) =>
        Promise.all(
          Array.from({ length: 20 }, async (_, caller) => {
            const [row] = await db.query("select ai.record_provider_invoice($1, $2, $2, $3, $4) as answer", [
              actor,
              platformBookId,
              JSON.stringify({ ...dated, ...recordOf(caller) }),
              { reason: "test" },
            ]);
            return row?.answer;
          }),
        );
      const same = await all(() => ({ reference: "INV-1" }));
      const [first] = same.filter(({ outcome }) => outcome === "stored");
      const outcomes = same.map(({ outcome, id }) => [outcome, id]).sort();
      expect(outcomes).toEqual([["stored", first.id], ...Array.from({ length: 19 }, () => ["unchanged", first.id])]);
      const replacements = await all((caller) => ({ reference: `INV-1.${caller}`, replaces: "INV-1" }));
      const [one, ...others] = replacements.sort((a, b) => Number("refused" in a) - Number("refused" in b));
      expect(one).toMatchObject({ outcome: "stored" });
      expect(others).toMatchObject(others.map(() => ({ refused: "invoice_conflict", id: one.id, param: "replaces" })));
      const lines = await db.query(
        "select target from private.admin_audit_log where actor_id = $1 order by created_at",
        [actor],
      );
      expect(lines).toEqual([first.id, one.id].map((id) => ({ target: `platform invoice ${id}` })));
    } finally {
      await db.query("delete from private.infrastructure_admins where user_id = $1", [actor]);
      await close();
    }
  });

  test.for([
    "update ai.external_provider_invoices set amount_usd = amount_usd",
    "delete from ai.external_provider_invoices",
    "truncate ai.external_provider_invoices",
  ])("an invoice for the platform is immutable even for the table's owner: %s", async (sql, { db }) => {
    const book = await platformBook(db, { provider: newProvider(), month });
    await book.record({ reference: "A" });
    await expect(db.query(sql)).rejects.toMatchObject({ code: "23001" });
  });
});
