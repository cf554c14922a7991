import { DataTable } from "../ui/data-table.tsx";
import { formatCount } from "../ui/format-amount.ts";
import type { ProviderLimit } from "./provider-limits.ts";

/** Describes how much of a limit can be used at once now. */
export function describeRoom(bucket: ProviderLimit["requests"]): string {
  return bucket === null ? "No limit" : `${formatCount(bucket.left)} of ${formatCount(bucket.size)}`;
}

const formatLimit = (limit: number | null) => (limit === null ? "No limit" : formatCount(limit));

/** Lists the limits of all providers that have a route. */
export function ProviderLimitTable({ limits }: { limits: readonly ProviderLimit[] }) {
  return (
    <DataTable
      caption="Limits of providers"
      rows={limits}
      rowKey={({ provider }) => provider}
      from="lg"
      empty="No provider has a route. Add a route on the Models page."
      columns={[
        {
          label: "Provider",
          cell: ({ provider }) => (
            <a className="link font-medium" href={`/admin/providers/${provider}`}>
              {provider}
            </a>
          ),
        },
        {
          label: "Requests per minute",
          numeric: true,
          cell: ({ requestsPerMinute }) => formatLimit(requestsPerMinute),
        },
        { label: "Tokens per minute", numeric: true, cell: ({ tokensPerMinute }) => formatLimit(tokensPerMinute) },
        { label: "Requests available now", numeric: true, cell: ({ requests }) => describeRoom(requests) },
        { label: "Tokens available now", numeric: true, cell: ({ tokens }) => describeRoom(tokens) },
      ]}
    />
  );
}
