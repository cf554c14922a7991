import type { ProviderTarget } from "../calls/surface.ts";
import { chooseServiceTier } from "../chat/provider-request.ts";
import { stringifyWithSource } from "../http/source-json.ts";
import type { ProviderRequest } from "../providers/provider.ts";
import { tenantCacheKey } from "../requests/prompt-cache-key.ts";
import type { Responses } from "./request.ts";

/**
 * Builds the provider's request from the client's fields and the limits that the reservation is based on. Tells the
 * provider not to store the response.
 */
export function responsesProviderRequest(
  { body: clientBody, others = {}, outputLimit, stream }: Responses,
  { route, provider: { kind }, workspaceId }: Pick<ProviderTarget, "route" | "provider" | "workspaceId">,
): ProviderRequest {
  const { max_tokens, max_completion_tokens, prompt_cache_key, stream: _, stream_options, ...fields } = clientBody;
  const passedMembers =
    kind.passes?.flatMap((name) => (others[name] === undefined ? [] : [[name, others[name]]])) ?? [];
  const body = stringifyWithSource({
    ...Object.fromEntries(passedMembers),
    ...fields,
    model: route.model,
    max_output_tokens: outputLimit,
    store: false,
    service_tier: chooseServiceTier(fields, kind),
    ...(prompt_cache_key === undefined ? {} : { prompt_cache_key: tenantCacheKey(workspaceId, prompt_cache_key) }),
    ...(stream ? { stream: true, ...(stream_options ? { stream_options } : {}) } : {}),
  });
  return { endpoint: "responses", body };
}
