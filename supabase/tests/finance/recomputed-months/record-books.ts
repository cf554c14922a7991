import { randomUUID } from "node:crypto";
import { expect } from "vitest";
import { formOf } from "../../../../remix-app/testing/form.ts";
import { type ConsoleAdmin, createConsoleAdmin } from "../../../../scripts/test/console-admin.ts";
import { createPerson, deletePerson, enter, type SignedInBrowser } from "../../../../scripts/test/people.ts";
import { join } from "../../database.ts";
import { type AppTenant, createAppTenant } from "../../gateway/app-tenant.ts";
import { createGatewayTenant } from "../../gateway/tenant.ts";
import { addRun } from "../platform-book-fixtures.ts";
import { text } from "./decimals.ts";
import { type Book, type CostFile, type Invoice, type Money, plantBook, profiles } from "./plant-book.ts";
import { createRandom, seed } from "./random.ts";

const platformId = "00000000-0000-0000-0000-000000000000";

/** A book with the pages that show it. */
export interface Side {
  name: string;
  book: Book;
  /** The paths of its reconciliation and its invoices. */
  path: string;
  invoices: string;
  browser: SignedInBrowser;
}

/** The recorded books, of a workspace and of the platform. */
export interface RecordedBooks {
  providers: string[];
  isOurs: (name: string) => boolean;
  own: Side;
  platform: Side;
  admin: ConsoleAdmin;
  tenant: AppTenant;
  close: () => Promise<void>;
}

/** Plants a workspace's book and the platform's, whose runs are those of all workspaces. */
export function plantBooks(months: readonly string[]) {
  const mark = randomUUID().slice(0, 8);
  const random = createRandom(seed);
  const own = plantBook(random, { mark, months, workspaces: [0] });
  const platform = plantBook(random, { mark, months, workspaces: [0, 1] });
  platform.runs = [...platform.runs.map((run) => ({ ...run, workspace: 1 })), ...own.runs];
  return { mark, own, platform, providers: Object.keys(profiles).map((name) => `${name}-${mark}`) };
}

/**
 * Records planted books on the stack: runs and costs in the database.
 * @param options.isTyped whether invoices with a currency are entered on the pages or sent by an app, and not stored
 * directly
 */
export async function recordBooks(
  { mark, own, platform, providers }: ReturnType<typeof plantBooks>,
  { isTyped }: { isTyped: boolean },
): Promise<RecordedBooks> {
  const person = await createPerson();
  const [admin, tenant, other] = await Promise.all([createConsoleAdmin(), createAppTenant(), createGatewayTenant()]);
  const { db, workspaceId, appId } = tenant;
  await join(db, { workspaceId, userId: person.id, role: "member" });
  for (const { workspace, provider, account, day, cost, isClosed, isEstimated } of platform.runs) {
    await addRun(db, {
      workspaceId: workspace === 0 ? workspaceId : other.workspaceId,
      day,
      costUsd: text(cost),
      billedBy: isClosed ? null : provider,
      account,
      providerId: provider,
      usageSource: isEstimated ? "estimated_partial" : "provider",
      swept: isClosed,
    });
  }
  const pages = `/workspaces/${workspaceId}/ai`;
  const sides = {
    own: {
      ...{ name: "a workspace", book: own, path: `${pages}/reconciliation`, invoices: `${pages}/invoices` },
      browser: await enter(person),
    },
    platform: {
      ...{ name: "the platform", book: platform, path: "/admin/books", invoices: "/admin/books/invoices" },
      browser: admin.browser,
    },
  };
  await record(sides.own, { tenant, isTyped, memberId: person.id, bookId: workspaceId, appId });
  await record(sides.platform, { tenant, isTyped, memberId: admin.id, bookId: platformId, appId: platformId });
  const close = async () => {
    await Promise.all([deletePerson(admin), tenant.close(), other.close()]);
  };
  return { providers, isOurs: (name) => name.includes(mark), ...sides, admin, tenant, close };
}

type To = { tenant: AppTenant; isTyped: boolean; memberId: string; bookId: string; appId: string };
const given = (value: string | null, name: string) => (value === null ? {} : { [name]: value });

async function record(side: Side, to: To): Promise<void> {
  const { costs, files, invoices } = side.book;
  const { db } = to.tenant;
  for (const { provider, account, id, isDaily, service, amount, at, observed, isOfFile } of costs) {
    if (isOfFile) continue;
    const cost = { provider, externalRunId: id, amountUsd: text(amount), occurredAt: at, observedAt: observed };
    const rest = {
      ...given(account, "accountId"),
      ...given(service, "service"),
      granularity: isDaily ? "account_day" : "run",
    };
    const [row] = await db.query<{ answer: { outcome?: string } }>(
      "select ai.store_provider_cost($1, $2, $3) as answer",
      [to.bookId, to.appId, JSON.stringify({ ...cost, ...rest })],
    );
    expect(["stored", "corrected", "stale"]).toContain(row?.answer.outcome);
  }
  for (const file of files) await importFile(file, to);
  // A correction follows what it corrects. Providers don't depend on each other.
  const byProvider = Map.groupBy(invoices, ({ provider }) => provider);
  await Promise.all(
    [...byProvider.values()].map(async (own) => {
      for (const invoice of own) invoice.id = await recordInvoice(invoice, { side, to });
    }),
  );
}

