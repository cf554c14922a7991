import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { problem } from "../../http/problem.ts";
import { callFunction } from "../../supabase/data-api.ts";
import { costProviders, costSources } from "./cost-sources.ts";

export const importerState = z.object({
  provider: z.string(),
  lastCompleteDay: z.iso.date().nullable(),
  /** Days that the provider no longer reports and that no file has either. */
  missed: z.array(z.object({ from: z.iso.date(), to: z.iso.date() })),
  nextAttemptAt: z.string(),
  lastError: z.string().nullable(),
  failures: z.number(),
  isRunning: z.boolean(),
});

/** A provider whose costs can be imported automatically. */
export type CostImporter = {
  provider: string;
  name: string;
  /** The setting that turns the importer on. */
  keySetting: string;
  isConfigured: boolean;
  /** Null before the first attempt. `isOverdue` means that no server has begun the attempt that is due. */
  state: (z.output<typeof importerState> & { isOverdue: boolean }) | null;
};

/** Longer than an attempt may wait for one of another provider. */
const overdueMs = 15 * 60_000;

/** Returns all importers with their state. @throws Response 503 UNAVAILABLE */
export async function readCostImporters(context: Pick<AppLoadContext, "env" | "requestId">): Promise<CostImporter[]> {
  const schema = z.array(importerState);
  const states = await callFunction(context, { name: "private.read_cost_importers", schema });
  return costProviders.map(({ id, name, settings }) => {
    const state = states.find(({ provider }) => provider === id);
    return {
      provider: id,
      name,
      keySetting: settings.key,
      isConfigured: isConfigured(context, id),
      state: state ? { ...state, isOverdue: isOverdue(state) } : null,
    };
  });
}

function isOverdue({ isRunning, nextAttemptAt }: z.output<typeof importerState>): boolean {
  return !isRunning && Date.parse(nextAttemptAt) < Date.now() - overdueMs;
}

type ImporterChange = { provider: string; actor: string };
type ChangeContext = Pick<AppLoadContext, "env" | "requestId" | "clientAddress">;

/**
 * Makes a provider's next attempt due. A web server begins it within a minute.
 * @throws Response 400 INVALID_REQUEST unless this server has the provider's key, 403 FORBIDDEN, 503 UNAVAILABLE
 */
export async function requestCostImport(context: ChangeContext, change: ImporterChange): Promise<void> {
  const { requestId } = context;
  if (!isConfigured(context, change.provider)) {
    throw problem("INVALID_REQUEST", { requestId, detail: "This provider’s costs aren’t imported automatically." });
  }
  await changeImporter(context, { name: "private.request_cost_import", change: { ...change, reason: "Import now" } });
}

/**
 * Records that the days that an importer missed, up to a day, had no costs.
 * @throws Response 400 INVALID_REQUEST for a text that is not a day, 403 FORBIDDEN, 503 UNAVAILABLE
 */
export async function confirmMissedDays(
  context: ChangeContext,
  { lastDay, ...change }: ImporterChange & { lastDay: string },
): Promise<void> {
  const { requestId } = context;
  if (!z.iso.date().safeParse(lastDay).success) {
    throw problem("INVALID_REQUEST", { requestId, detail: "Choose the days again." });
  }
  const confirmed = { ...change, lastDay, reason: "The missed days had no costs" };
  await changeImporter(context, { name: "private.confirm_missed_days", change: confirmed });
}

async function changeImporter(context: ChangeContext, { name, change }: { name: `private.${string}`; change: object }) {
  const { requestId, clientAddress: ip } = context;
  const schema = z.object({ refused: z.literal("forbidden").optional() });
  const { refused } = await callFunction(context, { name, args: { change: { ...change, requestId, ip } }, schema });
  if (refused) throw problem("FORBIDDEN", { requestId, detail: "You can’t import costs into the platform’s books." });
}

function isConfigured({ env }: Pick<AppLoadContext, "env">, id: string): boolean {
  return costSources(env).some(({ provider }) => provider.id === id);
}
