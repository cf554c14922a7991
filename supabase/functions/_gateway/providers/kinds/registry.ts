import { anthropic } from "./anthropic.ts";
import { azure } from "./azure.ts";
import { bedrock } from "./bedrock.ts";
import { deepseek } from "./deepseek.ts";
import { gemini } from "./gemini.ts";
import { groq } from "./groq.ts";
import type { KindName, ProviderKind } from "./kind.ts";
import { mistral } from "./mistral.ts";
import { moonshot } from "./moonshot.ts";
import { openai } from "./openai.ts";
import { openrouter } from "./openrouter.ts";
import { perplexity } from "./perplexity.ts";
import { llamaCpp, ollama, openaiCompatible, vllm } from "./self-hosted.ts";
import { together } from "./together.ts";
import { xai } from "./xai.ts";

/** All kinds by name, which is the value of `AI_PROVIDER_<ID>_KIND`. */
export const kinds: Readonly<Record<KindName, ProviderKind>> = {
  openai,
  azure,
  anthropic,
  gemini,
  mistral,
  deepseek,
  groq,
  xai,
  moonshot,
  openrouter,
  together,
  perplexity,
  bedrock,
  vllm,
  "llama-cpp": llamaCpp,
  ollama,
  "openai-compatible": openaiCompatible,
};
