import { createHash } from "node:crypto";
import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";
import { pageOf, positionOf, readKeyCursor, writeKeyCursor } from "../../http/list-page.ts";
import { readStudio } from "../studio-reader.ts";
import type { AiPolicy } from "./ai-policy.ts";

const frame = z.object({
  outcome: z.literal("read"),
  plan: z.string().nullable(),
  requestsPerMinute: z.number().nullable(),
  tokensPerMinute: z.number().nullable(),
  models: z.array(
    z.object({
      id: z.string(),
      name: z.string(),
      kind: z.enum(["chat", "embedding", "speech"]),
      /** Whether the plan, or a grant to this workspace alone, allows it. */
      granted: z.boolean(),
    }),
  ),
});

/** What a workspace's policy can choose from, and what its plan sets. */
export type PolicyFrame = Omit<z.infer<typeof frame>, "outcome">;

/** @throws Response 403 FORBIDDEN, 503 UNAVAILABLE */
export async function readPolicyFrame(
  context: AppLoadContext,
  member: { userId: string; workspaceId: string },
): Promise<PolicyFrame> {
  const reader = { kind: "member", ...member } as const;
  const { outcome: _, ...read } = await readStudio(context, {
    reader,
    name: "read_policy_options",
    args: {},
    schema: frame,
  });
  return read;
}

export type ModelChoice = "allow" | "deny" | "";

export interface ModelRow {
  id: string;
  name: string;
  /** Null: in the catalogue no longer. */
  kind: PolicyFrame["models"][number]["kind"] | null;
  granted: boolean;
  choice: ModelChoice;
  /** The form's field of it. */
  field: string;
}

/** The catalogue's models with what the policy says of each; and those it names that are in the catalogue no longer. */
export function modelRows(
  { models }: PolicyFrame,
  policy: Pick<AiPolicy, "allowedModels" | "deniedModels">,
): ModelRow[] {
  const known = new Set(models.map(({ id }) => id));
  const named = [...new Set([...(policy.allowedModels ?? []), ...policy.deniedModels])];
  const gone = named.filter((id) => !known.has(id)).map((id) => ({ id, name: id, kind: null, granted: false }));
  const choice = (id: string): ModelChoice =>
    policy.deniedModels.includes(id) ? "deny" : policy.allowedModels?.includes(id) ? "allow" : "";
  return [...models, ...gone].map((model) => ({ ...model, choice: choice(model.id), field: modelField(model.id) }));
}

const modelsShown = 25;

/**
 * A page of the models that match a term, those that can be used or have a rule first.
 * @throws Response 400 INVALID_REQUEST for a cursor that is none of ours
 */
export function pageOfRows(
  rows: readonly ModelRow[],
  { term, cursor, requestId }: { term: string; cursor: string | null; requestId: string },
): { rows: ModelRow[]; count: number; nextCursor: string | null } {
  const holds = (text: string) => text.toLowerCase().includes(term.toLowerCase());
  const found = rows
    .filter(({ id, name }) => holds(id) || holds(name))
    .toSorted((a, b) => Number(isUsed(b)) - Number(isUsed(a)));
  const read = (text: string) => readKeyCursor(text, { length: 1 });
  const [last] = positionOf(cursor, { read, requestId }) ?? [];
  const start = found.findIndex(({ id }) => id === last) + 1;
  const { records, nextCursor } = pageOf(found.slice(start), {
    limit: modelsShown,
    cursorOf: ({ id }) => writeKeyCursor([id]),
  });
  return { rows: records, count: found.length, nextCursor };
}

/** Whether a model is one that the plan grants or the policy names. */
function isUsed({ granted, choice }: Pick<ModelRow, "granted" | "choice">): boolean {
  return granted || choice !== "";
}

/** A plain name for a model's field, which its id, with dots and slashes, is not. */
function modelField(id: string): string {
  return `model_${createHash("sha256").update(id).digest("hex").slice(0, 24)}`;
}
