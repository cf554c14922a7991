/** USD per million tokens of the model that the usages below are charged by. */
export const prices = { input: "2", cached_input: "0.2", output: "8", audio_input: "40" } as const;

/** A usage as a provider states it, where that is documented, and what it costs at {@link prices}. */
export type StatedUsage = {
  from: string;
  source: string;
  usage: object;
  counts: { input: number; cached?: number; output: number; reasoning?: number };
  usd: string;
};

/** Usages of chat completions. */
export const chatUsages: readonly StatedUsage[] = [
  {
    from: "OpenAI: cached tokens are part of the prompt",
    source: "https://developers.openai.com/api/docs/guides/prompt-caching",
    usage: {
      prompt_tokens: 2006,
      completion_tokens: 300,
      total_tokens: 2306,
      prompt_tokens_details: { cached_tokens: 1920 },
    },
    counts: { input: 2006, cached: 1920, output: 300 },
    usd: "0.002956",
  },
  {
    from: "OpenAI: cache writes are part of the prompt, reasoning of the completion",
    source: "https://github.com/dotnet/extensions/issues/7635",
    usage: {
      prompt_tokens: 9657,
      completion_tokens: 78,
      total_tokens: 9735,
      prompt_tokens_details: { cached_tokens: 0, cache_write_tokens: 9654, audio_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 37, audio_tokens: 0, accepted_prediction_tokens: 0 },
    },
    counts: { input: 9657, output: 78, reasoning: 37 },
    usd: "0.019938",
  },
  {
    from: "OpenAI: audio is part of the prompt",
    source: "https://platform.openai.com/docs/api-reference/chat/object",
    usage: {
      prompt_tokens: 170,
      completion_tokens: 20,
      total_tokens: 190,
      prompt_tokens_details: { cached_tokens: 0, audio_tokens: 150, text_tokens: 20 },
    },
    counts: { input: 170, output: 20 },
    usd: "0.0062",
  },
  {
    from: "OpenRouter: cache writes are part of the prompt",
    source: "https://openrouter.ai/docs/use-cases/usage-accounting",
    usage: {
      prompt_tokens: 8000,
      completion_tokens: 100,
      total_tokens: 8100,
      cost: 0.95,
      cost_details: { upstream_inference_cost: 19 },
      prompt_tokens_details: { cached_tokens: 0, cache_write_tokens: 7900 },
    },
    counts: { input: 8000, output: 100 },
    usd: "0.0168",
  },
  {
    from: "Portkey in front of Anthropic: cache writes are counted apart",
    source: "https://github.com/Portkey-AI/gateway/blob/main/src/providers/anthropic/chatComplete.ts",
    usage: {
      prompt_tokens: 400,
      completion_tokens: 25,
      total_tokens: 12425,
      cache_read_input_tokens: 0,
      cache_creation_input_tokens: 12000,
    },
    counts: { input: 12400, output: 25 },
    usd: "0.025",
  },
  {
    from: "Portkey in front of Anthropic: cache reads are counted apart, though they would fit into the prompt",
    source: "https://github.com/Portkey-AI/gateway/blob/main/src/providers/anthropic/chatComplete.ts",
    usage: {
      prompt_tokens: 3000,
      completion_tokens: 25,
      total_tokens: 5520,
      cache_read_input_tokens: 2495,
      cache_creation_input_tokens: 0,
    },
    counts: { input: 5495, cached: 2495, output: 25 },
    usd: "0.006699",
  },
  {
    from: "Portkey in front of Anthropic: cache reads and writes are counted apart",
    source: "https://github.com/Portkey-AI/gateway/blob/main/src/providers/anthropic/chatComplete.ts",
    usage: {
      prompt_tokens: 12,
      completion_tokens: 25,
      total_tokens: 5037,
      cache_read_input_tokens: 2000,
      cache_creation_input_tokens: 3000,
    },
    counts: { input: 5012, cached: 2000, output: 25 },
    usd: "0.006624",
  },
  {
    from: "LiteLLM in front of Anthropic: everything is part of the prompt",
    source: "https://github.com/BerriAI/litellm/issues/11364",
    usage: {
      total_tokens: 103925,
      prompt_tokens: 98805,
      completion_tokens: 5120,
      prompt_tokens_details: {
        text_tokens: null,
        audio_tokens: null,
        image_tokens: null,
        cached_tokens: 66360,
        cache_creation_tokens: 32435,
      },
      cache_read_input_tokens: 66360,
      completion_tokens_details: { text_tokens: null, audio_tokens: null, reasoning_tokens: 1710 },
      cache_creation_input_tokens: 32435,
    },
    counts: { input: 98805, cached: 66360, output: 5120, reasoning: 1710 },
    usd: "0.119122",
  },
  {
    from: "LiteLLM in front of Bedrock: cache reads are part of the prompt, writes are not",
    source: "https://github.com/BerriAI/litellm/issues/15270",
    usage: {
      prompt_tokens: 2010,
      completion_tokens: 50,
      total_tokens: 5060,
      prompt_tokens_details: { cached_tokens: 2000 },
      cache_read_input_tokens: 2000,
      cache_creation_input_tokens: 3000,
    },
    counts: { input: 5010, cached: 2000, output: 50 },
    usd: "0.00682",
  },
  {
    from: "Anthropic's convention behind OpenAI's names: more is cached than the prompt has",
    source: "https://github.com/Helicone/helicone/pull/5652",
    usage: { prompt_tokens: 100, completion_tokens: 50, prompt_tokens_details: { cached_tokens: 5000 } },
    counts: { input: 5100, cached: 5000, output: 50 },
    usd: "0.0016",
  },
  {
    from: "Qwen: cache writes are details of the prompt",
    source: "https://github.com/langchain4j/langchain4j-community/issues/788",
    usage: {
      prompt_tokens: 1500,
      completion_tokens: 100,
      total_tokens: 1600,
      prompt_tokens_details: {
        cached_tokens: 0,
        cache_creation_input_tokens: 1152,
        cache_creation: { ephemeral_5m_input_tokens: 1152 },
        cache_type: "ephemeral",
      },
    },
    counts: { input: 1500, output: 100 },
    usd: "0.0038",
  },
  {
    from: "DeepSeek: cache hits and misses are the prompt",
    source: "https://api-docs.deepseek.com/guides/kv_cache",
    usage: {
      prompt_tokens: 1000,
      completion_tokens: 100,
      total_tokens: 1100,
      prompt_cache_hit_tokens: 900,
      prompt_cache_miss_tokens: 100,
    },
    counts: { input: 1000, cached: 900, output: 100 },
    usd: "0.00118",
  },
  {
    from: "Moonshot: cached tokens are not among the details",
    source: "https://github.com/vercel/ai/pull/12352",
    usage: { prompt_tokens: 1000, completion_tokens: 100, total_tokens: 1100, cached_tokens: 900 },
    counts: { input: 1000, cached: 900, output: 100 },
    usd: "0.00118",
  },
  {
    from: "Mistral: cached tokens, and no total",
    source: "https://github.com/symfony/ai/pull/2343",
    usage: { prompt_tokens: 801, completion_tokens: 2, prompt_tokens_details: { cached_tokens: 768 } },
    counts: { input: 801, cached: 768, output: 2 },
    usd: "0.0002356",
  },
  {
    from: "Mistral: cached tokens by their other names",
    source: "https://github.com/vercel/ai/pull/14889",
    usage: {
      prompt_tokens: 801,
      completion_tokens: 2,
      total_tokens: 803,
      num_cached_tokens: 768,
      prompt_token_details: { cached_tokens: 768 },
      prompt_audio_seconds: {},
    },
    counts: { input: 801, cached: 768, output: 2 },
    usd: "0.0002356",
  },
  {
    from: "xAI: reasoning is counted apart, cached tokens are part of the prompt",
    source: "https://github.com/Wei-Shaw/sub2api/issues/5771",
    usage: {
      prompt_tokens: 10120,
      completion_tokens: 1499,
      total_tokens: 14428,
      prompt_tokens_details: { cached_tokens: 128 },
      completion_tokens_details: { reasoning_tokens: 2809 },
      cost_in_usd_ticks: 232856000,
    },
    counts: { input: 10120, cached: 128, output: 4308, reasoning: 2809 },
    usd: "0.0544736",
  },
  {
    from: "xAI: more reasoning than completion, and no total",
    source: "https://github.com/UKGovernmentBEIS/inspect_ai/issues/5528",
    usage: { prompt_tokens: 17, completion_tokens: 34, completion_tokens_details: { reasoning_tokens: 448 } },
    counts: { input: 17, output: 482, reasoning: 448 },
    usd: "0.00389",
  },
  {
    from: "Gemini: thoughts are in the total alone",
    source: "https://github.com/Clarifai/clarifai-python/pull/978",
    usage: { prompt_tokens: 20, completion_tokens: 424, total_tokens: 1016 },
    counts: { input: 20, output: 996, reasoning: 572 },
    usd: "0.008008",
  },
  {
    from: "Groq: times next to the counts",
    source: "https://console.groq.com/docs/api-reference",
    usage: {
      queue_time: 0.265612444,
      prompt_tokens: 41,
      prompt_time: 0.012792436,
      completion_tokens: 27,
      completion_time: 0.055172062,
      total_tokens: 68,
      total_time: 0.067964498,
    },
    counts: { input: 41, output: 27 },
    usd: "0.000298",
  },
  {
    from: "Perplexity: reasoning is counted and charged apart, next to the counts",
    source: "https://docs.perplexity.ai/getting-started/models/models/sonar-deep-research",
    usage: {
      prompt_tokens: 33,
      completion_tokens: 7163,
      total_tokens: 7196,
      citation_tokens: 20016,
      num_search_queries: 18,
      reasoning_tokens: 73997,
      search_context_size: "low",
      cost: { input_tokens_cost: 0.000066, output_tokens_cost: 0.057304, reasoning_tokens_cost: 0.221991 },
    },
    counts: { input: 33, output: 81160, reasoning: 73997 },
    usd: "0.649346",
  },
  {
    from: "a proxy that fills in responses' names with zeros",
    source: "https://github.com/QuantumNous/new-api/blob/main/dto/openai_response.go",
    usage: {
      prompt_tokens: 1000,
      completion_tokens: 100,
      total_tokens: 1100,
      prompt_tokens_details: { cached_tokens: 0, cached_creation_tokens: 0, text_tokens: 0 },
      completion_tokens_details: { text_tokens: 0, audio_tokens: 0, reasoning_tokens: 0 },
      input_tokens: 0,
      output_tokens: 0,
      input_tokens_details: null,
    },
    counts: { input: 1000, output: 100 },
    usd: "0.0028",
  },
  {
    from: "a proxy whose details are lists, as Gemini's are",
    source: "https://github.com/langfuse/langfuse/issues/4961",
    usage: {
      prompt_tokens: 1000,
      completion_tokens: 100,
      total_tokens: 1100,
      prompt_tokens_details: [{ modality: 1, token_count: 1000 }],
      completion_tokens_details: [],
    },
    counts: { input: 1000, output: 100 },
    usd: "0.0028",
  },
];

