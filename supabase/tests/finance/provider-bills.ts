/** A line of a bill: identical calls, and their total cost. */
export type BillLine = {
  name: string;
  calls: number;
  model: string;
  usage: object;
  /** The requested tier, and the tier in the answer. */
  tier?: [asked: string, served: string];
  stream?: boolean;
  usd: string;
};

export type Bill = { provider: string; accountId?: string; lines: BillLine[]; totalUsd: string };

/**
 * The bills of a month, calculated by hand. Tokens × USD per million tokens is a call's cost in millionths of USD,
 * which is then multiplied by the number of calls. The list prices:
 *
 * | model               | input | cache read | cache write | output | other                                      |
 * |---------------------|-------|------------|-------------|--------|--------------------------------------------|
 * | gpt-5.6-terra       | 2.50  | 0.25       | 3.125       | 15     |                                            |
 * | gpt-5.4             | 2.50  | 0.25       | –           | 15     | priority: 5, 0.50 and 30                   |
 * | deepseek-chat       | 0.56  | 0.07       | –           | 1.68   |                                            |
 * | sonar               | 1     | –          | –           | 1      | 1,000 requests with low context: 5         |
 * | sonar-pro           | 3     | –          | –           | 15     | with low, medium, high context: 6, 10, 14  |
 * | sonar-deep-research | 2     | –          | –           | 8      | citations 2, reasoning 3, 1,000 searches 5 |
 *
 * - https://developers.openai.com/api/docs/pricing (July 2026; a cache write is 1.25 × input)
 * - https://openai.com/api-priority-processing/ and https://developers.openai.com/api/docs/guides/priority-processing
 * (a request that is downgraded is billed as standard)
 * - https://api-docs.deepseek.com/quick_start/pricing (V3.1, September 2025)
 * - https://docs.perplexity.ai/getting-started/pricing
 */
