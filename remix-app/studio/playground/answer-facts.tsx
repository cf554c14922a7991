import { CircleCheck, TriangleAlert } from "lucide-react";
import { Credits, Usd } from "../../ui/money.tsx";
import type { RunFacts } from "./run-facts.ts";

const counts = new Intl.NumberFormat("en");

/** Shows an answer's usage and cost, with a link to its run. */
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
      {latencyMs === undefined ? null : <li>{durationOf(latencyMs)} in total</li>}
      {runId === undefined ? null : (
        <li>
          <a className="link inline-block min-w-6" href={`/workspaces/${workspaceId}/ai/runs/${runId}`}>
            View run
          </a>
        </li>
      )}
    </ul>
  );
}

function durationOf(milliseconds: number): string {
  return milliseconds < 1_000 ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1_000).toFixed(1)} s`;
}

/**
 * Shows an answer to a request for JSON, and whether the answer has the requested format.
 * @param props.schemaValid the gateway's verdict; if undefined, only the JSON syntax is checked
 */
export function StructuredAnswer({ text, schemaValid }: { text: string; schemaValid: boolean | undefined }) {
  const value = tryParseJson(text);
  const check = checkSchema(value !== undefined, schemaValid);
  const Icon = check.good ? CircleCheck : TriangleAlert;
  return (
    <>
      <pre className="whitespace-pre-wrap break-words rounded-card border border-line p-3 font-mono text-small">
        {value === undefined ? text : JSON.stringify(value, null, 2)}
      </pre>
      <p className={`flex items-center gap-1.5 text-small ${check.good ? "text-good" : "text-warn"}`}>
        <Icon aria-hidden="true" className="size-4 shrink-0" />
        {check.text}
      </p>
    </>
  );
}

function checkSchema(isJson: boolean, schemaValid: boolean | undefined): { good: boolean; text: string } {
  if (!isJson) return { good: false, text: "This isn’t JSON." };
  if (schemaValid === undefined) return { good: true, text: "This is JSON." };
  return schemaValid
    ? { good: true, text: "It matches the schema." }
    : { good: false, text: "It doesn’t match the schema." };
}

function tryParseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
