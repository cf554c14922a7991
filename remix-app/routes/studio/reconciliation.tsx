import { data, type LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData, useLocation } from "@remix-run/react";
import { monthText } from "../../http/date-text.ts";
import { reconcileCosts } from "../../studio/costs/book.ts";
import { ClashCard } from "../../studio/costs/clash-card.tsx";
import { monthWindow, readMonth } from "../../studio/costs/month.ts";
import { MonthPicker } from "../../studio/costs/month-picker.tsx";
import { cellsOf } from "../../studio/costs/reconciliation.ts";
import { studioLinks } from "../../studio/costs/reconciliation-links.ts";
import { ReconciliationTable } from "../../studio/costs/reconciliation-table.tsx";
import { Figures } from "../../studio/figures.tsx";
import { rangeStatus, searchWith } from "../../studio/range.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { Usd } from "../../ui/money.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";
import { requirePermission } from "../../workspaces/permission.ts";

export const meta = pageTitle<typeof loader>((data) => `Reconciliation · ${data?.workspace.name ?? "Workspace"}`);

/** The maximum number of providers on the page, each with its accounts. */
const providersShown = 50;

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { workspace, member } = await requirePermission(context, { request, params, permission: "use_ai_studio" });
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
  return data({ workspace, choice, cells, totals, clashes, nextCursor }, rangeStatus(choice));
}

export default function ReconciliationPage() {
  const { workspace, choice, cells, totals, clashes, nextCursor } = useLoaderData<typeof loader>();
  const { search } = useLocation();
  const base = `/workspaces/${workspace.id}/ai`;
  const ofMonth = `?month=${choice.month}`;
  return (
    <StudioPage
      title="Reconciliation"
      lead="What the gateway metered, what was imported from providers, and what they invoiced, side by side."
      actions={
        <>
          <ButtonLink href={`${base}/reconciliation.csv${ofMonth}`}>Download CSV</ButtonLink>
          <ButtonLink href={`${base}/reconciliation.focus.csv${ofMonth}`}>Download FOCUS</ButtonLink>
        </>
      }
    >
      <MonthPicker choice={choice} />
      <Figures
        figures={[
          { label: "Metered", value: <Usd amount={totals.meteredUsd} />, note: "by the gateway" },
          { label: "Imported", value: <Usd amount={totals.importedUsd} />, note: "as reported by providers" },
          { label: "Invoiced", value: <Usd amount={totals.invoicedUsd} />, note: "after credit notes" },
        ]}
      />
      <ClashCard clashes={clashes} />
      <Card
        title={monthText(choice.month)}
        lead="Days are in UTC. Imported costs are matched by the date the provider gives, even if it uses another time zone. An invoice that covers several months is split between them by day."
      >
        <ReconciliationTable
          cells={cells}
          linksOf={(cell, only) => studioLinks(cell, { base, only })}
          empty={
            <p>
              Nothing was metered, imported or invoiced this month. Choose another month,{" "}
              <a className="link" href={`${base}/costs/import`}>
                import costs from a file
              </a>{" "}
              or{" "}
              <a className="link" href={`${base}/invoices/new`}>
                enter an invoice
              </a>
              .
            </p>
          }
        />
        {nextCursor ? (
          <p className="pt-4">
            <a className="link" href={searchWith(search, { cursor: nextCursor })}>
              More providers
            </a>
          </p>
        ) : null}
      </Card>
    </StudioPage>
  );
}
