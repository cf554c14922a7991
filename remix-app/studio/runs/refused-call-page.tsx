import { refusalDetails } from "#shared/refusal-details.ts";
import { formatExactDateTime } from "../../http/date-text.ts";
import { Card } from "../../ui/card.tsx";
import { FactList } from "../../ui/facts.tsx";
import { formatCount, formatExactCredits, formatExactUsd } from "../../ui/format-amount.ts";
import type { RefusedCall } from "./refused-call.ts";
import { RepeatCard } from "./repeat-card.tsx";
import { ErrorNotice } from "./run-cards.tsx";
import { type AdviceReader, adviseOnError, errorPath } from "./run-errors.ts";
import { describeCredential } from "./run-facts.ts";
import { reasonOf } from "./run-list.tsx";

/** Shows why a call was refused, what to do about it, and the call itself. */
export function RefusedCallView(props: { call: RefusedCall; reader: AdviceReader; gatewayUrl: string }) {
  const { call, reader, gatewayUrl } = props;
  const { action } = adviseOnError(call.errorCode, { ...reader, refused: true });
  const { model, endpoint, feature, streamed } = call;
  return (
    <>
      <ErrorNotice advice={{ sentence: reasonOf(call), action }} />
      <Card
        title="Details"
        lead={
          <>
            The call was refused before a run began. It cost nothing.{" "}
            <a className="link" href={errorPath(call.errorCode)}>
              About {call.errorCode}
            </a>
          </>
        }
      >
        <FactList facts={factsOf(call)} />
      </Card>
      {model === null ? null : (
        <RepeatCard
          call={{ model, endpoint, feature, streamed }}
          workspacePath={reader.workspacePath}
          gatewayUrl={gatewayUrl}
        />
      )}
    </>
  );
}

function factsOf(call: RefusedCall): [string, string][] {
  const facts: [string, string | null | undefined][] = [
    ["Status", `Refused (${call.errorCode})`],
    ["HTTP status", String(call.httpStatus)],
    ["Field", call.param],
    ...limitFacts(call.details),
    ["Time", formatExactDateTime(call.createdAt)],
    ["Model", call.model],
    ["Endpoint", call.endpoint],
    ["Feature", call.feature],
    ["Entity label", call.entityId],
    ["Called with", describeCredential(call)],
    ["App", call.appId && (call.appName ?? `Deleted app ${call.appId}`)],
    [call.keyId ? "Key created by" : "Member", call.memberId && (call.memberName ?? "Deleted account")],
    ["Request ID", call.requestId],
  ];
  return facts.flatMap(([name, value]) => (value ? [[name, value] as [string, string]] : []));
}

/** Returns what the refusal says about the limit, the call's need and what would fit. */
function limitFacts(details: unknown): [string, string | null | undefined][] {
  const { limit, need = {}, fitting_output_limit: fitting } = refusalDetails.safeParse(details ?? {}).data ?? {};
  if (!limit) return [];
  const usd = (amount: number | undefined) => (amount === undefined ? null : formatExactUsd(String(amount)));
  const credits = (amount: number | undefined) =>
    amount === undefined ? null : `${formatExactCredits(String(amount))} credits`;
  const count = (amount: number | undefined, unit = "tokens") =>
    amount === undefined ? null : `${formatCount(amount)} ${unit}`;
  const facts: [string, string | null][] = [];
  if (limit.kind === "budget" || limit.kind === "envelope") {
    facts.push(
      ["Limit", usd(limit.limit_usd)],
      ["Spent", usd(limit.spent_usd)],
      ["Held by calls in progress", usd(limit.reserved_usd)],
      ["Left", usd(limit.remaining_usd)],
    );
    if (limit.kind === "envelope") facts.push(["Limit of calls", count(limit.max_calls ?? undefined, "calls")]);
  } else if (limit.kind === "balance") {
    facts.push(
      ["Balance", credits(limit.balance_credits)],
      ["Held by calls in progress", credits(limit.reserved_credits)],
      ["Left", credits(limit.remaining_credits)],
    );
  } else if (limit.kind === "rate") {
    facts.push(["Limit per minute", count(limit.limit, limit.unit)], ["Left", count(limit.remaining, limit.unit)]);
  } else if (limit.kind === "concurrent") {
    facts.push(["Limit", count(limit.limit, "calls in progress")]);
  } else if (limit.kind !== "provider") {
    facts.push(["Limit", count(limit.limit)]);
  }
  const isUsual = limit.kind === "budget" && need.tokens !== undefined;
  return [
    ...facts,
    [isUsual ? "Cost with the usual output" : "Maximum cost of the call", usd(need.usd) ?? credits(need.credits)],
    [isUsual ? "Usual output" : "Tokens of the call", count(need.tokens)],
    ["Output limit that would fit", count(fitting ?? undefined)],
    ["Resets", "resets_at" in limit && limit.resets_at ? formatExactDateTime(limit.resets_at) : null],
  ];
}
