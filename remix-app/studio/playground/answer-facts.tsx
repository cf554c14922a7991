import { Link } from "@remix-run/react";
import { Credits, Usd } from "../../ui/money.tsx";
import type { RunFacts } from "./run-facts.ts";

const counts = new Intl.NumberFormat("en");

/** What an answer used and cost, and where the run stands. */
export function AnswerFacts({ facts, workspaceId }: { facts: RunFacts; workspaceId: string }) {
  const { runId, inputTokens, outputTokens, costUsd, billedCredits, latencyMs, firstTokenMs } = facts;
  return (
    <ul aria-label="About this answer" className="flex flex-wrap gap-x-4 gap-y-1 text-muted text-small tabular-nums">
      {inputTokens === undefined ? null : <li>{counts.format(inputTokens)} tokens in</li>}
      {outputTokens === undefined ? null : <li>{counts.format(outputTokens)} tokens out</li>}
      {costUsd === undefined ? null : (
        <li>
          <Usd amount={costUsd} />
        </li>
      )}
      {billedCredits === undefined ? null : (
        <li>
          <Credits amount={billedCredits} /> credits
        </li>
      )}
      {firstTokenMs === undefined ? null : <li>first token after {durationOf(firstTokenMs)}</li>}
      {latencyMs === undefined ? null : <li>{durationOf(latencyMs)} in all</li>}
      {runId === undefined ? null : (
        <li>
          <Link className="link inline-block min-w-6" to={`/workspaces/${workspaceId}/ai/runs/${runId}`}>
            Run
          </Link>
        </li>
      )}
    </ul>
  );
}

function durationOf(milliseconds: number): string {
  return milliseconds < 1_000 ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1_000).toFixed(1)} s`;
}