/** Usages of responses. */
export const responseUsages: readonly StatedUsage[] = [
  {
    from: "OpenAI: cache writes are part of the input",
    source: "https://github.com/laravel/ai/pull/846",
    usage: {
      input_tokens: 18014,
      output_tokens: 42,
      total_tokens: 18056,
      input_tokens_details: { cache_write_tokens: 18011, cached_tokens: 0 },
      output_tokens_details: { reasoning_tokens: 25 },
    },
    counts: { input: 18014, output: 42, reasoning: 25 },
    usd: "0.036364",
  },
  {
    from: "OpenAI: cache reads are part of the input",
    source: "https://github.com/laravel/ai/pull/846",
    usage: {
      input_tokens: 18014,
      output_tokens: 42,
      total_tokens: 18056,
      input_tokens_details: { cache_write_tokens: 0, cached_tokens: 18011 },
    },
    counts: { input: 18014, cached: 18011, output: 42 },
    usd: "0.0039442",
  },
  {
    from: "Anthropic's convention: cache reads and writes are counted apart",
    source: "https://platform.claude.com/docs/en/build-with-claude/prompt-caching",
    usage: {
      input_tokens: 12,
      output_tokens: 25,
      cache_read_input_tokens: 2000,
      cache_creation_input_tokens: 3000,
    },
    counts: { input: 5012, cached: 2000, output: 25 },
    usd: "0.006624",
  },
];
