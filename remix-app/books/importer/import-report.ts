import { createHash } from "node:crypto";
import { z } from "zod";
import { logWarning } from "#shared/log.ts";
import type { Env } from "../../config/env.server.ts";
import { collectCosts } from "../../studio/costs/files/collect-costs.ts";
import { type CostImportDocument, costImportDocument } from "../../studio/costs/files/import-document.ts";
import { createServiceClient } from "../../supabase/data-api.ts";
import type { CostProvider } from "./cost-provider.ts";
import { addDays, type CostReport, type CostSource, incompleteDay, laterDay, readReport } from "./read-report.ts";

/** The number of days that each import reads again, because providers correct recent days. */
const overlapDays = 7;
/** The maximum number of daily totals in one call of the database, unless a single day has more. */
const maxCallTotals = 2_000;
/** Shorter than the lease of a claim. */
const attemptMs = 4 * 60_000;
const databaseTimeoutMs = 30_000;

const claimSchema = z.object({ lease: z.uuid(), lastCompleteDay: z.iso.date().nullable() }).nullable();
const storedSchema = z.object({ outcome: z.enum(["stored", "lost", "changed", "invalid"]) });

type ImportContext = {
  env: Pick<Env, "SUPABASE_URL" | "SUPABASE_SECRET_KEY">;
  signal: AbortSignal;
  pageTimeoutMs?: number;
};

/**
 * Imports the days that a provider's report has and the platform's book lacks, and reads the last days again for
 * corrections. Does nothing if no attempt is due, or if another server makes it. A failure at the provider is recorded
 * for the console and logged.
 * @throws Error if the database does not answer
 */
export async function importReport(source: CostSource, context: ImportContext): Promise<void> {
  const { provider } = source;
  const call = createCaller(context.env, provider.id);
  const claim = claimSchema.parse(await call("claim_cost_import"));
  if (claim === null) return;
  const { lease, lastCompleteDay } = claim;
  const today = incompleteDay(new Date());
  const from = firstDay(provider, { today, lastCompleteDay });
  const signal = AbortSignal.any([context.signal, AbortSignal.timeout(attemptMs)]);
  const { pageTimeoutMs: timeoutMs } = context;
  const report = await readReport(source, { from, to: today, signal, ...(timeoutMs && { timeoutMs }) });
  const outcome = await storeDays(report, {
    from,
    provider,
    store: (args) => call("store_imported_costs", { held_lease: lease, ...args }),
  });
  if (outcome === "lost") return;
  const { error, ...rest } = resultOf(report, { outcome, provider, today });
  if (error !== null && !rest.is_late) logWarning(`import of ${provider.id}'s costs: ${error}`);
  await call("finish_cost_import", { held_lease: lease, error, ...rest });
}

function firstDay(
  { firstDays, maxDays }: CostProvider,
  { today, lastCompleteDay }: { today: string; lastCompleteDay: string | null },
): string {
  if (lastCompleteDay === null) return addDays(today, -firstDays);
  const again = addDays(lastCompleteDay, 1 - overlapDays);
  return maxDays === undefined ? again : laterDay(again, addDays(today, -maxDays));
}

type StoreArgs = { first_day: string; last_day: string; document: object };

/** Stores a report's days in order. @returns the first outcome that is not "stored", otherwise "stored" */
async function storeDays(
  { days, end }: CostReport,
  { from, provider, store }: { from: string; provider: CostProvider; store: (args: StoreArgs) => Promise<unknown> },
): Promise<z.output<typeof storedSchema>["outcome"]> {
  let first = from;
  for (const part of splitDays(days)) {
    const document = documentOf(part, { provider });
    const last = part.at(-1)?.day ?? first;
    const { outcome } = storedSchema.parse(await store({ first_day: first, last_day: last, document }));
    if (outcome !== "stored") return outcome;
    first = addDays(last, 1);
  }
  if (first !== end) throw new Error(`stored ${provider.id}'s days up to ${first} instead of ${end}`);
  return "stored";
}

function splitDays(days: CostReport["days"]): CostReport["days"][] {
  const parts: CostReport["days"][] = [];
  let totals = 0;
  for (const day of days) {
    const accounts = new Set(day.lines.map((line) => ("skipped" in line ? null : line.account))).size;
    const part = parts.at(-1);
    if (part && totals + accounts <= maxCallTotals) part.push(day);
    else {
      parts.push([day]);
      totals = 0;
    }
    totals += accounts;
  }
  return parts;
}

/**
 * Returns the document of a cost file with the same days. Costs without an account get the account `default`. Without any
 * costs, the document has no days.
 */
function documentOf(days: CostReport["days"], { provider }: { provider: CostProvider }): CostImportDocument {
  const costs = collectCosts({ account: "default" });
  for (const { day, lines } of days) for (const line of lines) costs.add(line, `${provider.name} ${day}`);
  const [own] = costs.providers();
  const file = {
    format: `${provider.id}-api`,
    fileName: `${provider.name} API, ${days[0]?.day} to ${days.at(-1)?.day}`,
    sha256: createHash("sha256")
      .update(JSON.stringify(own?.days ?? []))
      .digest("hex"),
  };
  if (!own) return { provider: provider.id, ...file, timeZone: "UTC", rates: {}, days: [] };
  return costImportDocument(file, own, { provider: provider.id });
}

/** Returns the arguments of private.finish_cost_import. */
function resultOf(
  { end, failure }: CostReport,
  { outcome, provider, today }: { outcome: "stored" | "changed" | "invalid"; provider: CostProvider; today: string },
): { error: string | null; is_late?: true; retry_after_seconds?: number } {
  const { name } = provider;
  if (outcome === "changed") return { error: "A file with the same days was being imported. The import is repeated." };
  if (outcome === "invalid") return { error: `${name} states costs that can’t be stored. Import them from a file.` };
  if (failure) return { error: failure.message, retry_after_seconds: failure.retryAfterSeconds };
  if (end >= today) return { error: null };
  return { error: `${name} has not answered ${end} yet. It is asked again in an hour.`, is_late: true };
}

function createCaller(env: ImportContext["env"], provider: string) {
  const database = createServiceClient(env, { timeoutMs: databaseTimeoutMs }).schema("private");
  return async (name: string, args: object = {}): Promise<unknown> => {
    const { data, error } = await database.rpc(name, { of_provider: provider, ...args });
    if (error) throw new Error(`${name}: ${error.code} ${error.message}`);
    return data;
  };
}
