import type { ReactNode } from "react";
import { Card } from "../../ui/card.tsx";
import { DataTable } from "../../ui/data-table.tsx";
import { FactList } from "../../ui/facts.tsx";
import { formatCount, formatMs } from "../../ui/format-amount.ts";
import { Credits, Usd } from "../../ui/money.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Figures } from "../figures.tsx";
import { isCostUnknown } from "./pricing.ts";
import type { ErrorAdvice } from "./run-errors.ts";
import { attemptResult, capitalised, runFacts, statusNames } from "./run-facts.ts";
import type { RunAttempt, RunSummary } from "./run-schema.ts";
import type { RunDetail } from "./runs.ts";

/** Says in one sentence why a call failed, and what to do about it. */
export function ErrorNotice({ advice: { sentence, action } }: { advice: ErrorAdvice }) {
  return (
    <Notice tone="warn">
      {sentence}{" "}
      <a className="link" href={action.href}>
        {action.label}
      </a>
    </Notice>
  );
}

/** Shows a run's four most important figures. */
export function RunFigures({ run }: { run: RunSummary }) {
  const { status, httpStatus, inputTokens, outputTokens, latencyMs, firstByteMs, costUsd, billedCredits } = run;
  const isUnknown = isCostUnknown(run);
  const tokens = inputTokens + outputTokens;
  return (
    <Figures
      figures={[
        costUsd === null
          ? { label: "Credits", value: <Credits amount={billedCredits} /> }
          : {
              label: "Cost",
              value: <Usd amount={costUsd} isUnknown={isUnknown} />,
              note: <CreditsNote credits={billedCredits} />,
            },
        {
          label: "Tokens",
          value: isUnknown && tokens === 0 ? "–" : formatCount(tokens),
          note: `${formatCount(inputTokens)} in, ${formatCount(outputTokens)} out`,
        },
        {
          label: "Latency",
          value: latencyMs === null ? "–" : formatMs(latencyMs),
          note: firstByteMs === null ? undefined : `First byte after ${formatMs(firstByteMs)}`,
        },
        {
          label: "Status",
          value: <span className={status === "failed" ? "text-bad" : undefined}>{statusNames[status]}</span>,
          note: httpStatus === null ? undefined : `HTTP ${httpStatus}`,
        },
      ]}
    />
  );
}

function CreditsNote({ credits }: { credits: string }) {
  return (
    <>
      <Credits amount={credits} /> credits
    </>
  );
}

/** Shows a run's facts and usage. */
export function RunFactsCard(props: { detail: RunDetail; more?: readonly [string, string][]; children?: ReactNode }) {
  const { detail, more = [], children } = props;
  return (
    <Card title="Details">
      <FactList facts={[...more, ...runFacts(detail)]} />
      {children}
    </Card>
  );
}

/** Links to runs with the same key, member, app or label. */
export function SimilarRuns({ run, runsPath }: { run: RunSummary; runsPath: string }) {
  const filters: (readonly [string, string, string | null])[] = [
    ["Runs with this key", "keyId", run.keyName && run.keyId],
    ["Runs with this app", "appId", run.appId],
    ["Runs by this member", "memberId", run.memberId],
    ["Runs with this entity label", "entityId", run.entityId],
  ];
  return (
    <nav aria-label="Similar runs" className="flex flex-wrap gap-x-4 gap-y-1 pt-4 empty:hidden">
      {filters.flatMap(([label, name, value]) =>
        value === null
          ? []
          : [
              <a key={name} className="link" href={`${runsPath}?${new URLSearchParams({ [name]: value })}`}>
                {label}
              </a>,
            ],
      )}
    </nav>
  );
}

/** Shows a run's requests to providers. Renders nothing if provider cost is hidden. */
export function AttemptsCard({ detail: { run, attempts } }: { detail: RunDetail }) {
  if (attempts === null) return null;
  return (
    <Card title="Provider requests" lead="Each attempt to reach a provider, in order.">
      <DataTable
        caption="Provider requests"
        rows={attempts.map((attempt, index) => ({ ...attempt, number: index + 1 }))}
        rowKey={({ number }) => String(number)}
        empty={run.status === "running" ? "No requests yet." : "No provider requests were recorded."}
        columns={[
          {
            label: "Provider",
            cell: ({ number, route, provider, model, region }) => (
              <>
                <span className="block font-medium">
                  {number}. {provider}
                </span>
                <span className="block break-all text-muted text-small">
                  {model} (route {route}
                  {region ? `, region ${region}` : ""})
                </span>
              </>
            ),
          },
          { label: "Result", small: "aside", cell: (attempt) => <Result attempt={attempt} /> },
          {
            label: "Provider request ID",
            cell: ({ upstreamRequestId }) => <span className="break-all text-small">{upstreamRequestId ?? "–"}</span>,
          },
          {
            label: "Time",
            numeric: true,
            cell: ({ failure, latencyMs }) => (failure === "skipped" ? "–" : formatMs(latencyMs)),
          },
        ]}
      />
    </Card>
  );
}

function Result({ attempt }: { attempt: RunAttempt }) {
  const { failure, mayHaveCharged } = attempt;
  const harmless = failure === null || failure === "skipped" || failure === "cancelled";
  return (
    <>
      <span className={harmless ? "" : "text-bad"}>{attemptResult(attempt)}</span>
      {mayHaveCharged ? <span className="block text-small text-warn">May have been charged</span> : null}
    </>
  );
}

/** The names of steps, by type. A `retry` is an attempt that was followed by another attempt. */
const stepNames: Readonly<Record<string, string>> = { retry: "Attempt" };

export function StepsCard({ detail: { run, steps } }: { detail: RunDetail }) {
  return (
    <Card title="Steps" lead="What the run did, in order.">
      {steps.length === 0 ? (
        <p className="text-muted">{run.status === "running" ? "No steps yet." : "No steps were recorded."}</p>
      ) : null}
      <ol>
        {steps.map(({ step, type, name, status, latencyMs }) => (
          <li
            key={step}
            className="flex flex-wrap justify-between gap-x-6 gap-y-1 border-line py-2.5 not-first:border-t first:pt-0 last:pb-0"
          >
            <span>
              {step}. {stepNames[type] ?? capitalised(type)}: {name}
            </span>
            <span className={`tabular-nums ${status === "failed" ? "text-bad" : "text-muted"}`}>
              {capitalised(status)} · {formatMs(latencyMs)}
            </span>
          </li>
        ))}
      </ol>
    </Card>
  );
}
