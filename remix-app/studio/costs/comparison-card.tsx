import { useLocation } from "@remix-run/react";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { DataTable } from "../../ui/data-table.tsx";
import { columnDecimals } from "../../ui/format-amount.ts";
import { Usd } from "../../ui/money.tsx";
import { PageNav } from "../../ui/page-nav.tsx";
import { searchWith } from "../range.ts";
import type { compareCosts } from "./cost-comparison.ts";
import { DifferenceText, Incomparable, Missing } from "./difference-text.tsx";

/** Compares imported and metered costs by provider. Renders nothing without providers. */
export function ComparisonCard({
  compared: { overall, providers, nextCursor },
  file,
  keep,
}: {
  compared: Awaited<ReturnType<typeof compareCosts>>;
  /** The path of the comparison's file. */
  file: string;
  /** The query parameters of the page that the other pages of providers keep. */
  keep: readonly string[];
}) {
  const { search } = useLocation();
  if (providers.length === 0) return null;
  const decimals = {
    metered: columnDecimals(providers.map(({ meteredUsd }) => meteredUsd)),
    imported: columnDecimals(providers.map(({ importedUsd }) => importedUsd)),
    difference: columnDecimals(providers.map(({ differenceUsd }) => differenceUsd)),
  };
  return (
    <Card
      title="Imported and metered costs"
      lead={
        overall?.meteredUsd === null
          ? "This workspace hides the provider costs of runs, so there’s nothing to compare."
          : "What providers charged and what the gateway metered in this range, by provider."
      }
      action={
        <ButtonLink href={`${file}${searchWith(search, {})}`}>
          Download CSV<span className="sr-only"> of the comparison</span>
        </ButtonLink>
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
            cell: ({ importedRecords, importedUsd }) =>
              importedRecords > 0 ? <Usd amount={importedUsd} decimals={decimals.imported} /> : <Missing />,
          },
          {
            label: "Imported − metered",
            numeric: true,
            cell: ({ differenceUsd, differencePercent }) =>
              differenceUsd === null ? (
                <Incomparable />
              ) : (
                <DifferenceText usd={differenceUsd} percent={differencePercent} decimals={decimals.difference} />
              ),
          },
        ]}
        rows={providers}
        rowKey={({ provider }) => provider}
        empty={null}
      />
      <PageNav label="Pages of providers" param="providers" nextCursor={nextCursor} keep={keep} />
    </Card>
  );
}
