import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData, useSearchParams } from "@remix-run/react";
import { monthText } from "../../http/date-text.ts";
import { requireImport } from "../../studio/costs/cost-import/import-book.ts";
import { receiptFacts } from "../../studio/costs/cost-import/import-facts.ts";
import { Figures } from "../../studio/figures.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { buttonClass } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { Facts } from "../../ui/facts.tsx";
import { Usd } from "../../ui/money.tsx";
import { Notice } from "../../ui/notice.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";
import { requirePermission } from "../../workspaces/permission.ts";

export const meta = pageTitle<typeof loader>((data) => `${data?.receipt.import.file ?? "Import"} · Costs`);

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { workspace, member } = await requirePermission(context, { request, params, permission: "use_ai_studio" });
  return { workspace, receipt: await requireImport(context, { member, importId: params.importId }) };
}

export default function CostImportPage() {
  const { workspace, receipt } = useLoaderData<typeof loader>();
  const [searchParams] = useSearchParams();
  const base = `/workspaces/${workspace.id}/ai`;
  const { provider, current } = receipt;
  const month = current.lastDay?.slice(0, 7);
  return (
    <StudioPage
      title={receipt.import.file}
      lead="Receipt for an imported cost file."
      actions={
        <a href={`${base}/costs/import`} className={buttonClass("secondary")}>
          Import another file
        </a>
      }
    >
      {searchParams.has("imported") ? <Notice tone="good">Costs imported.</Notice> : null}
      <Figures
        figures={[
          {
            label: "Amount",
            value: <Usd amount={current.amountUsd} />,
            note: "excludes days that a later import corrected",
          },
          { label: "Daily totals", value: current.days.toLocaleString("en") },
          { label: "Accounts", value: current.accounts.toLocaleString("en") },
        ]}
      />
      <Card
        title="What was imported"
        lead="Days this file added or corrected. If a later import corrected a day, that day is on the later import’s receipt instead."
      >
        <div className="space-y-5">
          <Facts facts={receiptFacts(receipt)} />
          {month && current.firstDay && current.lastDay ? (
            <div className="flex flex-wrap gap-3">
              <a href={`${base}/reconciliation?month=${month}`} className={buttonClass()}>
                Reconcile {monthText(month)}
              </a>
              <a
                href={`${base}/costs?${new URLSearchParams({ from: current.firstDay, to: current.lastDay, provider })}`}
                className={buttonClass("secondary")}
              >
                Show these costs
              </a>
            </div>
          ) : null}
        </div>
      </Card>
    </StudioPage>
  );
}
