import { z } from "zod";
import type { KindName, ProviderKind } from "../../../supabase/functions/_gateway/providers/kinds/kind.ts";
import { kinds } from "../../../supabase/functions/_gateway/providers/kinds/registry.ts";

const entries = z.array(
  z.object({
    id: z.string().optional(),
    name: z.string().optional(),
    aliases: z.array(z.string()).nullish(),
    owned_by: z.string().nullish(),
  }),
);
/** Ollama returns `data: null` if it has no model. */
const list = z.union([
  entries.transform((models) => ({ shape: "array" as const, models })),
  z.object({ data: entries.nullable() }).transform(({ data }) => ({ shape: "data" as const, models: data ?? [] })),
  z.object({ models: entries }).transform(({ models }) => ({ shape: "models" as const, models })),
]);

/**
 * The contents of a model list. The shape `models` is used by Ollama, by Gemini's own list and by xAI's list with
 * aliases.
 */
export type ModelList = { shape: "array" | "data" | "models"; names: string[]; owners: Set<string> };

/** Reads a model list in the format of any provider kind. Returns undefined for anything else. */
export function readModelList(body: unknown): ModelList | undefined {
  const { data } = list.safeParse(body);
  return (
    data && {
      shape: data.shape,
      names: data.models.flatMap(({ id, name, aliases }) => [id ?? name ?? [], aliases ?? []].flat()),
      owners: new Set(data.models.flatMap(({ owned_by: owner }) => owner ?? [])),
    }
  );
}

/**
 * Returns the kind that a model list suggests. Returns undefined if that is the configured kind, or if the list
 * suggests none.
 */
export function otherKind({ shape, names, owners }: ModelList, { name, models }: ProviderKind): KindName | undefined {
  if (shape === "models") return names.some((model) => model.startsWith("models/")) ? "gemini" : "ollama";
  if ((shape === "array") !== (models.array ?? false)) return shape === "array" ? "together" : "openai-compatible";
  if (!models.owners || models.owners.some((owner) => owners.has(owner))) return undefined;
  const other = kindOf({ owners });
  return other === name ? undefined : other;
}

/** Returns the kind whose models have these owners. */
export function kindOf({ owners }: Pick<ModelList, "owners">): KindName | undefined {
  return Object.values(kinds).find(({ models }) => models.owners?.some((owner) => owners.has(owner)))?.name;
}
