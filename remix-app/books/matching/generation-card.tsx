import { addAmounts } from "#shared/decimal.ts";
import { subtractAmounts } from "../../studio/costs/difference.ts";
import { Incomparable } from "../../studio/costs/difference-text.tsx";
import { RoundingNote } from "../../studio/costs/rounding-note.tsx";
import { AccountForm } from "../../ui/account-form.tsx";
import { Button } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { DataTable } from "../../ui/data-table.tsx";
import { DotSeparated } from "../../ui/facts.tsx";
import { columnDecimals, countOf, formatCount } from "../../ui/format-amount.ts";
import { ExactTime } from "../../ui/moment.tsx";
import { Usd } from "../../ui/money.tsx";
import { Notice } from "../../ui/notice.tsx";
import { PageNav } from "../../ui/page-nav.tsx";
import { useSite } from "../../ui/site.ts";
import { WorkspaceLink } from "../workspace-link.tsx";
import type { GenerationsOutcome } from "./fetch-generations.ts";
import type { GenerationComparison, GenerationFigures, GenerationRun, GenerationState } from "./read-generations.ts";

const labels: Record<GenerationState, string> = {
  differs: "Different cost",
  unknown: "Not known to OpenRouter",
  unnamed: "Without a generation ID",
  pending: "Not asked yet",
  equal: "Same cost",
};

type Line = Pick<GenerationFigures, "runs" | "calls" | "meteredUsd" | "chargedUsd"> & {
  state: GenerationState | "all";
  differenceUsd: string | null;
};

/**
 * Compares a day's runs at OpenRouter with what OpenRouter charged for their calls. Its form asks OpenRouter.
 * @param props.outcome what became of the request that this page answers, if any
 */
export function GenerationCard({
  comparison,
  outcome,
}: {
  comparison: GenerationComparison;
  outcome: GenerationsOutcome | null;
}) {
  const { states, runs, total, skipped } = comparison;
  const ownKeyUsd = sumOf(states.map((each) => each.ownKeyUsd ?? "0"));
  const shown = skipped + runs.length;
  return (
    <Card
      id="generations"
      title="Calls"
      lead="What OpenRouter charged for each call, and what the runs cost in these books. A run with several calls is compared as a whole."
    >
      <div className="space-y-4">
        {outcome ? <Outcome outcome={outcome} /> : null}
        <Progress comparison={comparison} outcome={outcome} />
        <Summary lines={linesOf(states)} />
        {Number(ownKeyUsd) > 0 ? (
          <p className="max-w-prose text-muted text-small">
            Other providers charged <Usd amount={ownKeyUsd} /> for calls with your own keys. OpenRouter charges only its
            fee for these, so they cost less at OpenRouter than in these books.
          </p>
        ) : null}
        {total > 0 ? (
          <div>
            <Runs runs={runs} />
            {total > runs.length && runs.length > 0 ? (
              <p className="mt-4 text-muted">
                {`Runs ${formatCount(skipped + 1)} to ${formatCount(shown)} of ${formatCount(total)}.`}
              </p>
            ) : null}
            <PageNav
              label="Pages of runs"
              nextCursor={runs.length > 0 && shown < total ? String(shown) : null}
              param="runs"
              card="generations"
            />
          </div>
        ) : null}
      </div>
    </Card>
  );
}

function Outcome({ outcome: { answered, unknown, remaining, failure } }: { outcome: GenerationsOutcome }) {
  const parts = [
    `OpenRouter answered ${countOf(answered, "call")}`,
    unknown > 0 ? `and doesn’t know ${formatCount(unknown)} of them` : "",
  ];
  const wait =
    failure && failure.retryAfterSeconds > 0 ? ` Ask again in ${countOf(failure.retryAfterSeconds, "second")}.` : "";
  return (
    <Notice tone={failure ? "warn" : "good"}>
      <p>{`${parts.filter(Boolean).join(" ")}.${remaining > 0 ? ` ${countOf(remaining, "call")} left to ask.` : ""}`}</p>
      {failure ? <p className="wrap-anywhere">{`${failure.message}${wait}`}</p> : null}
    </Notice>
  );
}

/** Says how many calls were asked, with the forms that ask for more. */
function Progress({
  comparison: { states, asOf, missingKey },
  outcome,
}: {
  comparison: GenerationComparison;
  outcome: GenerationsOutcome | null;
}) {
  const countAll = (name: "named" | "pending" | "unknown") => states.reduce((sum, each) => sum + each[name], 0);
  const [named, pending] = [countAll("named"), countAll("pending")];
  if (named === 0) return null;
  const requests = requestsOf({ named, pending, unknown: countAll("unknown"), asOf, outcome });
  return (
    <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
      <p>{`${formatCount(named - pending)} of ${countOf(named, "call")} asked.`}</p>
      {missingKey === null ? (
        requests.map(({ label, observedBefore }) => (
          <AccountForm key={label}>
            {observedBefore === undefined ? null : <input type="hidden" name="observedBefore" value={observedBefore} />}
            <Button variant={pending > 0 ? "primary" : "secondary"}>{label}</Button>
          </AccountForm>
        ))
      ) : (
        <p className="text-muted">
          Set <code className="wrap-anywhere">{missingKey}</code> on the web servers to ask OpenRouter.
        </p>
      )}
    </div>
  );
}

