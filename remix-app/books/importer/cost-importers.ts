import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { problem } from "../../http/problem.ts";
import { callFunction } from "../../supabase/data-api.ts";
import { costProviders, costSources } from "./cost-sources.ts";

const importerState = z.object({
  provider: z.string(),
  lastCompleteDay: z.iso.date().nullable(),
  /** Days that the provider no longer reports and that no file has either. */
  missed: z.object({ from: z.iso.date(), to: z.iso.date() }).nullable(),
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

/**
 * Makes a provider's next attempt due. A web server begins it within a minute.
 * @throws Response 400 INVALID_REQUEST unless this server has the provider's key, 403 FORBIDDEN, 503 UNAVAILABLE
 */
export async function requestCostImport(
  context: Pick<AppLoadContext, "env" | "requestId" | "clientAddress">,
  { provider, actor }: { provider: string; actor: string },
): Promise<void> {
  const { requestId, clientAddress: ip } = context;
  if (!isConfigured(context, provider)) {
    throw problem("INVALID_REQUEST", { requestId, detail: "This provider’s costs aren’t imported automatically." });
  }
  const change = { provider, actor, reason: "Import now", requestId, ip };
  const schema = z.object({ refused: z.literal("forbidden").optional() });
  const { refused } = await callFunction(context, { name: "private.request_cost_import", args: { change }, schema });
  if (refused) throw problem("FORBIDDEN", { requestId, detail: "You can’t import costs into the platform’s books." });
}

function isConfigured({ env }: Pick<AppLoadContext, "env">, id: string): boolean {
  return costSources(env).some(({ provider }) => provider.id === id);
}
