import type { AppLoadContext } from "@remix-run/node";
import { listPlaygroundModels } from "../playground/list-models.ts";
import type { KeySummary } from "./key-schema.ts";

/** The placeholder in snippets if no model is known. */
const unknownModel = "MODEL_ID";

/** Returns a chat model that a new key can call, so that the snippets next to the key work unchanged. */
export async function sampleModel(
  context: AppLoadContext,
  { key, workspaceId, signal }: { key: Pick<KeySummary, "allowedModels">; workspaceId: string; signal: AbortSignal },
): Promise<string> {
  const models = await listPlaygroundModels(context, { workspaceId, signal });
  const own = models?.find(({ id, isChat }) => isChat && (key.allowedModels?.includes(id) ?? true));
  return own?.id ?? key.allowedModels?.[0] ?? unknownModel;
}
