import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData, useSearchParams } from "@remix-run/react";
import { requirePlatformBook } from "../../admin/books/platform-book.ts";
import { monthText } from "../../http/date-text.ts";
import { requireImport } from "../../studio/costs/cost-import/import-book.ts";
import { receiptFacts } from "../../studio/costs/cost-import/import-facts.ts";
import { Figures } from "../../studio/figures.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { Facts } from "../../ui/facts.tsx";
import { Usd } from "../../ui/money.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle<typeof loader>((data) => `${data?.import.file ?? "Import"} · Books · Console`);

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const member = await requirePlatformBook(context, request);
  const missing = "This import doesn’t exist.";
  return await requireImport(context, { member, importId: params.importId, missing });
}

export default function ConsoleCostImportPage() {
  const receipt = useLoaderData<typeof loader>();
  const [searchParams] = useSearchParams();
  const { provider, current } = receipt;
  const month = current.lastDay?.slice(0, 7);
  return (
    <Page
      title={receipt.import.file}
      lead="A cost file imported into the platform’s books."
      actions={<ButtonLink href="/admin/books/import">Import another file</ButtonLink>}
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
          <Facts facts={receiptFacts(receipt)} />
          {month ? (
            <div className="flex flex-wrap gap-3">
              <ButtonLink href={`/admin/books?month=${month}`} variant="primary">
                Reconcile {monthText(month)}
              </ButtonLink>
              <ButtonLink href={`/admin/books/costs?${new URLSearchParams({ month, provider })}`}>
                Show these costs
              </ButtonLink>
            </div>
          ) : null}
        </div>
      </Card>
    </Page>
  );
}
