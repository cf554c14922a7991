import { useLocation } from "@remix-run/react";
import { formatExactDateTime } from "../../http/date-text.ts";
import { Choices } from "../../studio/choices.tsx";
import { AccountForm } from "../../ui/account-form.tsx";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { DataTable } from "../../ui/data-table.tsx";
import { columnDecimals, countOf, formatCount } from "../../ui/format-amount.ts";
import { ExactTime } from "../../ui/moment.tsx";
import { Usd } from "../../ui/money.tsx";
import { useSite } from "../../ui/site.ts";
import { WorkspaceLink } from "../workspace-link.tsx";
import { HourTable, hourText, KeyTable, lineQuery } from "./hour-tables.tsx";
import type { ComparedHours, HourCall } from "./hours.ts";

/** So that the page stays below 100 KB. */
const linesShown = 15;
const unknownLinesShown = 10;
const keysShown = 15;

const notes = {
  closed: "Ended without a result",
  estimated: "Estimated",
  uncounted: "A failed request may have been charged",
} as const;

type RequestedSource = { name: string; keySetting: string; isConfigured: boolean };

/** Asks a provider for its hours, and shows their comparison with the calls once it has answered. */
export function HourCards({
  source,
  ...comparison
}: {
  compared: ComparedHours;
  /** How many calls of the chosen line earlier pages list. */
  skippedCalls: number;
  source: RequestedSource;
  file: string;
}) {
  const { observedAt } = comparison.compared;
  return (
    <>
      <RequestCard source={source} observedAt={observedAt} />
      {observedAt === null ? null : <ComparisonCards {...comparison} name={source.name} />}
    </>
  );
}

function RequestCard({
  source: { name, keySetting, isConfigured },
  observedAt,
}: {
  source: RequestedSource;
  observedAt: string | null;
}) {
  return (
    <Card
      title="Provider’s counts"
      lead={
        observedAt ? (
          <>
            {name} was asked at <ExactTime at={observedAt} />. Ask again if it has corrected the day since.
          </>
        ) : (
          `${name} hasn’t been asked about this day.`
        )
      }
      action={
        isConfigured ? (
          <AccountForm>
            <Button variant={observedAt ? "secondary" : "primary"}>Ask {name} for its hours</Button>
          </AccountForm>
        ) : undefined
      }
    >
      {isConfigured ? null : (
        <p className="text-warn">
          Not configured. Set <code className="wrap-anywhere">{keySetting}</code> on the web servers.
        </p>
      )}
    </Card>
  );
}

/** Compares the hours with the calls of each hour, and lists the calls of one line. */
function ComparisonCards({
  compared,
  skippedCalls,
  name,
  file,
}: {
  compared: ComparedHours;
  skippedCalls: number;
  name: string;
  file: string;
}) {
  const params = new URLSearchParams(useLocation().search);
  const showsAll = params.get("show") === "all";
  const keep: Record<string, string> = showsAll ? { show: "all" } : {};
  const { keys, lines, calls } = compared;
  const known = lines.filter(({ isKnown, differs }) => isKnown && (showsAll || differs));
  const unknown = lines.filter(({ isKnown, differs }) => !isKnown && differs);
  return (
    <>
      <Card
        id="hours"
        title="Hours"
        lead={`What ${name} counted beyond our calls, by hour and model, in UTC. ${name} may count a call that crosses an hour in the hour after.`}
        action={<ButtonLink href={file}>Download CSV</ButtonLink>}
      >
        <div className="mb-4">
          <Choices
            label="Lines"
            name="show"
            options={[
              { value: "", label: "Differing" },
              { value: "all", label: "All" },
            ]}
            chosen={showsAll ? "all" : ""}
          />
        </div>
        <HourTable
          lines={known.slice(0, linesShown)}
          name={name}
          keep={keep}
          empty={
            showsAll
              ? "No calls were made on this day."
              : "Each hour agrees with our calls, for all models that we called."
          }
        />
        <Rest shown={linesShown} total={known.length} what="lines" />
      </Card>
      {calls ? <CallCard calls={calls} skip={skippedCalls} keep={keep} /> : null}
      {unknown.length > 0 ? (
        <Card
          title="Models without calls"
          lead={`${name} counted these models, and no call of the day used them. Their requests didn’t pass the gateway, or it calls the model by another name.`}
        >
          <HourTable
            lines={unknown.slice(0, unknownLinesShown)}
            name={`${name} without calls`}
            keep={keep}
            empty={null}
          />
          <Rest shown={unknownLinesShown} total={unknown.length} what="lines" />
        </Card>
      ) : null}
      <Card
        id="keys"
        title="Keys"
        lead={`Mark the keys that only this gateway uses. What other keys used is then not compared with our calls. Until you mark a key of ${name}, all count.`}
      >
        <KeyTable keys={keys.slice(0, keysShown)} name={name} />
        <Rest shown={keysShown} total={keys.length} what="keys" />
      </Card>
    </>
  );
}

