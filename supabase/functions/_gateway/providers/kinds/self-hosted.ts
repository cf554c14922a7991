import { chatEndpoint, embeddingsEndpoint, modelList, type ProviderKind, responsesEndpoint } from "./kind.ts";

const selfHosted = {
  keyRequired: false,
  endpoints: { chat: chatEndpoint, responses: responsesEndpoint, embeddings: embeddingsEndpoint },
  basePath: "/v1",
  outputLimit: "max_tokens",
  leftOut: [],
} as const;

/**
 * Any other server with an OpenAI-compatible API. It gets only the client's fields and an output limit, because a
 * strict server could refuse anything else.
 */
export const openaiCompatible: ProviderKind = {
  ...selfHosted,
  name: "openai-compatible",
  models: { ...modelList, optional: true },
  streamOptions: [],
};

/** https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html */
export const vllm: ProviderKind = {
  ...selfHosted,
  name: "vllm",
  models: { ...modelList, owners: ["vllm"] },
  streamOptions: ["include_usage"],
  passes: ["chat_template_kwargs", "min_p", "repetition_penalty", "stop_token_ids", "top_k"],
};

/**
 * llama.cpp's server (https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md). The list of models is
 * public (get_public_endpoints of tools/server/server-http.cpp). A server with one model uses it for any name.
 */
export const llamaCpp: ProviderKind = {
  ...selfHosted,
  name: "llama-cpp",
  models: { ...modelList, public: true, owners: ["llamacpp"], incomplete: true },
  streamOptions: ["include_usage"],
  passes: ["chat_template_kwargs", "min_p", "repeat_penalty", "top_k"],
};

/**
 * Ollama (https://docs.ollama.com/api/openai-compatibility). A name without a tag means the tag `latest`. `owned_by` is
 * the name's namespace (ToListCompletion of github.com/ollama/ollama, openai/openai.go). Ollama doesn't check keys.
 */
export const ollama: ProviderKind = {
  ...selfHosted,
  name: "ollama",
  models: {
    ...modelList,
    public: true,
    owners: ["library"],
    spell: (model) => (/:[^/]*$/.test(model) ? model : `${model}:latest`),
  },
  streamOptions: ["include_usage"],
};