async function importFile({ provider, rates, days }: CostFile, { tenant, bookId, appId }: To): Promise<void> {
  const document = {
    ...{ provider, format: "test", fileName: "costs.csv", sha256: "0".repeat(64), timeZone: "UTC" },
    rates: Object.fromEntries(Object.entries(rates).map(([currency, rate]) => [currency, text(rate)])),
    days: days.map(({ account, day, amounts }) => ({
      accountId: account,
      day,
      amounts: amounts.map(({ currency, amount }) => ({ currency, amount: text(amount) })),
    })),
  };
  const [row] = await tenant.db.query<{ answer: object }>(
    "select private.import_costs_as_operator($1, $2, $3) as answer",
    [bookId, appId, JSON.stringify(document)],
  );
  expect(row?.answer).toMatchObject({ outcome: "imported" });
}

/** Records an invoice: one with a currency as an app or on the pages, another directly. @returns its id */
async function recordInvoice(invoice: Invoice, { side, to }: { side: Side; to: To }): Promise<string> {
  const { provider, account, reference, isCredit, replaces, amount, money, issued, start, end } = invoice;
  const isSent = money?.isSent && !money.isPrefilled && to.bookId !== platformId;
  if (money && to.isTyped && !isSent) return enterInvoice({ ...invoice, money }, { side, to });
  const fields = {
    ...{ provider, reference, kind: isCredit ? "credit_note" : "invoice", issuedOn: issued },
    ...{ reviewedAt: `${issued}T12:00:00Z`, ...given(account, "accountId"), ...given(replaces, "replaces") },
    ...{ ...given(start, "periodStart"), ...given(end, "periodEnd"), ...given(money?.currency ?? null, "currency") },
  };
  const amounts = money && [
    ...[`"exchangeRate":${text(money.rate)}`, `"netAmount":${text(money.net)}`],
    ...[`"taxAmount":${text(money.tax)}`, `"totalAmount":${text(money.net + money.tax)}`],
  ];
  const numbers = [`"amountUsd":${text(amount)}`, ...(amounts ?? [])];
  const body = `{${JSON.stringify(fields).slice(1, -1)},${numbers.join(",")}}`;
  const { db } = to.tenant;
  if (!money || !to.isTyped) {
    const [row] = await db.query<{ answer: { id: string } }>(
      "select ai.record_provider_invoice($1, $2, $3, $4, $5) as answer",
      [to.memberId, to.bookId, to.appId, body, JSON.stringify({ reason: "test" })],
    );
    expect(row?.answer).toMatchObject({ outcome: "stored" });
    return row?.answer.id ?? "";
  }
  const sent = await to.tenant.send("/provider-invoices", { body, method: "POST" });
  expect([sent.status, sent.text]).toEqual([200, expect.stringContaining('"accepted":true')]);
  const [row] = await db.query<{ id: string }>(
    "select id from ai.external_provider_invoices where workspace_id = $1 and reference = $2",
    [to.bookId, reference],
  );
  return row?.id ?? "";
}

/** Enters an invoice with the amounts that a person types, reviews it and records it. */
async function enterInvoice(
  invoice: Invoice & { money: Money },
  { side, to }: { side: Side; to: To },
): Promise<string> {
  const { provider, account, reference, isCredit, replaces, issued, start, end, money } = invoice;
  const { typed, currency, rate, isPrefilled } = money;
  const amounts = { net: money.net, tax: money.tax, total: money.net + money.tax };
  const page = `${side.invoices}/new`;
  const reviewed = await side.browser.post(page, {
    ...{ provider, reference, kind: isCredit ? "credit_note" : "invoice", issuedOn: issued, currency },
    ...(to.bookId === platformId ? {} : { appId: to.appId }),
    ...given(account, "accountId"),
    ...given(replaces, "replaces"),
    ...given(start, "periodStart"),
    ...given(end, "periodEnd"),
    ...Object.fromEntries(typed.map((name) => [`${name}Amount`, text(amounts[name])])),
    exchangeRate: isPrefilled || currency === "USD" ? "" : text(rate),
  });
  expect([reviewed.status, reviewed.words]).toEqual([200, expect.stringContaining("Review the invoice")]);
  const { fields } = formOf(reviewed.text, page);
  const recorded = await side.browser.post(page, { ...fields, reason: "The bill" });
  expect([recorded.status, recorded.words]).toEqual([303, expect.anything()]);
  return /([^/]+)\?recorded$/.exec(recorded.location ?? "")?.[1] ?? "";
}
