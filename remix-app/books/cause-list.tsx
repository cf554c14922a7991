import { formatDay } from "../http/date-text.ts";
import { Usd } from "../ui/money.tsx";
import { type DifferenceCause, describeDifferenceCause, workspacesOf } from "./causes.ts";
import { WorkspaceLink } from "./workspace-link.tsx";

/** Lists the likely causes of a difference, most likely first. Each says what to do and which workspaces to check. */
export function CauseList({ causes }: { causes: readonly DifferenceCause[] }) {
  return (
    <ol className="divide-y divide-line">
      {causes.map((cause) => {
        const { what, next } = describeDifferenceCause(cause);
        const workspaces = workspacesOf(cause);
        return (
          <li key={keyOf(cause)} className="flex flex-wrap justify-between gap-x-6 gap-y-1 py-4 first:pt-0 last:pb-0">
            <div className="wrap-anywhere min-w-0 flex-1 basis-80 space-y-1">
              <p className="max-w-prose font-medium">{what}</p>
              <p className="max-w-prose text-muted">{next}</p>
              {workspaces.length > 0 ? (
                <ul className="flex flex-wrap gap-x-4 text-small">
                  {workspaces.slice(0, maxLinks).map(({ workspaceId, name }) =>
                    name === null ? null : (
                      <li key={workspaceId}>
                        <WorkspaceLink workspaceId={workspaceId} name={name} />
                      </li>
                    ),
                  )}
                </ul>
              ) : null}
              {cause.kind === "workspace_costs_above_metered" && cause.days.length > 0 ? (
                <details>
                  <summary className="min-h-6 w-fit cursor-pointer rounded-button text-muted text-small hover:text-ink">
                    Days
                  </summary>
                  <ul className="mt-1 space-y-0.5 text-small tabular-nums">
                    {cause.days.map(({ day, amountUsd }) => (
                      <li key={day}>
                        {formatDay(day)}: <Usd amount={amountUsd} />
                      </li>
                    ))}
                  </ul>
                </details>
              ) : null}
            </div>
            {cause.amountUsd === null ? null : (
              <p className="ml-auto whitespace-nowrap font-medium tabular-nums">
                <Usd amount={cause.amountUsd} />
              </p>
            )}
          </li>
        );
      })}
    </ol>
  );
}

const maxLinks = 10;

function keyOf(cause: DifferenceCause): string {
  return `${cause.kind} ${"workspaceId" in cause ? cause.workspaceId : ""} ${"accountId" in cause ? cause.accountId : ""}`;
}
