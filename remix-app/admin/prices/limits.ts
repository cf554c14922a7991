import { z } from "zod";
import type { SourceLimits } from "./price-source.ts";

/** The largest default output limit that the catalogue accepts. */
export const maxDefaultOutput = 32_768;

const tokens = z.number().int().min(1).max(2_147_483_647);

/** The limits of a model in tokens; null if the catalogue has none. */
export const limitsSchema = z.object({
  contextWindow: tokens.nullable(),
  outputLimit: tokens.nullable(),
  defaultOutputLimit: tokens.max(maxDefaultOutput).nullable(),
});
export type Limits = z.output<typeof limitsSchema>;

/** The limits of a model in the catalogue, completed from the sources. */
export type ProposedLimits = Limits & { model: string };

/**
 * Proposes the limits that the catalogue does not have. If a model's routes or the sources differ, proposes the lowest
 * output limit, which every route accepts, and the largest context window, because tokens beyond it are not charged.
 * A missing default output limit is the output limit, at most 32,768.
 * @param sourceLimits the limits that the sources state for each model
 */
export function proposeLimits(
  models: readonly { model: string; limits: Limits | null }[],
  sourceLimits: ReadonlyMap<string, readonly SourceLimits[]>,
): ProposedLimits[] {
  const catalogue = new Map(models.map(({ model, limits }) => [model, limits]));
  return [...catalogue].flatMap(([model, catalogued]) => {
    const offered = sourceLimits.get(model) ?? [];
    if (!catalogued || offered.length === 0) return [];
    const outputLimit = catalogued.outputLimit ?? minOrNull(offered.flatMap((each) => each.outputLimit ?? []));
    const proposed = {
      contextWindow: catalogued.contextWindow ?? maxOrNull(offered.flatMap((each) => each.contextWindow ?? [])),
      outputLimit,
      defaultOutputLimit:
        outputLimit === null
          ? catalogued.defaultOutputLimit
          : Math.min(catalogued.defaultOutputLimit ?? maxDefaultOutput, outputLimit),
    };
    const isNew = (Object.keys(proposed) as (keyof Limits)[]).some((name) => proposed[name] !== catalogued[name]);
    return isNew ? [{ model, ...proposed }] : [];
  });
}

function minOrNull(values: readonly number[]): number | null {
  return values.length > 0 ? Math.min(...values) : null;
}

function maxOrNull(values: readonly number[]): number | null {
  return values.length > 0 ? Math.max(...values) : null;
}

/** Reads proposed limits from the query of a model's edit page. Ignores invalid values. */
export function readProposedLimits(query: URLSearchParams): Partial<Limits> {
  const entries = Object.keys(limitsSchema.shape).map((name) => [name, Number(query.get(name) ?? Number.NaN)]);
  const { data = {} } = limitsSchema.partial().safeParse(Object.fromEntries(entries.filter(([, value]) => value)));
  return data;
}

/** Returns the query parameters that {@link readProposedLimits} reads. */
export function limitsQuery({ model, ...limits }: ProposedLimits): Record<string, string> {
  const entries = Object.entries(limits).flatMap(([name, value]) => (value === null ? [] : [[name, String(value)]]));
  return { model, ...Object.fromEntries(entries) };
}

/** Describes limits: "context window 128,000, output limit 16,384, default output 16,384". */
export function limitsText({ contextWindow, outputLimit, defaultOutputLimit }: Limits): string {
  const labelled = [
    ["context window", contextWindow],
    ["output limit", outputLimit],
    ["default output limit", defaultOutputLimit],
  ] as const;
  return labelled
    .flatMap(([name, value]) => (value === null ? [] : `${name} ${value.toLocaleString("en")}`))
    .join(", ");
}