/** Returns what a person can ask for. Calls without an answer come before calls that are asked again. */
function requestsOf({
  named,
  pending,
  unknown,
  asOf,
  outcome,
}: Record<"named" | "pending" | "unknown", number> & {
  asOf: string;
  outcome: GenerationsOutcome | null;
}): { label: string; observedBefore?: string }[] {
  if (outcome?.observedBefore && outcome.remaining > 0) {
    return [{ label: "Ask again for the rest", observedBefore: outcome.observedBefore }];
  }
  if (pending > 0) return [{ label: pending < named ? "Ask for the rest" : "Ask OpenRouter for these calls" }];
  const again = unknown > 0 ? [{ label: "Ask again for unknown calls" }] : [];
  return [...again, { label: "Ask again for all calls", observedBefore: asOf }];
}

/** Returns whether OpenRouter was asked about all calls of runs in a state. Others can't be compared. */
function isComplete(state: GenerationState): boolean {
  return state !== "pending" && state !== "unnamed";
}

/** Returns the lines of the states and their sum. Runs whose calls were not all asked are not compared. */
function linesOf(states: readonly GenerationFigures[]): Line[] {
  const lines = states.map((figures): Line => {
    const { state, meteredUsd, chargedUsd } = figures;
    return { ...figures, differenceUsd: isComplete(state) ? subtractAmounts(chargedUsd, meteredUsd) : null };
  });
  if (lines.length === 0) return [];
  const differences = lines.flatMap(({ differenceUsd }) => differenceUsd ?? []);
  const all: Line = {
    state: "all",
    runs: lines.reduce((sum, { runs }) => sum + runs, 0),
    calls: lines.reduce((sum, { calls }) => sum + calls, 0),
    meteredUsd: sumOf(lines.map(({ meteredUsd }) => meteredUsd)),
    chargedUsd: sumOf(lines.map(({ chargedUsd }) => chargedUsd)),
    differenceUsd: differences.length < lines.length ? null : sumOf(differences),
  };
  return [...lines, all];
}

const sumOf = (amounts: readonly string[]) => amounts.reduce(addAmounts, "0");

const amountColumns = [
  ["chargedUsd", "OpenRouter"],
  ["meteredUsd", "Metered"],
  ["differenceUsd", "OpenRouter − metered"],
] as const;

function Summary({ lines }: { lines: readonly Line[] }) {
  const decimals = columnDecimals(lines.flatMap((line) => amountColumns.map(([name]) => line[name])));
  const sums = amountColumns.map(([name, label]) => ({
    label,
    rows: lines.slice(0, -1).map((line) => line[name]),
    total: lines.at(-1)?.[name] ?? null,
    decimals,
  }));
  const [charged, metered, difference] = amountColumns.map(([name, label]) => ({
    label,
    numeric: true,
    cell: (line: Line) => (line[name] === null ? <Incomparable /> : <Usd amount={line[name]} decimals={decimals} />),
  }));
  if (!charged || !metered || !difference) return null;
  return (
    <div>
      <DataTable
        caption="Runs by what OpenRouter answered"
        rows={lines}
        rowKey={({ state }) => state}
        empty="No run of this day called OpenRouter."
        columns={[
          {
            label: "Runs",
            cell: ({ state }) => (state === "all" ? <span className="font-medium">Total</span> : labels[state]),
          },
          { label: "Number", numeric: true, cell: ({ runs }) => formatCount(runs) },
          { label: "Calls", numeric: true, cell: ({ calls }) => formatCount(calls) },
          charged,
          metered,
          { ...difference, small: "aside" },
        ]}
      />
      <RoundingNote sums={sums} exact="shown on hover" />
    </div>
  );
}

function Runs({ runs }: { runs: readonly GenerationRun[] }) {
  const decimals = columnDecimals(runs.flatMap((run) => [run.chargedUsd, run.meteredUsd, run.differenceUsd]));
  const opensRuns = useSite()?.user?.consoleRole === "admin";
  return (
    <DataTable
      caption="Runs that differ, or could not be compared"
      rows={runs}
      rowKey={({ runId }) => runId}
      empty="No runs on this page."
      from="lg"
      columns={[
        {
          label: "Run",
          cell: ({ runId, createdAt, workspaceId, workspaceName, modelId }) => (
            <>
              {opensRuns ? (
                <a className="link" href={`/admin/runs/${runId}`}>
                  <ExactTime at={createdAt} />
                </a>
              ) : (
                <span title={runId}>
                  <ExactTime at={createdAt} />
                </span>
              )}
              <span className="wrap-anywhere block text-muted text-small">
                <DotSeparated
                  facts={[
                    workspaceName === null ? (
                      "Deleted workspace"
                    ) : (
                      <WorkspaceLink key="workspace" workspaceId={workspaceId} name={workspaceName} />
                    ),
                    modelId,
                  ]}
                />
              </span>
            </>
          ),
        },
        { label: "Finding", cell: (run) => findingOf(run) },
        { label: "OpenRouter", numeric: true, cell: (run) => <Usd amount={run.chargedUsd} decimals={decimals} /> },
        { label: "Metered", numeric: true, cell: (run) => <Usd amount={run.meteredUsd} decimals={decimals} /> },
        {
          label: "OpenRouter − metered",
          numeric: true,
          small: "aside",
          cell: ({ state, differenceUsd }) =>
            isComplete(state) ? <Usd amount={differenceUsd} decimals={decimals} /> : <Incomparable />,
        },
      ]}
    />
  );
}

function findingOf({ state, calls, ownKeyUsd }: GenerationRun): string {
  return [labels[state], calls > 1 ? `${formatCount(calls)} calls` : "", ownKeyUsd === null ? "" : "own key"]
    .filter(Boolean)
    .join(", ");
}
