import { chatEndpoint, embeddingsEndpoint, type ProviderKind, responsesEndpoint } from "./kind.ts";

const keyHeader = "api-key";

/**
 * Azure OpenAI. The v1 API has OpenAI's paths below `/openai/v1` and needs no version
 * (https://learn.microsoft.com/azure/foundry/openai/api-version-lifecycle). The classic API has the deployment in the
 * path, except in its Responses API (openai-python, lib/azure.py, `_deployments_endpoints`), and needs `api-version`.
 *
 * Azure lists the region's models. Only the management API lists the resource's deployments
 * (github.com/openai/openai-python/discussions/920). A call to a missing deployment gets 404 `DeploymentNotFound`
 * (github.com/MicrosoftDocs/azure-docs/issues/114013).
 */
export const azure: ProviderKind = {
  name: "azure",
  keyRequired: true,
  endpoints: {
    chat: { ...chatEndpoint, keyHeader },
    responses: { ...responsesEndpoint, keyHeader },
    embeddings: { ...embeddingsEndpoint, keyHeader },
  },
  models: { paths: [] },
  basePath: "/openai/v1",
  versionedEndpoints: {
    chat: { path: "/openai/deployments/{model}/chat/completions", keyHeader },
    responses: { path: "/openai/responses", keyHeader },
    embeddings: { path: "/openai/deployments/{model}/embeddings", keyHeader },
  },
  outputLimit: "max_completion_tokens",
  streamOptions: ["include_usage", "include_obfuscation"],
  leftOut: ["metadata"],
  turn: { message: ["name", "refusal"], toolCall: [] },
};
