import { createApp } from "../scripts/test/apps.ts";
import { deletePerson, query } from "../scripts/test/people.ts";
import { enterConsole } from "./console.ts";
import { expect, test } from "./test.ts";

/** Records an invoice and an import in the person's own workspace. @returns the paths of pages that people print */
async function createPrintedPages(personId: string): Promise<string[]> {
  const one = async (sql: string, values: unknown[]) => (await query<{ id: string }>(sql, values))[0]?.id ?? "";
  const workspaceId = await one("select id from public.workspaces where personal_user_id = $1", [personId]);
  const app = await createApp({ kind: "external", scopes: ["workspace:session"], workspaceId });
  const invoice = {
    ...{ provider: "openai", reference: "INV-1", amountUsd: "1", issuedOn: "2026-02-01" },
    ...{ periodStart: "2026-01-01", periodEnd: "2026-01-31", reviewedAt: "2026-02-03T09:30:00Z" },
  };
  const invoiceId = await one("select ai.store_provider_invoice($1, $2, $3) ->> 'id' as id", [
    workspaceId,
    app.id,
    JSON.stringify(invoice),
  ]);
  const file = {
    ...{ provider: "gcp", format: "google-billing-export", fileName: "bill.csv", sha256: "0".repeat(64) },
    ...{ timeZone: "UTC", rates: { EUR: "1.08" } },
    days: [{ accountId: "prod", day: "2026-01-20", amounts: [{ currency: "EUR", amount: "38.75" }] }],
  };
  const importId = await one("select ai.import_cost_file($1, $2, $3, $4, null) ->> 'importId' as id", [
    personId,
    workspaceId,
    app.id,
    JSON.stringify(file),
  ]);
  const base = `/workspaces/${workspaceId}/ai`;
  return [
    "/admin/books",
    "/admin/books/costs",
    "/admin/books/invoices",
    base,
    `${base}/credits`,
    `${base}/credits/statement?month=2026-01`,
    `${base}/reconciliation?month=2026-01`,
    `${base}/costs?from=2026-01-01&to=2026-01-31`,
    `${base}/costs/imports/${importId}`,
    `${base}/invoices`,
    `${base}/invoices/${invoiceId}`,
  ];
}

/** A4 without the margins of styles.css, at 96 dots an inch. */
const paper = { width: 687, height: 1000 };

test("books, receipts, usage and credits print whole, black on white, with absolute times and nothing to press", async ({
  page,
  context,
}) => {
  const person = await enterConsole(context);
  const paths = await createPrintedPages(person.id);
  await page.setViewportSize(paper);
  await page.emulateMedia({ media: "print", colorScheme: "dark" });
  for (const path of paths) {
    expect((await page.goto(path))?.status(), path).toBe(200);
    const faults = await page.evaluate(() => {
      const isShown = (element: Element) => element.getClientRects().length > 0;
      const named = (selector: string) => [...document.querySelectorAll(selector)].filter(isShown);
      const [canvas] = document.querySelectorAll("body");
      const style = canvas && getComputedStyle(canvas);
      return {
        shown: named("header, footer, .side-nav, button, .button, form, input, select, nav:not(:has(.choice))").map(
          (element) => element.outerHTML.slice(0, 120),
        ),
        colors: [style?.backgroundColor, style?.color],
        relative: named(".relative-time").filter(
          (time) => getComputedStyle(time, "::after").content !== JSON.stringify(time.getAttribute("title")),
        ).length,
        heads: named(".data-table").filter(
          ({ firstElementChild: caption }) =>
            !caption?.nextElementSibling ||
            getComputedStyle(caption.nextElementSibling).display !== "table-header-group",
        ).length,
        isCut: document.documentElement.scrollWidth > innerWidth,
      };
    });
    expect([path, faults]).toEqual([
      path,
      { shown: [], colors: ["oklch(1 0 0)", "oklch(0 0 0)"], relative: 0, heads: 0, isCut: false },
    ]);
  }
  await deletePerson(person);
});
