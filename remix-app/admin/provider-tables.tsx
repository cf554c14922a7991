import { attemptResult } from "../studio/runs/run-facts.ts";
import { DataTable } from "../ui/data-table.tsx";
import { countOf, formatCount } from "../ui/format-amount.ts";
import { RelativeTime } from "../ui/moment.tsx";
import { Usd } from "../ui/money.tsx";
import type { ProviderHealth, ProviderUsage, SkippedRoute } from "./provider-usage.ts";

/** Lists each provider's recent answers, and failures by class. */
export function HealthTable({ health }: { health: readonly ProviderHealth[] }) {
  return (
    <DataTable
      caption="Health of providers"
      rows={health}
      rowKey={({ provider }) => provider}
      empty="No provider has an enabled route or a recent request. Add a route on the Models page."
      from="lg"
      columns={[
        {
          label: "Provider",
          cell: ({ provider, routes }) => (
            <>
              <span className="font-medium">{provider}</span>
              <span className="block text-muted text-small">{countOf(routes, "enabled route")}</span>
            </>
          ),
        },
        { label: "State", small: "aside", cell: (row) => <State health={row} /> },
        {
          label: "Answered in the last hour",
          numeric: true,
          cell: ({ answeredLastHour }) => formatCount(answeredLastHour),
        },
        { label: "Failed in the last hour", numeric: true, cell: ({ failedLastHour }) => formatCount(failedLastHour) },
        { label: "Failures in 24 hours", cell: ({ failures }) => <Failures failures={failures} /> },
      ]}
    />
  );
}

function State({ health: { answeredLastHour, lastAnswerAt, failedLastHour, failures } }: { health: ProviderHealth }) {
  const unpaidAt = failures.find(({ failure }) => failure === "payment_required")?.lastAt;
  if (unpaidAt && (lastAnswerAt === null || lastAnswerAt < unpaidAt)) {
    return <span className="text-bad">Payment required: top up its account or raise its spend limit</span>;
  }
  if (failedLastHour === 0)
    return answeredLastHour > 0 ? "Working" : <span className="text-muted">No recent requests</span>;
  if (answeredLastHour === 0) return <span className="text-bad">Failing</span>;
  return <span className="text-warn">Some failures</span>;
}

function Failures({ failures }: { failures: ProviderHealth["failures"] }) {
  if (failures.length === 0) return <span className="text-muted">None</span>;
  return (
    <ul className="text-small">
      {failures.map(({ failure, failed, lastAt }) => (
        <li key={failure}>
          {attemptResult({ status: null, failure })}: {formatCount(failed)},{" "}
          <span className="text-muted">
            last <RelativeTime at={lastAt} />
          </span>
        </li>
      ))}
    </ul>
  );
}

/** Lists the routes that recent runs skipped. */
export function SkippedTable({ routes }: { routes: readonly SkippedRoute[] }) {
  return (
    <DataTable
      caption="Skipped routes"
      rows={routes}
      rowKey={({ model, provider, providerModel }) => `${model} ${provider} ${providerModel}`}
      empty="No run of the last 15 minutes skipped a route."
      columns={[
        {
          label: "Route",
          cell: ({ model, displayName, provider, providerModel }) => (
            <>
              <span className="font-medium">{displayName ?? model}</span>
              <span className="block break-all text-muted text-small">
                {provider}, {providerModel}
              </span>
            </>
          ),
        },
        { label: "Runs that skipped it", numeric: true, cell: ({ skipped }) => formatCount(skipped) },
        { label: "Last run", small: "aside", cell: ({ lastAt }) => <RelativeTime at={lastAt} /> },
      ]}
    />
  );
}

/** Lists the usage and cost of each provider in all workspaces, by billing account. */
export function ProviderUsageTable({ usage }: { usage: readonly ProviderUsage[] }) {
  return (
    <DataTable
      caption="Usage by provider and account"
      rows={usage}
      rowKey={({ provider, billingName, billingAccount }) => JSON.stringify([provider, billingName, billingAccount])}
      empty="No runs in these days."
      from="lg"
      columns={[
        {
          label: "Provider",
          cell: ({ provider, billingName, billingAccount }) => (
            <>
              <span className="font-medium">{provider ?? "Provider not recorded"}</span>
              <span className="block break-all text-muted text-small">
                {billingAccount === null ? "No account" : `Account ${billingAccount}`}
                {billingName === null || billingName === provider ? "" : `, billed by ${billingName}`}
              </span>
            </>
          ),
        },
        { label: "Runs", numeric: true, cell: ({ requests }) => formatCount(requests) },
        { label: "Failed", numeric: true, cell: ({ failed }) => formatCount(failed) },
        { label: "Input tokens", numeric: true, cell: ({ inputTokens }) => formatCount(inputTokens) },
        { label: "Output tokens", numeric: true, cell: ({ outputTokens }) => formatCount(outputTokens) },
        {
          label: "Cost",
          numeric: true,
          small: "aside",
          cell: ({ costUsd }) => <Usd amount={costUsd} decimals={2} />,
        },
      ]}
    />
  );
}