function Rest({ shown, total, what }: { shown: number; total: number; what: string }) {
  if (total <= shown) return null;
  return (
    <p className="mt-3 text-muted text-small">
      The first {shown} of {formatCount(total)} {what} are shown. All are in the CSV.
    </p>
  );
}

function CallCard({
  calls: { hour, model, total, records },
  skip,
  keep,
}: {
  calls: NonNullable<ComparedHours["calls"]>;
  skip: number;
  keep: Record<string, string>;
}) {
  const query = lineQuery({ hour, model }, keep);
  const end = skip + records.length;
  const decimals = columnDecimals(records.map(({ costUsd }) => costUsd));
  return (
    <Card
      id="calls"
      title={`Calls of ${hourText(hour)}`}
      lead={
        <>
          {countOf(total, "call")} of <span className="break-all">{model}</span> began in this hour. The cost is that of
          the whole run.
        </>
      }
    >
      <DataTable
        caption={`Calls of ${hourText(hour)} with ${model}`}
        rows={records}
        rowKey={({ runId }) => runId}
        empty="No more calls."
        from="lg"
        columns={[
          { label: "Time", cell: (call) => <CallName call={call} /> },
          {
            label: "Workspace",
            cell: ({ workspaceId, workspaceName }) =>
              workspaceName === null ? "Deleted" : <WorkspaceLink workspaceId={workspaceId} name={workspaceName} />,
          },
          { label: "Requests", numeric: true, cell: ({ requests }) => formatCount(requests) },
          { label: "Input tokens", numeric: true, cell: ({ inputTokens }) => formatCount(inputTokens) },
          { label: "Cached", numeric: true, cell: ({ cachedInputTokens }) => formatCount(cachedInputTokens) },
          { label: "Output tokens", numeric: true, cell: ({ outputTokens }) => formatCount(outputTokens) },
          {
            label: "Cost",
            numeric: true,
            small: "aside",
            cell: ({ costUsd }) => <Usd amount={costUsd} decimals={decimals} />,
          },
        ]}
      />
      {total > records.length ? (
        <nav aria-label="Pages of calls" className="mt-4 flex flex-wrap items-center gap-3">
          <span className="text-muted">
            {formatCount(skip + 1)} to {formatCount(end)} of {formatCount(total)}
          </span>
          {skip > 0 ? <ButtonLink href={`${query}#calls`}>First page</ButtonLink> : null}
          {end < total ? <ButtonLink href={`${query}&skip=${end}#calls`}>Next page</ButtonLink> : null}
        </nav>
      ) : null}
    </Card>
  );
}

/** Names a call by its time, which links to its run for people who may open it, or by its run's id. */
function CallName({ call: { runId, createdAt, note } }: { call: HourCall }) {
  const isAdmin = useSite()?.user?.consoleRole === "admin";
  const time = (
    <time dateTime={createdAt} title={formatExactDateTime(createdAt)}>
      {createdAt.slice(11, 19)}
    </time>
  );
  return (
    <>
      {isAdmin ? (
        <a className="link tabular-nums" href={`/admin/runs/${runId}`}>
          {time}
        </a>
      ) : (
        <>
          {time}
          <span className="block break-all font-normal text-muted text-small">Run {runId}</span>
        </>
      )}
      {note ? <span className="block font-normal text-small text-warn">{notes[note]}</span> : null}
    </>
  );
}
