import { data, type LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData, useLocation } from "@remix-run/react";
import { listProviderCosts } from "../../studio/costs/book.ts";
import { compareCosts } from "../../studio/costs/cost-comparison.ts";
import { CostList } from "../../studio/costs/cost-list.tsx";
import { DifferenceText } from "../../studio/costs/difference-text.tsx";
import { readImportFilter } from "../../studio/costs/import-filter.ts";
import { ImportFilterNotice, ImportGuide } from "../../studio/costs/import-guide.tsx";
import { Figures } from "../../studio/figures.tsx";
import { rangeStatus, readRange, searchWith } from "../../studio/range.ts";
import { RangeForm } from "../../studio/range-form.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink, buttonClass } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { DataTable } from "../../ui/data-table.tsx";
import { columnDecimals } from "../../ui/format-amount.ts";
import { Usd } from "../../ui/money.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";
import { requirePermission } from "../../workspaces/permission.ts";

export const meta = pageTitle<typeof loader>((data) => `Provider costs · ${data?.workspace.name ?? "Workspace"}`);

const recordsShown = 50;
const providersShown = 50;

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { workspace, member } = await requirePermission(context, { request, params, permission: "use_ai_studio" });
  const url = new URL(request.url);
  const now = new Date();
  const range = readRange(url, { now });
  const filter = readImportFilter(url, context);
  const { from, to } = range;
  const pageAt = (name: string) => url.searchParams.get(name) ?? undefined;
  const { provider, accountId } = filter;
  const [page, compared] = await Promise.all([
    listProviderCosts(context, {
      reader: member,
      query: { from, to, limit: recordsShown, cursor: pageAt("cursor") },
      filter,
    }),
    // Costs of a single account can't be compared, because some runs don't name their account.
    accountId === undefined
      ? compareCosts(context, {
          reader: member,
          query: { from, to, limit: providersShown, cursor: pageAt("providers") },
          provider,
        })
      : { overall: null, providers: [], nextCursor: null },
  ]);
  const gatewayUrl = `${context.env.AI_URL}/v1`;
  return data({ workspace, range, filter, page, compared, gatewayUrl }, rangeStatus(range));
}

export default function CostsPage() {
  const { workspace, range, filter, page, compared, gatewayUrl } = useLoaderData<typeof loader>();
  const { search } = useLocation();
  const { totals, records, nextCursor } = page;
  const { overall, providers } = compared;
  const at = new URLSearchParams(search);
  const filtered = Object.keys(filter).length > 0 || at.has("cursor");
  const hidden = overall?.meteredUsd === null;
  const decimals = {
    metered: columnDecimals(providers.map(({ meteredUsd }) => meteredUsd)),
    imported: columnDecimals(providers.map(({ importedUsd }) => importedUsd)),
    difference: columnDecimals(providers.map(({ differenceUsd }) => differenceUsd)),
  };
  return (
    <StudioPage
      title="Provider costs"
      lead="What providers charge, as imported from files and by apps. Imports don’t change runs or credits."
      actions={
        <>
          <ButtonLink href={`/workspaces/${workspace.id}/ai/costs.csv${search}`}>Download CSV</ButtonLink>
          <a href={`/workspaces/${workspace.id}/ai/costs/import`} className={buttonClass()}>
            Import a file
          </a>
        </>
      }
    >
      <RangeForm range={range} />
      <ImportFilterNotice filter={filter} of="costs" />
      <Figures
        figures={[
          {
            label: "Imported",
            value: <Usd amount={totals.amountUsd} />,
            note: countedText(totals.records - totals.replacedRecords),
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
            note: `${recordsText(totals.replacedRecords)}, kept for audit but not counted`,
          },
        ]}
      />
      {providers.length > 0 ? (
        <Card
          title="Imported and metered costs"
          lead={
            hidden
              ? "This workspace hides the provider costs of runs, so there’s nothing to compare."
              : "What providers charged and what the gateway metered in this range, by provider."
          }
          action={
            <a
              href={`/workspaces/${workspace.id}/ai/costs-by-provider.csv${searchWith(search, {})}`}
              className={buttonClass("secondary")}
            >
              Download CSV<span className="sr-only"> of the comparison</span>
            </a>
          }
        >
          <DataTable
            caption="Imported and metered costs by provider"
            columns={[
              { label: "Provider", cell: ({ provider }) => <span className="break-all">{provider}</span> },
              {
                label: "Metered",
                numeric: true,
                cell: ({ meteredUsd }) => <Usd amount={meteredUsd} decimals={decimals.metered} />,
              },
              {
                label: "Imported",
                numeric: true,
                small: "aside",
                cell: ({ importedUsd }) => <Usd amount={importedUsd} decimals={decimals.imported} />,
              },
              {
                label: "Imported − metered",
                numeric: true,
                cell: ({ differenceUsd, differencePercent }) => (
                  <DifferenceText usd={differenceUsd} percent={differencePercent} decimals={decimals.difference} />
                ),
              },
            ]}
            rows={providers}
            rowKey={({ provider }) => provider}
            empty={null}
          />
          {compared.nextCursor ? (
            <p className="pt-4">
              <a
                className="link"
                href={searchWith(search, { cursor: at.get("cursor") ?? "", providers: compared.nextCursor })}
              >
                More providers
              </a>
            </p>
          ) : null}
        </Card>
      ) : null}
      <Card
        title="Records"
        lead="An account’s daily total replaces its runs of that day. Replaced runs are kept for audit but not counted."
      >
        <CostList
          records={records}
          imports={`/workspaces/${workspace.id}/ai/costs/imports`}
          empty={
            filtered ? (
              <p>No records match in this range.</p>
            ) : (
              <ImportGuide gatewayUrl={gatewayUrl} workspaceId={workspace.id} />
            )
          }
        />
        {nextCursor ? (
          <p className="pt-4">
            <a className="link" href={searchWith(search, { cursor: nextCursor, providers: at.get("providers") ?? "" })}>
              Older records
            </a>
          </p>
        ) : null}
      </Card>
    </StudioPage>
  );
}

const recordsText = (count: number) => (count === 1 ? "1 record" : `${count.toLocaleString("en")} records`);
const countedText = (count: number) => `${recordsText(count)} counted`;
