import { Link, type MetaFunction, useLoaderData, useLocation } from "@remix-run/react";
import { data, type LoaderFunctionArgs } from "@remix-run/server-runtime";
import type { RouteHandle } from "../../http/route-table.ts";
import { reconcileCosts } from "../../studio/costs/provider-imports.ts";
import { cellsOf, readReconciledRange } from "../../studio/costs/reconciliation.ts";
import { ReconciliationTable } from "../../studio/costs/reconciliation-table.tsx";
import { Figures } from "../../studio/figures.tsx";
import { rangeDays, rangeStatus, searchWith } from "../../studio/range.ts";
import { RangeForm } from "../../studio/range-form.tsx";
import type { StudioReader } from "../../studio/studio-reader.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { Usd } from "../../ui/money.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";
import { requirePermission } from "../../workspaces/permission.ts";

export const handle: RouteHandle = { hydrate: true };

export const meta: MetaFunction<typeof loader> = ({ data }) => [
  { title: `Reconciliation · ${data?.workspace.name ?? "Workspace"} · Gatehouse` },
];

/** Of months and providers; each brings its accounts along. */
const recordsShown = 50;

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { workspace, member } = await requirePermission(context, { request, params, permission: "use_ai_studio" });
  const url = new URL(request.url);
  const { range, months, today } = readReconciledRange(url, { now: new Date() });
  const reader: StudioReader = member;
  const cursor = url.searchParams.get("cursor") ?? undefined;
  const { records, totals, nextCursor } = await reconcileCosts(context, {
    reader,
    query: { ...months, limit: recordsShown, cursor },
  });
  const cells = records.flatMap((record) => cellsOf(record, { today }));
  return data({ workspace, range, months, cells, totals, nextCursor }, rangeStatus(range));
}

export default function ReconciliationPage() {
  const { workspace, range, months, cells, totals, nextCursor } = useLoaderData<typeof loader>();
  const { search } = useLocation();
  const base = `/workspaces/${workspace.id}/ai`;
  const { first, last } = rangeDays(months);
  return (
    <StudioPage
      workspace={workspace}
      title="Reconciliation"
      lead="What the gateway metered, what apps imported and what providers invoiced, side by side."
      actions={<ButtonLink href={`${base}/reconciliation.csv${search}`}>Download CSV</ButtonLink>}
    >
      <RangeForm range={range} />
      <Figures
        figures={[
          { label: "Metered", value: <Usd amount={totals.meteredUsd} />, note: "by the gateway’s own runs" },
          { label: "Imported", value: <Usd amount={totals.importedUsd} />, note: "as providers state it" },
          { label: "Invoiced", value: <Usd amount={totals.invoicedUsd} />, note: "as people reviewed it" },
        ]}
      />
      <Card
        title="Month by month"
        lead={`Whole months of UTC, ${first} to ${last}. An invoice counts in the month that its period begins in, else that it was issued in.`}
      >
        <ReconciliationTable cells={cells} base={base} />
        {nextCursor ? (
          <p className="pt-4">
            <Link className="link" to={searchWith(search, { cursor: nextCursor })}>
              Older months
            </Link>
          </p>
        ) : null}
      </Card>
    </StudioPage>
  );
}
