import type { AppLoadContext } from "@remix-run/server-runtime";
import { listPlaygroundModels } from "../playground/list-models.ts";
import type { KeySummary } from "./key-schema.ts";

/** Stands in the snippets where nobody could say which model there is. */
const unknownModel = "MODEL_ID";

/** A chat model that a new key can call, for the snippets beside it: what they say runs as it stands. */
export async function sampleModel(
  context: AppLoadContext,
  { key, workspaceId, signal }: { key: Pick<KeySummary, "allowedModels">; workspaceId: string; signal: AbortSignal },
): Promise<string> {
  const models = await listPlaygroundModels(context, { workspaceId, signal });
  const own = models?.find(({ id, isChat }) => isChat && (key.allowedModels?.includes(id) ?? true));
  return own?.id ?? key.allowedModels?.[0] ?? unknownModel;
}
