import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData, useSearchParams } from "@remix-run/react";
import { costsPath } from "../../books/book.ts";
import { requireBook } from "../../books/require-book.ts";
import { monthText } from "../../http/date-text.ts";
import { requireImport } from "../../studio/costs/cost-import/import-book.ts";
import { receiptFacts } from "../../studio/costs/cost-import/import-facts.ts";
import { ServiceTable } from "../../studio/costs/cost-import/service-table.tsx";
import { Figures } from "../../studio/figures.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { FactList } from "../../ui/facts.tsx";
import { Usd } from "../../ui/money.tsx";
import { Notice } from "../../ui/notice.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";

export const meta = pageTitle<typeof loader>(
  (data) => `${data?.receipt.import.file ?? "Import"} · ${data?.book.isPlatform ? data.book.name : "Costs"}`,
);

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { book, member } = await requireBook(context, { request, params });
  return { book, receipt: await requireImport(context, { member, importId: params.importId }) };
}

export default function CostReceiptPage() {
  const { book, receipt } = useLoaderData<typeof loader>();
  const [searchParams] = useSearchParams();
  const { provider, current } = receipt;
  const { firstDay: first, lastDay: last } = current;
  const month = last?.slice(0, 7);
  return (
    <StudioPage
      title={receipt.import.file}
      lead={book.isPlatform ? "A cost file imported into the platform’s books." : "Receipt for an imported cost file."}
      actions={<ButtonLink href={book.costImport}>Import another file</ButtonLink>}
    >
      {searchParams.has("imported") ? <Notice tone="good">Costs imported.</Notice> : null}
      <Figures
        figures={[
          {
            label: "Amount",
            value: <Usd amount={current.amountUsd} />,
            note: "excludes days that a later import corrected",
          },
          { label: "Daily totals", value: current.days.toLocaleString("en"), note: "one per account and day" },
          { label: "Accounts", value: current.accounts.toLocaleString("en") },
        ]}
      />
      <Card
        title="What was imported"
        lead="Days this file added or corrected. If a later import corrected a day, that day is on the later import’s receipt instead."
      >
        <div className="space-y-5">
          <FactList facts={receiptFacts(receipt)} />
          {month && first && last ? (
            <div className="flex flex-wrap gap-3">
              <ButtonLink href={`${book.reconciliation}?month=${month}`} variant="primary">
                Reconcile {monthText(month)}
              </ButtonLink>
              <ButtonLink href={costsPath(book, { first, last, provider })}>Show these costs</ButtonLink>
            </div>
          ) : null}
        </div>
      </Card>
      {receipt.services ? <ServiceTable services={receipt.services} totalUsd={current.amountUsd} /> : null}
    </StudioPage>
  );
}