export const bills: readonly Bill[] = [
  {
    provider: "openai",
    accountId: "acct-1",
    lines: [
      // 1,200 × 2.50 + 400 × 15 = 3,000 + 6,000 = 9,000; × 30
      { name: "plain", calls: 30, model: "gpt-5.6-terra", usage: openai({ input: 1_200, output: 400 }), usd: "0.27" },
      // 2,000 × 2.50 + 18,000 × 3.125 + 500 × 15 = 5,000 + 56,250 + 7,500 = 68,750; × 10
      {
        name: "cache-write",
        calls: 10,
        model: "gpt-5.6-terra",
        usage: openai({ input: 20_000, write: 18_000, output: 500 }),
        usd: "0.6875",
      },
      // 2,000 × 2.50 + 18,000 × 0.25 + 500 × 15 = 5,000 + 4,500 + 7,500 = 17,000; × 25
      {
        name: "cache-read",
        calls: 25,
        model: "gpt-5.6-terra",
        usage: openai({ input: 20_000, read: 18_000, output: 500 }),
        usd: "0.425",
      },
      // 2,000 × 2.50 + 16,000 × 0.25 + 6,000 × 3.125 + 1,000 × 15 = 5,000 + 4,000 + 18,750 + 15,000 = 42,750; × 8
      {
        name: "cache-both",
        calls: 8,
        model: "gpt-5.6-terra",
        usage: openai({ input: 24_000, read: 16_000, write: 6_000, output: 1_000 }),
        usd: "0.342",
      },
      // 800 × 2.50 + 3,200 × 15 = 2,000 + 48,000 = 50,000; × 12. The output includes the reasoning tokens.
      {
        name: "reasoning",
        calls: 12,
        model: "gpt-5.6-terra",
        usage: openai({ input: 800, output: 3_200, reasoning: 2_600 }),
        usd: "0.6",
      },
      // 3,000 × 5 + 2,000 × 0.50 + 600 × 30 = 15,000 + 1,000 + 18,000 = 34,000; × 10
      {
        name: "priority",
        calls: 10,
        model: "gpt-5.4",
        tier: ["priority", "priority"],
        usage: openai({ input: 5_000, read: 2_000, output: 600 }),
        usd: "0.34",
      },
      // 3,000 × 2.50 + 2,000 × 0.25 + 600 × 15 = 7,500 + 500 + 9,000 = 17,000; × 6
      {
        name: "priority-downgraded",
        calls: 6,
        model: "gpt-5.4",
        tier: ["priority", "default"],
        usage: openai({ input: 5_000, read: 2_000, output: 600 }),
        usd: "0.102",
      },
      // 1,840 × 2.50 + 250 × 15 = 4,600 + 3,750 = 8,350; × 10
      {
        name: "stream",
        calls: 10,
        model: "gpt-5.6-terra",
        stream: true,
        usage: openai({ input: 1_840, output: 250 }),
        usd: "0.0835",
      },
    ],
    // 0.27 + 0.6875 + 0.425 + 0.342 + 0.6 + 0.34 + 0.102 + 0.0835
    totalUsd: "2.85",
  },
  {
    provider: "deepseek",
    lines: [
      // 1,000 × 0.56 + 500 × 1.68 = 560 + 840 = 1,400; × 20
      { name: "miss", calls: 20, model: "deepseek-chat", usage: deepseek({ miss: 1_000, output: 500 }), usd: "0.028" },
      // 9,000 × 0.07 + 1,000 × 0.56 + 400 × 1.68 = 630 + 560 + 672 = 1,862; × 30
      {
        name: "hit-and-miss",
        calls: 30,
        model: "deepseek-chat",
        usage: deepseek({ hit: 9_000, miss: 1_000, output: 400 }),
        usd: "0.05586",
      },
      // 60,800 × 0.07 + 3,200 × 0.56 + 1,500 × 1.68 = 4,256 + 1,792 + 2,520 = 8,568; × 15
      {
        name: "long",
        calls: 15,
        model: "deepseek-chat",
        usage: deepseek({ hit: 60_800, miss: 3_200, output: 1_500 }),
        usd: "0.12852",
      },
      // 2,000 × 0.56 + 6,000 × 1.68 = 1,120 + 10,080 = 11,200; × 10. The output tokens include the reasoning tokens.
      {
        name: "reasoning",
        calls: 10,
        model: "deepseek-chat",
        usage: deepseek({ miss: 2_000, output: 6_000, reasoning: 5_000 }),
        usd: "0.112",
      },
      // 2,500 × 0.07 + 2,500 × 0.56 + 800 × 1.68 = 175 + 1,400 + 1,344 = 2,919; × 12
      {
        name: "stream",
        calls: 12,
        model: "deepseek-chat",
        stream: true,
        usage: deepseek({ hit: 2_500, miss: 2_500, output: 800 }),
        usd: "0.035028",
      },
      // 84,200 × 0.07 + 1,000 × 1.68 = 5,894 + 1,680 = 7,574; × 8
      {
        name: "hit",
        calls: 8,
        model: "deepseek-chat",
        usage: deepseek({ hit: 84_200, output: 1_000 }),
        usd: "0.060592",
      },
    ],
    // 0.028 + 0.05586 + 0.12852 + 0.112 + 0.035028 + 0.060592
    totalUsd: "0.42",
  },
  {
    provider: "perplexity",
    lines: [
      // 14 + 136 + 5,000 = 5,150; × 20
      { name: "sonar", calls: 20, model: "sonar", usage: sonar({ input: 14, output: 136, size: "low" }), usd: "0.103" },
      // 100 + 560 + 5,000 = 5,660; × 10
      {
        name: "sonar-stream",
        calls: 10,
        model: "sonar",
        stream: true,
        usage: sonar({ input: 100, output: 560, size: "low" }),
        usd: "0.0566",
      },
      // 500 × 3 + 500 × 15 + 6,000 = 15,000; × 6
      {
        name: "pro-low",
        calls: 6,
        model: "sonar-pro",
        usage: sonar({ input: 500, output: 500, size: "low", cost: 0.015 }),
        usd: "0.09",
      },
      // 200 × 3 + 800 × 15 + 10,000 = 600 + 12,000 + 10,000 = 22,600; × 10
      {
        name: "pro-medium",
        calls: 10,
        model: "sonar-pro",
        usage: sonar({ input: 200, output: 800, size: "medium", cost: 0.0226 }),
        usd: "0.226",
      },
      // 1,000 × 3 + 1,000 × 15 + 14,000 = 32,000; × 5
      {
        name: "pro-high",
        calls: 5,
        model: "sonar-pro",
        usage: sonar({ input: 1_000, output: 1_000, size: "high", cost: 0.032 }),
        usd: "0.16",
      },
      // 50 × 2 + 7,000 × 8 + 20,000 × 2 + 70,000 × 3 + 18 × 5,000 = 100 + 56,000 + 40,000 + 210,000 + 90,000; × 4
      {
        name: "deep-research",
        calls: 4,
        model: "sonar-deep-research",
        usage: {
          ...sonar({ input: 50, output: 7_000, cost: 0.3961 }),
          citation_tokens: 20_000,
          reasoning_tokens: 70_000,
          num_search_queries: 18,
        },
        usd: "1.5844",
      },
    ],
    // 0.103 + 0.0566 + 0.09 + 0.226 + 0.16 + 1.5844
    totalUsd: "2.22",
  },
];

