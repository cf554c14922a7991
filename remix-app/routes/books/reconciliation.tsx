import { data, type LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { providerPage } from "../../books/book.ts";
import { recordLinks } from "../../books/reconciliation-links.ts";
import { requireBook } from "../../books/require-book.ts";
import { monthText } from "../../http/date-text.ts";
import { reconcileCosts } from "../../studio/costs/book.ts";
import { ClashCard } from "../../studio/costs/clash-card.tsx";
import { monthWindow, readMonth } from "../../studio/costs/month.ts";
import { MonthPicker } from "../../studio/costs/month-picker.tsx";
import { cellsOf } from "../../studio/costs/reconciliation.ts";
import { ReconciliationTable } from "../../studio/costs/reconciliation-table.tsx";
import { Figures } from "../../studio/figures.tsx";
import { rangeStatus } from "../../studio/range.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { Usd } from "../../ui/money.tsx";
import { PageNav } from "../../ui/page-nav.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";

export const meta = pageTitle<typeof loader>((data) =>
  data?.book.isPlatform ? data.book.name : `Reconciliation · ${data?.book.name ?? "Workspace"}`,
);

/** The maximum number of providers on the page, each with its accounts. */
const providersShown = 50;

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { book, member } = await requireBook(context, { request, params });
  const url = new URL(request.url);
  const now = new Date();
  const choice = readMonth(url, { now });
  const cursor = url.searchParams.get("cursor") ?? undefined;
  const { records, totals, clashes, nextCursor } = await reconcileCosts(context, {
    reader: member,
    query: { ...monthWindow(choice.month), limit: providersShown, cursor },
  });
  const today = now.toISOString().slice(0, 10);
  const cells = records.flatMap((record) => cellsOf(record, { today }));
  return data({ book, choice, cells, totals, clashes, nextCursor }, rangeStatus(choice));
}

export default function ReconciliationPage() {
  const { book, choice, cells, totals, clashes, nextCursor } = useLoaderData<typeof loader>();
  const { isPlatform } = book;
  const ofMonth = `?month=${choice.month}`;
  const downloads = (
    <>
      <ButtonLink href={`${book.reconciliation}.csv${ofMonth}`}>Download CSV</ButtonLink>
      <ButtonLink href={`${book.reconciliation}.focus.csv${ofMonth}`}>Download FOCUS</ButtonLink>
    </>
  );
  return (
    <StudioPage
      title={isPlatform ? "Books" : "Reconciliation"}
      lead={
        isPlatform
          ? "The cost of all workspaces’ runs, the costs imported from providers, and the providers’ invoices to the platform."
          : "What the gateway metered, what was imported from providers, and what they invoiced, side by side."
      }
      actions={
        isPlatform ? (
          <>
            <ButtonLink href={book.invoices}>Invoices</ButtonLink>
            <ButtonLink href={`${book.costs}${ofMonth}`}>Costs</ButtonLink>
            <ButtonLink href={book.costImport} variant="primary">
              Import a file
            </ButtonLink>
          </>
        ) : (
          downloads
        )
      }
    >
      <MonthPicker choice={choice} />
      <Figures
        figures={[
          {
            label: "Metered",
            value: <Usd amount={totals.meteredUsd} />,
            note: isPlatform ? "in all workspaces" : "by the gateway",
          },
          { label: "Imported", value: <Usd amount={totals.importedUsd} />, note: "as reported by providers" },
          { label: "Invoiced", value: <Usd amount={totals.invoicedUsd} />, note: "after credit notes" },
        ]}
      />
      <ClashCard clashes={clashes} />
      <Card
        title={monthText(choice.month)}
        lead={`Days are in UTC. Imported costs are matched by the date the provider gives, even if it uses another time zone. An invoice that covers several months is split between them by day.${isPlatform ? " Costs and invoices that workspaces enter for themselves aren’t included." : ""}`}
        action={isPlatform ? <div className="flex flex-wrap gap-2">{downloads}</div> : undefined}
      >
        <ReconciliationTable
          cells={cells}
          linksOf={(cell, only) => {
            const links = recordLinks(cell, { book, only });
            const isExplained = isPlatform && cell.account.of === "all";
            return isExplained ? [{ label: "Details", to: providerPage(cell) }, ...links] : links;
          }}
          providerTo={isPlatform ? providerPage : undefined}
          empty={
            <p>
              Nothing was metered, imported or invoiced this month. Choose another month,{" "}
              <a className="link" href={book.costImport}>
                import costs from a file
              </a>{" "}
              or{" "}
              <a className="link" href={`${book.invoices}/new`}>
                enter an invoice
              </a>
              .
            </p>
          }
        />
        <PageNav label="Pages of providers" nextCursor={nextCursor} keep={["month"]} />
      </Card>
    </StudioPage>
  );
}
