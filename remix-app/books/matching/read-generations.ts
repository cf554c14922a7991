import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import type { StudioMember } from "../../studio/studio-reader.ts";
import { amountText } from "../../ui/format-amount.ts";
import { openRouter } from "../importer/openrouter.ts";
import { callGenerations, findSource } from "./fetch-generations.ts";

/** How many runs a page lists. */
const pageRuns = 50;

const count = z.number().int();

/** What a run at OpenRouter is, compared with OpenRouter's answers about its calls, in the order in which they are shown. */
const generationStates = ["differs", "unknown", "unnamed", "pending", "equal"] as const;
export type GenerationState = (typeof generationStates)[number];

const stateFigures = z.object({
  state: z.enum(generationStates),
  runs: count,
  calls: count,
  /** The calls with a generation id. */
  named: count,
  /** The calls without an answer. */
  pending: count,
  /** The calls that OpenRouter doesn't know. */
  unknown: count,
  meteredUsd: amountText,
  chargedUsd: amountText,
  /** What another provider charged own keys, which neither OpenRouter's charge nor its bill contains; null without such calls. */
  ownKeyUsd: amountText.nullable(),
});
export type GenerationFigures = z.output<typeof stateFigures>;

const generationRun = z.object({
  runId: z.uuid(),
  createdAt: z.string(),
  workspaceId: z.uuid(),
  /** Null if the workspace was deleted. */
  workspaceName: z.string().nullable(),
  modelId: z.string(),
  state: z.enum(generationStates),
  calls: count,
  meteredUsd: amountText,
  chargedUsd: amountText,
  differenceUsd: amountText,
  ownKeyUsd: amountText.nullable(),
});
export type GenerationRun = z.output<typeof generationRun>;

export const comparisonSchema = z.object({
  outcome: z.literal("compared"),
  asOf: z.string(),
  states: z.array(stateFigures),
  runs: z.array(generationRun),
  /** The runs of all pages. */
  total: count,
});

/** A UTC day's runs compared with what OpenRouter charged for their calls. */
export type GenerationComparison = Omit<z.output<typeof comparisonSchema>, "outcome"> & {
  /** How many runs the pages before this one list. */
  skipped: number;
  /** The setting that this server lacks to ask OpenRouter. */
  missingKey: string | null;
};

/**
 * Compares a UTC day's runs with what OpenRouter answered about their calls. The query parameter `runs` says how many
 * runs earlier pages list.
 * @throws Response 403 FORBIDDEN, 503 UNAVAILABLE
 */
export async function readGenerations(
  context: AppLoadContext,
  { reader: member, day, url }: { reader: StudioMember; day: string; url: URL },
): Promise<GenerationComparison> {
  const page = z.coerce
    .number()
    .int()
    .min(0)
    .max(1_000_000)
    .safeParse(url.searchParams.get("runs") ?? 0);
  const skipped = page.data ?? 0;
  const args = { of_day: day, max_runs: pageRuns, skipped_runs: skipped };
  const call = { member, name: "read_generation_costs", args, schema: comparisonSchema };
  const { outcome: _, ...comparison } = await callGenerations(context, call);
  return { ...comparison, skipped, missingKey: findSource(context) ? null : openRouter.settings.key };
}