/** The price book's entries for these models; `trusts` accepts the cost that the provider reports. */
export const billedModels = [
  {
    name: "gpt-5.6-terra",
    provider: "eu_openai",
    prices: [{ input: "2.5", cached_input: "0.25", cache_write: "3.125", output: "15" }],
  },
  {
    name: "gpt-5.4",
    provider: "eu_openai",
    prices: [
      { input: "2.5", cached_input: "0.25", output: "15" },
      { tier: "priority", input: "5", cached_input: "0.5", output: "30" },
    ],
  },
  { name: "deepseek-chat", provider: "deepseek", prices: [{ input: "0.56", cached_input: "0.07", output: "1.68" }] },
  { name: "sonar", provider: "search", prices: [{ input: "1", output: "1", fee: "0.005" }] },
  { name: "sonar-pro", provider: "search", trusts: true, prices: [{ input: "3", output: "15", fee: "0.014" }] },
  {
    name: "sonar-deep-research",
    provider: "search",
    trusts: true,
    prices: [{ input: "2", output: "8", fee: "0.005" }],
  },
] as const;

/** https://developers.openai.com/api/reference/resources/chat */
function openai({ input, output, read = 0, write = 0, reasoning = 0 }: Record<string, number>): object {
  return {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: (input ?? 0) + (output ?? 0),
    prompt_tokens_details: { cached_tokens: read, cache_write_tokens: write, audio_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: reasoning, audio_tokens: 0 },
  };
}

/** https://api-docs.deepseek.com/api/create-chat-completion */
function deepseek({ hit = 0, miss = 0, output = 0, reasoning = 0 }: Record<string, number>): object {
  return {
    prompt_tokens: hit + miss,
    completion_tokens: output,
    total_tokens: hit + miss + output,
    prompt_tokens_details: { cached_tokens: hit },
    completion_tokens_details: { reasoning_tokens: reasoning },
    prompt_cache_hit_tokens: hit,
    prompt_cache_miss_tokens: miss,
  };
}

/** https://docs.perplexity.ai/api-reference/sonar-post */
function sonar({ input, output, size, cost }: { input: number; output: number; size?: string; cost?: number }): object {
  return {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    ...(size === undefined ? {} : { search_context_size: size }),
    ...(cost === undefined ? {} : { cost: { total_cost: cost } }),
  };
}
