import { jsonNumber } from "#shared/raw-json.ts";
import { convertAmountsToJsonNumbers } from "../../ui/format-amount.ts";
import { pricingOf } from "./pricing.ts";
import type { RunPricing } from "./pricing-schema.ts";
import type { RunSummary } from "./run-schema.ts";
import type { RunDetail } from "./runs.ts";

/** Formats one run for an API response. */
export function runDetailBody({ run, steps, attempts, unitPrices, ledger, envelopeId, budgets }: RunDetail): object {
  return {
    ...formatRun(run),
    steps,
    attempts,
    unitPrices: convertAmountsToJsonNumbers(unitPrices),
    ledger: ledger.map((entry) => ({ ...entry, credits: jsonNumber(entry.credits) })),
    envelopeId,
    budgets: budgets.map(({ scope, period, subjectId, name }) => ({ scope, period, subjectId, name })),
  };
}

/** Formats a run for an API response. Amounts are JSON numbers with their exact digits. */
export function formatRun(run: RunSummary): object {
  const { priced: _, ...facts } = run;
  return { ...(convertAmountsToJsonNumbers(facts) as object), pricing: pricingBody(pricingOf(run)) };
}

function pricingBody({ calls, markup, ...pricing }: RunPricing): object {
  return {
    ...(convertAmountsToJsonNumbers(pricing) as object),
    markup: markup === null ? null : jsonNumber(markup),
    calls: calls?.map((call) => ({ ...call, multiplier: jsonNumber(call.multiplier) })) ?? null,
  };
}
