import { createHash } from "node:crypto";
import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { readStudio } from "../studio-reader.ts";

export const modelOptions = z.object({
  outcome: z.literal("read"),
  plan: z.string().nullable(),
  requestsPerMinute: z.number().nullable(),
  tokensPerMinute: z.number().nullable(),
  models: z.array(
    z.object({
      id: z.string(),
      name: z.string(),
      kind: z.enum(["chat", "embedding", "speech"]),
      /** Whether the plan, or a grant to this workspace only, allows the model. */
      granted: z.boolean(),
      /** Whether the workspace's policy allows the model. */
      permitted: z.boolean(),
    }),
  ),
});

/** The models that a workspace's policy and keys can select, and the limits of its plan. */
export type ModelOptions = Omit<z.infer<typeof modelOptions>, "outcome">;

/** @throws Response 403 FORBIDDEN, 503 UNAVAILABLE */
export async function readModelOptions(
  context: AppLoadContext,
  member: { userId: string; workspaceId: string },
): Promise<ModelOptions> {
  const { outcome: _, ...read } = await readStudio(context, {
    reader: member,
    name: "read_policy_options",
    args: {},
    schema: modelOptions,
  });
  return read;
}

export type ModelMark = "allow" | "deny";

export interface ModelRow {
  id: string;
  name: string;
  /** Null if the model has left the catalogue. */
  kind: ModelOptions["models"][number]["kind"] | null;
  granted: boolean;
  permitted: boolean;
}

/**
 * Returns a row for each model in the catalogue and for each model in `named` that has left the catalogue. Models that
 * the plan grants or that are in `named` come first.
 */
export function modelRows({ models }: Pick<ModelOptions, "models">, named: readonly string[]): ModelRow[] {
  const knownIds = new Set(models.map(({ id }) => id));
  const gone = [...new Set(named)]
    .filter((id) => !knownIds.has(id))
    .map((id) => ({ id, name: id, kind: null, granted: false, permitted: true }));
  const isFirst = ({ id, granted }: ModelRow) => granted || named.includes(id);
  return [...models, ...gone].toSorted((a, b) => Number(isFirst(b)) - Number(isFirst(a)));
}

/**
 * Returns the form field for a model's mark. It contains a hash of the id, because field names allow no dots or
 * slashes.
 */
export function modelField(mark: ModelMark, id: string): string {
  return `${mark}_${createHash("sha256").update(id).digest("hex").slice(0, 24)}`;
}
