import { attemptResult } from "../studio/runs/run-facts.ts";
import { DataTable } from "../ui/data-table.tsx";
import { countOf, formatCount } from "../ui/format-amount.ts";
import { ExactTime, RelativeTime } from "../ui/moment.tsx";
import { Usd } from "../ui/money.tsx";
import { describeRouteState, noRecentCalls, stateTones } from "./provider-trouble.ts";
import type { ProviderUsage } from "./provider-usage.ts";
import type { RouteState, RouteStates } from "./providers.ts";

/** Lists the routes with their states, those in trouble first. Only counts those without recent calls. */
export function RouteStateTable({ states: { routes, count } }: { states: RouteStates }) {
  const called = routes.filter((route) => !isIdle(route));
  const others = count - called.length;
  // Idle routes are last in the order, so there are no others after the first of them.
  const areIdle = called.length < routes.length;
  return (
    <>
      <DataTable
        caption="States of routes"
        rows={called}
        rowKey={({ provider, providerModel, endpoint }) => `${provider} ${providerModel} ${endpoint ?? ""}`}
        empty={
          count === 0 ? "No enabled model has an enabled route. Add a route on the Models page." : "No recent calls."
        }
        from="lg"
        columns={[
          {
            label: "Route",
            cell: ({ provider, providerModel, models, endpoint }) => (
              <>
                <span className="wrap-anywhere font-medium">
                  {provider}, {providerModel}
                </span>
                <span className="wrap-anywhere block text-muted text-small">
                  {models.join(", ")}
                  {endpoint === null ? "" : ` · ${endpoint}`}
                </span>
              </>
            ),
          },
          {
            label: "State",
            cell: (route) => <span className={stateTones[route.state]}>{describeRouteState(route)}</span>,
          },
          { label: "Last answer", cell: ({ answeredAt }) => <LastTime at={answeredAt} /> },
          { label: "Last failure", cell: (route) => <LastFailure route={route} /> },
        ]}
      />
      {others > 0 ? (
        <p className="mt-3 text-muted text-small">
          {areIdle
            ? `No recent calls on ${countOf(others, called.length > 0 ? "other route" : "route")}.`
            : `Shows ${formatCount(called.length)} of ${formatCount(count)} routes, those in trouble first.`}
        </p>
      ) : null}
    </>
  );
}

const isIdle = (route: RouteState) => describeRouteState(route) === noRecentCalls;

function LastTime({ at }: { at: string | null }) {
  return at === null ? <span className="text-muted">None</span> : <RelativeTime at={at} />;
}

function LastFailure({ route: { failure, status, failedAt } }: { route: RouteState }) {
  if (failure === null || failedAt === null) return <span className="text-muted">None</span>;
  return (
    <>
      <span>{attemptResult({ status, failure })}</span>
      <span className="block text-muted text-small">
        <RelativeTime at={failedAt} />, <ExactTime at={failedAt} />
      </span>
      {failure === "payment_required" ? (
        <span className="block text-small">Top up its account or raise its spend limit.</span>
      ) : null}
    </>
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
