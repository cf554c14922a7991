import { data, type LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData, useLocation } from "@remix-run/react";
import { readCostPeriod } from "../../books/cost-period.ts";
import { requireBook } from "../../books/require-book.ts";
import { monthText } from "../../http/date-text.ts";
import { listProviderCosts } from "../../studio/costs/book.ts";
import { ComparisonCard } from "../../studio/costs/comparison-card.tsx";
import { compareCosts } from "../../studio/costs/cost-comparison.ts";
import { CostList } from "../../studio/costs/cost-list.tsx";
import { DifferenceText } from "../../studio/costs/difference-text.tsx";
import { readImportFilter } from "../../studio/costs/import-filter.ts";
import { ImportFilterNotice, ImportGuide } from "../../studio/costs/import-guide.tsx";
import { MonthPicker } from "../../studio/costs/month-picker.tsx";
import { Figures } from "../../studio/figures.tsx";
import { rangeStatus } from "../../studio/range.ts";
import { RangeForm } from "../../studio/range-form.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { countOf } from "../../ui/format-amount.ts";
import { Usd } from "../../ui/money.tsx";
import { PageNav } from "../../ui/page-nav.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";

export const meta = pageTitle<typeof loader>((data) =>
  data?.book.isPlatform ? `Costs · ${data.book.name}` : `Provider costs · ${data?.book.name ?? "Workspace"}`,
);

const recordsShown = 50;
const providersShown = 50;

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { book, member } = await requireBook(context, { request, params });
  const url = new URL(request.url);
  const period = readCostPeriod(book, url);
  const { month: _, ...filter } = readImportFilter(url, context);
  const { from, to } = period;
  const { provider, accountId } = filter;
  const pageAt = (name: string) => url.searchParams.get(name) ?? undefined;
  // Costs of a single account can't be compared, because some runs don't name their account. The platform's costs are
  // compared on its reconciliation page.
  const isCompared = !book.isPlatform && accountId === undefined;
  const [page, compared] = await Promise.all([
    listProviderCosts(context, {
      reader: member,
      query: { from, to, limit: recordsShown, cursor: pageAt("cursor") },
      filter,
    }),
    isCompared
      ? compareCosts(context, {
          reader: member,
          query: { from, to, limit: providersShown, cursor: pageAt("providers") },
          provider,
        })
      : { overall: null, providers: [], nextCursor: null },
  ]);
  const guide = { gatewayUrl: `${context.env.AI_URL}/v1`, workspaceId: member.workspaceId };
  return data({ book, period, filter, page, compared, guide }, rangeStatus(period));
}

/** The query parameters that both of the page's lists keep. */
const listParameters = ["range", "from", "to", "month", "provider", "account", "noAccount"];

export default function CostsPage() {
  const { book, period, filter, page, compared, guide } = useLoaderData<typeof loader>();
  const { search } = useLocation();
  const { isPlatform } = book;
  const { totals, records, nextCursor } = page;
  const { overall } = compared;
  const isFiltered = Object.keys(filter).length > 0 || new URLSearchParams(search).has("cursor");
  const platformMonth = "month" in period ? period.month.month : null;
  return (
    <StudioPage
      title={isPlatform ? "Costs" : "Provider costs"}
      lead={
        isPlatform
          ? "Costs imported from providers into the platform’s books."
          : "What providers charge, as imported from files and by apps. Imports don’t change runs or credits."
      }
      actions={
        <>
          {platformMonth ? <ButtonLink href={`${book.reconciliation}?month=${platformMonth}`}>Books</ButtonLink> : null}
          <ButtonLink href={`${book.costs}.csv${search}`}>Download CSV</ButtonLink>
          <ButtonLink href={book.costImport} variant="primary">
            Import a file
          </ButtonLink>
        </>
      }
    >
      {"month" in period ? <MonthPicker choice={period.month} /> : <RangeForm range={period.range} />}
      <ImportFilterNotice filter={filter} of="costs" />
      <Figures
        figures={[
          {
            label: "Imported",
            value: <Usd amount={totals.amountUsd} />,
            note: `${countOf(totals.records - totals.replacedRecords, "record")} counted`,
          },
          ...(overall
            ? [
                { label: "Metered", value: <Usd amount={overall.meteredUsd} />, note: "by the gateway’s own runs" },
                {
                  label: "Imported − metered",
                  value: <DifferenceText usd={overall.differenceUsd} percent={overall.differencePercent} />,
                },
              ]
            : []),
          {
            label: "Replaced by daily totals",
            value: <Usd amount={totals.replacedUsd} />,
            note: `${countOf(totals.replacedRecords, "record")}, kept for audit but not counted`,
          },
        ]}
      />
      <ComparisonCard compared={compared} file={`${book.costs}-by-provider.csv`} keep={[...listParameters, "cursor"]} />
      <Card
        title={platformMonth ? monthText(platformMonth) : "Records"}
        lead={
          isPlatform
            ? "Dates are the provider’s."
            : "An account’s daily total replaces its runs of that day. Replaced runs are kept for audit but not counted."
        }
      >
        <CostList
          records={records}
          imports={book.receipts}
          empty={
            isFiltered ? (
              <p>{isPlatform ? "No records match." : "No records match in this range."}</p>
            ) : isPlatform ? (
              <p>Nothing was imported for this month. Import a provider’s bill or cost export.</p>
            ) : (
              <ImportGuide {...guide} />
            )
          }
        />
        <PageNav label="Pages of records" nextCursor={nextCursor} keep={[...listParameters, "providers"]} />
      </Card>
    </StudioPage>
  );
}
