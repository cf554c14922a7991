import { describeCallers } from "../studio/providers/failed-callers.ts";
import { attemptResult } from "../studio/runs/run-facts.ts";
import { describeOutage, describeRouteState, type ProviderTrouble } from "./provider-trouble.ts";

/** Lists providers with an outage or failing routes: since when, which routes, and what callers got. */
export function ProviderTroubleList({ providers }: { providers: readonly ProviderTrouble[] }) {
  return (
    <ul className="divide-y divide-line">
      {providers.map((provider) => (
        <li key={provider.providerId} className="space-y-1 py-3 first:pt-0 last:pb-0">
          <p>
            <a href="/admin/providers#health" className="link font-medium">
              {provider.providerId}
            </a>
            {provider.outageSince === null ? null : <span className="ml-2 text-bad">{describeOutage(provider)}</span>}
          </p>
          <ul className="text-small">
            {provider.routes.map((route) => (
              <li key={`${route.model} ${route.endpoint}`} className="wrap-anywhere">
                {route.model}, {route.endpoint}: <span className="text-bad">{describeRouteState(route)}</span>
                {route.failure === null ? null : ` (${attemptResult(route)})`}
              </li>
            ))}
          </ul>
          {provider.routes.length > 0 ? null : (
            <p className="text-small">No route fails now. The outage ends after two minutes without failures.</p>
          )}
          <p className="text-muted text-small">{describeCallers(provider.callers)}</p>
        </li>
      ))}
    </ul>
  );
}
