import { createHash } from "node:crypto";
import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";
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

/** A plain name for a model's field, which its id, with dots and slashes, is not. */
function modelField(id: string): string {
  return `model_${createHash("sha256").update(id).digest("hex").slice(0, 24)}`;
}
