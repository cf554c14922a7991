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
 * @param stated the limits that the sources state for each model
 */
export function proposeLimits(
  models: readonly { model: string; limits: Limits | null }[],
  stated: ReadonlyMap<string, readonly SourceLimits[]>,
): ProposedLimits[] {
  const catalogue = new Map(models.map(({ model, limits }) => [model, limits]));
  return [...catalogue].flatMap(([model, known]) => {
    const found = stated.get(model) ?? [];
    if (!known || found.length === 0) return [];
    const outputLimit = known.outputLimit ?? least(found.flatMap((each) => each.outputLimit ?? []));
    const proposed = {
      contextWindow: known.contextWindow ?? largest(found.flatMap((each) => each.contextWindow ?? [])),
      outputLimit,
      defaultOutputLimit:
        outputLimit === null
          ? known.defaultOutputLimit
          : Math.min(known.defaultOutputLimit ?? maxDefaultOutput, outputLimit),
    };
    const isNew = (Object.keys(proposed) as (keyof Limits)[]).some((name) => proposed[name] !== known[name]);
    return isNew ? [{ model, ...proposed }] : [];
  });
}

function least(values: readonly number[]): number | null {
  return values.length > 0 ? Math.min(...values) : null;
}

function largest(values: readonly number[]): number | null {
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
  const stated = Object.entries(limits).flatMap(([name, value]) => (value === null ? [] : [[name, String(value)]]));
  return { model, ...Object.fromEntries(stated) };
}

/** Describes limits: "context window 128,000, output limit 16,384, default output 16,384". */
export function limitsText({ contextWindow, outputLimit, defaultOutputLimit }: Limits): string {
  const named = [
    ["context window", contextWindow],
    ["output limit", outputLimit],
    ["default output limit", defaultOutputLimit],
  ] as const;
  return named.flatMap(([name, value]) => (value === null ? [] : `${name} ${value.toLocaleString("en")}`)).join(", ");
}
