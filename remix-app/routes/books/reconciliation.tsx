import { data, type LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { providerPage } from "../../books/book.ts";
import { readCostImporters } from "../../books/importer/cost-importers.ts";
import { ImporterCard } from "../../books/importer/importer-card.tsx";
import { recordLinks } from "../../books/reconciliation-links.ts";
import { requireBook } from "../../books/require-book.ts";
import { closePath } from "../../books/statements/paths.ts";
import { listStatements } from "../../books/statements/statement.ts";
import { StatementList } from "../../books/statements/statement-list.tsx";
import { monthText } from "../../http/date-text.ts";
import { Choices } from "../../studio/choices.tsx";
import { ClashCard } from "../../studio/costs/clash-card.tsx";
import { lineFilters, readLineFilter } from "../../studio/costs/line-filter.ts";
import { readMonth } from "../../studio/costs/month.ts";
import { MonthPicker } from "../../studio/costs/month-picker.tsx";
import { listReconciledLines } from "../../studio/costs/reconciliation-lines.ts";
import { amountDecimals, ReconciliationTable, shownSums } from "../../studio/costs/reconciliation-table.tsx";
import { RoundingNote } from "../../studio/costs/rounding-note.tsx";
import { Figures } from "../../studio/figures.tsx";
import { rangeStatus } from "../../studio/range.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { formatCount } from "../../ui/format-amount.ts";
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
  const choice = readMonth(url, { now: new Date() });
  const filter = readLineFilter(url);
  const [lines, importers, statements] = await Promise.all([
    listReconciledLines(context, {
      reader: member,
      month: choice.month,
      filter,
      cursor: url.searchParams.get("cursor") ?? undefined,
      limit: providersShown,
    }),
    book.isPlatform ? readCostImporters(context) : [],
    book.isPlatform
      ? listStatements(context, {
          member,
          month: choice.month,
          cursor: url.searchParams.get("statements") ?? undefined,
        })
      : null,
  ]);
  const requested = url.searchParams.get("requested");
  return data({ book, choice, filter, ...lines, importers, statements, requested }, rangeStatus(choice));
}

export default function ReconciliationPage() {
  const { book, choice, filter, cells, totals, clashes, nextCursor, providers, importers, statements, requested } =
    useLoaderData<typeof loader>();
  const { isPlatform } = book;
  const ofMonth = `?month=${choice.month}`;
  const isFiltered = filter === "action";
  const ofLines = isFiltered ? `${ofMonth}&show=action` : ofMonth;
  const decimals = amountDecimals(cells);
  const downloads = (
    <>
      <ButtonLink href={`${book.reconciliation}.csv${ofLines}`}>Download CSV</ButtonLink>
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
            {choice.month < choice.current ? (
              <ButtonLink href={closePath(choice.month)}>
                {statements?.isClosed ? "Statement" : "Close month"}
              </ButtonLink>
            ) : null}
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
      <Choices label="Providers" name="show" options={lineFilters} chosen={isFiltered ? "action" : ""} />
      {isFiltered ? <p className="text-muted">The figures are totals of the providers that need action.</p> : null}
      <Figures
        figures={[
          {
            label: "Metered",
            value: <Usd amount={totals.meteredUsd} decimals={decimals.meteredUsd} />,
            note: isPlatform ? "in all workspaces" : "by the gateway",
          },
          {
            label: "Imported",
            value: <Usd amount={totals.importedUsd} decimals={decimals.importedUsd} />,
            note: "as reported by providers",
          },
          {
            label: "Invoiced",
            value: <Usd amount={totals.invoicedUsd} decimals={decimals.invoicedUsd} />,
            note: "after credit notes",
          },
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
            const isExplained = isPlatform && cell.account.of === "all" && cell.state !== "not_metered";
            return isExplained ? [{ label: "Details", to: providerPage(cell) }, ...links] : links;
          }}
          providerTo={isPlatform ? providerPage : undefined}
          empty={
            isFiltered ? (
              <p>No provider needs action this month.</p>
            ) : (
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
            )
          }
        />
        {providers < totals.records ? (
          <p className="mt-3 text-muted text-small">
            This page lists {formatCount(providers)} of {formatCount(totals.records)} providers. The figures above are
            totals of all of them.
          </p>
        ) : (
          <RoundingNote sums={shownSums(cells, totals)} />
        )}
        <PageNav label="Pages of providers" nextCursor={nextCursor} keep={["month", "show", "statements"]} />
      </Card>
      {statements ? (
        <Card
          id="closed-months"
          title="Closed months"
          lead="A statement keeps a month’s figures as they were when it was closed."
        >
          <StatementList statements={statements.records} />
          <PageNav
            label="Pages of statements"
            nextCursor={statements.nextCursor}
            param="statements"
            keep={["month", "show", "cursor"]}
            card="closed-months"
          />
        </Card>
      ) : null}
      {isPlatform ? <ImporterCard importers={importers} requested={requested} /> : null}
    </StudioPage>
  );
}
