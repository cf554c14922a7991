import { chat, embeddings, type ProviderKind, responses } from "./kind.ts";

const selfHosted = {
  keyRequired: false,
  endpoints: { chat, responses, embeddings },
  outputLimit: "max_tokens",
  leftOut: [],
} as const;

/**
 * Any other server that speaks OpenAI's API. It is sent what the client sent and a limit of its output, and nothing
 * that a strict server could refuse.
 */
export const openaiCompatible: ProviderKind = { ...selfHosted, name: "openai-compatible", streamOptions: [] };

/** https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html */
export const vllm: ProviderKind = { ...selfHosted, name: "vllm", streamOptions: ["include_usage"] };

/** https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md */
export const llamaCpp: ProviderKind = { ...selfHosted, name: "llama-cpp", streamOptions: ["include_usage"] };

/** https://docs.ollama.com/api/openai-compatibility */
export const ollama: ProviderKind = { ...selfHosted, name: "ollama", streamOptions: ["include_usage"] };
